package config

import (
	"math"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"
)

func TestParseSize(t *testing.T) {
	tests := []struct {
		text string
		want int64 // -1 = fault
	}{
		{"0", 0}, {"1024", 1024}, {"1b", 1}, {"1k", 1000}, {"1kb", 1024}, {"1kib", 1024}, {"1KB", 1024}, {"1Ki", -1},
		{"512mb", 512 << 20}, {"512m", 512e6}, {"512 MiB", 512 << 20}, {"1.5gb", 3 << 29}, {"1g", 1e9}, {"2tb", 2 << 40}, {"1t", 1e12},
		{"0.5kb", 512}, {"1.5", -1}, {"-1", -1}, {"-1kb", -1}, {"", -1}, {"kb", -1}, {"1e3kb", -1}, {"0x10", -1}, {"0x10kb", -1},
		{"infkb", -1}, {"nankb", -1}, {"1kbb", -1}, {"60%", -1}, {"9999999tb", -1}, {"9223372036854775808", -1}, {"5s", -1},
	}
	for _, tt := range tests {
		got, err := ParseSize(tt.text)
		if tt.want < 0 != (err != nil) || err == nil && got != tt.want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", tt.text, got, err, tt.want)
		}
	}
}

func TestFormatSize(t *testing.T) {
	tests := []struct {
		n    int64
		want string
	}{{0, "0"}, {1023, "1023"}, {1024, "1kb"}, {1500, "1500"}, {256 << 10, "256kb"}, {3 << 29, "1536mb"}, {1 << 40, "1tb"}, {5153960755, "4.8gb"}, {12345, "12.1kb"}}
	for _, tt := range tests {
		if got := FormatSize(tt.n); got != tt.want {
			t.Errorf("FormatSize(%d) = %q, want %q", tt.n, got, tt.want)
		}
	}
}

// TestSizeRoundTrip: what is printed is read back, exactly where no decimal is
// printed and within a twentieth elsewhere.
func TestSizeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 1<<50).Draw(t, "n")
		got, err := ParseSize(FormatSize(n))
		if err != nil || math.Abs(float64(got-n)) > float64(n)/20 {
			t.Fatalf("%d -> %q -> %d, %v", n, FormatSize(n), got, err)
		}
	})
}

func TestParseOthers(t *testing.T) {
	percent := func(s string) error { _, _, err := parsePercent(s); return err }
	duration := func(s string) error { _, err := parseDuration(s, time.Second, time.Minute); return err }
	integer := func(s string) error { _, err := parseInt(s, 1, 10); return err }
	float := func(s string) error { _, err := parseFloat(s, 0, 10); return err }
	listen := func(s string) error { _, err := parseHostPort(s, true); return err }
	dial := func(s string) error { _, err := parseHostPort(s, false); return err }
	tests := []struct {
		name  string
		parse func(string) error
		text  string
		ok    bool
	}{
		{"percent", percent, "60%", true}, {"percent", percent, "1.5 %", true}, {"percent", percent, "0%", false},
		{"percent", percent, "91%", false}, {"percent", percent, "x%", false}, {"percent", percent, "NaN%", false},
		{"duration", duration, "5s", true}, {"duration", duration, "1m0s", true}, {"duration", duration, "61s", false},
		{"duration", duration, "0s", false}, {"duration", duration, "5", false}, {"duration", duration, "5 s", false},
		{"integer", integer, "10", true}, {"integer", integer, "11", false}, {"integer", integer, "1.0", false}, {"integer", integer, "", false},
		{"float", float, "0.5", true}, {"float", float, "NaN", false}, {"float", float, "Inf", false}, {"float", float, "-1", false},
		{"listen", listen, ":7001", true}, {"listen", listen, "0.0.0.0:0", true}, {"listen", listen, "7001", false},
		{"dial", dial, "[::1]:7001", true}, {"dial", dial, "host:7001", true}, {"dial", dial, ":7001", false},
		{"dial", dial, "host:70010", false}, {"dial", dial, "host:redis", false}, {"dial", dial, "::1", false},
	}
	for _, tt := range tests {
		if err := tt.parse(tt.text); (err == nil) != tt.ok {
			t.Errorf("%s %q: %v", tt.name, tt.text, err)
		}
	}
}

func TestMemory(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	const gb = 1 << 30
	meminfo := file("MemTotal:        8388608 kB\nMemFree:  1 kB\n")
	tests := []struct {
		name string
		fs   fstest.MapFS
		want Memory
		fail bool
	}{
		{"no cgroup", fstest.MapFS{"proc/meminfo": meminfo}, Memory{8 * gb, "machine"}, false},
		{"v2 without limit", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("max\n")}, Memory{8 * gb, "machine"}, false},
		{"v2 limit of the group", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("1073741824\n")}, Memory{gb, "cgroup v2"}, false},
		{"v2 tighter parent", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max": file("2147483648\n"), "sys/fs/cgroup/a/memory.max": file("1073741824\n")}, Memory{gb, "cgroup v2"}, false},
		{"v2 in a container", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("1073741824\n")}, Memory{gb, "cgroup v2"}, false},
		{"v2 above the machine", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("0::/\n"),
			"sys/fs/cgroup/memory.max": file("99999999999999\n")}, Memory{8 * gb, "machine"}, false},
		{"v1", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("9:name=systemd:/\n4:cpu,memory:/docker/x\n0::/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("1073741824\n")}, Memory{gb, "cgroup v1"}, false},
		{"v1 without limit", fstest.MapFS{"proc/meminfo": meminfo, "proc/self/cgroup": file("4:memory:/x\n"),
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": file("9223372036854771712\n")}, Memory{8 * gb, "machine"}, false},
		{"no /proc", fstest.MapFS{}, Memory{}, true},
		{"no total", fstest.MapFS{"proc/meminfo": file("MemFree: 1 kB\n")}, Memory{}, true},
		{"broken total", fstest.MapFS{"proc/meminfo": file("MemTotal: x kB\n")}, Memory{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := memoryFrom(tt.fs)
			if (err != nil) != tt.fail || err == nil && got != tt.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}
