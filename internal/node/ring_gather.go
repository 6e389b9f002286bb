package node

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

const (
	// gatherWait bounds a question to all members, gatherParallel how many are
	// asked at a time.
	gatherWait     = 800 * time.Millisecond
	gatherParallel = 32
)

// askMember sends RC.RING to a member. Links are those of messages, so that nothing
// of it stands before a RELEASE.
func (n *Node) askMember(ctx context.Context, m *topology.Member, args ...string) (resp.Value, error) {
	if n.casts.links == nil {
		return resp.Value{}, fmt.Errorf("%w: this node has no links to others", errs.ErrUnavailable)
	}
	ctx, cancel := context.WithTimeout(ctx, gatherWait)
	defer cancel()
	return n.casts.links.Do(ctx, m.Addr(), resp.AppendCommandStrings(nil, append([]string{"RC.RING"}, args...)...))
}

// gather asks all members, this node too, and gives what each has answered, by its
// index in the View; nil for those that have not. It takes gatherWait at most for
// gatherParallel members.
func (n *Node) gather(v *topology.View, args ...string) []*resp.Value {
	out := make([]*resp.Value, v.Len())
	var wg sync.WaitGroup
	room := make(chan struct{}, gatherParallel)
	for i := range out {
		m := v.Member(i)
		if m.ID == n.id {
			out[i] = n.askSelf(args)
			continue
		}
		room <- struct{}{}
		wg.Go(func() { // ends with the answer, or after gatherWait
			defer func() { <-room }()
			reply, err := n.askMember(n.ctx, m, args...)
			if err = errors.Join(err, reply.Err()); err != nil {
				n.log.Debug("a member does not answer", "peer", m.Addr(), "what", args[0], "error", err)
				return
			}
			out[i] = &reply
		})
	}
	wg.Wait()
	return out
}

// askSelf answers as ringForPeer answers others.
func (n *Node) askSelf(args []string) *resp.Value {
	raw := [][]byte{[]byte("RC.RING")}
	for _, a := range args {
		raw = append(raw, []byte(a))
	}
	var w resp.Writer
	n.ringForPeer(raw, &w)
	var p resp.ReplyParser
	v, _, err := p.Next(w.Buf, nil)
	if err != nil || v.Err() != nil {
		return nil
	}
	return &v
}

// ringForPeer answers RC.RING <what> [<args>]: what this node knows of itself, and
// what only it may do to its own entry.
func (n *Node) ringForPeer(args [][]byte, w *resp.Writer) {
	switch what := string(args[1]); {
	case what == "FIGURES":
		operate.Write(w, n.figures())
	case what == "CHANGES":
		operate.Write(w, n.ownChanges())
	case what == "SLOTS":
		w.Bulk(n.packSlots())
	case what == "WEIGHT" && len(args) == 3:
		n.weightForPeer(args[2], w)
	case what == "DRAIN":
		n.drainForPeer(w)
	case what == "MIGRATE" && len(args) > 2:
		n.migrateForPeer(args[2:], w)
	default:
		w.Error("ERR this node does not know RC.RING " + what[:min(len(what), 32)])
	}
}

func (n *Node) weightForPeer(text []byte, w *resp.Writer) {
	weight, err := parseWeight(text)
	if err == nil {
		err = n.SetWeight(weight) // in steps
	}
	if err != nil {
		w.Error("ERR " + err.Error())
		return
	}
	n.log.Info("weight set by a client", "weight", weight)
	w.Simple("OK")
}

// drainForPeer begins what SIGTERM begins; the node is gone from the Views when it
// is done.
func (n *Node) drainForPeer(w *resp.Writer) {
	switch {
	case n.o.OnShutdown == nil:
		w.Error("ERR this node belongs to another program, which has to drain it")
		return
	case n.membership() == nil:
		w.Error("ERR this node stands alone: there is nobody to take its slots over")
		return
	}
	self := n.selfMember()
	n.events.add(n.clock.millis(), "drain", &self, "is asked to hand everything over and leave")
	n.log.Info("drain requested by a client")
	n.shutdown("RING DRAIN")
	w.Simple("OK")
}

// slotCounts is what one node holds of a slot that it serves.
type slotCounts struct{ keys, bytes int64 }

