package engine

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/ringcache/ringcache/internal/errs"
)

// Attachment says what New found in Options.File.
type Attachment struct {
	// Entries and Bytes (of the arena) were taken over; entries that expired
	// meanwhile are counted until they are met.
	Entries, Bytes int64
	// Note is CloseOptions.Note of the process before.
	Note []byte
	// Empty is why nothing was taken over; "" if something was, or without a
	// file. Fresh says that there was nothing to take over, so that nothing is
	// lost.
	Empty string
	Fresh bool
	// Live says that the file is the memory of the arena: it is in a file system
	// that lives in memory.
	Live bool
	// ClockBack is how far, in ms, the clock was behind the end of the process
	// before. The engine's time goes on from that end, so that nothing that had
	// expired is there again.
	ClockBack int64
}

// Attachment returns what New found in Options.File.
func (e *Engine) Attachment() Attachment { return e.found }

// Seed returns the seed of the hash: Options.Seed, or that of the process whose
// entries were taken over.
func (e *Engine) Seed() uint64 { return e.seed }

// openFile opens and locks the file before the arena is laid out.
func (e *Engine) openFile(path string) (err error) {
	if path == "" {
		return nil
	}
	if e.file, err = openArenaFile(path); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	e.found.Live = e.file.live
	e.arena.mem.share(e.file)
	return nil
}

// attach takes over what the process before left in the file, or says why it
// cannot. When it returns, the file is marked as in use. Nothing else runs yet.
func (e *Engine) attach() error {
	if e.file == nil {
		return nil
	}
	seed := e.seed
	im, err := e.takeOver()
	if errors.Is(err, errs.ErrConfig) {
		return fmt.Errorf("engine: %w", err) // the file is as it was
	}
	if err != nil {
		im = nil
		e.found.Empty = err.Error()
		e.found.Fresh = errors.Is(err, errNoArena) || errors.Is(err, errDiscarded)
		e.wipe(seed)
	}
	// From here on nobody else may take the file for complete. What is in memory
	// need not be on a disk too; if it goes before the mark does, waiting for the
	// mark does not wait for all of it to be written.
	err = nil
	if im == nil || !e.file.live {
		err = e.file.f.Truncate(fileHead)
	}
	if err = errors.Join(err, e.file.mark(fileHeader{state: stateInUse, layout: e.layout()})); err != nil {
		return fmt.Errorf("engine: %w: arena file: %w", errs.ErrConfig, err)
	}
	if err := e.arena.provide(0); err != nil {
		return fmt.Errorf("engine: %w", err)
	}
	if im != nil {
		e.resume(im)
	}
	return nil
}

// takeOver reads the file; its error is the reason to start empty, or
// errs.ErrConfig, which leaves the file for another attempt.
func (e *Engine) takeOver() (*image, error) {
	section, err := e.file.section(e.layout())
	if err != nil {
		return nil, err
	}
	im, err := e.decode(section)
	if err != nil {
		return nil, err
	}
	last := im.chunks[len(im.chunks)-1].index
	if err := e.file.holds(e.arena.placeOf(last + 1)); err != nil {
		return nil, err
	}
	if err := e.arena.provide(last + 1); err != nil {
		return nil, err
	}
	return im, e.file.load(&e.arena, im.chunks)
}

// holds fails if the file is shorter than n.
func (af *arenaFile) holds(n int64) error {
	if st, err := af.f.Stat(); err != nil || st.Size() < n {
		return errors.Join(errTruncated, err)
	}
	return nil
}

// resume finishes taking an image over.
func (e *Engine) resume(im *image) {
	if back := im.stop - e.now(); back > 0 {
		clock := e.now
		e.now = func() int64 { return clock() + back }
		e.found.ClockBack = back
	}
	for i := range e.shards {
		s := &e.shards[i]
		s.name()
		e.found.Entries += s.keys.Load()
	}
	e.found.Bytes, e.found.Note = e.used.Load(), im.note
	if used := e.used.Load(); used > e.ceiling.Load() {
		e.ceiling.Store(used) // a lower limit than before: the rest leaves in steps
		e.settle(e.policy.Load())
	}
}

// name writes whom each block of a segment belongs to, which is not kept.
func (s *shard) name() {
	for id := range s.segs {
		g := &s.segs[id]
		for i := range g.blocks {
			*s.e.arena.mem.owner(g.start + i) = uint32(id)
		}
	}
}

