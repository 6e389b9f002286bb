package engine

import (
	"fmt"

	"github.com/ringcache/ringcache/internal/invariant"
)

const (
	// checkEvery is how many holds pass between two checks of a shard in checked
	// builds, and checkEntries up to which size a shard is checked at all: a
	// check reads every entry.
	checkEvery   = 256
	checkEntries = 4096
)

// sampleCheck verifies the shard now and then; the shard lock is held.
func (s *shard) sampleCheck() {
	if s.checks++; s.checks%checkEvery == 0 && s.keys.Load() <= checkEntries {
		err := s.verify()
		invariant.Check(err == nil, "%v", err)
	}
}

// verify compares every counter and link of the shard with what it holds; the
// shard lock is held.
func (s *shard) verify() error {
	var keys, vols int64
	for i := range s.slots {
		st := &s.slots[i]
		n, bytes, v, err := s.verifySlot(st, s.slotNumber(i))
		if err != nil {
			return fmt.Errorf("shard %d slot %d: %w", s.id, s.slotNumber(i), err)
		}
		if n != st.keys.Load() || bytes != st.bytes.Load() {
			return fmt.Errorf("shard %d slot %d: counts %d keys and %d bytes, holds %d and %d",
				s.id, s.slotNumber(i), st.keys.Load(), st.bytes.Load(), n, bytes)
		}
		keys, vols = keys+n, vols+v
	}
	listed := int64(0)
	var newer *entry
	for ent := s.lru.newest; ent != nil; newer, ent = ent, ent.older {
		if ent.newer != newer {
			return fmt.Errorf("shard %d: recency list is broken at %q", s.id, ent.key())
		}
		listed++
	}
	switch {
	case s.lru.oldest != newer:
		return fmt.Errorf("shard %d: recency list does not end at its oldest entry", s.id)
	case keys != s.keys.Load() || keys != listed:
		return fmt.Errorf("shard %d: counts %d keys, holds %d, lists %d", s.id, s.keys.Load(), keys, listed)
	case vols != int64(s.vol.n):
		return fmt.Errorf("shard %d: lists %d keys with a deadline, holds %d", s.id, s.vol.n, vols)
	case s.oldest.Load() != s.lru.stamp():
		return fmt.Errorf("shard %d: shows %d as its oldest access, has %d", s.id, s.oldest.Load(), s.lru.stamp())
	}
	return nil
}

func (s *shard) verifySlot(st *slotState, slot uint16) (keys, bytes, vols int64, err error) {
	err = st.index.verify(func(ent *entry) error {
		keys++
		bytes += ent.charge()
		switch {
		case ent.slot() != slot:
			return fmt.Errorf("key %q says slot %d", ent.key(), ent.slot())
		case ent.hash != s.e.hash.sum(ent.key()):
			return fmt.Errorf("key %q has a wrong hash", ent.key())
		case (ent.deadline != 0) != (ent.vol >= 0):
			return fmt.Errorf("key %q has deadline %d but place %d", ent.key(), ent.deadline, ent.vol)
		}
		if ent.vol >= 0 {
			vols++
			if int(ent.vol) >= s.vol.n || s.vol.at(int(ent.vol)) != ent {
				return fmt.Errorf("key %q is not at its place %d among those with a deadline", ent.key(), ent.vol)
			}
		}
		return nil
	})
	return keys, bytes, vols, err
}

// verify checks the structure and calls fn for every entry in hash order.
func (x *index) verify(fn func(*entry) error) error {
	if x.dir == nil {
		return nil
	}
	if len(x.dir) != 1<<x.depth {
		return fmt.Errorf("directory of %d cells at depth %d", len(x.dir), x.depth)
	}
	var deep int32
	for i := 0; i < len(x.dir); {
		p := x.dir[i]
		span := 1 << (x.depth - p.depth)
		for j := i; j < i+span; j++ {
			if x.dir[j] != p {
				return fmt.Errorf("cell %d is not the page of cell %d", j, i)
			}
		}
		if p.depth == x.depth {
			deep++
		}
		if err := p.verify(uint64(i)>>(x.depth-p.depth), fn); err != nil {
			return err
		}
		i += span
	}
	if deep != x.deep || (x.deep == 0 && x.depth > 0) {
		return fmt.Errorf("%d pages at depth %d, counted %d", deep, x.depth, x.deep)
	}
	return nil
}

func (p *page) verify(prefix uint64, fn func(*entry) error) error {
	n := int32(0)
	for b, ent := range p.heads {
		for ; ent != nil; ent = ent.next {
			if ent.hash>>(64-p.depth) != prefix || p.bucket(ent.hash) != b {
				return fmt.Errorf("key %q is in the wrong bucket", ent.key())
			}
			n++
			if err := fn(ent); err != nil {
				return err
			}
		}
	}
	if n != p.count {
		return fmt.Errorf("page counts %d entries, holds %d", p.count, n)
	}
	return nil
}
