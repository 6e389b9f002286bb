package latency

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// maxSamples bounds the samples of one event, as in Redis: one a second.
const maxSamples = 160

// Sample is the slowest occurrence of an event in one second.
type Sample struct {
	At     int64 // unix time in seconds
	Millis int64
}

// Events keeps the latest samples of each kind of event that took at least a
// threshold. The zero value keeps none. Kinds are few and fixed by the caller.
type Events struct {
	threshold atomic.Int64 // ms; 0: nothing is kept

	mu    sync.Mutex
	kinds map[string]*samples
}

type samples struct {
	list []Sample // oldest first
	max  int64    // ms, ever since the last reset
}

// SetThreshold sets the least duration in ms that is kept; 0 keeps none.
func (e *Events) SetThreshold(ms int64) { e.threshold.Store(ms) }

// Threshold is the least duration in ms that is kept, 0 if none is.
func (e *Events) Threshold() int64 { return e.threshold.Load() }

// Add notes that an event of a kind took ms milliseconds at a unix time, if that
// reaches the threshold.
func (e *Events) Add(kind string, at, ms int64) {
	if t := e.threshold.Load(); t == 0 || ms < t {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.kinds == nil {
		e.kinds = map[string]*samples{}
	}
	s := e.kinds[kind]
	if s == nil {
		s = new(samples)
		e.kinds[kind] = s
	}
	s.max = max(s.max, ms)
	if n := len(s.list); n > 0 && s.list[n-1].At == at {
		s.list[n-1].Millis = max(s.list[n-1].Millis, ms)
		return
	}
	if len(s.list) == maxSamples {
		s.list = slices.Delete(s.list, 0, 1)
	}
	s.list = append(s.list, Sample{at, ms})
}

// History gives the samples of a kind, oldest first.
func (e *Events) History(kind string) []Sample {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.kinds[kind]; s != nil {
		return slices.Clone(s.list)
	}
	return nil
}

// Latest is the last sample of a kind with the greatest duration ever, in ms.
type Latest struct {
	Kind string
	Sample
	Max int64
}

// All gives every kind, sorted.
func (e *Events) All() (out []Latest) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for kind, s := range e.kinds {
		out = append(out, Latest{kind, s.list[len(s.list)-1], s.max})
	}
	slices.SortFunc(out, func(a, b Latest) int { return strings.Compare(a.Kind, b.Kind) })
	return out
}

// Reset forgets some kinds, or all if none is named, and counts them.
func (e *Events) Reset(kinds ...string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(kinds) == 0 {
		n = len(e.kinds)
		clear(e.kinds)
		return n
	}
	for _, k := range kinds {
		if _, ok := e.kinds[k]; ok {
			delete(e.kinds, k)
			n++
		}
	}
	return n
}

// Figures of the samples of a kind: how many, their mean and mean deviation in
// ms, the mean time between them in seconds, and the greatest ever.
type Figures struct {
	Kind                      string
	Count                     int
	Mean, Deviation, Greatest int64
	Period                    float64
}

// Figures gives those of every kind, sorted.
func (e *Events) Figures() (out []Figures) {
	for _, l := range e.All() {
		list := e.History(l.Kind)
		if len(list) == 0 {
			continue // reset meanwhile
		}
		f := Figures{Kind: l.Kind, Count: len(list), Greatest: l.Max}
		sum := int64(0)
		for _, s := range list {
			sum += s.Millis
		}
		f.Mean = sum / int64(len(list))
		off := 0.0
		for _, s := range list {
			off += math.Abs(float64(s.Millis - f.Mean))
		}
		f.Deviation = int64(off / float64(len(list)))
		f.Period = max(1, float64(list[len(list)-1].At-list[0].At)/float64(len(list)))
		out = append(out, f)
	}
	return out
}

// graphRows and graphColumns bound the picture of Graph.
const (
	graphRows    = 4
	graphColumns = 80
)

// Graph draws the samples of a kind as columns, the latest to the right, with
// the age of each under it. now is the unix time.
func (e *Events) Graph(kind string, now int64) string {
	list := e.History(kind)
	if len(list) == 0 {
		return ""
	}
	low, high := list[0].Millis, list[0].Millis
	for _, s := range list {
		low, high = min(low, s.Millis), max(high, s.Millis)
	}
	top := high
	for _, l := range e.All() {
		if l.Kind == kind {
			top = l.Max
		}
	}
	list = list[max(0, len(list)-graphColumns):]
	var b strings.Builder
	fmt.Fprintf(&b, "%s - high %d ms, low %d ms (all time high %d ms)\n%s\n", kind, high, low, top, strings.Repeat("-", graphColumns))
	marks := "_o#" // each row of a column is empty or one of them
	steps := graphRows * len(marks)
	heights := make([]int, len(list))
	for i, s := range list {
		if high > low {
			heights[i] = int((s.Millis - low) * int64(steps-1) / (high - low))
		}
	}
	for row := graphRows - 1; row >= 0; row-- {
		for _, h := range heights {
			switch in := h - row*len(marks); {
			case in < 0:
				b.WriteByte(' ')
			case in >= len(marks):
				b.WriteByte('|')
			default:
				b.WriteByte(marks[in])
			}
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	ages := make([]string, len(list))
	longest := 0
	for i, s := range list {
		ages[i] = age(now - s.At)
		longest = max(longest, len(ages[i]))
	}
	for row := range longest {
		for _, a := range ages {
			if row < len(a) {
				b.WriteByte(a[row])
			} else {
				b.WriteByte(' ')
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func age(seconds int64) string {
	for _, u := range []struct {
		size int64
		unit string
	}{{86400, "d"}, {3600, "h"}, {60, "m"}} {
		if seconds >= u.size {
			return fmt.Sprintf("%d%s", seconds/u.size, u.unit)
		}
	}
	return fmt.Sprintf("%ds", max(seconds, 0))
}
