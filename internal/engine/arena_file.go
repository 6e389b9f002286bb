package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ringcache/ringcache/internal/errs"
)

// The file of an arena: a head of fileHead bytes, then the chunks, each at its
// place, then the section that describes them. Only a process that ends cleanly
// writes the section, and marks the head as clean after it; the next process
// takes the mark away, and waits until the disk has it, before it serves. So a
// file with the mark is complete and nobody has served since. Everything in it
// has a checksum, since after a loss of power a disk may have a part of it.
//
//	 0 magic 16 | version 4 | state 4 | process 8 | layout 7 x 4 | reserved 4
//	64 section: place 8 | length 8 | checksum 8 | checksum of this head 8
const (
	fileMagic   = "ringcache arena\n"
	fileVersion = 1
	fileHead    = 64 << 10 // a multiple of every page size
	headLen     = 96
	maxSection  = 1 << 30

	stateInUse     = 1 // or the process ended without cleaning up
	stateClean     = 2
	stateDiscarded = 3 // ended in order, with nothing to take over
)

// fileLayout is what must be equal for one process to read what another wrote.
type fileLayout [7]uint32

var layoutNames = [...]string{"byte order", "format of records", "format of pages", "shards", "bytes of a block", "unit of locations", "chunks"}

func (e *Engine) layout() fileLayout {
	order := [4]byte{1, 2, 3, 4}
	return fileLayout{
		binary.NativeEndian.Uint32(order[:]),
		// Any change of these constants makes another format.
		headBytes | maxFreq<<8 | (31-formShift)<<12 | (31-freqShift)<<16 | (31-timeShift)<<20 | slotBits<<25,
		bucketBytes | ways<<8 | metaAt<<12 | locsAt<<16 | ghostSet<<24,
		uint32(len(e.shards)), uint32(e.arena.blockBytes), uint32(e.arena.unit), uint32(len(e.arena.free)),
	}
}

// differs says in words what is not equal.
func (l fileLayout) differs(own fileLayout) string {
	for i := range l {
		if l[i] != own[i] {
			return fmt.Sprintf("it was written with another layout: %s %d, here %d", layoutNames[i], l[i], own[i])
		}
	}
	return ""
}

type fileHeader struct {
	version, state uint32
	process        uint64
	layout         fileLayout
	place, length  uint64
	sum            uint64
}

func (h *fileHeader) encode() []byte {
	b := make([]byte, headLen)
	le := binary.LittleEndian
	copy(b, fileMagic)
	le.PutUint32(b[16:], h.version)
	le.PutUint32(b[20:], h.state)
	le.PutUint64(b[24:], h.process)
	for i, v := range h.layout {
		le.PutUint32(b[32+4*i:], v)
	}
	le.PutUint64(b[64:], h.place)
	le.PutUint64(b[72:], h.length)
	le.PutUint64(b[80:], h.sum)
	le.PutUint64(b[88:], sumOf(b[:88]))
	return b
}

func (h *fileHeader) decode(b []byte) error {
	le := binary.LittleEndian
	switch {
	case len(b) < headLen || string(b[:16]) != fileMagic:
		return errTruncated
	case le.Uint64(b[88:]) != sumOf(b[:88]):
		return errors.New("its head is damaged")
	}
	h.version, h.state, h.process = le.Uint32(b[16:]), le.Uint32(b[20:]), le.Uint64(b[24:])
	for i := range h.layout {
		h.layout[i] = le.Uint32(b[32+4*i:])
	}
	h.place, h.length, h.sum = le.Uint64(b[64:]), le.Uint64(b[72:]), le.Uint64(b[80:])
	return nil
}

// sumOf is CRC-32C, which processors compute, and the length.
func sumOf(b []byte) uint64 {
	return uint64(crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))) | uint64(len(b))<<32
}

// arenaFile is the locked file of a running engine.
type arenaFile struct {
	f    *os.File
	path string
	live bool // it is the memory of the arena itself
}

// openArenaFile opens or makes the file and locks it until close.
func openArenaFile(path string) (*arenaFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: arena file: %w", errs.ErrConfig, err)
	}
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("%w: arena file: %s is no regular file", errs.ErrConfig, path), err, f.Close())
	}
	af := &arenaFile{f: f, path: path}
	if err := lockFile(f); err != nil {
		if errors.Is(err, errLocked) {
			var h fileHeader
			who := "another process"
			if h.decode(af.head()) == nil && h.process != 0 {
				who = fmt.Sprintf("process %d", h.process)
			}
			err = fmt.Errorf("%w: arena file: %s is in use by %s: end it, or give this one another directory", errs.ErrConfig, path, who)
		} else {
			err = fmt.Errorf("%w: arena file: locking %s: %w", errs.ErrConfig, path, err)
		}
		return nil, errors.Join(err, f.Close())
	}
	af.live = livesInMemory(f)
	return af, nil
}

// head reads the head of the file, or what there is of it.
func (af *arenaFile) head() []byte {
	b := make([]byte, headLen)
	n, _ := af.f.ReadAt(b, 0) // a short head does not decode
	return b[:n]
}

