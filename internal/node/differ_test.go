package node

import (
	"fmt"
	"testing"
	"time"
)

// A View that is refused for long is one whose news have missed this node. Views that
// follow each other, as the steps of a join, are news on their way: a thousand members
// must not all turn to the one that joins.
func TestDifferenceLasts(t *testing.T) {
	now := time.Unix(1, 0)
	var d difference
	count := func(times int, view func(i int) int) (exchanges int) {
		for i := range times {
			if d.lasts([]byte(fmt.Sprint(view(i))), now) {
				exchanges++
			}
			now = now.Add(100 * time.Millisecond)
		}
		return exchanges
	}
	if n := count(100, func(i int) int { return i / 15 }); n != 0 {
		t.Errorf("%d exchanges over Views of 1.5 s each", n)
	}
	if n := count(100, func(int) int { return 1000 }); n != 4 {
		t.Errorf("%d exchanges over one View in 10 s", n)
	}
	now = now.Add(differsGap)
	if n := count(20, func(int) int { return 1000 }); n != 0 {
		t.Errorf("%d exchanges in less than two seconds after a gap", n)
	}
}
