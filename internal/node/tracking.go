package node

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/exec"
)

const (
	// DefaultTrackingKeys is how many keys are remembered for clients that track
	// what they read.
	DefaultTrackingKeys = 1_000_000
	// maxTrackedBytes bounds what the table of those keys takes, whatever the
	// number: its keys, and about trackedKeyCost and trackedItemCost for each key
	// and each client that read it.
	maxTrackedBytes = 128 << 20
	trackedKeyCost  = 96
	trackedItemCost = 16
	// trackingEffort is how many keys one read drops at most while there are too
	// many, and trimStep how many are dropped in one hold after the limit was
	// lowered.
	trackingEffort = 16
	trimStep       = 64
)

// tracking tells clients which of the keys that they read, or of those with their
// prefixes, have changed. It is the engine's Observer: a key is noted under the
// hold of the read, and looked up under the hold of the change, so no change falls
// between the two; the session sends a message behind the reply that it is making.
type tracking struct {
	eng     *engine.Engine
	marked  atomic.Int32 // sessions that a command has to be told of: see Mark
	clients atomic.Int32
	maxKeys atomic.Int64

	keys, items, bytes atomic.Int64 // of all tables
	tables             []trackTable // one per shard of the engine

	prefixes atomic.Pointer[prefixTable] // replaced under mu; nil: none

	mu   sync.RWMutex
	byID map[uint64]follower // who tracks; guarded by mu, which is taken under shard locks
}

// trackTable has the keys of one shard of the engine that clients have read, by
// slot, with the sorted IDs of the sessions. IDs stay when a session ends, until
// the key changes. The lock of the shard guards it.
type trackTable struct {
	slots map[uint16]map[string][]uint64
}

// follower is a session that tracks.
type follower struct {
	s         Session
	broadcast bool
	prefixes  []string
}

// prefixTable says who wants to hear of all keys with a prefix. It is never
// changed.
type prefixTable struct {
	lengths  []int
	sessions map[string][]Session
}

func newTracking(eng *engine.Engine, maxKeys int) *tracking {
	t := &tracking{eng: eng, tables: make([]trackTable, eng.Shards()), byID: map[uint64]follower{}}
	if maxKeys == 0 {
		maxKeys = DefaultTrackingKeys
	}
	t.maxKeys.Store(int64(max(maxKeys, 0)))
	return t
}

// Mark tells that a session needs, or no longer needs, that its commands are told
// of: it tracks, or leaves the recency of keys alone.
func (n *Node) Mark(_ Session, on bool) {
	if on {
		n.track.marked.Add(1)
	} else {
		n.track.marked.Add(-1)
	}
}

// Track tells that a session tracks: the keys that it reads, or with broadcast
// all keys that have one of the prefixes.
func (n *Node) Track(s Session, broadcast bool, prefixes []string) {
	t := n.track
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.byID[s.ID()]; !known && t.clients.Add(1) == 1 {
		t.eng.Observe(t)
	}
	t.byID[s.ID()] = follower{s, broadcast, prefixes}
	if broadcast {
		t.indexPrefixes()
	}
}

// Untrack ends Track.
func (n *Node) Untrack(s Session) {
	t := n.track
	t.mu.Lock()
	defer t.mu.Unlock()
	f, known := t.byID[s.ID()]
	if !known {
		return
	}
	delete(t.byID, s.ID())
	t.clients.Add(-1)
	if f.broadcast {
		t.indexPrefixes()
	}
}

// indexPrefixes makes the table of prefixes anew. t.mu is held.
func (t *tracking) indexPrefixes() {
	p := &prefixTable{sessions: map[string][]Session{}}
	lengths := map[int]struct{}{}
	for _, f := range t.byID {
		for _, prefix := range f.prefixes {
			if f.broadcast {
				p.sessions[prefix] = append(p.sessions[prefix], f.s)
				lengths[len(prefix)] = struct{}{}
			}
		}
	}
	if len(lengths) == 0 {
		t.prefixes.Store(nil)
		return
	}
	p.lengths = slices.Sorted(maps.Keys(lengths))
	t.prefixes.Store(p)
}

// attend is called under the hold of a command of a session that is marked.
func (n *Node) attend(s Session, c *exec.Call) {
	c.Tx.By(s.ID())
	if s.NoTouch() {
		c.Tx.LeaveRecency()
	}
	switch {
	case !s.Tracks():
	case exec.IsEval(c.Cmd.ID):
		// What the script reads, and as in Redis all keys that it was given once
		// it reads any.
		eval, given, slot := c.Cmd, c.Args, c.Slot
		c.Read = func(cmd *command.Command, args [][]byte) {
			if cmd.Flags.Has(command.ReadOnly) {
				n.track.note(s, cmd, args, slot)
				n.track.note(s, eval, given, slot)
			}
		}
	case c.Cmd.Flags.Has(command.ReadOnly):
		n.track.note(s, c.Cmd, c.Args, c.Slot)
	}
}

// note remembers the keys of a command that reads. Their slot is held.
func (t *tracking) note(s Session, cmd *command.Command, args [][]byte, slot uint16) {
	var room [32]int
	id, shard := s.ID(), t.eng.ShardOf(slot)
	for _, k := range cmd.AppendKeys(room[:0], args) {
		t.remember(shard, slot, args[k], id)
	}
}

