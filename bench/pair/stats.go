package main

import (
	"math"
	"slices"
)

// minPairs is the least number of values for which the interval of the extremes
// covers the median with a probability of 95%.
const minPairs = 6

// median returns the median of values and the widest-known interval that covers the
// true one with a probability of at least 95%, whatever the distribution: that
// between the k-th smallest and the k-th greatest value, where k follows from the
// binomial distribution (the sign test turned around).
func median(values []float64) (mid, low, high float64) {
	v := slices.Clone(values)
	slices.Sort(v)
	n := len(v)
	mid = v[n/2]
	if n%2 == 0 {
		mid = (v[n/2-1] + v[n/2]) / 2
	}
	k, below := 0, 0.0
	for k < n/2 {
		below += binomial(n, k)
		if 2*below > 0.05 {
			break
		}
		k++
	}
	k = max(k, 1)
	return mid, v[k-1], v[n-k]
}

// binomial is the probability of k heads in n tosses.
func binomial(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return math.Exp(a - b - c - float64(n)*math.Ln2)
}
