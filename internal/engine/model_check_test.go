package engine

import (
	"fmt"
	"math"
)

func (m *model) inShard(shard int) (n int) {
	for slot, keys := range m.keys {
		if m.e.ShardOf(slot) == shard {
			n += len(keys)
		}
	}
	return n
}

// checkRoom: an operation that evicted did so for want of room, and gave back
// what it needed and what one segment holds.
func (m *model) checkRoom(victims int) error {
	if victims == 0 || m.limit == 0 {
		return nil
	}
	a := &m.e.arena
	segment := max(int64(2*recordsAimed*512), m.limit/segmentsAimed) // of records, or chains
	entry := int64(a.chainBlocks(m.e.MaxValue())+2) << a.blockShift
	if used := m.e.used.Load(); used+segment+entry+int64(8<<a.blockShift) < m.limit {
		return fmt.Errorf("%d were evicted, %d bytes of %d are used", victims, used, m.limit)
	}
	return nil
}

// formIn is how a deadline written now is stored in the shard of slot.
func (m *model) formIn(slot uint16, deadline int64) int {
	return m.e.shards[m.e.ShardOf(slot)].formOf(deadline)
}

// chargeOf is the engine's own rule: the model checks that it is followed, not
// what it is.
func (m *model) chargeOf(key string, k *known) int64 {
	return m.e.arena.charge(len(key), len(k.value), k.form)
}

// needs returns the least and the most that the arena must have for an entry to
// be storable at all: with a segment and a page, as a record or as a chain.
func (m *model) needs(slot uint16, key string, value int, deadline int64) (least, most int64) {
	a := &m.e.arena
	w := write{slot: slot, key: []byte(key), value: make([]byte, value), deadline: deadline, now: m.clock}
	s := &m.e.shards[m.e.ShardOf(slot)]
	s.shape(&w, false)
	least = int64(w.blocks + a.blocksFor(w.size) + 1)
	s.shape(&w, true)
	most = int64(w.blocks + a.blocksFor(w.size) + 1)
	return min(least, most) << a.blockShift, max(least, most) << a.blockShift
}

// refused says whether an error for want of memory is right.
func (m *model) refused(slot uint16, key string, value int, deadline int64, err error) error {
	if _, most := m.needs(slot, key, value, deadline); m.policy != "noeviction" && most <= m.limit || m.limit == 0 {
		return fmt.Errorf("an entry that needs at most %d bytes was refused, limit %d: %w", most, m.limit, err)
	}
	return nil
}

// stored says whether it is right that a new entry was stored.
func (m *model) stored(slot uint16, key string, value int, deadline int64) error {
	if least, _ := m.needs(slot, key, value, deadline); m.policy != "noeviction" && m.limit > 0 && least > m.limit {
		return fmt.Errorf("an entry that needs at least %d bytes was stored under the limit %d", least, m.limit)
	}
	return nil
}

// compare checks everything that can be seen.
func (m *model) compare() error {
	served := int64(0)
	var keys, all int64
	for _, slot := range m.slots {
		var n, size int64
		seen := map[string]bool{}
		for key, k := range m.keys[slot] {
			n, size = n+1, size+m.chargeOf(key, k)
		}
		if got := m.e.SlotStats(slot); got != (SlotStats{n, size}) {
			return fmt.Errorf("slot %d: %+v, want %d keys %d bytes", slot, got, n, size)
		}
		m.e.KeysInSlot(slot, math.MaxInt, func(key []byte) { seen[string(key)] = true })
		for key := range m.keys[slot] {
			if seen[key] != (m.live(slot, key) != nil) {
				return fmt.Errorf("slot %d: key %q enumerated: %v", slot, key, seen[key])
			}
			delete(seen, key)
		}
		if len(seen) > 0 {
			return fmt.Errorf("slot %d: enumerated %v, which do not exist", slot, seen)
		}
		if m.serving[slot] {
			served += n
		}
		keys, all = keys+n, all+size
		w := m.windows[slot]
		want := WindowState{Open: w.touched != nil, Full: w.full, Keys: len(w.touched)}
		if got := m.e.Window(slot); got != want {
			return fmt.Errorf("slot %d: window %+v, want %+v", slot, got, want)
		}
	}
	st := m.e.Stats()
	got := counters{st.Hits, st.Misses, st.Sets, st.Added, st.Expired, st.Evicted, st.Deleted, st.Invalidated}
	if got != m.count || st.Keys != keys || st.Bytes != all || st.ServedKeys != served {
		return fmt.Errorf("stats %+v, want %+v, %d keys (%d served), %d bytes", st, m.count, keys, served, all)
	}
	return m.verify()
}

// verify compares the counters and links of all shards, and the arena with
// them.
func (m *model) verify() error {
	var sum int64
	for i, f := range m.feeds {
		if s := &m.e.shards[i]; f != nil {
			s.mu.Lock()
			err := s.verify()
			sum += m.e.arenaOf(s)
			s.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
	if used, debt := m.e.used.Load(), m.e.debt.Load(); used != sum || debt != 0 {
		return fmt.Errorf("%d bytes are counted as used, shards have %d; debt %d", used, sum, debt)
	}
	return m.e.arena.verify(sum)
}

// sweepAll: when the sweeps find nothing more, no expired key is left.
func (m *model) sweepAll() error {
	most := 10 + m.e.Stats().Keys/sweepSample*4
	for range most {
		m.e.Sweep()
		if err := m.settle(); err != nil {
			return err
		}
	}
	for _, slot := range m.slots {
		for key, k := range m.keys[slot] {
			if m.gone(k) {
				return fmt.Errorf("%d sweeps did not find %q, gone for %d ms", most, key, m.clock-k.deadline)
			}
		}
	}
	return nil
}
