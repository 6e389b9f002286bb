package register

import (
	"slices"
	"sync"
	"time"
)

// maxDoubt bounds the remembered writes of unknown fate of one key; when there
// are more, everything up to the latest of the forgotten ones stays legal.
const maxDoubt = 64

// register is what is known about one key.
type register struct {
	mu      sync.Mutex
	busy    bool          // a write is under way
	deleted bool          // the latest acknowledged operation was a delete
	issued  uint32        // version of the latest operation that began
	acked   uint32        // version of the latest acknowledged operation
	ackedAt time.Duration // when it was acknowledged
	doubt   *doubt        // nil while the fate of every write is known
}

// doubt holds the versions whose fate is unknown.
type doubt struct {
	all      uint32 // every version up to this one
	versions []uint32
}

func (d *doubt) has(version uint32) bool {
	return d != nil && (version <= d.all || slices.Contains(d.versions, version))
}

func (r *register) doubts(version uint32) {
	if r.doubt == nil {
		r.doubt = &doubt{}
	}
	if len(r.doubt.versions) == maxDoubt {
		r.doubt.all = r.doubt.versions[0] // they ascend
		r.doubt.versions = slices.Delete(r.doubt.versions, 0, 1)
	}
	r.doubt.versions = append(r.doubt.versions, version)
}

// Write is one operation under way.
type Write struct {
	Key     int
	Version uint32
	del     bool
}

// Mark is what was known about a key when a read of it began.
type Mark struct {
	key     int
	least   uint32 // the smallest version that may be returned
	acked   uint32
	deleted bool
	began   time.Duration
	ackedAt time.Duration
}

func (r *register) begin() (version uint32, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy {
		return 0, false
	}
	r.busy = true
	r.issued++
	return r.issued, true
}

func (r *register) end(w Write, acknowledged bool, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	switch {
	case acknowledged:
		r.acked, r.deleted, r.ackedAt = w.Version, w.del, now
	case !w.del: // a late delete only makes the key absent
		r.doubts(w.Version)
	}
}

func (r *register) mark(key int, now time.Duration) Mark {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := Mark{key: key, least: r.acked, acked: r.acked, deleted: r.deleted, began: now, ackedAt: r.ackedAt}
	if r.deleted {
		m.least++
	}
	return m
}
