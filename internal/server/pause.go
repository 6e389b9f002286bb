package server

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// pause is CLIENT PAUSE: commands wait until it is over. A session that has one
// leaves its loop meanwhile, like one whose command may block.
type pause struct {
	active  atomic.Bool  // there may be one, for a look without mu
	waiting atomic.Int64 // sessions that wait for its end

	mu      sync.Mutex
	until   time.Time
	all     bool          // all commands wait, otherwise those that may change something
	changed chan struct{} // closed when waiting sessions should look again; nil: nobody waits
}

// maxPause bounds a pause, so that its end is a time.
const maxPause = int64(math.MaxInt64/time.Millisecond) / 2

// clientPause is CLIENT PAUSE timeout [WRITE|ALL].
func (s *Session) clientPause(args [][]byte) {
	all := true
	switch {
	case len(args) > 4:
		s.tooMany(args)
		return
	case len(args) < 4 || isWord(args[3], "ALL"):
	case isWord(args[3], "WRITE"):
		all = false
	default:
		s.w.Error("ERR CLIENT PAUSE mode must be WRITE or ALL")
		return
	}
	ms, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		s.w.Error("ERR timeout is not an integer or out of range")
		return
	case ms < 0:
		s.w.Error("ERR timeout is negative")
		return
	}
	s.srv.pause.begin(s.srv.o.Now(), time.Duration(min(ms, maxPause))*time.Millisecond, all)
	s.w.Simple("OK")
}

// tooMany answers more arguments than a subcommand with options takes.
func (s *Session) tooMany(args [][]byte) {
	s.w.Error("ERR unknown subcommand or wrong number of arguments for '" + string(args[1]) + "'. Try CLIENT HELP.")
}

// begin pauses, or makes a pause longer and stricter, never shorter or milder.
func (p *pause) begin(now time.Time, d time.Duration, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.until.After(now) {
		p.until, p.all = time.Time{}, false
	}
	if until := now.Add(d); until.After(p.until) {
		p.until = until
	}
	p.all = p.all || all
	p.active.Store(true)
	p.stir()
}

// end is CLIENT UNPAUSE.
func (p *pause) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until, p.all = time.Time{}, false
	p.active.Store(false)
	p.stir()
}

// look makes the sessions that wait look at their stop flags.
func (p *pause) look() {
	if p.active.Load() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.stir()
	}
}

// stir wakes the sessions that wait. p.mu is held.
func (p *pause) stir() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// holds tells whether a command has to wait now: how long, and what tells that it
// should be asked again.
func (p *pause) holds(cmd *command.Command, t *Transaction, now time.Time) (d time.Duration, again <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d = p.until.Sub(now); d <= 0 {
		p.active.Store(false)
		return 0, nil
	}
	if !p.all && !changes(cmd) && (cmd.ID != command.Exec || t == nil || !t.changes()) {
		return 0, nil
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	return d, p.changed
}

// changes tells whether a command may change something or send a message.
func changes(cmd *command.Command) bool {
	switch cmd.ID {
	case command.Eval, command.EvalSHA:
		return true
	}
	return cmd.Flags.Has(command.Write) || cmd.Name == "publish" || cmd.Name == "spublish"
}

func (t *Transaction) changes() bool {
	for i := range t.cmds {
		if changes(t.cmds[i].cmd) {
			return true
		}
	}
	return false
}

// paused tells whether the command has to wait for the end of a pause. Peers never
// do.
func (s *Session) paused(cmd *command.Command) bool {
	if s.peer {
		return false
	}
	d, _ := s.srv.pause.holds(cmd, s.multi, s.srv.o.Now())
	return d > 0
}

// outwait waits until the command may be executed. It reports false if the session
// is cut off meanwhile; a server that drains lets it be executed.
func (s *Session) outwait(cmd *command.Command) bool {
	s.waits.Store(true)
	s.srv.pause.waiting.Add(1)
	defer func() {
		s.srv.pause.waiting.Add(-1)
		s.waits.Store(false)
	}()
	for {
		d, again := s.srv.pause.holds(cmd, s.multi, s.srv.o.Now())
		if d <= 0 {
			s.now = s.srv.o.Now()
			return true
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-again:
		case <-s.srv.quit:
			timer.Stop()
			return s.stop.Load() != stopCut
		}
		timer.Stop()
		if s.stop.Load() == stopCut {
			return false
		}
	}
}

// clientUnblock is CLIENT UNBLOCK id [TIMEOUT|ERROR]: no command blocks in a way
// that this could end.
func (s *Session) clientUnblock(args [][]byte) {
	_, ok := resp.ParseInt(args[2])
	switch {
	case len(args) > 4:
		s.tooMany(args)
	case len(args) == 4 && !isWord(args[3], "TIMEOUT") && !isWord(args[3], "ERROR"):
		s.w.Error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR")
	case !ok:
		s.w.Error("ERR value is not an integer or out of range")
	default:
		s.w.Int(0)
	}
}
