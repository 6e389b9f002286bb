package exec

import "github.com/ringcache/ringcache/internal/glob"

// patternFits answers a pattern that is too long.
func patternFits(c *Call, pattern []byte) bool {
	if len(pattern) > glob.MaxPattern {
		tooLarge(c, "pattern", len(pattern), glob.MaxPattern, hintPattern)
		return false
	}
	return true
}
