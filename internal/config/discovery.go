package config

import (
	"strings"

	"github.com/ringcache/ringcache/discovery"
	"github.com/ringcache/ringcache/internal/errs"
)

// findSeeds makes the Discovery of its five keys together, or says what is wrong.
func (c *Config) findSeeds() (what, do string) {
	source, err := discovery.Parse(c.discovery, c.registry)
	if err != nil {
		return strings.TrimPrefix(err.Error(), errs.ErrConfig.Error()+": "), "docs/discovery.md has examples"
	}
	if source != nil { // an interface that holds nil would not be nil
		c.Options.Discovery = source
	}
	return "", ""
}
