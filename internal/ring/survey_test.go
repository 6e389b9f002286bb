package ring

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/errs"
)

// The figures that the project promises for its placement, with fewer sets of
// node IDs than the published survey has.
func TestSurveyKeepsPromises(t *testing.T) {
	for tokens, sd := range map[int]float64{160: 0.06, 512: 0.045} {
		for _, row := range Survey(SurveyOptions{Tokens: tokens, Sets: 8, Placements: []string{NameRing}}) {
			if row.SD > sd || row.MaxOverMean > 1.055 || row.MovedJoinOverIdeal > 1.15 || row.MovedLeaveOverIdeal > 1.15 {
				t.Errorf("%d tokens: %+v", tokens, row)
			}
			if row.SDWorst < row.SD || row.SD == 0 || row.MovedJoinOverIdeal < 0.8 {
				t.Errorf("%d tokens: implausible: %+v", tokens, row)
			}
		}
	}
}

// Modulo moves 80 % of all slots from four nodes to five; the plain ring moves
// slots to the joiner only.
func TestSurveyComparisons(t *testing.T) {
	rows := Survey(SurveyOptions{Nodes: []int{4}, Sets: 3})
	if len(rows) != 3 {
		t.Fatalf("%d rows, want 3", len(rows))
	}
	if m := rows[0]; m.Placement != NameModulo || m.MovedJoinShare < 0.79 || m.MovedJoinShare > 0.81 {
		t.Errorf("modulo: %+v", m)
	}
	if u := rows[1]; u.Placement != NameUnbounded || u.MovedBetweenSurvivors != 0 {
		t.Errorf("unbounded ring: %+v", u)
	}
}

func TestSurveyShape(t *testing.T) {
	var steps []int
	o := SurveyOptions{
		Nodes: []int{1, 2}, Tokens: 8, Sets: 3, Placements: []string{NameRing, NameContiguous},
		Progress: func(done, total int) {
			steps = append(steps, done)
			if total != 6 {
				t.Errorf("total %d, want 6", total)
			}
		},
	}
	rows := Survey(o)
	if !slices.Equal(steps, []int{1, 2, 3, 4, 5, 6}) {
		t.Errorf("progress %v", steps)
	}
	want := []struct {
		nodes int
		place string
	}{{1, NameRing}, {1, NameContiguous}, {2, NameRing}, {2, NameContiguous}}
	if len(rows) != len(want) {
		t.Fatalf("%d rows, want %d", len(rows), len(want))
	}
	for i, w := range want {
		if rows[i].Nodes != w.nodes || rows[i].Placement != w.place {
			t.Errorf("row %d is %+v, want %v", i, rows[i], w)
		}
	}
	if r := rows[0]; r.SD != 0 || r.Ranges != 1 || r.MovedLeaveOverIdeal != 1 {
		t.Errorf("one node: %+v", r)
	}
	o.Progress = nil
	if again := Survey(o); !slices.Equal(again, rows) {
		t.Error("two surveys with one seed differ")
	}
	o.Seed = 2
	if other := Survey(o); slices.Equal(other, rows) {
		t.Error("another seed gives the same survey")
	}
	b, err := json.Marshal(rows[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"nodes", "placement", "sd", "sd_worst", "max_over_mean", "moved_join_over_ideal",
		"moved_leave_over_ideal", "moved_between_survivors", "moved_join_share", "ranges"} {
		if !strings.Contains(string(b), `"`+field+`":`) {
			t.Errorf("no field %q in %s", field, b)
		}
	}
}

func TestSurveyValidates(t *testing.T) {
	bad := SurveyOptions{Nodes: []int{0, MaxSurveyNodes + 1}, Tokens: -1, Bound: 0.5, Sets: -1, Placements: []string{"x"}}
	err := bad.Validate()
	if !errors.Is(err, errs.ErrConfig) {
		t.Fatalf("error %v, want ErrConfig", err)
	}
	for _, part := range []string{"0 nodes", "1001 nodes", "tokens is -1", "bound is 0.5", "-1 sets", `"x"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %q", err, part)
		}
	}
	if rows := Survey(bad); rows != nil {
		t.Errorf("rows %v of invalid options", rows)
	}
	if err := (SurveyOptions{}).Validate(); err != nil {
		t.Errorf("the zero value: %v", err)
	}
}

func BenchmarkSurvey(b *testing.B) {
	for b.Loop() {
		Survey(SurveyOptions{Sets: 1})
	}
}
