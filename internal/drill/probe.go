package drill

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/child"
	"github.com/ringcache/ringcache/internal/ring"
)

// slotTimes are the times from a fault to the first call of a slot that succeeded.
type slotTimes struct {
	times      []time.Duration
	unanswered int
}

// Sampling of slots: all of a node's would be a load of its own.
const (
	sampledSlots = 256
	probeGap     = 5 * time.Millisecond
	probeLimit   = 20 * time.Second // after the nodes have settled: clients may learn it later
)

// probe calls one key of a sample of the slots that a node owned (nil: of all)
// until each was answered, from begun on. stop waits for that, for probeLimit at most.
func (r *run) probe(ctx context.Context, owner *node, begun time.Time) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for _, key := range r.sample(owner) {
		wg.Go(func() { r.probeSlot(ctx, key, begun) }) // ends with the first answer, or with ctx
	}
	return func() {
		t := time.AfterFunc(probeLimit, cancel)
		defer t.Stop()
		defer cancel()
		wg.Wait()
	}
}

func (r *run) probeSlot(ctx context.Context, key string, begun time.Time) {
	for i := 0; ; i++ {
		_, _, err := r.main.client(i).Get(ctx, key)
		if err == nil || child.Pause(ctx, probeGap) != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			if err != nil {
				r.slots.unanswered++
				return
			}
			r.slots.times = append(r.slots.times, time.Since(begun))
			return
		}
	}
}

// sample draws keys of slots that a node owned before the fault.
func (r *run) sample(owner *node) []string {
	r.mu.Lock()
	table := r.owners
	r.mu.Unlock()
	var of []uint16
	for _, o := range table {
		for slot := o.first; slot <= o.last && (owner == nil || o.owner == owner.addr); slot++ {
			of = append(of, uint16(slot))
		}
	}
	r.rnd.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
	of = of[:min(len(of), sampledSlots)]
	keys := make([]string, len(of))
	for i, slot := range of {
		keys[i] = r.probes[slot]
	}
	return keys
}

// slotKeys gives a key of every slot. They are stored before the load: of a key that is
// absent a copy says nothing.
func slotKeys() []string {
	keys := make([]string, ring.Slots)
	for i, left := 0, len(keys); left > 0; i++ {
		key := "p:" + strconv.Itoa(i)
		if slot := ring.SlotString(key); keys[slot] == "" {
			keys[slot] = key
			left--
		}
	}
	return keys
}
