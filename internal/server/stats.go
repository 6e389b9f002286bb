package server

import (
	"net"
	"sync/atomic"
	"time"
)

// Stats is a snapshot of the counters. They count since the start or the last
// ResetStats, except where a comment says otherwise.
type Stats struct {
	Clients      int // sessions of clients now
	Peers        int // sessions of peers now
	MaxClients   int // the limit now
	Waiting      int // sessions that wait for the end of CLIENT PAUSE now
	Total        uint64
	Rejected     uint64 // by MaxClients or protected mode
	Commands     uint64
	ErrorReplies uint64
	NetIn        uint64 // bytes
	NetOut       uint64 // bytes
	Reads        uint64 // that gave bytes
	Writes       uint64
	// The largest unparsed input and unsent replies of one session, in bytes,
	// within the last second or two.
	RecentInput, RecentOutput int64

	BufferBytes    int64  // what the buffers of all sessions hold beyond their allowance, now
	BufferLimit    int64  // Options.BufferLimit
	BufferRefusals uint64 // commands and replies dropped, and sessions closed, because of it

	OutputLimit     uint64 // sessions closed because their client did not read
	PreAuthTimeouts uint64
	AuthFailures    uint64
	ProtocolErrors  uint64
	TooLarge        uint64
	Panics          uint64

	// What somebody listens to now, and who listens.
	Channels, ShardChannels, Patterns, Listening int

	// Rates over the last full second.
	CommandsPerSec, NetInPerSec, NetOutPerSec float64
}

// Connected is the number of all sessions now.
func (s Stats) Connected() int { return s.Clients + s.Peers }

// counters are added to by all sessions.
type counters struct {
	total, rejected, commands, errorReplies atomic.Int64
	netIn, netOut, reads, writes            atomic.Int64
	largest                                 [2]recent // input, output
	outputLimit, preAuthTimeouts            atomic.Int64
	authFailures, protocolErrors, tooLarge  atomic.Int64
	panics                                  atomic.Int64

	// Rates need no goroutine: the first turn of a second notes the sample.
	second atomic.Int64 // unix time of cur
	cur    atomic.Pointer[sample]
	prev   atomic.Pointer[sample]
}

// sample is the state of the counters when a second began.
type sample struct {
	at                      time.Time
	commands, netIn, netOut int64
}

// turn adds what one turn of a session did.
func (c *counters) turn(now time.Time, commands, errors uint64) {
	if commands > 0 {
		c.commands.Add(int64(commands))
	}
	if errors > 0 {
		c.errorReplies.Add(int64(errors))
	}
	if sec := now.Unix(); sec != c.second.Load() {
		c.tick(sec, now)
	}
}

// recent is the greatest value of this second and of the one before.
type recent struct{ now, before atomic.Int64 }

func (r *recent) note(n int) {
	for was := r.now.Load(); int64(n) > was && !r.now.CompareAndSwap(was, int64(n)); was = r.now.Load() {
	}
}

func (r *recent) value() int64 { return max(r.now.Load(), r.before.Load()) }

// sent counts one write.
func (c *counters) sent(n int) {
	c.netOut.Add(int64(n))
	c.writes.Add(1)
}

// tick notes a sample if sec is a new second. Of two that come at once, one does.
func (c *counters) tick(sec int64, now time.Time) {
	was := c.second.Load()
	if sec <= was || !c.second.CompareAndSwap(was, sec) {
		return
	}
	s := &sample{at: now, commands: c.commands.Load(), netIn: c.netIn.Load(), netOut: c.netOut.Load()}
	c.prev.Store(c.cur.Swap(s))
	for i := range c.largest {
		c.largest[i].before.Store(c.largest[i].now.Swap(0))
	}
}

// rates gives the rates between the last two samples; zero if the last one is
// too old to say anything about now.
func (c *counters) rates(now time.Time) (commands, in, out float64) {
	c.tick(now.Unix(), now)
	cur, prev := c.cur.Load(), c.prev.Load()
	if cur == nil || prev == nil {
		return 0, 0, 0
	}
	span := cur.at.Sub(prev.at).Seconds()
	if span <= 0 {
		return 0, 0, 0
	}
	rate := func(a, b int64) float64 { return max(float64(b-a)/span, 0) }
	return rate(prev.commands, cur.commands), rate(prev.netIn, cur.netIn), rate(prev.netOut, cur.netOut)
}

// Stats returns the counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	peers, all := s.peers, len(s.sessions)
	s.mu.Unlock()
	c := &s.counters
	st := Stats{
		Clients:         all - peers,
		Peers:           peers,
		MaxClients:      s.MaxClients(),
		Waiting:         int(s.pause.waiting.Load()),
		Total:           uint64(c.total.Load()),
		Rejected:        uint64(c.rejected.Load()),
		Commands:        uint64(c.commands.Load()),
		ErrorReplies:    uint64(c.errorReplies.Load()),
		NetIn:           uint64(c.netIn.Load()),
		NetOut:          uint64(c.netOut.Load()),
		Reads:           uint64(c.reads.Load()),
		Writes:          uint64(c.writes.Load()),
		OutputLimit:     uint64(c.outputLimit.Load()),
		PreAuthTimeouts: uint64(c.preAuthTimeouts.Load()),
		AuthFailures:    uint64(c.authFailures.Load()),
		ProtocolErrors:  uint64(c.protocolErrors.Load()),
		TooLarge:        uint64(c.tooLarge.Load()),
		Panics:          uint64(c.panics.Load()),
		BufferBytes:     s.budget.held.Load(),
		BufferLimit:     s.budget.limit,
		BufferRefusals:  uint64(s.budget.refusals.Load()),
	}
	st.Channels, st.ShardChannels, st.Patterns = s.hub.counts(nil)
	st.Listening = int(s.hub.listening.Load())
	st.CommandsPerSec, st.NetInPerSec, st.NetOutPerSec = c.rates(s.o.Now())
	st.RecentInput, st.RecentOutput = c.largest[0].value(), c.largest[1].value()
	return st
}

// ResetStats sets all counters to zero.
func (s *Server) ResetStats() {
	c := &s.counters
	for _, v := range []*atomic.Int64{&c.total, &c.rejected, &c.commands, &c.errorReplies, &c.netIn, &c.netOut, &c.reads, &c.writes,
		&c.outputLimit, &c.preAuthTimeouts, &c.authFailures, &c.protocolErrors, &c.tooLarge, &c.panics, &s.budget.refusals} {
		v.Store(0)
	}
	c.cur.Store(nil)
	c.prev.Store(nil)
}

// addrText is the text of an address that may be nil.
func addrText(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}
