package engine

import (
	"errors"
	"fmt"

	"github.com/ringcache/ringcache/internal/errs"
)

func opWindow(m *model, t *tape) error {
	slot := t.slot(m)
	if t.below(3) == 0 {
		m.e.CloseWindow(slot)
		m.windows[slot] = &modelWindow{}
		return nil
	}
	n := 1 + t.below(40)
	m.e.OpenWindow(slot, n)
	m.windows[slot] = &modelWindow{max: n, touched: map[string]bool{}}
	return nil
}

func opAdd(m *model, t *tape) error {
	slot := t.slot(m)
	key, value, deadline := t.key(m, slot), t.value(m), t.deadline(m)
	if len(value) > m.e.MaxValue() {
		return nil
	}
	if err := m.meet(slot, key); err != nil {
		return err
	}
	w, want := m.windows[slot], Added
	switch {
	case w.touched == nil && w.full:
		want = WindowFull
	case w.touched == nil:
		want = WindowClosed
	case m.live(slot, key) != nil || w.touched[key]:
		want = Touched
	case deadline != 0 && m.clock > deadline:
		want = Expired
	}
	m.writing = key
	got, err := m.e.AddIfUntouched(slot, []byte(key), value, deadline)
	if err != nil && errors.Is(err, errs.ErrNoMemory) && want == Added {
		return m.refused(slot, key, len(value), deadline, err)
	}
	if err != nil || got != want {
		return fmt.Errorf("%v %v, want %v", got, err, want)
	}
	switch got {
	case Added:
		if err := m.stored(slot, key, len(value), deadline); err != nil {
			return err
		}
		m.want(EventWrite, slot, key, deadline)
		if err := m.settle(); err != nil {
			return err
		}
		m.put(slot, key, value, deadline)
		m.count.added++
	case Expired:
		m.touch(slot, key)
	}
	return nil
}

// meet lets the engine remove what it would at the next look at a key: the key
// itself if it is expired, and more when the shard's era ends.
func (m *model) meet(slot uint16, key string) error {
	tx := m.e.LockAny(slot)
	tx.s.date(tx.Now())
	tx.Has([]byte(key))
	tx.Unlock()
	return m.settle()
}