// mark writes the head and waits until the disk has it.
func (af *arenaFile) mark(h fileHeader) error {
	if err := af.markSoon(h); err != nil {
		return err
	}
	return af.f.Sync()
}

// markSoon writes the head.
func (af *arenaFile) markSoon(h fileHeader) error {
	h.version, h.process = fileVersion, uint64(os.Getpid())
	_, err := af.f.WriteAt(h.encode(), 0)
	return err
}

// section reads and checks the description of the content. Its error is the
// reason to start empty.
func (af *arenaFile) section(own fileLayout) ([]byte, error) {
	b := af.head()
	switch {
	case len(bytes.Trim(b, "\x00")) == 0 && af.holdsNothing():
		return nil, errNoArena
	case !strings.HasPrefix(string(b), fileMagic):
		// Somebody else's file by mistake: it would be overwritten.
		return nil, fmt.Errorf("%w: arena file: %s is not the file of an arena: remove it, or name another", errs.ErrConfig, af.path)
	}
	var h fileHeader
	if err := h.decode(b); err != nil {
		return nil, err
	}
	if h.version != fileVersion {
		return nil, fmt.Errorf("it has version %d, this process reads %d", h.version, fileVersion)
	}
	switch h.state {
	case stateClean:
	case stateDiscarded:
		return nil, errDiscarded
	default:
		return nil, fmt.Errorf("the process before (%d) did not end cleanly", h.process)
	}
	if d := h.layout.differs(own); d != "" {
		return nil, errors.New(d)
	}
	st, err := af.f.Stat()
	if err != nil {
		return nil, err
	}
	size := uint64(st.Size())
	if h.length > maxSection || h.place > size || h.length > size-h.place {
		return nil, errTruncated
	}
	section := make([]byte, h.length)
	if _, err := af.f.ReadAt(section, int64(h.place)); err != nil {
		return nil, err
	}
	if sumOf(section) != h.sum {
		return nil, errMeta
	}
	return section, nil
}

// holdsNothing says whether the file is as short as one that a process has begun and
// not marked. Longer ones that begin with zeros are somebody's: images of disks do.
func (af *arenaFile) holdsNothing() bool {
	st, err := af.f.Stat()
	return err == nil && st.Size() <= fileHead
}

var (
	errNoArena   = errors.New("there was no arena yet")
	errDiscarded = errors.New("the process before gave its entries up")
	errAborted   = errors.New("it took too long")
	errTruncated = errors.New("it is truncated")
	errContent   = errors.New("its content is damaged")
)

func (a *arena) chunkAt(c int) []byte {
	return unsafe.Slice((*byte)(a.blockAt(uint32(c*chunkBlocks))), 1<<a.chunkShift)
}

func (a *arena) placeOf(c int) int64 { return fileHead + int64(c)<<a.chunkShift }

// load brings the chunks of an image into memory, if they are not there
// already, and checks them. Memory that is the file is read by copies all the same:
// to touch each page of a mapping costs more, and can wait for who uses it.
func (af *arenaFile) load(a *arena, chunks []keptChunk) error {
	if !af.live {
		a.widenFor(chunks)
	}
	spare := sync.Pool{New: func() any { b := make([]byte, 1<<a.chunkShift); return &b }}
	return eachChunk(chunks, nil, func(c *keptChunk) error {
		var b []byte
		if af.live {
			p := spare.Get().(*[]byte)
			defer spare.Put(p)
			b = *p
		} else {
			b = a.chunkAt(c.index)
		}
		if _, err := af.f.ReadAt(b, a.placeOf(c.index)); err != nil {
			return err
		}
		if sumOf(b) != c.sum {
			return errContent
		}
		return nil
	})
}

// store writes the chunks to the file, if they are not there already, and
// notes their checksums.
func (af *arenaFile) store(a *arena, chunks []keptChunk, until <-chan struct{}) error {
	return eachChunk(chunks, until, func(c *keptChunk) error {
		b := a.chunkAt(c.index)
		c.sum = sumOf(b)
		if af.live {
			return nil
		}
		_, err := af.f.WriteAt(b, a.placeOf(c.index))
		return err
	})
}

// maxWorkers bounds who copies chunks side by side.
const maxWorkers = 8

// eachChunk calls fn for every chunk, on as many goroutines as there are
// processors, until one fails or until is closed. They end before it returns.
func eachChunk(chunks []keptChunk, until <-chan struct{}, fn func(c *keptChunk) error) error {
	var next atomic.Int64
	var wg sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), maxWorkers, len(chunks))
	faults := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(chunks) {
					return
				}
				select {
				case <-until:
					faults[w] = errAborted
				default:
					faults[w] = fn(&chunks[i])
				}
				if faults[w] != nil {
					next.Store(int64(len(chunks)))
					return
				}
			}
		})
	}
	wg.Wait()
	for _, err := range faults {
		if err != nil {
			return err
		}
	}
	return nil
}
