// Package invariant holds the checks of builds made with -tags invariant. In
// ordinary builds Enabled is a false constant and the compiler drops every
// check behind it. The package owns no state and never logs: a broken
// invariant panics, because nothing after it can be trusted.
package invariant

import "fmt"

// poison is what borrowed bytes hold after their time: no valid UTF-8, no
// digit and not zero, so that a late reader shows at once.
const poison = 0xDB

// Check panics with the formatted message unless ok. Call it behind
// `if invariant.Enabled` where the arguments cost anything.
func Check(ok bool, format string, args ...any) {
	if Enabled && !ok {
		panic("invariant: " + fmt.Sprintf(format, args...))
	}
}

// Poison overwrites b, whose borrower must not read it any more.
func Poison(b []byte) {
	if !Enabled {
		return
	}
	for i := range b {
		b[i] = poison
	}
}
