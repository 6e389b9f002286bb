package server

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/command"
)

const (
	errAddressClients = "ERR max number of clients of this address reached"
	errAuthLater      = "ERR too many failed logins from this address; repeat later"

	// freeFailures logins may fail from one address before the next one waits:
	// minAuthDelay, then twice as long each time, up to maxAuthDelay.
	freeFailures = 3
	minAuthDelay = 50 * time.Millisecond
	maxAuthDelay = time.Second
	// forgetFailures is after what time without a failure an address is forgotten.
	forgetFailures = time.Minute
	// maxFailing bounds the addresses that are remembered; beyond it those that
	// have waited give way, and then any.
	maxFailing = 4096
)

// host is the address without its port; not valid where it has none, or for the
// loopback interface, whose programs are told apart by nothing.
func host(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() {
		return netip.Addr{}
	}
	ip, _ := netip.AddrFromSlice(tcp.IP)
	return ip.Unmap()
}

// failures remembers from where logins failed.
type failures struct {
	mu sync.Mutex
	of map[netip.Addr]failing
}

type failing struct {
	count int
	last  time.Time
	until time.Time // the next login waits until then
}

// note counts a login that failed.
func (f *failures) note(a netip.Addr, now time.Time) {
	if !a.IsValid() {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	e, known := f.of[a]
	if now.Sub(e.last) > forgetFailures {
		e = failing{}
	}
	if !known && len(f.of) >= maxFailing {
		f.makeRoom(now)
	}
	e.count++
	e.last = now
	if over := e.count - freeFailures; over >= 0 {
		e.until = now.Add(min(minAuthDelay<<min(over, 10), maxAuthDelay))
	}
	if f.of == nil {
		f.of = map[netip.Addr]failing{}
	}
	f.of[a] = e
}

func (f *failures) makeRoom(now time.Time) {
	for a, e := range f.of {
		if now.Sub(e.last) > forgetFailures {
			delete(f.of, a)
		}
	}
	for a := range f.of {
		if len(f.of) < maxFailing {
			return
		}
		delete(f.of, a)
	}
}

// forget is for a login that succeeded.
func (f *failures) forget(a netip.Addr) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.of, a)
}

// wait is how long the next login from an address waits.
func (f *failures) wait(a netip.Addr, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.of[a].until.Sub(now)
}

// tarry lets a login wait after others from its address have failed. It reports
// false if the command was put off, because a loop must not wait, or refused.
func (s *Session) tarry(cmd *command.Command, args [][]byte) bool {
	d := s.srv.failures.wait(host(s.remote), s.srv.o.Now())
	switch {
	case d <= 0:
		return true
	case s.multi != nil:
		s.w.Error(errAuthLater)
		return false
	case !s.mayWait:
		s.later, s.laterArgs = cmd, args
		return false
	}
	t := time.NewTimer(min(d, maxAuthDelay))
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.srv.quit:
	}
	return true
}

// countAddress counts a session of an address, or one less. s.mu is held.
func (s *Server) countAddress(c *Session, n int) {
	a := host(c.remote)
	if !a.IsValid() {
		return
	}
	if s.perAddress[a] += n; s.perAddress[a] <= 0 {
		delete(s.perAddress, a)
	}
}

// crowded tells whether an address has all the sessions that it may have. s.mu is
// held.
func (s *Server) crowded(a net.Addr) bool {
	limit := s.o.MaxClientsPerAddress
	return limit > 0 && s.perAddress[host(a)] >= limit
}
