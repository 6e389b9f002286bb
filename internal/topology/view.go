// Package topology owns the values that say who is in a cluster and who owns
// which slot: node IDs, members, and the View, with its canonical encoding,
// hash, epoch, ranges, successors, merge and difference.
//
// It never opens a connection, reads a clock or starts a goroutine, and it
// decides nothing about who is alive.
//
// A View is immutable and safe for any number of concurrent readers; whoever
// publishes one does so through an atomic pointer. The table of successors
// is the only thing that a View computes after NewView: once, at the first
// question, behind a sync.Once, because it costs one placement per owner and
// most views are replaced before anybody asks. Members and pins are plain
// values; the functions on them are pure.
package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
)

// Params are the ring parameters, which all members of a cluster must share.
// They are comparable with ==; WithDefaults makes equal what means the same.
type Params struct {
	Placement string  `json:"placement"` // "" means "ring"
	Tokens    int     `json:"tokens"`    // 0 means ring.DefaultTokens
	Bound     float64 `json:"bound"`     // 0 means ring.DefaultBound
}

// WithDefaults returns p with its zero fields replaced by the defaults.
func (p Params) WithDefaults() Params {
	if p.Placement == "" {
		p.Placement = ring.NameRing
	}
	rp := ring.Params{Tokens: p.Tokens, Bound: p.Bound}.WithDefaults()
	p.Tokens, p.Bound = rp.Tokens, rp.Bound
	return p
}

// NewPlacement returns the built-in placement that p describes.
func (p Params) NewPlacement() (ring.Placement, error) {
	return ring.New(p.Placement, ring.Params{Tokens: p.Tokens, Bound: p.Bound})
}

// String names the parameters for messages, as in
// "placement ring, 160 tokens, bound 1.05".
func (p Params) String() string {
	return "placement " + p.Placement + ", " + strconv.Itoa(p.Tokens) + " tokens, bound " +
		strconv.FormatFloat(p.Bound, 'g', -1, 64)
}

// OwnedRange is a maximal run of slots with one owner. First and Last are
// inclusive; Owner is a member index.
type OwnedRange struct {
	First, Last uint16
	Owner       int
}

// View is one state of the cluster: its members and the owner of every slot.
type View struct {
	params   Params
	members  []Member // sorted by ID, each ID once
	pins     []ring.Pin
	encoding []byte // canonical; hash is that of these bytes
	hash     uint64
	epoch    Epoch
	owners   ring.Table // member indexes
	counts   []int      // slots per member
	ranges   []OwnedRange

	place ring.Placement

	successorsOnce sync.Once
	successors     *ring.Table // member indexes; set by successorsOnce
}

// NewView sorts and copies members and pins and places the slots. Members own
// slots by their Presence: Active ones all that the placement gives them,
// Warming and Draining ones a part that grows with their progress, others
// nothing. Where nobody with weight is present in full, those that are present in
// part own all. A member of weight 0 owns only what is pinned to it. A pin whose
// node is not present is kept and has no effect until it is. Of several pins for
// one slot the last one counts whose node is present, in each group of slots that
// changes hands together, and of the others the last one when that node is gone; those
// before two that are present in full are left out.
//
// p is what the view tells others and place, which must have the name that p
// says, is what it uses; nil means the built-in placement that p describes. The
// error wraps errs.ErrConfig and names every fault of every member and pin.
func NewView(p Params, place ring.Placement, members []Member, pins []ring.Pin) (*View, error) {
	v := &View{params: p.WithDefaults(), place: place, members: slices.Clone(members)}
	slices.SortStableFunc(v.members, func(a, b Member) int { return a.ID.Compare(b.ID) })
	var pinFault error
	v.pins, pinFault = v.canonicalPins(pins)
	if fault := errors.Join(v.checkParams(), v.checkMembers(), pinFault); fault != nil {
		return nil, fmt.Errorf("%w: view: %w", errs.ErrConfig, fault)
	}
	v.encoding = appendView(nil, v.params, v.members, v.pins)
	v.hash = xxh3.Hash(v.encoding)
	for i := range v.members {
		v.epoch = max(v.epoch, Epoch(v.members[i].Sequence))
	}
	if err := v.placeSlots(); err != nil {
		return nil, err
	}
	return v, nil
}

// checkParams returns all faults of the parameters and sets place if it is nil.
func (v *View) checkParams() error {
	p := v.params
	fault := ring.Params{Tokens: p.Tokens, Bound: p.Bound}.Validate()
	if len(p.Placement) > maxPlacement || !printable(p.Placement) {
		fault = errors.Join(fault, fmt.Errorf("placement %q is not a name of at most %d characters", p.Placement, maxPlacement))
	}
	switch {
	case v.place != nil && v.place.Name() != p.Placement:
		// Else two nodes could agree about the hash and not about owners.
		fault = errors.Join(fault, fmt.Errorf("placement %q is given for %q", v.place.Name(), p.Placement))
	case v.place == nil && fault == nil:
		v.place, fault = p.NewPlacement()
	}
	return fault
}

// checkMembers returns all faults of the sorted members.
func (v *View) checkMembers() error {
	var faults []error
	if len(v.members) > MaxMembers {
		faults = append(faults, fmt.Errorf("%d members, limit %d", len(v.members), MaxMembers))
	}
	for i := range v.members {
		m := &v.members[i]
		*m = m.Canonical()
		if err := m.Validate(); err != nil {
			faults = append(faults, err)
		}
		if i > 0 && m.ID == v.members[i-1].ID {
			faults = append(faults, fmt.Errorf("member %s is given twice", m.ID))
		}
	}
	return errors.Join(faults...)
}

// maxChoices bounds the pins of one slot in a view, maxViewPins those of all: one for
// each member that changes, one behind these, and its successor.
const (
	maxChoices  = maxChanging + 2
	maxViewPins = ring.Slots * maxChoices
)

// canonicalPins sorts by slot, leaves out those that cannot count and writes node IDs
// in lower case. It runs after the members have been sorted.
func (v *View) canonicalPins(pins []ring.Pin) ([]ring.Pin, error) {
	var faults []error
	if len(pins) > maxViewPins {
		return nil, fmt.Errorf("%d pins, limit %d", len(pins), maxViewPins)
	}
	out := slices.Clone(pins)
	for i, p := range out {
		id, err := parseNodeID(p.Node)
		if err != nil {
			faults = append(faults, fmt.Errorf("pin of slot %d: %w", p.Slot, err))
		}
		if p.Slot >= ring.Slots {
			faults = append(faults, fmt.Errorf("pin of slot %d: the last slot is %d", p.Slot, ring.Slots-1))
		}
		out[i].Node = id.String()
	}
	slices.SortStableFunc(out, func(a, b ring.Pin) int { return cmp.Compare(a.Slot, b.Slot) })
	full := map[string]bool{}
	for i := range v.members {
		if m := &v.members[i]; m.Presence() == 1 {
			full[m.ID.String()] = true
		}
	}
	var kept []ring.Pin
	for begin := 0; begin < len(out); {
		end := begin + 1
		for end < len(out) && out[end].Slot == out[begin].Slot {
			end++
		}
		first, sure := len(kept), 0
		for k := end - 1; k >= begin && sure < 2; k-- {
			if slices.Contains(kept[first:], out[k]) {
				continue // it counts before
			}
			kept = append(kept, out[k])
			if full[out[k].Node] {
				sure++
			}
		}
		slices.Reverse(kept[first:])
		begin = end
	}
	return kept, errors.Join(faults...)
}
