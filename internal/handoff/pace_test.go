package handoff

import (
	"testing"
	"time"
)

// TestPace: rates hold, and a source that gets slow is asked less.
func TestPace(t *testing.T) {
	var p pace
	run := func(seconds float64, took time.Duration, bytes int) (rate float64) {
		passed, keys := 0.0, 0
		for passed < seconds {
			n := p.keys(5000)
			keys += n
			passed += (took + p.after(n, bytes, took, 5000, 1<<20)).Seconds()
		}
		return float64(keys) / passed
	}
	if r := run(5, time.Millisecond, 1000); r < 4900 || r > 5100 {
		t.Errorf("%.0f keys/s, want 5000", r)
	}
	if r := run(5, 30*time.Millisecond, 1000); r > 2000 {
		t.Errorf("a slow source is asked for %.0f keys/s", r)
	}
	run(5, time.Millisecond, 1000)
	if r := run(5, time.Millisecond, 1000); r < 4900 {
		t.Errorf("%.0f keys/s after it is fast again", r)
	}
	if r := run(5, time.Millisecond, 100_000); r > 1100 {
		t.Errorf("%.0f keys/s of 1000 bytes, want about 1000 for 1 MiB/s", r)
	}
}
