package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// keepLimit is the longest time that a stop spends on writing the entries for the
// next process; beyond it they are given up.
const keepLimit = 30 * time.Second

// lastCopiesWait is how long a process that is to be back at once waits until its
// copies are up to date.
const lastCopiesWait = time.Second

// WarmOff as Options.WarmDir keeps no entries over a restart.
const WarmOff = "off"

// warmNote is what a process says of itself to the next one, with the entries.
type warmNote struct {
	ID      topology.NodeID
	Cluster string
	Boot    uint64
	Members []handoff.Peer // the others of the last View
}

// warmFile returns the file that keeps the entries, "" for none.
func warmFile(o *Options, id topology.NodeID) (string, error) {
	dir := o.WarmDir
	if dir == "" {
		dir = o.DataDir
	}
	if dir == "" || dir == WarmOff {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("%w: directory of the entries: %w", errs.ErrConfig, err)
	}
	// By the ID, so that the nodes of one machine may share a directory.
	return filepath.Join(dir, "ringcache-"+id.String()+".arena"), nil
}

// inherit looks at what the engine found in its file, and gives the barrier what
// may be of use. Nothing of it is served before the barrier opens its slots.
func (n *Node) inherit(took time.Duration) {
	if n.o.Engine.File == "" {
		return
	}
	a := n.eng.Attachment()
	args := []any{"file", n.o.Engine.File, "in_memory", a.Live, "took", took.Round(time.Millisecond).String()}
	switch {
	case a.Fresh:
		n.log.Info("started empty", append(args, "why", a.Empty)...)
		return
	case a.Empty != "":
		n.log.Warn("started empty: the entries of the process before are not usable", append(args, "why", a.Empty)...)
		return
	}
	if a.ClockBack > 0 {
		n.log.Warn("the clock was set back since the process before ended; its time goes on", "by", (time.Duration(a.ClockBack) * time.Millisecond).String())
	}
	var note warmNote
	if err := json.Unmarshal(a.Note, &note); err != nil || note.ID != n.id || note.Cluster != n.o.Cluster {
		n.eng.Flush()
		n.log.Warn("started empty: the entries belong to another node", append(args, "entries", a.Entries, "owner", note.ID.String())...)
		return
	}
	in := handoff.Inheritance{Boot: note.Boot, Witnesses: note.Members}
	for slot := range uint16(engine.Slots) {
		if n.eng.SlotStats(slot).Keys > 0 {
			in.Slots.Add(slot)
		}
	}
	n.barrier.Inherit(in)
	n.witnesses = note.Members
	n.log.Info("took over the entries of the process before", append(args, "entries", a.Entries, "bytes", a.Bytes, "other_members_then", len(note.Members))...)
}

// checkInheritance runs before the node becomes active. It drops all that was taken
// over, at once, if it is clear already that nobody can prove it to be the latest.
func (n *Node) checkInheritance() {
	n.active.Store(true)
	if waiting, _, _ := n.barrier.Inherited(); waiting == 0 {
		return
	}
	why := ""
	var now []membership.Peer
	if m := n.membership(); m != nil {
		now = m.Snapshot().Members
	}
	if len(n.witnesses) == 0 {
		others := 0
		for _, p := range now {
			if p.ID != n.id {
				others++
			}
		}
		if others > 0 || n.reached {
			why = "this node was alone when it ended and is not now: others may have served its slots meanwhile"
		}
	}
	for _, w := range n.witnesses {
		there := false
		for _, p := range now {
			there = there || p.ID == w.ID && p.Boot == w.Boot && p.Health != membership.Dead
		}
		if !there {
			why = "a member of the time before, " + w.ID.String() + ", is gone or has restarted: nobody knows who served the slots meanwhile"
			break
		}
	}
	if why != "" {
		n.log.Warn("the entries of the process before are dropped", "why", why)
		n.eng.Flush()
		n.barrier.Disinherit(true)
	}
}

