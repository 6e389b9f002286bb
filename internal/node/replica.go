package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

const (
	codeGap = "RCGAP"

	// Words of the answer to RC.COPY.
	copyRefused = "REFUSED"
	copyHeld    = "HELD"

	// copyGather is how long changes of bits and Views gather before the places of
	// copies follow them.
	copyGather = 10 * time.Millisecond
	// waitMost is how long WAIT waits at most; so long does 0, for ever in Redis.
	waitMost = 10 * time.Minute
)

// copies are those that this node keeps at others, and those of others here.
type copies struct {
	links    *link.Peers // of its own: copies never stand before a RELEASE
	streams  *handoff.Streams
	receiver *handoff.Receiver

	reads  atomic.Uint64 // that copies have answered
	routed *published    // whose routes have copies; for copyLoop only
	again  chan struct{} // capacity 1: mirror-reads has changed

	waits    context.Context // of WAIT: ends before the node does
	endWaits context.CancelFunc
}

// ended is a context for who must not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

func (n *Node) openCopies() {
	c := &n.copies
	c.waits, c.endWaits = context.WithCancel(n.ctx)
	c.receiver = handoff.NewReceiver(n.barrier, n.eng)
	c.again = make(chan struct{}, 1)
	if n.o.Port != 0 && !n.o.Standalone {
		c.streams = handoff.NewStreams(handoff.StreamOptions{Engine: n.eng, Send: n.sendCopies, MirrorPace: n.mirrorPace, Logger: n.log})
		n.barrier.SealBy(c.streams)
	}
}

func (c *copies) close() {
	c.endWaits()
	if c.streams != nil {
		c.streams.Close()
	}
}

// copyLoop keeps the places of copies in line with Views and serving bits. It ends
// with n.ctx.
func (n *Node) copyLoop() {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		changed := n.barrier.Changed() // before the look, so that no change is missed
		n.placeCopies()
		select {
		case <-changed:
		case <-n.copies.again:
		case <-n.ctx.Done():
			return
		}
		t.Reset(copyGather)
		select {
		case <-t.C:
		case <-n.ctx.Done():
			return
		}
	}
}

// placeCopies sends copies of what this node serves to the successors, and drops
// those here of slots whose successor it is not any more.
func (n *Node) placeCopies() {
	p := n.pub.Load()
	v := p.view
	if n.copies.routed != p {
		n.copies.routed = p
		n.installCopies(p)
	}
	if n.o.Replicas > 0 || n.copies.receiver.Figures().Slots > 0 {
		v.Successor(0) // computed before locks are taken
	}
	if n.copies.receiver.Figures().Slots > 0 {
		warming := n.selfMember().State == topology.Warming
		n.barrier.DropCopies(func(slot uint16, _ handoff.Peer, owned bool) bool {
			switch {
			case !owned:
				return true // the next agreement or opening decides
			case n.barrier.Copies().Partial(slot):
				return warming // a step that is to come may bring the slot
			}
			var room [topology.MaxReplicas]int
			for _, i := range v.Successors(room[:0], slot, topology.MaxReplicas) {
				if p.isSelf(i) {
					return true
				}
			}
			return false
		})
	}
	mirror := n.mirrorsOf(p)
	if n.copies.streams == nil || n.o.Replicas == 0 && mirror == nil && !n.mirror.planned {
		return
	}
	n.mirror.planned = mirror != nil
	if mirror == nil {
		n.mirror.to.Store(nil)
		mirror = func(uint16) int { return -1 }
	} else {
		n.mirror.to.Store(n.copies.streams)
	}
	targets := make([]handoff.Target, v.Len())
	for i := range targets {
		m := v.Member(i)
		targets[i] = handoff.Target{Peer: handoff.Peer{ID: m.ID, Boot: m.Boot}, Addr: m.Addr()}
	}
	n.copies.streams.PlanMirrors(targets, n.o.Replicas, func(slot uint16, room []int) []int {
		owner := v.Owner(slot)
		switch {
		case n.o.Replicas == 0 || owner < 0 || !n.eng.Serving(slot):
			return nil
		case !p.isSelf(owner):
			if n.copies.streams.Keeps(slot, targets[owner].Peer) {
				return append(room, owner) // until the slot is given up: it may go on with them
			}
			return nil
		}
		return v.Successors(room, slot, n.o.Replicas)
	}, mirror)
}

