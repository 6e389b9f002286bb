package lint

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTree is the gate: the tree keeps every rule.
func TestTree(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sources, err := LoadSources(root)
	if err != nil {
		t.Fatal(err)
	}
	pkgs, err := LoadPackages(root, sources)
	if err != nil {
		t.Fatal(err)
	}
	if len(pkgs) < 3 || len(sources) < 10 {
		t.Fatalf("only %d packages in %d files were found: the loader is broken", len(pkgs), len(sources))
	}
	faults := slices.Concat(CheckFloors(Rooms, pkgs), CheckShape(pkgs), CheckEmbedders(Embedders, pkgs), CheckDocs(pkgs))
	for _, src := range sources {
		i := slices.IndexFunc(Rooms, func(r Room) bool { return r.Path == dirOf(src.Path) })
		faults = append(faults, CheckSource(src, i >= 0 && Rooms[i].NoGo)...)
	}
	required, err := LoadModules(root, false)
	if err != nil {
		t.Fatal(err)
	}
	nested := map[string][]string{}
	for _, dir := range []string{"interop", "bench", "examples", "discovery/zookeeper"} {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err != nil {
			continue
		}
		if nested[dir], err = LoadModules(filepath.Join(root, dir), true); err != nil {
			t.Fatal(err)
		}
	}
	adr, err := os.ReadFile(filepath.Join(root, "docs/adr/0001-dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	faults = append(faults, CheckModules(required, nested, pkgs, string(adr))...)
	for _, f := range faults {
		t.Error(f)
	}
}

// TestTable checks the table itself: a row may name only rooms that exist in
// it, and only ones that it could import at all.
func TestTable(t *testing.T) {
	floor := map[string]int{}
	for _, r := range Rooms {
		if _, twice := floor[r.Path]; twice {
			t.Errorf("%q stands twice in the table", r.Path)
		}
		if r.Why == "" {
			t.Errorf("%q has no reason", r.Path)
		}
		floor[r.Path] = r.Floor
	}
	for _, r := range Rooms {
		for _, s := range r.Same {
			if f, ok := floor[s]; !ok || f != r.Floor {
				t.Errorf("%q names %q, which is not a room on its floor", r.Path, s)
			}
		}
		for _, n := range r.Never {
			if _, ok := floor[n]; !ok {
				t.Errorf("%q forbids %q, which is no room", r.Path, n)
			}
		}
	}
}

func TestPackageRulesCanFail(t *testing.T) {
	pkg := func(path string, imports ...string) Package {
		return Package{Path: Module + path, Imports: imports, Deps: imports, Doc: "Package x owns y. It never does z."}
	}
	m := func(p string) string { return Module + "/" + p }
	reach := pkg("/client", m("internal/link"))
	reach.Deps = append(reach.Deps, m("internal/membership"))
	floors := func(ps ...Package) []Fault { return CheckFloors(Rooms, ps) }
	embed := func(ps ...Package) []Fault { return CheckEmbedders(Embedders, ps) }
	shape := func(ps ...Package) []Fault { return CheckShape(ps) }
	docs := func(ps ...Package) []Fault { return CheckDocs(ps) }
	tests := []struct {
		name  string
		check func(...Package) []Fault
		pkg   Package
		want  string // "" = no fault
	}{
		{"a lower floor", floors, pkg("/internal/node", m("internal/engine"), m("internal/errs"), "sync"), ""},
		{"support on its own floor", floors, pkg("/internal/ring", m("internal/errs")), ""},
		{"a named neighbour", floors, pkg("/internal/handoff", m("internal/link")), ""},
		{"an own module", floors, pkg("/internal/membership", memberlist), ""},
		{"upwards", floors, pkg("/internal/engine", m("internal/node")), "on floor 0 imports internal/node on floor 3"},
		{"sideways", floors, pkg("/internal/engine", m("internal/resp")), "on floor 0 imports internal/resp on floor 0"},
		{"forbidden below", floors, pkg("/internal/server", m("internal/engine")), "imports internal/engine, which is forbidden to it"},
		{"the root package from below", floors, pkg("/internal/node", Module), "imports the root package on floor 5"},
		{"forbidden through another", floors, reach, "reaches internal/membership through another room"},
		{"unknown room", floors, pkg("/internal/cluster"), "is not in the floors table"},
		{"import of an unknown room", floors, pkg("/internal/node", m("internal/cluster")), "imports internal/cluster, which is not in the floors table"},
		{"a socket in the parser", floors, pkg("/internal/resp", "net"), "imports net"},
		{"net/netip is a value", floors, pkg("/internal/topology", "net/netip"), ""},
		{"a clock in placement", floors, pkg("/internal/ring", "time"), "imports time"},
		{"a foreign module", floors, pkg("/internal/engine", "github.com/google/btree"), "which is not among its modules"},
		{"a module of another room", floors, pkg("/internal/node", memberlist), "which is not among its modules"},
		{"one level", shape, pkg("/internal/ring"), ""},
		{"two levels", shape, pkg("/internal/ring/tokens"), "deeper than one level"},
		{"util", shape, pkg("/internal/util"), "is called util"},
		{"a lean root", embed, pkg("", "github.com/hashicorp/memberlist"), ""},
		{"cobra in the root", embed, pkg("", "github.com/spf13/cobra"), "compiles github.com/spf13/cobra"},
		{"yaml in the client", embed, pkg("/client", goYAML+"/ast"), "compiles github.com/goccy/go-yaml/ast"},
		{"prometheus in the client", embed, pkg("/client", "github.com/prometheus/client_golang/prometheus"), "compiles github.com/prometheus"},
		{"cobra in cmd", embed, pkg("/cmd/ringcache", cobra), ""},
		{"a full comment", docs, pkg("/internal/ring"), ""},
		{"no comment", docs, Package{Path: m("internal/ring")}, "has no package comment"},
		{"no border", docs, Package{Path: m("internal/ring"), Doc: "Package ring places slots."}, "lacks what it owns"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { expect(t, tt.check(tt.pkg), tt.want) })
	}
}

func TestModuleRulesCanFail(t *testing.T) {
	uses := []Package{{Path: Module, Imports: []string{"example.com/a/b"}, TestImports: []string{"example.com/t"}}}
	adr := "- example.com/a: needed\n- example.com/t: tests"
	tests := []struct {
		name     string
		required []string
		nested   map[string][]string
		adr      string
		want     string
	}{
		{"reasons given", []string{"example.com/a", "example.com/t", "example.com/indirect"}, nil, adr, ""},
		{"no reason", []string{"example.com/a"}, nil, "", "requires example.com/a without a reason"},
		{"no reason for a test module", []string{"example.com/t"}, nil, "- example.com/a", "requires example.com/t without a reason"},
		{"another client", []string{"github.com/redis/rueidis"}, nil, adr, "requires github.com/redis/rueidis"},
		{"only interop uses it", []string{"example.com/c"}, map[string][]string{"interop": {"example.com/c"}}, adr, "which only interop uses"},
		{"both use it", []string{"example.com/a"}, map[string][]string{"interop": {"example.com/a"}}, adr, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { expect(t, CheckModules(tt.required, tt.nested, uses, tt.adr), tt.want) })
	}
}

func TestSourceRulesCanFail(t *testing.T) {
	long := "package p\n\nfunc f() {\n" + strings.Repeat("\tg()\n", MaxFuncLines) + "}\n"
	dispatch := "package p\n\nfunc f(n int) {\n\tswitch n {\n" + strings.Repeat("\tcase 1:\n\t\tg()\n", MaxFuncLines) + "\t}\n}\n"
	tests := []struct {
		name, path, text string
		noGo             bool
		want             string
	}{
		{"clean", "a.go", "package p\n", false, ""},
		{"long file", "a.go", "package p\n" + strings.Repeat("\n", MaxFileLines), false, "the file has 601 lines, limit 600"},
		{"long generated file", "a_gen.go", "package p\n" + strings.Repeat("\n", MaxFileLines), false, ""},
		{"long function", "a.go", long, false, "f has 72 lines, limit 70"},
		{"long test function", "a_test.go", long, false, ""},
		{"dispatch switch", "a.go", dispatch, false, ""},
		{"sleeping test", "a_test.go", "package p\n\nfunc f() { time.Sleep(1) }\n", false, "sleeps in a test"},
		{"sleep outside tests", "a.go", "package p\n\nfunc f() { time.Sleep(1) }\n", false, ""},
		{"init", "a.go", "package p\n\nfunc init() {}\n", false, "has an init function"},
		{"method named init", "a.go", "package p\n\nfunc (t T) init() {}\n", false, ""},
		{"global mutex", "a.go", "package p\n\nvar mu sync.Mutex\n", false, "mu is a package-level sync.Mutex"},
		{"global atomic pointer", "a.go", "package p\n\nvar p atomic.Pointer[T]\n", false, "p is a package-level atomic.Pointer"},
		{"global atomic value", "a.go", "package p\n\nvar n = atomic.Int64{}\n", false, "n is a package-level atomic.Int64"},
		{"global channel", "a.go", "package p\n\nvar c = make(chan int)\n", false, "c is a package-level channel"},
		{"table", "a.go", "package p\n\nvar t = []int{1}\n", false, ""},
		{"sentinel", "a.go", "package p\n\nvar Err = errors.New(\"x\")\n", false, ""},
		{"goroutine where none belongs", "a.go", "package p\n\nfunc f() { go g() }\n", true, "starts a goroutine"},
		{"goroutine in its test", "a_test.go", "package p\n\nfunc f() { go g() }\n", true, ""},
		{"goroutine elsewhere", "a.go", "package p\n\nfunc f() { go g() }\n", false, ""},
		{"left-over mark", "a.go", "package p\n\n// TO" + "DO: later\n", false, "says TO" + "DO"},
		{"somebody's home", "a.go", "package p\n\n// see /ho" + "me/ann/x\n", false, "names a path of one machine"},
		{"a word of Redis", "a.go", "package p\n\nvar mas" + "terAddr string\n", false, "identifier mas" + "terAddr"},
		{"a command of Redis", "a.go", "package p\n\nvar c = command.ClusterSla" + "ves\n", false, ""},
		{"broken syntax", "a.go", "package p\n\nfunc {\n", false, "expected"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { expect(t, CheckSource(Source{tt.path, []byte(tt.text)}, tt.noGo), tt.want) })
	}
}

// TestLoadSources checks what the walk leaves out.
func TestLoadSources(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"a.go", "internal/x/x.go", "internal/x/testdata/no.go", "interop/go.mod", "interop/no.go", ".hidden/no.go", "README.md"} {
		path := filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("package p\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := LoadSources(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range sources {
		got = append(got, s.Path)
	}
	if want := []string{"a.go", "internal/x/x.go"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func expect(t *testing.T, faults []Fault, want string) {
	t.Helper()
	if want == "" {
		for _, f := range faults {
			t.Errorf("unexpected fault: %v", f)
		}
		return
	}
	for _, f := range faults {
		if strings.Contains(f.What, want) {
			return
		}
	}
	t.Errorf("no fault says %q: %v", want, faults)
}
