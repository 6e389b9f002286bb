package acl

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of the log.
const (
	MaxLog    = 128 // entries
	maxObject = 1024
	// Refusals of the same kind within this time are one entry; only so many of
	// the latest entries are looked at.
	sameWithin = time.Minute
	sameAmong  = 10
)

// Entry is one kind of refusal.
type Entry struct {
	Count   int
	Reason  Reason
	Context string // "toplevel", "multi" or "lua"
	Object  string // command, key or channel; at most 1 KiB
	User    string
	Latest  time.Time
	Client  string // the line of CLIENT LIST of the latest one
}

// String is the reason as ACL LOG tells it.
func (r Reason) String() string {
	return [...]string{"", "command", "key", "auth", "channel"}[r]
}

// log keeps the latest refusals.
type log struct {
	denied [DeniedChannel + 1]atomic.Uint64

	mu   sync.Mutex
	list []Entry // the latest first, at most MaxLog; the oldest gives way
}

func (l *log) add(now time.Time, e Entry) {
	l.denied[e.Reason].Add(1)
	e.Count, e.Latest = 1, now
	e.Object = strings.Clone(e.Object[:min(len(e.Object), maxObject)])
	e.User = strings.Clone(e.User[:min(len(e.User), maxObject)])
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range min(len(l.list), sameAmong) {
		was := &l.list[i]
		if was.Reason == e.Reason && was.Context == e.Context && was.Object == e.Object && was.User == e.User && now.Sub(was.Latest) <= sameWithin {
			e.Count += was.Count
			l.list = slices.Delete(l.list, i, i+1)
			break
		}
	}
	if len(l.list) == MaxLog {
		l.list = l.list[:MaxLog-1]
	}
	l.list = slices.Insert(l.list, 0, e)
}

func (l *log) entries() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

func (l *log) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = nil
}
