package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestTable(t *testing.T) {
	tab := &Table{Title: "T", Head: []string{"cache", "ratio"}}
	tab.Add("µ", "1.5")
	tab.Add("longer name", "100")
	var b bytes.Buffer
	if err := (Output{Format: "table", W: &b}).Write(Machine{CPU: "c"}, nil, tab); err != nil {
		t.Fatal(err)
	}
	want := "T\n\n| cache       | ratio |\n|-------------|------:|\n| µ           |   1.5 |\n| longer name |   100 |\n\n"
	if !strings.HasSuffix(b.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := (Output{Format: "json", W: &b}).Write(ThisMachine(), []int{1}); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Machine Machine
		Results []int
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.Machine.Cores < 1 || len(got.Results) != 1 {
		t.Errorf("%v: %s", err, b.String())
	}
	if err := (Output{Format: "xml"}).Check(); err == nil {
		t.Error("xml is no format")
	}
}

func TestProgress(t *testing.T) {
	var none *Progress
	none.Step("x")
	none.End()
	var b bytes.Buffer
	p := &Progress{w: &b, total: 2}
	p.Step("first thing")
	p.Step("next")
	p.End()
	if s := b.String(); !strings.Contains(s, "0/2 first thing") || !strings.Contains(s, "1/2 next       ") {
		t.Errorf("%q", s)
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1 << 20: "1 MiB", 3 << 29: "1.5 GiB", 2000: "1.953 KiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}
