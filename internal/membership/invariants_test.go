package membership

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// story drives a policy with random events from a seed and returns everything
// that it did. healthy dials always succeed.
func story(seed uint64, healthy bool, look func(p *policy, now time.Time, acts []action)) []action {
	rng := rand.New(rand.NewPCG(seed, 1))
	now := time.Unix(1e9, 0)
	self := topology.Member{ID: topology.NodeID{50}, Boot: 5, State: topology.Active, Weight: 1, Host: "self", Port: 1}
	p := newPolicy(self, 3*time.Second, true, seed, now)
	var log []action
	var dials []event
	feed := func(ev event) {
		acts := p.step(now, ev)
		for _, a := range acts {
			if a.kind == actDial {
				r := dialOK
				if !healthy {
					r = dialResult(rng.IntN(4))
				}
				dials = append(dials, event{kind: evDial, name: a.name, started: now, result: r})
			}
			a.targets = append([]topology.Member(nil), a.targets...)
			log = append(log, a)
		}
		if look != nil {
			look(p, now, acts)
		}
	}
	for range 3000 {
		now = now.Add(time.Duration(rng.IntN(150)) * time.Millisecond)
		if rng.IntN(400) == 0 {
			now = now.Add(time.Duration(rng.IntN(80)) * time.Second)
		}
		m := topology.Member{ID: topology.NodeID{byte(45 + rng.IntN(11))}, Boot: uint64(4 + rng.IntN(3)),
			State: topology.Active, Weight: 1, Host: fmt.Sprint(rng.IntN(14)), Port: 1}
		if m.ID == self.ID && m.Boot == self.Boot {
			continue
		}
		if rng.IntN(30) == 0 {
			m.State = topology.Left
		}
		ev := event{name: nodeName(m.ID, m.Boot), id: m.ID, member: m, rtt: time.Millisecond}
		switch n := rng.IntN(20); {
		case n < 8:
			ev.kind = evTick
		case n < 10:
			ev.kind = evJoin
		case n < 11:
			ev.kind = evLeave
		case n < 16 && len(dials) > 0:
			i := rng.IntN(len(dials))
			ev = dials[i]
			dials = append(dials[:i], dials[i+1:]...)
		default:
			ev.kind = []eventKind{evUpdate, evProbeFailed, evAck, evHeard, evCheck, evHint}[rng.IntN(6)]
		}
		feed(ev)
	}
	return log
}

func TestPolicyReplays(t *testing.T) {
	for seed := range uint64(20) {
		if a, b := story(seed, false, nil), story(seed, false, nil); !reflect.DeepEqual(a, b) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}

func TestPolicyNeverKillsWhoAnswers(t *testing.T) {
	for seed := range uint64(40) {
		for _, a := range story(seed, true, nil) {
			if a.kind == actDead || a.kind == actDoubt {
				t.Fatalf("seed %d: %+v", seed, a)
			}
		}
	}
}

func TestPolicyInvariants(t *testing.T) {
	deaths := 0
	for seed := range uint64(30) {
		last := uint64(0)
		story(seed, false, func(p *policy, now time.Time, acts []action) {
			s := p.snapshot(now)
			selfSeen, flying := false, 0
			for i, m := range s.Members {
				if i > 0 && s.Members[i-1].ID.Compare(m.ID) >= 0 {
					t.Fatalf("seed %d: not sorted, or an ID twice: %v", seed, s.Members)
				}
				selfSeen = selfSeen || m.Member == p.self && m.Health == Alive
				if m.State == topology.Left {
					t.Fatalf("seed %d: a leaver is listed", seed)
				}
			}
			for name, q := range p.peers {
				if q.dialing {
					flying++
				}
				if name != q.name || len(q.refusals) > refusalProof || len(q.reports) > MaxPeers {
					t.Fatalf("seed %d: %+v", seed, q)
				}
			}
			if !selfSeen || p.dials > maxDials || flying > p.dials {
				t.Fatalf("seed %d: self listed %v, %d dials, %d of known peers", seed, selfSeen, p.dials, flying)
			}
			published := false
			for _, a := range acts {
				if a.kind == actDead {
					deaths++
					if p.doubt == doubtHolding && !strings.Contains(a.text, "refuses") {
						t.Fatalf("seed %d: declared dead while in doubt: %s", seed, a.text)
					}
				}
				published = published || a.kind == actPublish
			}
			if published && s.Version <= last {
				t.Fatalf("seed %d: version %d after %d", seed, s.Version, last)
			}
			last = max(last, s.Version)
		})
	}
	if deaths < 30 {
		t.Errorf("only %d deaths: the stories are too tame", deaths)
	}
}
