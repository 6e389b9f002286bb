package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

// stress runs readers and writers of all kinds against everything that changes
// an engine. Each write of a key has a higher number than all before it, taken
// while its shard is held; so a reader may never see a number below one that
// was acknowledged before it began, nor another key's value.
type stress struct {
	t     *testing.T
	e     *Engine
	c     *clock
	next  atomic.Uint64
	acked []atomic.Uint64 // per key: no number below it may be read
	ended atomic.Bool     // Close was called
	found atomic.Int64
}

const stressKeys = 300

// stressSlot puts several keys in a slot and several slots in a shard.
func stressSlot(k int) uint16 { return uint16(k % 41 * 8) }

func stressValue(dst, key []byte, seq uint64, n int) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, seq)
	dst = append(dst, key...)
	return append(dst, bytes.Repeat([]byte{byte(seq)}, n)...)
}

func (s *stress) check(k int, key, value []byte, least uint64, how string) {
	if len(value) < 8+len(key) || !bytes.Equal(value[8:8+len(key)], key) {
		s.t.Errorf("%s: key %q has the value %.60q", how, key, value)
		return
	}
	seq := binary.LittleEndian.Uint64(value)
	for _, b := range value[8+len(key):] {
		if b != byte(seq) {
			s.t.Errorf("%s: key %q has a torn value", how, key)
			return
		}
	}
	if seq < least {
		s.t.Errorf("%s: key %d has number %d, %d was acknowledged before", how, k, seq, least)
	}
	s.found.Add(1)
}

func (s *stress) ack(k int, seq uint64) {
	for {
		old := s.acked[k].Load()
		if old >= seq || s.acked[k].CompareAndSwap(old, seq) {
			return
		}
	}
}

func (s *stress) expect(err error, also ...error) {
	if err == nil || errors.Is(err, errs.ErrNotServing) || errors.Is(err, errs.ErrClosed) && s.ended.Load() {
		return
	}
	for _, a := range also {
		if errors.Is(err, a) {
			return
		}
	}
	s.t.Errorf("unexpected: %v", err)
}

// access reads or writes one key in one of the ways there are.
func (s *stress) access(r *rand.Rand) {
	k := min(r.IntN(stressKeys), r.IntN(stressKeys))
	slot, key, least := stressSlot(k), keyFor(k), s.acked[k].Load()
	switch op := r.IntN(100); {
	case op < 40:
		value, _, err := s.e.Get(slot, key, nil)
		if s.expect(err, errs.ErrNotFound); err == nil {
			s.check(k, key, value, least, "get")
		}
	case op < 80:
		tx, err := s.e.Lock(slot)
		if err != nil {
			s.expect(err)
			return
		}
		s.txn(tx, r, k, key, least)
	case op < 90:
		seq := uint64(0)
		tx := s.e.LockAny(slot)
		if it, ok := tx.Peek(key); ok {
			s.check(k, key, it.Value, least, "peek")
			seq = binary.LittleEndian.Uint64(it.Value)
			if op < 85 { // what was borrowed goes back
				if err := tx.Set(key, it.Value, it.Deadline); err != nil {
					s.expect(err, errs.ErrNoMemory)
				}
			}
		}
		tx.Unlock()
		s.ack(k, seq)
	case op < 95:
		n := 0
		s.e.HottestFirst(slot, func(key []byte, it Item) bool {
			k, _ := strconv.Atoi(string(key[len("key-"):]))
			s.check(k, key, it.Value, 0, "hottest")
			n++
			return n < 20
		})
	default:
		s.e.Scan(uint64(slot)<<positionBits, 1+r.IntN(40), func(key []byte, it Item) {
			if it.Size < 8+len(key) {
				s.t.Errorf("scan: key %q has a value of %d bytes", key, it.Size)
			}
		})
	}
}

func (s *stress) txn(tx *Txn, r *rand.Rand, k int, key []byte, least uint64) {
	seq := s.next.Add(1)
	it, ok := tx.Get(key)
	if ok {
		s.check(k, key, it.Value, least, "txn")
	}
	switch op := r.IntN(20); {
	case op < 14:
		n := r.IntN(300)
		if op == 0 {
			n = r.IntN(12_000)
		}
		deadline := int64(0)
		if op%3 == 0 {
			deadline = tx.Now() + int64(r.IntN(100))
		}
		err := tx.Set(key, stressValue(nil, key, seq, n), deadline)
		if err != nil {
			s.expect(err, errs.ErrNoMemory)
			seq = 0
		} else if it, ok := tx.Peek(key); !ok {
			s.t.Errorf("key %q is gone after its write in the same hold", key)
		} else {
			s.check(k, key, it.Value, seq, "own write")
		}
	case op < 17:
		if tx.Delete(key) != ok {
			s.t.Errorf("key %q was there: %v, delete differs", key, ok)
		}
		seq++ // nothing up to this one comes back
		s.next.Add(1)
	default:
		tx.SetDeadline(key, int64(r.IntN(2))*(tx.Now()+int64(r.IntN(1000))))
		seq = 0
	}
	tx.Unlock()
	s.ack(k, seq)
}

