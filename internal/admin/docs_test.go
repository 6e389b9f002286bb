package admin

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "write docs/metrics.md")

// TestDocsCurrent: docs/metrics.md is what the tables say.
func TestDocsCurrent(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "metrics.md")
	if *update {
		if err := os.WriteFile(path, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != Markdown() {
		t.Error("docs/metrics.md is not current: run make docs")
	}
}

// Names are given once: two metrics of one name would make a scrape fail.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	add := func(name string) {
		if seen[name] {
			t.Errorf("%s stands twice", name)
		}
		seen[name] = true
	}
	for i := range own {
		add(own[i].name)
	}
	for i := range aliases {
		add("redis_" + aliases[i].name)
	}
	for _, l := range labelled {
		add(l.name)
	}
}
