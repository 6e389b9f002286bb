package engine

import (
	"fmt"
	"math"
)

// opScan goes on with a scan that runs across the other operations.
func opScan(m *model, t *tape) error {
	if !m.scanning {
		m.scanning, m.cursor, m.owed = true, 0, map[string]bool{}
		for slot, on := range m.serving {
			for key := range m.keys[slot] {
				if on && m.live(slot, key) != nil {
					m.owed[key] = true
				}
			}
		}
	}
	var fault error
	m.cursor = m.e.Scan(m.cursor, 1+t.below(20), func(key []byte, it Item) {
		slot := slotOf(string(key))
		k := m.live(slot, string(key))
		if k == nil || !m.serving[slot] {
			fault = fmt.Errorf("returned %q, which is in no served slot", key)
			return
		}
		delete(m.owed, string(key))
		if err := m.checkItem(string(key), it, k, false); err != nil {
			fault = err
		}
	})
	if m.cursor == 0 && fault == nil {
		m.scanning = false
		for key := range m.owed {
			if m.live(slotOf(key), key) != nil {
				return fmt.Errorf("skipped %s", key)
			}
		}
		m.owed = nil
	}
	return fault
}

func opRandom(m *model, _ *tape) error {
	key, ok := m.e.RandomKey([]byte("+"))
	any := false
	for _, slot := range m.slots {
		for k, v := range m.keys[slot] {
			if !m.serving[slot] || m.gone(v) {
				continue
			}
			any = true
			if ok && string(key) == "+"+k {
				return nil
			}
		}
	}
	if ok || any {
		return fmt.Errorf("%q %v, some key is there: %v", key, ok, any)
	}
	return nil
}

func opHottest(m *model, t *tape) error {
	slot := t.slot(m)
	seen := map[string]bool{}
	last := [2]uint64{math.MaxUint64, math.MaxUint64}
	var fault error
	m.e.HottestFirst(slot, func(key []byte, it Item) bool {
		k := m.live(slot, string(key))
		heat := m.heat(slot, key)
		colder := heat[0] < last[0] || heat[0] == last[0] && heat[1] <= last[1]
		last = heat
		switch {
		case k == nil || seen[string(key)]:
			fault = fmt.Errorf("%q is absent or was given twice", key)
		case !colder:
			fault = fmt.Errorf("%q is hotter than the one before", key)
		default:
			fault = m.checkItem(string(key), it, k, true)
		}
		seen[string(key)] = true
		return fault == nil
	})
	for key := range m.keys[slot] {
		if fault == nil && m.live(slot, key) != nil && !seen[key] {
			fault = fmt.Errorf("%q was left out", key)
		}
	}
	return fault
}

// heat is how often a record was read, and the age of its segment.
func (m *model) heat(slot uint16, key []byte) [2]uint64 {
	s, _ := m.e.at(slot)
	s.mu.Lock()
	defer s.mu.Unlock()
	l, _ := s.find(slot, m.e.hash.sum(key), key)
	if l == 0 {
		return [2]uint64{}
	}
	return [2]uint64{uint64(m.e.arena.record(l).freq()), s.segs[s.segOf(l)].born}
}
