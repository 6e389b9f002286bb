package server

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeNode is a Handler that knows enough commands to try a server with:
//
//	SET key value    keeps the value
//	GET key          gives it back
//	GET asking|readonly|peer|triesagain  tells what the session says
//	DEL panic        panics, after half a reply
//	DEL block        waits until the test lets it go
//	RC.AUTH ok       makes the session a peer
type fakeNode struct {
	mu      sync.Mutex
	values  map[string][]byte
	closed  []uint64
	entered chan struct{} // told when DEL block has begun
	release chan struct{} // lets DEL block end
}

func newFakeNode() *fakeNode {
	return &fakeNode{values: make(map[string][]byte), entered: make(chan struct{}, 16), release: make(chan struct{})}
}

func (f *fakeNode) Exec(s *Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	switch cmd.ID {
	case command.Get:
		f.get(s, string(args[1]), w)
	case command.Set:
		f.mu.Lock()
		f.values[string(args[1])] = bytes.Clone(args[2])
		f.mu.Unlock()
		w.Simple("OK")
	case command.Del:
		switch string(args[1]) {
		case "panic":
			w.Array(3)
			panic("a defect")
		case "block":
			f.entered <- struct{}{}
			<-f.release
			w.Int(1)
		case "silent":
		default:
			w.Int(0)
		}
	case command.RCAuth:
		if string(args[1]) != "ok" {
			w.Error("ERR no peer")
			s.CloseAfterReply()
			return
		}
		s.SetPeer(true)
		w.Simple("OK")
	case command.RCPing:
		w.Simple("PONG")
	default:
		w.Simple(cmd.FullName())
	}
}

// TryExec leaves alone what may block, and GET of keys that begin with "later".
func (f *fakeNode) TryExec(s *Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	if !f.prompt(cmd, args) {
		return false
	}
	f.Exec(s, cmd, args, w)
	return true
}

func (f *fakeNode) prompt(cmd *command.Command, args [][]byte) bool {
	switch {
	case cmd.ID == command.Del && string(args[1]) == "block", cmd.ID == command.RCAuth:
		return false
	case cmd.ID == command.Get && bytes.HasPrefix(args[1], []byte("later")):
		return false
	}
	return true
}

func (f *fakeNode) get(s *Session, key string, w *resp.Writer) {
	switch key {
	case "asking":
		w.Bool(s.Asking())
	case "readonly":
		w.Bool(s.ReadOnly())
	case "peer":
		w.Bool(s.IsPeer())
	case "triesagain":
		w.Bool(s.TriesAgain())
	default:
		f.mu.Lock()
		v, ok := f.values[key]
		f.mu.Unlock()
		if !ok {
			w.Null()
			return
		}
		w.Bulk(v)
	}
}

func (f *fakeNode) set(key string, value []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.values[key] = value
}

func (f *fakeNode) value(key string) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.values[key]
}

// ended returns the sessions of which Closed was told.
func (f *fakeNode) ended() []uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]uint64(nil), f.closed...)
}

func (f *fakeNode) Closed(s *Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = append(f.closed, s.ID())
}

// underTest is Options.IO of the servers that start makes for TCP; "" is std.
var underTest string

// start runs a server on 127.0.0.1 with a fake node, unless o says otherwise,
// until the test ends.
func start(t testing.TB, o Options) (*Server, *fakeNode) {
	t.Helper()
	node := newFakeNode()
	if o.Handler == nil {
		o.Handler = node
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.IO == "" {
		o.IO = underTest
	}
	if o.IO == "" {
		o.IO = IOStd
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if o.Listener == nil && o.IO != IOAuto && s.IO() != o.IO {
		t.Fatalf("the server uses %s", s.IO())
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, errs.ErrClosed) {
			t.Error(err)
		}
	})
	return s, node
}

// peerConn is the client's end of a connection.
type peerConn struct {
	net.Conn
	t      testing.TB
	parser resp.ReplyParser
	buf    []byte
}

func dial(t testing.TB, s *Server) *peerConn {
	t.Helper()
	return dialAddr(t, s.Addr().String())
}

