package topology

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

func TestNodeID(t *testing.T) {
	const text = "00ff102030405060708090a0b0c0d0e0f0010203"
	id, err := ParseNodeID(strings.ToUpper(text))
	if err != nil || id.String() != text {
		t.Fatalf("ParseNodeID = %v, %v", id, err)
	}
	for _, bad := range []string{"", text[:39], text + "0", text[:39] + "g"} {
		if got, err := ParseNodeID(bad); !errors.Is(err, errs.ErrConfig) || !got.IsZero() {
			t.Errorf("ParseNodeID(%q) = %v, %v", bad, got, err)
		}
	}
	b, err := json.Marshal(id)
	if err != nil || string(b) != `"`+text+`"` {
		t.Errorf("JSON %s, %v", b, err)
	}
	var back NodeID
	if err := json.Unmarshal(b, &back); err != nil || back != id {
		t.Errorf("from JSON: %v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`"12"`), &back); err == nil || back != id {
		t.Errorf("a bad ID gives error %v and changes the value to %v", err, back)
	}
	other := id
	other[19]++
	if !id.Less(other) || other.Less(id) || id.Compare(other) != -1 || id.Compare(id) != 0 {
		t.Error("order of IDs is not that of their bytes")
	}
}

func TestState(t *testing.T) {
	for s, want := range map[State]string{Joining: "joining", Warming: "warming", Active: "active",
		Draining: "draining", Left: "left", Left + 1: "state(5)"} {
		if s.String() != want {
			t.Errorf("State(%d) = %q, want %q", s, s, want)
		}
		want := map[State]float64{Warming: 0.25, Active: 1, Draining: 0.25}[s]
		if m := (Member{State: s, Progress: 0.25}); m.Presence() != want {
			t.Errorf("presence of %s at 0.25: %v", s, m.Presence())
		}
	}
}

func TestAddr(t *testing.T) {
	for host, want := range map[string]string{"10.0.0.1": "10.0.0.1:7001", "cache-1": "cache-1:7001", "::1": "[::1]:7001"} {
		if got := (Member{Host: host, Port: 7001}).Addr(); got != want {
			t.Errorf("Addr of %q = %q, want %q", host, got, want)
		}
	}
}

func TestMemberValidate(t *testing.T) {
	if err := testMember(1).Validate(); err != nil {
		t.Fatalf("a good member: %v", err)
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		change func(*Member)
		want   string // "" is valid
	}{
		"zero ID":              {func(m *Member) { m.ID = NodeID{} }, "ID is zero"},
		"state 5":              {func(m *Member) { m.State = 5 }, "unknown state 5"},
		"weight 0":             {func(m *Member) { m.Weight = 0 }, ""},
		"weight 100":           {func(m *Member) { m.Weight = 100 }, ""},
		"weight above 100":     {func(m *Member) { m.Weight = 100.1 }, "weight is 100.1, must be 0 to 100"},
		"weight below 0":       {func(m *Member) { m.Weight = -1 }, "weight is -1"},
		"weight NaN":           {func(m *Member) { m.Weight = math.NaN() }, "weight is NaN"},
		"weight infinite":      {func(m *Member) { m.Weight = math.Inf(1) }, "weight is +Inf"},
		"old weight 100.1":     {func(m *Member) { m.OldWeight = 100.1 }, "old weight is 100.1, must be 0 to 100"},
		"progress 1":           {func(m *Member) { m.Progress = 1 }, ""},
		"progress above 1":     {func(m *Member) { m.Progress = 1.5 }, "progress is 1.5"},
		"progress NaN":         {func(m *Member) { m.Progress = math.NaN() }, "progress is NaN"},
		"host of 253":          {func(m *Member) { m.Host = long(253) }, ""},
		"host of 254":          {func(m *Member) { m.Host = long(254) }, "host has 254 bytes, limit 253"},
		"zone of 32":           {func(m *Member) { m.Zone = long(32) }, ""},
		"zone of 33":           {func(m *Member) { m.Zone = long(33) }, "zone has 33 bytes, limit 32"},
		"gossip of 65":         {func(m *Member) { m.Gossip = long(65) }, "gossip address has 65 bytes, limit 64"},
		"host with line break": {func(m *Member) { m.Host = "a\nb" }, "host contains"},
		"host with space":      {func(m *Member) { m.Host = "a b" }, "host contains"},
		"zone with escape":     {func(m *Member) { m.Zone = "\x1b[31m" }, "zone contains"},
		"zone with C1":         {func(m *Member) { m.Zone = "a\u0085b" }, "zone contains"},
		"zone not UTF-8":       {func(m *Member) { m.Zone = "\xff" }, "zone contains"},
		"zone in UTF-8":        {func(m *Member) { m.Zone = "zürich-1" }, ""},
	} {
		m := testMember(1)
		c.change(&m)
		err := m.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
