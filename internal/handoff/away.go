package handoff

import (
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/topology"
)

const (
	// awayFor is how long content from before an absence waits for its proof.
	awayFor = time.Minute
	// awayMost is how many entries wait at most, in whole slots. Logs are applied, and
	// what is not proved is dropped, while nobody serves the slots and with agreements
	// that grow old: at about a microsecond for each.
	awayMost = 1 << 18
	appliers = 8  // goroutines that apply logs at most
	openTell = 64 // slots opened until those who wait for one are told
)

// away is what this node held when it found that it had not been a member for a
// while. Nothing of it is served before every member that it had then has testified.
type away struct {
	slots   Set
	members []Peer // when it was away
	hash    uint64
	until   time.Time
	said    map[topology.NodeID]*said // with agreements to Asks of the current targets
}

// said is a Testimony, by slot.
type said struct {
	heirs map[uint16]Peer
	logs  map[uint16]engine.TouchLog
}

// keep tells whether content from before an absence of that length could be proved at
// all: the members have been the same since before it, and all of them had agreed to
// what is served here.
func (b *Barrier) keep(silence time.Duration) bool {
	_, can := b.slots.(logs)
	return can && len(b.strangers) == 0 && len(b.cur.Members) > 1 && b.now().Sub(b.formed) > silence
}

// noteMembers follows the set of members.
func (b *Barrier) noteMembers(t *Targets) {
	if b.cur == nil || !slices.Equal(b.cur.Members, t.Members) {
		b.formed = b.now()
	}
}

// keepAway drops, before new targets are adopted, what they leave without a proof.
func (b *Barrier) keepAway(t *Targets) {
	x := b.away
	if x == nil {
		return
	}
	x.said = nil
	if !slices.Equal(t.Members, x.members) {
		b.dropAway()
		return
	}
	x.slots.Each(func(slot uint16) {
		if owner, ok := t.owner(slot); !ok || owner != b.self {
			b.loseAway(slot)
		}
	})
}

func (b *Barrier) loseAway(slot uint16) {
	b.away.slots.Remove(slot)
	b.slots.DropSlot(slot)
	b.unreturned++
}

// dropAway drops all content from before an absence.
func (b *Barrier) dropAway() {
	if b.away != nil {
		b.away.slots.Each(b.loseAway)
		b.away = nil
	}
}

// Told notes what a member, with its agreement, says of the time when this node was
// away. It must be called before Offered and Agreed.
func (b *Barrier) Told(a Ask, t *Testimony) {
	if b.away == nil || !b.isPending(a) {
		return
	}
	if b.away.said == nil {
		b.away.said = map[topology.NodeID]*said{}
	}
	x := &said{heirs: map[uint16]Peer{}, logs: map[uint16]engine.TouchLog{}}
	b.away.said[a.To] = x
	if t == nil {
		return
	}
	for _, h := range t.Heirs {
		for _, r := range h.Ranges {
			for s := int(r.First); s <= int(r.Last); s++ {
				x.heirs[uint16(s)] = h.Peer
			}
		}
	}
	for _, l := range t.Logs {
		x.logs[l.Slot] = engine.TouchLog{Seed: t.Seed, Check: t.Check, Prints: l.Prints}
	}
}

// hasLog tells whether a member has said, with its last agreement, what it has touched
// in a slot with content from before an absence.
func (b *Barrier) hasLog(slot uint16, by topology.NodeID) bool {
	if b.away == nil || !b.away.slots.Has(slot) || b.away.said[by] == nil {
		return false
	}
	_, ok := b.away.said[by].logs[slot]
	return ok
}

// proof returns the log of the one member that has owned a slot since this node did;
// false if it is not the only one by the word of every other.
func (b *Barrier) proof(slot uint16) (log engine.TouchLog, ok bool) {
	var heir Peer
	for _, m := range b.cur.Members {
		if b.hasLog(slot, m.ID) {
			if heir != (Peer{}) {
				return log, false
			}
			heir, log = m, b.away.said[m.ID].logs[slot]
		}
	}
	for _, m := range b.cur.Members {
		if m.ID == b.self || m == heir {
			continue
		}
		s := b.away.said[m.ID]
		if s == nil || s.heirs[slot] != heir {
			return log, false
		}
	}
	from, offered := b.offers[slot]
	return log, heir != (Peer{}) && (!offered || from.Peer == heir)
}

// takeAway decides, just before gained slots are opened, what becomes of content from
// before an absence. The other members have agreed by now. What is not proved goes; of
// what is proved openAway gets the logs.
func (b *Barrier) takeAway() map[uint16]engine.TouchLog {
	b.beside = nil
	if b.away == nil {
		return nil
	}
	proved := map[uint16]engine.TouchLog{}
	b.away.slots.Each(func(slot uint16) {
		if log, ok := b.proof(slot); ok && b.gained.Has(slot) {
			proved[slot] = log
			return
		}
		b.loseAway(slot)
	})
	b.away = nil
	return proved
}

// openAway opens the slots whose content from before an absence is proved. Of that the
// keys go that the heir has touched, which takes a microsecond for each entry while nobody
// serves them; so several goroutines look, and each slot is opened as soon as it is done.
func (b *Barrier) openAway(proved map[uint16]engine.TouchLog) {
	if len(proved) == 0 {
		return
	}
	type outcome struct {
		slot uint16
		kept bool
	}
	slots := slices.Sorted(maps.Keys(proved))
	done, next := make(chan outcome, 2*appliers), atomic.Int64{}
	var wg sync.WaitGroup
	for range min(appliers, runtime.GOMAXPROCS(0)) {
		wg.Go(func() { // ends when no slot is left
			for i := next.Add(1) - 1; i < int64(len(slots)); i = next.Add(1) - 1 {
				done <- outcome{slots[i], b.slots.(logs).RemoveLogged(slots[i], proved[slots[i]])}
			}
		})
	}
	b.beside = new(Set)
	for i := range slots {
		o := <-done
		if o.kept {
			b.beside.Add(o.slot)
			b.returned++
		} else {
			b.slots.DropSlot(o.slot)
			b.unreturned++
		}
		b.open(o.slot)
		if i%openTell == 0 {
			b.opening()
		}
	}
	wg.Wait()
}

// Returned is the number of slots with content from before an absence that waits for
// its proof, and how many have kept it and lost it since the start.
func (b *Barrier) Returned() (waiting, kept, lost int) {
	if b.away != nil {
		waiting = b.away.slots.Len()
	}
	return waiting, b.returned, b.unreturned
}
