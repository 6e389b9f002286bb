package engine

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ringcache/ringcache/internal/errs"
)

// tape is the source of an operation's choices: bytes of a fuzzer or of a
// random generator. A tape that has run out gives zeros.
type tape struct {
	b  []byte
	at int
}

func (t *tape) done() bool { return t.at >= len(t.b) }

func (t *tape) below(n int) int {
	v := 0
	for range 2 {
		v <<= 8
		if t.at < len(t.b) {
			v |= int(t.b[t.at])
		}
		t.at++
		if n <= 256 {
			break
		}
	}
	return v % n
}

func (t *tape) slot(m *model) uint16 { return m.slots[t.below(len(m.slots))] }

// key names its slot, so that a key returned without one is known.
func (t *tape) key(m *model, slot uint16) string { return id(slot, fmt.Sprint(t.below(m.space))) }

func (t *tape) value(m *model) []byte {
	n := t.below(40)
	switch t.below(64) {
	case 0:
		n = n * m.e.MaxValue() / 38 // up to beyond the limit
	case 1, 2, 3, 4:
		n *= 10
	case 5, 6:
		n *= 100
	}
	return slices.Repeat([]byte{byte('a' + t.below(26))}, n)
}

func (t *tape) deadline(m *model) int64 {
	switch t.below(8) {
	case 0, 1:
		return m.clock + int64(t.below(60)) - 5 // sometimes passed
	case 2, 3:
		return m.clock + 1 + int64(t.below(500))
	case 4:
		switch t.below(16) {
		case 0:
			return math.MaxInt64 - int64(t.below(2))
		case 1, 2:
			return m.clock + eraMost + int64(t.below(3))
		case 3, 4, 5: // where a short deadline ends
			return m.clock + math.MaxUint32 + int64(t.below(60)) - 40
		case 6, 7:
			return m.clock + int64(t.below(1<<15))*(eraMost>>12)
		case 8:
			return int64(t.below(3)) - 1
		}
	}
	return 0
}

// operation is one kind of step; weight is how often it comes.
type operation struct {
	name   string
	weight int
	run    func(m *model, t *tape) error
}

var operations = []operation{
	{"set", 40, func(m *model, t *tape) error {
		slot := t.slot(m)
		key, value, deadline := t.key(m, slot), t.value(m), t.deadline(m)
		if !m.serving[slot] {
			if err := m.e.Set(slot, []byte(key), value, deadline); len(value) <= m.e.MaxValue() && !errors.Is(err, errs.ErrNotServing) {
				return fmt.Errorf("set in a slot that is not served: %v", err)
			}
			return nil
		}
		return m.set(slot, key, value, deadline, func() error { return m.e.Set(slot, []byte(key), value, deadline) })
	}},
	{"get", 40, opGet},
	{"peek", 10, func(m *model, t *tape) error { return opPeek(m, t) }},
	{"rewrite", 16, opRewrite},
	{"ttl", 10, opDeadline},
	{"touch", 6, func(m *model, t *tape) error {
		slot := t.slot(m)
		key := t.key(m, slot)
		tx := m.e.LockAny(slot)
		ok := tx.Touch([]byte(key))
		tx.Unlock()
		k := m.live(slot, key)
		if ok != (k != nil) {
			return fmt.Errorf("touch %v", ok)
		}
		if k != nil {
			k.access = m.clock
		}
		return nil
	}},
	{"delete", 14, opDelete},
	{"clock", 24, func(m *model, t *tape) error { m.clock += int64(t.below(12)); return nil }},
	{"leap", 1, opLeap},
	{"sweep", 2, func(m *model, t *tape) error { m.e.Sweep(); return nil }},
	{"serving", 6, func(m *model, t *tape) error {
		slot, on := t.slot(m), t.below(6) > 0
		m.e.SetServing(slot, on)
		m.serving[slot] = on
		if !on { // the scan owes nothing of a slot that was off for a while
			for key := range m.keys[slot] {
				delete(m.owed, key)
			}
		}
		return nil
	}},
	{"drop", 1, opDrop},
	{"flush", 1, opFlush},
	{"window", 3, opWindow},
	{"add", 12, opAdd},
	{"scan", 12, opScan},
	{"random", 3, opRandom},
	{"hottest", 1, opHottest},
	{"limit", 1, func(m *model, t *tape) error {
		m.limit = []int64{0, 511, 1 << 10, 4 << 10, 8 << 10, 20 << 10, 40 << 10, 60 << 10, 100 << 10}[t.below(9)]
		if m.limit == 0 && m.file != "" {
			m.limit = 60 << 10
		}
		return m.e.SetMaxBytes(m.limit)
	}},
	{"policy", 1, func(m *model, t *tape) error {
		m.policy = m.policies[t.below(len(m.policies))]
		return m.e.SetPolicy(m.policy)
	}},
}

