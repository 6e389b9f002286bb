package config

import (
	"fmt"
	"strings"
)

// Key is one row of the table: a setting and everything that is said about it.
type Key struct {
	Name    string   // "max-memory"; flag --max-memory, variable RINGCACHE_MAX_MEMORY
	Group   string   // heading in the documentation
	Default string   // as text; "" is none
	Usage   string   // one sentence, lower case, without a full stop
	Example string   // a realistic value
	Kind    string   // "address", "IP address", "list", "text", "size", "duration", "count", "number", "one of"
	Limit   string   // allowed range in words, "" if none
	Values  []string // of "one of"
	Secret  bool     // never printed

	list      bool
	separator string // of the items of a list; "" is a comma
	// set parses text into c and returns the value for people.
	set func(c *Config, text string) (string, error)
}

// Env is the variable of the key.
func (k *Key) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(k.Name, "-", "_"))
}

// Help is the usage with kind, limit and values, for flags.
func (k *Key) Help() string {
	s := k.Usage
	switch {
	case len(k.Values) > 0:
		s += ": " + strings.Join(k.Values, ", ")
	case k.Limit != "" && k.Kind != "text":
		s += fmt.Sprintf(" (%s)", k.Limit)
	}
	return s
}

// Keys returns the table in its order. Do not modify it.
func Keys() []Key { return keys }

// Lookup returns the key of that name, or nil.
func Lookup(name string) *Key {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}

func keyNames() []string {
	names := make([]string, len(keys))
	for i := range keys {
		names[i] = keys[i].Name
	}
	return names
}
