package handoff

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
)

// streamTest is a node 1 that serves all slots and keeps copies at node 0.
type streamTest struct {
	tb       testing.TB
	from, to *engine.Engine
	run      *Runner
	receiver *Receiver
	streams  *Streams
	owner    Peer

	mu    sync.Mutex
	fault func(b *CopyBatch) (before, after error) // of a call; the Batch is taken if before is nil
	calls int
}

func newStreamTest(tb testing.TB, o StreamOptions) *streamTest {
	s := &streamTest{tb: tb, owner: Peer{nodeID(1), 1}}
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
	for slot := range uint16(MaxSlots) {
		s.from.SetServing(slot, true)
	}
	s.run = NewRunner(RunnerOptions{Self: nodeID(0), Slots: NewTransfer(TransferOptions{Engine: s.to}), Send: func(context.Context, Ask) (Answer, error) {
		return Answer{}, errors.New("nobody is asked")
	}})
	owner := make([]int, MaxSlots)
	for i := range owner {
		owner[i] = 1
	}
	s.run.Adopt(targets([]int{0, 1}, owner), func() {})
	s.receiver = NewReceiver(s.run, s.to)
	o.Engine, o.Send = s.from, s.send
	s.streams = NewStreams(o)
	return s
}

// close ends everything; the bubble of synctest must not outlive it.
func (s *streamTest) close() {
	s.streams.Close()
	s.run.Close()
}

func (s *streamTest) send(_ context.Context, _ Peer, _ string, b *CopyBatch) (Taken, error) {
	s.mu.Lock()
	s.calls++
	fault := s.fault
	s.mu.Unlock()
	var before, after error
	if fault != nil {
		before, after = fault(b)
	}
	if before != nil {
		return Taken{}, before
	}
	<-time.After(200 * time.Microsecond)
	t, err := s.receiver.Take(s.owner, b)
	if after != nil {
		return Taken{}, after
	}
	return t, err
}

func (s *streamTest) setFault(f func(b *CopyBatch) (error, error)) {
	s.mu.Lock()
	s.fault = f
	s.mu.Unlock()
}

func (s *streamTest) plan() {
	s.streams.Plan([]Target{{Peer: Peer{nodeID(0), 1}, Addr: "0"}}, 1, func(slot uint16, room []int) []int {
		if !s.from.Serving(slot) {
			return nil
		}
		return append(room, 0)
	})
}

func (s *streamTest) wait(want int) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if got := s.streams.Wait(ctx, want); got != want {
		s.tb.Fatalf("%d copies, want %d; %+v", got, want, s.streams.Figures())
	}
}

type kept struct {
	value string
	ttl   int64 // ms that are left; 0: none
}

func content(e *engine.Engine) map[string]kept {
	m := map[string]kept{}
	for slot := range uint16(MaxSlots) {
		if e.SlotStats(slot).Keys == 0 {
			continue
		}
		e.HottestFirst(slot, func(key []byte, it engine.Item) bool {
			k := kept{value: string(it.Value)}
			if it.Deadline != 0 {
				k.ttl = it.Deadline - e.Now()
			}
			m[fmt.Sprintf("%d/%s", slot, key)] = k
			return true
		})
	}
	return m
}

// same compares the copies with what they are of; a copy may not live longer.
func (s *streamTest) same() {
	s.tb.Helper()
	want, got := content(s.from), content(s.to)
	for k, v := range want {
		g, ok := got[k]
		if !ok || g.value != v.value || (g.ttl == 0) != (v.ttl == 0) || g.ttl > v.ttl+1 || g.ttl < v.ttl-2000 {
			s.tb.Fatalf("%s is %+v, its copy %+v, %v", k, v, g, ok)
		}
	}
	for k := range got {
		if _, ok := want[k]; !ok {
			s.tb.Fatalf("there is a copy of %s, which is not there", k)
		}
	}
}

