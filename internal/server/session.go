package server

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/acl"
	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// transport is what a session and its server need of whatever moves the bytes.
type transport interface {
	// interrupt makes the goroutine that drives the session look at its stop
	// flag. With cut set the connection is closed at once. It never blocks and
	// may be called from any goroutine.
	interrupt(cut bool)
	// nudge makes the goroutine that drives the session, or would when there is
	// something to do, call takePushes and send what it got. It never blocks and
	// may be called from any goroutine.
	nudge()
	// queued returns how many bytes of replies wait; from any goroutine.
	queued() int
	// book books the session's buffers as they are now. Without force it
	// reports false if the budget is used up. For the session's goroutine.
	book(force bool) bool
}

// How a session is asked to end, by increasing force.
const (
	stopNot   uint32 = iota
	stopDrain        // after the commands that were read already
	stopCut          // at once
)

// Session is one accepted connection. Methods are for the Handler, during Exec
// and Closed, unless they say otherwise.
type Session struct {
	// Attachment belongs to the Handler.
	Attachment any

	srv       *Server
	transport transport
	id        uint64
	remote    net.Addr
	local     net.Addr
	created   time.Time

	// Owned by the goroutine that drives the session. The order leaves no gaps:
	// there are many idle sessions.
	parser resp.Parser
	limits *resp.Limits
	w      resp.Writer
	mark   int           // where the reply of the current command begins in w.Buf
	now    time.Time     // of the current turn
	since  time.Duration // after created, since when it is unauthenticated

	authed   bool
	peer     bool
	surplus  bool // accepted for a peer beyond MaxClients
	asking   bool
	closing  bool // close after the replies were flushed
	skip     bool // the reply of the current command is dropped
	skipNext bool // CLIENT REPLY SKIP: that of the next one

	// mayWait tells that the goroutine that drives the session is its own, so
	// that a command may block. Without it a command that might is kept in
	// later and laterArgs, and the turn ends (handOff).
	mayWait   bool
	later     *command.Command
	laterArgs [][]byte

	multi    *Transaction   // between MULTI and EXEC
	subs     *subscriptions // nil until the first; its maps are the hub's
	watch    stopwatch
	unpaid   int32  // bytes of replies while unauthenticated
	most     int32  // the most arguments of a command in this turn
	paid     int    // the capacity of w.Buf that is booked
	busy     string // the answer to the command that is being skipped for want of memory
	commands uint32 // in this turn
	errors   uint32
	lastSeen *command.Command
	replyOff bool // CLIENT REPLY OFF
	stale    bool // the turn began after HoldAfter
	caching  bool // CLIENT CACHING was given for the current command or transaction
	marked   bool // the Tracker was told by Mark
	tight    bool // w.Buf is beyond the budget: flush and give it back

	postponed bool // later waits for the end of a pause

	isPeer   atomic.Bool
	monitors atomic.Bool              // MONITOR is on
	waits    atomic.Bool              // for the end of a pause
	user     atomic.Pointer[acl.User] // whose session it is; set by the goroutine that drives it
	stop     atomic.Uint32
	outbox   atomic.Pointer[outbox]   // nil: nothing was ever pushed
	tracks   atomic.Pointer[tracking] // nil: CLIENT TRACKING is off
	active   atomic.Int64             // ms since created, at the last turn
	queued   atomic.Int64             // commands of the open transaction and one more; 0 without
	pending  atomic.Int64             // bytes read and not yet parsed
	held     atomic.Int64             // bytes of both buffers and the parser's lists
	last     atomic.Pointer[command.Command]
	profile  atomic.Pointer[profile]
}

// profile is what a client told about itself. It is replaced, never changed.
type profile struct {
	name, libName, libVersion string
	proto                     int
	readOnly, noEvict         bool
	noTouch, triesAgain       bool
}

var emptyProfile = profile{proto: 2}

