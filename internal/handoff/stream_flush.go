package handoff

import "context"

// Flush is for a process that ends and comes back: it lets the receivers have
// everything that has changed, also of slots that are not served any more, and waits
// until they do, or ctx is done; then it returns false. No entry may change from the
// call on. Later Plans do nothing.
func (s *Streams) Flush(ctx context.Context) bool {
	s.final.Store(true)
	s.mu.Lock()
	s.asked++
	pass := s.asked
	s.mu.Unlock()
	s.nudge()
	var goals map[*target]uint64
	for {
		s.mu.Lock()
		moved, done, idle := s.moved, s.passed >= pass, len(s.feeds) == 0
		s.mu.Unlock()
		if idle {
			return true // there are no receivers
		}
		if done && goals == nil {
			goals = map[*target]uint64{}
			for _, t := range s.all() {
				goals[t] = t.position()
			}
		}
		if done && reachedAll(goals) {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return false
		case <-s.ctx.Done():
			return false
		}
	}
}

func reachedAll(goals map[*target]uint64) bool {
	for t, goal := range goals {
		if t.reached(goal) == nil {
			return false
		}
	}
	return true
}
