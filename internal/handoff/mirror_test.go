package handoff

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/errs"
)

// mirrorTest is a node 1, from, that serves all slots, mirrors what is read of the
// first ones to node 0, and gives them up to it.
type mirrorTest struct {
	*streamTest
	giver     *Runner
	transfers [2]*Transfer
	r         *rand.Rand
	truth     map[string]kept // by slot and key; ttl is the deadline
	lost      func() bool     // an answer to RELEASE
	calls     int             // of TAKE
}

const (
	mirrorSlots = 60 // that move
	mirrorKeys  = 12 // of every slot
)

func newMirrorTest(tb testing.TB, seed uint64, o StreamOptions) *mirrorTest {
	m := &mirrorTest{r: rand.New(rand.NewPCG(seed, 5)), truth: map[string]kept{}}
	s := &streamTest{tb: tb, owner: Peer{nodeID(1), 1}}
	m.streamTest = s
	now := func() int64 { return time.Now().UnixMilli() }
	open := func() *engine.Engine {
		e, err := engine.New(engine.Options{Now: now, MaxBytes: 32 << 20, Shards: 16, NoBackground: true})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { e.Close() })
		return e
	}
	s.from, s.to = open(), open()
	m.transfers = [2]*Transfer{NewTransfer(TransferOptions{Engine: s.to, Caller: m}), NewTransfer(TransferOptions{Engine: s.from})}
	m.transfers[0].SetPaused(true)
	m.giver = NewRunner(RunnerOptions{Self: nodeID(1), Slots: m.transfers[1], Send: func(_ context.Context, a Ask) (Answer, error) {
		return answerOf(s.run.ReleaseFor(requestOf(a, 1))), nil
	}})
	s.run = NewRunner(RunnerOptions{Self: nodeID(0), Slots: m.transfers[0], Send: func(_ context.Context, a Ask) (Answer, error) {
		<-time.After(100 * time.Microsecond)
		v := answerOf(m.giver.ReleaseFor(requestOf(a, 0)))
		if m.lost != nil && m.lost() {
			return Answer{}, errors.New("lost")
		}
		return v, nil
	}})
	s.receiver = NewReceiver(s.run, s.to)
	o.Engine, o.Send = s.from, s.send
	s.streams = NewStreams(o)
	m.giver.SealBy(s.streams)
	m.adopt(0)
	synctest.Wait()
	return m
}

func requestOf(a Ask, from int) Request {
	return Request{From: nodeID(from), Process: 1, Ranges: a.Ranges, Last: a.Last, Boot: 1, Ask: a.ID, Pull: a.Pull}
}

func answerOf(v Verdict) Answer {
	return Answer{Agreed: v.Agreed, Ready: v.Ready, Served: v.Served, Kept: v.Kept, Offers: v.Offers, Sealed: v.Sealed, Why: v.Why}
}

func (m *mirrorTest) close() {
	m.streams.Close()
	m.run.Close()
	m.giver.Close()
	for _, t := range m.transfers {
		t.Close()
	}
}

// adopt lets both nodes adopt targets that give the first slots to node 0.
func (m *mirrorTest) adopt(first int) {
	owner := make([]int, MaxSlots)
	for i := range owner {
		if i >= first {
			owner[i] = 1
		}
	}
	t := targets([]int{0, 1}, owner)
	m.run.Adopt(t, func() {})
	m.giver.Adopt(t, func() {})
}

// mirror has the first slots mirrored, or all of their keys copied.
func (m *mirrorTest) mirror(full bool) {
	m.streams.PlanMirrors([]Target{{Peer: Peer{nodeID(0), 1}, Addr: "0"}}, 1, func(slot uint16, room []int) []int {
		if full && slot < mirrorSlots && m.from.Serving(slot) {
			return append(room, 0)
		}
		return nil
	}, func(slot uint16) int {
		if !full && slot < mirrorSlots && m.from.Serving(slot) {
			return 0
		}
		return -1
	})
}

func (m *mirrorTest) any() (slot uint16, key []byte) {
	return uint16(m.r.IntN(mirrorSlots)), fmt.Appendf(nil, "k%d", m.r.IntN(mirrorKeys))
}

func nameOf(slot uint16, key []byte) string { return fmt.Sprintf("%d/%s", slot, key) }

// read has a key noted: Read gives way to whoever is busy with the queue, and nobody is.
func (m *mirrorTest) read(slot uint16, key []byte) {
	synctest.Wait()
	m.streams.Read(slot, key)
}

