package config

import (
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"
)

// units are the size suffixes, as Redis has them: a bare letter is decimal,
// with b it is binary; kib and the like say the same without doubt.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"tb", 1 << 40},
	{"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {"t", 1e12}, {"b", 1},
}

const sizeHint = "write bytes or a unit: 65536, 256kb, 512mb, 1.5gb (kb mb gb are binary, k m g decimal)"

// ParseSize reads a number of bytes with an optional unit, in any case:
// b, k m g t (powers of 1000), kb mb gb tb and kib mib gib tib (powers of
// 1024). Fractions need a unit and are rounded down to bytes.
func ParseSize(text string) (int64, error) {
	num, factor := strings.ToLower(strings.TrimSpace(text)), 1.0
	unit := false
	for _, u := range units {
		if rest, ok := strings.CutSuffix(num, u.suffix); ok {
			num, factor, unit = strings.TrimSpace(rest), u.bytes, true
			break
		}
	}
	if n, err := strconv.ParseInt(num, 10, 64); err == nil && n >= 0 && float64(n)*factor < math.MaxInt64 {
		return n * int64(factor), nil
	}
	f, err := strconv.ParseFloat(num, 64)
	if err != nil || !unit || strings.ContainsAny(num, "einxp") || f < 0 || f*factor >= math.MaxInt64 {
		return 0, bad(sizeHint, "%q is not a size", text)
	}
	return int64(f * factor), nil
}

// FormatSize writes a number of bytes for people: the largest binary unit
// that keeps it exact, else one decimal with the largest unit below it.
func FormatSize(n int64) string {
	names := []string{"", "kb", "mb", "gb", "tb"}
	i, exact := 0, n
	for exact != 0 && exact%1024 == 0 && i < len(names)-1 {
		exact, i = exact/1024, i+1
	}
	if exact < 10_000 {
		return strconv.FormatInt(exact, 10) + names[i]
	}
	f := float64(exact)
	for f >= 1024 && i < len(names)-1 {
		f, i = f/1024, i+1
	}
	return strconv.FormatFloat(f, 'f', 1, 64) + names[i]
}

// parsePercent reads "60%". ok is false when the text does not end in %.
func parsePercent(text string) (percent float64, ok bool, err error) {
	num, ok := strings.CutSuffix(strings.TrimSpace(text), "%")
	if !ok {
		return 0, false, nil
	}
	percent, err = strconv.ParseFloat(strings.TrimSpace(num), 64)
	if err != nil || !(percent >= 1 && percent <= 90) {
		return 0, true, bad("write for example 60%; the rest is for buffers, connections and the runtime", "%q is not a share from 1%% to 90%%", text)
	}
	return percent, true, nil
}

func parseDuration(text string, lo, hi time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil {
		if _, numErr := strconv.ParseFloat(text, 64); numErr == nil {
			return 0, bad(fmt.Sprintf("add it: %ss or %sms", text, text), "%q lacks a unit", text)
		}
		return 0, bad("write for example 500ms, 5s, 2m", "%q is not a duration", text)
	}
	if d < lo || d > hi {
		return 0, bad(fmt.Sprintf("choose %s to %s", lo, hi), "%s is out of range", d)
	}
	return d, nil
}

func parseInt(text string, lo, hi int) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, bad(fmt.Sprintf("write a whole number from %d to %d", lo, hi), "%q is not a whole number", text)
	}
	if n < lo || n > hi {
		return 0, bad(fmt.Sprintf("choose %d to %d", lo, hi), "%d is out of range", n)
	}
	return n, nil
}

func parseFloat(text string, lo, hi float64) (float64, error) {
	f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(f) {
		return 0, bad(fmt.Sprintf("write a number from %g to %g", lo, hi), "%q is not a number", text)
	}
	if f < lo || f > hi {
		return 0, bad(fmt.Sprintf("choose %g to %g", lo, hi), "%g is out of range", f)
	}
	return f, nil
}

func parseOneOf(text string, values []string) (string, error) {
	for _, v := range values {
		if text == v {
			return v, nil
		}
	}
	all := strings.Join(values, ", ")
	if near := Suggest(text, values); near != "" {
		return "", bad(fmt.Sprintf("did you mean %q? (one of: %s)", near, all), "%q is unknown", text)
	}
	return "", bad("choose one of: "+all, "%q is unknown", text)
}

// parseHostPort checks host:port. The host may be empty only where an address
// is listened on.
func parseHostPort(text string, emptyHost bool) (string, error) {
	text = strings.TrimSpace(text)
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		do := "write host:port, for example 127.0.0.1:7001 or [::1]:7001"
		return "", bad(do, "%q is not an address", text)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", bad("choose a port from 1 to 65535", "%q has no valid port", text)
	}
	if host == "" && !emptyHost {
		return "", bad("write the address that others reach", "%q has no host", text)
	}
	return text, nil
}
