// Package engine owns the entries of one node in memory: keys and values as
// bytes, their deadlines, recency, the memory limit, and what the rooms above
// need to know about a slot (serving bit, counts, change feed, pull window).
// It never knows networks, topology, RESP or how a key maps to a slot: the
// caller passes the slot with every key. It never aliases the caller's bytes:
// values are copied in and appended or lent out.
//
// Concurrency: slots are spread over shards, each with one lock; Get does without
// it where nobody changes what it reads (glance.go). A caller
// holds at most one shard (one Txn) at a time, and every method of Engine locks
// by itself, so none may be called while a Txn is held. Callbacks run without
// any lock. The engine itself locks a second shard only with TryLock (see
// DESIGN.md), so no order of calls can deadlock.
package engine

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/errs"
)

const (
	// Slots is the number of hash slots.
	Slots = 16384
	// AllSlots in an Event means every slot of the feed's shard.
	AllSlots = 0xFFFF
)

// Defaults of Options.
const (
	DefaultMaxValue = 256 << 10
	DefaultMaxKey   = 64 << 10
	DefaultShards   = 256
	DefaultFeedSize = 4096
	DefaultPolicy   = "s3fifo"
)

// A shard is a cache of its own but for the choice of a victim: the less memory
// it has, the fewer large records it can tell apart. So the default number of
// shards leaves each shardBytes; but writers of one shard wait for each other, so
// there are some for each processor as long as that leaves shardLeast.
const (
	shardBytes         = 16 << 20
	shardBytesInFile   = 4 << 20 // a file is read with the number of shards it was written with
	shardLeast         = 1 << 20
	shardsPerProcessor = 8
)

// MaxBytesLimit is the largest limit of memory that may be configured, 1 TiB: the arena
// then reaches 2 TiB, which is as many blocks as a cell of the index can number.
const MaxBytesLimit = 1 << 40

// maxValueLimit is the largest MaxValue that may be configured: Redis's own
// limit of a string.
const maxValueLimit = 512 << 20

// Options configures an Engine. They are copied by New. The zero value of every
// field but Now is the documented default.
type Options struct {
	MaxBytes     int64        // memory limit over everything the entries take, up to 1 TiB; 0 = none (16 GiB)
	MaxValue     int          // bytes of a value; 0 = DefaultMaxValue
	MaxKey       int          // bytes of a key; 0 = DefaultMaxKey
	Shards       int          // lock shards, a power of two up to Slots; 0 = DefaultShards, fewer for a limit below 4 GiB (1 GiB with File), by memory and processors
	Policy       string       // one of Policies; "" = DefaultPolicy
	Now          func() int64 // milliseconds; required; called under shard locks, so it must not block
	FeedSize     int          // events that a Feed keeps when Subscribe is given 0; 0 = DefaultFeedSize
	Seed         uint64       // of the hash and of sampling; 0 = random
	Classes      []Class      // for the policy priority, see Class; at most MaxClasses, that of all other keys included
	Custom       Custom       // a policy of the program, named PolicyCustom and the default when given; excludes Classes
	NoBackground bool         // no goroutines: the caller calls Sweep, and only writers evict
	File         string       // keeps the entries over a clean Close for the next New (Attachment says what it found); "" = nowhere; needs MaxBytes
}

