package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/ring"
)

var update = flag.Bool("update", false, "write docs/configuration.md")

var machine = &Memory{Bytes: 8 << 30, Of: "machine"}

// write puts a configuration file called ring.yaml into a directory of the
// test and makes that the working directory, so that messages are short.
func write(t *testing.T, text string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("ring.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return "ring.yaml"
}

func TestDefaults(t *testing.T) {
	c, err := Load(Input{Memory: machine})
	if err != nil {
		t.Fatal(err)
	}
	memory := float64(8 << 30)
	want := ringcache.Options{
		Diagnostics: ringcache.Diagnostics{}.WithDefaults(),
		Addr:        "127.0.0.1:7001", ClusterName: "ringcache", JoinTimeout: 10 * time.Second,
		MaxMemory: int64(memory * 0.6), MaxValue: 256 << 10, Policy: "s3fifo", IO: "auto",
		Placement: "ring", Tokens: 160, Weight: 1, MaxClients: 10000, OutputLimit: 64 << 20, TrackingKeys: 1_000_000, WarmRate: 5000, WarmBytes: 64 << 20, Version: "7.4.0",
		ProbeInterval: time.Second, ProbeTimeout: 500 * time.Millisecond, SuspicionMult: 4, HoldDown: 3 * time.Second,
		JoinSteps: 8, MissBudget: 0.05, JoinTime: 10 * time.Minute, DrainTimeout: time.Minute,
	}
	if diff := cmp.Diff(want, c.Options); diff != "" {
		t.Error(diff)
	}
	if c.LogFormat != "text" || c.LogLevel != 0 {
		t.Errorf("log format %q, level %v", c.LogFormat, c.LogLevel)
	}
	for _, e := range c.Entries() {
		if e.Origin != Default {
			t.Errorf("%s comes from %s", e.Key, e.Origin)
		}
	}
	// Defaults that the root package has too must not differ.
	if want.MaxValue != ringcache.DefaultMaxValue || want.MaxClients != ringcache.DefaultMaxClients ||
		want.OutputLimit != ringcache.DefaultOutputLimit || want.TrackingKeys != ringcache.DefaultTracking || want.JoinTimeout != ringcache.DefaultJoinTimeout ||
		want.ClusterName != ringcache.DefaultClusterName || want.Tokens != ring.DefaultTokens {
		t.Error("a default differs from the root package's")
	}
}

func TestPoliciesAreTheEngines(t *testing.T) {
	got, want := slices.Sorted(slices.Values(Lookup("policy").Values)), slices.Sorted(slices.Values(ringcache.Policies()))
	if !slices.Equal(got, want) {
		t.Errorf("table has %v, engine %v", got, want)
	}
}

// TestOrigins gives each source the chance to win, and looks at value and origin.
func TestOrigins(t *testing.T) {
	file := write(t, "# comment\naddr: 10.0.0.1:7001\nmax-memory: 512mb\n\nseeds:\n  - 10.0.0.2:7001\n  - 10.0.0.3:7001\ncluster-secret: s3cr3t and long enough\npassword: 007\nweight: 0\nzone: \"eu 1\"\n")
	c, err := Load(Input{
		File:    file,
		Environ: []string{"PATH=/bin", "RINGCACHE_MAX_MEMORY=1gb", "RINGCACHE_TOKENS=200", "RINGCACHE_ZONE=", "RINGCACHE_CONFIG=other"},
		Flags:   []Flag{{"tokens", "250"}, {"tokens", "300"}},
		Memory:  machine,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := c.Options
	if o.MaxMemory != 1<<30 || o.Tokens != 300 || o.Password != "007" || o.Weight != -1 || o.Zone != "eu 1" || o.ClusterSecret != "s3cr3t and long enough" {
		t.Errorf("got %+v", o)
	}
	if diff := cmp.Diff([]string{"10.0.0.2:7001", "10.0.0.3:7001"}, o.Seeds); diff != "" {
		t.Error(diff)
	}
	want := map[string]Entry{
		"addr":           {"addr", "10.0.0.1:7001", "ring.yaml:2"},
		"max-memory":     {"max-memory", "1gb", "RINGCACHE_MAX_MEMORY"},
		"seeds":          {"seeds", "10.0.0.2:7001,10.0.0.3:7001", "ring.yaml:6"},
		"tokens":         {"tokens", "300", "--tokens"},
		"zone":           {"zone", "eu 1", "ring.yaml:11"},
		"weight":         {"weight", "0", "ring.yaml:10"},
		"cluster-secret": {"cluster-secret", "(set)", "ring.yaml:8"},
		"password":       {"password", "(set)", "ring.yaml:9"},
		"policy":         {"policy", "s3fifo", "default"},
	}
	for _, e := range c.Entries() {
		if w, ok := want[e.Key]; ok && w != e {
			t.Errorf("got %+v, want %+v", e, w)
		}
		if strings.Contains(e.Value, "s3cr3t") || strings.Contains(e.Value, "007") {
			t.Errorf("%s prints a secret", e.Key)
		}
	}
}

func TestMaxMemoryShows(t *testing.T) {
	c, err := Load(Input{Flags: []Flag{{"max-memory", "25%"}}, Memory: &Memory{Bytes: 4 << 30, Of: "cgroup v2"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.entries["max-memory"].Value, "1gb (25% of 4gb, cgroup v2)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestAllFaultsAtOnce has one fault of every kind in every source: all of them
// are reported, each with its place, and nothing else.
func TestAllFaultsAtOnce(t *testing.T) {
	file := write(t, `addr: 10.0.0.1:7001
max-memry: 512mb
max-value: 256qb
max-value: 1kb
tokens: [1, 2]
policy: lur
hold-down:
probe-timeout: 2s
`)
	_, err := Load(Input{
		File:    file,
		Environ: []string{"RINGCACHE_LOG_LEVL=info", "RINGCACHE_PROBE_INTERVAL=1", "RINGCACHE_WEIGHT=101", "RINGCACHE_XYZ=1", "RINGCACHE_Addr=x:1"},
		Flags:   []Flag{{"max-clients", "many"}, {"seeds", "10.0.0.2:7001,10.0.0.3"}, {"log-format", "yaml"}},
		Memory:  machine,
	})
	if !errors.Is(err, ringcache.ErrConfig) {
		t.Fatalf("%v is no ErrConfig", err)
	}
	want := []string{
		`ring.yaml:2:1: max-memry: unknown key; did you mean "max-memory"?`,
		`ring.yaml:3:12: max-value: "256qb" is not a size; ` + sizeHint,
		`ring.yaml:4:1: max-value: given twice, first in line 3; remove one`,
		`ring.yaml:5:9: tokens: is not a single value; write it on one line`,
		`ring.yaml:6:9: policy: "lur" is unknown; did you mean "lru"? (one of: s3fifo, lru, lfu, ttl, priority, noeviction)`,
		`ring.yaml:7:1: hold-down: has no value; give one or remove the line`,
		`RINGCACHE_LOG_LEVL: unknown variable; did you mean RINGCACHE_LOG_LEVEL?`,
		"RINGCACHE_XYZ: unknown variable; unset it; `ringcache config show` lists all keys",
		`RINGCACHE_Addr: unknown variable; did you mean RINGCACHE_ADDR?`,
		`RINGCACHE_WEIGHT: weight: 101 is out of range; choose 0 to 100`,
		`RINGCACHE_PROBE_INTERVAL: probe-interval: "1" lacks a unit; add it: 1s or 1ms`,
		`--seeds: "10.0.0.3" is not an address; write host:port, for example 127.0.0.1:7001 or [::1]:7001`,
		`--max-clients: "many" is not a whole number; write a whole number from 1 to 1000000`,
		`--log-format: "yaml" is unknown; choose one of: text, json`,
		`cluster-secret: is missing, but 10.0.0.1:7001 can be reached from other machines: anybody could join; set the same secret on every node, best by RINGCACHE_CLUSTER_SECRET or in the file`,
	}
	lines := strings.Split(err.Error(), "\n")
	if lines[0] != "configuration: 15 faults" {
		t.Errorf("first line is %q", lines[0])
	}
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	if diff := cmp.Diff(want, lines[1:]); diff != "" {
		t.Errorf("faults differ (-want +got):\n%s", diff)
	}
}

func TestRules(t *testing.T) {
	tests := []struct {
		name  string
		flags []Flag
		want  string // "" = valid
	}{
		{"loopback needs no secret", []Flag{{"addr", "127.0.0.1:7005"}}, ""},
		{"localhost too", []Flag{{"addr", "localhost:7005"}}, ""},
		{"IPv6 loopback too", []Flag{{"addr", "[::1]:7005"}}, ""},
		{"every interface", []Flag{{"addr", ":7001"}}, "cluster-secret: is missing, but :7001 can be reached"},
		{"gossip elsewhere", []Flag{{"gossip-addr", "10.0.0.1:9"}}, "cluster-secret: is missing, but 10.0.0.1:9"},
		{"with a secret", []Flag{{"addr", "0.0.0.0:7001"}, {"cluster-secret", "sixteen bytes..."}}, ""},
		{"a short secret", []Flag{{"addr", "0.0.0.0:7001"}, {"cluster-secret", "fifteen bytes.."}}, "--cluster-secret: has 15 bytes, at least 16 are needed"},
		{"no port for gossip", []Flag{{"addr", "127.0.0.1:55536"}}, "--addr: port 55536 has no port for gossip"},
		{"given for gossip", []Flag{{"addr", "127.0.0.1:55536"}, {"gossip-addr", "127.0.0.1:9"}}, ""},
		{"a source with a port", []Flag{{"source-addr", "127.0.0.1:7001"}}, `--source-addr: "127.0.0.1:7001" is none; give an IP address of this machine without a port`},
		{"a source that is no single machine's", []Flag{{"source-addr", "0.0.0.0"}}, `--source-addr: "0.0.0.0" is none`},
		{"a source", []Flag{{"source-addr", "127.0.0.9"}}, ""},
		{"probe slower than its interval", []Flag{{"probe-timeout", "2s"}}, "--probe-timeout: 2s is above probe-interval 1s"},
		{"a value as large as the memory", []Flag{{"max-value", "2mb"}, {"max-memory", "4mb"}}, "--max-value: 2mb is above a quarter of max-memory 4mb"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(Input{Flags: tt.flags, Memory: machine})
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestLosingValueIsChecked: a bad value in the file is a fault even while a
// flag overrides it.
func TestLosingValueIsChecked(t *testing.T) {
	file := write(t, "tokens: none\n")
	_, err := Load(Input{File: file, Flags: []Flag{{"tokens", "160"}}, Memory: machine})
	if err == nil || !strings.Contains(err.Error(), "ring.yaml:1:9: tokens:") {
		t.Errorf("got %v", err)
	}
}

func TestFiles(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", ""},
		{"only comments", "# nothing\n", ""},
		{"one key", "tokens: 10\n", ""},
		{"flow mapping", "{tokens: 10, weight: 2}\n", ""},
		{"no mapping", "tokens\n", "ring.yaml:1:1: the file is no mapping"},
		{"a list", "- tokens\n", "ring.yaml:1:1: the file is no mapping"},
		{"nested", "addr:\n  host: x\n", "is not a single value"},
		{"two documents", "tokens: 10\n---\ntokens: 20\n", "ring.yaml:3:7: a second document"},
		{"a tab", "tokens:\t10\n\tweight: 2\n", "ring.yaml:2:1: no valid YAML"},
		{"open quote", "zone: \"eu\ntokens: 1\n", "no valid YAML"},
		{"anchor", "tokens: &t 10\n", "is not a single value"},
		{"underscores", "max_memory: 1gb\n", `did you mean "max-memory"?`},
		{"secret kept out of messages", "cluster-secret: \"a\\u0001b\"\n", "cluster-secret: contains a control character"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Load(Input{File: write(t, tt.text), Memory: machine})
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("absent", func(t *testing.T) {
		_, err := Load(Input{File: "no.yaml", Memory: machine})
		if err == nil || !strings.Contains(err.Error(), "no.yaml: cannot be read: no such file") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("huge", func(t *testing.T) {
		_, err := Load(Input{File: write(t, strings.Repeat("#\n", maxFile)), Memory: machine})
		if err == nil || !strings.Contains(err.Error(), "limit 1048576") {
			t.Errorf("got %v", err)
		}
	})
}

// TestServiceLinks: what Kubernetes adds for services is skipped, what only
// resembles it is not.
func TestServiceLinks(t *testing.T) {
	tests := []struct {
		pair string
		ok   bool
	}{
		{"RINGCACHE_SERVICE_HOST=10.0.0.1", true},
		{"RINGCACHE_SERVICE_PORT=7001", true},
		{"RINGCACHE_SERVICE_PORT_RESP=7001", true},
		{"RINGCACHE_PORT=tcp://10.0.0.1:7001", true},
		{"RINGCACHE_PORT_7001_TCP=tcp://10.0.0.1:7001", true},
		{"RINGCACHE_PORT_7001_TCP_ADDR=10.0.0.1", true},
		{"RINGCACHE_HEADLESS_PORT_17001_UDP_PROTO=udp", true},
		{"RINGCACHE_PORT=7001", false},
		{"RINGCACHE_PORT_7001=x", false},
	}
	for _, tt := range tests {
		if _, err := Load(Input{Environ: []string{tt.pair}, Memory: machine}); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.pair, err)
		}
	}
}

func TestSuggest(t *testing.T) {
	tests := []struct{ word, want string }{
		{"max-memry", "max-memory"}, {"maxmemory", "max-memory"}, {"MAX_MEMORY", "max-memory"}, {"max-mem", "max-memory"},
		{"adr", "addr"}, {"seed", "seeds"}, {"tokns", "tokens"}, {"wieght", "weight"}, {"loglevel", "log-level"},
		{"gossip", ""}, {"gossipaddr", "gossip-addr"}, {"clustername", "cluster-name"}, {"xyz", ""}, {"replcas", "replicas"}, {"slaves", ""}, {"", ""}, {"---", ""},
	}
	for _, tt := range tests {
		if got := Suggest(tt.word, keyNames()); got != tt.want {
			t.Errorf("Suggest(%q) = %q, want %q", tt.word, got, tt.want)
		}
	}
}

// TestTable checks the table itself: every default and example is a value,
// and every row says enough.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys() {
		if seen[k.Name] {
			t.Errorf("%s stands twice", k.Name)
		}
		seen[k.Name] = true
		if k.Usage == "" || k.Example == "" || k.Group == "" || k.Kind == "" || strings.HasSuffix(k.Usage, ".") {
			t.Errorf("%s says too little, or its usage ends with a full stop", k.Name)
		}
		c := &Config{memory: func() (Memory, error) { return *machine, nil }}
		if _, err := k.set(c, k.Example); err != nil {
			t.Errorf("%s: example: %v", k.Name, err)
		}
		if _, err := k.set(c, k.Default); err != nil {
			t.Errorf("%s: default: %v", k.Name, err)
		}
	}
}

// TestDocsCurrent: docs/configuration.md is what the table says.
func TestDocsCurrent(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "configuration.md")
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
		t.Error("docs/configuration.md is not current: run make docs")
	}
}

// FuzzYAML: no file makes the reader panic, and a fault always has a place.
func FuzzYAML(f *testing.F) {
	for _, seed := range []string{"", "tokens: 1\n", "seeds: [a:1, b:2]\n", "a: b: c\n", "- x\n", "zone: |\n  x\n", "? x\n: y\n", "a: &x 1\nb: *x\n", "<<: {a: 1}\n", "\x00", "tokens: !!int 5\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		values, faults := readYAML("f.yaml", text)
		for _, fault := range faults {
			if !strings.HasPrefix(fault.Where, "f.yaml") || fault.What == "" {
				t.Errorf("fault without place or reason: %+v", fault)
			}
		}
		for _, v := range values {
			if v.key == nil || !strings.HasPrefix(string(v.from), "f.yaml:") {
				t.Errorf("value without key or origin: %+v", v)
			}
		}
	})
}
