package node

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

func TestPeerHandshakeRefusals(t *testing.T) {
	n := alone(t, func(o *Options) { o.Secret = []byte("s") })
	id, nonce := strings.Repeat("ab", 20), strings.Repeat("cd", 16)
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"protocol", []string{"2", "test", id, nonce}, "RCMISMATCH"},
		{"cluster", []string{"1", "prod", id, nonce}, "RCMISMATCH"},
		{"ID", []string{"1", "test", "xy", nonce}, "ERR"},
		{"nonce", []string{"1", "test", id, "1234"}, "ERR"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &fakeSession{}
			if v := runAs(t, n, s, 2, append([]string{"RC.HELLO"}, tc.args...)...); v.Kind != resp.Error || !strings.HasPrefix(v.Text(), tc.want) {
				t.Errorf("%q", v.Text())
			}
			if !s.closed {
				t.Error("the session stays open")
			}
			if v := runAs(t, n, s, 2, "RC.AUTH", strings.Repeat("00", 32)); !strings.HasPrefix(v.Text(), "RCAUTH") || s.peer || !s.closed {
				t.Errorf("RC.AUTH after it: %q, peer %v, closed %v", v.Text(), s.peer, s.closed)
			}
		})
	}
	t.Run("wrong proof", func(t *testing.T) {
		s := &fakeSession{}
		if v := runAs(t, n, s, 2, "RC.HELLO", "1", "test", id, nonce); v.Kind != resp.Array {
			t.Fatalf("%q", v.Text())
		}
		if v := runAs(t, n, s, 2, "RC.AUTH", hex.EncodeToString(make([]byte, 32))); !strings.HasPrefix(v.Text(), "RCAUTH") || s.peer || !s.closed {
			t.Errorf("%q, peer %v, closed %v", v.Text(), s.peer, s.closed)
		}
		if v := runAs(t, n, s, 2, "RC.VIEW"); v.Kind != resp.Error {
			t.Error("an unproven session reads the view")
		}
	})
}

// proven is a session of a peer that has proven itself.
func proven(id topology.NodeID) *fakeSession {
	return &fakeSession{attachment: &peerSession{id: id, proven: true}, peer: true}
}

func TestReleaseCommand(t *testing.T) {
	n := alone(t, nil)
	view := string(n.View().AppendBinary(nil))
	other := topology.NodeID{9}
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{"slots of this node", []string{view, "0-5", n.ID().String()}, "RCNOTYET slot 0 belongs to " + n.ID().String()},
		{"another node is meant", []string{view, "0-5", other.String()}, "RCNOTYET this is node " + n.ID().String()},
		{"bad ranges", []string{view, "9-3"}, "ERR slot range"},
		{"beyond the slots", []string{view, "16384"}, "ERR slot range"},
		{"reminder of a stranger", []string{view, ""}, "OK"},
		{"view that is none", []string{"garbage", "0-5"}, "RCNOTYET"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if v := runAs(t, n, proven(other), 2, append([]string{"RC.RELEASE"}, tc.args...)...); !strings.HasPrefix(v.Text(), tc.want) {
				t.Errorf("%q", v.Text())
			}
			if !n.Serving(0) || !n.Serving(5) {
				t.Error("slots were given up")
			}
		})
	}
}

func TestForwardCommand(t *testing.T) {
	n := alone(t, nil)
	run(t, n, 2, "SET", "k", "v")
	for _, tc := range []struct{ cmd, want string }{
		{"GET k", "v"},
		{"GET", "ERR cannot forward"},
		{"NOPE k", "ERR cannot forward"},
		{"DBSIZE", "ERR cannot forward a command without keys"},
		{"PING", "ERR cannot forward"},
		{"RC.PING", "ERR cannot forward"},
		{"RC.FORWARD 00 GET k", "ERR cannot forward"},
		{"MGET a b", errCrossSlot},
	} {
		t.Run(tc.cmd, func(t *testing.T) {
			args := append([]string{"RC.FORWARD", "00"}, strings.Fields(tc.cmd)...)
			if v := runAs(t, n, proven(topology.NodeID{9}), 2, args...); !strings.HasPrefix(v.Text(), tc.want) {
				t.Errorf("%q", v.Text())
			}
		})
	}
	n.barrier.Retire()
	if v := runAs(t, n, proven(topology.NodeID{9}), 2, "RC.FORWARD", "00", "GET", "k"); !strings.HasPrefix(v.Text(), codeNotServing) {
		t.Errorf("not serving: %q", v.Text())
	}
}

func TestPeerInfo(t *testing.T) {
	n := alone(t, nil)
	v := runAs(t, n, proven(topology.NodeID{9}), 2, "RC.VIEW")
	_, members, _, err := topology.DecodeView(v.Str)
	if err != nil || len(members) != 1 || members[0].ID != n.ID() {
		t.Errorf("%v %v", members, err)
	}
	if v := runAs(t, n, proven(topology.NodeID{9}), 2, "RC.PING"); v.Text() != "PONG" {
		t.Errorf("%q", v.Text())
	}
	info := resp.Value{Kind: resp.Array}
	for _, s := range []string{"placement", "ring", "tokens", "512", "bound", "1.05"} {
		info.Elems = append(info.Elems, resp.Value{Kind: resp.Bulk, Str: []byte(s)})
	}
	if err := n.checkParams(info, "10.0.0.1:7001"); err == nil || !strings.Contains(err.Error(), "512 tokens") ||
		!strings.Contains(err.Error(), "160 tokens") || !strings.Contains(err.Error(), errs.ErrMismatch.Error()) {
		t.Errorf("%v", err)
	}
}
