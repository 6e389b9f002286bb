package ring

import "math"

// Figures say how evenly a table spreads the slots.
type Figures struct {
	// SD is the standard deviation of load/fair share over the nodes of
	// positive weight; the fair share is in proportion to the weight.
	SD float64 `json:"sd"`
	// MaxOverMean and MinOverMean are the greatest and least load/fair share.
	MaxOverMean float64 `json:"max_over_mean"`
	MinOverMean float64 `json:"min_over_mean"`
	// Ranges is the number of maximal runs of slots with one owner.
	Ranges int `json:"ranges"`
	// Unowned is the number of slots without an owner.
	Unowned int `json:"unowned"`
}

// Balance measures a table of these nodes.
func Balance(nodes []Node, t *Table) Figures {
	load := make([]int, len(nodes))
	var f Figures
	for s, i := range t {
		if i == NoOwner {
			f.Unowned++
			continue
		}
		if s == 0 || t[s-1] != i {
			f.Ranges++
		}
		load[i]++
	}
	var total float64
	for i := range nodes {
		total += float64(weightUnits(nodes[i].Weight))
	}
	if total == 0 {
		return f
	}
	f.MinOverMean = math.Inf(1)
	var squares float64
	var n int
	for i := range nodes {
		w := weightUnits(nodes[i].Weight)
		if w == 0 {
			continue
		}
		ratio := float64(load[i]) / (Slots * float64(w) / total)
		f.MaxOverMean = max(f.MaxOverMean, ratio)
		f.MinOverMean = min(f.MinOverMean, ratio)
		squares += (ratio - 1) * (ratio - 1)
		n++
	}
	f.SD = math.Sqrt(squares / float64(n))
	return f
}
