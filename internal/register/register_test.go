package register

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

const (
	ms  = time.Millisecond
	ttl = 10 * time.Second
)

// history drives one checker with one key, number 3, one operation after the other.
type history struct {
	t   *testing.T
	c   *Checker
	now time.Duration
}

func newHistory(t *testing.T) *history {
	return &history{t: t, c: New(Options{Keys: 8, Counters: 2, TTL: func(int) time.Duration { return ttl }, Slack: 50 * ms, Call: 100 * ms})}
}

func (h *history) wait(d time.Duration) { h.now += d }

// set writes and returns the stored bytes.
func (h *history) set(acknowledged bool) []byte { return h.setKey(3, acknowledged) }

func (h *history) setKey(key int, acknowledged bool) []byte {
	h.t.Helper()
	w, ok := h.c.Begin(key, false)
	if !ok {
		h.t.Fatal("a write is under way already")
	}
	b := AppendValue(nil, Value{Key: uint64(key), Writer: 1, Version: w.Version, At: h.now}, 100)
	h.wait(ms)
	h.c.End(w, acknowledged, h.now)
	h.wait(ms)
	return b
}

func (h *history) del(acknowledged bool) {
	w, _ := h.c.Begin(3, true)
	h.wait(ms)
	h.c.End(w, acknowledged, h.now)
	h.wait(ms)
}

func (h *history) read(value []byte) Verdict {
	m := h.c.Look(3, h.now)
	h.wait(ms)
	return h.c.Judge(m, value, value != nil)
}

// Every history ends with the verdict that it must get; the first half must
// pass, each of the others is a violation that the checker has to see.
func TestVerdicts(t *testing.T) {
	tests := []struct {
		name string
		run  func(h *history) Verdict
		want Verdict
	}{
		{"nothing is always legal", func(h *history) Verdict { h.set(true); return h.read(nil) }, Absent},
		{"the latest value", func(h *history) Verdict { h.set(true); return h.read(h.set(true)) }, Legal},
		{"a write under way may be seen", func(h *history) Verdict {
			h.set(true)
			w, _ := h.c.Begin(3, false)
			return h.read(AppendValue(nil, Value{Key: 3, Version: w.Version, At: h.now}, 40))
		}, Legal},
		{"the value before a write under way", func(h *history) Verdict {
			v := h.set(true)
			h.c.Begin(3, false)
			return h.read(v)
		}, Legal},
		{"a read that began before the acknowledgement", func(h *history) Verdict {
			v := h.set(true)
			m := h.c.Look(3, h.now)
			h.set(true)
			return h.c.Judge(m, v, true)
		}, Legal},
		{"a write of unknown fate that lands late", func(h *history) Verdict { v := h.set(false); h.set(true); return h.read(v) }, Legal},
		{"a delete of unknown fate", func(h *history) Verdict { v := h.set(true); h.del(false); return h.read(v) }, Legal},
		{"the value of a write after a delete", func(h *history) Verdict { h.set(true); h.del(true); return h.read(h.set(true)) }, Legal},
		{"a value up to its TTL", func(h *history) Verdict { v := h.set(true); h.wait(ttl); return h.read(v) }, Legal},
		{"an old value during a crash", func(h *history) Verdict {
			v := h.set(true)
			h.set(true)
			h.c.Unclean(h.now)
			return h.read(v)
		}, Stale},

		{"stale after an acknowledged write", func(h *history) Verdict { v := h.set(true); h.set(true); return h.read(v) }, Stale},
		{"stale by two writes", func(h *history) Verdict { v := h.set(true); h.set(true); h.set(true); return h.read(v) }, Stale},
		{"resurrected after an acknowledged delete", func(h *history) Verdict { v := h.set(true); h.del(true); return h.read(v) }, Resurrected},
		{"an older value after a delete", func(h *history) Verdict { v := h.set(true); h.set(true); h.del(true); return h.read(v) }, Resurrected},
		{"over its TTL", func(h *history) Verdict { v := h.set(true); h.wait(ttl + 51*ms); return h.read(v) }, OverTTL},
		{"a stale value is over its TTL, too", func(h *history) Verdict {
			v := h.set(true)
			h.wait(ttl)
			h.set(true)
			h.wait(200 * ms)
			return h.read(v)
		}, OverTTL},
		{"a version that nobody wrote", func(h *history) Verdict {
			h.set(true)
			return h.read(AppendValue(nil, Value{Key: 3, Version: 9}, 100))
		}, Invented},
		{"version 0", func(h *history) Verdict { h.set(true); return h.read(AppendValue(nil, Value{Key: 3}, 100)) }, Invented},
		{"the value of another key", func(h *history) Verdict { h.set(true); return h.read(h.setKey(4, true)) }, Mixed},
		{"a torn value", func(h *history) Verdict { v := h.set(true); v[60] ^= 1; return h.read(v) }, Mixed},
		{"two values joined", func(h *history) Verdict {
			a, b := h.set(true), h.set(true)
			return h.read(append(bytes.Clone(b[:50]), a[50:]...))
		}, Mixed},
		{"a cut value", func(h *history) Verdict { v := h.set(true); return h.read(v[:99]) }, Mixed},
		{"an empty value", func(h *history) Verdict { h.set(true); return h.read([]byte{}) }, Mixed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(t)
			got := tt.run(h)
			if got != tt.want {
				t.Fatalf("verdict %v, want %v", got, tt.want)
			}
			s := h.c.Summary()
			excused := strings.Contains(tt.name, "crash")
			if bad := s.Violations() > 0; bad != (tt.want.Bad() && !excused) {
				t.Errorf("%d violations", s.Violations())
			}
			if (s.Excused > 0) != excused {
				t.Errorf("%d excused", s.Excused)
			}
			if s.Violations() > 0 && (len(s.Examples) != 1 || !strings.Contains(s.Examples[0], tt.want.String())) {
				t.Errorf("examples %q do not name the verdict", s.Examples)
			}
		})
	}
}

