package latency

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// What a log keeps of one command at most, as Redis does.
const (
	maxArgs  = 32
	maxBytes = 128
)

// Entry is a command that stood out.
type Entry struct {
	ID     int64 // 0, 1, 2 ... since the start
	At     time.Time
	Value  int64 // microseconds or bytes
	Args   []string
	Client string // its address
	Name   string // what it calls itself
}

// Log keeps the latest commands whose value reached a threshold. The zero value
// keeps none.
type Log struct {
	// threshold is the least value that is kept; -1: none is.
	threshold atomic.Int64

	mu   sync.Mutex
	next int64
	most int
	ring []Entry // oldest first from head
	head int
}

// SetThreshold sets the least value that is kept, -1 for none.
func (l *Log) SetThreshold(v int64) { l.threshold.Store(v) }

// Threshold is the least value that is kept.
func (l *Log) Threshold() int64 { return l.threshold.Load() }

// Wants tells whether a value is kept.
func (l *Log) Wants(v int64) bool {
	t := l.threshold.Load()
	return t >= 0 && v >= t
}

// SetMax bounds the entries. Those beyond are forgotten, the oldest first.
func (l *Log) SetMax(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all()
	if len(all) > n {
		all = all[len(all)-n:]
	}
	l.ring, l.head, l.most = append([]Entry(nil), all...), 0, n
}

// Max is the bound of the entries.
func (l *Log) Max() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.most
}

// all gives the entries, oldest first. l.mu is held.
func (l *Log) all() []Entry {
	return append(append([]Entry(nil), l.ring[l.head:]...), l.ring[:l.head]...)
}

// Add keeps an entry; its ID is filled in. Args should come from Trim.
func (l *Log) Add(e Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.ID = l.next
	l.next++
	switch {
	case l.most == 0:
	case len(l.ring) < l.most:
		l.ring = append(l.ring, e)
	default:
		l.ring[l.head] = e
		l.head = (l.head + 1) % l.most
	}
}

// Latest gives up to n entries, the latest first; n below 0 asks for all.
func (l *Log) Latest(n int) []Entry {
	l.mu.Lock()
	all := l.all()
	l.mu.Unlock()
	if n < 0 || n > len(all) {
		n = len(all)
	}
	out := make([]Entry, 0, n)
	for i := range n {
		out = append(out, all[len(all)-1-i])
	}
	return out
}

// Len counts the entries.
func (l *Log) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ring)
}

// Reset forgets the entries; IDs go on.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring, l.head = nil, 0
}

// Trim copies the arguments of a command as a log keeps them: 32 of up to 128
// bytes, and how much there was beyond. hidden tells which to replace.
func Trim(args [][]byte, hidden func(i int) bool) []string {
	out := make([]string, 0, min(len(args), maxArgs))
	for i, a := range args {
		switch {
		case i == maxArgs-1 && len(args) > maxArgs:
			return append(out, "... ("+strconv.Itoa(len(args)-maxArgs+1)+" more arguments)")
		case hidden != nil && hidden(i):
			out = append(out, "(redacted)")
		case len(a) > maxBytes:
			out = append(out, string(a[:maxBytes])+"... ("+strconv.Itoa(len(a)-maxBytes)+" more bytes)")
		default:
			out = append(out, string(a))
		}
	}
	return out
}
