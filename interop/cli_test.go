package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// cliFor runs redis-cli in one of its modes without an end, and returns what it
// has printed until then.
func cliFor(t *testing.T, d time.Duration, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	// By lines, so that nothing is lost when it is stopped.
	cmd := exec.CommandContext(ctx, "stdbuf", append([]string{"-oL", "redis-cli"}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() == nil {
		t.Fatalf("redis-cli %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestRedisCLIModes runs the modes that people look at a server with.
func TestRedisCLIModes(t *testing.T) {
	f := startFleet(t, 3, "--policy", "lfu")
	ctx := t.Context()
	g := goRedis(t, f)
	pipe := g.Pipeline()
	for i := range 3000 {
		pipe.Set(ctx, "key:"+strconv.Itoa(i), strings.Repeat("x", 10+i%50), 0)
	}
	pipe.Set(ctx, "giant", strings.Repeat("x", 100_000), 0)
	for range 10 {
		pipe.Get(ctx, "giant")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		t.Fatal(err)
	}
	owner := f.procs[0]
	owners, err := slotOwners(owner.addr)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.procs {
		if owners[slotOf("giant")] == p.addr {
			owner = p
		}
	}
	for name, tc := range map[string]struct {
		args []string
		d    time.Duration // 0: it ends by itself
		want string
	}{
		"stat":    {[]string{"--stat", "-i", "0.1"}, 1500 * time.Millisecond, `keys +mem +clients +blocked +requests +connections[\s\S]*\n\d+ +\d+\.\d+[KM] +[1-9]\d* +0 +\d+ \(\+\d+\) +\d+`},
		"latency": {[]string{"--latency"}, 0, `^0 \d+ \d+\.\d+ [1-9]\d*\n$`},
		"history": {[]string{"--no-raw", "--latency-history", "-i", "0.3"}, 1500 * time.Millisecond, `min: 0, max: \d+, avg: \d+\.\d+ \([1-9]\d* samples\) -- 0\.3\d seconds range`},
		"bigkeys": {[]string{"--bigkeys"}, 0, `Biggest string found '"giant"' has 100000 bytes[\s\S]*strings with \d+ bytes`},
		"memkeys": {[]string{"--memkeys"}, 0, `Biggest string found '"giant"' has 10\d\d\d\d bytes`},
		"hotkeys": {[]string{"--hotkeys"}, 0, `hot key found with counter: 3\s+keyname: "giant"`},
		"scan":    {[]string{"--scan", "--pattern", "gi*"}, 0, `^giant\n$`},
	} {
		t.Run(name, func(t *testing.T) {
			args, want := append([]string{"-p", port(owner.addr)}, tc.args...), regexp.MustCompile(tc.want)
			d := tc.d
			if d == 0 {
				d = patience
			}
			out := cliFor(t, d, args...)
			for range 4 { // a busy machine may keep it from what it prints in time
				if tc.d == 0 || want.MatchString(out) {
					break
				}
				d *= 2
				out = cliFor(t, d, args...)
			}
			if !want.MatchString(out) {
				t.Errorf("%s does not look like %s", out[:min(len(out), 1500)], tc.want)
			}
		})
	}
	t.Run("check", func(t *testing.T) {
		out := redisCLI(t, "", "--cluster", "check", owner.addr)
		for _, want := range []string{"3001 keys in 3 masters", "[OK] All nodes agree about slots configuration", "[OK] All 16384 slots covered"} {
			if !strings.Contains(out, want) {
				t.Errorf("lacks %q:\n%s", want, out)
			}
		}
	})
	t.Run("info", func(t *testing.T) {
		out := redisCLI(t, "", "--cluster", "info", owner.addr)
		sum := 0
		for _, m := range regexp.MustCompile(`-> (\d+) keys \| (\d+) slots \| 0 slaves`).FindAllStringSubmatch(out, -1) {
			n, _ := strconv.Atoi(m[2])
			sum += n
		}
		if sum != slots || !strings.Contains(out, "[OK] 3001 keys in 3 masters") {
			t.Errorf("%d slots:\n%s", sum, out)
		}
	})
	t.Run("call", func(t *testing.T) {
		if out := redisCLI(t, "", "--cluster", "call", owner.addr, "slowlog", "len"); strings.Count(out, ": ") < 3 {
			t.Error(out)
		}
	})
}

// What tools ask for to show how a node does.
func TestDiagnosticsOfGoRedis(t *testing.T) {
	f := startFleet(t, 1)
	ctx := t.Context()
	c := redis.NewClient(&redis.Options{Addr: f.procs[0].addr})
	defer c.Close()
	if err := c.ConfigSet(ctx, "slowlog-log-slower-than", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	log, err := c.SlowLogGet(ctx, 5).Result()
	if err != nil || len(log) == 0 || strings.Join(log[0].Args, " ") != "set k v" {
		t.Errorf("%+v, %v", log, err)
	}
	if n, err := c.MemoryUsage(ctx, "k").Result(); err != nil || n < 10 || n > 1000 {
		t.Errorf("MEMORY USAGE: %d, %v", n, err)
	}
	if m, err := c.Latency(ctx).Result(); err != nil || len(m) != 0 {
		t.Errorf("LATENCY LATEST: %v, %v", m, err)
	}
	info, err := c.Info(ctx, "commandstats", "latencystats").Result()
	if err != nil || !regexp.MustCompile(`cmdstat_set:calls=1,usec=\d+,usec_per_call=[1-9]\d*\.\d\d,`).MatchString(info) ||
		!strings.Contains(info, "latency_percentiles_usec_set:p50=") {
		t.Errorf("%s, %v", info, err)
	}
}

// CONFIG REWRITE changes what was set and leaves the rest of the file alone; the
// next process starts with it.
func TestConfigRewriteOfAServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ring.yaml")
	if err := os.WriteFile(path, []byte("# ours\nmax-clients: 100 # few\nlog-level: warn\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := startFleet(t, 1, "--config", path)
	p := f.procs[0]
	for _, line := range [][]string{{"config", "set", "maxclients", "200", "maxmemory-policy", "allkeys-lru"}, {"config", "set", "slowlog-max-len", "7"}, {"config", "rewrite"}} {
		if out := redisCLI(t, "", append([]string{"-p", port(p.addr)}, line...)...); strings.TrimSpace(out) != "OK" {
			t.Fatalf("%q: %s", line, out)
		}
	}
	text, err := os.ReadFile(path)
	const want = "# ours\nmax-clients: 200 # few\nlog-level: warn\n# Generated by CONFIG REWRITE\npolicy: lru\nslowlog-max-len: 7\n"
	if err != nil || string(text) != want {
		t.Fatalf("%v\n%s", err, text)
	}
	if out := redisCLI(t, "", "-p", port(p.addr), "info", "server"); !strings.Contains(out, "config_file:"+path) {
		t.Error("INFO does not name the file")
	}
	f.kill(p)
	q := f.add("--config", path)
	if out := redisCLI(t, "", "-p", port(q.addr), "config", "get", "maxclients"); out != "maxclients\n200\n" {
		t.Errorf("%q", out)
	}
	if out := redisCLI(t, "", "-p", port(q.addr), "config", "get", "slowlog-max-len"); out != "slowlog-max-len\n7\n" {
		t.Errorf("%q", out)
	}
}