// churn changes n keys at random.
func (s *streamTest) churn(r *rand.Rand, n int) {
	for i := range n {
		slot := uint16(r.IntN(300))
		key := fmt.Appendf(nil, "k%d", r.IntN(20))
		tx, err := s.from.Lock(slot)
		if err != nil {
			s.tb.Fatal(err)
		}
		switch r.IntN(6) {
		case 0:
			tx.Delete(key)
		case 1:
			tx.SetDeadline(key, tx.Now()+int64(r.IntN(60_000))+1000)
		case 2:
			err = tx.Set(key, fmt.Appendf(nil, "v%d", i), tx.Now()+int64(r.IntN(60_000))+1000)
		default:
			err = tx.Set(key, fmt.Appendf(nil, "v%d", i), 0)
		}
		tx.Unlock()
		if err != nil {
			s.tb.Fatal(err)
		}
	}
}

// TestStream: what was there and what changes is copied, with the time that it has
// left; a flush and an end leave nothing.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamTest(t, StreamOptions{})
		defer s.close()
		r := rand.New(rand.NewPCG(1, 1))
		s.churn(r, 5000)
		s.plan()
		s.wait(1)
		s.same()
		for range 20 {
			s.churn(r, 500)
			<-time.After(5 * time.Millisecond)
		}
		s.wait(1)
		s.same()
		if st := s.to.Stats(); st.ServedKeys != 0 || st.SpareKeys == 0 {
			t.Errorf("%d keys are served, %d spare", st.ServedKeys, st.SpareKeys)
		}
		f := s.streams.Figures().Targets[0]
		if f.LagKeys != 0 || f.LagMs != 0 || f.Full != MaxSlots || f.Slots != MaxSlots {
			t.Errorf("%+v", f)
		}
		s.from.Flush()
		s.churn(r, 100)
		s.wait(1)
		s.same()
		for slot := range uint16(200) {
			s.from.SetServing(slot, false)
			s.from.DropSlot(slot)
		}
		s.plan()
		s.wait(1)
		s.same()
	})
}

// TestStreamFaults: calls fail before and after they were taken, the receiver
// forgets, what is there is more than fits into a queue: in the end both sides
// have the same, and never an older value than before.
func TestStreamFaults(t *testing.T) {
	lost := errors.New("lost")
	for _, tc := range []struct {
		name  string
		fault func(r *rand.Rand) func(b *CopyBatch) (error, error)
	}{
		{"calls are lost", func(r *rand.Rand) func(*CopyBatch) (error, error) {
			return func(*CopyBatch) (error, error) {
				if r.IntN(3) == 0 {
					return lost, nil
				}
				return nil, nil
			}
		}},
		{"answers are lost", func(r *rand.Rand) func(*CopyBatch) (error, error) {
			return func(*CopyBatch) (error, error) {
				if r.IntN(3) == 0 {
					return nil, lost
				}
				return nil, nil
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStreamTest(t, StreamOptions{})
				defer s.close()
				r := rand.New(rand.NewPCG(2, 2))
				s.setFault(tc.fault(rand.New(rand.NewPCG(3, 3))))
				s.plan()
				for range 30 {
					s.churn(r, 300)
					<-time.After(10 * time.Millisecond)
				}
				s.wait(1)
				s.same()
				if f := s.receiver.Figures(); f.Gaps != 0 {
					t.Errorf("%d gaps", f.Gaps)
				}
			})
		})
	}
}

// TestStreamGap: a receiver that has lost its place, or what it had, gets
// everything again; until then it has nothing of it.
func TestStreamGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamTest(t, StreamOptions{})
		defer s.close()
		r := rand.New(rand.NewPCG(1, 1))
		s.churn(r, 3000)
		s.plan()
		s.wait(1)
		s.receiver.mu.Lock()
		s.receiver.streams[s.owner.ID].number += 5 // as if batches had been taken that were not sent
		s.receiver.mu.Unlock()
		s.churn(r, 10)
		<-time.After(10 * time.Millisecond)
		s.wait(1)
		s.same()
		if f, g := s.streams.Figures(), s.receiver.Figures(); f.Resyncs != MaxSlots || g.Gaps != 1 {
			t.Errorf("%d slots were sent anew, %d gaps", f.Resyncs, g.Gaps)
		}
		s.to.Flush() // an idle stream notices, too
		<-time.After(3 * time.Second)
		s.wait(1)
		s.same()
	})
}

