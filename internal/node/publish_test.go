package node

import (
	"net"
	"testing"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// A peer that takes no messages costs at most its queue: what is beyond is dropped
// at once, what waits when the node closes is counted as well, and closing does
// not wait for the peer.
func TestMessagesForASilentPeerAreBounded(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts by its backlog, answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	n := alone(t, nil)
	const messages = 30
	message := make([]byte, 1<<20)
	c := &n.casts
	c.mu.Lock()
	for range messages {
		n.castTo(ln.Addr().String(), []byte("channel"), message)
	}
	q := c.peers[ln.Addr().String()]
	waiting, dropped := q.bytes, c.dropped.Load()
	c.mu.Unlock()
	if waiting > maxCast || waiting < maxCast/2 || dropped < messages-8 {
		t.Errorf("%d bytes wait, %d messages are dropped", waiting, dropped)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if sent, dropped := c.sent.Load(), c.dropped.Load(); sent != 0 || dropped != messages {
		t.Errorf("%d sent and %d dropped, want none and all %d", sent, dropped, messages)
	}
	if len(c.peers) != 0 {
		t.Errorf("%d queues are left", len(c.peers))
	}
}

// hearing is a Front that notes messages.
type hearing struct {
	Front
	got []string
}

func (h *hearing) Publish(channel, message []byte, shard bool) int {
	text := string(channel) + "=" + string(message)
	if shard {
		text = "shard " + text
	}
	h.got = append(h.got, text)
	return 2
}

func TestPublish(t *testing.T) {
	n := alone(t, nil)
	h := &hearing{}
	n.front = h
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"PUBLISH", "c", "m"}, "2"},
		{[]string{"SPUBLISH", "s", "m"}, "2"},
	} {
		if got := run(t, n, 2, tc.args...).Text(); got != tc.want {
			t.Errorf("%q: %s", tc.args, got)
		}
	}
	w := resp.Writer{Proto: 2}
	n.heardFromPeer([][]byte{[]byte("RC.PUBLISH"), []byte("a"), []byte("1"), []byte("b"), []byte("2")}, &w)
	if string(w.Buf) != ":4\r\n" {
		t.Errorf("%q", w.Buf)
	}
	w.Buf = nil
	n.heardFromPeer([][]byte{[]byte("RC.PUBLISH"), []byte("a"), []byte("1"), []byte("b")}, &w)
	if string(w.Buf) != "-ERR a channel without a message\r\n" {
		t.Errorf("%q", w.Buf)
	}
	want := []string{"c=m", "shard s=m", "a=1", "b=2"}
	if len(h.got) != len(want) {
		t.Fatalf("%q", h.got)
	}
	for i := range want {
		if h.got[i] != want[i] {
			t.Errorf("%q, want %q", h.got, want)
		}
	}
	// Nobody but a proven peer may speak for others.
	if got := run(t, n, 2, "RC.PUBLISH", "a", "b").Text(); got != "ERR unknown command 'rc.publish'" {
		t.Error(got)
	}
	if got := n.KeepsShards([][]byte{[]byte("{a}1"), []byte("{a}2")}); got != "" {
		t.Error(got)
	}
	if got := n.KeepsShards([][]byte{[]byte("a"), []byte("b")}); got != errCrossSlot {
		t.Error(got)
	}
	// A slot on its way to this node keeps its listeners here.
	n.eng.SetServing(ring.Slot([]byte("s")), false)
	if got := n.KeepsShards([][]byte{[]byte("s")}); got != "" {
		t.Error(got)
	}
	n.eng.SetServing(ring.Slot([]byte("s")), true)
	n.front = nil
	if !n.TryExec(&fakeSession{}, command.Lookup([]byte("publish")), [][]byte{[]byte("PUBLISH"), []byte("c"), []byte("m")}, &w) {
		t.Error("PUBLISH leaves its loop")
	}
}
