package main

import (
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		values         []float64
		mid, low, high float64
	}{
		{[]float64{3, 1, 2, 5, 4, 6}, 3.5, 1, 6},
		{[]float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5.5, 2, 9},
		{[]float64{1, 1, 1, 1, 1, 1, 1}, 1, 1, 1},
	} {
		if mid, low, high := median(tt.values); mid != tt.mid || low != tt.low || high != tt.high {
			t.Errorf("%v: %v [%v, %v]", tt.values, mid, low, high)
		}
	}
	sum := 0.0
	for k := range 13 {
		sum += binomial(12, k)
	}
	if math.Abs(sum-1) > 1e-9 {
		t.Errorf("probabilities sum up to %v", sum)
	}
}

func TestCPUTime(t *testing.T) {
	before, err := cpuTime(os.Getpid())
	if err != nil {
		t.Skip(err)
	}
	for after := before; after == before; {
		if after, err = cpuTime(os.Getpid()); err != nil || after < before {
			t.Fatal(after, before, err)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, args := range [][]string{{}, {"-a", "x", "-pairs", "2"}, {"-a", "x", "-server-cpu", "1"}, {"-a", "x", "-block", "1ms"},
		{"-a", "x", "-conns", "0"}, {"-a", "x", "-reads", "101"}} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}

// A server against itself.
func TestPair(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, tool := range []string{"redis-server", "taskset"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	line := "redis-server --save '' --port {port}"
	o := options{commands: [2]string{line, line}, load: load{conns: 4, pipeline: 8, size: 64, keys: 1000, reads: 80},
		block: 100 * time.Millisecond, pairs: minPairs, serverCPU: 0, clientCPU: 1}
	r, err := o.measure(io.Discard)
	if err != nil {
		if strings.Contains(err.Error(), "pin") {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	if r.Low > r.Ratio || r.Ratio > r.High || r.CPU[0] <= 0 || r.Rate[1] <= 0 || len(r.Ratios) != minPairs {
		t.Errorf("%+v", r)
	}
}
