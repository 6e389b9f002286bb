package engine

import (
	"runtime"
	"time"
)

const (
	// dutyTurn is how many holds the sweep does in one go, about a tenth of a
	// millisecond: so long waits who needs the processor that it runs on.
	dutyTurn = 64
	// dutyRest is the shortest rest: timers keep no shorter ones.
	dutyRest = time.Millisecond
	// dutyShare is how many times as long as it rests the sweep works: a million
	// keys with one deadline must be gone within a second where one takes 600 ns.
	dutyShare = 3
	// dutyMost is how much work may be saved up while others had the processor,
	// and the most that is owed after a turn that took longer than it should.
	dutyMost = dutyShare * dutyRest
)

// duty bounds the share of one processor that the sweep takes: it rests a third of
// the time that it works. So reads beside it meet fewer of its holds, and where all
// processors are busy the others get theirs. Time that it waits for a processor is
// rest, which it may use up later, so that it comes forward on a busy machine too.
type duty struct {
	now    func() time.Duration // does not go back
	began  time.Duration        // of the turn
	ended  time.Duration        // of the turn before
	rest   time.Duration        // that was wanted after it
	late   time.Duration        // by how much longer the turn was waited for
	credit time.Duration        // what it may work yet; what it owes if below 0
}

func (d *duty) begin() {
	d.began = d.now()
	d.late = d.began - d.ended - d.rest
	d.credit = min(d.credit+dutyShare*(d.began-d.ended), dutyMost)
}

// over says whether the turn should end: one that came late lasts as long as it was
// waited for, since the next one may be late too.
func (d *duty) over() bool { return d.now()-d.began >= min(d.late, d.credit) }

// end ends a turn and returns how long to rest before the next one; 0 = not at all.
func (d *duty) end() time.Duration {
	d.ended = d.now()
	d.credit = max(d.credit-(d.ended-d.began), -dutyMost)
	if d.rest = 0; d.credit <= 0 {
		d.rest = max(-d.credit/dutyShare, dutyRest)
	}
	return d.rest
}

// breath is what the sweeper does between its holds; nil does nothing.
type breath struct {
	e     *Engine
	duty  duty
	timer *time.Timer
	holds int // of the turn
}

// take counts a hold, and ends the turn after enough of them: it rests, or gives way to
// who waits for the processor. Close ends a rest.
func (b *breath) take() {
	if b == nil {
		return
	}
	if b.holds++; b.holds < dutyTurn {
		return
	}
	b.holds = 0
	if !b.duty.over() {
		return
	}
	if rest := b.duty.end(); rest > 0 {
		b.timer.Reset(rest)
		select {
		case <-b.e.stop:
		case <-b.timer.C:
		}
	} else {
		runtime.Gosched()
	}
	b.e.pace()
	b.duty.begin()
}
