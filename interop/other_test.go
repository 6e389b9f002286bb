package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// ioredisVersion is what the test installs; a newer one is another test.
const ioredisVersion = "5.8.0"

// ioredis returns where ioredis is: in the user's cache, installed there by npm
// once. The test is skipped where that is not possible.
func ioredis(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: ioredis was not tested", tool)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "ringcache-interop", "ioredis-"+ioredisVersion)
	module := filepath.Join(dir, "node_modules", "ioredis")
	if _, err := os.Stat(filepath.Join(module, "package.json")); err == nil {
		return module
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, "ioredis@"+ioredisVersion).CombinedOutput()
	if err != nil {
		t.Skipf("npm cannot install ioredis, which was not tested: %v\n%s", err, out)
	}
	return module
}

// drive runs a script that ends with the line "fine".
func drive(t *testing.T, name string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "fine" {
		t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func TestIORedis(t *testing.T) {
	module := ioredis(t)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := startFleet(t, 2, "--redis-version", version)
			drive(t, "node", append([]string{"testdata/ioredis.js", module}, f.addrs()...)...)
		})
	}
}

func TestRedisPy(t *testing.T) {
	const python = "/usr/bin/python3" // which sees the packages of Debian
	if out, err := exec.Command(python, "-c", "import redis.cluster").CombinedOutput(); err != nil {
		t.Skipf("python3-redis is not installed, redis-py was not tested: %v\n%s", err, out)
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			f := startFleet(t, 2, "--redis-version", version)
			drive(t, python, "testdata/redis_py.py", f.addrs()[0])
		})
	}
}
