package server

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/glob"
	"github.com/ringcache/ringcache/internal/resp"
)

const (
	// maxSubscriptions bounds those of one session, of all kinds together.
	maxSubscriptions = 16 << 10
	// maxNames bounds, in bytes, the names of all subscriptions of all sessions,
	// with nameCost for each.
	maxNames = 32 << 20
	nameCost = 128
)

// topic says what a subscription names.
type topic uint8

const (
	onChannel topic = iota
	onShard         // a shard channel
	onPattern
	topics
)

// audience are the sessions that listen to one name.
type audience map[*Session]struct{}

// hub knows who listens to what. Publishing holds mu for reading and pushes to
// the listeners, which never blocks; subscribing holds it for writing. A session
// leaves the hub before it ends.
type hub struct {
	mu    sync.RWMutex
	names [topics]map[string]audience
	bytes int64 // see maxNames

	listening atomic.Int64 // sessions with a subscription
	shards    atomic.Int64 // shard channels with an audience
}

// subscriptions are those of one session. The maps are guarded by the hub's mu;
// the session makes them with its first subscription.
type subscriptions struct {
	of    [topics]map[string]struct{}
	total atomic.Int64
}

// count is the number that replies to SUBSCRIBE and its relatives tell: shard
// channels are counted by themselves. hub.mu is held.
func (s *subscriptions) count(t topic) int64 {
	if t == onShard {
		return int64(len(s.of[onShard]))
	}
	return int64(len(s.of[onChannel]) + len(s.of[onPattern]))
}

// room tells why a session cannot have names as well.
func (h *hub) room(s *Session, names [][]byte) (refusal string) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	need := int64(0)
	for _, name := range names {
		need += int64(len(name) + nameCost)
	}
	if s.subs != nil && s.subs.total.Load()+int64(len(names)) > maxSubscriptions || len(names) > maxSubscriptions {
		return fmt.Sprintf("RCTOOLARGE a connection has at most %d subscriptions; use patterns, or more connections", maxSubscriptions)
	}
	if h.bytes+need > maxNames {
		return fmt.Sprintf("RCBUSY the subscriptions of all connections would take %d bytes, limit %d; repeat later", h.bytes+need, maxNames)
	}
	return ""
}

// add subscribes and returns how many subscriptions of the kind the session has.
func (h *hub) add(s *Session, t topic, name []byte) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.subs == nil {
		s.subs = &subscriptions{}
	}
	own := s.subs.of[t]
	if _, has := own[string(name)]; has {
		return s.subs.count(t)
	}
	if own == nil {
		own = map[string]struct{}{}
		s.subs.of[t] = own
	}
	key := string(name)
	own[key] = struct{}{}
	if h.names[t] == nil {
		h.names[t] = map[string]audience{}
	}
	if h.names[t][key] == nil {
		h.names[t][key] = audience{}
	}
	h.names[t][key][s] = struct{}{}
	h.bytes += int64(len(key) + nameCost)
	if s.subs.total.Add(1) == 1 {
		h.listening.Add(1)
	}
	h.shards.Store(int64(len(h.names[onShard])))
	return s.subs.count(t)
}

// remove ends a subscription, if there is one, and returns how many the session
// has left.
func (h *hub) remove(s *Session, t topic, name string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.drop(s, t, name)
}

// drop is remove with mu held.
func (h *hub) drop(s *Session, t topic, name string) int64 {
	if s.subs == nil {
		return 0
	}
	if _, has := s.subs.of[t][name]; has {
		delete(s.subs.of[t], name)
		all := h.names[t][name]
		delete(all, s)
		if len(all) == 0 {
			delete(h.names[t], name)
		}
		h.bytes -= int64(len(name) + nameCost)
		if s.subs.total.Add(-1) == 0 {
			h.listening.Add(-1)
		}
		h.shards.Store(int64(len(h.names[onShard])))
	}
	return s.subs.count(t)
}

// list gives the names of a session's subscriptions of a kind, sorted.
func (h *hub) list(s *Session, t topic) []string {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if s.subs == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(s.subs.of[t]))
}

// forget ends all subscriptions of a session.
func (h *hub) forget(s *Session) {
	if s.subs == nil || s.subs.total.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range topics {
		for name := range s.subs.of[t] {
			h.drop(s, t, name)
		}
	}
}

// publish hands a message to everybody who listens, and counts them; who listens
// in two ways gets it twice.
func (h *hub) publish(channel, message []byte, shard bool) (n int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	t, word := onChannel, "message"
	if shard {
		t, word = onShard, "smessage"
	}
	if all := h.names[t][string(channel)]; len(all) > 0 {
		w := resp.Writer{Proto: 3, Buf: make([]byte, 0, len(channel)+len(message)+64)}
		w.Push(3)
		w.BulkString(word)
		w.Bulk(channel)
		w.Bulk(message)
		n += all.push(w.Buf)
	}
	if shard || len(h.names[onPattern]) == 0 {
		return n
	}
	name := string(channel)
	for pattern, all := range h.names[onPattern] {
		if !matchName(pattern, name) {
			continue
		}
		w := resp.Writer{Proto: 3, Buf: make([]byte, 0, len(pattern)+len(channel)+len(message)+80)}
		w.Push(4)
		w.BulkString("pmessage")
		w.BulkString(pattern)
		w.Bulk(channel)
		w.Bulk(message)
		n += all.push(w.Buf)
	}
	return n
}

// matchName is glob.Match for names of channels: as in Redis, no star matches the
// empty one.
func matchName(pattern, name string) bool {
	if name == "" {
		return pattern == ""
	}
	return glob.Match(pattern, name)
}

func (a audience) push(msg []byte) (n int) {
	for s := range a {
		if s.Push(msg) {
			n++
		}
	}
	return n
}

// leave ends the subscriptions to the shard channels for which gone says so, and
// tells the listeners.
func (h *hub) leave(gone func(channel string) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, all := range h.names[onShard] {
		if !gone(name) {
			continue
		}
		for s := range all {
			left := h.drop(s, onShard, name)
			w := resp.Writer{Proto: 3}
			w.Push(3)
			w.BulkString("sunsubscribe")
			w.BulkString(name)
			w.Int(left)
			s.Push(w.Buf)
		}
	}
}

// audiences calls fn for every name of a kind with its number of listeners.
func (h *hub) audiences(t topic, fn func(name string, n int)) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(h.names[t])) {
		fn(name, len(h.names[t][name]))
	}
}

// size is how many sessions listen to a name.
func (h *hub) size(t topic, name []byte) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.names[t][string(name)])
}

// counts tells how many channels, shard channels and patterns somebody listens
// to, or for a session how many it has.
func (h *hub) counts(s *Session) (channels, shards, patterns int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if s == nil {
		return len(h.names[onChannel]), len(h.names[onShard]), len(h.names[onPattern])
	}
	if s.subs == nil {
		return 0, 0, 0
	}
	return len(s.subs.of[onChannel]), len(s.subs.of[onShard]), len(s.subs.of[onPattern])
}

// Publish hands a message to the sessions of this server that listen to the
// channel, by name or by a pattern, or to the shard channel of that name. It
// returns how many got it. Any goroutine may call it; it never blocks.
func (s *Server) Publish(channel, message []byte, shard bool) int {
	if s.hub.listening.Load() == 0 {
		return 0
	}
	return s.hub.publish(channel, message, shard)
}

// LeaveShards ends the subscriptions to the shard channels for which gone says
// so, and tells those who listen. gone must not block.
func (s *Server) LeaveShards(gone func(channel string) bool) {
	if s.hub.shards.Load() > 0 {
		s.hub.leave(gone)
	}
}