// sendCopies sends RC.COPY <ID of the node that is meant> <own boot> <stream>
// <number> <sent> <age> <count> <sum> <heads> [<key> [<value>] ...].
func (n *Node) sendCopies(ctx context.Context, to handoff.Peer, addr string, b *handoff.CopyBatch) (t handoff.Taken, err error) {
	num := func(u uint64) []byte { return strconv.AppendUint(nil, u, 10) }
	args := make([][]byte, 0, 10+len(b.Data))
	args = append(args, []byte("RC.COPY"), []byte(to.ID.String()), num(n.boot), num(b.Stream), num(b.Number),
		num(uint64(b.Sent)), num(uint64(b.Age)), num(uint64(b.Count)), num(b.Sum), b.Heads)
	v, err := n.copies.links.Do(ctx, addr, resp.AppendCommand(nil, append(args, b.Data...)...))
	if err != nil {
		n.failed(ctx, to.ID, err)
		return t, err
	}
	n.heard(to.ID)
	words := strings.Fields(v.Text())
	switch {
	case v.Kind == resp.Error && len(words) > 1 && words[0] == codeGap:
		want, _ := strconv.ParseUint(words[1], 10, 64)
		return t, &handoff.GapError{Want: want}
	case v.Kind == resp.Error || len(words) == 0 || words[0] != "OK":
		return t, fmt.Errorf("%w: answer %.60q to RC.COPY", errs.ErrUnavailable, v.Text())
	}
	for i := 1; i < len(words) && err == nil; i++ {
		switch words[i] {
		case copyRefused:
			if i++; i < len(words) {
				t.Refused, err = handoff.ParseRanges(words[i])
			}
		case copyHeld:
			t.Differs = true
			if i++; i < len(words) {
				t.Held, err = handoff.ParseRanges(words[i])
			}
		}
	}
	return t, err
}

// copyCommand answers RC.COPY: OK, with REFUSED and slots that this node takes no
// copies of, or HELD and those that it has copies of if the sender thinks of
// others; RCGAP and a number if the batch is not the next one.
func (n *Node) copyCommand(from topology.NodeID, args [][]byte, w *resp.Writer) {
	if string(args[1]) != n.id.String() {
		w.Error(codeNotYet + " this is node " + n.id.String())
		return
	}
	var nums [7]uint64
	for i := range nums {
		var err error
		if nums[i], err = strconv.ParseUint(string(args[2+i]), 10, 64); err != nil {
			w.Error(errNotInteger)
			return
		}
	}
	b := &handoff.CopyBatch{Stream: nums[1], Number: nums[2], Sent: int64(nums[3]), Age: int64(nums[4]),
		Count: int(nums[5]), Sum: nums[6], Heads: args[9], Data: args[10:]}
	t, err := n.copies.receiver.Take(handoff.Peer{ID: from, Boot: nums[0]}, b)
	switch gap := (*handoff.GapError)(nil); {
	case errors.As(err, &gap):
		w.Error(codeGap + " " + strconv.FormatUint(gap.Want, 10) + " is the next batch")
		return
	case err != nil:
		w.Error("ERR " + err.Error())
		return
	}
	text := "OK"
	if len(t.Refused) > 0 {
		text += " " + copyRefused + " " + handoff.FormatRanges(t.Refused)
	}
	if t.Differs {
		text += " " + copyHeld + " " + handoff.FormatRanges(t.Held)
	}
	w.Simple(text)
}

