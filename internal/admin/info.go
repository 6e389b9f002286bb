package admin

import (
	"strconv"
	"strings"
)

// info is a text of INFO: the values by field, and the lines of the sections
// whose fields have parts.
type info struct {
	values map[string]string
	lines  map[string][]line // by section
}

type line struct{ field, value string }

// parseInfo reads the form of INFO and CLUSTER INFO. What it does not know it
// skips.
func parseInfo(text string) info {
	in := info{values: map[string]string{}, lines: map[string][]line{}}
	section := ""
	for row := range strings.SplitSeq(text, "\n") {
		row = strings.TrimSuffix(row, "\r")
		if name, ok := strings.CutPrefix(row, "# "); ok {
			section = name
			continue
		}
		if field, value, ok := strings.Cut(row, ":"); ok {
			in.values[field] = value
			in.lines[section] = append(in.lines[section], line{field, value})
		}
	}
	return in
}

// number reads a value as redis_exporter does: numbers, and words for yes and no.
func number(value string) (float64, bool) {
	switch value {
	case "ok", "true":
		return 1, true
	case "err", "fail", "false":
		return 0, true
	}
	v, err := strconv.ParseFloat(value, 64)
	return v, err == nil
}

// part returns one number of "name=value,name=value".
func part(value, name string) (float64, bool) {
	for p := range strings.SplitSeq(value, ",") {
		if v, ok := strings.CutPrefix(p, name+"="); ok {
			return number(v)
		}
	}
	return 0, false
}

// quantiles reads "p50=0.001,p99=1.003,p99.9=4.015".
func quantiles(value string) map[float64]float64 {
	out := map[float64]float64{}
	for p := range strings.SplitSeq(value, ",") {
		name, v, _ := strings.Cut(p, "=")
		q, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
		if f, ok := number(v); ok && err == nil {
			out[q] = f
		}
	}
	return out
}

// class is a line ringcache_class0:prefix="a,b",rank=0,quota=0,bytes=0,evicted=0.
// The prefix may contain anything, so the numbers are looked for behind it.
func class(value string) (prefix, numbers string, ok bool) {
	rest, ok := strings.CutPrefix(value, "prefix=")
	if !ok {
		return "", "", false
	}
	quoted, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return "", "", false
	}
	prefix, err = strconv.Unquote(quoted)
	return strings.ToValidUTF8(prefix, "\uFFFD"), strings.TrimPrefix(rest[len(quoted):], ","), err == nil
}
