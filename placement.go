package ringcache

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringcache/ringcache/internal/ring"
)

// validatePlacement refuses a placement that does not exist or must not be used.
func (o Options) validatePlacement() error {
	if o.PlaceSlots == nil {
		_, err := ring.New(o.Placement, ring.Params{Tokens: o.Tokens, Bound: o.Bound})
		return err
	}
	if err := checkPlacement(o.Placement, o.PlaceSlots); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return nil
}

// checkPlacement refuses a placement that other nodes would take for another one,
// or that is no function of the nodes: it is asked twice about some.
func checkPlacement(name string, p SlotPlacement) error {
	switch {
	case name != p.Name():
		return fmt.Errorf("placement is %q, but PlaceSlots is called %q: leave Placement empty", name, p.Name())
	case slices.Contains(ring.Names(), name) || name == "":
		return fmt.Errorf("PlaceSlots is called %q: it needs a name of its own, not one of %s", name, strings.Join(ring.Names(), ", "))
	}
	nodes := []SlotNode{}
	for i := range 3 {
		nodes = append(nodes, SlotNode{ID: strings.Repeat(fmt.Sprint(i+1), 40), Weight: 1})
		var first, again SlotTable
		p.Place(slices.Clone(nodes), &first)
		for s := range again {
			again[s] = uint16(s) // what Place leaves alone shows
		}
		p.Place(slices.Clone(nodes), &again)
		for s, owner := range first {
			switch {
			case owner != again[s]:
				return fmt.Errorf("PlaceSlots %q gives slot %d of %d nodes to node %d, then to node %d: it must give each slot the same owner each time", name, s, len(nodes), owner, again[s])
			case owner != NoOwner && int(owner) >= len(nodes):
				return fmt.Errorf("PlaceSlots %q gives slot %d to node %d of %d", name, s, owner, len(nodes))
			}
		}
	}
	return nil
}
