package node

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// fleetView is a View of n members as they are in a data centre.
func fleetView(t testing.TB, n int, params topology.Params, place ring.Placement) (*topology.View, membership.Snapshot) {
	var members []topology.Member
	var snap membership.Snapshot
	for i := range n {
		h := uint64(i+1) * 0x9E3779B97F4A7C15
		id := topology.NodeID{8: 1}
		for k := range 8 {
			id[k] = byte(h >> (8 * k))
		}
		m := topology.Member{ID: id, Boot: 1 << 40, Sequence: 7, State: topology.Active, Weight: 1, Zone: "eu-1a",
			Host: fmt.Sprintf("10.20.%d.%d", i/250, i%250+1), Port: 7001, Gossip: fmt.Sprintf("10.20.%d.%d:17001", i/250, i%250+1)}
		members = append(members, m)
		snap.Members = append(snap.Members, membership.Peer{Member: m})
	}
	v, err := topology.NewView(params, place, members, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v, snap
}

// TestSimScaleViews gives the second table of docs/scale.md: what a View costs, and
// how large the replies are that clients get of it.
func TestSimScaleViews(t *testing.T) {
	if os.Getenv("RINGCACHE_SIM_SCALE") == "" {
		t.Skip("a long measurement: make sim-scale")
	}
	params := topology.Params{}.WithDefaults()
	place, err := params.NewPlacement()
	if err != nil {
		t.Fatal(err)
	}
	even, err := topology.Params{Placement: "contiguous"}.NewPlacement()
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{clock: newClock(nil)}
	t.Log("| N | a View | its targets | ranges | CLUSTER SLOTS | encoded in | CLUSTER SHARDS | CLUSTER NODES | RC.VIEW | CLUSTER SLOTS, contiguous |")
	for _, size := range []int{3, 10, 30, 100, 300, 1000} {
		v, snap := fleetView(t, size, params, place)
		members := v.Members()
		view := best(func() {
			if _, err := topology.NewView(params, place, members, nil); err != nil {
				t.Error(err)
			}
		})
		targets := best(func() { handoff.TargetsOf(v) })
		p := n.newPublished(v, snap, nil)
		encode := best(func() { n.newPublished(v, snap, nil).reply(replySlots, 2) })
		flat, _ := fleetView(t, size, topology.Params{Placement: "contiguous"}.WithDefaults(), even)
		t.Logf("| %d | %s | %s | %d | %s | %s | %s | %s | %s | %s |", size, view, targets, len(v.Ranges()),
			kib(len(p.reply(replySlots, 2))), encode, kib(len(p.reply(replyShards, 2))), kib(len(p.reply(replyNodes, 2))), kib(len(v.AppendBinary(nil))),
			kib(len(n.newPublished(flat, snap, nil).reply(replySlots, 2))))
		if len(v.Ranges()) < size {
			t.Errorf("%d members have %d ranges", size, len(v.Ranges()))
		}
	}
}

func kib(n int) string { return fmt.Sprintf("%.1f KiB", float64(n)/1024) }

// best is the least processor time of some runs.
func best(run func()) time.Duration {
	least := time.Hour
	for range 15 {
		user, system := cpuSeconds()
		run()
		user2, system2 := cpuSeconds()
		least = min(least, time.Duration((user2+system2-user-system)*float64(time.Second)))
	}
	return least.Round(10 * time.Microsecond)
}