// TestStreamOverflow: a receiver that is away for long costs bounded memory, and
// gets what it missed.
func TestStreamOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamTest(t, StreamOptions{})
		defer s.close()
		r := rand.New(rand.NewPCG(1, 1))
		s.plan()
		s.wait(1)
		s.setFault(func(*CopyBatch) (error, error) { return errors.New("away"), nil })
		for range 300 {
			s.churn(r, 500)
			<-time.After(2 * time.Millisecond)
		}
		f := s.streams.Figures().Targets[0]
		if f.LagKeys > queueMost+copyKeys || f.LagKeys < queueMost/2 || f.LagMs < 400 {
			t.Errorf("%+v", f)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if n := s.streams.Wait(ctx, 1); n != 0 {
			t.Errorf("%d copies while nothing arrives", n)
		}
		s.setFault(nil)
		s.wait(1)
		s.same()
		if f := s.streams.Figures(); f.Resyncs == 0 {
			t.Error("nothing was sent anew")
		}
	})
}

// TestStreamPace: what is there is sent no faster than allowed, what changes at
// once.
func TestStreamPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamTest(t, StreamOptions{Rate: 1000})
		defer s.close()
		for i := range 4000 {
			if err := s.from.Set(uint16(i), []byte("k"), []byte("v"), 0); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		s.plan()
		<-time.After(time.Second)
		if err := s.from.Set(3999, []byte("now"), []byte("v"), 0); err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
		if !hasKey(s.to, 3999, "now") {
			t.Error("a change waits for what was there before")
		}
		s.wait(1)
		if took := time.Since(start); took < 3200*time.Millisecond || took > 5*time.Second {
			t.Errorf("4000 keys at 1000 per second took %v", took)
		}
		s.same()
	})
}

func hasKey(e *engine.Engine, slot uint16, key string) bool {
	tx := e.LockAny(slot)
	defer tx.Unlock()
	return tx.Has([]byte(key))
}

// TestStreamDelay: a batch that waits on its way does not give anything more time
// to live.
func TestStreamDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamTest(t, StreamOptions{})
		defer s.close()
		s.plan()
		s.wait(1)
		s.setFault(func(b *CopyBatch) (error, error) {
			<-time.After(700 * time.Millisecond)
			return nil, nil
		})
		deadline := s.from.Now() + 5000
		if err := s.from.Set(1, []byte("k"), []byte("v"), deadline); err != nil {
			t.Fatal(err)
		}
		s.wait(1)
		tx := s.to.LockAny(1)
		defer tx.Unlock()
		if it, ok := tx.Peek([]byte("k")); !ok || it.Deadline > deadline+1 || it.Deadline < deadline-5 {
			t.Errorf("the copy lives until %d, the key until %d", it.Deadline, deadline)
		}
	})
}

// TestCopyBatch: a batch that makes no sense changes nothing.
func TestCopyBatch(t *testing.T) {
	for name, change := range map[string]func(b *CopyBatch){
		"half a record":   func(b *CopyBatch) { b.Heads = b.Heads[:len(b.Heads)-1] },
		"unknown kind":    func(b *CopyBatch) { b.Heads[headBytes] = 'X' },
		"too high a slot": func(b *CopyBatch) { b.Heads[headBytes+1] = 0xff },
		"negative TTL":    func(b *CopyBatch) { b.Heads[headBytes+3] = 0xff },
		"no value":        func(b *CopyBatch) { b.Data = b.Data[:1] },
		"one too many":    func(b *CopyBatch) { b.Data = append(b.Data, []byte("x")) },
	} {
		b := &CopyBatch{}
		b.add(recordReset, 5, 0)
		b.add(recordSet, 5, 0, []byte("k"), []byte("v"))
		change(b)
		n := 0
		if err := b.records(func(record) { n++ }); err == nil || n > 0 {
			t.Errorf("%s: %v after %d records", name, err, n)
		}
	}
}
