package invariant

import (
	"bytes"
	"testing"
)

func TestCheckPanicsOnlyInCheckedBuilds(t *testing.T) {
	defer func() {
		r := recover()
		if Enabled && r != "invariant: 2 is not 3" {
			t.Fatalf("recovered %v, want the formatted message", r)
		}
		if !Enabled && r != nil {
			t.Fatalf("an ordinary build panicked: %v", r)
		}
	}()
	Check(true, "never shown")
	Check(false, "%d is not %d", 2, 3)
}

func TestPoisonOverwritesOnlyInCheckedBuilds(t *testing.T) {
	b := []byte("value")
	Poison(b)
	if got := !bytes.Equal(b, []byte("value")); got != Enabled {
		t.Fatalf("overwritten = %v, want %v (bytes %q)", got, Enabled, b)
	}
}