// A crash excuses what it may explain and nothing else.
func TestExcuses(t *testing.T) {
	h := newHistory(t)
	old := h.set(true)
	h.set(true)
	end := h.c.Unclean(h.now)
	h.wait(time.Second)
	end(h.now)
	h.wait(time.Second)
	if h.read(old); h.c.Summary().Violations() != 0 || h.c.Summary().Excused != 1 {
		t.Fatalf("a write before the crash was lost with it, yet: %+v", h.c.Summary())
	}
	if age := h.c.Summary().ExcusedAge; age < 2 || age > 2.1 {
		t.Errorf("greatest age %v s, want 2", age)
	}
	h.set(true)
	if h.read(old); h.c.Summary().Stale != 1 {
		t.Errorf("a write after the crash is gone, which nothing explains: %+v", h.c.Summary())
	}
	silent := newHistory(t)
	v := silent.set(true)
	silent.set(true)
	end = silent.c.Silent(silent.now)
	if silent.read(v); silent.c.Summary().Violations() != 0 || silent.c.Summary().Excused != 1 {
		t.Fatalf("an owner is silent and its copy lags, yet: %+v", silent.c.Summary())
	}
	end(silent.now)
	silent.wait(time.Millisecond)
	if silent.read(v); silent.c.Summary().Stale != 1 {
		t.Errorf("the owner answers again, and an old value was excused: %+v", silent.c.Summary())
	}
	before := newHistory(t)
	v = before.set(true)
	before.set(true)
	before.read(v)
	before.wait(time.Second)
	before.c.Unclean(before.now)
	if s := before.c.Summary(); s.Stale != 1 {
		t.Errorf("a read before the crash was excused: %+v", s)
	}
	for _, bad := range [][]byte{AppendValue(nil, Value{Key: 3, Version: 99}, 64), AppendValue(nil, Value{Key: 2, Version: 1}, 64)} {
		if before.read(bad); before.c.Summary().Excused != 0 {
			t.Errorf("an invented or mixed value was excused by a crash: %+v", before.c.Summary())
		}
	}
}