// CloseOptions say what becomes of the entries of an engine with a file.
type CloseOptions struct {
	// Discard leaves nothing for the next process.
	Discard bool
	// AsFound says that nothing was served since New: all slots are kept with
	// the note that was found. Otherwise only slots are kept whose serving bit
	// is on, or that Served names.
	AsFound bool
	// Served tells which slots were served until just now; nil: none but those that
	// still are.
	Served func(slot uint16) bool
	// Note is kept with the entries, up to 1 MiB; see Attachment.
	Note []byte
	// Until ends writing the entries when it is closed; they are lost then.
	Until <-chan struct{}
}

// Kept counts what was left for the next process.
type Kept struct{ Entries, Bytes int64 }

// Close is CloseWith the zero options.
func (e *Engine) Close() error {
	_, err := e.CloseWith(CloseOptions{})
	return err
}

// CloseWith ends sweep and cleaner, switches every serving bit off and frees all
// entries; with Options.File it leaves them there for the next New. Later calls
// of Lock, Get, Set and Delete report errs.ErrClosed, and further calls of Close
// wait for the end of the first one and do nothing. After an error the engine is closed all the same, and the next
// New starts empty.
func (e *Engine) CloseWith(o CloseOptions) (Kept, error) {
	if e.closed.Swap(true) {
		<-e.ended
		return Kept{}, nil
	}
	defer close(e.ended)
	close(e.stop)
	<-e.swept
	<-e.cleaned
	e.clearing.Lock()
	defer e.clearing.Unlock()
	e.limitMu.Lock() // a change of the limit gives memory back, also of chunks that are written now
	defer e.limitMu.Unlock()
	keep := e.file != nil && !o.Discard
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		s.feeds = nil
		var rest []uint16 // entries of slots that are not served
		for j := range s.slots {
			if !s.served(j) && s.slots[j].keys.Load() > 0 && (o.Served == nil || !o.Served(s.slotNumber(j))) {
				rest = append(rest, s.slotNumber(j))
			}
			s.mark(j, cellServing, false)
		}
		if !keep {
			s.clear()
		}
		s.unlock()
		for _, slot := range rest {
			if keep && !o.AsFound {
				e.DropSlot(slot)
			}
		}
	}
	var k Kept
	var err error
	if keep {
		if o.AsFound {
			o.Note = e.found.Note
		}
		k, err = e.keep(o)
	} else if e.file != nil {
		err = errors.Join(e.file.f.Truncate(fileHead), e.file.mark(fileHeader{state: stateDiscarded, layout: e.layout()}))
	}
	// Nothing is reachable now: every index is empty and stays so, because
	// writes are refused under the lock.
	err = errors.Join(err, e.closeArena())
	return k, errors.Join(err, e.closeFile())
}

// closeArena gives the memory back at once, and its addresses when nobody can
// reach the engine any more: a reader without a lock may still look there.
func (e *Engine) closeArena() error {
	left, err := e.arena.close()
	if left != nil {
		runtime.AddCleanup(e, unmap, left)
	}
	return err
}

func (e *Engine) closeFile() error {
	if e.file == nil {
		return nil
	}
	return e.file.f.Close()
}

// keep leaves all entries in the file. Every shard becomes empty without giving
// its blocks back.
func (e *Engine) keep(o CloseOptions) (k Kept, err error) {
	layout := e.layout()
	defer func() {
		if err != nil {
			err = fmt.Errorf("engine: entries are not kept in %s: %w", e.file.path, err)
			err = errors.Join(err, e.file.f.Truncate(fileHead))
		}
	}()
	if len(o.Note) > maxNote {
		return k, fmt.Errorf("the note has %d bytes, limit %d", len(o.Note), maxNote)
	}
	im := image{note: o.Note, stop: e.now()}
	var body, section metaWriter
	for i := range e.shards {
		s := &e.shards[i]
		s.mu.Lock()
		k.Entries += s.keys.Load()
		s.encode(&body)
		s.forget()
		s.unlock()
	}
	k.Bytes = e.used.Load()
	im.chunks = e.arena.kept()
	if err = e.file.store(&e.arena, im.chunks, o.Until); err != nil {
		return Kept{}, err
	}
	im.encode(&section, e)
	section.b = append(section.b, body.b...)
	place := e.arena.placeOf(im.chunks[len(im.chunks)-1].index + 1)
	if _, err = e.file.f.WriteAt(section.b, place); err != nil {
		return Kept{}, err
	}
	// The mark is not waited for: if a loss of power leaves it on the disk
	// without the rest, the checksums tell.
	h := fileHeader{state: stateClean, layout: layout, place: uint64(place), length: uint64(len(section.b)), sum: sumOf(section.b)}
	if err = e.file.markSoon(h); err != nil {
		return Kept{}, err
	}
	return k, nil
}
