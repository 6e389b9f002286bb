package drill

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ringcache/ringcache/internal/register"
	"github.com/ringcache/ringcache/internal/workload"
)

// Report is the outcome of a drill.
type Report struct {
	Scenario string  `json:"scenario"`
	Target   string  `json:"target"`
	Client   string  `json:"client"`
	Control  string  `json:"control"` // how the control ran
	Seed     uint64  `json:"seed"`
	Nodes    int     `json:"nodes"`
	Replicas int     `json:"replicas"`
	Keys     int     `json:"keys"`
	Theta    float64 `json:"zipf"`
	Rate     float64 `json:"rate"`
	Reads    float64 `json:"reads"`
	Value    int     `json:"value_bytes"`
	TTL      float64 `json:"ttl_s"`
	Timeout  float64 `json:"timeout_ms"`
	FaultAt  float64 `json:"fault_at_s"` // the scenario begins so many seconds after the first request
	Faults   int     `json:"faults"`

	Summary Summary  `json:"summary"`
	Bins    []Pair   `json:"bins"`
	Curve   []Pair   `json:"curve"` // the same, finer
	Events  []Event  `json:"events"`
	Missed  []string `json:"missed,omitempty"` // limits that were not held
}

// Pair is a stretch of time on both sides.
type Pair struct {
	From    float64 `json:"from_s"`
	To      float64 `json:"to_s"`
	Fault   Figures `json:"fault"`
	Control Figures `json:"control"`
}

// Figures describe the main load of one side. An error is a miss.
type Figures struct {
	Requests    int64   `json:"requests"`
	Reads       int64   `json:"reads"`
	HitRatio    float64 `json:"hit_ratio"`
	Origin      float64 `json:"origin_per_s"` // loads from the origin
	ReadErrors  int64   `json:"read_errors"`
	WriteErrors int64   `json:"write_errors"`
	P50         float64 `json:"p50_ms"` // of reads
	P99         float64 `json:"p99_ms"`
}

// Summary compares the two sides. Bins before the first fault say what the
// comparison can tell: there the sides differ by chance only.
type Summary struct {
	HitBefore   float64 `json:"hit_ratio_before"` // of both sides
	NoiseDrop   float64 `json:"noise_drop_points"`
	WorstDrop   float64 `json:"worst_drop_points"` // greatest control - fault of a bin's hit ratio, from the fault on
	MeanDrop    float64 `json:"mean_drop_points"`  // of all bins from the fault on
	OriginPeak  float64 `json:"origin_peak"`       // greatest fault / control of a bin's origin load
	P99Ratio    float64 `json:"p99_ratio"`         // greatest fault / control of a bin's p99
	P99Worst    float64 `json:"p99_worst_ms"`      // of a bin
	Errors      int64   `json:"errors"`            // failed calls of the main load
	ControlErrs int64   `json:"control_errors"`
	Retries     uint64  `json:"retries"`
	Redirects   uint64  `json:"redirects"`
	Overdue     int64   `json:"overdue_calls"` // took longer than the deadline and deadlineSlack
	ControlOver int64   `json:"control_overdue"`
	LateTimers  int64   `json:"late_timers"` // wake-ups of idle workers that came deadlineSlack too late: the machine's part in overdue calls
	Longest     float64 `json:"longest_call_ms"`
	Skipped     int64   `json:"skipped_requests"` // not sent, because their caller was too late
	Deaths      int     `json:"taken_for_dead"`   // how often a node took another one for dead
	ControlDead int     `json:"control_taken_dead"`

	Slots    int                `json:"slots_probed"` // slots whose first success after a fault was timed
	SlotP50  float64            `json:"slot_p50_ms"`
	SlotP99  float64            `json:"slot_p99_ms"`
	SlotMax  float64            `json:"slot_max_ms"`
	NoAnswer int                `json:"slots_unanswered"` // until the cluster had settled
	Took     map[string]Seconds `json:"took,omitempty"`   // how long a change took, by its kind
	Check    register.Summary   `json:"check"`
	Control  register.Summary   `json:"control_check"`
}