// disown tells a session at once that the keys which a command has read are not
// to be kept: they were read at another node, where nobody will tell of changes.
func (n *Node) disown(s Session, cmd *command.Command, args [][]byte) {
	if s == nil || n.track.marked.Load() == 0 || !s.Tracks() || !cmd.Flags.Has(command.ReadOnly) && !exec.IsEval(cmd.ID) {
		return
	}
	for _, k := range cmd.AppendKeys(nil, args) {
		s.Invalidate(args[k], false)
	}
}

// remember notes that a session read a key of the slot that is held.
func (t *tracking) remember(shard int, slot uint16, key []byte, id uint64) {
	table := &t.tables[shard]
	keys := table.slots[slot]
	ids, known := keys[string(key)]
	at, has := slices.BinarySearch(ids, id)
	if has {
		return
	}
	ids = slices.Insert(ids, at, id)
	t.items.Add(1)
	if known {
		keys[string(key)] = ids
		t.bytes.Add(trackedItemCost)
	} else {
		if table.slots == nil {
			table.slots = map[uint16]map[string][]uint64{}
		}
		if keys == nil {
			keys = map[string][]uint64{}
			table.slots[slot] = keys
		}
		keys[string(key)] = ids
		t.keys.Add(1)
		t.bytes.Add(int64(len(key)) + trackedKeyCost + trackedItemCost)
	}
	for range trackingEffort {
		if !t.tooMany() || !t.dropOne(shard, slot, key) {
			return
		}
	}
}

func (t *tracking) tooMany() bool {
	most := t.maxKeys.Load()
	return most > 0 && t.keys.Load() > most || t.bytes.Load() > maxTrackedBytes
}

// dropOne invalidates some key of the shard, which is held: another one than key,
// as long as there is one.
func (t *tracking) dropOne(shard int, slot uint16, key []byte) bool {
	for s, keys := range t.tables[shard].slots {
		for k := range keys {
			if s == slot && k == string(key) {
				continue
			}
			t.invalidate(shard, s, []byte(k), 0)
			return true
		}
	}
	return t.invalidate(shard, slot, key, 0)
}

// trim drops keys until there are no more than the limit allows.
func (t *tracking) trim() {
	for slot := range uint16(len(t.tables)) { // the first slot of each shard
		for more := true; more && t.tooMany(); {
			tx := t.eng.LockAny(slot)
			for range trimStep {
				if more = t.tooMany() && t.dropOne(t.eng.ShardOf(slot), slot, nil); !more {
					break
				}
			}
			tx.Unlock()
		}
	}
}

// invalidate tells who has read the key, and forgets it. The shard is held.
func (t *tracking) invalidate(shard int, slot uint16, key []byte, author uint64) bool {
	table := &t.tables[shard]
	keys := table.slots[slot]
	ids, ok := keys[string(key)]
	if !ok {
		return false
	}
	delete(keys, string(key))
	if len(keys) == 0 {
		delete(table.slots, slot)
	}
	t.forgot(1, len(ids), len(key))
	t.tell(ids, key, author)
	return true
}

// tell tells sessions that a key is not what they have read.
func (t *tracking) tell(ids []uint64, key []byte, author uint64) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, id := range ids {
		if f, ok := t.byID[id]; ok && !f.broadcast {
			f.s.Invalidate(key, id == author)
		}
	}
}

// forgot takes keys with all their items, and the bytes of these keys, out of the
// sums.
func (t *tracking) forgot(keys, items, size int) {
	t.keys.Add(int64(-keys))
	t.items.Add(int64(-items))
	t.bytes.Add(-int64(size + keys*trackedKeyCost + items*trackedItemCost))
}

// clearSlot forgets a slot and tells, if asked to, who has read keys of it.
func (t *tracking) clearSlot(shard int, slot uint16, telling bool) {
	keys := t.tables[shard].slots[slot]
	delete(t.tables[shard].slots, slot)
	items, size := 0, 0
	for key, ids := range keys {
		items += len(ids)
		size += len(key)
		if telling {
			t.tell(ids, []byte(key), 0)
		}
	}
	t.forgot(len(keys), items, size)
}

// Changed is told by the engine, under the lock of the shard.
func (t *tracking) Changed(shard int, kind engine.EventKind, slot uint16, key []byte, author uint64) {
	if kind == engine.EventFlush || t.clients.Load() == 0 {
		// Nobody tracks any more, or Flushed follows.
		for s := range t.tables[shard].slots {
			t.clearSlot(shard, s, false)
		}
		return
	}
	if kind == engine.EventEvict || kind == engine.EventExpire {
		author = 0 // whose command made it happen did not mean this key
	}
	t.invalidate(shard, slot, key, author)
	p := t.prefixes.Load()
	if p == nil {
		return
	}
	for _, n := range p.lengths {
		if n > len(key) {
			return
		}
		for _, s := range p.sessions[string(key[:n])] {
			s.Invalidate(key, s.ID() == author)
		}
	}
}

// Lost is told by the engine, under the lock of the shard. What lies in the slot
// goes next, which those hear of who follow prefixes.
func (t *tracking) Lost(shard int, slot uint16) { t.clearSlot(shard, slot, true) }

// Flushed tells everybody that all keys are gone. It comes after the last shard,
// so that what was read in between is covered.
func (t *tracking) Flushed() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, f := range t.byID {
		f.s.InvalidateAll()
	}
}

// figures are for INFO: clients, and what the tables hold.
func (t *tracking) figures() (clients, keys, items int64, prefixes int) {
	if p := t.prefixes.Load(); p != nil {
		prefixes = len(p.sessions)
	}
	return int64(t.clients.Load()), t.keys.Load(), t.items.Load(), prefixes
}
