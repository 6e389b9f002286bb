package membership

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

var record = flag.Bool("record", false, "write testdata/recorded anew")

// A recorded log is what one node's policy was told in a run with real memberlist,
// and what it did: a line of JSON for its start, and one for each step.
type (
	loggedMember struct {
		topology.Member
		State uint8 `json:"state"` // as a number, in place of the member's
	}
	loggedStart struct {
		Self  loggedMember
		Hold  time.Duration
		Seeds bool
		Seed  uint64
		At    time.Time
	}
	loggedStep struct {
		At       time.Duration   // since the start
		Kind     eventKind       `json:",omitzero"`
		Name     string          `json:",omitzero"`
		ID       topology.NodeID `json:",omitzero"`
		By       topology.NodeID `json:",omitzero"`
		Member   loggedMember    `json:",omitzero"`
		Result   dialResult      `json:",omitzero"`
		Started  time.Duration   `json:",omitzero"`
		RTT      time.Duration   `json:",omitzero"`
		Degraded bool            `json:",omitzero"`
		Did      []string        `json:",omitzero"`
	}
)

func logMember(m topology.Member) loggedMember { return loggedMember{m, uint8(m.State)} }

func (m loggedMember) member() topology.Member {
	m.Member.State = topology.State(m.State)
	return m.Member
}

// written is an action in one line: all that the runner would act upon.
func written(a action) string {
	s := fmt.Sprintf("%d %s", a.kind, a.name)
	if a.text != "" {
		s += " " + a.text
	}
	for _, t := range a.targets {
		s += fmt.Sprintf(" >%s", t.Host)
	}
	return s
}

func writtenAll(as []action) (out []string) {
	for _, a := range as {
		out = append(out, written(a))
	}
	return out
}

// logged runs a cluster of n, in which the last node is paused, cut off and
// killed, and returns the log of the first.
func logged(t *testing.T, n int) (lines []string) {
	var mu sync.Mutex
	add := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		lines = append(lines, string(text))
		mu.Unlock()
	}
	synctest.Test(t, func(t *testing.T) {
		var start time.Time
		c := newCluster(t, n, func(o *Options) {
			if o.Self.ID != idOf(0) || o.record != nil {
				return
			}
			start = time.Now()
			self := o.Self
			self.Gossip = self.Host + ":17001"
			add(loggedStart{logMember(self), 3 * time.Second, true, o.Seed, start})
			o.record = func(now time.Time, ev event, did []action) {
				s := loggedStep{At: now.Sub(start), Kind: ev.kind, Name: ev.name, ID: ev.id, By: ev.by, Member: logMember(ev.member), Result: ev.result,
					RTT: ev.rtt, Degraded: ev.degraded, Did: writtenAll(did)}
				if !ev.started.IsZero() {
					s.Started = ev.started.Sub(start)
				}
				add(s)
			}
		})
		defer c.close()
		ip := ipOfNode(n - 1)
		c.nodes[ip].SetDegraded(true)
		c.net.pause(ip)
		c.wait(2 * time.Second)
		c.net.resume(ip)
		c.wait(5 * time.Second)
		c.net.isolate(ip, true)
		c.nodes[ipOfNode(0)].Failed(idOf(n - 1))
		c.wait(16 * time.Second)
		c.net.isolate(ip, false)
		c.wait(10 * time.Second)
		c.kill(ip)
		c.wait(4 * time.Second)
	})
	return lines
}

// replay feeds a log to a new policy and compares what it does.
func replay(lines []string) (deaths, steps int, err error) {
	var start loggedStart
	if err := json.Unmarshal([]byte(lines[0]), &start); err != nil {
		return 0, 0, err
	}
	p := newPolicy(start.Self.member(), start.Hold, start.Seeds, start.Seed, start.At)
	for i, line := range lines[1:] {
		var s loggedStep
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			return 0, 0, err
		}
		ev := event{kind: s.Kind, name: s.Name, id: s.ID, by: s.By, member: s.Member.member(), result: s.Result, rtt: s.RTT, degraded: s.Degraded}
		if s.Kind == evDial {
			ev.started = start.At.Add(s.Started)
		}
		did := p.step(start.At.Add(s.At), ev)
		if got := writtenAll(did); !slices.Equal(got, s.Did) {
			return 0, 0, fmt.Errorf("line %d, after %s: the policy does\n\t%s\nwhere it did\n\t%s", i+2, s.At,
				strings.Join(got, "\n\t"), strings.Join(s.Did, "\n\t"))
		}
		for _, a := range did {
			if a.kind == actDead {
				deaths++
			}
		}
		steps++
	}
	return deaths, steps, nil
}

// A run of today, seen by one node, is repeated from its log alone.
func TestPolicyRepeatsALiveRun(t *testing.T) {
	lines := logged(t, 5)
	if deaths, steps, err := replay(lines); deaths < 2 || steps < 500 || err != nil {
		t.Errorf("%d deaths in %d steps, which is too tame, or %v", deaths, steps, err)
	}
}

// A log of another day: whoever changes what the policy does sees it here, and
// writes it anew with -record.
func TestPolicyRepeatsTheRecordedRun(t *testing.T) {
	path := filepath.Join("testdata", "recorded", "pause_outage_kill.jsonl")
	if *record {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(logged(t, 3), "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var lines []string
	scan := bufio.NewScanner(f)
	for scan.Buffer(nil, 1<<20); scan.Scan(); {
		lines = append(lines, scan.Text())
	}
	if deaths, steps, err := replay(lines); deaths < 2 || steps < 300 || err != nil {
		t.Errorf("%d deaths in %d steps, which is too tame, or %v", deaths, steps, err)
	}
	// The comparison is one: a log with one verdict less is refused.
	for i, line := range lines {
		if at := strings.Index(line, fmt.Sprintf(`"%d `, actDead)); at >= 0 {
			lines[i] = line[:at+1] + "0" + line[at+1:]
			break
		}
	}
	if _, _, err := replay(lines); err == nil {
		t.Error("a log that was tampered with is accepted")
	}
}
