package exec

import (
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/engine"
)

// CVE-2021-41099: sums of lengths near the limits of integers must not lead to a
// short buffer for a long value.
func TestCVE202141099LengthsDoNotOverflow(t *testing.T) {
	l := newLocal(t, engine.Options{})
	const tooBig = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)"
	expect(t, l, "SET k abc", "+OK")
	for _, offset := range []string{"536870912", "4294967295", "4294967296", "9223372036854775806", "9223372036854775807"} {
		expect(t, l, "SETRANGE k "+offset+" xyz", tooBig)
	}
	expect(t, l, "SETRANGE k 9223372036854775808 x", "-ERR value is not an integer or out of range")
	expect(t, l, "GET k", `"abc"`)
}

// CVE-2022-35977: SETRANGE that would exceed the limits leaves memory and value as
// they are.
func TestCVE202235977SetRangeIsBounded(t *testing.T) {
	l := newLocal(t, engine.Options{})
	expect(t, l, "SETRANGE k -1 x", "-ERR offset is out of range")
	expect(t, l, "SETRANGE k 9223372036854775807 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)")
	expect(t, l, "EXISTS k", ":0")
	expect(t, l, "SETRANGE k 9223372036854775807 \"\"", ":0") // writes nothing
	expect(t, l, "EXISTS k", ":0")
}

// CVE-2023-28425: MSETNX with one key twice ended the server.
func TestCVE202328425MSetNXWithAKeyTwice(t *testing.T) {
	l := newLocal(t, engine.Options{})
	expect(t, l, "MSETNX {k} 1 {k} 2", ":1")
	expect(t, l, "GET {k}", `"2"`)
	expect(t, l, "MSETNX {k} 3 {k} 4", ":0")
	expect(t, l, "GET {k}", `"2"`)
	expect(t, l, "MSETNX "+strings.TrimSpace(strings.Repeat("a{k} 1 ", 100)), ":1")
	expect(t, l, "GET a{k}", `"1"`)
}
