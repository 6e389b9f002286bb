package node

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

const (
	// pinPeriod is how often a node compares its pins with those of one other
	// member, at random: what a lost message left different is mended by that.
	pinPeriod = 5 * time.Second
	// pinWait bounds one exchange of pins with a member.
	pinWait = time.Second
	// pinParallel is how many members pins are exchanged with at a time.
	pinParallel = 8
	// pinHints is the least time between two exchanges because of a RELEASE.
	pinHints = 250 * time.Millisecond
)

// pinBoard is what this node knows of pins: a map of last writers, exchanged among
// the members. While members differ, their Views do, and the barrier waits for
// agreement slot by slot, so a difference delays and never serves twice.
type pinBoard struct {
	wake chan struct{} // capacity 1: there is something for pinLoop
	path string        // file that keeps them; "": none

	mu       sync.Mutex
	records  []topology.PinRecord // sorted by slot; replaced, never written
	digest   uint64
	greatest uint64               // stamp that was seen
	out      []topology.PinRecord // changes of this node, for everybody
	meet     map[topology.NodeID]struct{}
	hinted   time.Time
	unsaved  bool
}

func (b *pinBoard) open(path string) error {
	b.wake, b.path = make(chan struct{}, 1), path
	b.digest = topology.PinsDigest(nil)
	if path == "" {
		return nil
	}
	records, err := loadPins(path)
	b.set(topology.MergePins(records, nil))
	return err
}

// set runs under mu, or before there is anybody else.
func (b *pinBoard) set(records []topology.PinRecord) {
	b.records, b.digest = records, topology.PinsDigest(records)
	for i := range records {
		b.greatest = max(b.greatest, records[i].Stamp)
	}
}

func (b *pinBoard) signal() {
	select {
	case b.wake <- struct{}{}:
	default: // pinLoop has not taken the last signal yet and will see this too
	}
}

// now gives the records, which must not be written, and their digest.
func (b *pinBoard) now() ([]topology.PinRecord, uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.records, b.digest
}

// write makes records of this node the latest of their slots and has them told to
// everybody. now is in ms.
func (b *pinBoard) write(by topology.NodeID, now int64, slots []uint16, nodes []topology.NodeID, group string) {
	b.mu.Lock()
	stamp := max(b.greatest+1, uint64(max(now, 0)))
	news := make([]topology.PinRecord, len(slots))
	for i, s := range slots {
		news[i] = topology.PinRecord{Slot: s, Stamp: stamp, Writer: by, Group: group, Nodes: nodes}
	}
	b.set(topology.MergePins(b.records, news))
	b.out, b.unsaved = topology.MergePins(b.out, news), true
	b.mu.Unlock()
	b.signal()
}

// merge takes records of a peer and tells whether any was new.
func (b *pinBoard) merge(records []topology.PinRecord) (changed bool, digest uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.digest
	if len(records) > 0 {
		b.set(topology.MergePins(b.records, records))
	}
	if before != b.digest {
		b.unsaved = true
		b.signal() // to have them saved
	}
	return before != b.digest, b.digest
}

// meetAll asks for an exchange with members.
func (b *pinBoard) meetAll(ids ...topology.NodeID) {
	if len(ids) == 0 {
		return
	}
	b.mu.Lock()
	if b.meet == nil {
		b.meet = map[topology.NodeID]struct{}{}
	}
	for _, id := range ids {
		b.meet[id] = struct{}{}
	}
	b.mu.Unlock()
	b.signal()
}

// exchangeWith is meetAll for a member whose pins seem to differ; it may be called
// as often as such a member asks for something.
func (b *pinBoard) exchangeWith(id topology.NodeID) {
	b.mu.Lock()
	now := time.Now()
	due := b.hinted.IsZero() || now.Sub(b.hinted) >= pinHints
	if due {
		b.hinted = now
	}
	b.mu.Unlock()
	if due {
		b.meetAll(id)
	}
}

// take gives what pinLoop has to do, once.
func (b *pinBoard) take() (out []topology.PinRecord, meet map[topology.NodeID]struct{}, save []topology.PinRecord, unsaved bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out, meet, save, unsaved = b.out, b.meet, b.records, b.unsaved
	b.out, b.meet, b.unsaved = nil, nil, false
	return out, meet, save, unsaved
}

// pinLoop tells the others about pins, looks now and then whether they know the
// same, and keeps the file. It ends with n.ctx, after it has saved.
func (n *Node) pinLoop() {
	t := time.NewTicker(pinPeriod)
	defer t.Stop()
	for {
		select {
		case <-n.pins.wake:
		case <-t.C:
			if others := n.others(); len(others) > 0 {
				n.pins.meetAll(others[rand.IntN(len(others))].ID)
			}
		case <-n.ctx.Done():
			_, _, records, unsaved := n.pins.take()
			n.savePins(records, unsaved)
			return
		}
		out, meet, records, unsaved := n.pins.take()
		n.savePins(records, unsaved)
		n.spread(out, meet)
	}
}

func (n *Node) savePins(records []topology.PinRecord, unsaved bool) {
	if !unsaved || n.pins.path == "" {
		return
	}
	if err := writePins(n.pins.path, records); err != nil {
		n.log.Warn("pins are not kept over a restart of this node", "file", n.pins.path, "error", err)
	}
}

