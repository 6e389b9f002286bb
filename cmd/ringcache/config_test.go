package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A file for several machines without its secret could never pass the check,
// although the secret belongs into the environment.
func TestConfigCheckTakesSecretsFromTheEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ring.yaml")
	if err := os.WriteFile(file, []byte("addr: 10.0.0.2:7001\nseeds: [10.0.0.1:7001]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errOut := runTo(t, exitUsage, command(t, nil, "config", "check", file))
	contains(t, errOut, "cluster-secret", "RINGCACHE_CLUSTER_SECRET")
	out, _ := runTo(t, exitOK, command(t, []string{"RINGCACHE_CLUSTER_SECRET=a long random string", "RINGCACHE_NONSENSE=1"}, "config", "check", file))
	contains(t, out, "is valid")
}
