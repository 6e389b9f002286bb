package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/topology"
)

// fakeContents are contents that a test sets.
type fakeContents struct {
	windows, ceded atomic.Int64
	pressure       atomic.Int64 // per cent
}

func (f *fakeContents) WindowsOpen() int      { return int(f.windows.Load()) }
func (f *fakeContents) CededSlots() int       { return int(f.ceded.Load()) }
func (f *fakeContents) missPressure() float64 { return float64(f.pressure.Load()) / 100 }

// awaited runs awaitStep and returns how long it took, in virtual time.
func awaited(t *testing.T, n *Node, limit time.Duration, last bool) time.Duration {
	t.Helper()
	began := time.Now()
	if !n.awaitStep(t.Context(), began.Add(limit), last) {
		t.Error("the change is over")
	}
	return time.Since(began)
}

// The next step is taken when content has come, or the requests that wait for it
// are within the budget, or the time of the step is over.
func TestPaceOfSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, nil)
		f := new(fakeContents)
		n.contents = f
		if took := awaited(t, n, time.Hour, false); took != 0 {
			t.Errorf("without content a step took %v", took)
		}
		f.windows.Store(100)
		if took := awaited(t, n, time.Hour, true); took != 0 {
			t.Errorf("the last step took %v", took)
		}
		if took := awaited(t, n, time.Hour, false); took < stepPause || took > stepPause+2*rampTick {
			t.Errorf("within the budget a step took %v", took)
		}
		f.pressure.Store(6)
		if took := awaited(t, n, 7*time.Second, false); took != 7*time.Second {
			t.Errorf("above the budget a step took %v", took)
		}
		time.AfterFunc(3*time.Second, func() { f.pressure.Store(5) })
		if took := awaited(t, n, time.Hour, false); took < 3*time.Second || took > 3*time.Second+2*rampTick {
			t.Errorf("a step took %v, the pressure falls after 3 s", took)
		}
		f.pressure.Store(6)
		time.AfterFunc(2*time.Second, func() { f.windows.Store(0) })
		if took := awaited(t, n, time.Hour, false); took < 2*time.Second || took > 2*time.Second+2*rampTick {
			t.Errorf("a step took %v, the windows close after 2 s", took)
		}
		f.ceded.Store(1) // a change of weight gives slots up as well
		if took := awaited(t, n, 7*time.Second, false); took != 7*time.Second {
			t.Errorf("a step with content that others fetch took %v", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if n.awaitStep(ctx, time.Now().Add(time.Hour), false) {
			t.Error("a change that was ended goes on")
		}
	})
}

// A drain waits for takers until its time is over, unless it is in a hurry.
func TestAwaitFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, nil)
		f := new(fakeContents)
		n.contents = f
		f.ceded.Store(1)
		wait := func() time.Duration {
			began := time.Now()
			n.awaitFetched(t.Context(), began.Add(time.Minute))
			return time.Since(began)
		}
		if took := wait(); took != 0 {
			t.Errorf("without anybody who stays it took %v", took)
		}
		other := member(200, "10.0.0.200", topology.Active)
		v, err := topology.NewView(topology.Params{}, nil, []topology.Member{n.selfMember(), other}, nil)
		if err != nil {
			t.Fatal(err)
		}
		n.pub.Store(n.newPublished(v, n.pub.Load().snap, nil))
		if took := wait(); took != time.Minute {
			t.Errorf("with takers that do not come it took %v", took)
		}
		time.AfterFunc(time.Second, func() { f.ceded.Store(0) })
		if took := wait(); took < time.Second || took > time.Second+2*rampTick {
			t.Errorf("with takers that end after a second it took %v", took)
		}
		f.ceded.Store(1)
		n.Hurry()
		if took := wait(); took != 0 {
			t.Errorf("in a hurry it took %v", took)
		}
	})
}

func TestStepsAreChecked(t *testing.T) {
	if err := (Steps{}).Validate(); err != nil {
		t.Error(err)
	}
	for _, s := range []Steps{{Join: -1}, {Join: 65}, {MissBudget: -0.1}, {MissBudget: 1.1}, {JoinTime: -1}, {DrainTimeout: -1}} {
		if err := s.Validate(); !errors.Is(err, errs.ErrConfig) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// A node that is alone gets its weight at once, and one that leaves none.
func TestWeightAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, nil)
		if err := n.SetWeight(3); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if m := n.View().Member(0); m.Weight != 3 || m.Progress != 0 {
			t.Errorf("%+v", m)
		}
		n.draining.Store(true)
		if err := n.SetWeight(2); !errors.Is(err, errs.ErrUnavailable) {
			t.Errorf("while it leaves: %v", err)
		}
	})
}