// disturb changes what all keys share.
func (s *stress) disturb(r *rand.Rand, feeds *[]*Feed) {
	e := s.e
	slot := stressSlot(r.IntN(stressKeys))
	switch r.IntN(16) {
	case 0:
		e.DropSlot(slot)
	case 1, 2, 3:
		e.SetServing(slot, r.IntN(4) > 0)
	case 4:
		if err := e.SetMaxBytes([]int64{8 << 10, 24 << 10, 64 << 10, 200 << 10, 0}[r.IntN(5)]); err != nil && !errors.Is(err, errs.ErrClosed) {
			s.t.Error(err)
		}
	case 5:
		if err := e.SetPolicy(Policies()[r.IntN(len(Policies()))]); err != nil {
			s.t.Error(err)
		}
	case 6, 7, 8:
		s.c.add(int64(r.IntN(30)))
		e.Sweep()
	case 9:
		if r.IntN(20) == 0 {
			e.Flush()
		}
		if r.IntN(50) == 0 {
			s.c.add(eraMost + 1)
		}
	case 10, 11:
		if f, err := e.Subscribe(r.IntN(e.Shards()), nil, 64); err == nil {
			*feeds = append(*feeds, f)
		} else {
			s.expect(err)
		}
	case 12, 13:
		if n := len(*feeds); n > 0 {
			f := (*feeds)[n-1]
			last := uint64(0)
			events, _ := f.Read(nil, 64)
			for _, ev := range events {
				if ev.Number <= last {
					s.t.Errorf("event %d comes after %d", ev.Number, last)
				}
				last = ev.Number
			}
			if n > 4 {
				f.Close()
				*feeds = (*feeds)[:n-1]
			}
		}
	case 14:
		e.OpenWindow(slot, 1+r.IntN(200))
		e.Window(slot)
		e.SlotStats(slot)
	default:
		_, _ = e.RandomKey(nil)
		e.Stats()
	}
}

func runStress(t *testing.T, seed uint64, shards, workers, rounds int, closing bool) *stress {
	e, c := newTest(t, Options{MaxBytes: 64 << 10, Shards: shards, Seed: seed, MaxValue: 16 << 10})
	s := &stress{t: t, e: e, c: c, acked: make([]atomic.Uint64, stressKeys)}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(w)))
			for range rounds {
				s.access(r)
			}
		})
	}
	var busy atomic.Bool
	busy.Store(true)
	var others sync.WaitGroup
	for w := range 2 {
		others.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(1000+w)))
			var feeds []*Feed
			for busy.Load() {
				s.disturb(r, &feeds)
				runtime.Gosched()
			}
			for _, f := range feeds {
				f.Close()
			}
		})
	}
	if closing {
		r := rand.New(rand.NewPCG(seed, 2000))
		for target := uint64(r.IntN(workers * rounds / 3)); s.next.Load() < target; {
			runtime.Gosched()
		}
		s.ended.Store(true)
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	busy.Store(false)
	others.Wait()
	return s
}

// stressRounds is how many accesses each worker makes; RINGCACHE_STRESS
// multiplies them.
func stressRounds(n int) int {
	if f, err := strconv.Atoi(os.Getenv("RINGCACHE_STRESS")); err == nil {
		n *= f
	}
	return scale(n)
}

func TestReadersNeverSeeAnOlderOrAnotherKeysValue(t *testing.T) {
	for _, shards := range []int{1, 4, 16} {
		s := runStress(t, uint64(shards), shards, 6, stressRounds(8000), false)
		if s.found.Load() == 0 {
			t.Error("no value was ever found")
		}
		limit := int64(64 << 10)
		if err := s.e.SetPolicy(DefaultPolicy); err != nil {
			t.Fatal(err)
		}
		if err := s.e.SetMaxBytes(limit); err != nil {
			t.Fatal(err)
		}
		if used := s.e.used.Load(); used > limit {
			t.Errorf("%d bytes used, limit %d", used, limit)
		}
		if debt := s.e.debt.Load(); debt != 0 {
			t.Errorf("a debt of %d bytes is left", debt)
		}
		for i := range s.e.shards {
			sh := &s.e.shards[i]
			sh.mu.Lock()
			if err := sh.verify(); err != nil {
				t.Error(err)
			}
			sh.mu.Unlock()
		}
		if err := s.e.arena.verify(s.e.used.Load()); err != nil {
			t.Error(err)
		}
	}
}

// Close in the middle of everything: all end, nothing is read any more, and no
// memory of the arena is touched after it is gone.
func TestCloseRacesWithEverything(t *testing.T) {
	for seed := range uint64(max(4, stressRounds(12))) {
		s := runStress(t, seed, 1<<(seed%4), 4, 400, true)
		if st := s.e.Stats(); st.Keys != 0 || st.ArenaBytes != 0 {
			t.Fatalf("after Close: %+v", st)
		}
		if _, _, err := s.e.Get(0, keyFor(0), nil); !errors.Is(err, errs.ErrClosed) {
			t.Fatalf("get after Close: %v", err)
		}
	}
}