func dialAddr(t testing.TB, addr string) *peerConn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return wrap(t, c)
}

func wrap(t testing.TB, c net.Conn) *peerConn {
	t.Cleanup(func() { c.Close() })
	return &peerConn{Conn: c, t: t}
}

func (c *peerConn) send(text string) {
	c.t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		c.t.Fatal(err)
	}
}

// value reads one reply.
func (c *peerConn) value() (resp.Value, error) {
	for {
		v, n, err := c.parser.Next(c.buf, nil)
		if err != nil {
			return v, err
		}
		if n > 0 {
			v = v.Clone()
			c.buf = c.buf[n:]
			return v, nil
		}
		piece := make([]byte, 32<<10)
		if n, err = c.Read(piece); err != nil {
			return v, err
		}
		c.buf = append(c.buf, piece[:n]...)
	}
}

// expect reads replies and compares their texts, errors with a "-" in front.
func (c *peerConn) expect(want ...string) {
	c.t.Helper()
	for i, w := range want {
		v, err := c.value()
		if err != nil {
			c.t.Fatalf("reply %d: %v, want %q", i, err, w)
		}
		if got := textOf(v); got != w {
			c.t.Fatalf("reply %d: got %q, want %q", i, got, w)
		}
	}
}

func textOf(v resp.Value) string {
	switch v.Kind {
	case resp.Error:
		return "-" + v.Text()
	case resp.Null:
		return "(null)"
	case resp.Array, resp.Map, resp.Set, resp.Push:
		var parts []string
		for _, e := range v.Elems {
			parts = append(parts, textOf(e))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return v.Text()
}

// ask sends lines, one command each, and compares their replies.
func (c *peerConn) ask(line string, want ...string) {
	c.t.Helper()
	c.send(line + "\r\n")
	c.expect(want...)
}

// try is ask for one line whose session may be cut off meanwhile; "" if it was.
func (c *peerConn) try(line string) string {
	if _, err := c.Write([]byte(line + "\r\n")); err != nil {
		return ""
	}
	v, err := c.value()
	if err != nil {
		return ""
	}
	return textOf(v)
}

// whileBusy runs a test with a time limit of the server, in real time. A machine may be
// so busy that the limit is over before the test has done what it must do within it;
// then test says so, and gets a longer one.
func whileBusy(t *testing.T, test func(limit time.Duration) (early bool)) {
	t.Helper()
	for _, limit := range []time.Duration{200 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
		if !test(limit) {
			return
		}
	}
	t.Error("the limit was over too early each time")
}

// ended checks that the server closes the connection without another byte.
func (c *peerConn) ended() {
	c.t.Helper()
	rest, err := io.ReadAll(c.Conn)
	if err != nil && !isReset(err) {
		c.t.Fatal(err)
	}
	if rest = append(c.buf, rest...); len(rest) > 0 {
		c.t.Fatalf("the server sent %.200q before it closed", rest)
	}
}

func isReset(err error) bool {
	return strings.Contains(err.Error(), "reset by peer") || errors.Is(err, io.ErrClosedPipe)
}

// eventually waits for a state that another goroutine brings about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// memListener accepts in-memory connections, so that tests can use synctest.
type memListener struct {
	conns chan net.Conn
	fails chan error
	once  sync.Once
	done  chan struct{}
}

func newMemListener() *memListener {
	return &memListener{conns: make(chan net.Conn), fails: make(chan error), done: make(chan struct{})}
}

func (l *memListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case err := <-l.fails:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *memListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// dial gives the client's end of a connection whose server's end claims to come
// from the given address.
func (l *memListener) dial(t testing.TB, from net.Addr) *peerConn {
	client, server := net.Pipe()
	l.conns <- addressed{server, from}
	return wrap(t, client)
}

type addressed struct {
	net.Conn
	from net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.from }

var local = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 50000}

// logBuffer collects what a server logs.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// pass lets the clock of a synctest bubble run.
func pass(d time.Duration) { <-time.After(d) }
