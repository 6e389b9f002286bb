package membership

import (
	"slices"
	"strings"

	"github.com/ringcache/ringcache/internal/topology"
)

// What depends on the set of peers is kept up to date one ID at a time: which
// incarnation counts, how many members there are, and whom this node watches. So
// news of one peer cost the same in a large cluster, but for one move of the order.

// add takes a new peer.
func (p *policy) add(q *peer) {
	p.compact()
	p.peers[q.name] = q
	i, _ := slices.BinarySearchFunc(p.order, q.name, byName)
	p.order = slices.Insert(p.order, i, q)
}

// remove forgets a peer; reindex of its ID must follow.
func (p *policy) remove(q *peer) {
	delete(p.peers, q.name)
	q.removed, p.holes = true, true
}

// compact drops the removed ones from the order. It must not run inside each.
func (p *policy) compact() {
	if p.holes {
		p.order, p.holes = slices.DeleteFunc(p.order, func(q *peer) bool { return q.removed }), false
	}
}

func byName(q *peer, name string) int { return strings.Compare(q.name, name) }

// reindex decides which incarnation of an ID counts: a living one before a dead one,
// then the later.
func (p *policy) reindex(id topology.NodeID) {
	before := p.current[id]
	delete(p.current, id)
	if before != nil && before.counted { // it may have been removed
		before.counted = false
		p.members--
	}
	prefix := id.String()
	i, _ := slices.BinarySearchFunc(p.order, prefix, byName)
	var best *peer
	for ; i < len(p.order) && p.order[i].member.ID == id; i++ {
		q := p.order[i]
		if q.removed || q.left || p.twin(q) {
			continue
		}
		if best == nil || best.dead && !q.dead || best.dead == q.dead && q.member.Boot > best.member.Boot {
			best = q
		}
	}
	if best != nil {
		p.current[id] = best
		if !best.dead {
			best.counted = true
			p.members++
			if before != nil && before != best {
				best.forced, best.nextDial = true, p.lastTick // it stood back until now
			}
		}
	}
	p.watch()
	p.dirty = true
}

// watch chooses the next living members by ID.
func (p *policy) watch() {
	for _, q := range p.watches {
		q.watched = false
	}
	p.watches = p.watches[:0]
	first, _ := slices.BinarySearchFunc(p.order, p.self.ID.String(), byName)
	for i := range p.order {
		q := p.order[(first+i)%len(p.order)]
		if q.removed || q.dead || p.current[q.member.ID] != q {
			continue
		}
		q.watched = true
		if p.watches = append(p.watches, q); len(p.watches) == watchedPeers {
			return
		}
	}
}