// Seconds are quantiles of durations.
type Seconds struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50_s"`
	Max   float64 `json:"max_s"`
}

// report sums the run up.
func (r *run) report() *Report {
	o := r.o
	rep := &Report{
		Scenario: o.Scenario, Target: o.Target, Client: o.Client, Control: "simultaneous: same requests, same times, own cluster",
		Seed: o.Seed, Nodes: o.Nodes, Replicas: o.Replicas, Keys: o.Keys, Theta: o.Theta, Rate: o.Rate, Reads: o.Reads,
		Value: o.Value, TTL: o.TTL.Seconds(), Timeout: ms(o.Timeout), FaultAt: o.Before.Seconds(), Faults: r.faults, Events: r.events,
	}
	first := int(o.Before / r.main.width)
	last := min(int(max(r.until, o.Before+o.Duration)/r.main.width), len(r.main.cells))
	before := r.bins(0, first)
	after := r.bins(first, last)
	rep.Bins = append(slices.Clone(before), after...)
	for i := range last {
		rep.Curve = append(rep.Curve, r.pair(i, i+1))
	}
	rep.Summary = r.summary(before, after)
	return rep
}

// bins joins cells until both sides have enough requests; what is left over at the
// end goes to the last bin.
func (r *run) bins(from, to int) []Pair {
	var ends []int
	for i, begin := from, from; i < to; i++ {
		p := r.pair(begin, i+1)
		if min(p.Fault.Requests, p.Control.Requests) >= int64(r.o.BinRequests) {
			ends, begin = append(ends, i+1), i+1
		}
	}
	if len(ends) == 0 {
		ends = append(ends, to)
	}
	ends[len(ends)-1] = to
	var out []Pair
	begin := from
	for _, end := range ends {
		if end > begin {
			out = append(out, r.pair(begin, end))
		}
		begin = end
	}
	return out
}

// pair sums cells from <= i < to up.
func (r *run) pair(from, to int) Pair {
	width := r.main.width
	return Pair{From: (time.Duration(from) * width).Seconds(), To: (time.Duration(to) * width).Seconds(),
		Fault: r.main.figures(from, to), Control: r.control.figures(from, to)}
}

func (s *side) figures(from, to int) Figures {
	var f Figures
	var hits, origin int64
	var latency workload.Histogram
	for i := from; i < to; i++ {
		c := s.cells[i].Load()
		if c == nil {
			continue
		}
		c.mu.Lock()
		f.Requests += c.requests
		f.Reads += c.reads
		f.ReadErrors += c.readErrors
		f.WriteErrors += c.writeErrors
		hits, origin = hits+c.hits, origin+c.origin
		latency.Merge(&c.latency)
		c.mu.Unlock()
	}
	if f.Reads > 0 {
		f.HitRatio = float64(hits) / float64(f.Reads)
	}
	f.Origin = float64(origin) / (time.Duration(to-from) * s.width).Seconds()
	f.P50, f.P99 = ms(latency.Quantile(0.5)), ms(latency.Quantile(0.99))
	return f
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r *run) summary(before, after []Pair) Summary {
	var s Summary
	for i, p := range before {
		s.HitBefore += (p.Fault.HitRatio + p.Control.HitRatio) / 2 / float64(len(before))
		if i == 0 || p.Drop() > s.NoiseDrop {
			s.NoiseDrop = p.Drop()
		}
		s.count(p)
	}
	for i, p := range after {
		if i == 0 || p.Drop() > s.WorstDrop {
			s.WorstDrop = p.Drop()
		}
		s.MeanDrop += p.Drop() / float64(len(after))
		s.P99Worst = max(s.P99Worst, p.Fault.P99)
		if p.Control.P99 > 0 {
			s.P99Ratio = max(s.P99Ratio, p.Fault.P99/p.Control.P99)
		}
		if p.Control.Origin > 0 {
			s.OriginPeak = max(s.OriginPeak, p.Fault.Origin/p.Control.Origin)
		}
		s.count(p)
	}
	stats := r.main.stats()
	s.Retries, s.Redirects = stats.Retries, stats.Redirects
	s.Overdue, s.ControlOver = r.main.overdue.Load(), r.control.overdue.Load()
	s.Longest = ms(time.Duration(r.main.longest.Load()))
	s.Skipped, s.LateTimers = r.main.skipped.Load(), r.main.lateTimers.Load()
	s.Deaths, s.ControlDead = r.main.sys.deaths(), r.control.sys.deaths()
	s.Check, s.Control = r.main.check.Summary(), r.control.check.Summary()
	s.Slots, s.NoAnswer = len(r.slots.times), r.slots.unanswered
	if n := len(r.slots.times); n > 0 {
		slices.Sort(r.slots.times)
		s.SlotP50, s.SlotP99, s.SlotMax = ms(quantile(r.slots.times, 0.5)), ms(quantile(r.slots.times, 0.99)), ms(r.slots.times[n-1])
	}
	s.Took = map[string]Seconds{}
	for what, list := range r.times {
		slices.Sort(list)
		s.Took[what] = Seconds{len(list), quantile(list, 0.5).Seconds(), list[len(list)-1].Seconds()}
	}
	return s
}