// others are the members of the View but this node.
func (n *Node) others() (out []topology.Member) {
	for _, m := range n.View().Members() {
		if m.ID != n.id {
			out = append(out, m)
		}
	}
	return out
}

// spread pushes changes to all members and compares pins with some. Whoever cannot
// be reached now learns of them by the exchange of pinPeriod, or when it is met.
func (n *Node) spread(out []topology.PinRecord, meet map[topology.NodeID]struct{}) {
	if n.casts.links == nil {
		return
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, pinParallel)
	for _, m := range n.others() {
		if _, asked := meet[m.ID]; !asked && len(out) == 0 {
			continue
		}
		room <- struct{}{}
		wg.Go(func() { // ends with the exchange, pinWait at most
			defer func() { <-room }()
			ctx, cancel := context.WithTimeout(n.ctx, pinWait)
			defer cancel()
			if err := n.exchangePins(ctx, m.Addr(), out); err != nil {
				n.log.Debug("pins were not exchanged", "peer", m.Addr(), "error", err)
			}
		})
	}
	wg.Wait()
}

// exchangePins gives a member some records and takes those that it knows better. If
// it still lacks some, it gets all of them.
func (n *Node) exchangePins(ctx context.Context, addr string, records []topology.PinRecord) error {
	for range 2 {
		_, digest := n.pins.now()
		args := [][]byte{[]byte("RC.PINS"), strconv.AppendUint(nil, digest, 16)}
		if len(records) > 0 {
			args = append(args, topology.AppendPins(nil, records))
		}
		v, err := n.casts.links.Do(ctx, addr, resp.AppendCommand(nil, args...))
		if err != nil {
			return err
		}
		if err = v.Err(); err != nil || len(v.Elems) != 2 {
			return err // one that knows no pins answers otherwise
		}
		theirs, err := topology.DecodePins(v.Elems[1].Str)
		if err != nil {
			return err
		}
		_, digest = n.mergePins(theirs)
		if v.Elems[0].Text() == strconv.FormatUint(digest, 16) {
			return nil
		}
		records, _ = n.pins.now()
	}
	return nil
}

// mergePins takes records of a peer and has a View made if any was new.
func (n *Node) mergePins(records []topology.PinRecord) (changed bool, digest uint64) {
	if changed, digest = n.pins.merge(records); changed {
		n.events.add(n.clock.millis(), "pins", nil, "pins came from another member: "+n.pinCount())
		n.renew()
	}
	return changed, digest
}

// renew asks viewLoop for a new View.
func (n *Node) renew() {
	select {
	case n.news <- struct{}{}:
	default: // viewLoop has not taken the last signal yet and will see this too
	}
}

// pinsFromPeer answers RC.PINS <digest> [<records>] with the digest of what this
// node knows then and, where that is not the peer's, all of it.
func (n *Node) pinsFromPeer(args [][]byte, w *resp.Writer) {
	var records []topology.PinRecord
	if len(args) > 2 {
		var err error
		if records, err = topology.DecodePins(args[2]); err != nil {
			w.Error("ERR " + err.Error())
			return
		}
	}
	n.mergePins(records)
	own, digest := n.pins.now()
	text := strconv.FormatUint(digest, 16)
	w.Array(2)
	w.BulkString(text)
	if text == string(args[1]) {
		own = nil
	}
	w.Bulk(topology.AppendPins(nil, own))
}

// learnPins asks members for their pins before this node becomes active, so that
// its first View is that of the others. It tries three, a second each.
func (n *Node) learnPins(ctx context.Context) {
	if n.casts.links == nil {
		return
	}
	others := n.others()
	for _, m := range others[:min(3, len(others))] {
		ask, cancel := context.WithTimeout(ctx, pinWait)
		err := n.exchangePins(ask, m.Addr(), nil)
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
	}
}

// pin writes pins and adopts the View that follows. No nodes: the slots are not
// pinned any more.
func (n *Node) pin(slots []uint16, nodes []topology.NodeID, group string) {
	n.pins.write(n.id, n.clock.millis(), slots, nodes, group)
	n.rebuild()
}

// pinnedHere tells whether a slot is pinned to this node.
func (n *Node) pinnedHere() bool {
	records, _ := n.pins.now()
	return slices.ContainsFunc(records, func(r topology.PinRecord) bool { return slices.Contains(r.Nodes, n.id) })
}

// pinned lists the slots of the records that name nodes, those of a group if it is
// given.
func pinned(records []topology.PinRecord, group string) (slots []uint16) {
	for i := range records {
		if r := &records[i]; len(r.Nodes) > 0 && (group == "" || r.Group == group) {
			slots = append(slots, r.Slot)
		}
	}
	return slots
}

func (n *Node) pinCount() string {
	records, _ := n.pins.now()
	return strconv.Itoa(len(pinned(records, ""))) + " slots are pinned"
}

// pinsOf gives the pins of a View of these members.
func (n *Node) pinsOf(members []topology.Member) []ring.Pin {
	records, _ := n.pins.now()
	return topology.ResolvePins(records, members)
}

// newcomers are the processes of a View that are not in an earlier one.
func newcomers(old, now *topology.View, self topology.NodeID) (ids []topology.NodeID) {
	for i := range now.Len() {
		m := now.Member(i)
		j, known := old.Index(m.ID)
		if m.ID != self && (!known || old.Member(j).Boot != m.Boot) {
			ids = append(ids, m.ID)
		}
	}
	return slices.Clip(ids)
}
