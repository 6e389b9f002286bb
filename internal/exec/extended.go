package exec

import (
	"bytes"
	"math/big"
	"strings"
)

// extended is a number of the 80-bit extended format of x87, which Redis's
// INCRBYFLOAT computes in (C's long double on x86-64): a 64-bit significand
// and exponents up to 16384. The zero value is 0.
type extended struct {
	f   big.Float
	inf bool
}

const (
	extendedPrec = 64
	// A big.Float exponent e stands for values in [2^(e-1), 2^e).
	maxExtendedExp = 16384
	// Half of the smallest subnormal, 2^-16446, still rounds to zero.
	minExtendedExp = -16445
	// parsePrec leaves room to round a decimal fraction only once: the error
	// of a number with a large exponent stays far below the 64th bit.
	parsePrec = 512
	// maxFloatText is the length from which Redis refuses a number unread.
	maxFloatText = 5 * 1024
	// fractionDigits is the number of digits that Redis prints ("%.17Lf").
	fractionDigits = 17
)

// parseExtended reads what C's strtold reads, without leading spaces and to
// the last byte: decimal or hexadecimal, infinities, but no NaN. Numbers beyond
// the range are refused in both directions, as Redis does.
func parseExtended(b []byte) (extended, bool) {
	if len(b) == 0 || len(b) >= maxFloatText {
		return extended{}, false
	}
	digits := bytes.TrimLeft(b, "+-")
	if len(b)-len(digits) > 1 {
		return extended{}, false
	}
	if is(digits, "INF") || is(digits, "INFINITY") {
		return extended{inf: true}, true
	}
	var x extended
	text, base := string(b), 10
	if len(digits) > 2 && digits[0] == '0' && digits[1]|0x20 == 'x' {
		if !wellFormed(digits[2:], isHexDigit, 'p') {
			return extended{}, false
		}
		// big.Float wants the prefix dropped when the base is given.
		text, base = strings.Replace(strings.ToLower(text), "0x", "", 1), 16
	} else if !wellFormed(digits, isDigit, 'e') {
		return extended{}, false
	}
	if isZero(digits) {
		return x, true // whatever the exponent
	}
	if _, _, err := x.f.SetPrec(parsePrec).Parse(text, base); err != nil || x.f.IsInf() || underflows(&x.f) {
		return extended{}, false
	}
	x.f.SetPrec(extendedPrec)
	return x, x.f.MantExp(nil) <= maxExtendedExp
}

// underflows reports whether f, which is not written as zero, rounds to zero in
// the extended format.
func underflows(f *big.Float) bool {
	exp := f.MantExp(nil)
	return f.Sign() == 0 || exp < minExtendedExp || exp == minExtendedExp && f.MinPrec() == 1
}

// isZero reports whether the significand of a well-formed number is zero.
func isZero(digits []byte) bool {
	for _, c := range digits {
		switch c {
		case '0', '.', 'x', 'X':
		case 'e', 'E', 'p', 'P':
			// In a hexadecimal number e is a digit, but then it is not zero.
			return !(c|0x20 == 'e' && len(digits) > 1 && digits[1]|0x20 == 'x')
		default:
			return false
		}
	}
	return true
}

// wellFormed checks digits, at most one point among them, and an exponent
// after the given letter. Underscores, which Go would accept, fail.
func wellFormed(b []byte, digit func(byte) bool, exponent byte) bool {
	i, seen, point := 0, false, false
	for ; i < len(b); i++ {
		if b[i] == '.' && !point {
			point = true
		} else if digit(b[i]) {
			seen = true
		} else {
			break
		}
	}
	if !seen {
		return false
	}
	if i == len(b) {
		return true
	}
	if b[i]|0x20 != exponent {
		return false
	}
	i++
	if i < len(b) && (b[i] == '+' || b[i] == '-') {
		i++
	}
	if i == len(b) {
		return false
	}
	for ; i < len(b); i++ {
		if !isDigit(b[i]) {
			return false
		}
	}
	return true
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func isHexDigit(c byte) bool { return c-'0' <= 9 || c|0x20-'a' <= 5 }

// add gives the rounded sum; false if it is infinite or no number.
func (x *extended) add(y extended) (extended, bool) {
	if x.inf || y.inf {
		return extended{}, false
	}
	var z extended
	z.f.SetPrec(extendedPrec).Add(&x.f, &y.f)
	return z, z.f.MantExp(nil) <= maxExtendedExp
}

// append prints x with up to 17 fraction digits, trailing zeros cut off.
func (x *extended) append(dst []byte) []byte {
	mark := len(dst)
	dst = x.f.Append(dst, 'f', fractionDigits)
	dst = bytes.TrimRight(dst, "0") // there always is a point
	dst = bytes.TrimSuffix(dst, []byte("."))
	if string(dst[mark:]) == "-0" {
		dst = append(dst[:mark], '0')
	}
	return dst
}
