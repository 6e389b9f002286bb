package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// built is the server, built once from this tree when a test wants it.
var built struct {
	sync.Mutex
	dir, path string
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

func server(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes are not started with -short")
	}
	built.Lock()
	defer built.Unlock()
	if built.path != "" {
		return built.path
	}
	dir, err := os.MkdirTemp("", "ringcache-drill-test")
	if err != nil {
		t.Fatal(err)
	}
	built.dir = dir
	path := filepath.Join(dir, "ringcache")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/ringcache/ringcache/cmd/ringcache").CombinedOutput(); err != nil {
		t.Fatalf("building the server: %v\n%s", err, out)
	}
	built.path = path
	return path
}

func short(t *testing.T, scenario string) Options {
	return Options{
		Scenario: scenario, Binary: server(t), Keys: 2000, Rate: 400, BinRequests: 400, Timeout: 250 * time.Millisecond,
		Before: time.Second, Duration: 3 * time.Second, MaxMemory: "16mb", Args: []string{"--loops", "1"}, Seed: 3,
	}
}

func drilled(t *testing.T, o Options) *Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	r, err := Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	r.Judge(Limits{})
	s := r.Summary
	t.Logf("hit ratio %.4f before, worst drop %.2f points, %d errors (control %d), slot p99 %.0f ms of %d, took %v, %d checked, %d excused; %d taken for dead",
		s.HitBefore, s.WorstDrop, s.Errors, s.ControlErrs, s.SlotP99, s.Slots, s.Took, s.Check.Reads, s.Check.Excused, s.Deaths)
	for _, e := range r.Events {
		t.Logf("%.2f s: %s", e.At, e.What)
	}
	if len(r.Missed) > 0 {
		t.Errorf("%v: %v", r.Missed, s.Check.Examples)
	}
	if s.Check.Values < 500 || s.Control.Values < 500 || s.HitBefore < 0.9 {
		t.Errorf("%d and %d values checked, hit ratio %.2f before: the drill shows nothing", s.Check.Values, s.Control.Values, s.HitBefore)
	}
	if s.Control.Excused > 0 || s.ControlDead > 0 {
		t.Errorf("the control had faults: %+v", s)
	}
	if r.Faults == 0 || len(r.Bins) < 2 {
		t.Errorf("%d faults, %d bins", r.Faults, len(r.Bins))
	}
	return r
}

func TestJoin(t *testing.T) {
	r := drilled(t, short(t, "join"))
	if _, ok := r.Summary.Took["join"]; !ok {
		t.Error("it is not told how long the join took")
	}
	contentFollows(t, r)
}

func TestLeave(t *testing.T) { contentFollows(t, drilled(t, short(t, "leave"))) }

// contentFollows: without it the slots that move cost a tenth and more of the
// hits. Where calls ran into their deadlines, the machine was too busy to tell.
func contentFollows(t *testing.T, r *Report) {
	t.Helper()
	if s := r.Summary; s.WorstDrop > 3 && s.Errors == 0 {
		t.Errorf("the hit ratio fell by %.2f points: keys did not follow their slots", s.WorstDrop)
	}
}

func TestKill(t *testing.T) {
	r := drilled(t, short(t, "kill"))
	if r.Summary.Slots == 0 || r.Summary.NoAnswer > 0 {
		t.Errorf("%d slots of the dead node answered again, %d did not", r.Summary.Slots, r.Summary.NoAnswer)
	}
	if r.Summary.Deaths == 0 {
		t.Error("nobody took the killed node for dead")
	}
}

func TestPause(t *testing.T) {
	o := short(t, "pause")
	o.Faults = 2
	if r := drilled(t, o); r.Summary.Deaths > 0 {
		t.Errorf("a frozen node was taken for dead %d times", r.Summary.Deaths)
	}
}

func TestMassRestart(t *testing.T) { drilled(t, short(t, "mass-restart")) }

func TestFlap(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the faulty network needs Linux")
	}
	o := short(t, "flap")
	o.Faults = 1
	r := drilled(t, o)
	if r.Summary.Deaths > 0 {
		t.Errorf("a node that was cut off for less than 2 s was taken for dead %d times", r.Summary.Deaths)
	}
	if r.Summary.Errors == 0 {
		t.Error("no call failed while the node was cut off: the network was not faulty")
	}
}

func TestShardedTargets(t *testing.T) {
	drops := map[string]float64{}
	for _, target := range []string{TargetModulo, TargetKetama} {
		o := short(t, "join")
		o.Target = target
		o.Timeout = time.Second // a client does without a server that was late once: a busy machine is no fault
		r := drilled(t, o)
		drops[target] = r.Summary.WorstDrop
	}
	if drops[TargetModulo] < 10 || drops[TargetModulo] < drops[TargetKetama]+5 {
		t.Errorf("a join costs %v points: modulo must lose most of its hits, ketama the new node's share", drops)
	}
}

// An interrupted drill leaves no process behind.
func TestInterrupted(t *testing.T) {
	o := short(t, "join")
	o.Before, o.Duration = time.Minute, time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	o.Progress = func(phase string, done, _ int) {
		if strings.HasPrefix(phase, "measuring") && done > 0 {
			cancel()
		}
	}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
	if runtime.GOOS == "linux" {
		if left := children(t); left != "" {
			t.Errorf("still there: %s", left)
		}
	}
}

// children names the processes that this one has started and not reaped.
func children(t *testing.T) string {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if err == nil {
			all.Write(b)
		}
	}
	return all.String()
}

// A process that cannot start is an error that says why.
func TestProcessThatEndsAtOnce(t *testing.T) {
	o := short(t, "join")
	o.MaxMemory = "nonsense"
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "max-memory") {
		t.Errorf("error %v does not say what the process said", err)
	}
}
