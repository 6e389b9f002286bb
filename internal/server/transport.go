package server

import (
	"errors"
	"fmt"
	"net"
	"runtime"

	"github.com/ringcache/ringcache/internal/errs"
)

// The values of Options.IO.
const (
	IOAuto  = "auto"  // the first of IOUring, IOEpoll and IOStd that is possible
	IOStd   = "std"   // a goroutine for each connection; every platform, TLS
	IOEpoll = "epoll" // a few loops over epoll; Linux
	IOUring = "uring" // the same loops with transfers in batches by io_uring; Linux 5.19
)

// IOs lists the values that Options.IO takes.
func IOs() []string { return []string{IOAuto, IOUring, IOEpoll, IOStd} }

// MaxLoops bounds Options.Loops.
const MaxLoops = 256

// errNoLoops says why a platform, kernel or listener has no loops.
var errNoLoops = errors.New("loops are not available")

// multiplexer serves many connections on one goroutine.
type multiplexer interface {
	// transport makes the transport of a session over a connection.
	transport(s *Session, a *rawArrival) (serve func())
	// serving is how many connections it has; from any goroutine.
	serving() int64
	// wake makes it look whether the server stops.
	wake()
}

// listening decides on the transports that serve the connections of ln, and
// returns what waits for the next one and the listener to close instead of ln.
// Loops run until the server stops.
func (s *Server) listening(ln net.Listener) (next func() (arrival, error), _ net.Listener, err error) {
	std := func() (arrival, error) { return ln.Accept() }
	s.io = IOStd
	if s.o.TLS != nil {
		ln = s.o.TLS.listener(ln)
	}
	if s.o.TLS != nil || s.o.IO == IOStd {
		return std, ln, nil
	}
	raw, err := s.openLoops(ln)
	switch {
	case err == nil:
		return raw.next, raw, nil
	case s.o.IO != IOAuto:
		return nil, nil, fmt.Errorf("server: io %s: %w; choose io auto or std: %w", s.o.IO, err, errs.ErrConfig)
	}
	s.log.Debug("connections are served by goroutines", "io", IOStd, "why", err)
	return std, ln, nil
}

// openLoops makes the loops for a listener and starts them.
func (s *Server) openLoops(ln net.Listener) (*rawListener, error) {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("%w: they need a TCP listener, this is %T", errNoLoops, ln)
	}
	raw, err := openRaw(tcp)
	if err != nil {
		return nil, err
	}
	loops, io, err := openLoops(s)
	if err != nil {
		return nil, errors.Join(err, raw.release())
	}
	s.loops, s.io = loops, io
	return raw, nil
}

// transportFor makes the transport of a new session and returns what starts it.
// The latter is called with s.mu held, and neither blocks nor fails.
func (s *Server) transportFor(c *Session, a arrival) (serve func()) {
	raw, ok := a.(*rawArrival)
	if !ok {
		t := newStdTransport(s, c, a.(net.Conn))
		return func() { s.work.Go(t.run) }
	}
	best := s.loops[0]
	for _, l := range s.loops[1:] {
		if l.serving() < best.serving() {
			best = l
		}
	}
	return best.transport(c, raw)
}

// loopCount is how many loops there are by default: one for each processor that
// the process may use.
func loopCount(asked int) int {
	if asked > 0 {
		return asked
	}
	return min(runtime.GOMAXPROCS(0), runtime.NumCPU(), MaxLoops)
}

// IO returns the transport in use: IOStd, IOEpoll or IOUring; "" before Start.
func (s *Server) IO() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.io
}
