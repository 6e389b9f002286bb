package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
)

// Limits on the length of what a reader has to take in at once.
const (
	MaxFileLines = 600 // hard limit; the habit is 80-300
	MaxFuncLines = 70  // without the cases of a dispatch switch that fit on a line
)

// leftOver are the marks of unfinished work, composed so that this file does
// not carry them itself.
var leftOver = regexp.MustCompile(`\b(` + strings.Join([]string{
	"TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK", "not " + "implemented", "un" + "implemented",
}, "|") + `)\b`)

// machinePath are absolute paths of somebody's machine.
var machinePath = regexp.MustCompile(`(^|[^a-zA-Z0-9.:/_-])/(` + strings.Join([]string{"home", "root", "Users"}, "|") + `)/[a-zA-Z]`)

// notOurs are identifiers that have another word here: an owner is an owner.
var notOurs = regexp.MustCompile(`(?i)(mas` + `ter|sla` + `ve)`)

// CheckSource holds one file against the habits that the syntax shows.
func CheckSource(src Source, noGoroutines bool) []Fault {
	var faults []Fault
	add := func(line int, rule, what, why string) {
		faults = append(faults, Fault{fmt.Sprintf("%s:%d", src.Path, line), rule, what, why})
	}
	lines := strings.Split(strings.TrimSuffix(string(src.Text), "\n"), "\n")
	if len(lines) > MaxFileLines && !strings.HasSuffix(src.Path, "_gen.go") {
		add(len(lines), "length", fmt.Sprintf("the file has %d lines, limit %d", len(lines), MaxFileLines), "split it by subject")
	}
	for i, line := range lines {
		if m := leftOver.FindString(line); m != "" {
			add(i+1, "words", "says "+m, "finish it, or say what it does instead")
		}
		if m := machinePath.FindString(line); m != "" {
			add(i+1, "words", "names a path of one machine: "+strings.TrimSpace(m), "use a relative path or a temporary directory")
		}
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, src.Path, src.Text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		add(1, "syntax", err.Error(), "it must parse")
		return faults
	}
	c := checker{test: strings.HasSuffix(src.Path, "_test.go"), noGo: noGoroutines, fset: fset,
		wire: strings.HasPrefix(src.Path, "internal/command/"),
		add:  func(pos token.Pos, rule, what, why string) { add(fset.Position(pos).Line, rule, what, why) }}
	ast.Inspect(file, c.visit)
	for _, decl := range file.Decls {
		c.decl(decl)
	}
	return faults
}

type checker struct {
	test, noGo bool
	wire       bool // the room speaks Redis's words: the command table
	fset       *token.FileSet
	add        func(pos token.Pos, rule, what, why string)
}

// visit looks at single nodes, wherever they stand.
func (c *checker) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok && c.test && x.Name == "time" && n.Sel.Name == "Sleep" {
			c.add(n.Pos(), "sleep", "sleeps in a test", "a sleeping test is slow and fails on a busy machine: use testing/synctest, an injected clock or a wait for the event")
		}
		// Names of Redis commands are the wire's words.
		if x, ok := n.X.(*ast.Ident); ok && x.Name == "command" {
			return false
		}
	case *ast.GoStmt:
		if c.noGo && !c.test {
			c.add(n.Pos(), "goroutine", "starts a goroutine", "this room computes and returns; whoever wants concurrency starts it outside")
		}
	case *ast.Ident:
		if m := notOurs.FindString(n.Name); m != "" && !c.wire {
			c.add(n.Pos(), "words", "identifier "+n.Name, "the word here is owner, successor or replica")
		}
	}
	return true
}

// decl looks at one top-level declaration.
func (c *checker) decl(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.Name == "init" {
			c.add(d.Pos(), "init", "has an init function", "many nodes live in one process: effects belong to constructors, tables to variable initialisers")
		}
		if n := c.funcLines(d); !c.test && n > MaxFuncLines {
			c.add(d.Pos(), "length", fmt.Sprintf("%s has %d lines, limit %d", d.Name.Name, n, MaxFuncLines), "split it by step")
		}
	case *ast.GenDecl:
		if d.Tok != token.VAR || c.test {
			return
		}
		for _, spec := range d.Specs {
			v := spec.(*ast.ValueSpec)
			if what := hiddenState(v); what != "" {
				c.add(v.Pos(), "global", v.Names[0].Name+" is a package-level "+what, "state belongs to a struct: many nodes live in one process")
			}
		}
	}
}

// funcLines counts the lines of a function without the one-line cases of its
// switches: a dispatch table reads at a glance.
func (c *checker) funcLines(d *ast.FuncDecl) int {
	line := func(p token.Pos) int { return c.fset.Position(p).Line }
	n := line(d.End()) - line(d.Pos()) + 1
	if d.Body == nil {
		return n
	}
	ast.Inspect(d.Body, func(node ast.Node) bool {
		if cc, ok := node.(*ast.CaseClause); ok {
			if span := line(cc.End()) - line(cc.Pos()) + 1; span <= 2 {
				n -= span
			}
		}
		return true
	})
	return n
}

// hiddenState names the mutable kinds that must not live at package level.
func hiddenState(v *ast.ValueSpec) string {
	kinds := []string{"sync.Mutex", "sync.RWMutex", "sync.WaitGroup", "sync.Map", "sync.Once"}
	check := func(e ast.Expr) string {
		if star, ok := e.(*ast.StarExpr); ok {
			e = star.X
		}
		if idx, ok := e.(*ast.IndexExpr); ok {
			e = idx.X
		}
		switch e := e.(type) {
		case *ast.ChanType:
			return "channel"
		case *ast.SelectorExpr:
			if x, ok := e.X.(*ast.Ident); ok {
				if full := x.Name + "." + e.Sel.Name; x.Name == "atomic" || slices.Contains(kinds, full) {
					return full
				}
			}
		}
		return ""
	}
	if v.Type != nil {
		return check(v.Type)
	}
	for _, val := range v.Values {
		switch e := val.(type) {
		case *ast.CompositeLit:
			if what := check(e.Type); what != "" {
				return what
			}
		case *ast.CallExpr:
			if fn, ok := e.Fun.(*ast.Ident); ok && fn.Name == "make" && len(e.Args) > 0 {
				if what := check(e.Args[0]); what != "" {
					return what
				}
			}
		}
	}
	return ""
}

// CheckDocs holds the package comments: each room says what it owns and what
// it never does.
func CheckDocs(pkgs []Package) []Fault {
	var faults []Fault
	for _, p := range pkgs {
		switch doc := strings.ToLower(p.Doc); {
		case doc == "":
			faults = append(faults, Fault{p.Path, "doc", "has no package comment", "a reader starts there"})
		case strings.HasPrefix(relative(p.Path), "internal/") && (!strings.Contains(doc, "own") || !strings.Contains(doc, "never")):
			faults = append(faults, Fault{p.Path, "doc", "the package comment lacks what it owns or what it never does",
				"the border of a room is written at its door"})
		}
	}
	return faults
}
