package server

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/command"
)

// bookkeeper is an Accountant with one account for each number of arguments.
type bookkeeper struct {
	instant
	asked   int
	runs    int // that Took told of
	in, out map[int32]int
	took    map[int32]time.Duration
}

func newBookkeeper() *bookkeeper {
	return &bookkeeper{instant: instant{make([]byte, 64)}, in: map[int32]int{}, out: map[int32]int{}, took: map[int32]time.Duration{}}
}

func (b *bookkeeper) Took(*Session, []Run, time.Duration)                  { b.runs++ }
func (b *bookkeeper) Failed(*Session, *command.Command, bool, []byte) bool { return false }
func (b *bookkeeper) Stood(*Session, Notable)                              {}
func (b *bookkeeper) Account(cmd *command.Command, args [][]byte) (account int32) {
	b.asked++
	if cmd.FirstKey == 0 {
		return -1
	}
	return int32(len(args))
}

func (b *bookkeeper) Spent(account int32, in, out int, d time.Duration) {
	b.in[account] += in
	b.out[account] += out
	b.took[account] += d
}

// keeping returns a session without a transport whose Handler keeps accounts.
func keeping(t testing.TB, b *bookkeeper) *Session {
	t.Helper()
	s, err := New(Options{Handler: b})
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

// Nobody is asked for accounts before they are wanted. Then each command of a pipeline
// has its own, with its own time.
func TestAccounts(t *testing.T) {
	b := newBookkeeper()
	c := keeping(t, b)
	clock := c.created
	c.srv.steady, c.srv.made = false, clock
	c.srv.o.Now = func() time.Time { clock = clock.Add(time.Millisecond); return clock }
	in := append(pipeline(8), "PING\r\nECHO abc\r\n"...)
	turn := func() {
		t.Helper()
		c.w.Buf = c.w.Buf[:0]
		if n, v := c.turn(in); n != len(in) || v != needBytes {
			t.Fatal(n, v)
		}
	}
	turn()
	if b.asked != 0 || len(b.in) != 0 {
		t.Fatalf("asked for %d accounts, charged %v, while nobody wants them", b.asked, b.in)
	}
	c.srv.SetNotable(Limits{Slow: -1, Request: -1, Reply: -1, Each: true})
	b.runs = 0
	turn()
	if b.asked != 10 || b.runs != 10 {
		t.Errorf("asked for %d accounts, told of %d runs, of 10 commands", b.asked, b.runs)
	}
	get := len(pipeline(1))
	if len(b.in) != 1 || b.in[2] != 8*get || b.out[2] != 8*(64+len("$64\r\n\r\n")) {
		t.Errorf("8 GET of %d bytes: %v in, %v out", get, b.in, b.out)
	}
	if b.took[2] != 8*time.Millisecond { // the clock moves with each reading
		t.Errorf("8 GET took %v", b.took[2])
	}
	c.srv.SetNotable(Limits{Slow: -1, Request: -1, Reply: -1})
	turn()
	if b.asked != 10 {
		t.Error("asked again after the end")
	}
}

// A Handler that keeps no accounts is not asked for them.
func TestAccountsNeedAnAccountant(t *testing.T) {
	c := detached(t)
	c.srv.SetNotable(Limits{Slow: -1, Request: -1, Reply: -1, Each: true})
	if n, v := c.turn(pipeline(3)); n != len(pipeline(3)) || v != needBytes {
		t.Error(n, v)
	}
}

// Accounts take no memory for each command.
func TestAccountsAllocateNothing(t *testing.T) {
	c := keeping(t, newBookkeeper())
	c.srv.SetNotable(Limits{Slow: -1, Request: -1, Reply: -1, Each: true})
	in := pipeline(32)
	at := c.created
	c.srv.o.Now = func() time.Time { return at } // a new second allocates a sample
	if n := testing.AllocsPerRun(100, func() {
		c.w.Buf = c.w.Buf[:0]
		c.turn(in)
	}); n != 0 {
		t.Errorf("%v allocations for 32 commands", n)
	}
}

// What a turn costs with an observer, without accounts and with them.
func BenchmarkTurnWithAccounts(b *testing.B) {
	for _, each := range []bool{false, true} {
		for _, n := range []int{1, 32} {
			b.Run(fmt.Sprintf("each-%v/pipeline-%d", each, n), func(b *testing.B) {
				c := keeping(b, newBookkeeper())
				c.srv.SetNotable(Limits{Slow: -1, Request: -1, Reply: -1, Each: each})
				in := pipeline(n)
				b.ReportAllocs()
				for i := 0; i < b.N; i += n {
					c.w.Buf = c.w.Buf[:0]
					c.turn(in)
				}
			})
		}
	}
}
