package ringcache_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache"
)

// halves gives the lower half of the slots to the first node with weight, and the
// others to the last one.
type halves struct{}

func (halves) Name() string { return "halves" }

func (halves) Place(nodes []ringcache.SlotNode, t *ringcache.SlotTable) {
	first, last := ringcache.NoOwner, ringcache.NoOwner
	for i, n := range nodes {
		if n.Weight <= 0 {
			continue
		}
		if first == ringcache.NoOwner {
			first = i
		}
		last = i
	}
	for s := range t {
		t[s] = uint16(first)
		if s >= ringcache.Slots/2 {
			t[s] = uint16(last)
		}
	}
}

// A placement of the program: every node of the cluster needs the same.
func ExampleSlotPlacement() {
	a, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", PlaceSlots: halves{}})
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	b, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", PlaceSlots: halves{}, Seeds: []string{a.Addr()}})
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()
	ctx := context.Background()
	if err := a.Set(ctx, "shared", []byte("by both"), time.Minute); err != nil {
		log.Fatal(err)
	}
	value, err := b.Get(ctx, "shared")
	fmt.Printf("%s %v\n", value, err)
	for line := range strings.SplitSeq(b.ClusterInfo(), "\r\n") {
		if strings.HasPrefix(line, "cluster_size:") {
			fmt.Println(line)
		}
	}
	// Output:
	// by both <nil>
	// cluster_size:2
}

type badPlacement struct {
	name  string
	place func(nodes []ringcache.SlotNode, t *ringcache.SlotTable)
}

func (p badPlacement) Name() string                                             { return p.name }
func (p badPlacement) Place(nodes []ringcache.SlotNode, t *ringcache.SlotTable) { p.place(nodes, t) }

func TestPlaceSlots(t *testing.T) {
	all := func(v uint16) func([]ringcache.SlotNode, *ringcache.SlotTable) {
		return func(_ []ringcache.SlotNode, t *ringcache.SlotTable) {
			for s := range t {
				t[s] = v
			}
		}
	}
	for _, tc := range []struct {
		what  string
		given string
		p     badPlacement
		want  string
	}{
		{"a built-in name", "", badPlacement{"modulo", all(0)}, "needs a name of its own"},
		{"two names", "ring", badPlacement{"mine", all(0)}, "leave Placement empty"},
		{"out of range", "", badPlacement{"mine", all(1)}, "gives slot 0 to node 1 of 1"},
		{"slots left out", "", badPlacement{"mine", func([]ringcache.SlotNode, *ringcache.SlotTable) {}}, "the same owner each time"},
		{"not a function", "", badPlacement{"mine", func(_ []ringcache.SlotNode, t *ringcache.SlotTable) {
			for s := range t {
				t[s] = uint16(rand.IntN(60000))
			}
		}}, "the same owner each time"},
	} {
		_, err := ringcache.Open(ringcache.Options{Placement: tc.given, PlaceSlots: tc.p})
		if !errors.Is(err, ringcache.ErrConfig) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.what, err, tc.want)
		}
	}
	a, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", PlaceSlots: halves{}})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	_, err = ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", Seeds: []string{a.Addr()}, JoinTimeout: 20 * time.Second})
	if !errors.Is(err, ringcache.ErrMismatch) || !strings.Contains(err.Error(), "placement halves") {
		t.Errorf("a node with another placement joins: %v", err)
	}
}
