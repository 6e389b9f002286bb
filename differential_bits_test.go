package ringcache_test

import "strconv"

// bitOffset returns the place of a bit, mostly one within few bytes.
func (h *history) bitOffset() string {
	if h.chance(8) {
		return h.pick("-1", "4294967296", "9223372036854775807", "x", "", "1.5", "#1", "01")
	}
	if h.chance(3) {
		return strconv.Itoa(h.IntN(60_000))
	}
	return strconv.Itoa(h.IntN(200))
}

func (h *history) bitIndex() string {
	if h.chance(5) {
		return h.pick("x", "", "9223372036854775807", "-9223372036854775808")
	}
	return strconv.Itoa(h.IntN(120) - 60)
}

func (h *history) fieldType() string {
	if h.chance(5) {
		return h.pick("u64", "i65", "u0", "i0", "x8", "", "i", "u-1", "i08")
	}
	if h.chance(15) {
		return h.pick("i64", "u63", "i63")
	}
	return h.pick("i", "u") + strconv.Itoa(1+h.IntN(34))
}

func (h *history) fieldOffset() string {
	switch h.IntN(10) {
	case 0:
		return h.pick("#-1", "#", "-1", "x", "#9223372036854775807", "#4294967296", "4294967296")
	case 1, 2, 3:
		return "#" + strconv.Itoa(h.IntN(12))
	}
	return strconv.Itoa(h.IntN(150))
}

func (h *history) fieldOps() []string {
	var o []string
	for len(o) < 16 && !h.chance(25) {
		switch h.IntN(8) {
		case 0, 1:
			o = append(o, h.pick("GET", "get"), h.fieldType(), h.fieldOffset())
		case 2, 3:
			o = append(o, "SET", h.fieldType(), h.fieldOffset(), h.integer())
		case 4, 5:
			o = append(o, "INCRBY", h.fieldType(), h.fieldOffset(), h.integer())
		case 6:
			o = append(o, "OVERFLOW", h.pick("WRAP", "SAT", "FAIL", "fail", "sat"))
		case 7:
			if h.chance(20) {
				o = append(o, h.pick("OVERFLOW", "FOO", "GET", "SET"))
			}
		}
	}
	return o
}

func (h *history) bitCommand() []string {
	k := h.key()
	unit := h.pick("BYTE", "BIT", "bit", "FOO")
	switch h.IntN(16) {
	case 0, 1:
		return cat("SETBIT", k, h.bitOffset(), h.pick("0", "1", "1", "1", "2", "-1", "x"))
	case 2:
		return cat("GETBIT", k, h.bitOffset())
	case 3:
		return cat("BITCOUNT", k)
	case 4:
		return cat("BITCOUNT", k, h.bitIndex(), h.bitIndex())
	case 5:
		return cat("BITCOUNT", k, h.bitIndex(), h.bitIndex(), unit)
	case 6:
		return cat("BITPOS", k, h.pick("0", "1", "2", "x"))
	case 7:
		return cat("BITPOS", k, h.pick("0", "1"), h.bitIndex())
	case 8:
		return cat("BITPOS", k, h.pick("0", "1"), h.bitIndex(), h.bitIndex())
	case 9:
		return cat("BITPOS", k, h.pick("0", "1"), h.bitIndex(), h.bitIndex(), unit)
	case 10, 11:
		op := h.pick("AND", "OR", "XOR", "NOT", "and", "FOO")
		n := 2 + h.IntN(4)
		if op == "NOT" && h.chance(90) {
			n = 2
		}
		return cat("BITOP", op, h.tagged(n))
	case 12, 13:
		return cat("BITFIELD", k, h.fieldOps())
	case 14:
		return cat("BITFIELD_RO", k, h.fieldOps())
	}
	switch h.IntN(12) {
	case 0:
		return cat("BITCOUNT", k, h.bitIndex())
	case 1:
		return cat("BITFIELD_RO", k, "GET", h.fieldType(), h.fieldOffset(), "GET", h.fieldType(), h.fieldOffset())
	case 2:
		// A run of ones, where the zeros behind the end matter.
		h.queued = append(h.queued, cat("BITPOS", k, "0"), cat("BITPOS", k, "0", "0", "-1"), cat("BITPOS", k, "0", "2"))
		return cat("SET", k, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	}
	var o []string
	for h.chance(40) {
		switch h.IntN(5) {
		case 0:
			o = append(o, "LEN")
		case 1, 2:
			o = append(o, "IDX")
		case 3:
			o = append(o, "WITHMATCHLEN")
		case 4:
			o = append(o, "MINMATCHLEN", h.pick("0", "1", "2", "4", "-1", "x"))
		}
	}
	return cat("LCS", h.tagged(2), o)
}
