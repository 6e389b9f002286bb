package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

func TestSelfCheck(t *testing.T) {
	good := vitals{late: 10 * time.Millisecond, buffers: 10, limit: 100, beside: -1, granted: 100}
	late, full, fat, refusing := good, good, good, good
	late.late = 300 * time.Millisecond
	full.buffers = 95
	fat.beside = 101
	refusing.refused = 1
	for _, tc := range []struct {
		name string
		bad  vitals
		says string
	}{
		{"late", late, "300ms late"}, {"full buffers", full, "95 of 100 bytes"}, {"fat", fat, "101 bytes beside"},
	} {
		var c selfCheck
		steps := []struct {
			v    vitals
			news bool
			why  bool
		}{
			{good, false, false}, {tc.bad, false, true}, {tc.bad, false, true}, {good, false, false}, // a hiccup
			{tc.bad, false, true}, {tc.bad, false, true}, {tc.bad, true, true}, {tc.bad, false, true},
			{good, false, true}, {good, false, true}, {tc.bad, false, true}, // not over yet
			{good, false, true}, {good, false, true}, {good, false, true}, {good, false, true}, {good, true, false}, {good, false, false},
		}
		for i, s := range steps {
			why, news := c.look(s.v)
			if news != s.news || (why != "") != s.why || s.news && s.why && !strings.Contains(why, tc.says) {
				t.Errorf("%s, step %d: %q, news %v", tc.name, i, why, news)
			}
		}
	}
	var c selfCheck
	for i := range uint64(3) {
		refusing.refused = i + 1
		if why, news := c.look(refusing); why == "" || news != (i == 2) {
			t.Errorf("refusal %d: %q, %v", i, why, news)
		}
	}
	if why, _ := c.look(refusing); why != "recovering" { // no more of them
		t.Error(why)
	}
}

// reporter is membership that takes note of what it is told.
type reporter struct {
	Members
	failed   []topology.NodeID
	degraded []bool
	heard    int
}

func (r *reporter) Failed(id topology.NodeID) { r.failed = append(r.failed, id) }
func (r *reporter) SetDegraded(on bool)       { r.degraded = append(r.degraded, on) }
func (r *reporter) Heard(topology.NodeID)     { r.heard++ }
func (r *reporter) Snapshot() membership.Snapshot {
	return membership.Snapshot{}
}
func (r *reporter) Close() error { return nil }

func TestOnlyThePeersFailuresAreReported(t *testing.T) {
	n := alone(t, nil)
	r := &reporter{}
	var m Members = r
	n.mem.Store(&m)
	defer n.mem.Store(nil)
	id := topology.NodeID{1}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel2 := context.WithTimeout(t.Context(), 0)
	defer cancel2()
	n.failed(cancelled, id, context.Canceled)
	n.failed(t.Context(), id, fmt.Errorf("x: %w", errs.ErrShed))
	n.failed(t.Context(), id, errs.ErrClosed)
	if len(r.failed) != 0 {
		t.Errorf("reported %d failures of this node itself", len(r.failed))
	}
	n.failed(expired, id, context.DeadlineExceeded)
	n.failed(t.Context(), id, errors.New("connection reset"))
	if len(r.failed) != 2 {
		t.Errorf("%d of 2 failures reported", len(r.failed))
	}
	if n.heard(id); r.heard != 1 {
		t.Error("an answer is not reported")
	}
	bad := vitals{late: time.Second}
	for range checkBad {
		n.checked(bad)
	}
	if len(r.degraded) != 1 || !r.degraded[0] || n.degraded.Load() == nil || !strings.Contains(n.Info(), "ringcache_degraded:its timers") {
		t.Errorf("%v; INFO says nothing", r.degraded)
	}
	for range checkGood {
		n.checked(vitals{})
	}
	if len(r.degraded) != 2 || r.degraded[1] || !strings.Contains(n.Info(), "ringcache_degraded:no") {
		t.Error(r.degraded)
	}
}

// A dial that asks for the data is answered only when a slot can be held: heartbeats
// and handshakes say nothing of that.
func TestPingReachesTheData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, func(o *Options) { o.Engine.Shards, o.Engine.NoBackground = 1, true; o.Now = time.Now })
		ping := func() string {
			var w resp.Writer
			n.ping(true, &w)
			return string(w.Buf)
		}
		if got := ping(); got != "+PONG\r\n" {
			t.Error(got)
		}
		tx, err := n.eng.Lock(0)
		if err != nil {
			t.Fatal(err)
		}
		n.long.Add(1) // a script, of which everybody knows that it may take its time
		if got := ping(); got != "+PONG\r\n" {
			t.Error(got)
		}
		n.long.Add(-1)
		n.pings.waiting.Add(maxPings)
		if got := ping(); !strings.HasPrefix(got, "-RCBUSY") {
			t.Error(got)
		}
		n.pings.waiting.Add(-maxPings)
		var w resp.Writer
		n.ping(false, &w)
		if string(w.Buf) != "+PONG\r\n" {
			t.Errorf("a ping that does not ask for data waits: %q", w.Buf)
		}
		tx.Unlock()
	})
}
