package handoff

import "time"

// Defaults of what is taken unasked, for each source.
const (
	DefaultRate  = 5000     // keys per second
	DefaultBytes = 64 << 20 // bytes per second
)

const (
	paceSlice  = 20 * time.Millisecond // a batch is about what may be taken in that time
	paceFewest = 2 * hotEach           // keys of a batch at least
	paceMost   = 1000                  // and at most
	paceLeast  = 50.0                  // keys per second, however slow the source is
	// An answer is slow that took slowFactor times the shortest one and slowMost more.
	slowFactor = 4
	slowMost   = 3 * time.Millisecond
	slowBytes  = 50 << 20 // bytes per second that an answer may take beside that
)

// pace decides how fast a source is asked: additive increase, multiplicative
// decrease (Chiu and Jain 1989) on the time that it takes to answer, within the
// configured rates.
type pace struct {
	now  float64       // keys per second, 0 = the configured rate
	base time.Duration // the shortest answer, drifting up slowly
}

// keys is how many keys the next batch may have.
func (p *pace) keys(rate int64) int {
	r := float64(rate)
	if p.now > 0 {
		r = min(r, p.now)
	}
	return int(min(max(r*paceSlice.Seconds(), paceFewest), paceMost))
}

// after notes a batch and returns how long to wait before the next one.
func (p *pace) after(keys, bytes int, took time.Duration, rate, perSecond int64) time.Duration {
	most := float64(rate)
	if p.now == 0 || p.now > most {
		p.now = most
	}
	if p.base == 0 || took < p.base {
		p.base = took
	} else {
		p.base += (took - p.base) / 64
	}
	transfer := time.Duration(float64(bytes) / slowBytes * float64(time.Second))
	if took > slowFactor*p.base+slowMost+transfer {
		p.now = max(p.now/2, min(paceLeast, most))
	} else {
		p.now = min(p.now+most/16, most)
	}
	due := float64(keys) / p.now
	if perSecond > 0 {
		due = max(due, float64(bytes)/float64(perSecond))
	}
	return max(0, time.Duration(due*float64(time.Second))-took)
}

// meter measures a rate over about two seconds.
type meter struct {
	n     int
	since time.Time
	rate  float64
}

func (m *meter) add(n int, now time.Time) {
	if m.since.IsZero() {
		m.since = now
	}
	m.n += n
	if d := now.Sub(m.since); d >= time.Second {
		m.rate = float64(m.n) / d.Seconds()
		m.n, m.since = 0, now
	}
}

// of returns the rate per second.
func (m *meter) of(now time.Time) float64 {
	d := now.Sub(m.since).Seconds()
	switch {
	case m.since.IsZero() || d > 5:
		return 0
	case m.rate == 0 && d > 0:
		return float64(m.n) / d
	}
	return m.rate
}