// waitCommand answers WAIT numreplicas timeout: how many successors have everything
// that was written to this node before. Without replicas there is nothing to wait
// for.
func (n *Node) waitCommand(ctx context.Context, args [][]byte, w *resp.Writer) {
	enough, ok := resp.ParseInt(args[1])
	if !ok {
		w.Error(errNotInteger)
		return
	}
	timeout, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		w.Error("ERR timeout is not an integer or out of range")
	case timeout < 0:
		w.Error("ERR timeout is negative")
	case n.copies.streams == nil || n.o.Replicas == 0:
		w.Int(0)
	default:
		d := waitMost
		if timeout > 0 && timeout < waitMost.Milliseconds() {
			d = time.Duration(timeout) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		n.waiting.Add(1)
		defer n.waiting.Add(-1)
		w.Int(int64(n.copies.streams.Wait(ctx, int(max(min(enough, topology.MaxReplicas+1), 0)))))
	}
}

// readCopy executes a command that only reads on the copies of a slot, for a
// client that takes them, if they are those of the slot's owner and have all keys:
// what a copy lacks, the owner may have. Otherwise it does nothing.
func (n *Node) readCopy(s Session, cmd *command.Command, args [][]byte, slot uint16, w *resp.Writer) bool {
	return s != nil && s.ReadOnly() && n.answerFromCopy(s, cmd, args, slot, w)
}

func (n *Node) answerFromCopy(s Session, cmd *command.Command, args [][]byte, slot uint16, w *resp.Writer) bool {
	if exec.IsEval(cmd.ID) || !readOnly(cmd, args) {
		return false
	}
	all := n.barrier.Copies()
	of, ok := all.Of(slot)
	if !ok || all.Partial(slot) {
		return false
	}
	latest, last := n.isLatest(of, slot)
	if !latest {
		return false
	}
	var room [32]int
	keys := cmd.AppendKeys(room[:0], args)
	tx := n.eng.LockAny(slot)
	has := tx.Spare()
	for _, k := range keys {
		has = has && (last || tx.Has(args[k]))
	}
	if still, ok := all.Of(slot); !has || !ok || still != of {
		tx.Unlock()
		return false
	}
	n.under(s, cmd, args, slot, tx, w)
	n.copies.reads.Add(1)
	return true
}

// isLatest tells whether a copy of a process is of what was served last: the process is
// the owner of the slot, or it is gone and this node is to take over. As long as the copy
// is here, nobody whom this node knows has opened the slot (ADR 12). In the second case it
// is all that is left: what it lacks is absent, now and when the slot is opened.
func (n *Node) isLatest(of handoff.Peer, slot uint16) (latest, last bool) {
	p := n.pub.Load()
	owner := p.view.OwnerMember(slot)
	switch {
	case owner == nil:
		return false, false
	case owner.ID == n.id:
		i, in := p.view.Index(of.ID)
		last = (!in || p.view.Member(i).Boot != of.Boot) && !n.barrier.Behind(slot)
		return last, last
	}
	return owner.ID == of.ID && owner.Boot == of.Boot, false
}

// instead asks the router, and answers from the copies that are here if the owner is
// gone, or has been silent for long and does not answer within a half of the deadline.
func (n *Node) instead(ctx context.Context, cmd *command.Command, args [][]byte) (resp.Value, error) {
	slot, any, one := slotOf(cmd, args)
	all := n.barrier.Copies()
	if _, here := all.Of(slot); !any || !one || !here || all.Partial(slot) || !readOnly(cmd, args) {
		return n.router.Do(ctx, args...)
	}
	part, silent := ctx, n.router.Silent(slot)
	if silent {
		half := n.router.Timeout() / 2
		if d, ok := ctx.Deadline(); ok {
			half = min(half, time.Until(d)/2)
		}
		var cancel context.CancelFunc
		part, cancel = context.WithTimeout(ctx, half)
		defer cancel()
	}
	v, err := n.router.Do(part, args...)
	if err == nil || !errors.Is(err, errs.ErrUnavailable) || ctx.Err() != nil || !silent && !link.Refused(err) {
		return v, err
	}
	w := resp.Writer{Proto: 3}
	if !n.answerFromCopy(nil, cmd, args, slot, &w) {
		return v, err
	}
	return parseReply(w.Buf)
}

