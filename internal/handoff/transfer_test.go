package handoff

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/errs"
)

// pair is a giver, with a slot that is ceded to a taker, which serves it and has a
// window. Calls take as long as delay and batches say, half of it for the answer.
type pair struct {
	tb            testing.TB
	giver, taker  *Transfer
	slot          uint16
	from, to      Cession
	mu            sync.Mutex
	delay, batch  time.Duration
	takes, manies int
	told          []Range
	fail          error // of every call
}

func newEngine(tb testing.TB, o engine.Options) *engine.Engine {
	tb.Helper()
	o.Now = func() int64 { return time.Now().UnixMilli() }
	o.NoBackground = true
	if o.MaxBytes == 0 {
		o.MaxBytes = 16 << 20
	}
	o.Shards = 1
	e, err := engine.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	return e
}

// newPair makes a pair that has not begun: fill the giver, then begin.
func newPair(tb testing.TB) *pair {
	p := &pair{tb: tb, slot: 9, delay: time.Millisecond, batch: time.Millisecond,
		from: Cession{Peer{nodeID(0), 1}, 5}, to: Cession{Peer{nodeID(1), 1}, 5}}
	p.giver = NewTransfer(TransferOptions{Engine: newEngine(tb, engine.Options{})})
	p.taker = NewTransfer(TransferOptions{Engine: newEngine(tb, engine.Options{}), Caller: p})
	p.taker.SetPaused(true)
	p.giver.SetServing(p.slot, true)
	return p
}

func (p *pair) close() { p.taker.Close(); p.giver.Close() }

func (p *pair) set(key, value string, ttl time.Duration) {
	p.tb.Helper()
	deadline := int64(0)
	if ttl > 0 {
		deadline = time.Now().Add(ttl).UnixMilli()
	}
	if err := p.giver.eng.Set(p.slot, []byte(key), []byte(value), deadline); err != nil {
		p.tb.Fatal(err)
	}
}

func (p *pair) begin() {
	p.giver.SetServing(p.slot, false)
	p.giver.Cede(p.slot, p.to)
	p.taker.OpenWindow(p.slot, p.from)
	p.taker.SetServing(p.slot, true)
}

// done is what the source was told of.
func (p *pair) done() []Range {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.told)
}

// slow sets how long a call and a batch take.
func (p *pair) slow(call, batch time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay, p.batch = call, batch
}

// wait passes half of a call, or of a batch.
func (p *pair) wait(ctx context.Context, of *time.Duration) error {
	p.mu.Lock()
	d := *of
	p.mu.Unlock()
	select {
	case <-time.After(d / 2):
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.fail
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pair) Take(ctx context.Context, _ Peer, slot uint16, ask uint64, keys [][]byte) (out []Entry, err error) {
	p.mu.Lock()
	p.takes++
	p.mu.Unlock()
	if err = p.wait(ctx, &p.delay); err != nil {
		return nil, err
	}
	if !p.giver.Give(slot, Cession{p.to.Peer, ask}, keys, func(_ int, e Entry) bool {
		out = append(out, e.clone())
		return true
	}) {
		err = ErrNotCeded
	}
	if wait := p.wait(ctx, &p.delay); wait != nil {
		return nil, wait
	}
	return out, err
}

func (e Entry) clone() Entry {
	e.Key, e.Value = append([]byte(nil), e.Key...), append([]byte(nil), e.Value...)
	return e
}

func (p *pair) TakeMany(ctx context.Context, _ Peer, q Many) (out []Batch, err error) {
	p.mu.Lock()
	p.manies++
	p.mu.Unlock()
	if err = p.wait(ctx, &p.batch); err != nil {
		return nil, err
	}
	var entries []Entry
	p.giver.GiveMany(p.to.Peer, q, func(uint16) { entries = nil }, func(e Entry) { entries = append(entries, e.clone()) },
		func(b Batch) { b.Entries = entries; out = append(out, b) })
	return out, p.wait(ctx, &p.batch)
}

func (p *pair) Have(context.Context, Peer, uint16, uint64, [][]byte) error { return nil }

func (p *pair) Taken(_ context.Context, _ Peer, ranges []Range) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, ranges...)
	return nil
}

// get is a GET: it pulls, then reads.
func (p *pair) get(key string) string {
	p.tb.Helper()
	if w := p.taker.Window(p.slot); w != nil {
		tx := p.taker.eng.LockAny(p.slot)
		untouched := tx.Untouched([]byte(key))
		tx.Unlock()
		if untouched {
			p.taker.Pull(w, [][]byte{[]byte(key)})
		}
	}
	v, _, err := p.taker.eng.Get(p.slot, []byte(key), nil)
	switch err {
	case nil:
		return string(v)
	case errs.ErrNotFound:
		return ""
	}
	p.tb.Fatal(err)
	return ""
}