// packSlots lists the served slots that hold something as slot(2) keys bytes, and
// the others by their number alone, with keys 0.
func (n *Node) packSlots() (out []byte) {
	for slot := range uint16(ring.Slots) {
		if !n.eng.Serving(slot) {
			continue
		}
		st := n.eng.SlotStats(slot)
		out = binary.BigEndian.AppendUint16(out, slot)
		out = binary.AppendUvarint(out, uint64(max(st.Keys, 0)))
		out = binary.AppendUvarint(out, uint64(max(st.Bytes, 0)))
	}
	return out
}

// unpackSlots reads packSlots of a peer; it stops where that makes no sense.
func unpackSlots(b []byte, each func(slot uint16, c slotCounts)) {
	for len(b) > 2 {
		slot := binary.BigEndian.Uint16(b)
		keys, k := binary.Uvarint(b[2:])
		if k <= 0 || slot >= ring.Slots {
			return
		}
		bytes, l := binary.Uvarint(b[2+k:])
		if l <= 0 {
			return
		}
		each(slot, slotCounts{int64(keys), int64(bytes)})
		b = b[2+k+l:]
	}
}

// allSlots are the figures of all slots of a View, of their owners as far as these
// serve them. lacking are members that have not answered.
type allSlots struct {
	counts  [ring.Slots]slotCounts
	served  [ring.Slots]bool
	lacking []string
}

func (n *Node) slotsOfAll(v *topology.View) *allSlots {
	all := new(allSlots)
	for i, reply := range n.gather(v, "SLOTS") {
		if reply == nil {
			all.lacking = append(all.lacking, v.Member(i).Addr())
			continue
		}
		unpackSlots(reply.Str, func(slot uint16, c slotCounts) {
			// A slot on its way is counted where it is.
			all.counts[slot] = c
			all.served[slot] = v.Owner(slot) == i
		})
	}
	return all
}

// ringNodes lists all members, in the order of the View.
func (n *Node) ringNodes() []operate.Node {
	p := n.pub.Load()
	v := p.view
	answers := n.gather(v, "FIGURES")
	total := 0.0
	for _, m := range v.Members() {
		total += m.PresentWeight()
	}
	nodes := []operate.Node{}
	for i, reply := range answers {
		m := v.Member(i)
		e := operate.Node{ID: m.ID.String(), Addr: m.Addr(), Zone: m.Zone, Self: m.ID == n.id, State: m.State.String(),
			Health: membership.Alive.String(), Degraded: "no", Weight: m.Weight, OldWeight: m.Weight, Progress: m.Progress, Slots: v.OwnedBy(i)}
		if m.Weighing() {
			e.OldWeight = m.OldWeight
		}
		if peer := p.peer(m.ID); peer != nil {
			e.Health, e.Degraded, e.RTTUs = healthWord(peer), degradedWord(peer), peer.RTT.Microseconds()
		}
		if fair := ring.Slots * m.PresentWeight(); fair > 0 {
			e.Share = float64(e.Slots) * total / fair
		}
		e.Answers = reply != nil && operate.Read(*reply, &e.Figures) == nil
		nodes = append(nodes, e)
	}
	return nodes
}

