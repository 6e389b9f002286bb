package ring

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"
)

// weightUnit is the resolution of weights and bounds: they are turned into
// integers, so that sums do not depend on the order of nodes nor results on
// the floating-point habits of an architecture.
const weightUnit = 1_000_000

// positionShift leaves the top 14 bits of a token's hash: its slot position.
const positionShift = 64 - 14

// token is one point of a node on the circle of slots.
type token struct {
	hash uint64
	node uint16
}

func (t token) position() int { return int(t.hash >> positionShift) }

// weightUnits turns a weight into an integer; a positive weight never becomes 0.
func weightUnits(w float64) uint64 {
	switch {
	case !(w > 0):
		return 0
	case w >= MaxWeight:
		return MaxWeight * weightUnit
	}
	return max(1, uint64(math.Round(w*weightUnit)))
}

// RoundWeight returns the weight that placements make of w: 0 to MaxWeight in
// millionths, at least one of them for a positive w.
func RoundWeight(w float64) float64 { return float64(weightUnits(w)) / weightUnit }

// boundUnits turns a bound of at least 1 into an integer. Shares are never
// below 1/(MaxNodes x MaxWeight x weightUnit), so beyond that it can not bite.
func boundUnits(b float64) uint64 {
	const most = MaxNodes * MaxWeight * weightUnit
	if b >= most/weightUnit {
		return most
	}
	return max(weightUnit, uint64(math.Round(b*weightUnit)))
}

// tokenCount is round(tokens x weight), but at least one for a node of positive
// weight: else a cluster of light nodes only would leave its slots unowned. It
// is at most Slots: more could not refine the shares, which the bound holds.
func tokenCount(tokens int, weight uint64) int {
	if weight == 0 {
		return 0
	}
	n := (uint64(tokens)*weight + weightUnit/2) / weightUnit
	return int(min(max(1, n), Slots))
}

// hashTokens returns the tokens of all nodes, not yet in the order of the
// circle.
func hashTokens(nodes []Node, tokens int) []token {
	var total int
	for i := range nodes {
		total += tokenCount(tokens, weightUnits(nodes[i].Weight))
	}
	out := make([]token, 0, total)
	var buf [96]byte // a node ID, '#' and a number
	for i := range nodes {
		name := append(append(buf[:0], nodes[i].ID...), '#')
		for k := range tokenCount(tokens, weightUnits(nodes[i].Weight)) {
			hash := xxh3.Hash(strconv.AppendInt(name, int64(k), 10))
			out = append(out, token{hash: hash, node: uint16(i)})
		}
	}
	return out
}

// sortTokens puts tokens in the order of the circle: by hash, whose top bits
// are the position; equal hashes go by node ID. It also returns, for every
// position, the index of the first token there or later, which is len(tokens)
// behind the last one. A counting sort by position leaves next to nothing to
// compare.
func sortTokens(tokens []token, nodes []Node) ([]token, *[Slots + 1]int32) {
	var start [Slots + 1]int32
	for _, t := range tokens {
		start[t.position()+1]++
	}
	for p := range Slots {
		start[p+1] += start[p]
	}
	out := make([]token, len(tokens))
	fill := start
	for _, t := range tokens {
		p := t.position()
		out[fill[p]] = t
		fill[p]++
	}
	for p := range Slots {
		if start[p+1]-start[p] < 2 {
			continue
		}
		slices.SortFunc(out[start[p]:start[p+1]], func(a, b token) int {
			if a.hash != b.hash {
				return cmp.Compare(a.hash, b.hash)
			}
			return cmp.Compare(nodes[a.node].ID, nodes[b.node].ID)
		})
	}
	return out, &start
}

// capacities fills caps with ceil(share x bound) slots per node, where share is
// the part of all slots that the node's weight deserves; bound 0 is no bound.
// The node `without` (-1 for none) counts as absent. The caps of the nodes of
// positive weight add up to at least Slots: they are ceilings of terms whose
// sum is Slots x bound, in integers.
func capacities(caps []int, nodes []Node, bound uint64, without int) {
	var total uint64
	for i := range nodes {
		if i != without {
			total += weightUnits(nodes[i].Weight)
		}
	}
	for i := range nodes {
		weight := weightUnits(nodes[i].Weight)
		switch {
		case i == without || weight == 0:
			caps[i] = 0
		case bound == 0:
			caps[i] = Slots
		default:
			caps[i] = capacity(weight, total, bound)
		}
	}
}

// capacity is ceil(Slots x weight/total x bound/weightUnit), at most Slots.
func capacity(weight, total, bound uint64) int {
	hi, lo := bits.Mul64(weight*Slots, bound)
	div := total * weightUnit
	if hi >= div {
		return Slots
	}
	q, r := bits.Div64(hi, lo, div)
	if r > 0 {
		q++
	}
	return int(min(q, Slots))
}