func parseReply(b []byte) (resp.Value, error) {
	var parser resp.ReplyParser
	v, _, err := parser.Next(b, nil)
	return v, err
}

// installCopies gives the router the table of a View with the places of copies.
// Those here are not among them: see instead.
func (n *Node) installCopies(p *published) {
	if n.router == nil || n.o.Replicas == 0 {
		return
	}
	addrs := make([]string, p.view.Len())
	for i := range addrs {
		addrs[i] = p.view.Member(i).Addr()
	}
	var runs []link.Owned
	for _, r := range p.view.Ranges() {
		for slot := int(r.First); slot <= int(r.Last); slot++ {
			next := ""
			if i := p.view.Successor(uint16(slot)); i >= 0 && !p.isSelf(i) {
				next = addrs[i]
			}
			if k := len(runs) - 1; k >= 0 && int(runs[k].Last)+1 == slot && runs[k].Addr == addrs[r.Owner] && runs[k].Copy == next {
				runs[k].Last = uint16(slot)
				continue
			}
			runs = append(runs, link.Owned{First: uint16(slot), Last: uint16(slot), Addr: addrs[r.Owner], Copy: next})
		}
	}
	n.viewMu.Lock()
	defer n.viewMu.Unlock()
	if n.pub.Load() != p {
		return // there is a later View, and its routes
	}
	if err := n.router.Install(runs); err != nil {
		n.log.Warn("routes of the new view", "error", err)
	}
}

// infoCopies tells how far the copies are: lag is what was written here and not
// acknowledged by a successor yet.
func (n *Node) infoCopies(t *infoText) {
	var f handoff.StreamFigures
	if n.copies.streams != nil {
		f = n.copies.streams.Figures()
	}
	r := n.copies.receiver.Figures()
	var keys, sent uint64
	var ms int64
	slots, full := 0, 0
	f.Targets = slices.DeleteFunc(f.Targets, func(to handoff.TargetFigures) bool { return to.Slots == 0 && to.Mirrors > 0 })
	for _, to := range f.Targets {
		keys, sent, slots, full = keys+to.LagKeys, sent+to.Sent, slots+to.Slots, full+to.Full
		ms = max(ms, to.LagMs)
	}
	t.add("ringcache_replicas", n.o.Replicas)
	t.add("ringcache_replica_targets", len(f.Targets))
	t.add("ringcache_replica_lag_keys", keys)
	t.add("ringcache_replica_lag_ms", ms)
	t.add("ringcache_replica_slots", slots) // each counted for each copy
	t.add("ringcache_replica_slots_complete", full)
	t.add("ringcache_replica_sent", sent)
	t.add("ringcache_replica_resyncs", f.Resyncs)
	t.add("ringcache_replica_lost", f.Lost) // changes that were not read in time
	t.add("ringcache_replica_held_slots", r.Slots)
	t.add("ringcache_replica_stored", r.Stored)
	t.add("ringcache_replica_refused", r.Refused)
	t.add("ringcache_replica_gaps", r.Gaps)
	t.add("ringcache_replica_reads", n.copies.reads.Load())
	t.add("ringcache_replica_takeovers", n.barrier.TakenOver()) // slots
	t.add("ringcache_mirror_reads", n.mirror.share.Load())      // per cent
	t.add("ringcache_mirror_sent", f.Mirrored)                  // values
	t.add("ringcache_handoff_kept_slots", n.barrier.Kept())     // that came with copies which were the latest
	for i, to := range f.Targets {
		t.add(fmt.Sprintf("ringcache_replica%d", i), fmt.Sprintf("addr=%s,slots=%d,complete=%d,lag_keys=%d,lag_ms=%d,sent=%d,filled=%d",
			to.Addr, to.Slots, to.Full, to.LagKeys, to.LagMs, to.Sent, to.Filled))
	}
}
