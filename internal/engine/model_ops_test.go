package engine

import (
	"errors"
	"fmt"
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
func (t *tape) key(slot uint16) string { return id(slot, fmt.Sprint(t.below(48))) }

func (t *tape) value() []byte {
	n := t.below(40)
	switch t.below(32) {
	case 0:
		n *= 110 // up to beyond the limit of the model's engine
	case 1, 2:
		n *= 10
	}
	return slices.Repeat([]byte{byte('a' + t.below(26))}, n)
}

func (t *tape) deadline(m *model) int64 {
	switch t.below(4) {
	case 0:
		return m.clock + int64(t.below(60)) - 5 // sometimes passed
	case 1:
		return m.clock + 1 + int64(t.below(500))
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
		key, value, deadline := t.key(slot), t.value(), t.deadline(m)
		if !m.serving[slot] {
			if err := m.e.Set(slot, []byte(key), value, deadline); len(value) <= 4096 && !errors.Is(err, errs.ErrNotServing) {
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
		key := t.key(slot)
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
		m.limit = []int64{0, 4 << 10, 8 << 10, 20 << 10, 40 << 10, 60 << 10}[t.below(6)]
		return m.e.SetMaxBytes(m.limit)
	}},
	{"policy", 1, func(m *model, t *tape) error {
		m.policy = Policies()[t.below(len(Policies()))]
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
	key := t.key(slot)
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
	key := t.key(slot)
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
	if w := m.windows[slot]; tx.Untouched([]byte(key)) != (k == nil && w.touched != nil && !w.touched[key] && m.keys[slot][key] == nil) {
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
	from, to := t.key(slot), t.key(slot)
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
	key, deadline := t.key(slot), t.deadline(m)
	k := m.live(slot, key)
	tx := m.e.LockAny(slot)
	ok := tx.SetDeadline([]byte(key), deadline)
	tx.Unlock()
	if !ok && k != nil && m.policy == "noeviction" && m.limit > 0 && (k.deadline == 0) != (deadline == 0) {
		return nil // no room for a longer record
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
		k.deadline = deadline
	}
	m.touch(slot, key)
	return nil
}

func opDelete(m *model, t *tape) error {
	slot := t.slot(m)
	key, kind := t.key(slot), t.below(3)
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
	key, value, deadline := t.key(slot), t.value(), t.deadline(m)
	if len(value) > m.e.MaxValue() {
		return nil
	}
	if k := m.keys[slot][key]; k != nil && m.gone(k) { // the call meets and removes it first
		tx := m.e.LockAny(slot)
		tx.Has([]byte(key))
		tx.Unlock()
		if err := m.settle(); err != nil {
			return err
		}
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
	if err != nil && errors.Is(err, errs.ErrNoMemory) && want == Added && m.limit > 0 {
		return nil
	}
	if err != nil || got != want {
		return fmt.Errorf("%v %v, want %v", got, err, want)
	}
	switch got {
	case Added:
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
	var fault error
	m.e.HottestFirst(slot, func(key []byte, it Item) bool {
		k := m.live(slot, string(key))
		switch {
		case k == nil || seen[string(key)]:
			fault = fmt.Errorf("%q is absent or was given twice", key)
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
