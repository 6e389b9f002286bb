package membership

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

// A script drives the policy alone. Its lines are
//
//	# narration
//	TIME join|gone|left|bye|failed|heard|check PEER...   an event for each
//	                  (left: metadata that say so; bye: memberlist's leave after it)
//	TIME hint PEER from PEER
//	TIME out PEER by PEER                            the second does not count the first
//	TIME PEER... ok|refused|silent|none              how dials of them end from now on
//	TIME sleep DURATION                              no ticks meanwhile
//	want FROM..TO VERDICT [PEER]                     exactly one such verdict, then
//	health TIME PEER alive|suspect|dead|absent
//	dials FROM..TO PEER COUNT                        how many of our dials begin
//	self on|off TIME                                 whether we suspect ourselves
//	end TIME
//
// This node is A. A peer is a letter, its ID; a digit after it is its boot
// (1 if none); @x gives it another data host. Verdicts that no line wants fail
// the script: dead, back, left, doubt, trust, superseded, paused.
type script struct {
	t      *testing.T
	p      *policy
	start  time.Time
	now    time.Duration
	fate   map[string]dialResult
	peers  map[string]topology.Member
	flying []flight
	got    []verdict
	begun  []verdict // dials
	deaths map[string]bool
}

type flight struct {
	at time.Duration
	ev event
}

type verdict struct {
	at   time.Duration
	text string
}

type scriptLine struct {
	at    time.Duration
	words []string
	no    int
}

func TestPolicyScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) < 8 {
		t.Fatalf("only %d scripts found", len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { runScript(t, file) })
	}
}

func runScript(t *testing.T, file string) {
	var events, checks []scriptLine
	end := time.Duration(0)
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for scan, no := bufio.NewScanner(f), 1; scan.Scan(); no++ {
		words := strings.Fields(strings.SplitN(scan.Text(), "#", 2)[0])
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "end":
			end = duration(t, words[1])
		case "want", "health", "dials", "self":
			checks = append(checks, scriptLine{words: words, no: no})
		default:
			events = append(events, scriptLine{duration(t, words[0]), words[1:], no})
		}
	}
	s := &script{t: t, start: time.Unix(1e9, 0), fate: map[string]dialResult{},
		peers: map[string]topology.Member{}, deaths: map[string]bool{}}
	s.p = newPolicy(s.member("A"), 3*time.Second, false, 1, s.start)
	var probes []scriptLine
	for _, c := range checks {
		if c.words[0] == "health" {
			probes = append(probes, scriptLine{duration(t, c.words[1]), c.words, c.no})
		}
		if c.words[0] == "self" {
			probes = append(probes, scriptLine{duration(t, c.words[2]), c.words, c.no})
		}
	}
	all := append(slices.Clone(events), probes...)
	slices.SortStableFunc(all, func(a, b scriptLine) int { return int(a.at - b.at) })
	for _, line := range all {
		s.until(line.at)
		s.line(line)
	}
	s.until(end)
	s.check(checks)
}

