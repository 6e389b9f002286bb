// Package ring owns the placement of the 16384 slots on nodes: the slot of a
// key, the tokens of a node, the bounded-load assignment, pins, the successor
// of a slot, the exact ranges that a change affects, and the figures that say
// how even and how stable a placement is.
//
// Placement is a pure function of the nodes and their weights: every process
// that knows the same nodes computes the same table, on every architecture.
// Everything that decides an owner is therefore integer arithmetic. It is
// computed once per membership change; the path of a request only reads a
// table that is already there.
//
// The package never reads a clock, opens a connection or starts a goroutine.
// All values are plain data: whoever shares a Table between goroutines must
// stop writing it first. A Placement from New is safe for concurrent use.
package ring

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ringcache/ringcache/internal/errs"
)

const (
	// Slots is the number of slots of a cluster, as in Redis Cluster.
	Slots = 16384
	// NoOwner stands in a Table for a slot that belongs to nobody.
	NoOwner = 0xFFFF
	// MaxNodes is the greatest number of nodes that a Table can name.
	MaxNodes = NoOwner
	// DefaultTokens is the number of tokens of a node of weight 1.
	DefaultTokens = 160
	// MaxTokens is the greatest number of tokens of a node of weight 1.
	MaxTokens = 4096
	// DefaultBound is the load that no node exceeds, over its fair share.
	DefaultBound = 1.05
	// MaxWeight is the greatest weight; placements treat more as this much.
	MaxWeight = 100
)

// Node is one candidate owner.
type Node struct {
	// ID is the node ID, 40 hex digits; the tokens derive from it alone.
	ID string
	// Weight is the node's share relative to the others'. 0 (and anything that
	// is not positive) owns nothing; above MaxWeight counts as MaxWeight. The
	// resolution is one millionth.
	Weight float64
}

// Table names the owner of every slot as an index into the nodes that were
// placed, or NoOwner.
type Table [Slots]uint16

// Clear gives every slot to nobody.
func (t *Table) Clear() {
	for i := range t {
		t[i] = NoOwner
	}
}

// Params are the parameters of a placement. The zero value is the default.
type Params struct {
	// Tokens is the number of tokens of a node of weight 1; 0 means
	// DefaultTokens, the limit is MaxTokens. Only the two rings use it.
	Tokens int
	// Bound is the greatest load of a node over its fair share, at least 1;
	// 0 means DefaultBound and +Inf means no bound. Only "ring" uses it.
	Bound float64
}

// WithDefaults returns p with its zero fields replaced by the defaults.
func (p Params) WithDefaults() Params {
	if p.Tokens == 0 {
		p.Tokens = DefaultTokens
	}
	if p.Bound == 0 {
		p.Bound = DefaultBound
	}
	return p
}

// Validate returns all faults of p, with its defaults filled in.
func (p Params) Validate() error {
	p = p.WithDefaults()
	var faults []error
	if p.Tokens < 1 || p.Tokens > MaxTokens {
		faults = append(faults, fmt.Errorf("tokens is %d, must be 1 to %d", p.Tokens, MaxTokens))
	}
	if !(p.Bound >= 1) {
		faults = append(faults, fmt.Errorf("bound is %v, must be at least 1 (+Inf for no bound)", p.Bound))
	}
	return errors.Join(faults...)
}

// Placement decides the owner of every slot.
//
// Place is pure: the same nodes give the same table. The caller sorts nodes by
// ID, gives every ID once and at most MaxNodes of them. Place overwrites the
// whole table; a node without positive weight owns nothing, and when no node
// has positive weight nobody owns anything.
type Placement interface {
	Name() string
	Place(nodes []Node, t *Table)
}

// The names of the placements of this package.
const (
	// NameRing is the ring of tokens with bounded load, the default.
	NameRing = "ring"
	// NameUnbounded is the ring of tokens without a bound, for comparison.
	NameUnbounded = "ring-unbounded"
	// NameModulo is slot mod N, for comparison.
	NameModulo = "modulo"
	// NameContiguous gives every node one range in proportion to its weight.
	NameContiguous = "contiguous"
)

// Names returns the names that New knows.
func Names() []string {
	return []string{NameRing, NameUnbounded, NameModulo, NameContiguous}
}

// New returns the placement of that name; "" is "ring". Its errors wrap
// errs.ErrConfig and name every fault at once.
func New(name string, p Params) (Placement, error) {
	p = p.WithDefaults()
	fault := p.Validate()
	var place Placement
	switch name {
	case NameRing, "":
		if math.IsInf(p.Bound, 1) {
			place = &ring{name: NameRing, tokens: p.Tokens}
			break
		}
		place = &ring{name: NameRing, tokens: p.Tokens, bound: boundUnits(p.Bound)}
	case NameUnbounded:
		place = &ring{name: NameUnbounded, tokens: p.Tokens}
	case NameModulo:
		place = modulo{}
	case NameContiguous:
		place = contiguous{}
	default:
		fault = errors.Join(unknownPlacement(name), fault)
	}
	if fault != nil {
		return nil, fmt.Errorf("%w: %w", errs.ErrConfig, fault)
	}
	return place, nil
}

func unknownPlacement(name string) error {
	return fmt.Errorf("placement %q is unknown, choose one of %s", name, strings.Join(Names(), ", "))
}
