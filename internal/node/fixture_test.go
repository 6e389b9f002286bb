package node

import (
	"context"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/resp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSession is a session without a connection.
type fakeSession struct {
	attachment   any
	peer, closed bool
	readOnly     bool
}

func (s *fakeSession) ID() uint64                                     { return 1 }
func (s *fakeSession) Name() string                                   { return "" }
func (s *fakeSession) RemoteAddr() net.Addr                           { return nil }
func (s *fakeSession) Attachment() any                                { return s.attachment }
func (s *fakeSession) SetAttachment(v any)                            { s.attachment = v }
func (s *fakeSession) SetPeer(v bool)                                 { s.peer = v }
func (s *fakeSession) CloseAfterReply()                               { s.closed = true }
func (s *fakeSession) NoTouch() bool                                  { return false }
func (s *fakeSession) Tracks() bool                                   { return false }
func (s *fakeSession) Marked() bool                                   { return false }
func (s *fakeSession) ReadOnly() bool                                 { return s.readOnly }
func (s *fakeSession) TriesAgain() bool                               { return false }
func (*fakeSession) Invalidate([]byte, bool)                          {}
func (*fakeSession) InvalidateAll()                                   {}
func (s *fakeSession) Guard() func(*command.Command, [][]byte) string { return nil }

// alone opens and starts a node without peers.
func alone(t testing.TB, change func(*Options)) *Node {
	t.Helper()
	o := Options{Cluster: "test", Host: "127.0.0.1", Port: 7001, Standalone: true, Weight: 1, Version: "7.4.0", MaxClients: 10000,
		Engine: engine.Options{MaxBytes: 64 << 20}}
	if change != nil {
		change(&o)
	}
	n, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := n.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	return n
}

// run executes a command as a server does: subcommands resolved, arity checked.
func run(t testing.TB, n *Node, proto int, args ...string) resp.Value {
	t.Helper()
	return runAs(t, n, &fakeSession{}, proto, args...)
}

func runAs(t testing.TB, n *Node, s Session, proto int, args ...string) resp.Value {
	t.Helper()
	var raw [][]byte
	for _, a := range args {
		raw = append(raw, []byte(a))
	}
	cmd := command.Lookup(raw[0])
	if cmd == nil {
		t.Fatalf("no command %q", args[0])
	}
	if cmd.Subs != nil && len(args) > 1 {
		if sub := cmd.Sub(raw[1]); sub != nil {
			cmd = sub
		}
	}
	w := resp.Writer{Proto: proto}
	n.Exec(s, cmd, raw, &w)
	n.Took(s, cmd.ID, 1, 0)
	if len(w.Buf) > 0 && w.Buf[0] == '-' {
		n.Failed(cmd, true, w.Buf)
	}
	var p resp.ReplyParser
	v, size, err := p.Next(w.Buf, nil)
	if err != nil || size != len(w.Buf) {
		t.Fatalf("%q gives no single reply: %q (%v)", args, w.Buf, err)
	}
	return v.Clone()
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