// Engine is a memory-bounded cache of bytes, split into 16384 slots.
type Engine struct {
	now      func() int64
	hash     hasher
	arena    arena
	shards   []shard
	mask     uint16 // shard of a slot = slot & mask
	bits     uint8  // place in the shard = slot >> bits
	maxValue int
	maxKey   int
	feedSize int

	used      atomic.Int64  // bytes of blocks taken, including reservations under way; never above ceiling
	births    atomic.Uint64 // segments begun
	flushes   atomic.Uint64 // calls of Flush
	_         [120]byte     // writers change used all the time; what follows is read with every hold
	reads     stripes       // what reads without a lock found
	glancing  bool          // reads need no lock: the memory of the arena is never taken away
	paced     bool          // a sweeper renews lately and beat
	lately    atomic.Int64  // recent time in ms
	beat      atomic.Uint32 // the same, as tickOf gives it
	ceiling   atomic.Int64  // what writers hold to: the limit, or above it while SetMaxBytes steps down
	limit     atomic.Int64  // configured limit, unlimited if none
	outside   atomic.Int64  // bytes of the process beside the engine that count against the limit
	debt      atomic.Int64  // bytes that waiting writers need from shards held by others
	windows   atomic.Int64  // bytes of the filters of pull windows
	stocked   atomic.Int32  // shards whose spare slots may have entries
	windowGen atomic.Uint64 // number of the last pull window
	policy    atomic.Pointer[policy]
	observer  atomic.Pointer[Observer] // nil: nobody wants to know
	picks     atomic.Uint64            // state of sampling outside any shard lock

	tally   tally
	classes *classTable // nil = all entries are of class 0

	limitMu sync.Mutex // serialises changes of limit and policy; never taken under a shard lock

	seed  uint64 // of the hash
	file  *arenaFile
	found Attachment

	scratch sync.Pool // *batch
	closed  atomic.Bool
	stop    chan struct{} // closed by Close
	ended   chan struct{} // closed at its end
	swept   chan struct{} // closed when the sweep goroutine has ended
	cleaned chan struct{} // closed when the cleaner has ended
	jobs    chan *shard   // that took memory, for the cleaner; nil without background
	wake    chan struct{} // holds one: the cleaner should look at the jobs
	pressed atomic.Bool   // a writer met the limit
	met     atomic.Int32  // expired entries that reads removed since the last sweep

	clearing sync.Mutex // held by Flush, and by Close: what is detached belongs to no shard
}

// New returns an engine whose slots are all not served, empty but for what it
// finds in Options.File. It starts the sweep and the cleaner unless NoBackground
// is set. Invalid options are reported
// all at once, as errs.ErrConfig.
func New(o Options) (*Engine, error) {
	setDefaults(&o)
	if err := validate(&o); err != nil {
		return nil, fmt.Errorf("engine: %w: %w", errs.ErrConfig, err)
	}
	if o.Seed == 0 {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
		o.Seed = binary.LittleEndian.Uint64(b[:])
	}
	e := &Engine{
		now: o.Now, hash: newHasher(o.Seed),
		shards: make([]shard, o.Shards), mask: uint16(o.Shards - 1), bits: uint8(bits.TrailingZeros(uint(o.Shards))),
		classes: newClasses(&o), maxValue: o.MaxValue, maxKey: o.MaxKey, feedSize: o.FeedSize,
		stop: make(chan struct{}), ended: make(chan struct{}), swept: make(chan struct{}), cleaned: make(chan struct{}),
		seed: o.Seed,
	}
	e.scratch.New = func() any { return new(batch) }
	if err := e.openFile(o.File); err != nil {
		return nil, err
	}
	e.reads, e.glancing = newStripes(), e.file == nil || !e.file.live
	limit := limitOf(o.MaxBytes)
	if err := e.arena.init(limit, o.Shards); err != nil {
		return nil, errors.Join(fmt.Errorf("engine: %w", err), e.closeFile())
	}
	e.limit.Store(limit)
	e.ceiling.Store(min(limit, e.arena.reach()))
	e.arena.bound(e.ceiling.Load())
	e.policy.Store(policyNamed(o.Policy))
	e.picks.Store(o.Seed)
	e.tally.best = shareAtFirst
	for i := range e.shards {
		e.shards[i].init(e, i, o.Seed)
	}
	if err := e.attach(); err != nil {
		return nil, errors.Join(err, e.closeArena(), e.closeFile())
	}
	if o.NoBackground {
		close(e.swept)
		close(e.cleaned)
	} else {
		e.paced = true
		e.pace()
		e.jobs, e.wake = make(chan *shard, aheadJobs), make(chan struct{}, 1)
		go e.sweeper() // ends at Close
		go e.cleaner() // ends at Close
	}
	return e, nil
}

func setDefaults(o *Options) {
	if o.MaxValue == 0 {
		o.MaxValue = DefaultMaxValue
	}
	if o.MaxKey == 0 {
		o.MaxKey = DefaultMaxKey
	}
	if o.Shards == 0 {
		o.Shards = defaultShards(o.MaxBytes, o.File != "", runtime.GOMAXPROCS(0))
	}
	if o.FeedSize == 0 {
		o.FeedSize = DefaultFeedSize
	}
	if o.Policy == "" {
		o.Policy = DefaultPolicy
		if o.Custom != nil {
			o.Policy = PolicyCustom
		}
	}
}

