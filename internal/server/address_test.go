package server

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func remote(last byte) net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, last), Port: 50000} }

func TestMaxClientsPerAddress(t *testing.T) {
	ln := newMemListener()
	s, _ := start(t, Options{Listener: ln, Unprotected: true, MaxClientsPerAddress: 2})
	a, b := ln.dial(t, remote(1)), ln.dial(t, remote(1))
	a.ask("PING", "PONG")
	b.ask("PING", "PONG")
	over := ln.dial(t, remote(1))
	over.expect("-" + errAddressClients)
	over.ended()
	ln.dial(t, remote(2)).ask("PING", "PONG") // another address
	for range 3 {
		ln.dial(t, local).ask("PING", "PONG") // loopback has no limit
	}
	b.ask("RC.AUTH ok\r\nRC.PING", "OK", "PONG") // peers do not count
	c := ln.dial(t, remote(1))
	c.ask("PING", "PONG")
	a.Close()
	eventually(t, "the place is free again", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.perAddress[host(remote(1))] == 1
	})
	ln.dial(t, remote(1)).ask("PING", "PONG")
}

// After some failures each further login from an address waits longer; others, and
// other commands, do not.
func TestLoginsWaitAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newMemListener()
		s, _ := start(t, Options{Listener: ln, Password: "secret", PreAuthTimeout: time.Hour})
		attempt := func(from net.Addr, password string) time.Duration {
			t.Helper()
			c := ln.dial(t, from)
			defer c.Close()
			began := time.Now()
			want := "-" + errWrongPass
			if password == "secret" {
				want = "OK"
			}
			c.ask("AUTH "+password, want)
			return time.Since(began)
		}
		for i, want := range []time.Duration{0, 0, 0, 50, 100, 200, 400, 800, 1000, 1000} {
			if d := attempt(remote(1), "wrong"); d != want*time.Millisecond {
				t.Errorf("failure %d took %v, want %v ms", i+1, d, int64(want))
			}
		}
		if d := attempt(remote(2), "secret"); d != 0 {
			t.Errorf("another address waited %v", d)
		}
		c := ln.dial(t, remote(1))
		began := time.Now()
		c.ask("PING\r\nHELLO 3", "-NOAUTH Authentication required.", "-"+errHelloNoAuth)
		if d := time.Since(began); d != 0 {
			t.Errorf("other commands waited %v", d)
		}
		if d := attempt(remote(1), "secret"); d != time.Second {
			t.Errorf("the right password waited %v", d)
		}
		if d := attempt(remote(1), "wrong"); d != 0 {
			t.Errorf("after a success a login waited %v", d)
		}
		for range 5 {
			attempt(remote(3), "wrong")
		}
		pass(2 * time.Minute)
		attempt(remote(3), "wrong")
		if d := attempt(remote(3), "wrong"); d != 0 {
			t.Errorf("after two minutes a login waited %v", d)
		}
		s.Close()
	})
}

func TestFailuresAreBounded(t *testing.T) {
	var f failures
	now := time.Unix(1000, 0)
	for i := range 3 * maxFailing {
		a := netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i+1))
		for range freeFailures + 1 {
			f.note(a, now)
		}
		if f.wait(a, now) <= 0 {
			t.Fatal("a newcomer does not wait")
		}
	}
	if len(f.of) > maxFailing {
		t.Errorf("%d addresses are remembered", len(f.of))
	}
}