func (p *pair) want(key, value string) {
	p.tb.Helper()
	if got := p.get(key); got != value {
		p.tb.Fatalf("%s is %q, want %q", key, got, value)
	}
}

func (p *pair) test(t *testing.T, fn func(t *testing.T)) {
	t.Helper()
	defer p.close()
	fn(t)
}

// within runs a test of a pair in virtual time.
func within(t *testing.T, fn func(t *testing.T, p *pair)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t)
		p.test(t, func(t *testing.T) { fn(t, p) })
	})
}

func TestPull(t *testing.T) {
	within(t, func(t *testing.T, p *pair) {
		p.set("k", "v", 0)
		p.begin()
		p.want("k", "v")
		if n := p.giver.Keys(p.slot); n != 0 {
			t.Errorf("the giver has %d keys", n)
		}
		p.want("none", "")
		p.want("none", "")
		if p.takes != 2 {
			t.Errorf("%d calls: a key that the source does not have was asked for again", p.takes)
		}
		if f := p.taker.Figures(); f.Pulled != 1 || f.Missed != 1 || f.Pulls != 2 || f.Timeouts != 0 {
			t.Errorf("%+v", f)
		}
	})
}

// TestDeclineKeepsTheWindow: what is being taken over is not declined by an offer of the
// same cession that comes again; another one is.
func TestDeclineKeepsTheWindow(t *testing.T) {
	within(t, func(t *testing.T, p *pair) {
		p.set("k", "v", 0)
		p.begin()
		p.taker.Decline(p.slot, p.from)
		<-time.After(time.Second)
		if told := p.done(); len(told) != 0 {
			t.Errorf("the source was told that %v is done", told)
		}
		p.want("k", "v")
		p.taker.Decline(p.slot, Cession{p.from.Peer, p.from.Ask + 1})
		<-time.After(time.Second)
		if told := p.done(); len(told) != 1 {
			t.Errorf("the source was told %v", told)
		}
	})
}

// TestRequestsShareAFlight: the source forgets what it hands over; whoever asks
// second must not take its "none" for the truth.
func TestRequestsShareAFlight(t *testing.T) {
	within(t, func(t *testing.T, p *pair) {
		p.set("k", "v", 0)
		p.begin()
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if v := p.get("k"); v != "v" {
					t.Errorf("k is %q", v)
				}
			})
		}
		wg.Wait()
		if p.takes != 1 {
			t.Errorf("%d calls", p.takes)
		}
	})
}

// TestNoneWhileBatchIsUnderWay: a batch has the key; the source, asked for it
// meanwhile, has it no more.
func TestNoneWhileBatchIsUnderWay(t *testing.T) {
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("the slot is empty by then: %v", refused), func(t *testing.T) {
			within(t, func(t *testing.T, p *pair) {
				p.set("k", "v", 0)
				p.begin()
				p.slow(time.Millisecond, 8*time.Millisecond)
				p.taker.SetPaused(false)
				time.AfterFunc(5*time.Millisecond, func() {
					if refused {
						p.giver.DropSlot(p.slot)
					}
				})
				pass(5*time.Millisecond + 1)
				p.want("k", "v")
			})
		})
	}
}

// TestFlightOutlivesEmptySource: a batch finds the source empty while the last key
// is on its way: the window stays open for it.
func TestFlightOutlivesEmptySource(t *testing.T) {
	within(t, func(t *testing.T, p *pair) {
		p.set("k", "v", 0)
		p.begin()
		p.slow(8*time.Millisecond, 2*time.Millisecond)
		got := make(chan string, 1)
		go func() { got <- p.get("k") }()
		pass(5 * time.Millisecond) // it is handed over
		p.taker.SetPaused(false)
		if v := <-got; v != "v" {
			t.Fatalf("k is %q", v)
		}
		pass(100 * time.Millisecond)
		if p.taker.Open() {
			t.Error("the window is still open")
		}
	})
}

