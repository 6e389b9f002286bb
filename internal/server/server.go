// Package server owns the connections that clients and peers open to a node:
// listening, sessions, authentication, limits, pipelining, flushing and
// draining. It executes the commands that concern the connection itself and
// gives every other one to a Handler.
//
// It never looks at keys and never decides which node owns one.
//
// Each session is driven by one goroutine at a time, that its transport chooses:
// parsing, execution and replies of one session need no locks. What other
// goroutines may ask of a session is kept in atomics or behind its mutex. No
// lock is held while a Handler runs or a connection is read or written.
//
// A transport moves bytes and nothing else. It gives a session all bytes that it
// has read, once per turn (Session.turn); the session parses whole pipelines,
// executes them in order and leaves all replies in one buffer, which the
// transport flushes once. The std transport has a goroutine per connection; on
// Linux a few loops serve all connections, over epoll, with transfers one by one or in batches by io_uring.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/acl"
	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

// Handler executes the commands that do not concern the connection itself.
type Handler interface {
	// Exec executes one command and appends exactly one reply to w. Arity was
	// checked; for a container such as CONFIG, cmd is the subcommand. It is
	// called in order for each session, on the goroutine that drives it, and
	// may block. args and w are borrowed until it returns. A panic closes the
	// session.
	Exec(s *Session, cmd *command.Command, args [][]byte, w *resp.Writer)
	// Closed is called once when a session that was served has ended, after
	// its last Exec. It must not block.
	Closed(s *Session)
}

// PromptHandler is a Handler that can tell the commands that end at once from
// those that may have to wait. Loops execute the former themselves and hand a
// session over to a goroutine for the latter. They hand over every command of a
// Handler that is no PromptHandler.
type PromptHandler interface {
	Handler
	// TryExec is Exec if the command needs to wait for nobody. Otherwise it
	// reports false, and has neither changed nor appended anything: Exec
	// follows on another goroutine, before any other command of the session.
	TryExec(s *Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool
}

// Options configures a Server. Zero values take the defaults named here.
type Options struct {
	// Addr is the TCP address to listen on. Default "127.0.0.1:7001".
	Addr string
	// Listener is used instead of Addr; the Server closes it.
	Listener net.Listener
	// Handler is required.
	Handler Handler
	// Password of the user "default"; empty means that none is needed.
	Password string
	// Users are further users, one line of ACL rules each, without the word "user"
	// in front; ACLFile is a file that has them instead, which ACL LOAD and SAVE
	// read and write. The user "default" there replaces Password.
	Users   []string
	ACLFile string
	// Unprotected accepts peers that are not on the loopback interface even
	// without a password. Set it when a cluster secret protects the node.
	Unprotected bool
	// MaxClients bounds the sessions of clients; peers do not count.
	// Default 10,000.
	MaxClients int
	// MaxClientsPerAddress bounds the sessions of clients from one address, the
	// loopback interface excepted. Default 0: no limit.
	MaxClientsPerAddress int
	// PeerReserve is how many more sessions are accepted when MaxClients is
	// reached, so that peers can still prove themselves; they may do nothing
	// else. Default 0.
	PeerReserve int
	// MaxValue is the longest value in bytes. Default 256 KiB. Longer arguments
	// (but never less than 64 KiB, the longest key) are answered with RCTOOLARGE.
	MaxValue int
	// OutputLimit bounds the replies in bytes that wait for one session.
	// Beyond it the session is closed. Default 64 MiB.
	OutputLimit int
	// BufferLimit bounds, in bytes, what the buffers of all sessions hold
	// together beyond 16 KiB for each: unfinished commands and unsent replies.
	// The session that needs more pays: its command is dropped and answered
	// with RCBUSY, so is a reply for which there is no room although its
	// command was executed, and a session whose replies cannot wait is closed.
	// One reply per running command is counted only once it is made. Peers
	// count, and are never refused. Default 256 MiB.
	BufferLimit int64
	// PreAuthTimeout bounds the time until a session has authenticated.
	// Default 10 s.
	PreAuthTimeout time.Duration
	// WriteTimeout bounds how long a client may take to read 64 KiB of replies.
	// Beyond it the session is closed. Default 30 s.
	WriteTimeout time.Duration
	// Version is the Redis version that HELLO tells. Default "7.4.0".
	Version string
	// Now is the clock. Default time.Now.
	Now func() time.Time
	// IO is the transport of connections: IOAuto (default), IOUring, IOEpoll or
	// IOStd. Loops need Linux and a TCP listener; TLS needs IOStd. IOAuto takes
	// the first of IOUring, IOEpoll and IOStd that is possible, the others fail.
	IO string
	// Loops is how many loops serve the connections, at most 256. Default: one
	// for each processor that the process may use.
	Loops int
	// HoldProcessor lets each loop keep its processor while it waits, which
	// saves much when few connections are ready at once. Set it only where
	// GOMAXPROCS is above Loops: otherwise nothing else gets to run.
	HoldProcessor bool
	// TLS makes connections speak TLS; nil: none.
	TLS *TLS
	// Logger receives what an operator should know. Default slog.Default().
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	if o.Addr == "" {
		o.Addr = "127.0.0.1:7001"
	}
	if o.IO == "" {
		o.IO = IOAuto
	}
	setDefault(&o.MaxClients, 10_000)
	setDefault(&o.MaxValue, 256<<10)
	setDefault(&o.OutputLimit, 64<<20)
	setDefault(&o.BufferLimit, 256<<20)
	setDefault(&o.PreAuthTimeout, 10*time.Second)
	setDefault(&o.WriteTimeout, 30*time.Second)
	if o.Version == "" {
		o.Version = "7.4.0"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	var faults []error
	check := func(ok bool, format string, a ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf("server: "+format+": %w", append(a, errs.ErrConfig)...))
		}
	}
	check(o.Handler != nil, "no handler")
	check(o.MaxClients > 0, "max clients is %d, must be positive", o.MaxClients)
	check(o.MaxClientsPerAddress >= 0, "max clients per address is %d, must not be negative", o.MaxClientsPerAddress)
	check(o.PeerReserve >= 0, "peer reserve is %d, must not be negative", o.PeerReserve)
	check(o.MaxValue > 0 && o.MaxValue <= resp.MaxProtoBulk, "max value is %d, must be 1 to %d", o.MaxValue, resp.MaxProtoBulk)
	check(o.OutputLimit > 0, "output limit is %d, must be positive", o.OutputLimit)
	check(o.BufferLimit > 0, "buffer limit is %d, must be positive", o.BufferLimit)
	check(o.PreAuthTimeout > 0, "pre-auth timeout is %v, must be positive", o.PreAuthTimeout)
	check(o.WriteTimeout > 0, "write timeout is %v, must be positive", o.WriteTimeout)
	check(slices.Contains(IOs(), o.IO), "io is %q, must be one of %s", o.IO, strings.Join(IOs(), ", "))
	check(o.Loops >= 0 && o.Loops <= MaxLoops, "loops is %d, must be 0 to %d", o.Loops, MaxLoops)
	check(o.TLS == nil || o.IO == IOStd || o.IO == IOAuto, "io %s does not speak TLS, choose std or auto", o.IO)
	return o, errors.Join(faults...)
}