// newSession makes the session of a connection between two addresses.
func newSession(srv *Server, ends interface {
	RemoteAddr() net.Addr
	LocalAddr() net.Addr
}) *Session {
	s := &Session{srv: srv, remote: ends.RemoteAddr(), local: ends.LocalAddr(), created: srv.o.Now()}
	s.profile.Store(&emptyProfile)
	s.w.Proto = 2
	s.now = s.created
	return s
}

// prepare puts a session into its first state: authenticated if there is no
// password.
func (s *Session) prepare() {
	s.since = s.now.Sub(s.created)
	s.unpaid = 0
	s.setUser(s.srv.users.Default())
	s.setAuthed(s.srv.openDefault())
}

func (s *Session) setAuthed(ok bool) {
	s.authed = ok
	switch {
	case s.peer:
		s.limits = &s.srv.peer
	case s.trusted():
		s.limits = &s.srv.normal
	default:
		s.limits = &s.srv.preAuth
	}
}

// trusted tells whether the limits of unauthenticated sessions are lifted.
func (s *Session) trusted() bool { return (s.authed || s.peer) && !s.surplus }

// change replaces the profile.
func (s *Session) change(fn func(*profile)) {
	p := *s.profile.Load()
	fn(&p)
	s.profile.Store(&p)
	s.w.Proto = p.proto
}

// ID is unique in the server and never used again. Any goroutine may call it.
func (s *Session) ID() uint64 { return s.id }

// RemoteAddr is the address of the other side. Any goroutine may call it.
func (s *Session) RemoteAddr() net.Addr { return s.remote }

// LocalAddr is the address that was dialed. Any goroutine may call it.
func (s *Session) LocalAddr() net.Addr { return s.local }

// Name is the name that the client gave itself. Any goroutine may call it.
func (s *Session) Name() string { return s.profile.Load().name }

// Proto is the protocol version, 2 or 3. Any goroutine may call it.
func (s *Session) Proto() int { return s.profile.Load().proto }

// ReadOnly tells whether READONLY is in force. Any goroutine may call it.
func (s *Session) ReadOnly() bool { return s.profile.Load().readOnly }

// NoTouch tells whether CLIENT NO-TOUCH is on: commands must not refresh the
// recency of keys. Any goroutine may call it.
func (s *Session) NoTouch() bool { return s.profile.Load().noTouch }

// TriesAgain tells whether the client repeats on its own what is answered TRYAGAIN
// (CLIENT CAPA), so that its commands need not wait. Any goroutine may call it.
func (s *Session) TriesAgain() bool { return s.profile.Load().triesAgain }

// IsPeer tells whether the session is a proven peer. Any goroutine may call it.
func (s *Session) IsPeer() bool { return s.isPeer.Load() }

// Authed tells whether commands other than those of authentication are allowed.
func (s *Session) Authed() bool { return s.authed || s.peer }

// Asking tells whether the command before this one was ASKING.
func (s *Session) Asking() bool { return s.asking }

// SetPeer says that the other side has proven to be a peer (or no longer is):
// it needs no password, may use internal commands, does not count as a client
// and is not listed as one.
func (s *Session) SetPeer(peer bool) {
	s.peer = peer
	s.srv.promote(s, peer)
	if peer {
		s.surplus = false
	}
	s.setAuthed(s.authed)
}

// CloseAfterReply ends the session once the reply of the current command and
// those before it are flushed.
func (s *Session) CloseAfterReply() { s.closing = true }

// Close cuts the session off at once, without waiting. Any goroutine may call it.
func (s *Session) Close() { s.interrupt(stopCut) }

// interrupt asks the session to end.
func (s *Session) interrupt(how uint32) {
	for {
		was := s.stop.Load()
		if was >= how {
			return
		}
		if s.stop.CompareAndSwap(was, how) {
			break
		}
	}
	s.transport.interrupt(how == stopCut)
	s.srv.pause.look()
}
