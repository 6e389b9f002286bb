package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
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
// sources: the file by line and column, environment, flags, then rules over several
// keys that no source names. It is
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

// sorted puts faults in the order in which people look for them.
func (f Faults) sorted(file string) Faults {
	slices.SortStableFunc(f, func(a, b Fault) int {
		ra, la, ca := a.rank(file)
		rb, lb, cb := b.rank(file)
		return cmp.Or(cmp.Compare(ra, rb), cmp.Compare(la, lb), cmp.Compare(ca, cb))
	})
	return f
}

// rank is the source of a fault and, in the file, its place.
func (f Fault) rank(file string) (source, line, column int) {
	switch {
	case file != "" && f.Where == file:
		return 0, 0, 0
	case file != "" && strings.HasPrefix(f.Where, file+":"):
		at, col, _ := strings.Cut(f.Where[len(file)+1:], ":")
		line, _ = strconv.Atoi(at)
		column, _ = strconv.Atoi(col)
		return 0, line, column
	case strings.HasPrefix(f.Where, EnvPrefix):
		return 1, 0, 0
	case strings.HasPrefix(f.Where, "--"):
		return 2, 0, 0
	}
	return 3, 0, 0
}

// Is reports that faults are a configuration error.
func (f Faults) Is(target error) bool { return target == errs.ErrConfig }

// badValue is why a text is no value of its key; Load adds where it stands.
type badValue struct{ what, do string }

func (b *badValue) Error() string { return b.what + "; " + b.do }

func bad(do, format string, args ...any) error {
	return &badValue{fmt.Sprintf(format, args...), do}
}
