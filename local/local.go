// Package local is ring-cache's engine by itself: a memory-bounded cache inside
// one process, without nodes, slots to route, listeners or a cluster. It owns no
// goroutine but the engine's own and imports nothing of the cluster.
//
// Bytes holds byte keys and byte values. Cache is the typed form of it: its keys
// and values are encoded on the way in and decoded on the way out.
//
// # Guarantees
//
//   - The memory limit holds whatever is written and by however many goroutines:
//     keys, values and the bookkeeping of every entry count. When it is reached,
//     the eviction policy chooses what leaves; a write fails for memory only if
//     the entry alone is above the limit or the policy is noeviction.
//   - What is read is a copy, appended to the caller's buffer, and what is
//     written is copied in: no byte is shared with the cache, and the garbage
//     collector never waits for a cached value to be let go.
//   - A write is visible to every read that begins after it has returned, and a
//     delete too: there are no buffers between a call and the cache.
//   - An entry with a TTL is never returned after its deadline, also when the
//     wall clock is set meanwhile. The resolution is one millisecond.
//   - Get into a buffer with room and Set allocate nothing in this package.
//   - All methods may be called by many goroutines at once, and after Close.
//
// # Limits
//
//   - A cache may forget: nothing that is stored is promised to stay.
//   - A key has at most 64 KiB, a value at most Options.MaxValue bytes.
//   - Values are bytes: a typed Cache pays for encoding and decoding, and hands
//     out a new value with every Get.
//   - One process; entries outlive it only in Options.File, after Close. For several processes use the module's root
//     package or the client.
//   - The clock stands still while the machine is suspended; TTLs then last
//     longer by that time.
package local

import (
	"errors"
	"fmt"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/errs"
)

// Errors, for errors.Is. They are the values of the module's root package.
var (
	// ErrTooLarge says that a key or a value is above its limit.
	ErrTooLarge = errs.ErrTooLarge
	// ErrNoMemory says that the entry alone is above the memory limit, or that
	// the limit is reached and the policy is noeviction.
	ErrNoMemory = errs.ErrNoMemory
	// ErrClosed says that the cache was closed.
	ErrClosed = errs.ErrClosed
	// ErrConfig says that options are invalid.
	ErrConfig = errs.ErrConfig
)

// Defaults of Options.
const (
	DefaultMaxMemory = 256 << 20 // bytes
	DefaultMaxValue  = engine.DefaultMaxValue
	DefaultPolicy    = engine.DefaultPolicy
)

// Options configure a cache. The zero value is the documented default. They are
// copied; nothing changes them.
type Options struct {
	// MaxMemory bounds keys, values and their overhead, in bytes; default 256
	// MiB, at most 1 TiB. When it is full the policy evicts.
	MaxMemory int64
	// MaxValue bounds one value, in bytes; default 256 KiB.
	MaxValue int
	// Policy is the eviction policy, one of Policies(), or "custom" for
	// Eviction, which is the default where that is given; else DefaultPolicy.
	Policy string
	// Classes of keys by prefix, for the policy "priority". At most MaxClasses,
	// that of the keys of no other class included.
	Classes []Class
	// Eviction is an eviction policy of the program, in place of Classes. Its
	// methods are called under locks of the cache. In a typed Cache keys are
	// what the codec makes of them.
	Eviction EvictionPolicy
	// Seed of the hash and of sampling; 0 means random, so that whoever chooses
	// the keys cannot choose ones that collide. Give another only to repeat an
	// experiment.
	Seed uint64
	// Now is the clock, in milliseconds; it must never go back and must not
	// block. Default: the wall clock at the start plus the time since then.
	Now func() int64
	// File keeps the entries over a restart: Close leaves them there, and the
	// next New with the same file and a like MaxMemory takes them over, with
	// their deadlines; see Bytes.TakenOver. In a file system that lives in memory,
	// such as /dev/shm, the file is the cache's memory itself, and takes
	// MaxMemory from the start. Elsewhere Close writes it and New reads it. After
	// a crash the cache starts empty. One cache at a time uses a file; for a
	// second New reports ErrConfig. Default: no file.
	File string
}

// Eviction by classes, and by a policy of the program.
type (
	// Class is a group of keys by prefix, with a rank and a quota.
	Class = engine.Class
	// ClassStats are the figures of a class.
	ClassStats = engine.ClassStats
	// EvictionPolicy decides what leaves when memory is needed.
	EvictionPolicy = engine.Custom
	// EvictionWrite is an entry on its way in, as an EvictionPolicy sees it.
	EvictionWrite = engine.Write
	// EvictionSegment is a run of entries of one class.
	EvictionSegment = engine.Segment
	// EvictionRecord is an entry of a segment that is being emptied.
	EvictionRecord = engine.Record
	// Verdict is what becomes of such an entry.
	Verdict = engine.Verdict
)