// Errors is the number of failed calls.
func (f Figures) Errors() int64 { return f.ReadErrors + f.WriteErrors }

// Drop is by how many points the hit ratio is below the control's.
func (p Pair) Drop() float64 { return 100 * (p.Control.HitRatio - p.Fault.HitRatio) }

func (s *Summary) count(p Pair) {
	s.Errors += p.Fault.Errors()
	s.ControlErrs += p.Control.Errors()
}

// quantile of a sorted list: the smallest value that a share q does not exceed.
func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[min(len(sorted)-1, max(0, int(math.Ceil(q*float64(len(sorted))))-1))]
}

// Limits are what a drill must hold; a zero is no limit.
type Limits struct {
	HitDrop    float64       // points of hit ratio below the control, of the worst bin
	OriginPeak float64       // times the control's origin load, of the worst bin
	P99Ratio   float64       // times the control's p99, of the worst bin
	SlotP99    time.Duration // until the first success of a slot after a fault
	Out, Heal  time.Duration // until a node that is cut off is out; until all agree after it
	NoOverdue  bool          // no call beyond its deadline
}

// Judge notes in the report which limits were missed, and violations if they count: a
// cluster of ours must have none; those of a client that shards by itself are a result.
func (r *Report) Judge(l Limits) {
	r.Missed = nil
	s := r.Summary
	miss := func(bad bool, format string, a ...any) {
		if bad {
			r.Missed = append(r.Missed, fmt.Sprintf(format, a...))
		}
	}
	if r.Target == TargetRing {
		miss(s.Check.Violations() > 0, "%d answers that are never legal", s.Check.Violations())
		miss(s.Control.Violations() > 0, "%d answers of the control that are never legal", s.Control.Violations())
	}
	miss(l.HitDrop > 0 && s.WorstDrop > l.HitDrop, "hit ratio %.2f points below the control, limit %.2f", s.WorstDrop, l.HitDrop)
	miss(l.OriginPeak > 0 && s.OriginPeak > l.OriginPeak, "origin load %.2f times the control's, limit %.2f", s.OriginPeak, l.OriginPeak)
	miss(l.P99Ratio > 0 && s.P99Ratio > l.P99Ratio, "p99 %.2f times the control's, limit %.2f", s.P99Ratio, l.P99Ratio)
	miss(l.SlotP99 > 0 && (s.NoAnswer > 0 || s.SlotP99 > ms(l.SlotP99)),
		"first success of a slot after %.0f ms (p99, %d without one), limit %v", s.SlotP99, s.NoAnswer, l.SlotP99)
	miss(l.Out > 0 && s.Took["out"].Max > l.Out.Seconds(), "a node was out after %.1f s, limit %v", s.Took["out"].Max, l.Out)
	miss(l.Heal > 0 && s.Took["heal"].Max > l.Heal.Seconds(), "all agreed %.1f s after the network was back, limit %v", s.Took["heal"].Max, l.Heal)
	miss(l.NoOverdue && s.Overdue > 0, "%d calls took longer than their deadline, the longest %.0f ms", s.Overdue, s.Longest)
}
