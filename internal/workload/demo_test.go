package workload

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestDemoKeepsItsRateAndReportsEveryPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+time.Millisecond)
		defer cancel()
		var got []DemoStats
		f := newMapFleet(3)
		err := Demo(ctx, DemoOptions{Cache: f, Items: 1000, Rate: 800, Report: func(s DemoStats) { got = append(got, s) }})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 10 {
			t.Fatalf("%d reports in 10 s, want 10", len(got))
		}
		last := got[9]
		if last.Rate < 780 || last.Rate > 820 || last.Errors != 0 {
			t.Errorf("last second: %v, want about 800 requests/s without errors", last)
		}
		if got[0].HitRatio >= last.HitRatio {
			t.Errorf("hit ratio went from %.2f to %.2f, want it to rise while the cache fills", got[0].HitRatio, last.HitRatio)
		}
		if !strings.Contains(last.String(), "requests/s  hit ratio") {
			t.Errorf("summary %q", last)
		}
	})
}

func TestDemoRefusesABadExponent(t *testing.T) {
	if err := Demo(t.Context(), DemoOptions{Cache: newMapFleet(1), Theta: 2}); err == nil {
		t.Fatal("theta 2 was taken")
	}
}
