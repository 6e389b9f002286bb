package ringcache

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, o Options) *Node {
	t.Helper()
	n, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestOptionsFaults(t *testing.T) {
	for _, tc := range []struct {
		name  string
		o     Options
		texts []string
	}{
		{"seeds without an address", Options{Seeds: []string{"127.0.0.1:1"}}, []string{"Addr"}},
		{"address without a port", Options{Addr: "localhost"}, []string{"host:port"}},
		{"beyond loopback without a secret", Options{Addr: "0.0.0.0:0"}, []string{"cluster-secret", "standalone"}},
		{"a short secret", Options{Addr: "127.0.0.1:0", ClusterSecret: "fifteen bytes.."}, []string{"15 bytes", "at least 16"}},
		{"no port for gossip", Options{Addr: "127.0.0.1:55536"}, []string{"65536", "gossip address"}},
		{"every interface without a secret", Options{Addr: ":0"}, []string{"cluster-secret"}},
		{"gossip beyond loopback without a secret", Options{Addr: "127.0.0.1:0", GossipAddr: "0.0.0.0:0"}, []string{"cluster secret"}},
		{"standalone with seeds", Options{Addr: "127.0.0.1:0", Standalone: true, Seeds: []string{"127.0.0.1:1"}}, []string{"standalone"}},
		{"placement", Options{Placement: "dice"}, []string{"dice", "ring"}},
		{"several at once", Options{Weight: 1e9, Zone: strings.Repeat("z", 100), MaxMemory: -1}, []string{"weight", "zone", "MaxMemory"}},
		{"policy", Options{Policy: "guess"}, []string{"guess"}},
		{"source", Options{Addr: "127.0.0.1:0", SourceAddr: "10.0.0.1:7001"}, []string{"source address", "10.0.0.1:7001", "IP"}},
		{"seed", Options{Addr: "127.0.0.1:0", Seeds: []string{"nowhere"}}, []string{"nowhere"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, err := Open(tc.o)
			if err == nil {
				n.Close()
				t.Fatal("it opened")
			}
			if !errors.Is(err, ErrConfig) {
				t.Errorf("not ErrConfig: %v", err)
			}
			for _, text := range tc.texts {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not named in: %v", text, err)
				}
			}
		})
	}
}

func TestPortTaken(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	addr := ln.Addr().String()
	n, err := Open(Options{Addr: addr})
	if err == nil {
		n.Close()
		t.Fatal("it opened")
	}
	if !strings.Contains(err.Error(), addr) || !strings.Contains(err.Error(), "another addr") {
		t.Errorf("%v", err)
	}
}

func TestSecretBeyondLoopback(t *testing.T) {
	n := open(t, Options{Addr: "0.0.0.0:0", ClusterSecret: "a secret of this test", Advertise: "127.0.0.1"})
	if _, err := n.Get(t.Context(), "k"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

func TestManyNodesInOneProcess(t *testing.T) {
	first := open(t, Options{Addr: "127.0.0.1:0", DataDir: t.TempDir()})
	nodes := []*Node{first}
	for range 2 {
		nodes = append(nodes, open(t, Options{Addr: "127.0.0.1:0", Seeds: []string{first.Addr()}}))
	}
	ids := map[string]bool{}
	for i, n := range nodes {
		ids[n.ID()] = true
		key := fmt.Sprintf("key%d", i)
		if err := setNow(t, n, key, []byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != 3 {
		t.Errorf("%d IDs", len(ids))
	}
	for _, n := range nodes {
		found, err := n.GetMany(t.Context(), "key0", "key1", "key2", "absent")
		if err != nil || len(found) > 3 {
			t.Errorf("%d values, %v", len(found), err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := nodes[2].Drain(ctx); err != nil {
		t.Fatal(err)
	}
	select {
	case <-nodes[2].Done():
	default:
		t.Error("a drained node is not done")
	}
	if err := setNow(t, nodes[0], "after", nil); err != nil {
		t.Error(err)
	}
}

// setNow stores a value for a minute. While slots change their owner, which takes longer than a
// call waits where every processor is busy, it tries again.
func setNow(t *testing.T, n *Node, key string, value []byte) (err error) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-tick.C {
		if err = n.Set(t.Context(), key, value, time.Minute); !errors.Is(err, ErrUnavailable) {
			return err
		}
	}
	return err
}

func TestShutdownCommand(t *testing.T) {
	n := open(t, Options{Addr: "127.0.0.1:0", Password: "p"})
	c, err := net.Dial("tcp", n.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprint(c, "SHUTDOWN\r\nAUTH p\r\nCONFIG SET requirepass q\r\nSHUTDOWN NOSAVE\r\n"); err != nil {
		t.Fatal(err)
	}
	var got []byte
	buf := make([]byte, 512)
	for {
		m, err := c.Read(buf)
		got = append(got, buf[:m]...)
		if err != nil {
			break
		}
	}
	// AUTH and CONFIG SET; a SHUTDOWN that succeeds has no reply.
	if want := "-NOAUTH Authentication required.\r\n+OK\r\n+OK\r\n"; string(got) != want {
		t.Errorf("replies %q", got)
	}
	<-n.Done()
}

func TestAdvertised(t *testing.T) {
	for _, tc := range []struct {
		name, advertise, host string
	}{
		{"address of the listener", "", "127.0.0.1"},
		{"a name", "cache.example", "cache.example"},
		{"an address with a port", "10.0.0.1:9000", "10.0.0.1"},
		{"IPv6", "2001:db8::1", "2001:db8::1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := Options{Addr: "127.0.0.1:0", Advertise: tc.advertise}
			ln, err := o.listen()
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			host, port, err := o.advertised(ln)
			if err != nil || host != tc.host || port == 0 {
				t.Errorf("%q %d %v", host, port, err)
			}
			if strings.HasSuffix(tc.advertise, ":9000") && port != 9000 {
				t.Errorf("port %d", port)
			}
		})
	}
}
