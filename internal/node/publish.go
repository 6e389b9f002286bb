package node

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

const (
	// maxCast bounds, in bytes, the messages that wait for one peer; beyond it
	// they are dropped and counted. maxCastBatch and maxCastPairs bound what is
	// sent at once.
	maxCast      = 8 << 20
	maxCastBatch = 256 << 10
	maxCastPairs = 4096
	// castCost is what a message takes beside its bytes.
	castCost = 48
	// castWait is how long a peer may take to accept a batch.
	castWait = time.Second
)

// casts carries messages to the peers. Each peer with messages that wait has a
// goroutine, which ends when there are none.
type casts struct {
	links *link.Peers // of its own: messages never stand before a RELEASE

	mu     sync.Mutex
	closed bool
	peers  map[string]*castQueue // by address; only those with something to send

	sent, dropped atomic.Uint64 // messages, once for each peer
}

// castQueue is what waits for one peer: channels and messages, in turns.
type castQueue struct {
	parts [][]byte
	bytes int
}

// publishCommand answers PUBLISH and SPUBLISH.
func (n *Node) publishCommand(cmd *command.Command, args [][]byte, w *resp.Writer) {
	shard := cmd.ID == command.SPublish
	if shard {
		// Where this node waits to take the slot over, those who listen here
		// already get the message.
		if slot := ring.Slot(args[1]); !n.eng.Serving(slot) && n.moved(slot, w) {
			return
		}
	}
	w.Int(int64(n.deliver(args[1], args[2], shard)))
}

// deliver hands a message to those who listen at this node, counts them, and lets
// the other members have it.
func (n *Node) deliver(channel, message []byte, shard bool) (heard int) {
	if n.front != nil {
		heard = n.front.Publish(channel, message, shard)
	}
	if shard {
		n.spentOnMessage(channel, message, heard)
	} else {
		n.cast(channel, message)
	}
	return heard
}

// cast lets every other member have a message, without waiting for any.
func (n *Node) cast(channel, message []byte) {
	p := n.pub.Load()
	if p.view.Len() < 2 || n.casts.links == nil {
		return
	}
	pair := make([]byte, 0, len(channel)+len(message))
	pair = append(append(pair, channel...), message...)
	channel, message = pair[:len(channel):len(channel)], pair[len(channel):]
	c := &n.casts
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	for i := range p.view.Len() {
		if m := p.view.Member(i); m.ID != p.self {
			n.castTo(m.Addr(), channel, message)
		}
	}
}

// castTo queues a message for one peer. casts.mu is held.
func (n *Node) castTo(addr string, channel, message []byte) {
	c := &n.casts
	q := c.peers[addr]
	if q == nil {
		q = new(castQueue)
		if c.peers == nil {
			c.peers = map[string]*castQueue{}
		}
		c.peers[addr] = q
		n.wg.Go(func() { n.carry(addr, q) }) // ends when nothing waits, or with n.ctx
	}
	size := len(channel) + len(message) + castCost
	if q.bytes+size > maxCast {
		c.dropped.Add(1)
		return
	}
	q.bytes += size
	q.parts = append(q.parts, channel, message)
}

// carry sends what waits for a peer, a batch at a time, until nothing does. What
// cannot be sent is dropped: messages are sent at most once.
func (n *Node) carry(addr string, q *castQueue) {
	for {
		batch := n.casts.take(addr, q)
		if batch == nil {
			return
		}
		args := append(make([][]byte, 0, len(batch)+1), []byte("RC.PUBLISH"))
		ctx, cancel := context.WithTimeout(n.ctx, castWait)
		v, err := n.casts.links.Do(ctx, addr, resp.AppendCommand(nil, append(args, batch...)...))
		cancel()
		switch id, ok := n.memberAt(addr); {
		case !ok:
		case err == nil:
			n.heard(id)
		default:
			n.failed(n.ctx, id, err)
		}
		if err == nil && v.Kind != resp.Error {
			n.casts.sent.Add(uint64(len(batch) / 2))
			continue
		}
		n.casts.dropped.Add(uint64(len(batch) / 2))
		if err == nil {
			n.log.Debug("a peer refused messages", "peer", addr, "answer", v.Text())
			continue
		}
		n.log.Debug("messages for a peer are lost", "peer", addr, "messages", len(batch)/2, "error", err)
	}
}

// take gives the next batch for a peer; nil, and the queue is gone, if there is
// none.
func (c *casts) take(addr string, q *castQueue) [][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(q.parts) == 0 || c.closed {
		c.dropped.Add(uint64(len(q.parts) / 2))
		delete(c.peers, addr)
		return nil
	}
	size, n := 0, 0
	for n < len(q.parts) && n < 2*maxCastPairs && (n == 0 || size < maxCastBatch) {
		size += len(q.parts[n]) + len(q.parts[n+1]) + castCost
		n += 2
	}
	batch := q.parts[:n:n]
	q.parts = q.parts[n:]
	q.bytes -= size
	if len(q.parts) == 0 {
		q.parts = nil
	}
	return batch
}

// close lets no message in any more.
func (c *casts) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
}

// heardFromPeer answers RC.PUBLISH <channel> <message> [<channel> <message> ...].
func (n *Node) heardFromPeer(args [][]byte, w *resp.Writer) {
	if len(args)%2 != 1 {
		w.Error("ERR a channel without a message")
		return
	}
	heard := 0
	for i := 1; i < len(args); i += 2 {
		if n.front != nil {
			heard += n.front.Publish(args[i], args[i+1], false)
		}
	}
	w.Int(int64(heard))
}

// KeepsShards tells why shard channels do not belong to this node, "" if they do.
func (n *Node) KeepsShards(channels [][]byte) (refusal string) {
	slot := ring.Slot(channels[0])
	for _, c := range channels[1:] {
		if ring.Slot(c) != slot {
			return errCrossSlot
		}
	}
	if n.eng.Serving(slot) {
		return ""
	}
	return n.elsewhereOf(slot)
}

// elsewhereOf is MOVED if another node is the owner of the slot, "" otherwise.
func (n *Node) elsewhereOf(slot uint16) string {
	p := n.pub.Load()
	owner := p.view.Owner(slot)
	if owner < 0 || p.isSelf(owner) || p.joining() {
		return ""
	}
	return "MOVED " + strconv.Itoa(int(slot)) + " " + p.addrs[owner]
}

// shardLoop ends the subscriptions to shard channels whose slot has left this
// node. It ends with n.ctx.
func (n *Node) shardLoop() {
	for {
		changed := n.barrier.Changed() // before the look, so that no change is missed
		n.front.LeaveShards(func(channel string) bool {
			slot := ring.SlotString(channel)
			return !n.eng.Serving(slot) && n.elsewhereOf(slot) != ""
		})
		select {
		case <-changed:
		case <-n.ctx.Done():
			return
		}
	}
}
