package server

import (
	"errors"
	"net"
	"slices"
	"time"
)

const (
	// Accepting fails when the process is out of file descriptors; it waits
	// between these bounds before it tries again.
	minAcceptDelay = 5 * time.Millisecond
	maxAcceptDelay = time.Second

	// maxRejecting bounds the connections that are told why they are refused;
	// beyond it they are just closed.
	maxRejecting = 64
	// lingerTime and lingerBytes bound how much a closing connection still
	// reads and drops, so that its last reply is not lost to a reset.
	lingerTime  = 200 * time.Millisecond
	lingerBytes = 1 << 20
)

const (
	errMaxClients = "ERR max number of clients reached"
	errProtected  = "DENIED ring-cache is running in protected mode because no password and no cluster secret is set. " +
		"In this mode connections are only accepted from the loopback interface. " +
		"If you want to connect from external computers you may adopt one of the following solutions: " +
		"1) Set a password with the option 'password', or with the command 'CONFIG SET requirepass' from the loopback interface. " +
		"2) Set the option 'cluster-secret' on every node of the cluster. " +
		"NOTE: You only need to do one of the above things in order for the node to start accepting connections from the outside."
)

// arrival is a connection that was accepted: a net.Conn, or a descriptor for a
// loop.
type arrival interface {
	RemoteAddr() net.Addr
	LocalAddr() net.Addr
	Close() error
}

// accept runs until the listener that next asks is closed.
func (s *Server) accept(next func() (arrival, error)) {
	var delay time.Duration
	for {
		a, err := next()
		if err == nil {
			delay = 0
			s.admit(a)
			continue
		}
		select {
		case <-s.quit:
			return
		default:
		}
		if errors.Is(err, net.ErrClosed) {
			s.log.Error("listener closed", "err", err)
			return
		}
		delay = min(max(2*delay, minAcceptDelay), maxAcceptDelay)
		s.log.Warn("accept failed", "err", err, "retry", delay)
		select {
		case <-time.After(delay):
		case <-s.quit:
			return
		}
	}
}

// admit decides about a new connection and starts its session.
func (s *Server) admit(a arrival) {
	if !s.unprotected.Load() && s.users.Default().Rules().NoPass() && !isLocal(a.RemoteAddr()) {
		s.reject(a, errProtected)
		return
	}
	c := newSession(s, a)
	serve := s.transportFor(c, a)
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		a.Close()
		return
	}
	if s.crowded(a.RemoteAddr()) {
		s.mu.Unlock()
		s.reject(a, errAddressClients)
		return
	}
	over := int64(len(s.sessions)-s.peers) - s.maxClients.Load() + 1 // if accepted
	if over > int64(s.o.PeerReserve) {
		s.mu.Unlock()
		s.reject(a, errMaxClients)
		return
	}
	s.lastID++
	c.id = s.lastID
	c.surplus = over > 0
	c.prepare()
	s.sessions[c.id] = c
	s.countAddress(c, 1)
	s.counters.total.Add(1)
	// Serves until the session ends; Drain and Close make it end.
	serve()
	s.mu.Unlock()
}

// remove forgets a session that has ended.
func (s *Server) remove(c *Session) {
	c.endMulti()
	s.hub.forget(c)
	c.endMonitor()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, c.id)
	if c.isPeer.Load() {
		s.peers--
	} else {
		s.countAddress(c, -1)
	}
}

// promote counts a session as a peer, or no longer.
func (s *Server) promote(c *Session, peer bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.isPeer.Swap(peer) == peer {
		return
	}
	if peer {
		s.peers++
		s.countAddress(c, -1)
	} else {
		s.peers--
		s.countAddress(c, 1)
	}
}

func (s *Server) snapshot() []*Session {
	s.mu.Lock()
	all := make([]*Session, 0, len(s.sessions))
	for _, c := range s.sessions {
		all = append(all, c)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *Session) int {
		if a.id < b.id {
			return -1
		}
		return 1
	})
	return all
}

// isLocal tells whether a connection cannot come from another machine.
func isLocal(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// reject tells a connection why it is refused and closes it, without holding up
// the accept loop.
func (s *Server) reject(a arrival, why string) {
	s.counters.rejected.Add(1)
	if s.rejecting.Add(1) > maxRejecting {
		s.rejecting.Add(-1)
		a.Close()
		return
	}
	// Ends after at most two times lingerTime.
	s.work.Go(func() {
		defer s.rejecting.Add(-1)
		conn, err := connOf(a)
		if err != nil {
			return
		}
		defer conn.Close()
		if conn.SetWriteDeadline(time.Now().Add(lingerTime)) != nil {
			return
		}
		if _, err := conn.Write([]byte("-" + why + "\r\n")); err == nil {
			linger(conn, make([]byte, 512))
		}
	})
}

// connOf makes a net.Conn of a connection that was accepted. If it fails, the
// connection is closed.
func connOf(a arrival) (net.Conn, error) {
	if conn, ok := a.(net.Conn); ok {
		return conn, nil
	}
	return a.(*rawArrival).conn()
}

// linger shuts down the sending side and drops what the other side still sends,
// for a short time: closing a TCP connection with unread bytes resets it, and a
// reset may destroy replies that are still on their way.
func linger(conn net.Conn, scratch []byte) {
	half, ok := conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	for left := lingerBytes; left > 0; {
		n, err := conn.Read(scratch)
		if err != nil {
			return
		}
		left -= n
	}
}
