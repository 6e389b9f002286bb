package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	roomName = regexp.MustCompile("`((?:internal|cmd)/[a-z/]+|client|local|lua|discovery)`")
	fence    = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")
	mdLink   = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// CheckRooms holds the rooms table of ARCHITECTURE.md against the packages:
// each is named, and none that does not exist.
func CheckRooms(architecture string, pkgs []Package) []Fault {
	named, exists := map[string]bool{}, map[string]bool{}
	for _, m := range roomName.FindAllStringSubmatch(architecture, -1) {
		named[m[1]] = true
	}
	var faults []Fault
	for _, p := range pkgs {
		rel := relative(p.Path)
		exists[rel] = true
		if rel != "" && !named[rel] {
			faults = append(faults, Fault{p.Path, "architecture", "is not in the rooms table of ARCHITECTURE.md", "add its row"})
		}
	}
	for n := range named {
		if !exists[n] {
			faults = append(faults, Fault{"ARCHITECTURE.md", "architecture", "names " + n + ", which does not exist", "the page is true to the tree"})
		}
	}
	return faults
}

// Snippets returns the Go programs of a Markdown text: fenced blocks that
// begin with a package clause.
func Snippets(markdown string) []string {
	var out []string
	for _, m := range fence.FindAllStringSubmatch(markdown, -1) {
		if strings.HasPrefix(m[1], "package ") {
			out = append(out, m[1])
		}
	}
	return out
}

// CheckLinks holds that relative links of a Markdown file lead somewhere.
// file is its path relative to root.
func CheckLinks(root, file, markdown string) []Fault {
	var faults []Fault
	for _, m := range mdLink.FindAllStringSubmatch(markdown, -1) {
		if _, err := os.Stat(filepath.Join(root, filepath.Dir(file), m[1])); err != nil {
			faults = append(faults, Fault{file, "links", "links to " + m[1] + ", which does not exist", "mend or remove it"})
		}
	}
	return faults
}

// LoadMarkdown reads the Markdown files of the project, path to text.
func LoadMarkdown(root string) (map[string]string, error) {
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".md") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		out[filepath.ToSlash(rel)] = string(text)
		return err
	})
	return out, err
}
