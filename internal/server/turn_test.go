package server

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// instant is a Handler that answers GET with a value of 64 bytes.
type instant struct{ value []byte }

func (h instant) Exec(_ *Session, _ *command.Command, _ [][]byte, w *resp.Writer) { w.Bulk(h.value) }
func (h instant) TryExec(_ *Session, _ *command.Command, _ [][]byte, w *resp.Writer) bool {
	w.Bulk(h.value)
	return true
}
func (h instant) Closed(*Session) {}

// detached returns a session without a transport.
func detached(t testing.TB) *Session {
	t.Helper()
	s, err := New(Options{Handler: instant{make([]byte, 64)}})
	if err != nil {
		t.Fatal(err)
	}
	client, conn := net.Pipe()
	t.Cleanup(func() { client.Close() })
	c := newSession(s, conn)
	newStdTransport(s, c, conn)
	c.prepare()
	return c
}

func pipeline(n int) (in []byte) {
	for i := range n {
		in = resp.AppendCommandStrings(in, "GET", fmt.Sprintf("key:%06d", i))
	}
	return in
}

// A turn allocates nothing, whatever the length of the pipeline.
func TestTurnAllocations(t *testing.T) {
	c := detached(t)
	in := append(pipeline(32), "PING\r\nASKING\r\nECHO abc\r\n"...)
	at := c.created
	c.srv.o.Now = func() time.Time { return at } // a new second allocates a sample
	run := func() {
		c.w.Buf = c.w.Buf[:0]
		if n, v := c.turn(in); n != len(in) || v != needBytes {
			t.Fatal(n, v)
		}
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations for 35 commands", n)
	}
}

func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{1, 32} {
		b.Run(fmt.Sprint("pipeline-", n), func(b *testing.B) {
			c := detached(b)
			in := pipeline(n)
			b.ReportAllocs()
			for i := 0; i < b.N; i += n {
				c.w.Buf = c.w.Buf[:0]
				c.turn(in)
			}
		})
	}
}

// BenchmarkRoundTrip is one client over loopback: the cost of system calls and
// scheduling.
func BenchmarkRoundTrip(b *testing.B) {
	for _, n := range []int{1, 32} {
		b.Run(fmt.Sprint("pipeline-", n), func(b *testing.B) {
			s, _ := start(b, Options{Handler: instant{make([]byte, 64)}})
			c := dial(b, s)
			in := pipeline(n)
			out := make([]byte, n*(64+7))
			b.ReportAllocs()
			for i := 0; i < b.N; i += n {
				if _, err := c.Write(in); err != nil {
					b.Fatal(err)
				}
				for got := 0; got < len(out); {
					k, err := c.Read(out[got:])
					if err != nil {
						b.Fatal(err)
					}
					got += k
				}
			}
		})
	}
}
