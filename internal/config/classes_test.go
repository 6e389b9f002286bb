package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ringcache/ringcache"
)

func TestClasses(t *testing.T) {
	want := []ringcache.Class{{Prefix: "session:", Rank: 1, Quota: 512 << 20}, {Prefix: "a=b:", Rank: -2}, {Prefix: "", Rank: -1}}
	file := filepath.Join(t.TempDir(), "ring.yaml")
	yaml := "policy: priority\nclasses:\n  - session:=high,512mb\n  - a=b:=lowest\n  - =low\n"
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]Input{
		"list":     {File: file},
		"variable": {Environ: []string{"RINGCACHE_CLASSES= session:=high,512mb ; a=b:=lowest; =low;"}},
		"flag":     {Flags: []Flag{{"classes", "session:=high, 512mb;a=b:=lowest;=low"}}},
	} {
		in.Memory = &Memory{Bytes: 4 << 30, Of: "memory"}
		c, err := Load(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(c.Options.Classes, want) {
			t.Errorf("%s: %+v", name, c.Options.Classes)
		}
		if got := c.entries["classes"].Value; got != "session:=high,512mb;a=b:=lowest;=low" {
			t.Errorf("%s: shown as %q", name, got)
		}
	}
	for text, fault := range map[string]string{
		"session:":                        "has no rank",
		"session:=hihg":                   "did you mean \"high\"",
		"session:=high,much":              "much",
		"session:=high,0":                 "quota",
		"a=low;b=low;a=high":              "given twice",
		strings.Repeat("x", 300) + "=low": "limit 256",
		"1=low;2=low;3=low;4=low;5=low;6=low;7=low;8=low": "limit 7",
	} {
		_, err := Load(Input{Flags: []Flag{{"classes", text}}, Memory: &Memory{Bytes: 4 << 30, Of: "memory"}})
		if err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%q: %v, want %q", text, err, fault)
		}
	}
}