// defaultShards follows from the memory and the processors; for an arena in a file
// from the memory alone, since another number of shards cannot read it.
func defaultShards(maxBytes int64, file bool, processors int) int {
	n := DefaultShards
	if maxBytes == 0 {
		return n
	}
	each := int64(shardBytes)
	if file {
		each = shardBytesInFile
	}
	for n > 1 && int64(n)*each > maxBytes {
		n /= 2
	}
	for !file && n < min(DefaultShards, shardsPerProcessor*processors) && int64(2*n)*shardLeast <= maxBytes {
		n *= 2
	}
	return n
}

func validate(o *Options) error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(o.Now == nil, "Now is required")
	fault(o.MaxBytes < 0 || o.MaxBytes > MaxBytesLimit, "MaxBytes is %d, must be 0 to %d", o.MaxBytes, int64(MaxBytesLimit))
	fault(o.MaxValue < 0 || o.MaxValue > maxValueLimit, "MaxValue is %d, must be 1 to %d", o.MaxValue, maxValueLimit)
	fault(o.MaxKey < 0 || o.MaxKey > maxKeyLimit, "MaxKey is %d, must be 1 to %d", o.MaxKey, maxKeyLimit)
	fault(o.Shards < 0 || o.Shards > Slots || o.Shards&(o.Shards-1) != 0, "Shards is %d, must be a power of two up to %d", o.Shards, Slots)
	fault(o.FeedSize < 0 || o.FeedSize > MaxFeedSize, "FeedSize is %d, must be 1 to %d", o.FeedSize, MaxFeedSize)
	fault(o.File != "" && o.MaxBytes == 0, "File is given, but no MaxBytes to bound it")
	fault(policyNamed(o.Policy) == nil, "Policy is %q, must be one of %q", o.Policy, Policies())
	fault(o.Policy == PolicyCustom && o.Custom == nil, "Policy is %q, but Custom is not set", o.Policy)
	fault(o.Custom != nil && len(o.Classes) > 0, "Classes and Custom are both set; a custom policy makes its own classes")
	if err := checkClasses(o.Classes); err != nil {
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// Get appends the value of key to dst and returns it with the key's deadline
// (absolute ms, 0 = none). It counts a hit or a miss and makes the key the most
// recent of its shard. Errors: errs.ErrNotFound, errs.ErrNotServing and
// errs.ErrClosed, unwrapped, with dst as it was. It allocates nothing when dst
// has room.
func (e *Engine) Get(slot uint16, key, dst []byte) (val []byte, deadline int64, err error) {
	return e.get(slot&(Slots-1), e.hash.sum(key), key, dst)
}

func (e *Engine) get(slot uint16, h uint64, key, dst []byte) (val []byte, deadline int64, err error) {
	s := &e.shards[slot&e.mask]
	if unlocked && e.glancing {
		for range glances {
			val, deadline, saw := e.glance(s, slot, h, key, dst)
			switch saw {
			case sawValue:
				e.reads.mine().hits.Add(1)
				return val, deadline, nil
			case sawNothing:
				e.reads.mine().misses.Add(1)
				return dst, 0, errs.ErrNotFound
			case sawRefusal:
				return dst, 0, e.refusal()
			case sawOther:
				return e.getHeld(s, slot, h, key, dst)
			}
			s.mu.spin()
		}
	}
	return e.getHeld(s, slot, h, key, dst)
}

// getHeld is get under the lock.
func (e *Engine) getHeld(s *shard, slot uint16, h uint64, key, dst []byte) (val []byte, deadline int64, err error) {
	s.mu.Lock()
	if !s.served(e.place(slot)) {
		s.unlock()
		return dst, 0, e.refusal()
	}
	l, r := s.find(slot, h, key)
	if l != 0 && r.form() != formNone && expired(s.deadline(r), e.now()) {
		if !e.leaves() {
			e.met.Add(1)
			s.remove(s.slot(slot), slot, h, l, byExpiry)
		}
		l = 0
	}
	if uint32(h)&s.shadowMask == 0 {
		s.sample(h, true)
	}
	if l == 0 {
		s.missed(slot, h)
		s.misses++
		s.unlock()
		return dst, 0, errs.ErrNotFound
	}
	s.hits++
	r.hit(e.tick())
	if r.large() {
		dst = e.arena.appendChain(dst, r.chain(), r.klen(), r.vlen())
	} else {
		dst = append(dst, view(r.p, r.body()+len(key), int(r.lo&vlenMask))...)
	}
	if r.form() != formNone {
		deadline = s.deadline(r)
	}
	s.unlock()
	return dst, deadline, nil
}

// Set stores value under key until deadline (absolute ms, 0 = none), as
// Txn.Set does, under a hold of its own.
func (e *Engine) Set(slot uint16, key, value []byte, deadline int64) error {
	h, err := e.admit(key, value)
	if err != nil {
		return err
	}
	return e.set(slot&(Slots-1), h, key, value, deadline, unread)
}

func (e *Engine) set(slot uint16, h uint64, key, value []byte, deadline, now int64) error {
	s := &e.shards[slot&e.mask]
	s.mu.Lock()
	if !s.served(e.place(slot)) {
		s.unlock()
		return e.refusal()
	}
	err := s.put(slot, h, key, value, deadline, now)
	s.unlock()
	return err
}

// Delete removes key and says whether it was there.
func (e *Engine) Delete(slot uint16, key []byte) (bool, error) {
	t, err := e.Lock(slot)
	if err != nil {
		return false, err
	}
	found := t.Delete(key)
	t.Unlock()
	return found, nil
}

// Lock holds the shard of slot until Txn.Unlock. It reports errs.ErrNotServing
// when the slot's serving bit is off, errs.ErrClosed after Close. The Txn
// belongs to the shard: nothing is allocated, and it is invalid after Unlock.
func (e *Engine) Lock(slot uint16) (*Txn, error) {
	s, st := e.at(slot)
	s.mu.Lock()
	if !s.served(e.place(slot)) {
		s.unlock()
		return nil, e.refusal()
	}
	return s.begin(slot, st), nil
}

// TryLock is Lock for a caller that must not wait long: if somebody holds the
// shard of the slot it reports busy, and nothing is held.
func (e *Engine) TryLock(slot uint16) (tx *Txn, busy bool, err error) {
	s, st := e.at(slot)
	if !s.mu.TryLock() {
		return nil, true, nil
	}
	if !s.served(e.place(slot)) {
		s.unlock()
		return nil, false, e.refusal()
	}
	return s.begin(slot, st), false, nil
}

// LockAny is Lock regardless of the serving bit: for handoff, which reads and
// fills slots that are not served.
func (e *Engine) LockAny(slot uint16) *Txn {
	s, st := e.at(slot)
	s.mu.Lock()
	return s.begin(slot, st)
}

func (e *Engine) refusal() error {
	if e.closed.Load() {
		return errs.ErrClosed
	}
	return errs.ErrNotServing
}

// SetServing flips the serving bit of slot under its shard lock: when it
// returns, no request that saw the old bit is still executing. All bits are off
// at the start, and stay off after Close.
func (e *Engine) SetServing(slot uint16, on bool) {
	s, _ := e.at(slot)
	s.mu.Lock()
	if on {
		s.setSpare(slot&(Slots-1), &s.slots[e.place(slot)], false)
	}
	s.mark(e.place(slot), cellServing, on && !e.closed.Load())
	if !on && s.watched != nil {
		s.noteLoss(slot & (Slots - 1))
	}
	if o := e.observer.Load(); o != nil && !on {
		(*o).Lost(s.id, slot&(Slots-1))
	}
	s.unlock()
}

// Serving returns the serving bit of slot without locking: a hint, since only
// Lock can act on it.
func (e *Engine) Serving(slot uint16) bool {
	s, _ := e.at(slot)
	return s.served(e.place(slot))
}

// Now returns the engine's clock in milliseconds.
func (e *Engine) Now() int64 { return e.now() }

// MaxValue returns the limit of a value in bytes.
func (e *Engine) MaxValue() int { return e.maxValue }

// MaxKey returns the limit of a key in bytes.
func (e *Engine) MaxKey() int { return e.maxKey }

// Shards returns the number of lock shards.
func (e *Engine) Shards() int { return len(e.shards) }

// ShardOf returns the lock shard of slot, for Subscribe.
func (e *Engine) ShardOf(slot uint16) int { return int(slot & e.mask) }

func (e *Engine) at(slot uint16) (*shard, *slotState) {
	slot &= Slots - 1
	s := &e.shards[slot&e.mask]
	return s, &s.slots[slot>>e.bits]
}

// place returns the number of a slot in its shard.
func (e *Engine) place(slot uint16) int { return int(slot & (Slots - 1) >> e.bits) }

// pick returns a random number below n, for use outside any shard lock.
func (e *Engine) pick(n int) int {
	r := rng{e.picks.Add(0x9e3779b97f4a7c15)}
	return r.below(n)
}
