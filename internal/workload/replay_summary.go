package workload

import (
	"context"
	"fmt"
)

func (r *replayer) summarise(ctx context.Context, p *phaseRun, hists []Histogram) (Phase, error) {
	var all Histogram
	for i := range hists {
		all.Merge(&hists[i])
	}
	out := Phase{
		Name: p.name, Requests: p.requests.Load(), Hits: p.hits.Load(), OriginLoads: p.loads.Load(),
		Errors: p.errs.Load(), HitRatio: ratio(p.hits.Load(), p.requests.Load()), Settle: p.settle,
		P50: all.Quantile(0.5), P99: all.Quantile(0.99), WorstBin: 1,
	}
	for i := range p.bins {
		n := p.bins[i].requests.Load()
		if i > 0 && n < r.o.Bin { // a cut-off last bin is no measure
			continue
		}
		q := ratio(p.bins[i].hits.Load(), n)
		if i == 0 {
			out.FirstBin = q
		}
		out.WorstBin = min(out.WorstBin, q)
	}
	if r.o.Fleet == nil {
		return out, nil
	}
	after, err := r.o.Fleet.Loads(ctx)
	if err != nil {
		return out, fmt.Errorf("replay: reading the nodes' loads: %w", err)
	}
	out.Nodes = shares(p.before, after)
	return out, nil
}

func shares(before, after []NodeLoad) []NodeShare {
	start := make(map[string]uint64, len(before))
	for _, b := range before {
		start[b.Node] = b.Reads
	}
	var total float64
	out := make([]NodeShare, 0, len(after))
	for _, a := range after {
		n := float64(a.Reads - min(start[a.Node], a.Reads))
		total += n
		out = append(out, NodeShare{Node: a.Node, Share: n, Ideal: a.Ideal})
	}
	for i := range out {
		if total > 0 {
			out[i].Share /= total
		}
	}
	return out
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