func TestCounters(t *testing.T) {
	type step struct {
		got     int64 // 0: of unknown fate
		verdict Verdict
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"counts", []step{{1, Legal}, {2, Legal}, {3, Legal}}},
		{"starts anew", []step{{1, Legal}, {2, Legal}, {1, Legal}, {2, Legal}}},
		{"an unknown one happened", []step{{1, Legal}, {0, 0}, {3, Legal}}},
		{"an unknown one did not happen", []step{{1, Legal}, {0, 0}, {2, Legal}}},
		{"an unknown one happens later", []step{{1, Legal}, {0, 0}, {2, Legal}, {4, Legal}}},
		{"but only once", []step{{1, Legal}, {0, 0}, {3, Legal}, {5, Invented}}},
		{"skips", []step{{1, Legal}, {3, Invented}}},
		{"repeats", []step{{1, Legal}, {2, Legal}, {2, CounterBack}}},
		{"goes back", []step{{1, Legal}, {2, Legal}, {3, Legal}, {4, Legal}, {3, CounterBack}}},
		{"is negative", []step{{1, Legal}, {-1, Invented}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHistory(t)
			for i, s := range tt.steps {
				if s.got == 0 {
					h.c.CountUnknown(1)
					continue
				}
				if got := h.c.Count(1, s.got, h.now, h.now+ms); got != s.verdict {
					t.Errorf("step %d: %v, want %v", i, got, s.verdict)
				}
				h.wait(2 * ms)
			}
		})
	}
	h := newHistory(t)
	for _, n := range []int64{1, 2, 3, 4} {
		h.c.Count(0, n, h.now, h.now)
	}
	h.c.Unclean(h.now)
	if h.c.Count(0, 3, h.now, h.now); h.c.Summary().Excused != 1 || h.c.Summary().Violations() != 0 {
		t.Errorf("a counter that went back by a crash is counted, not condemned: %+v", h.c.Summary())
	}
}

func TestMessagesCountFrom(t *testing.T) {
	h := newHistory(t)
	h.wait(3 * time.Second)
	h.c.From(h.now - time.Second)
	if h.read([]byte("torn")); !strings.HasPrefix(h.c.Summary().Examples[0], "1.000 s: mixed") {
		t.Errorf("message %q does not count from the second before", h.c.Summary().Examples[0])
	}
}

func TestOneWriteAtATime(t *testing.T) {
	c := New(Options{Keys: 1})
	w, ok := c.Begin(0, false)
	if _, second := c.Begin(0, true); !ok || second {
		t.Fatalf("first %v, second %v; want true, false", ok, second)
	}
	c.End(w, true, 0)
	if _, ok := c.Begin(0, true); !ok {
		t.Error("refused although the write has ended")
	}
}

// More writes of unknown fate than are remembered make the checker milder, not
// wrong.
func TestManyWritesOfUnknownFate(t *testing.T) {
	h := newHistory(t)
	sure := h.set(true)
	var first []byte
	for i := range 3 * maxDoubt {
		if v := h.set(false); i == 0 {
			first = v
		}
	}
	h.set(true)
	if got := h.read(first); got != Legal {
		t.Errorf("a forgotten write of unknown fate is %v", got)
	}
	if got := h.read(sure); got != Legal {
		t.Errorf("what is not known any more is %v", got)
	}
	if n := len(h.c.regs[3].doubt.versions); n != maxDoubt {
		t.Errorf("%d remembered, limit %d", n, maxDoubt)
	}
}

func TestValueSizes(t *testing.T) {
	for size := range 200 {
		in := Value{Key: 1 << 40, Writer: 7, Version: 1 << 30, At: time.Hour}
		b := AppendValue([]byte("x"), in, size)[1:]
		if len(b) != max(size, Header) {
			t.Fatalf("size %d: %d bytes", size, len(b))
		}
		if out, err := Decode(b); err != nil || out != in {
			t.Fatalf("size %d: %+v, %v", size, out, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(AppendValue(nil, Value{Key: 1, Version: 2}, 64))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := Decode(b)
		if err == nil && !bytes.Equal(AppendValue(nil, v, len(b))[:24], b[:24]) {
			t.Errorf("%x decodes to %+v, which encodes differently", b, v)
		}
	})
}

func TestReadsDoNotAllocate(t *testing.T) {
	h := newHistory(t)
	v := h.set(true)
	if n := testing.AllocsPerRun(100, func() {
		m := h.c.Look(3, h.now)
		h.c.Judge(m, v, true)
	}); n > 0 {
		t.Errorf("%v allocations per checked read", n)
	}
}
