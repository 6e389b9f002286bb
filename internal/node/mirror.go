package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/topology"
)

// While another node joins in steps, a share of the reads of slots that its next
// steps will bring it is mirrored there: it gets the values of these keys, and their
// changes, before it takes the slots over. See handoff.Streams.

// mirrorAhead is how many steps of a joiner, as many as this node would take, are
// mirrored before they are taken.
const mirrorAhead = 2

// mirrors is what this node mirrors.
type mirrors struct {
	share atomic.Int32 // per cent of reads
	// to is set while there is a joiner; reads look at nothing else otherwise.
	to atomic.Pointer[handoff.Streams]

	// For copyLoop only:
	planned bool
	now     *topology.View // of which next is what follows
	next    *topology.View
}

// validMirror checks a share of reads, in per cent.
func validMirror(share int) error {
	if share < 0 || share > 100 {
		return fmt.Errorf("%w: %d %% of reads mirrored, must be 0 to 100", errs.ErrConfig, share)
	}
	return nil
}

func (n *Node) setMirror(share int) {
	n.mirror.share.Store(int32(share))
	select {
	case n.copies.again <- struct{}{}:
	default: // copyLoop will look anyway
	}
}

// mirrorPace is the pace of what is taken over unasked, for what is sent unasked.
func (n *Node) mirrorPace() (keys, bytes int64) {
	if n.transfer.Paused() {
		return 0, 0
	}
	return n.transfer.Rate()
}

// mirroring tells whether reads are to be noted: one atomic load.
func (n *Node) mirroring() bool { return n.mirror.to.Load() != nil }

// noteReads is noteRead for the keys of a command that has been executed.
func (n *Node) noteReads(cmd *command.Command, args [][]byte, slot uint16) {
	if !readOnly(cmd, args) {
		return
	}
	var room [32]int
	for _, k := range cmd.AppendKeys(room[:0], args) {
		n.noteRead(slot, args[k])
	}
}

// noteRead notes that a key was read here. It is borrowed.
func (n *Node) noteRead(slot uint16, key []byte) {
	if s, share := n.mirror.to.Load(), n.mirror.share.Load(); s != nil && (share >= 100 || rand.Int32N(100) < share) {
		s.Read(slot, key)
	}
}

// joiner returns the index of the member that is joining in steps and takes them
// before the others that do; below 0 if there is none.
func joiner(v *topology.View, self topology.NodeID) int {
	best := -1
	for i := range v.Len() { // by ID
		m := v.Member(i)
		if m.State != topology.Warming || m.ID == self || m.Presence() >= 1 {
			continue
		}
		if best < 0 || rankOf(m) < rankOf(v.Member(best)) {
			best = i
		}
	}
	return best
}

// mirrorsOf returns where reads of a slot are mirrored, as an index into the members
// of a View, below 0 for nowhere; nil if no slot has such a place. For copyLoop only.
func (n *Node) mirrorsOf(p *published) func(slot uint16) int {
	v := p.view
	to := joiner(v, n.id)
	if to < 0 || n.mirror.share.Load() == 0 || n.copies.streams == nil {
		n.mirror.now, n.mirror.next = nil, nil
		return n.mirrorsLeft(p)
	}
	if n.mirror.now != v {
		members := append([]topology.Member(nil), v.Members()...)
		m := &members[to]
		for range mirrorAhead {
			m.Progress = stepUp(m.Progress, n.o.Steps.Join)
		}
		next, err := topology.NewView(n.o.Params, n.place, members, n.pinsOf(members))
		if err != nil {
			n.log.Warn("cannot tell what a joining node takes over next", "error", err)
			return nil
		}
		n.mirror.now, n.mirror.next = v, next
	}
	next, id := n.mirror.next, v.Member(to).ID
	return func(slot uint16) int {
		owner := v.Owner(slot)
		if m := next.OwnerMember(slot); m != nil && m.ID == id && owner >= 0 && (p.isSelf(owner) || owner == to) && n.eng.Serving(slot) {
			return to
		}
		return -1
	}
}

// mirrorsLeft goes on with mirrors of slots that this node is about to give up; nil if
// there are none: the last step of a join ends it.
func (n *Node) mirrorsLeft(p *published) func(slot uint16) int {
	if _, lost := n.barrier.Progress(); lost == 0 || !n.mirror.planned {
		return nil
	}
	return func(slot uint16) int {
		owner := p.view.Owner(slot)
		if owner < 0 || p.isSelf(owner) || !n.eng.Serving(slot) {
			return -1
		}
		if m := p.view.Member(owner); !n.copies.streams.Mirrors(slot, handoff.Peer{ID: m.ID, Boot: m.Boot}) {
			return -1
		}
		return owner
	}
}

// mirrorPause gives the owners time to mirror what is read before a step of this
// node. False: the change is over.
func (n *Node) mirrorPause(ctx context.Context) bool {
	if n.mirror.share.Load() == 0 {
		return true
	}
	t := time.NewTimer(stepPause)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// mirrorReadsParam is CONFIG SET mirror-reads.
var mirrorReadsParam = variable{
	key: "mirror-reads",
	get: func(n *Node) string { return strconv.Itoa(int(n.mirror.share.Load())) },
	check: func(n *Node, v string) (func() error, error) {
		share, err := strconv.Atoi(v)
		if err != nil || validMirror(share) != nil {
			return nil, errors.New("argument must be between 0 and 100 inclusive")
		}
		return func() error { n.setMirror(share); return nil }, nil
	},
}