// use lets clients read and write at whoever serves a slot. A read must find what
// was written last, or nothing.
func (m *mirrorTest) use(n int) {
	for range n {
		slot, key := m.any()
		e := m.from
		if m.to.Serving(slot) {
			e = m.to
		}
		tx, err := e.Lock(slot)
		if err != nil {
			continue // nobody does at the moment
		}
		name, fault := nameOf(slot, key), ""
		switch k := m.r.IntN(16); {
		case k == 0:
			tx.Delete(key)
			delete(m.truth, name)
		case k == 1:
			deadline := tx.Now() + int64(m.r.IntN(2000)) + 1
			if tx.SetDeadline(key, deadline) {
				v := m.truth[name]
				v.ttl = deadline
				m.truth[name] = v
			}
		case k == 2: // as an eviction
			tx.Invalidate(key)
		case k < 7:
			v := kept{value: fmt.Sprintf("v%d", m.r.Uint32())}
			if m.r.IntN(3) == 0 {
				v.ttl = tx.Now() + int64(m.r.IntN(2000)) + 1
			}
			if err = tx.Set(key, []byte(v.value), v.ttl); err != nil {
				fault = err.Error()
			}
			m.truth[name] = v
		default:
			it, found := tx.Get(key)
			fault = m.wrong(name, it, found)
			if found && e == m.from {
				m.streams.Read(slot, key)
			}
		}
		if tx.Unlock(); fault != "" {
			m.tb.Fatal(fault)
		}
	}
}

// wrong tells whether an item is not what was written last, or lives longer.
func (m *mirrorTest) wrong(name string, it engine.Item, found bool) string {
	want, ok := m.truth[name]
	now := m.from.Now()
	switch {
	case !found:
	case !ok:
		return fmt.Sprintf("%s is %q, and was deleted", name, it.Value)
	case string(it.Value) != want.value:
		return fmt.Sprintf("%s is %q, the latest is %q", name, it.Value, want.value)
	case want.ttl != 0 && (it.Deadline == 0 || it.Deadline > want.ttl):
		return fmt.Sprintf("%s lives until %d, not %d", name, it.Deadline, want.ttl)
	case want.ttl == 0 && it.Deadline != 0:
		return name + " has a time to live"
	case want.ttl != 0 && now > want.ttl:
		return fmt.Sprintf("%s lives at %d and ended at %d", name, now, want.ttl)
	}
	return ""
}

// look compares everything that node 0 serves, and returns how many keys it has.
func (m *mirrorTest) look() (keys int) {
	m.tb.Helper()
	for slot := range uint16(mirrorSlots) {
		if !m.to.Serving(slot) {
			continue
		}
		for i := range mirrorKeys {
			key := fmt.Appendf(nil, "k%d", i)
			tx := m.to.LockAny(slot)
			it, found := tx.Peek(key)
			fault := m.wrong(nameOf(slot, key), it, found)
			if tx.Unlock(); fault != "" {
				m.tb.Fatal(fault)
			}
			keys += b2i(found)
		}
	}
	return keys
}

// Take, TakeMany, Have and Taken are the Caller of node 0.
func (m *mirrorTest) Take(_ context.Context, _ Peer, slot uint16, ask uint64, keys [][]byte) (out []Entry, err error) {
	m.calls++
	<-time.After(100 * time.Microsecond)
	if !m.transfers[1].Give(slot, Cession{Peer{nodeID(0), 1}, ask}, keys, func(_ int, e Entry) bool {
		out = append(out, e.clone())
		return true
	}) {
		return nil, ErrNotCeded
	}
	return out, nil
}

func (m *mirrorTest) TakeMany(_ context.Context, _ Peer, q Many) (out []Batch, err error) {
	<-time.After(100 * time.Microsecond)
	var entries []Entry
	m.transfers[1].GiveMany(Peer{nodeID(0), 1}, q, func(uint16) { entries = nil }, func(e Entry) { entries = append(entries, e.clone()) },
		func(b Batch) { b.Entries = entries; out = append(out, b) })
	return out, nil
}

func (m *mirrorTest) Have(_ context.Context, _ Peer, slot uint16, ask uint64, keys [][]byte) error {
	if !m.transfers[1].Forget(slot, Cession{Peer{nodeID(0), 1}, ask}, keys) {
		return ErrNotCeded
	}
	return nil
}

func (m *mirrorTest) Taken(_ context.Context, _ Peer, ranges []Range) error {
	m.giver.Taken(Peer{nodeID(0), 1}, ranges)
	return nil
}

// settled waits until node 0 serves the slots that move.
func (m *mirrorTest) settled() {
	m.tb.Helper()
	for range 2000 {
		if gained, _ := m.run.Progress(); gained == 0 && m.to.Serving(0) {
			return
		}
		<-time.After(time.Millisecond)
	}
	m.tb.Fatal("the slots are not opened")
}

// TestMirrorRandom: while clients read and write, slots move whose keys were copied;
// calls and answers are lost. What the next owner has is what was written last, and
// in the end nothing is lost.
func TestMirrorRandom(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 15
	}
	kept, found := 0, 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			m := newMirrorTest(t, seed, StreamOptions{})
			defer m.close()
			k, f := m.once(seed%3 == 0)
			kept, found = kept+k, found+f
		})
	}
	if kept < int(seeds)*mirrorSlots/3 || found == 0 {
		t.Errorf("%d slots of %d kept copies, with %d keys", kept, int(seeds)*mirrorSlots, found)
	}
	t.Logf("%d slots of %d kept copies, with %d keys", kept, int(seeds)*mirrorSlots, found)
}

