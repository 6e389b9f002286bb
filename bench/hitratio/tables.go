package main

import (
	"fmt"
	"slices"

	"github.com/ringcache/ringcache/bench/internal/report"
	"github.com/ringcache/ringcache/bench/internal/rivals"
	"github.com/ringcache/ringcache/local"
)

// plain are the simulations that ring-cache's default policy is held against.
var plain = []string{"LRU", "SIEVE", "S3-FIFO/1"}

// tables shows hit ratios of the loads counted in items and misses of the sized
// ones: caches down, loads across.
func tables(results []result) []*report.Table {
	var out []*report.Table
	for _, sized := range []bool{false, true} {
		var part []result
		for _, r := range results {
			if r.Sized == sized {
				part = append(part, r)
			}
		}
		if len(part) == 0 {
			continue
		}
		title := "Hit ratio in per cent, at a capacity in items"
		if sized {
			title = "Misses, at a capacity in bytes of values"
		}
		out = append(out, matrix(title, part))
	}
	return out
}

func matrix(title string, results []result) *report.Table {
	t := &report.Table{Title: title, Head: []string{"cache"}}
	var caches []string
	byCell := map[[2]string]result{}
	for _, r := range results {
		if !slices.Contains(t.Head[1:], r.At) {
			t.Head = append(t.Head, r.At)
		}
		if !slices.Contains(caches, r.Cache) {
			caches = append(caches, r.Cache)
		}
		byCell[[2]string{r.Cache, r.At}] = r
	}
	for _, c := range caches {
		row := []string{c}
		if r := byCell[[2]string{c, t.Head[1]}]; r.Simulant {
			row[0] += " (simulated)"
		}
		for _, at := range t.Head[1:] {
			row = append(row, cell(byCell[[2]string{c, at}]))
		}
		t.Add(row...)
	}
	if row := compare(byCell, t.Head[1:]); row != nil {
		t.Add(row...)
	}
	return t
}

func cell(r result) string {
	switch {
	case !r.Fits:
		return "-"
	case r.Sized:
		return fmt.Sprint(r.Misses)
	}
	return fmt.Sprintf("%.2f", 100*r.HitRatio)
}

// compare is the line that says how far the default policy is from the best of
// the plain simulations, in points; for sized loads how many more misses than
// S3-FIFO it has, in per cent. nil when one of them was not measured.
func compare(byCell map[[2]string]result, ats []string) []string {
	ours := rivals.Default + "/" + local.DefaultPolicy
	var row []string
	for _, at := range ats {
		r := byCell[[2]string{ours, at}]
		if r.Requests == 0 {
			return nil
		}
		if r.Sized {
			ref := byCell[[2]string{"S3-FIFO", at}]
			if ref.Requests == 0 {
				return nil
			}
			if row == nil {
				row = []string{ours + " against S3-FIFO"}
			}
			row = append(row, fmt.Sprintf("%+.2f %%", 100*(float64(r.Misses)/float64(ref.Misses)-1)))
			continue
		}
		best := 0.0
		for _, p := range plain {
			ref := byCell[[2]string{p, at}]
			if ref.Requests == 0 {
				return nil
			}
			best = max(best, ref.HitRatio)
		}
		if row == nil {
			row = []string{ours + " against the best of LRU, SIEVE, S3-FIFO/1"}
		}
		row = append(row, fmt.Sprintf("%+.2f", 100*(r.HitRatio-best)))
	}
	return row
}
