package engine

import (
	"math/bits"
)

// image is what an engine keeps for the next process beside the blocks.
type image struct {
	chunks []keptChunk // in rising order
	note   []byte
	stop   int64 // the engine's time at the end
}

// keptChunk is one chunk of the arena with blocks in use.
type keptChunk struct {
	index int
	free  uint64 // its mask
	sum   uint64 // of its bytes
}

// maxNote bounds CloseOptions.Note.
const maxNote = 1 << 20

// encode appends the engine's own fields; the shards follow.
func (im *image) encode(w *metaWriter, e *Engine) {
	w.sint(im.stop)
	w.text(im.note)
	w.word(e.seed)
	w.word(e.births.Load())
	w.word(e.picks.Load())
	w.num(uint64(e.maxKey))
	w.num(uint64(e.maxValue))
	w.word(e.classes.identity())
	w.num(uint64(len(im.chunks)))
	last := 0
	for _, c := range im.chunks {
		w.num(uint64(c.index - last))
		w.word(c.free)
		w.word(c.sum)
		last = c.index
	}
}

// decode reads the section into e, which is empty, and whose arena has the
// layout that the section was written for. After an error e holds fragments:
// see Engine.wipe.
func (e *Engine) decode(section []byte) (*image, error) {
	r := &metaReader{b: section}
	im := new(image)
	im.stop = r.sint()
	im.note = r.text(maxNote)
	e.seed = r.word()
	births := r.word()
	e.picks.Store(r.word())
	maxKey, maxValue := r.num(maxKeyLimit), r.num(maxValueLimit)
	r.check(int(maxKey) <= e.maxKey, "keys may have up to %d bytes in there, %d here", maxKey, e.maxKey)
	r.check(int(maxValue) <= e.maxValue, "values may have up to %d bytes in there, %d here", maxValue, e.maxValue)
	classed := r.word() == e.classes.identity()
	a := &e.arena
	c := &claims{free: make([]uint64, len(a.free))}
	im.decodeChunks(r, c)
	taken := c.left
	e.hash = newHasher(e.seed)
	var chains int64
	for i := range e.shards {
		chains += e.shards[i].decode(r, c, births, classed)
	}
	r.check(len(r.b) == 0, "%d bytes are left over", len(r.b))
	r.check(c.left<<a.blockShift == chains, "%d blocks belong to nothing, chains have %d bytes", c.left, chains)
	if r.err != nil {
		return nil, r.err
	}
	e.births.Store(births)
	e.used.Store(taken << a.blockShift)
	for _, k := range im.chunks {
		a.adopt(k.index, k.free)
	}
	for i := range e.shards {
		s := &e.shards[i]
		if t := e.classes; t != nil {
			for class, n := range s.classBytes {
				t.use[class].bytes.Add(n)
			}
		}
		s.publish()
	}
	return im, nil
}

func (im *image) decodeChunks(r *metaReader, c *claims) {
	n := r.count(len(c.free))
	im.chunks = make([]keptChunk, 0, n)
	at := 0
	for i := range n {
		step := int(r.num(uint64(len(c.free))))
		k := keptChunk{at + step, r.word(), r.word()}
		if k.index >= len(c.free) || step == 0 && i > 0 {
			r.fail("chunk %d of %d", k.index, len(c.free))
			return
		}
		at = k.index
		taken := ^k.free
		if k.index == 0 {
			r.check(taken&1 == 1, "block 0 is free")
			taken &^= 1
		}
		c.free[k.index] = taken
		c.left += int64(bits.OnesCount64(taken))
		im.chunks = append(im.chunks, k)
	}
	r.check(n > 0 && im.chunks[0].index == 0, "chunk 0 is missing")
}

// adopt takes over a chunk as an earlier process left it.
func (a *arena) adopt(c int, free uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.free[c] == ^uint64(0) {
		a.open++
		a.mem.ready(c, 1<<a.chunkShift)
	}
	a.free[c] = free
	a.file(c)
}

// kept lists the chunks with blocks in use; chunk 0 is always one.
func (a *arena) kept() (chunks []keptChunk) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c, free := range a.free {
		if free != ^uint64(0) {
			chunks = append(chunks, keptChunk{index: c, free: free})
		}
	}
	return chunks
}

// wipe makes the engine empty again that holds fragments of a damaged image;
// nothing else runs yet.
func (e *Engine) wipe(seed uint64) {
	e.seed, e.hash = seed, newHasher(seed)
	e.used.Store(0)
	e.births.Store(0)
	e.picks.Store(seed)
	for i := range e.shards {
		s := &e.shards[i]
		s.forget()
		s.init(e, i, seed)
	}
	e.arena.reset()
	e.arena.mem.shrink(0)
}

// forget makes a shard empty without giving anything back.
func (s *shard) forget() {
	for i := range s.slots {
		st := &s.slots[i]
		s.closeWindow(i)
		s.setBlock(i, 0)
		st.dir.Store(nil)
		st.keys.Store(0)
		st.bytes.Store(0)
	}
	s.keys.Store(0)
	s.pages = 0
	s.ghosts = ghosts{}
	s.data = data{}
	s.sweep = sweep{walkSoonest: maxTime}
	s.publish()
}