// table spreads the operations by weight, so that one byte chooses.
var table = func() (t []*operation) {
	for i := range operations {
		for range operations[i].weight {
			t = append(t, &operations[i])
		}
	}
	return t
}()

// step runs one operation.
func (m *model) step(t *tape) error {
	op := table[t.below(len(table))]
	if err := op.run(m, t); err != nil {
		return fmt.Errorf("%s: %w", op.name, err)
	}
	if err := m.settle(); err != nil {
		return fmt.Errorf("%s: %w", op.name, err)
	}
	return nil
}

func opGet(m *model, t *tape) error {
	slot := t.slot(m)
	key := t.key(m, slot)
	val, deadline, err := m.e.Get(slot, []byte(key), []byte("+"))
	k := m.live(slot, key)
	switch {
	case !m.serving[slot]:
		if !errors.Is(err, errs.ErrNotServing) {
			return fmt.Errorf("not served, but %v", err)
		}
	case k == nil:
		m.count.misses++
		if !errors.Is(err, errs.ErrNotFound) || string(val) != "+" {
			return fmt.Errorf("absent, but %q %v", val, err)
		}
	case err != nil || string(val) != "+"+string(k.value) || deadline != k.deadline:
		return fmt.Errorf("%q until %d, %v; want %q until %d", val, deadline, err, k.value, k.deadline)
	default:
		m.count.hits++
		k.access = m.clock
	}
	return nil
}

func opPeek(m *model, t *tape) error {
	slot := t.slot(m)
	key := t.key(m, slot)
	if err := m.meet(slot, key); err != nil {
		return err
	}
	tx := m.e.LockAny(slot)
	defer tx.Unlock()
	k := m.live(slot, key)
	if tx.Has([]byte(key)) != (k != nil) {
		return fmt.Errorf("has is %v", k == nil)
	}
	it, ok := tx.Peek([]byte(key))
	if ok != (k != nil) {
		return fmt.Errorf("peek is %v", ok)
	}
	if w := m.windows[slot]; tx.Untouched([]byte(key)) != (k == nil && w.touched != nil && !w.touched[key]) {
		return fmt.Errorf("untouched is wrong, touched are %v", w.touched)
	}
	if k == nil {
		return nil
	}
	return m.checkItem(key, it, k, true)
}

// opRewrite reads a key and writes what it borrowed, whole or in part, under
// the same or another key, in one hold.
func opRewrite(m *model, t *tape) error {
	slot := t.slot(m)
	from, to := t.key(m, slot), t.key(m, slot)
	if t.below(2) == 0 {
		to = from
	}
	part, twice := t.below(3), t.below(4) == 0
	tx := m.e.LockAny(slot)
	locked := true
	unlock := func() {
		if locked {
			tx.Unlock()
			locked = false
		}
	}
	defer unlock()
	it, ok := tx.Get([]byte(from))
	k := m.live(slot, from)
	if ok != (k != nil) {
		return fmt.Errorf("get is %v", ok)
	}
	if k == nil {
		m.count.misses++
		return nil
	}
	if err := m.checkItem(from, it, k, true); err != nil {
		return err
	}
	m.count.hits++
	k.access = m.clock
	want := slices.Clone(k.value)
	v := it.Value
	if part > 0 {
		v, want = v[len(v)/3:], want[len(want)/3:]
	}
	if twice { // no alias then: the engine's buffer has no room behind the value
		v, want = append(v, v...), append(want, want...)
	}
	deadline := it.Deadline
	return m.set(slot, to, want, deadline, func() error {
		err := tx.Set([]byte(to), v, deadline)
		unlock()
		return err
	})
}

