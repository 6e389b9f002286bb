package node

import "testing"

// More memory beside the entries counts at once, less after it lasted, so that
// the saw of a heap under collection evicts nothing twice.
func TestOutsideRisesAtOnceAndFallsLate(t *testing.T) {
	const mb = 1 << 20
	var o outside
	if got := o.look(-5); got != 0 {
		t.Fatalf("less than granted counts as %d", got)
	}
	if got := o.look(mb + 1); got != 2*mb {
		t.Fatalf("%d, want the next step at once", got)
	}
	for i := range 10 * memoryHold {
		if got := o.look([]int64{0, 2 * mb, mb}[i%3]); got != 2*mb {
			t.Fatalf("look %d of a heap that goes up and down: %d", i, got)
		}
	}
	o.look(8 * mb)
	for i := range memoryHold - 1 {
		if got := o.look(int64(i%4) * mb); got != 8*mb {
			t.Fatalf("look %d: %d, want the greatest for a while", i, got)
		}
	}
	if got := o.look(0); got != 3*mb {
		t.Fatalf("%d in the end, want the greatest of the time since", got)
	}
}
