package interop

import (
	"bytes"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// together starts processes at one moment; seeds gives the list of each.
func together(t *testing.T, n int, seeds func(self int, addrs []string) []string) *fleet {
	t.Helper()
	f := &fleet{t: t, name: "together-" + strconv.FormatInt(time.Now().UnixNano(), 10)}
	var addrs []string
	for len(addrs) < n {
		addr := freeAddr(t)
		if !strings.Contains(strings.Join(addrs, ","), addr) {
			addrs = append(addrs, addr)
		}
	}
	for i, addr := range addrs {
		f.spawn(addr, seeds(i, addrs))
	}
	return f
}

// All nodes of a new cluster may have one list of seeds that names all of them.
func TestFiveStartTogetherWithOneList(t *testing.T) {
	f := together(t, 5, func(_ int, addrs []string) []string { return addrs })
	t.Logf("one cluster after %v", f.settled(5, patience).Round(10*time.Millisecond))
}

// Neither of two nodes is running when the other one starts.
func TestTwoStartTogetherSeedingEachOther(t *testing.T) {
	f := together(t, 2, func(self int, addrs []string) []string { return []string{addrs[1-self]} })
	t.Logf("one cluster after %v", f.settled(2, patience).Round(10*time.Millisecond))
}

func TestDrainedNodeComesBack(t *testing.T) {
	f := startFleet(t, 3)
	p := f.procs[1]
	start := time.Now()
	f.leave(p)
	t.Logf("left within %v", time.Since(start).Round(10*time.Millisecond))
	f.settled(2, patience)
	f.addAt(p.addr)
	t.Logf("back after %v", f.settled(3, patience).Round(10*time.Millisecond))
}

// Whoever does not fit is refused, and told why, with both values.
func TestWhoDoesNotFitIsRefused(t *testing.T) {
	f := startFleet(t, 1)
	for _, tc := range []struct {
		name  string
		flags []string
		texts []string
	}{
		{"cluster name", []string{"--cluster-name", "other"}, []string{f.name, "other", "cluster mismatch"}},
		{"tokens", []string{"--cluster-name", f.name, "--tokens", "200"}, []string{"160 tokens", "200 tokens"}},
		{"secret", []string{"--cluster-name", f.name, "--cluster-secret", "not the secret of the others"}, []string{"cluster secret"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			addr := freeAddr(t)
			text, code := refused(t, append([]string{"serve", "--addr", addr, "--seeds", f.procs[0].addr, "--max-memory", "64mb"}, tc.flags...)...)
			if code != 3 {
				t.Errorf("exit code %d, want 3", code)
			}
			for _, want := range append(tc.texts, f.procs[0].addr) {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not named in: %s", want, text)
				}
			}
		})
	}
}

func TestUnreachableSeedIsNamedOnce(t *testing.T) {
	f := &fleet{t: t}
	seed := freeAddr(t)
	addr := freeAddr(t)
	text, code := refused(t, "serve", "--addr", addr, "--seeds", seed, "--join-timeout", "700ms")
	if want := seed + ": connection refused"; code != 3 || strings.Count(text, want) != 1 || strings.Count(text, "no seed reachable") != 1 {
		f.t.Errorf("exit code %d, want 3, and %q once in: %s", code, want, text)
	}
}

// refused runs the program until it ends by itself.
func refused(t *testing.T, args ...string) (text string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("it ended with %v: %s", err, &out)
	}
	return out.String(), exit.ExitCode()
}
