package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A drill that holds its limits ends with 0, one that misses a limit with 1 and
// says which; both print their figures, and leave a page.
func TestDrill(t *testing.T) {
	args := []string{"drill", "--scenario", "join", "--keys", "2000", "--rate", "400", "--bin", "300", "--before", "1s", "--duration", "2s",
		"--timeout", "1s", "--serve-arg=--loops=1", "--max-memory", "16mb"}
	page := filepath.Join(t.TempDir(), "drill.html")
	out, _ := runTo(t, exitOK, command(t, nil, append(args, "--html", page, "-o", "json")...))
	var r drillReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if len(r.Reports) != 1 || r.Reports[0].Faults != 1 || r.Reports[0].Summary.Check.Reads < 300 || len(r.Reports[0].Bins) < 3 {
		t.Errorf("report %+v", r.Reports)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<svg") {
		t.Errorf("page: %v, %d bytes", err, len(text))
	}
	out, stderr := runTo(t, exitFailed, command(t, nil, append(args, "--target", "modulo", "--max-drop", "5")...))
	if !strings.Contains(stderr, "join on modulo: hit ratio") || !strings.Contains(out, "WORST BIN") {
		t.Errorf("stdout %s\nstderr %s", out, stderr)
	}
}

func TestDrillUsage(t *testing.T) {
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"earthquake", []string{"--scenario", "earthquake"}},
		{"choose 1 to", []string{"--nodes", "99"}},
		{"does not run on", []string{"--scenario", "partition", "--target", "ketama"}},
		{"is no format", []string{"-o", "xml"}},
	} {
		if _, stderr := runTo(t, exitUsage, command(t, nil, append([]string{"drill"}, tt.args...)...)); !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: %s does not say %q", tt.args, stderr, tt.want)
		}
	}
}
