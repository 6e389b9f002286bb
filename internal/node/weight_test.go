package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/topology"
)

func TestWeighStep(t *testing.T) {
	active := func(weight, old, progress float64) topology.Member {
		return topology.Member{State: topology.Active, Weight: weight, OldWeight: old, Progress: progress}
	}
	for _, tc := range []struct {
		name  string
		from  topology.Member
		to    float64
		steps int
		want  []topology.Member
	}{
		{"up", active(1, 0, 0), 2, 4, []topology.Member{active(2, 1, 0.25), active(2, 1, 0.5), active(2, 1, 0.75), active(2, 0, 0)}},
		{"down to nothing", active(1, 0, 0), 0, 2, []topology.Member{active(0, 1, 0.5), active(0, 0, 0)}},
		{"from nothing", active(0, 0, 0), 3, 2, []topology.Member{active(3, 0, 0.5), active(3, 0, 0)}},
		{"at once", active(1, 0, 0), 2, 1, []topology.Member{active(2, 0, 0)}},
		{"as it is", active(2, 0, 0), 2, 4, []topology.Member{active(2, 0, 0)}},
		{"goes on", active(2, 1, 0.5), 2, 4, []topology.Member{active(2, 1, 0.75), active(2, 0, 0)}},
		{"goes on in other steps", active(2, 1, 0.5), 2, 3, []topology.Member{active(2, 1, 2.0/3), active(2, 0, 0)}},
		{"back", active(2, 1, 0.5), 1, 4, []topology.Member{active(2, 1, 0.25), active(1, 0, 0)}},
		{"back and on", active(2, 1, 0.25), 0.5, 2, []topology.Member{active(1, 0, 0), active(0.5, 1, 0.5), active(0.5, 0, 0)}},
		{"on and further", active(2, 1, 0.5), 3, 2, []topology.Member{active(2, 0, 0), active(3, 2, 0.5), active(3, 0, 0)}},
		{"on, then back a little", active(2, 1, 0.5), 1.75, 2, []topology.Member{active(2, 0, 0), active(1.75, 2, 0.5), active(1.75, 0, 0)}},
	} {
		m := tc.from
		for i, want := range tc.want {
			if last := weighStep(&m, tc.to, tc.steps); m != want || last != (i == len(tc.want)-1) {
				t.Errorf("%s: step %d gives %+v, last %v, want %+v", tc.name, i+1, m, last, want)
			}
		}
	}
}

// A weight that was set goes on after a restart with a data directory, until the
// configuration is another one, or has it itself.
func TestWeightOutlivesRestart(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		type life struct {
			configured, want float64
			origin           string
			set              float64 // -1: none
		}
		for i, l := range []life{
			{1, 1, operate.WeightConfigured, 2.5},
			{1, 2.5, operate.WeightKept, -1},
			{1, 2.5, operate.WeightKept, 0},
			{1, 0, operate.WeightKept, -1},
			{3, 3, operate.WeightConfigured, -1}, // the configuration was changed since
			{1, 1, operate.WeightConfigured, 2},  // what was before that is forgotten
			{1, 2, operate.WeightKept, 1},
			{1, 1, operate.WeightConfigured, -1}, // set to what the configuration says
		} {
			n := alone(t, func(o *Options) { o.DataDir, o.WarmDir, o.Weight = dir, WarmOff, l.configured })
			check := func(weight float64, origin string) {
				t.Helper()
				if m := n.View().Member(0); m.Weight != weight {
					t.Errorf("process %d has the weight %v, want %v", i, m.Weight, weight)
				}
				if f := n.figures(); f.WeightOrigin != origin || f.WeightConfigured != l.configured || !f.WeightKeeps {
					t.Errorf("process %d says %+v, want %s", i, f, origin)
				}
			}
			check(l.want, l.origin)
			if l.set >= 0 {
				if err := n.SetWeight(l.set); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				check(l.set, map[bool]string{true: operate.WeightConfigured, false: operate.WeightKept}[l.set == l.configured])
			}
			if err := n.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, weightFile)); err == nil {
			t.Error("a weight is kept although it is that of the configuration")
		}
	})
}

// Of several weights that are set at once the one that stands is the one that is kept.
func TestTheWeightThatStandsIsKept(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := alone(t, func(o *Options) { o.DataDir, o.WarmDir, o.Weight = dir, WarmOff, 1 })
		for round := range 20 {
			for i := range 8 {
				go func() { // ends at once
					if err := n.SetWeight(float64(2 + i + round%2)); err != nil {
						t.Error(err)
					}
				}()
			}
			synctest.Wait()
			text, err := os.ReadFile(filepath.Join(dir, weightFile))
			var kept setWeight
			if err != nil || json.Unmarshal(text, &kept) != nil || kept.Weight != n.View().Member(0).Weight {
				t.Fatalf("%s is kept (%v), and the weight is %v", text, err, n.View().Member(0).Weight)
			}
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Without a data directory, or with one that cannot be used, the weight is as
// configured again.
func TestWeightWithoutFile(t *testing.T) {
	var o ownWeight
	if w, note, err := o.open("", 2); w != 2 || note != "" || err != nil {
		t.Errorf("%v %q %v", w, note, err)
	}
	if err := o.put(3); err != nil || o.origin() != operate.WeightSet {
		t.Errorf("%v, %s", err, o.origin())
	}
	if err := o.put(2); err != nil || o.origin() != operate.WeightConfigured {
		t.Errorf("%v, %s", err, o.origin())
	}
	path := filepath.Join(t.TempDir(), weightFile)
	for _, text := range []string{"", "{", `{"weight":"x"}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var o ownWeight
		if w, _, err := o.open(path, 2); w != 2 || err == nil || !strings.Contains(err.Error(), weightFile) || o.origin() != operate.WeightConfigured {
			t.Errorf("%q: %v %v", text, w, err)
		}
	}
	if err := os.WriteFile(path, []byte(`{"weight":1e9,"configured":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if w, _, err := o.open(path, 2); w != topology.MaxWeight || err != nil {
		t.Errorf("a weight beyond the limit: %v %v", w, err)
	}
	if err := o.put(5); err != nil || o.origin() != operate.WeightKept {
		t.Errorf("%v, %s", err, o.origin())
	}
	o.path = filepath.Join(path, "below a file")
	if err := o.put(4); err == nil || o.origin() != operate.WeightSet {
		t.Errorf("%v, %s", err, o.origin())
	}
}