// ringStatus sums the members up.
func (n *Node) ringStatus() operate.Status {
	p := n.pub.Load()
	nodes := n.ringNodes()
	s := operate.Status{Cluster: n.o.Cluster, View: viewHash(p.view), Epoch: int64(p.view.Epoch()), SlotsOwned: p.view.Owned(), Problems: []string{}, Notes: []string{}}
	records, digest := n.pins.now()
	s.Pins = len(pinned(records, ""))
	degraded := false
	problem := func(format string, args ...any) {
		degraded = true
		s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
	}
	for i := range nodes {
		e := &nodes[i]
		s.Members++
		switch e.State {
		case topology.Joining.String(), topology.Warming.String():
			s.Joining++
		case topology.Draining.String():
			s.Draining++
		}
		if e.Slots > 0 {
			s.Owners++
		}
		if e.Health != membership.Alive.String() {
			s.Suspect++
			problem("%s is %s", e.Addr, e.Health)
		}
		if !e.Answers {
			s.Unreachable++
			problem("%s does not answer", e.Addr)
			continue
		}
		f := &e.Figures
		if f.View != s.View {
			problem("%s has view %s", e.Addr, f.View)
		} else if f.PinsDigest != fmt.Sprintf("%016x", digest) {
			problem("%s knows other pins", e.Addr)
		}
		addFigures(&s, f)
		if note := weightNote(e); note != "" {
			s.Notes = append(s.Notes, note)
		}
	}
	if s.SlotsOwned < ring.Slots {
		problem("%d slots have no owner", ring.Slots-s.SlotsOwned)
	}
	s.HitRatio = ratio(s.HitsPerSecond, s.MissesPerSecond)
	s.State = operate.StateOK
	moving := s.Joining+s.Draining+s.SlotsOpening+s.SlotsReleasing+s.Changes > 0 || s.SlotsServed < ring.Slots && s.Unreachable == 0
	switch {
	case degraded:
		s.State = operate.StateDegraded
	case moving:
		s.State = operate.StateChanging
	}
	if moving {
		s.Problems = append(s.Problems, fmt.Sprintf("%d nodes are joining, %d leaving; %d slots of %d are served, %d wait for agreement; %d changes run",
			s.Joining, s.Draining, s.SlotsServed, ring.Slots, s.SlotsOpening, s.Changes))
	}
	return s
}

func addFigures(s *operate.Status, f *operate.Figures) {
	s.SlotsServed += f.Serving
	s.SlotsOpening += f.Opening
	s.SlotsReleasing += f.Releasing
	s.Keys += f.Keys
	s.Bytes += f.Bytes
	s.MemoryLimit += f.MemoryLimit
	s.CommandsPerSecond += f.CommandsPerSecond
	s.HitsPerSecond += f.HitsPerSecond
	s.MissesPerSecond += f.MissesPerSecond
	s.Changes += f.ChangesOpen
	s.Paused = s.Paused || f.Paused
}

func ratio(hits, misses float64) float64 {
	if hits+misses <= 0 {
		return 1
	}
	return hits / (hits + misses)
}

// ringChanges lists the changes of all members that answer.
func (n *Node) ringChanges() []operate.Change {
	v := n.View()
	out := []operate.Change{}
	for _, reply := range n.gather(v, "CHANGES") {
		var list []operate.Change
		if reply != nil && operate.Read(*reply, &list) == nil {
			out = append(out, list...)
		}
	}
	slices.SortStableFunc(out, func(a, b operate.Change) int { return cmp.Compare(a.BeganMS, b.BeganMS) })
	return out
}

// ringSlots answers SLOTS [first [last]].
func (n *Node) ringSlots(args [][]byte, w *resp.Writer) {
	first, last := int64(0), int64(ring.Slots-1)
	ok1, ok2 := true, true
	switch len(args) {
	case 0:
	case 1:
		first, ok1 = resp.ParseInt(args[0])
		last = first
	case 2:
		first, ok1 = resp.ParseInt(args[0])
		last, ok2 = resp.ParseInt(args[1])
	default:
		w.Error(errSyntax)
		return
	}
	if !ok1 || !ok2 || !validSlot(first) || !validSlot(last) || first > last {
		w.Error(errBadSlot)
		return
	}
	v := n.View()
	all := n.slotsOfAll(v)
	records, _ := n.pins.now()
	pins := map[uint16]bool{}
	for _, s := range pinned(records, "") {
		pins[s] = true
	}
	out := []operate.SlotRange{}
	owner := -2 // of the last range
	for slot := uint16(first); slot <= uint16(last); slot++ {
		if len(out) == 0 || v.Owner(slot) != owner || out[len(out)-1].Pinned != pins[slot] {
			owner = v.Owner(slot)
			r := operate.SlotRange{First: int(slot), Pinned: pins[slot]}
			if m := v.OwnerMember(slot); m != nil {
				r.Owner, r.Addr = m.ID.String(), m.Addr()
			}
			out = append(out, r)
		}
		r := &out[len(out)-1]
		r.Last = int(slot)
		r.Keys += all.counts[slot].keys
		r.Bytes += all.counts[slot].bytes
		if all.served[slot] {
			r.Served++
		}
	}
	operate.Write(w, out)
}
