package membership

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/topology"
)

func TestAdvertise(t *testing.T) {
	for _, tc := range []struct {
		in, ip string
		port   int
		bad    bool
	}{
		{"", "", 7, false},
		{"10.1.2.3", "10.1.2.3", 7, false},
		{"10.1.2.3:99", "10.1.2.3", 99, false},
		{"10.1.2.3:0", "10.1.2.3", 7, false},
		{"[fd00::1]:99", "fd00::1", 99, false},
		{"fd00::1", "fd00::1", 7, false},
		{"localhost:99", "127.0.0.1", 99, false},
		{"10.1.2.3:99999", "", 0, true},
		{"no.such.host.invalid", "", 0, true},
	} {
		o := Options{Advertise: tc.in}
		ip, port, err := o.advertise(7)
		if ip != tc.ip || port != tc.port || (err != nil) != tc.bad {
			t.Errorf("%q: %q %d %v", tc.in, ip, port, err)
		}
	}
}

func TestClassify(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("dial: %w", &net.OpError{Op: "dial", Err: err}) }
	for _, tc := range []struct {
		err  error
		want dialResult
	}{
		{nil, dialOK},
		{wrap(os.NewSyscallError("connect", syscall.ECONNREFUSED)), dialRefused},
		{wrap(errs.ErrOtherNode), dialRefused},
		{wrap(errs.ErrMismatch), dialRefused},
		{wrap(context.DeadlineExceeded), dialSilent},
		{wrap(syscall.ECONNRESET), dialSilent},
		{wrap(syscall.ENETUNREACH), dialSilent},
		{wrap(errs.ErrAuth), dialSilent},
		{wrap(syscall.EMFILE), dialNone},
		{wrap(syscall.EADDRNOTAVAIL), dialNone},
		{wrap(context.Canceled), dialNone},
	} {
		if got := classify(tc.err); got != tc.want {
			t.Errorf("%v: %d, want %d", tc.err, got, tc.want)
		}
	}
}

// The node answers requests while gossip and new connections to it fail.
func TestDataRepliesKeepAPeer(t *testing.T) {
	for _, heard := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 2, nil)
			defer c.close()
			at := c.now()
			c.net.isolate(ipOfNode(1), true)
			for range 40 {
				c.wait(500 * time.Millisecond)
				if heard {
					c.nodes[ipOfNode(0)].Heard(idOf(1))
				}
			}
			if got := c.find(at, ipOfNode(0), ipOfNode(1), "dead"); (len(got) == 0) != heard {
				t.Errorf("heard %v: %v", heard, got)
			}
		})
	}
}

// What one of two nodes sends, the other receives.
func TestMessagesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		defer c.close()
		c.wait(20 * time.Second)
		sent, received := c.nodes[ipOfNode(0)].Messages()
		sentBack, got := c.nodes[ipOfNode(1)].Messages()
		const underWay = 4
		if sent < 20 || sentBack < 20 || sent > got+underWay || got > sent || sentBack > received+underWay || received > sentBack {
			t.Errorf("one sent %d and received %d, the other sent %d and received %d", sent, received, sentBack, got)
		}
	})
}

// Check makes a node that watches nobody in trouble look at once.
func TestCheckDialsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 8, nil)
		defer c.close()
		at, ip := c.now(), ipOfNode(6) // not watched by node 0
		c.net.sever(ipOfNode(0), ip, true)
		c.nodes[ipOfNode(0)].Check(idOf(6))
		c.wait(1100 * time.Millisecond)
		if got := c.find(at, ipOfNode(0), ip, "suspect"); len(got) != 1 {
			t.Error(got)
		}
	})
}

// What was heard of a peer before a dial of it was refused does not undo that, though
// it is looked at later: such words come until the last moment of a process.
func TestHeardBeforeARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		defer c.close()
		at, m := c.now(), c.nodes[ipOfNode(0)]
		c.net.kill(ipOfNode(1))
		m.Heard(idOf(1))
		m.Check(idOf(1))
		c.wait(700 * time.Millisecond)
		if got := c.find(at, ipOfNode(0), ipOfNode(1), "dead"); len(got) != 1 {
			t.Error(got)
		}
	})
}

func TestUpdateRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, 2, nil)
		defer c.close()
		m := c.nodes[ipOfNode(0)]
		for _, change := range []func(*topology.Member){
			func(m *topology.Member) { m.ID[3]++ },
			func(m *topology.Member) { m.Boot++ },
			func(m *topology.Member) { m.Zone = strings.Repeat("z", 60) },
		} {
			self := m.self
			change(&self)
			if err := m.Update(self); !errors.Is(err, errs.ErrConfig) {
				t.Errorf("%+v: %v", self, err)
			}
		}
		if err := m.Leave(context.Background()); err != nil {
			t.Error(err)
		}
		if err := m.Leave(context.Background()); err != nil {
			t.Error("second Leave:", err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if err := m.Update(m.self); !errors.Is(err, errs.ErrClosed) {
			t.Error(err)
		}
		if err := m.Leave(context.Background()); !errors.Is(err, errs.ErrClosed) {
			t.Error(err)
		}
		if n, err := m.Join(context.Background()); n != 0 || err == nil {
			t.Error("joined after Close")
		}
	})
}

// Nodes with another secret or cluster name never become members, whatever
// their seeds say.
func TestStrangersStayOut(t *testing.T) {
	for _, change := range []func(*Options){
		func(o *Options) { o.Secret = []byte("other") },
		func(o *Options) { o.Secret = nil },
		func(o *Options) { o.Cluster = "other" },
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster(t, 2, nil)
			defer c.close()
			c.lonely, c.tune = true, change
			c.boot(2, ipOfNode(2), 1)
			c.wait(20 * time.Second)
			for i, want := range []int{2, 2, 1} {
				if got := c.alive(ipOfNode(i)); got != want {
					t.Errorf("node %d sees %d, want %d", i, got, want)
				}
			}
		})
	}
}

func TestUnreadableEntriesAreRefused(t *testing.T) {
	d := &delegate{self: "self", in: newInbox()}
	m := topology.Member{ID: idOf(1), Weight: 1, Host: "h", Port: 1}
	n := &memberlist.Node{Name: nodeName(m.ID, 1), Addr: net.IPv4(10, 0, 0, 1), Port: 1, Meta: appendMeta(nil, &m, "")}
	if err := d.NotifyAlive(n); err != nil {
		t.Error(err)
	}
	d.NotifyJoin(n)
	n.Meta = n.Meta[:4]
	if err := d.NotifyAlive(n); !errors.Is(err, errs.ErrProtocol) {
		t.Error(err)
	}
	n.Name = nodeName(idOf(2), 1)
	d.NotifyJoin(n)
	n.Name = "self"
	d.NotifyJoin(n)
	if evs, _, _ := d.in.drain(); len(evs) != 1 || evs[0].member.Host != "h" {
		t.Errorf("%+v", evs)
	}
}

// What memberlist goes on telling is no error once it was told for long enough.
func TestTold(t *testing.T) {
	slow := errors.New("timeout")
	for _, tc := range []struct {
		budget, needs, asked time.Duration
		want                 error
	}{
		{time.Minute, 0, time.Second, nil},
		{time.Minute, time.Hour, time.Second, nil},
		{time.Second, time.Hour, time.Second, nil},
		{time.Second / 2, time.Hour, time.Second / 2, slow},
		{time.Second / 2, 0, time.Second / 2, nil},
		{-time.Second, time.Hour, 1, slow},
	} {
		err := told(tc.budget, time.Second, func(timeout time.Duration) error {
			if timeout != tc.asked {
				t.Errorf("%+v: asked for %v", tc, timeout)
			}
			if tc.needs > timeout {
				return slow
			}
			return nil
		})
		if err != tc.want {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