func (m *mirrorTest) once(full bool) (kept, found int) {
	slow := time.Duration(m.r.IntN(8)) * time.Millisecond
	faults := rand.New(rand.NewPCG(m.r.Uint64(), 7))
	lossy := faults.IntN(2) == 0
	m.setFault(func(b *CopyBatch) (before, after error) {
		<-time.After(slow)
		switch {
		case lossy && faults.IntN(12) == 0:
			before = errors.New("lost")
		case lossy && faults.IntN(12) == 0:
			after = errors.New("the answer is lost")
		case lossy && faults.IntN(200) == 0:
			before = &GapError{1}
		}
		return before, after
	})
	answers := rand.New(rand.NewPCG(m.r.Uint64(), 7))
	m.lost = func() bool { return lossy && answers.IntN(3) == 0 }
	m.use(400)
	m.mirror(full)
	for range 30 {
		m.use(40)
		<-time.After(time.Duration(m.r.IntN(4)) * time.Millisecond)
	}
	m.adopt(mirrorSlots)
	for range 40 {
		m.use(10)
		m.look()
		<-time.After(time.Duration(m.r.IntN(2000)) * time.Microsecond)
	}
	m.settled()
	found = m.look()
	kept = m.run.Kept()
	m.mirror(full)
	for range 20 {
		m.use(20)
		m.look()
		<-time.After(time.Duration(m.r.IntN(4)) * time.Millisecond)
	}
	return kept, found
}

// TestMirrorNeedsNoTake: keys that were read are at the next owner when it opens the
// slot; the rest is taken from the owner before, which forgets what is there already.
func TestMirrorNeedsNoTake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMirrorTest(t, 1, StreamOptions{})
		defer m.close()
		for slot := range uint16(mirrorSlots) {
			for i := range mirrorKeys {
				if err := m.from.Set(slot, fmt.Appendf(nil, "k%d", i), []byte("old"), 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		m.mirror(false)
		<-time.After(100 * time.Millisecond)
		hot := func(slot uint16) [][]byte { return [][]byte{fmt.Appendf(nil, "k%d", slot%mirrorKeys), []byte("k1")} }
		for slot := range uint16(mirrorSlots) {
			for _, k := range hot(slot) {
				m.read(slot, k)
			}
		}
		<-time.After(100 * time.Millisecond)
		if n := m.to.Stats().SpareKeys; n != 2*mirrorSlots-mirrorSlots/mirrorKeys {
			t.Fatalf("%d keys were mirrored", n)
		}
		for slot := range uint16(mirrorSlots) { // some change before, at the last moment
			if slot%2 == 0 {
				_ = m.from.Set(slot, []byte("k1"), []byte("new"), 0)
			}
		}
		m.adopt(mirrorSlots)
		m.settled()
		if n := m.run.Kept(); n != mirrorSlots {
			t.Errorf("%d slots kept their copies", n)
		}
		for slot := range uint16(mirrorSlots) {
			want := "old"
			if slot%2 == 0 {
				want = "new"
			}
			if got := m.get(slot, "k1"); got != want {
				t.Fatalf("k1 of slot %d is %q, want %q", slot, got, want)
			}
			if slot%mirrorKeys == 1 {
				continue
			}
			before := m.calls
			if got := m.get(slot, string(hot(slot)[0])); got != "old" || m.calls != before {
				t.Fatalf("a key of slot %d that was read is %q after %d calls", slot, got, m.calls-before)
			}
		}
		m.transfers[0].SetPaused(false)
		<-time.After(5 * time.Second)
		for slot := range uint16(mirrorSlots) {
			if n := m.to.SlotStats(slot).Keys; n != mirrorKeys || m.from.SlotStats(slot).Keys != 0 {
				t.Fatalf("slot %d has %d keys, and %d at the owner before", slot, n, m.from.SlotStats(slot).Keys)
			}
		}
		// Added are those that were not there; more would have come twice.
		if f, added := m.transfers[0].Figures(), m.to.Stats().Added; f.Windows != 0 || int64(f.Moved+f.Pulled) != added {
			t.Errorf("%+v, of which %d were added", f, added)
		}
	})
}

// get is a GET at node 0.
func (m *mirrorTest) get(slot uint16, key string) string {
	m.tb.Helper()
	if w := m.transfers[0].Window(slot); w != nil {
		tx := m.to.LockAny(slot)
		untouched := tx.Untouched([]byte(key))
		tx.Unlock()
		if untouched {
			m.transfers[0].Pull(w, [][]byte{[]byte(key)})
		}
	}
	v, _, err := m.to.Get(slot, []byte(key), nil)
	if err != nil && !errors.Is(err, errs.ErrNotFound) {
		m.tb.Fatal(err)
	}
	return string(v)
}