// TestLateAnswers: an answer that comes after the request has gone on is used, but
// only if the key was not touched and the window is the same.
func TestLateAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		event func(p *pair)
		want  string
	}{
		"nothing happened": {func(*pair) {}, "old"},
		"written":          {func(p *pair) { _ = p.taker.eng.Set(p.slot, []byte("k"), []byte("new"), 0) }, "new"},
		"deleted":          {func(p *pair) { _, _ = p.taker.eng.Delete(p.slot, []byte("k")) }, ""},
		"flushed":          {func(p *pair) { p.taker.eng.Flush() }, ""},
		"another window": {func(p *pair) {
			p.taker.CloseWindow(p.slot)
			p.taker.OpenWindow(p.slot, Cession{p.from.Peer, 6})
		}, ""},
		"dropped": {func(p *pair) { p.taker.DropSlot(p.slot) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, p *pair) {
				p.set("k", "old", 0)
				p.begin()
				p.slow(100*time.Millisecond, time.Millisecond)
				began := time.Now()
				p.want("k", "")
				if d := time.Since(began); d != pullWait {
					t.Errorf("the request waited %v", d)
				}
				tc.event(p)
				pass(200 * time.Millisecond)
				v, _, _ := p.taker.eng.Get(p.slot, []byte("k"), nil)
				if string(v) != tc.want {
					t.Errorf("k is %q, want %q", v, tc.want)
				}
			})
		})
	}
}

// TestOnlyTheCession: the source answers nobody but the process and the Ask that
// the slot was ceded to, and not while it serves the slot.
func TestOnlyTheCession(t *testing.T) {
	within(t, func(t *testing.T, p *pair) {
		p.set("k", "v", 0)
		p.begin()
		for name, c := range map[string]Cession{
			"another Ask":     {p.to.Peer, 6},
			"another process": {Peer{nodeID(1), 2}, 5},
			"another node":    {Peer{nodeID(2), 1}, 5},
		} {
			if p.giver.Give(p.slot, c, [][]byte{[]byte("k")}, func(int, Entry) bool { t.Errorf("%s got the key", name); return true }) {
				t.Errorf("%s is not refused", name)
			}
		}
		p.giver.SetServing(p.slot, true)
		if p.giver.Give(p.slot, p.to, [][]byte{[]byte("k")}, func(int, Entry) bool { t.Error("given while served"); return true }) {
			t.Error("not refused while served")
		}
		p.giver.SetServing(p.slot, false)
		p.giver.DropSlot(p.slot)
		p.want("k", "")
		pass(time.Second)
		if p.taker.Open() {
			t.Error("the window is open after the source has refused")
		}
	})
}

// TestTimeToLive: it never grows on the way, however long that takes.
func TestTimeToLive(t *testing.T) {
	for _, unasked := range []bool{false, true} {
		within(t, func(t *testing.T, p *pair) {
			p.set("k", "v", time.Second)
			p.set("short", "v", 30*time.Millisecond)
			deadline := time.Now().Add(time.Second).UnixMilli()
			p.begin()
			p.slow(40*time.Millisecond, 40*time.Millisecond)
			if unasked {
				p.taker.SetPaused(false)
			} else {
				p.get("k")
				p.get("short")
			}
			pass(100 * time.Millisecond)
			_, got, err := p.taker.eng.Get(p.slot, []byte("k"), nil)
			if err != nil || got > deadline || got < deadline-40 {
				t.Errorf("unasked %v: it lives until %d, want %d at most (%v)", unasked, got, deadline, err)
			}
			if _, _, err := p.taker.eng.Get(p.slot, []byte("short"), nil); err == nil {
				t.Error("a key came to life after its end")
			}
		})
	}
}

// TestTransferAll: everything comes unasked, then both forget the move.
func TestTransferAll(t *testing.T) {
	within(t, func(t *testing.T, p *pair) {
		const keys = 3000
		for i := range keys {
			p.set(fmt.Sprint("k", i), fmt.Sprint(i), 0)
		}
		p.begin()
		p.taker.SetPaused(false)
		began := time.Now()
		for p.taker.Open() && time.Since(began) < time.Minute {
			pass(10 * time.Millisecond)
			if cs := p.taker.Changes(); len(cs) == 1 && (cs[0].Kind != Gain || cs[0].Slots != 1 || cs[0].Keys > keys) {
				t.Fatalf("%+v", cs)
			}
		}
		took := time.Since(began)
		if rate := keys / took.Seconds(); rate > DefaultRate*1.1 || rate < DefaultRate*0.7 {
			t.Errorf("%.0f keys/s in %v", rate, took)
		}
		pass(time.Second)
		if n := p.taker.Keys(p.slot); n != keys || p.giver.Keys(p.slot) != 0 {
			t.Errorf("%d keys came, %d stayed", n, p.giver.Keys(p.slot))
		}
		if f := p.taker.Figures(); f.Moved != keys || f.Windows != 0 || f.MovedBytes == 0 || len(p.taker.Changes()) != 0 {
			t.Errorf("%+v", f)
		}
		if g := p.giver.Figures(); g.Given != keys {
			t.Errorf("%+v", g)
		}
		if len(p.told) != 1 || p.told[0] != (Range{p.slot, p.slot}) {
			t.Errorf("the source was told of %v", p.told)
		}
	})
}

