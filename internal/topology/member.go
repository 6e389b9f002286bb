package topology

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ringcache/ringcache/internal/ring"
)

// Epoch orders views for display; it is the greatest sequence among the
// members. Two different views may have one epoch: views are compared by hash.
type Epoch uint64

// State says how far a member has come in joining or leaving.
type State uint8

// The states of a member, in the order of its life.
const (
	// Joining members are known and appear in no reply to clients.
	Joining State = iota
	// Warming members take their slots over step by step, by their progress.
	Warming
	// Active members own all their slots.
	Active
	// Draining members hand their slots over before they leave, by their
	// progress, which falls.
	Draining
	// Left members have gone on their own will.
	Left

	stateCount
)

var stateNames = [stateCount]string{"joining", "warming", "active", "draining", "left"}

// String returns the name of the state in lower case.
func (s State) String() string {
	if s < stateCount {
		return stateNames[s]
	}
	return "state(" + strconv.Itoa(int(s)) + ")"
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Limits of one member and of a view. They hold in NewView and in DecodeView.
const (
	MaxMembers = 1000
	MaxHost    = 253 // bytes: the longest DNS name
	MaxZone    = 32  // bytes
	MaxGossip  = 64  // bytes: the longest ip%zone:port with room to spare
	MaxWeight  = ring.MaxWeight
)

// Member is one node as it describes itself. Only the node itself writes its
// own Member; every change takes Sequence = greatest sequence seen + 1.
type Member struct {
	ID NodeID `json:"id"`
	// Boot is the incarnation: boot time in ms << 16 | random. Greater is later.
	Boot     uint64 `json:"boot"`
	Sequence uint64 `json:"sequence"`
	State    State  `json:"state"`
	// Weight is 0 to MaxWeight; 0 owns nothing.
	Weight float64 `json:"weight"`
	// Progress is 0 to 1: of a Warming member how far its join is, of a Draining
	// one how much is left of it, of an Active one that is between 0 and 1 how far
	// it is from OldWeight to Weight.
	Progress float64 `json:"progress"`
	// OldWeight is the weight that an Active member with a progress between 0 and
	// 1 comes from, see Weighing; of all others it is 0. Views make it so.
	OldWeight float64 `json:"old_weight,omitempty"`
	Zone      string  `json:"zone,omitempty"`
	// Host is the advertised IP or host name of the data port.
	Host string `json:"host"`
	Port uint16 `json:"port"`
	// Gossip is the ip:port of the gossip port.
	Gossip string `json:"gossip,omitempty"`
}

// Presence is how much of the slots that its weight gives it a member owns: 0 is
// nothing, 1 is all.
func (m *Member) Presence() float64 {
	switch m.State {
	case Active:
		return 1
	case Warming, Draining:
		return m.Progress
	default:
		return 0
	}
}

// inSteps tells whether an Active member is on its way to another weight.
func (m *Member) inSteps() bool { return m.State == Active && m.Progress > 0 && m.Progress < 1 }

// Weighing tells whether the member changes its weight in steps: it has Weight in
// the part of all slots that Progress says, and OldWeight in the others.
func (m *Member) Weighing() bool { return m.inSteps() && m.OldWeight != m.Weight }

// PresentWeight is the member's weight over all slots: the part of it that it is
// present with, on the way to another one what lies between both.
func (m *Member) PresentWeight() float64 {
	if m.Weighing() {
		return m.OldWeight + (m.Weight-m.OldWeight)*m.Progress
	}
	return m.Weight * m.Presence()
}

// Canonical is m as every View has it: what has no meaning in its state is 0.
func (m Member) Canonical() Member {
	if !m.inSteps() {
		m.OldWeight = 0
	}
	for _, f := range []*float64{&m.Weight, &m.Progress, &m.OldWeight} {
		if *f == 0 {
			*f = 0 // -0 too: equal members have one encoding
		}
	}
	return m
}

// Addr returns the data address, host:port; an IPv6 host is put in brackets.
func (m Member) Addr() string {
	host := m.Host
	if strings.IndexByte(host, ':') >= 0 { // IPv6 literals need brackets
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(m.Port))
}

// Validate returns all faults of one member: what NewView would refuse. Whoever
// hears of members from others checks them before they reach a view.
func (m Member) Validate() error {
	var faults []error
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("member %s: "+format, append([]any{m.ID}, args...)...))
	}
	if m.ID.IsZero() {
		add("the node ID is zero")
	}
	if m.State >= stateCount {
		add("unknown state %d", uint8(m.State))
	}
	if !(m.Weight >= 0 && m.Weight <= MaxWeight) {
		add("weight is %v, must be 0 to %d", m.Weight, MaxWeight)
	}
	if !(m.OldWeight >= 0 && m.OldWeight <= MaxWeight) {
		add("old weight is %v, must be 0 to %d", m.OldWeight, MaxWeight)
	}
	if !(m.Progress >= 0 && m.Progress <= 1) {
		add("progress is %v, must be 0 to 1", m.Progress)
	}
	for _, f := range []struct {
		name, text string
		limit      int
	}{{"host", m.Host, MaxHost}, {"zone", m.Zone, MaxZone}, {"gossip address", m.Gossip, MaxGossip}} {
		if len(f.text) > f.limit {
			add("%s has %d bytes, limit %d", f.name, len(f.text), f.limit)
		}
		if !printable(f.text) {
			add("%s contains spaces, control characters or invalid UTF-8", f.name)
		}
	}
	return errors.Join(faults...)
}

// printable refuses what could break a line of CLUSTER NODES or a terminal.
func printable(s string) bool {
	return utf8.ValidString(s) && strings.IndexFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7F || r >= 0x80 && r <= 0x9F || r == '\u2028' || r == '\u2029'
	}) < 0
}
