package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/ringcache/ringcache/internal/glob"
)

// A message that was pushed before UNSUBSCRIBE is answered comes before the
// answer, and none comes behind it.
func TestNothingFollowsUnsubscribe(t *testing.T) {
	for _, io := range []string{IOStd, IOEpoll} {
		t.Run(io, func(t *testing.T) {
			s, _ := start(t, Options{IO: io})
			c := dial(t, s)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						s.Publish([]byte("c"), []byte("m"), false)
					}
				}
			})
			defer wg.Wait()
			defer close(stop)
			for range 200 {
				c.ask("SUBSCRIBE c", "[subscribe c 1]")
				c.send("UNSUBSCRIBE c\r\nECHO end\r\n")
				last := ""
				for {
					v, err := c.value()
					if err != nil {
						t.Fatal(err)
					}
					text := textOf(v)
					if text == "end" {
						break
					}
					if last = text; text != "[message c m]" && text != "[unsubscribe c 0]" {
						t.Fatal(text)
					}
				}
				if last != "[unsubscribe c 0]" {
					t.Fatalf("%q is the last before the next reply", last)
				}
			}
		})
	}
}

func TestSubscriptionsAreBounded(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	var line strings.Builder
	fmt.Fprintf(&line, "*%d\r\n$9\r\nSUBSCRIBE\r\n", maxSubscriptions+1)
	for i := range maxSubscriptions {
		fmt.Fprintf(&line, "$6\r\n%06d\r\n", i)
	}
	c.send(line.String())
	for i := range maxSubscriptions {
		c.expect(fmt.Sprintf("[subscribe %06d %d]", i, i+1))
	}
	c.ask("SUBSCRIBE more", fmt.Sprintf("-RCTOOLARGE a connection has at most %d subscriptions; use patterns, or more connections", maxSubscriptions))
	c.ask("PSUBSCRIBE "+strings.Repeat("x", glob.MaxPattern+1), "-RCTOOLARGE a pattern is longer than 1024 bytes; use a shorter one")
	// The names of all connections together have a limit too.
	long := strings.Repeat("x", 60<<10)
	others := []*peerConn{dial(t, s), dial(t, s)}
	refused := false
	for i := 0; i < 1000 && !refused; i++ {
		o := others[i%2]
		o.send(fmt.Sprintf("*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%s%06d\r\n", len(long)+6, long, i))
		v, err := o.value()
		if err != nil {
			t.Fatal(err)
		}
		refused = strings.HasPrefix(textOf(v), "-RCBUSY the subscriptions of all connections would take")
	}
	s.hub.mu.RLock()
	names := s.hub.bytes
	s.hub.mu.RUnlock()
	if names > maxNames || !refused {
		t.Errorf("%d bytes of names, refused %v", names, refused)
	}
	// Room comes back with the sessions that go.
	for _, o := range append(others, c) {
		o.Close()
	}
	eventually(t, "nobody listens", func() bool {
		s.hub.mu.RLock()
		defer s.hub.mu.RUnlock()
		return s.hub.bytes == 0 && s.hub.listening.Load() == 0 && len(s.hub.names[onChannel]) == 0
	})
}

// A listener that does not read is cut off at the output limit, and holds up
// neither the publisher nor others.
func TestListenerThatDoesNotRead(t *testing.T) {
	s, _ := start(t, Options{OutputLimit: 1 << 20})
	slow, fast := dial(t, s), dial(t, s)
	slow.ask("SUBSCRIBE c", "[subscribe c 1]")
	fast.ask("SUBSCRIBE c", "[subscribe c 1]")
	msg := []byte(strings.Repeat("x", 10_000))
	want := fmt.Sprintf("[message c %s]", msg)
	for i := 0; s.Stats().OutputLimit == 0; i++ {
		if i > 100_000 {
			t.Fatal("the listener was never cut off")
		}
		s.Publish([]byte("c"), msg, false)
		fast.expect(want)
	}
	eventually(t, "one listens", func() bool { return s.hub.size(onChannel, []byte("c")) == 1 })
	if n := s.Publish([]byte("c"), msg, false); n != 1 {
		t.Errorf("%d got it, want 1", n)
	}
}

func TestListenersInClientList(t *testing.T) {
	s, _ := start(t, Options{})
	c, other := dial(t, s), dial(t, s)
	c.ask("SUBSCRIBE a b", "[subscribe a 1]", "[subscribe b 2]")
	c.ask("PSUBSCRIBE p", "[psubscribe p 3]")
	c.ask("SSUBSCRIBE s", "[ssubscribe s 1]")
	list := func(line string) string {
		other.send(line + "\r\n")
		v, err := other.value()
		if err != nil {
			t.Fatal(err)
		}
		return textOf(v)
	}
	if got := list("CLIENT LIST TYPE pubsub"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "flags=P db=0 sub=2 psub=1 ssub=1 ") {
		t.Error(got)
	}
	if got := list("CLIENT LIST TYPE normal"); strings.Count(got, "\n") != 1 || !strings.Contains(got, "flags=N db=0 sub=0 psub=0 ssub=0 ") {
		t.Error(got)
	}
	if got := list("CLIENT KILL TYPE pubsub"); got != "1" {
		t.Errorf("killed %s", got)
	}
	c.ended()
}

func TestShardsLeave(t *testing.T) {
	s, _ := start(t, Options{})
	c := dial(t, s)
	c.ask("SSUBSCRIBE a", "[ssubscribe a 1]")
	c.ask("SSUBSCRIBE b", "[ssubscribe b 2]")
	s.LeaveShards(func(name string) bool { return name == "a" })
	c.expect("[sunsubscribe a 1]")
	if n := s.Publish([]byte("a"), []byte("m"), true) + s.Publish([]byte("b"), []byte("m"), true); n != 1 {
		t.Errorf("%d listeners", n)
	}
	c.expect("[smessage b m]")
	s.LeaveShards(func(string) bool { return true })
	c.expect("[sunsubscribe b 0]")
	c.ask("PING", "PONG") // it is no listener any more
}
