package config

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringcache/ringcache"
)

func TestDiscoveryKeys(t *testing.T) {
	load := func(flags ...Flag) (*Config, error) { return Load(Input{Flags: flags, Memory: machine}) }
	for _, tc := range []struct {
		flags []Flag
		says  string
	}{
		{[]Flag{{"discovery", "zookeeper:x"}}, "not one of static, file:PATH"},
		{[]Flag{{"discovery", "etcd:10.0.0.1/x"}}, "does not begin with http"},
		{[]Flag{{"discovery", "etcd:http://h:1/x"}, {"discovery-token", "hush"}}, "not user:password"},
		{[]Flag{{"discovery", "consul:http://h:1/x"}, {"discovery-cert", "c.pem"}}, "needs its key"},
		{[]Flag{{"discovery", "consul:https://h:1/x"}, {"discovery-ca", "/no/such.pem"}}, "no such file"},
	} {
		_, err := load(tc.flags...)
		if !errors.Is(err, ringcache.ErrConfig) || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "docs/discovery.md") ||
			strings.Contains(err.Error(), "hush") {
			t.Errorf("%v: %v", tc.flags, err)
		}
	}
	path := filepath.Join(t.TempDir(), "seeds")
	if err := os.WriteFile(path, []byte("10.0.0.1:7001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := load(Flag{"discovery", "file:" + path}, Flag{"gossip-tcp", "on"})
	if err != nil || c.Options.Discovery == nil || !c.Options.GossipTCP {
		t.Fatalf("%+v, %v", c, err)
	}
	if got, err := c.Options.Discovery.Seeds(context.Background()); len(got) != 1 || got[0] != "10.0.0.1:7001" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, ok := c.Options.Discovery.(ringcache.Registrar); ok {
		t.Error("a file lists nobody")
	}
	if c, err = load(Flag{"discovery", "consul:http://127.0.0.1:8500/ringcache"}); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Options.Discovery.(ringcache.Registrar); !ok {
		t.Error("Consul lists nodes")
	}
	if c, err = load(Flag{"discovery", "static"}); err != nil || c.Options.Discovery != nil {
		t.Errorf("%v, %v", c.Options.Discovery, err)
	}
}
