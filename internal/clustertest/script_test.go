package clustertest

import (
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

var update = flag.Bool("update", false, "rewrite the expected outputs in testdata")

// TestScripts runs the stories in testdata. Each name there is an anomaly that
// somebody has met; DESIGN.md says which guard each of them holds.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d scripts in testdata: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			simulate(t, func(_ *testing.T, s *Sim) { s.RunScript(path, *update) })
		})
	}
}

// TestScriptFaults: each names file and line, what is wrong, and what is allowed.
func TestScriptFaults(t *testing.T) {
	for _, tc := range []struct{ name, text, where, what, allowed string }{
		{"unknown command", "start a\nstrat b\n", "x.txt:2: strat b", `unknown command "strat"`, "start, "},
		{"unknown option", "start a sed=b\n", "x.txt:1: ", `option "sed=b" is unknown`, "[seeds=NODE,NODE]"},
		{"empty option", "start a seeds=\n", "x.txt:1: ", `"seeds="`, "[seeds=NODE,NODE]"},
		{"too few words", "start a\ncut a from\n", "x.txt:2: ", "2 words follow, at least 3 must", "cut NODE... from"},
		{"unknown node", "start a\nkill b\n", "x.txt:2: kill b", `no node "b" runs`, "allowed: a"},
		{"node twice", "start a\nstart a\n", "x.txt:2: ", `"a" runs already`, "kill it first"},
		{"unknown key", "start a\nclient GET $k\n", "x.txt:2: ", "no key $k", `"key"`},
		{"no such slot", "start a\nkey k owner=b\n", "x.txt:2: ", "there is no such slot", "the view of a"},
		{"slot out of range", "start a\nkey k slot=16384\n", "x.txt:2: ", "slot=16384", "0 to 16383"},
		{"duration", "start a\nwait 5\n", "x.txt:2: ", "wait 5", "agreed, moved, copied, or a duration"},
		{"option out of range", "cluster replicas=9\n", "x.txt:1: ", "replicas=9", "0 to 2"},
		{"placement", "cluster placement=dice\n", "x.txt:1: ", "placement=dice", "contiguous"},
		{"cluster too late", "start a\ncluster rumours\n", "x.txt:2: ", "started already", "first command"},
		{"rumours where nodes gossip", "start a b\nbury b at a\n", "x.txt:2: ", "gossip by themselves", "cluster rumours"},
		{"in the background", "start a\nspawn x kill a\n", "x.txt:2: ", `"kill" cannot run here`, "client, leave"},
		{"never awaited", "start a\nspawn x at a PING\n", "x.txt: at its end", "nobody has waited for x", "await"},
		{"not spawned", "start a\nawait x\n", "x.txt:2: ", "x was not spawned", "allowed: "},
		{"output without a command", "# nothing\n----\n1\n", "x.txt:2: ", "output without a command", `"----"`},
		{"quotes", "at a SET \"k\n", "x.txt:1: ", "is not a quoted word", "both quotes"},
		{"not in time", "start a b\nwait agreed\n----\na active, b active\n\nkill b\nwait agreed within=10ms\n", "x.txt:7: ", "not within 10ms", "others are in a active, b "},
		{"too late", "start a\nwithin 0s at a PING\n----\n+PONG\n", "x.txt:2: ", "it took", "at most 0s are allowed"},
		{"other output", "start a\nat a PING\n----\n+PING\n", "x.txt:2: at a PING", "printed\n\t+PONG\nwant\n\t+PING", ""},
		{"output that is not expected", "start a\nat a PING\n", "x.txt:2: at a PING", "printed\n\t+PONG\nwant", ""},
		{"expected output that is missing", "start a\n----\nok\n", "x.txt:1: start a", "want\n\tok", ""},
		{"two owners", "cluster rumours\nstart a b\nwait agreed\n----\na active, b active\n\nwatch\nbury a at b\nwait 1s\n", "x.txt:9: wait 1s", "is served by a and b at once", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			simulate(t, func(t *testing.T, s *Sim) {
				out, faults := s.runText("x.txt", tc.text, false)
				if len(faults) != 1 || !strings.HasPrefix(faults[0], tc.where) || !strings.Contains(faults[0], tc.what) || !strings.Contains(faults[0], tc.allowed) {
					t.Errorf("want one fault at %q with %q and %q, got %q", tc.where, tc.what, tc.allowed, faults)
				}
				if out != tc.text {
					t.Errorf("the script is not as it was:\n%s", out)
				}
			})
		})
	}
}

// TestScriptUpdate: outputs are written where they differ, spans stay where they
// hold, and what was written agrees with the next run.
func TestScriptUpdate(t *testing.T) {
	const text = "# A story.\nstart a\nat a PING\n----\n+NO\n\n# On.\nat a PING\nat a INCR n\n----\n:0..9\n\nat a INCR n\n----\n:5..9\n# The end.\n"
	const want = "# A story.\nstart a\nat a PING\n----\n+PONG\n\n# On.\nat a PING\n----\n+PONG\n\nat a INCR n\n----\n:0..9\n\nat a INCR n\n----\n:2\n"
	run := func(text string, update bool) (out string, faults []string) {
		synctest.Test(t, func(t *testing.T) {
			s := NewSim(t)
			defer s.Close()
			out, faults = s.runText("x.txt", text, update)
		})
		return out, faults
	}
	// The last line stands in the block of the command above it: no empty line is between.
	out, faults := run(text, true)
	if len(faults) > 0 || out != want {
		t.Fatalf("%q\n%s", faults, out)
	}
	if out, faults = run(want, false); len(faults) > 0 || out != want {
		t.Fatalf("%q\n%s", faults, out)
	}
}

func TestSpans(t *testing.T) {
	for _, tc := range []struct {
		want, got string
		agree     bool
	}{
		{"a b", "a b", true}, {"a b", "a  b", true}, {"a b", "a c", false}, {"a", "a b", false},
		{":1..5", ":1", true}, {":1..5", ":5", true}, {":1..5", ":6", false}, {":1..5", "5", false}, {":1..5", ":x", false},
		{"6s..7s", "6.5s", true}, {"6s..7s", "6500ms", true}, {"6s..7s", "8s", false}, {"1..2,", "2,", true}, {"1..2,", "2", false},
		{":-2..0", ":-1", true}, {"0.5..1.5", "1.25", true}, {"0.5..1.5", "0.25", false}, {"a..b", "a", false}, {"a..b", "a..b", true},
	} {
		if got := agrees([]string{tc.want}, []string{tc.got}); got != tc.agree {
			t.Errorf("%q and %q agree: %v", tc.want, tc.got, got)
		}
	}
	if agrees([]string{"a"}, nil) || agrees(nil, []string{"a"}) || !agrees(nil, nil) {
		t.Error("lines that are missing")
	}
}

func TestSplitWords(t *testing.T) {
	got, err := splitWords(`at a  SET "a b" "" "\x00" x=1`)
	if want := []string{"at", "a", "SET", "a b", "", "\x00", "x=1"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
}