func opDeadline(m *model, t *tape) error {
	slot := t.slot(m)
	key, deadline := t.key(m, slot), t.deadline(m)
	k := m.live(slot, key)
	tx := m.e.LockAny(slot)
	ok := tx.SetDeadline([]byte(key), deadline)
	tx.Unlock()
	if past := deadline != 0 && m.clock > deadline; !ok && k != nil && !past && m.formIn(slot, deadline) != k.form {
		return m.refused(slot, key, len(k.value), deadline, errs.ErrNoMemory)
	}
	if ok != (k != nil) {
		return fmt.Errorf("set deadline is %v", ok)
	}
	switch {
	case k == nil:
		return nil
	case deadline != 0 && m.clock > deadline:
		m.want(EventDelete, slot, key, k.deadline)
		m.count.deleted++
		m.forget(slot, key)
	default:
		m.want(EventTTL, slot, key, deadline)
		m.redated = k
		k.deadline, k.form = deadline, m.formIn(slot, deadline)
	}
	m.touch(slot, key)
	return nil
}

func opDelete(m *model, t *tape) error {
	slot := t.slot(m)
	key, kind := t.key(m, slot), t.below(3)
	k := m.live(slot, key)
	var ok bool
	tx := m.e.LockAny(slot)
	switch {
	case kind == 0 && k != nil:
		ok = tx.Invalidate([]byte(key))
		m.want(EventInvalidate, slot, key, k.deadline)
		m.count.invalidated++
	case kind == 1:
		tx.MarkTouched([]byte(key))
		tx.Unlock()
		m.touch(slot, key)
		return nil
	default:
		ok = tx.Delete([]byte(key))
		if k != nil {
			m.want(EventDelete, slot, key, k.deadline)
			m.count.deleted++
		}
	}
	tx.Unlock()
	if ok != (k != nil) {
		return fmt.Errorf("delete is %v", ok)
	}
	if m.keys[slot][key] != nil && k == nil {
		return nil // it expired just now: the feed says so
	}
	m.touch(slot, key)
	m.forget(slot, key)
	return nil
}

func opDrop(m *model, t *tape) error {
	slot, n := t.slot(m), 0
	for key, k := range m.keys[slot] {
		delete(m.owed, key)
		if !m.gone(k) {
			n++
			m.want(EventInvalidate, slot, key, k.deadline)
		}
	}
	m.windows[slot] = &modelWindow{}
	if got := m.e.DropSlot(slot); got != n {
		return fmt.Errorf("dropped %d, want %d", got, n)
	}
	m.count.invalidated += int64(n)
	if err := m.settle(); err != nil {
		return err
	}
	m.keys[slot] = map[string]*known{}
	return nil
}

func opFlush(m *model, t *tape) error {
	if t.below(4) > 0 {
		return nil
	}
	m.e.Flush()
	for _, f := range m.feeds {
		if f != nil {
			m.want(EventFlush, AllSlots, "", 0)
		}
	}
	for _, slot := range m.slots {
		m.count.invalidated += int64(len(m.keys[slot]))
		m.keys[slot], m.windows[slot] = map[string]*known{}, &modelWindow{}
	}
	m.owed = nil
	return nil
}

// opLeap moves the clock far, or back as a clock that is set does.
func opLeap(m *model, t *tape) error {
	switch t.below(12) {
	case 0:
		m.clock += eraMost + int64(t.below(3)) - 1
	case 1:
		m.clock += int64(t.below(200)) * (eraMost / 100)
	case 2, 3:
		m.clock -= int64(t.below(40))
		m.owed = nil // what was gone for a while is not owed, and may be back
	default:
		m.clock += int64(t.below(2000))
	}
	return nil
}
