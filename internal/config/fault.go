package config

import (
	"fmt"
	"strings"

	"github.com/ringcache/ringcache/internal/errs"
)

// Fault is one thing wrong with the configuration.
type Fault struct {
	Where string // "file.yaml:3:5", "RINGCACHE_ADDR", "--addr", or "" for a rule over several keys
	Key   string // key concerned, "" if there is none
	What  string // what is wrong, with the limit
	Do    string // what to do about it
}

func (f Fault) String() string {
	var b strings.Builder
	if f.Where != "" {
		b.WriteString(f.Where + ": ")
	}
	if f.Key != "" && f.Where != "--"+f.Key {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.What)
	if f.Do != "" {
		b.WriteString("; " + f.Do)
	}
	return b.String()
}

// Faults is everything wrong with the configuration, in the order of the
// sources: file, environment, flags, rules over several keys. It is
// errs.ErrConfig for errors.Is.
type Faults []Fault

func (f Faults) Error() string {
	if len(f) == 1 {
		return "configuration: " + f[0].String()
	}
	lines := make([]string, 0, len(f)+1)
	lines = append(lines, fmt.Sprintf("configuration: %d faults", len(f)))
	for _, one := range f {
		lines = append(lines, "  "+one.String())
	}
	return strings.Join(lines, "\n")
}

// Is reports that faults are a configuration error.
func (f Faults) Is(target error) bool { return target == errs.ErrConfig }

// badValue is why a text is no value of its key; Load adds where it stands.
type badValue struct{ what, do string }

func (b *badValue) Error() string { return b.what + "; " + b.do }

func bad(do, format string, args ...any) error {
	return &badValue{fmt.Sprintf(format, args...), do}
}