// TestHottestFirst: what is read often comes before what is not.
func TestHottestFirst(t *testing.T) {
	within(t, func(t *testing.T, p *pair) {
		for i := range 200 {
			p.set(fmt.Sprint("k", i), "v", 0)
		}
		for range 5 {
			for i := range hotEach {
				if _, _, err := p.giver.eng.Get(p.slot, fmt.Append(nil, "k", i*7), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		p.begin()
		p.taker.SetRate(1, 0) // a second for a key: only the first batch
		p.taker.SetPaused(false)
		pass(10 * time.Millisecond)
		for i := range hotEach {
			if _, _, err := p.taker.eng.Get(p.slot, fmt.Append(nil, "k", i*7), nil); err != nil {
				t.Errorf("k%d is not among the first %d that came", i*7, p.taker.Keys(p.slot))
			}
		}
		if n := p.taker.Keys(p.slot); n != hotEach {
			t.Errorf("%d keys came", n)
		}
	})
}

// TestMutedSource: a source that does not answer costs a few requests their 10 ms,
// not all.
func TestMutedSource(t *testing.T) {
	within(t, func(t *testing.T, p *pair) {
		p.begin()
		p.slow(time.Hour, time.Hour)
		began := time.Now()
		for i := range 50 {
			p.get(fmt.Sprint("k", i))
		}
		if d := time.Since(began); d != muteAfter {
			t.Errorf("50 requests took %v", d)
		}
		p.slow(time.Millisecond, time.Millisecond)
		pass(2 * muteFor)
		p.get("again")
		if f := p.taker.Figures(); f.Timeouts != uint64(muteAfter/pullWait) {
			t.Errorf("%+v", f)
		}
	})
}

// TestFailedCalls: a source that fails is asked again, and the window ends when it
// is not a member any more.
func TestFailedCalls(t *testing.T) {
	within(t, func(t *testing.T, p *pair) {
		p.set("k", "v", 0)
		p.fail = errs.ErrUnavailable
		p.begin()
		p.taker.SetPaused(false)
		p.want("k", "")
		pass(10 * time.Second)
		if p.manies < 8 || p.manies > 20 {
			t.Errorf("%d batches in 10 s", p.manies)
		}
		p.taker.Adopted(targets([]int{0, 1}, []int{1}))
		if !p.taker.Open() {
			t.Error("the window ended while its source is a member")
		}
		p.taker.Adopted(targetsWith([]uint64{2, 1}, []int{0, 1}, []int{1}))
		if p.taker.Open() {
			t.Error("the window is open to a process that is gone")
		}
		p.want("k", "")
	})
}

// TestTransferRandom: two that move keys while clients write, delete and read at
// the taker. A read finds the latest value or none, and none only if it was deleted
// or its answer came too late.
func TestTransferRandom(t *testing.T) {
	for seed := range uint64(60) {
		within(t, func(t *testing.T, p *pair) {
			r := rand.New(rand.NewPCG(seed, 3))
			const keys = 40
			latest := map[string]string{}
			name := func() string { return fmt.Sprint("k", r.IntN(keys)) }
			for i := range keys {
				k := fmt.Sprint("k", i)
				p.set(k, "old "+k, 0)
				latest[k] = "old " + k
			}
			p.begin()
			lost := 0
			for step := range 300 {
				p.slow(time.Duration(r.IntN(25))*time.Millisecond, time.Duration(r.IntN(25))*time.Millisecond)
				k := name()
				switch n := r.IntN(12); {
				case n == 0:
					latest[k] = fmt.Sprint("new ", step)
					_ = p.taker.eng.Set(p.slot, []byte(k), []byte(latest[k]), 0)
				case n == 1:
					latest[k] = ""
					_, _ = p.taker.eng.Delete(p.slot, []byte(k))
				case n == 2:
					p.taker.SetRate(1+r.IntN(100), 0)
					p.taker.SetPaused(r.IntN(2) == 0)
				case n == 3:
					pass(time.Duration(r.IntN(30)) * time.Millisecond)
				default:
					if v := p.get(k); v != "" && v != latest[k] {
						t.Fatalf("seed %d step %d: %s is %q, the latest is %q", seed, step, k, v, latest[k])
					}
				}
			}
			p.taker.SetRate(0, 0)
			p.taker.SetPaused(false)
			pass(5 * time.Second)
			for k, v := range latest {
				got, _, _ := p.taker.eng.Get(p.slot, []byte(k), nil)
				if string(got) != v {
					lost++
				}
			}
			if lost > 0 { // no call has failed, so nothing may be lost
				t.Fatalf("seed %d: %d keys are lost", seed, lost)
			}
		})
	}
}
