// Package config owns the way from text to ringcache.Options: one strict YAML
// file, RINGCACHE_ variables and command-line flags, each value with its
// origin. One table of keys (keys.go) drives parsing, help and
// docs/configuration.md. A flag beats the environment, which beats the file,
// which beats the default. Every fault is reported, not only the first. It
// never opens a socket, never starts a node and never prints a secret. Load
// may be called concurrently; a Config is the caller's.
package config

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/discovery"
)

// EnvPrefix begins every variable that configures ring-cache.
const EnvPrefix = "RINGCACHE_"

// FileVariable names the configuration file when the --config flag does not.
const FileVariable = EnvPrefix + "CONFIG"

// Origin says where a value came from: "default", "ring.yaml:3",
// "RINGCACHE_ADDR" or "--addr".
type Origin string

// Default is the origin of a value that nobody gave.
const Default Origin = "default"

// Flag is one command-line flag as given.
type Flag struct{ Name, Value string }

// Input is everything that Load reads. The zero value gives the defaults.
type Input struct {
	File    string   // path of the YAML file; "" reads none
	Environ []string // NAME=value, as os.Environ; nil reads none
	Flags   []Flag   // flags that were given; a later one replaces an earlier one
	Memory  *Memory  // what max-memory in per cent refers to; nil asks the machine
}

// Config is a valid configuration.
type Config struct {
	Options   ringcache.Options
	LogLevel  slog.Level
	LogFormat string // "text" or "json"

	Admin      string // address of the HTTP listener for operators; "" is none
	AdminPprof bool   // with profiles

	discovery string // description, see findSeeds
	registry  discovery.Options

	input   Input
	entries map[string]Entry
	memory  func() (Memory, error)
}

// Entry is one effective value for people: secrets are masked.
type Entry struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin Origin `json:"origin"`
}

// Entries returns the effective values in the order of the table.
func (c *Config) Entries() []Entry {
	out := make([]Entry, 0, len(keys))
	for i := range keys {
		out = append(out, c.entries[keys[i].Name])
	}
	return out
}

// Load reads the sources and returns a valid configuration, or Faults with
// everything that is wrong with them.
func Load(in Input) (*Config, error) {
	c := &Config{input: in, entries: make(map[string]Entry, len(keys)), memory: MachineMemory}
	if in.Memory != nil {
		c.memory = func() (Memory, error) { return *in.Memory, nil }
	}
	values, faults := gather(in)
	last := make(map[string]given, len(keys)) // by key; sources come in rising order
	for i := range keys {
		last[keys[i].Name] = given{key: &keys[i], text: keys[i].Default, from: Default}
	}
	for _, g := range values {
		if was := last[g.key.Name]; was.from != Default {
			// The value that loses must be valid too: it would win tomorrow.
			if _, err := g.key.set(&Config{memory: c.memory}, was.text); err != nil {
				faults = append(faults, fault(was.where, g.key, err))
			}
		}
		last[g.key.Name] = g
	}
	valid := make(map[string]bool, len(keys))
	for i := range keys {
		key := &keys[i]
		g := last[key.Name]
		shown, err := key.set(c, g.text)
		if err != nil {
			faults = append(faults, fault(g.where, key, err))
			continue
		}
		if key.Secret && shown != "" {
			shown = "(set)"
		}
		valid[key.Name] = true
		c.entries[key.Name] = Entry{key.Name, shown, g.from}
	}
	for _, r := range rules {
		if !slices.ContainsFunc(r.keys, func(k string) bool { return !valid[k] }) {
			if what, do := r.check(c); what != "" {
				faults = append(faults, Fault{Where: last[r.keys[0]].where, Key: r.keys[0], What: what, Do: do})
			}
		}
	}
	if len(faults) > 0 {
		return nil, faults.sorted(in.File)
	}
	if in.File != "" {
		c.Options.Diagnostics.ConfigFile, c.Options.Diagnostics.Rewrite = in.File, c.Rewrite
	}
	return c, nil
}

// gather collects what the sources give, lowest precedence first.
func gather(in Input) ([]given, Faults) {
	var values []given
	var faults Faults
	if in.File != "" {
		text, err := os.ReadFile(in.File)
		if err != nil {
			var pathErr *os.PathError
			if errors.As(err, &pathErr) {
				err = pathErr.Err
			}
			faults = append(faults, Fault{Where: in.File, What: "cannot be read: " + err.Error(), Do: "check --config and " + FileVariable})
		} else {
			values, faults = readYAML(in.File, text)
		}
	}
	fromEnv, envFaults := readEnviron(in.Environ)
	values, faults = append(values, fromEnv...), append(faults, envFaults...)
	for _, f := range in.Flags {
		key := Lookup(f.Name)
		if key == nil {
			faults = append(faults, Fault{Where: "--" + f.Name, What: "unknown flag", Do: didYouMean(f.Name, keyNames(), "--help lists all flags")})
			continue
		}
		values = append(values, given{key, f.Value, "--" + f.Name, Origin("--" + f.Name)})
	}
	return values, faults
}

// serviceLink are the variables that Kubernetes adds to every container for a
// service whose name begins with "ringcache": RINGCACHE_SERVICE_HOST,
// RINGCACHE_PORT_7001_TCP_ADDR and so on. They are nobody's configuration.
var serviceLink = regexp.MustCompile(`^RINGCACHE_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// readEnviron picks the RINGCACHE_ variables. An empty one counts as unset.
func readEnviron(environ []string) ([]given, Faults) {
	var values []given
	var faults Faults
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(name, EnvPrefix) || name == FileVariable || value == "" || serviceLink.MatchString(name) {
			continue
		}
		if strings.HasSuffix(name, "_PORT") && strings.Contains(value, "://") {
			continue // a service link too: RINGCACHE_PORT=tcp://10.0.0.1:7001
		}
		key := Lookup(strings.ReplaceAll(strings.ToLower(name[len(EnvPrefix):]), "_", "-"))
		if key == nil || key.Env() != name {
			do := "unset it; `ringcache config show` lists all keys"
			if near := Suggest(name[len(EnvPrefix):], keyNames()); near != "" {
				do = fmt.Sprintf("did you mean %s?", Lookup(near).Env())
			}
			faults = append(faults, Fault{Where: name, What: "unknown variable", Do: do})
			continue
		}
		values = append(values, given{key, value, name, Origin(name)})
	}
	return values, faults
}

// fault attaches a place to an error of a key's parser.
func fault(where string, key *Key, err error) Fault {
	var b *badValue
	if !errors.As(err, &b) {
		return Fault{Where: where, Key: key.Name, What: err.Error()}
	}
	return Fault{Where: where, Key: key.Name, What: b.what, Do: b.do}
}
