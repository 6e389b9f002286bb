package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/ring"
)

// The kinds of running changes.
const (
	// changeOpen: slots that this node owns by the View wait for the agreement of
	// all members; changeRelease: it serves slots until their next owner asks.
	changeOpen    = "open"
	changeRelease = "release"
)

// rateSpan is over how many seconds rates are taken.
const rateSpan = 10

// sample is what the counters said at a time.
type sample struct {
	at                     time.Time
	hits, misses, commands int64
}

// running is one phase of the barrier that has begun and not ended.
type running struct {
	id          uint64
	total, left int // slots
	began       int64
}

// changes follows what runs at this node, and how busy it is.
type changes struct {
	mu            sync.Mutex
	last          uint64 // ID of the latest change of the barrier
	open, release *running
	transfers     map[uint64]handoff.Change // those that run, by ID
	samples       [rateSpan + 1]sample      // a second apart, the latest at [0]
}

// rates are per second.
type rates struct{ hits, misses, commands float64 }

// changeLoop notes when changes begin and end, and once a second how busy the node
// is. It ends with n.ctx.
func (n *Node) changeLoop() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	n.takeSample(time.Now())
	for {
		changed := n.barrier.Changed() // before the look, so that no change is missed
		n.lookAtBarrier()
		n.noteTransfers(n.clock.millis())
		select {
		case <-changed:
		case now := <-t.C:
			n.takeSample(now)
		case <-n.ctx.Done():
			return
		}
	}
}

func (n *Node) takeSample(now time.Time) {
	st := n.eng.Stats()
	c := &n.changes
	c.mu.Lock()
	defer c.mu.Unlock()
	copy(c.samples[1:], c.samples[:])
	c.samples[0] = sample{now, st.Hits, st.Misses, int64(n.totalCommands())}
}

// rates are those of the last seconds, rateSpan at most.
func (c *changes) rates() (r rates) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, then := c.samples[0], c.samples[0]
	for _, s := range c.samples[1:] {
		if s.at.IsZero() || s.hits > then.hits || s.misses > then.misses || s.commands > then.commands {
			break // no sample, or the counters were set back since
		}
		then = s
	}
	if d := now.at.Sub(then.at).Seconds(); d > 0 {
		r = rates{float64(now.hits-then.hits) / d, float64(now.misses-then.misses) / d, float64(now.commands-then.commands) / d}
	}
	return r
}

// lookAtBarrier follows the two phases of the barrier.
func (n *Node) lookAtBarrier() {
	opening, releasing := n.barrier.Progress()
	at := n.clock.millis()
	c := &n.changes
	c.mu.Lock()
	began, ended := c.follow(&c.open, opening, at)
	gaveBegan, gaveEnded := c.follow(&c.release, releasing, at)
	c.mu.Unlock()
	self := n.selfMember()
	say := func(r *running, format string, more ...any) {
		if r != nil {
			n.events.add(at, "change", &self, fmt.Sprintf(format, append([]any{r.total}, more...)...))
		}
	}
	took := func(r *running) string {
		if r == nil {
			return ""
		}
		return (time.Duration(at-r.began) * time.Millisecond).String()
	}
	say(began, "%d slots are to be served here and wait for the agreement of all members")
	say(ended, "%d slots are served here, after %s", took(ended))
	say(gaveBegan, "%d slots go to other nodes and are served here until these ask")
	say(gaveEnded, "%d slots have gone to other nodes, after %s", took(gaveEnded))
}

// follow runs under mu. It returns copies of what has begun or ended.
func (c *changes) follow(at **running, left int, now int64) (began, ended *running) {
	r := *at
	switch {
	case r == nil && left > 0:
		c.last++
		r = &running{id: c.last, total: left, left: left, began: now}
		*at = r
		was := *r
		return &was, nil
	case r != nil && left == 0:
		*at = nil
		return nil, r
	case r != nil:
		r.left, r.total = left, max(r.total, left)
	}
	return nil, nil
}

// ownChanges lists the changes that run at this node.
func (n *Node) ownChanges() []operate.Change {
	now := n.clock.millis()
	self := n.selfMember()
	out := []operate.Change{}
	c := &n.changes
	c.mu.Lock()
	phase := func(kind string, r *running) {
		if r == nil {
			return
		}
		done := r.total - r.left
		out = append(out, operate.Change{Kind: kind, ID: fmt.Sprintf("%s-b%d", n.id.String()[:8], r.id), Slots: r.total, Done: done,
			Percent: percent(float64(done), float64(r.total)), BeganMS: r.began, ETAMS: remaining(now-r.began, float64(done), float64(r.left))})
	}
	phase(changeOpen, c.open)
	phase(changeRelease, c.release)
	c.mu.Unlock()
	out = append(append(out, n.transferred()...), n.ramped(now)...)
	for i := range out {
		out[i].Node, out[i].Addr = n.id.String(), self.Addr()
	}
	return out
}

func percent(done, total float64) float64 {
	if total <= 0 {
		return 0
	}
	return 100 * done / total
}

// remaining is what is left of a time, in ms, if the rest goes on like what is done;
// -1 if nothing is done.
func remaining(spent int64, done, left float64) int64 {
	switch {
	case left <= 0:
		return 0
	case done <= 0:
		return -1
	}
	return int64(float64(spent) * left / done)
}

// figures are what this node says of itself.
func (n *Node) figures() operate.Figures {
	st, r := n.eng.Stats(), n.changes.rates()
	opening, releasing := n.barrier.Progress()
	_, digest := n.pins.now()
	f := operate.Figures{View: viewHash(n.View()), Opening: opening, Releasing: releasing,
		Keys: st.ServedKeys, Bytes: st.Bytes, MemoryLimit: st.MaxBytes, Clients: n.frontStats().Connected,
		UptimeMS:          n.clock.millis() - n.started.UnixMilli(),
		CommandsPerSecond: r.commands, HitsPerSecond: r.hits, MissesPerSecond: r.misses,
		PinsDigest: fmt.Sprintf("%016x", digest), ChangesOpen: len(n.ownChanges()),
		WeightOrigin: n.weight.origin(), WeightConfigured: n.weight.configured, WeightKeeps: n.weight.path != ""}
	for slot := range uint16(ring.Slots) {
		if n.eng.Serving(slot) {
			f.Serving++
		}
	}
	n.transferFigures(&f)
	return f
}

// infoChanges writes the lines of INFO about what RING CHANGES tells.
func infoChanges(n *Node, t *infoText) {
	r := n.changes.rates()
	t.add("ringcache_hits_per_second", fmt.Sprintf("%.2f", r.hits))
	t.add("ringcache_misses_per_second", fmt.Sprintf("%.2f", r.misses))
	records, _ := n.pins.now()
	t.add("ringcache_pins", len(pinned(records, "")))
	list := n.ownChanges()
	t.add("ringcache_changes", len(list))
	for i := range list {
		c := &list[i]
		t.add(fmt.Sprintf("ringcache_change%d", i), fmt.Sprintf("id=%s,kind=%s,percent=%.1f,slots=%d,slots_done=%d,keys=%d,keys_left=%d,bytes=%d,keys_per_second=%.1f,eta_ms=%d",
			c.ID, c.Kind, c.Percent, c.Slots, c.Done, c.Keys, c.Left, c.Bytes, c.Rate, c.ETAMS))
	}
}