// settleInheritance runs once the node is active: without a slot to open, there
// is nothing to keep anything for.
func (n *Node) settleInheritance() {
	if gained, _ := n.barrier.Progress(); gained == 0 {
		n.barrier.Disinherit(false)
	}
}

// logInheritance says what has become of the entries that were taken over.
func (n *Node) logInheritance() {
	waiting, kept, lost := n.barrier.Inherited()
	if kept+lost+waiting > 0 {
		n.log.Info("slots with entries of the process before: kept those that all other members have left to this node alone, dropped the others",
			"kept", kept, "dropped", lost, "waiting", waiting, "entries", n.eng.Stats().Keys)
	}
}

// Stay says that this node ends to come back at once: Drain hands nothing over,
// and the entries stay in their file, if there is one.
func (n *Node) Stay() { n.stay.Store(true) }

// Staying says whether Stay was called.
func (n *Node) Staying() bool { return n.stay.Load() }

// lastCopies is for a process that is to be back at once, with its entries: until then
// its copies answer reads, so they get what has changed in the last milliseconds, as
// far as that is possible in a moment. What is served here ends before.
func (n *Node) lastCopies() {
	if n.copies.streams == nil || n.o.Replicas == 0 || n.View().Len() == 1 {
		return
	}
	n.barrier.Close() // no slot is opened any more
	n.lastServed = make([]bool, ring.Slots)
	for slot := range uint16(ring.Slots) {
		n.lastServed[slot] = n.eng.Serving(slot) // only the barrier changes it
		n.eng.SetServing(slot, false)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastCopiesWait)
	defer cancel()
	if !n.copies.streams.Flush(ctx) {
		n.log.Warn("not all copies have the last changes of this node: until it is back, reads may be answered with older values", "waited", lastCopiesWait.String())
	}
}

// ForgetEntries makes Close leave no entries for the next process.
func (n *Node) ForgetEntries() { n.forget.Store(true) }

// closeEngine ends the engine and leaves the entries in their file, as far as
// the next process can make use of them. The View does not change any more.
func (n *Node) closeEngine() error {
	if n.o.Engine.File == "" {
		return n.eng.Close()
	}
	n.barrier.DropCopies(func(uint16, handoff.Peer, bool) bool { return false }) // they are nothing that the next process could prove
	until := make(chan struct{})
	timer := time.AfterFunc(keepLimit, func() { close(until) })
	defer timer.Stop()
	o := engine.CloseOptions{Until: until}
	if n.lastServed != nil {
		o.Served = func(slot uint16) bool { return n.lastServed[slot] }
	}
	why := ""
	switch {
	case n.forget.Load():
		why = "NOSAVE"
	case n.superseded.Load():
		why = "another process has taken over"
	case n.handedOver.Load():
		why = "the others have taken the slots over"
	case !n.active.Load():
		o.AsFound = true // nothing was served
	case n.View().Len() == 1 && n.met.Load():
		why = "the others have left: who comes back first would not know of them"
	default:
		note := warmNote{ID: n.id, Cluster: n.o.Cluster, Boot: n.boot}
		for _, m := range n.View().Members() {
			if m.ID != n.id {
				note.Members = append(note.Members, handoff.Peer{ID: m.ID, Boot: m.Boot})
			}
		}
		var err error
		if o.Note, err = json.Marshal(note); err != nil {
			return errors.Join(err, n.eng.Close())
		}
	}
	o.Discard = why != ""
	began := time.Now()
	kept, err := n.eng.CloseWith(o)
	switch {
	case err != nil:
		n.log.Error("the entries are lost", "error", err)
	case why != "":
		n.log.Info("no entries are kept for the next start", "why", why)
	default:
		n.log.Info("kept the entries for the next start", "entries", kept.Entries, "bytes", kept.Bytes,
			"file", n.o.Engine.File, "took", time.Since(began).Round(time.Millisecond).String())
	}
	return err
}