// What an EvictionPolicy may say, and the limit of its classes.
const (
	Drop       = engine.Drop
	Keep       = engine.Keep
	Demote     = engine.Demote
	MaxClasses = engine.MaxClasses
)

// Policies lists the eviction policies that Options.Policy takes.
func Policies() []string { return engine.Policies() }

// Bytes is a memory-bounded cache of byte keys and byte values. Its methods may
// be called by many goroutines at once.
type Bytes struct {
	e *engine.Engine
}

// New returns a cache, empty but for what it finds in Options.File. It must be
// closed, which ends the goroutine that removes expired entries. Invalid options are reported all at once, as
// ErrConfig.
func New(o Options) (*Bytes, error) {
	if o.MaxMemory == 0 {
		o.MaxMemory = DefaultMaxMemory
	}
	if o.Now == nil {
		o.Now = startClock()
	}
	e, err := engine.New(engine.Options{
		MaxBytes: o.MaxMemory, MaxValue: o.MaxValue, Policy: o.Policy, Classes: o.Classes, Custom: o.Eviction, Seed: o.Seed, Now: o.Now, File: o.File,
	})
	if err != nil {
		return nil, fmt.Errorf("local: %w", err)
	}
	for slot := range engine.Slots {
		e.SetServing(uint16(slot), true)
	}
	return &Bytes{e: e}, nil
}

// startClock returns a clock that no step of the wall clock changes.
func startClock() func() int64 {
	start := time.Now()
	base := start.UnixNano()
	return func() int64 { return (base + int64(time.Since(start))) / int64(time.Millisecond) }
}

// Get appends the value of key to dst and returns it; ok says whether key is
// there. It makes key the most recently used and allocates nothing when dst has
// room. After Close nothing is there.
func (c *Bytes) Get(dst, key []byte) (value []byte, ok bool) {
	value, _, err := c.e.GetKey(key, dst)
	return value, err == nil
}

// Set stores a copy of value under key. ttl is how long it may be returned: 0
// means without end, and a part of a millisecond counts as a whole one. With a
// negative ttl Set removes the key, as Delete does.
//
// Errors: ErrTooLarge, ErrNoMemory, ErrClosed; the old value, if any, stays.
func (c *Bytes) Set(key, value []byte, ttl time.Duration) error {
	if ttl < 0 {
		_, err := c.e.DeleteKey(key)
		return err
	}
	return c.e.SetKey(key, value, milliseconds(ttl))
}

// Delete removes key and says whether it was there.
func (c *Bytes) Delete(key []byte) bool {
	ok, err := c.e.DeleteKey(key)
	return ok && err == nil
}

// Touch makes key the most recently used, gives it a new TTL as Set does, and
// says whether it was there.
func (c *Bytes) Touch(key []byte, ttl time.Duration) bool {
	t, err := c.e.LockKey(key)
	if err != nil {
		return false
	}
	defer t.Unlock()
	if ttl < 0 {
		return t.Delete(key)
	}
	deadline := milliseconds(ttl)
	if ttl > 0 {
		deadline += t.Now()
	}
	return t.SetDeadline(key, deadline) && t.Touch(key)
}

// milliseconds rounds a TTL, which is not negative, up.
func milliseconds(ttl time.Duration) int64 {
	if ttl == 0 {
		return 0
	}
	return int64((ttl-1)/time.Millisecond + 1) // cannot overflow, unlike ttl + 1 ms - 1
}

// Clear removes everything.
func (c *Bytes) Clear() { c.e.Flush() }

// Len returns the number of entries, expired ones that were not met yet
// included. It looks at every shard, so it is not meant for hot paths.
func (c *Bytes) Len() int { return int(c.e.Stats().Keys) }

// SetMaxMemory changes the memory limit. When less is allowed than is used, it
// returns after as much was evicted; under noeviction nothing leaves, and
// writes fail instead. n must be above 0, and at most twice MaxMemory or 16 GiB,
// whichever is more; 2 GiB where MaxMemory is below 128 KiB. Errors: ErrConfig, ErrClosed.
func (c *Bytes) SetMaxMemory(n int64) error {
	if n <= 0 {
		return fmt.Errorf("local: %w: the memory limit is %d, must be above 0", ErrConfig, n)
	}
	if err := c.e.SetMaxBytes(n); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	return nil
}

// TakenOver says how many entries New took over from Options.File, and if it took
// none although an earlier process left some, why.
func (c *Bytes) TakenOver() (entries int64, whyNone string) {
	a := c.e.Attachment()
	if a.Fresh {
		return 0, ""
	}
	return a.Entries, a.Empty
}

// Close frees all entries, or leaves them in Options.File, and returns after the cache's goroutine has ended.
// Reads find nothing afterwards, and writes report ErrClosed. Further calls wait for
// the end of the first one.
func (c *Bytes) Close() error {
	if err := c.e.Close(); err != nil && !errors.Is(err, ErrClosed) {
		return fmt.Errorf("local: %w", err)
	}
	return nil
}
