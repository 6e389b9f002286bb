// Package lint owns the rules of the house as data and the checks that hold
// the tree against them: floors and imports, names, file and function length,
// package comments, sleeping tests, hidden state, what an embedder compiles.
// Every check is a pure function over values, so that its own test can show it
// failing; only load.go touches the disk and the go tool. It is imported by
// nothing: its test is the gate. It never formats or rewrites code. Values are
// read-only after loading, so everything is safe for concurrent use.
package lint

import "fmt"

// Module is the path of the main module.
const Module = "github.com/ringcache/ringcache"

// Fault is one broken rule: where, what was found, and why the rule exists.
type Fault struct {
	Where string // package, file or file:line
	Rule  string // short name of the rule
	What  string // what was found
	Why   string // the reason of the rule, and what to do
}

func (f Fault) String() string {
	return fmt.Sprintf("%s: [%s] %s: %s", f.Where, f.Rule, f.What, f.Why)
}

// Package is what the checks need to know about one package of the module.
type Package struct {
	Path        string   // import path
	Doc         string   // whole package comment
	Imports     []string // direct, of all non-test files whatever their build tags
	Deps        []string // transitive, as `go list -deps` tells for this platform
	TestImports []string // direct, of the test files
}

// Source is one Go file: its path relative to the module root and its text.
type Source struct {
	Path string
	Text []byte
}