func duration(t *testing.T, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// member reads "B", "B2" or "B2@x".
func (s *script) member(word string) topology.Member {
	word, host, moved := strings.Cut(word, "@")
	name := word
	m := topology.Member{ID: topology.NodeID{word[0]}, Boot: 1, Sequence: 1, State: topology.Active, Weight: 1, Port: 7001}
	if len(word) > 1 {
		m.Boot = uint64(word[1] - '0')
	}
	if !moved {
		host = strings.ToLower(word[:1])
	}
	if known, ok := s.peers[name]; ok && !moved {
		return known
	}
	m.Host, m.Gossip = host, host+":17001"
	s.peers[name] = m
	return m
}

// label is the inverse of member.
func label(m topology.Member) string {
	if m.Boot == 1 {
		return string(m.ID[:1])
	}
	return fmt.Sprintf("%c%d", m.ID[0], m.Boot)
}

// until runs ticks and ends dials up to a time.
func (s *script) until(at time.Duration) {
	for s.now < at {
		next := min(at, (s.now/tickEvery+1)*tickEvery)
		i := -1
		for j, f := range s.flying {
			if f.at < next && (i < 0 || f.at < s.flying[i].at) {
				i = j
			}
		}
		if i >= 0 {
			f := s.flying[i]
			s.flying = slices.Delete(s.flying, i, i+1)
			s.now = max(s.now, f.at)
			s.step(f.ev)
			continue
		}
		s.now = next
		if s.now%tickEvery == 0 {
			s.step(event{kind: evTick})
		}
	}
}

func (s *script) step(ev event) {
	for _, a := range slices.Clone(s.p.step(s.start.Add(s.now), ev)) {
		who := label(a.member)
		say := func(text string) { s.got = append(s.got, verdict{s.now, text}) }
		switch a.kind {
		case actDial:
			s.begun = append(s.begun, verdict{s.now, who})
			r, ok := s.fate[who]
			if !ok {
				r = dialOK
			}
			took := time.Millisecond
			if r == dialSilent {
				took = time.Second
			}
			s.flying = append(s.flying, flight{s.now + took,
				event{kind: evDial, name: a.name, started: s.start.Add(s.now), result: r, rtt: took}})
		case actJoined:
			if s.deaths[who] {
				say("back " + who)
			}
		case actDead:
			s.deaths[who] = true
			say("dead " + who)
		case actLeft:
			say("left " + who)
		case actDoubt:
			say("doubt")
		case actTrust:
			say("trust")
		case actSuperseded:
			say("superseded " + who)
		case actPaused:
			say("paused")
		}
	}
}

func (s *script) line(l scriptLine) {
	kinds := map[string]eventKind{"join": evJoin, "gone": evLeave, "left": evUpdate, "bye": evLeave, "failed": evProbeFailed,
		"heard": evHeard, "check": evCheck, "hint": evHint, "out": evOut}
	fates := map[string]dialResult{"ok": dialOK, "refused": dialRefused, "silent": dialSilent, "none": dialNone}
	last := l.words[len(l.words)-1]
	if fate, ok := fates[last]; ok && l.words[0] != "health" {
		for _, w := range l.words[:len(l.words)-1] {
			s.fate[label(s.member(w))] = fate
		}
		return
	}
	switch l.words[0] {
	case "sleep":
		s.now += duration(s.t, l.words[1]) / tickEvery * tickEvery
		s.flying = nil
		for _, q := range s.p.peers { // their dials time out with us asleep
			if q.dialing {
				s.flying = append(s.flying, flight{s.now + time.Millisecond,
					event{kind: evDial, name: q.name, started: q.lastStart, result: dialSilent}})
			}
		}
		return
	case "health":
		s.health(l)
		return
	case "self":
		if got := s.p.snapshot(s.start.Add(s.now)).SelfSuspect; got != (l.words[1] == "on") {
			s.t.Errorf("line %d: self-suspicion is %v", l.no, got)
		}
		return
	}
	kind, ok := kinds[l.words[0]]
	if !ok {
		s.t.Fatalf("line %d: unknown %q", l.no, l.words[0])
	}
	words := l.words[1:]
	if kind == evHint {
		m, from := s.member(words[0]), s.member(words[2])
		s.step(event{kind: kind, name: nodeName(m.ID, m.Boot), id: from.ID})
		return
	}
	if kind == evOut {
		s.step(event{kind: kind, id: s.member(words[0]).ID, by: s.member(words[2]).ID})
		return
	}
	for _, w := range words {
		m := s.member(w)
		if l.words[0] == "left" || l.words[0] == "bye" {
			m.State = topology.Left
		}
		s.step(event{kind: kind, name: nodeName(m.ID, m.Boot), id: m.ID, member: m})
	}
}

func (s *script) health(l scriptLine) {
	m, got := s.member(l.words[2]), "absent"
	for _, p := range s.p.snapshot(s.start.Add(s.now)).Members {
		if p.ID == m.ID && p.Boot == m.Boot {
			got = p.Health.String()
		}
	}
	if got != l.words[3] {
		s.t.Errorf("line %d: %s is %s, want %s", l.no, l.words[2], got, l.words[3])
	}
}

func (s *script) check(checks []scriptLine) {
	for _, c := range checks {
		if c.words[0] != "want" && c.words[0] != "dials" {
			continue
		}
		from, to, _ := strings.Cut(c.words[1], "..")
		least, most := duration(s.t, from), duration(s.t, to)
		in := func(v verdict, text string) bool { return v.text == text && v.at >= least && v.at <= most }
		if c.words[0] == "dials" {
			n := 0
			for _, v := range s.begun {
				if in(v, c.words[2]) {
					n++
				}
			}
			if fmt.Sprint(n) != c.words[3] {
				s.t.Errorf("line %d: %d dials, want %s", c.no, n, c.words[3])
			}
			continue
		}
		text := strings.Join(c.words[2:], " ")
		i := slices.IndexFunc(s.got, func(v verdict) bool { return in(v, text) })
		if i < 0 {
			s.t.Errorf("line %d: no %q between %s and %s; left over: %v", c.no, text, from, to, s.got)
			continue
		}
		s.got = slices.Delete(s.got, i, i+1)
	}
	if len(s.got) > 0 {
		s.t.Errorf("verdicts that nobody wants: %v", s.got)
	}
}