func setDefault[T int | int64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// Server accepts sessions and serves them. Its methods may be called from any
// goroutine.
type Server struct {
	o   Options
	log *slog.Logger

	users       *acl.Users
	failures    failures // of logins
	unprotected atomic.Bool
	maxClients  atomic.Int64
	outputLimit atomic.Int64

	preAuth, normal, peer resp.Limits // never written after New

	counters   counters
	budget     budget
	outboxes   outboxPool
	pause      pause
	prompt     PromptHandler // the Handler, if it is one
	previewer  Previewer     // the same
	previews   *sync.Pool
	observer   Observer    // the Handler, if it is one
	accountant Accountant  // the same
	keeper     ShardKeeper // the Handler, if it is one
	gate       Gate        // the Handler, if it is one
	hub        hub
	monitors   monitors
	notable    atomic.Pointer[Limits]
	made       time.Time
	steady     bool // Options.Now is the real clock

	holdAfter atomic.Int64 // of the time since made; see HoldAfter

	tracker          Tracker          // the Handler, if it is one
	transactor       Transactor       // the same
	promptTransactor PromptTransactor // the same

	mu         sync.Mutex
	listener   net.Listener
	io         string              // the transport in use
	loops      []multiplexer       // set once, before the first connection
	sessions   map[uint64]*Session // every session that is being served
	peers      int                 // how many of sessions are peers
	perAddress map[netip.Addr]int  // sessions of clients
	lastID     uint64
	stopping   bool // no new sessions
	closed     bool

	rejecting atomic.Int32   // connections that are being refused
	quit      chan struct{}  // closed when the server stops accepting
	work      sync.WaitGroup // accept loop, sessions, flushers and refusals
}

// New makes a server that does not listen yet.
func New(o Options) (*Server, error) {
	steady := o.Now == nil
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	users, err := loadUsers(&o)
	if err != nil {
		return nil, err
	}
	s := &Server{
		o:          o,
		users:      users,
		log:        o.Logger,
		listener:   o.Listener,
		sessions:   make(map[uint64]*Session),
		perAddress: make(map[netip.Addr]int),
		quit:       make(chan struct{}),
		budget:     budget{limit: o.BufferLimit},
		preAuth:    resp.PreAuthLimits(),
		normal:     resp.DefaultLimits(max(o.MaxValue, maxKey)),
		peer:       resp.DefaultLimits(max(o.MaxValue, maxPeerBulk)),
		made:       o.Now(),
		steady:     steady,
	}
	s.observer, _ = o.Handler.(Observer)
	s.accountant, _ = o.Handler.(Accountant)
	s.keeper, _ = o.Handler.(ShardKeeper)
	s.gate, _ = o.Handler.(Gate)
	s.HoldAfter(time.Time{})
	s.SetNotable(Limits{Slow: -1, Request: -1, Reply: -1})
	s.tracker, _ = o.Handler.(Tracker)
	s.transactor, _ = o.Handler.(Transactor)
	s.peer.MaxArgs += peerExtraArgs
	s.peer.MaxQuery *= 2
	s.prompt, _ = o.Handler.(PromptHandler)
	s.previewer, _ = o.Handler.(Previewer)
	s.previews = newPreviews()
	s.promptTransactor, _ = o.Handler.(PromptTransactor)
	s.SetUnprotected(o.Unprotected)
	s.SetMaxClients(o.MaxClients)
	s.SetOutputLimit(o.OutputLimit)
	return s, nil
}

const (
	maxKey        = 64 << 10 // the longest key of the engine
	maxPeerBulk   = 16 << 20 // views and batches that peers exchange
	peerExtraArgs = 64       // what a forwarded command has in front
)

// Start listens and begins to accept; it does not block.
func (s *Server) Start() error {
	s.mu.Lock()
	ln, stopping := s.listener, s.stopping
	s.mu.Unlock()
	if stopping {
		return fmt.Errorf("server: %w", errs.ErrClosed)
	}
	if ln == nil {
		var err error
		if ln, err = net.Listen("tcp", s.o.Addr); err != nil {
			return fmt.Errorf("server: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		ln.Close()
		return fmt.Errorf("server: %w", errs.ErrClosed)
	}
	next, now, err := s.listening(ln)
	if err != nil {
		ln.Close()
		return err
	}
	s.listener = now
	// Accepts until the listener is closed by Drain or Close, which wait for it.
	s.work.Go(func() { s.accept(next) })
	return nil
}

// Serve is Start, and then blocks until the server was drained or closed.
func (s *Server) Serve() error {
	if err := s.Start(); err != nil {
		return err
	}
	<-s.quit
	s.work.Wait()
	return nil
}

// Addr returns the address that the server listens on; nil before Start unless
// a Listener was given.
func (s *Server) Addr() net.Addr {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// SetPassword changes the password of the user "default"; empty means none.
// Sessions that are authenticated stay so.
func (s *Server) SetPassword(password string) { s.users.SetPassword(password) }

// SetUnprotected switches protected mode off (true) or on for new sessions.
func (s *Server) SetUnprotected(off bool) { s.unprotected.Store(off) }

// SetMaxClients changes Options.MaxClients. Sessions above a lower limit stay.
func (s *Server) SetMaxClients(n int) { s.maxClients.Store(int64(max(n, 1))) }

// MaxClients returns the limit of client sessions.
func (s *Server) MaxClients() int { return int(s.maxClients.Load()) }

// SetOutputLimit changes Options.OutputLimit, in bytes.
func (s *Server) SetOutputLimit(n int) { s.outputLimit.Store(int64(max(n, 1))) }

// OutputLimit returns the limit of waiting replies of one session, in bytes.
func (s *Server) OutputLimit() int { return int(s.outputLimit.Load()) }

// EachSession calls fn for every session, in the order of their IDs, until it
// returns false. Sessions that begin or end meanwhile may be missed or included.
func (s *Server) EachSession(fn func(*Session) bool) {
	for _, c := range s.snapshot() {
		if !fn(c) {
			return
		}
	}
}

// stop ends accepting. It returns the sessions that are being served.
func (s *Server) stop() []*Session {
	s.mu.Lock()
	first := !s.stopping
	s.stopping = true
	ln, loops := s.listener, s.loops
	s.mu.Unlock()
	if first {
		close(s.quit)
		if ln != nil {
			ln.Close()
		}
		for _, l := range loops {
			l.wake()
		}
	}
	return s.snapshot()
}

// Drain stops accepting, lets every session finish the commands that it has
// already read, flush its replies and close, and waits until all have ended. If
// ctx ends first the remaining sessions are cut off and its error is returned;
// only the commands that are being executed are still waited for, so a Handler
// must bound its own waits. The server stays closed.
func (s *Server) Drain(ctx context.Context) error {
	for _, c := range s.stop() {
		c.interrupt(stopDrain)
	}
	done := make(chan struct{})
	// Ends when every session has; after the cut-off below that is at once.
	go func() {
		s.work.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = fmt.Errorf("server: drain: %w", context.Cause(ctx))
		s.cut()
		<-done
	}
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return err
}

// Close stops accepting, cuts off every session and waits for all goroutines, and
// so for the commands that are being executed. A second Close returns errs.ErrClosed.
func (s *Server) Close() error {
	s.cut()
	s.work.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errs.ErrClosed
	}
	s.closed = true
	return nil
}

func (s *Server) cut() {
	for _, c := range s.stop() {
		c.interrupt(stopCut)
	}
}
