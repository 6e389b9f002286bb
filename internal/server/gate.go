package server

import (
	"math"
	"time"

	"github.com/ringcache/ringcache/internal/command"
)

// Gate is a Handler that may have to look around before anything is executed,
// because its process was away for a while. See Server.HoldAfter.
type Gate interface {
	// AwaitFresh returns when commands may be executed. It may block for a bounded
	// time and is called on the session's goroutine.
	AwaitFresh(s *Session)
}

// HoldAfter sets a time: turns that begin later call the Gate before they let the
// Handler execute their first command, unless it comes from a peer. The zero time
// means that none does. It costs a turn one comparison with the time that it reads
// anyway. Any goroutine may call it.
func (s *Server) HoldAfter(t time.Time) {
	if t.IsZero() || s.gate == nil {
		s.holdAfter.Store(math.MaxInt64)
		return
	}
	s.holdAfter.Store(int64(t.Sub(s.made)))
}

// fresh lets the Gate look around, once in a turn. It reports false if the session
// may not wait here: the command has to be put off. Peers do not wait: what they
// ask may be what they wait for.
func (s *Session) fresh(cmd *command.Command) bool {
	if s.peer || cmd.Flags.Has(command.Internal) {
		return true
	}
	if !s.mayWait {
		return false
	}
	s.srv.gate.AwaitFresh(s)
	s.stale = false
	return true
}
