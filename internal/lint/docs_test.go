package lint

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestDocs holds the pages to the tree: rooms, links, programs that compile.
func TestDocs(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := LoadMarkdown(root)
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
	faults := CheckRooms(pages["ARCHITECTURE.md"], pkgs)
	programs := 0
	for file, text := range pages {
		faults = append(faults, CheckLinks(root, file, text)...)
		for i, program := range Snippets(text) {
			programs++
			name := filepath.Join(t.TempDir(), fmt.Sprintf("snippet%d.go", i+1))
			if err := os.WriteFile(name, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := goTool(root, "vet", name); err != nil {
				t.Errorf("%s, program %d: %v", file, i+1, err)
			}
		}
	}
	if programs < 2 {
		t.Errorf("only %d programs were found: the README has two", programs)
	}
	for _, f := range faults {
		t.Error(f)
	}
}

func TestDocRulesCanFail(t *testing.T) {
	pkgs := []Package{{Path: Module}, {Path: Module + "/internal/ring"}, {Path: Module + "/client"}}
	rooms := func(text string) []Fault { return CheckRooms(text, pkgs) }
	links := func(text string) []Fault { return CheckLinks("../..", "docs/x.md", text) }
	tests := []struct {
		name  string
		check func(string) []Fault
		text  string
		want  string
	}{
		{"all rooms", rooms, "`internal/ring` and `client`", ""},
		{"a room missing", rooms, "`client`", "is not in the rooms table"},
		{"a room too many", rooms, "`internal/ring` `client` `internal/gone`", "names internal/gone"},
		{"a good link", links, "[x](../README.md#scaling) [y](https://example.com/x)", ""},
		{"a dead link", links, "[x](nowhere.md)", "links to nowhere.md"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { expect(t, tt.check(tt.text), tt.want) })
	}
	if got := Snippets("text\n```go\npackage main\n```\n```go\nfmt.Println()\n```\n"); len(got) != 1 || got[0] != "package main\n" {
		t.Errorf("got %q", got)
	}
}
