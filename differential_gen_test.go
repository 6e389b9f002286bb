package ringcache_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// history generates random commands over few keys, so that they meet.
type history struct {
	*rand.Rand
	queued [][]string // commands that must follow the last one
	one    bool       // all keys in one slot
}

func (h *history) pick(choices ...string) string { return choices[h.IntN(len(choices))] }

func (h *history) chance(percent int) bool { return h.IntN(100) < percent }

// key returns one of a few keys in two slots.
func (h *history) key() string {
	if h.one || h.chance(80) {
		return "{a}" + strconv.Itoa(h.IntN(12))
	}
	return "{b}" + strconv.Itoa(h.IntN(6))
}

// tagged returns keys of one slot, or now and then of two (CROSSSLOT).
func (h *history) tagged(n int) []string {
	tag := h.pick("{a}", "{a}", "{b}")
	if h.one {
		tag = "{a}"
	}
	out := make([]string, n)
	for i := range out {
		out[i] = tag + strconv.Itoa(h.IntN(12))
		if !h.one && h.chance(1) {
			out[i] = "{c}" + strconv.Itoa(h.IntN(3))
		}
	}
	return out
}

func (h *history) integer() string {
	switch h.IntN(12) {
	case 0:
		return h.pick("9223372036854775807", "-9223372036854775808", "9223372036854775808", "-9223372036854775809", "18446744073709551616")
	case 1:
		return h.pick("", " 1", "1 ", "+1", "01", "-0", "1.0", "0x10", "abc", "1e3", "-", "--1")
	case 2:
		return strconv.FormatInt(int64(h.Uint64()), 10)
	case 3:
		return "0"
	}
	return strconv.Itoa(h.IntN(400) - 200)
}

func (h *history) float() string {
	switch h.IntN(8) {
	case 0:
		return h.pick("inf", "-inf", "nan", "+inf", "infinity", "1e400", "1e-400", "", " 1", "1 ", "abc", "0x1p3", "1_000", "-0", "1e", ".5", "5.", "+3")
	case 1:
		return h.pick("1e17", "1e18", "123456789012345678", "0.1", "0.00000000000000001", "3.0e3", "-1.5e-5", "1e300", "17179869184.5")
	case 2:
		return h.integer()
	}
	return strconv.FormatFloat(float64(h.IntN(2_000_000)-1_000_000)/1000, 'f', h.IntN(6), 64)
}

func (h *history) value() string {
	switch h.IntN(6) {
	case 0:
		return h.integer()
	case 1:
		return h.float()
	case 2:
		return strings.Repeat("v", h.IntN(60))
	case 3:
		b := make([]byte, h.IntN(12))
		for i := range b {
			b[i] = byte(h.Uint32())
		}
		return string(b)
	}
	return strconv.Itoa(h.IntN(1000))
}

// relative is a time to live in seconds: far away or over, so that no reply
// depends on how fast the two servers are, and hardly ever the same twice,
// because GT and LT compare.
func (h *history) relative() string {
	if h.chance(60) {
		return strconv.Itoa(100 * (10 + h.IntN(100_000_000)))
	}
	return h.pick("0", "-1", "-5000", "abc", "", "9223372036854775807", "-9223372036854775808", "9223372036854775", "1.5")
}

func (h *history) absolute(unit int64) string {
	return h.pick("0", "-1", "1", "x", strconv.FormatInt(4102444800*unit, 10), strconv.FormatInt(4102444900*unit, 10), "9223372036854775807", "9223372036854775", "99999999999")
}

func (h *history) expireFlags() []string {
	if h.chance(50) {
		return nil
	}
	return []string{h.pick("NX", "XX", "GT", "LT", "nx", "gt", "ZZ", "KEEPTTL")}
}

func (h *history) setOptions() []string {
	var o []string
	for h.chance(45) && len(o) < 6 {
		switch h.IntN(9) {
		case 0:
			o = append(o, h.pick("NX", "nx"))
		case 1:
			o = append(o, h.pick("XX", "xX"))
		case 2:
			o = append(o, "GET")
		case 3:
			o = append(o, "EX", h.relative())
		case 4:
			o = append(o, "PX", h.relative()+"000")
		case 5:
			o = append(o, "EXAT", h.absolute(1))
		case 6:
			o = append(o, "PXAT", h.absolute(1000))
		case 7:
			o = append(o, "KEEPTTL")
		case 8:
			o = append(o, h.pick("EX", "FOO", "", "PERSIST"))
		}
	}
	return o
}

func (h *history) getexOptions() []string {
	switch h.IntN(7) {
	case 0:
		return []string{"EX", h.relative()}
	case 1:
		return []string{"PX", h.relative() + "000"}
	case 2:
		return []string{"EXAT", h.absolute(1)}
	case 3:
		return []string{"PXAT", h.absolute(1000)}
	case 4:
		return []string{"PERSIST"}
	case 5:
		return []string{h.pick("KEEPTTL", "NX", "EX", "PERSIST"), h.pick("PERSIST", "1", "x")}
	}
	return nil
}

func (h *history) offset() string {
	if h.chance(10) {
		return h.pick("-1", "536870912", "600000000", "4294967295", "9223372036854775807", "x", "")
	}
	return strconv.Itoa(h.IntN(300))
}

func cat(parts ...any) []string {
	var out []string
	for _, p := range parts {
		switch p := p.(type) {
		case string:
			out = append(out, p)
		case []string:
			out = append(out, p...)
		}
	}
	return out
}

// next returns one random command.
func (h *history) next() []string {
	if len(h.queued) > 0 {
		first := h.queued[0]
		h.queued = h.queued[1:]
		return first
	}
	switch h.IntN(6) {
	case 0:
		return h.keyCommand()
	case 1:
		return h.ttlCommand()
	case 2:
		return h.bitCommand()
	case 3:
		if h.chance(30) {
			return h.oddCommand()
		}
	}
	return h.stringCommand()
}

func (h *history) stringCommand() []string {
	k := h.key()
	switch h.IntN(27) {
	case 0, 1, 2:
		return cat("GET", k)
	case 3, 4, 5:
		return cat("SET", k, h.value(), h.setOptions())
	case 6:
		return cat("GETEX", k, h.getexOptions())
	case 7:
		return cat("GETDEL", k)
	case 8:
		return cat("GETSET", k, h.value())
	case 9:
		return cat("SETNX", k, h.value())
	case 10:
		return cat("SETEX", k, h.relative(), h.value())
	case 11:
		return cat("PSETEX", k, h.relative()+"000", h.value())
	case 12:
		return cat("MGET", h.tagged(1+h.IntN(5)))
	case 13, 14:
		name := h.pick("MSET", "MSETNX")
		args := []string{name}
		for _, k := range h.tagged(1 + h.IntN(4)) {
			args = append(args, k, h.value())
		}
		if h.chance(5) {
			args = args[:len(args)-1]
		}
		return args
	case 15:
		return cat("APPEND", k, h.value())
	case 16:
		return cat("STRLEN", k)
	case 17:
		return cat(h.pick("GETRANGE", "SUBSTR"), k, h.integer(), h.integer())
	case 18:
		return cat("SETRANGE", k, h.offset(), h.value())
	case 19:
		return cat("SETRANGE", k, h.offset(), "")
	case 20, 21:
		return cat(h.pick("INCR", "DECR"), k)
	case 22, 23:
		return cat(h.pick("INCRBY", "DECRBY"), k, h.integer())
	case 24:
		return cat("SET", k, h.float())
	}
	return cat("INCRBYFLOAT", k, h.float())
}

func (h *history) keyCommand() []string {
	k := h.key()
	switch h.IntN(16) {
	case 0, 1:
		return cat(h.pick("DEL", "UNLINK"), h.tagged(1+h.IntN(3)))
	case 2:
		return cat(h.pick("EXISTS", "TOUCH"), h.tagged(1+h.IntN(4)))
	case 3:
		return cat("TYPE", k)
	case 4, 5:
		return cat(h.pick("RENAME", "RENAMENX"), h.tagged(2))
	case 6, 7:
		return cat("COPY", h.tagged(2), h.pick("", "REPLACE", "DB", "FOO"))
	case 8:
		return cat("OBJECT", h.pick("ENCODING", "REFCOUNT", "encoding", "FOO", "HELP", "FREQ"), k)
	case 9:
		// Redis counts entries that are over but not yet removed; SCAN removes them.
		h.queued = append(h.queued, []string{"DBSIZE"})
		return cat("SCAN", "0", "COUNT", "100000")
	case 10:
		return cat("KEYS", h.pick("*", "{a}*", "{b}?", "*1", "{[ab]}[0-5]", "{a}\\1", "[^{]*", ""))
	case 11:
		return cat("SCAN", "0", "COUNT", "100000", h.pick("MATCH", "TYPE", "FOO", "COUNT"), h.pick("*", "string", "{a}*", "hash", "0", "1000000"))
	case 12:
		h.queued = append(h.queued, cat("CLUSTER", "COUNTKEYSINSLOT", h.pick("15495", "3300", "7365")))
		return cat("SCAN", "0", "COUNT", "100000")
	case 14:
		return cat("CLUSTER", h.pick("COUNTKEYSINSLOT", "KEYSLOT"), h.pick("-1", "16384", "x", k))
	case 13:
		return cat("OBJECT", "ENCODING", k)
	}
	if h.chance(3) {
		return cat(h.pick("FLUSHALL", "FLUSHDB"), h.pick("SYNC", "ASYNC", "FOO"))
	}
	return cat("EXISTS", k)
}

func (h *history) ttlCommand() []string {
	k := h.key()
	switch h.IntN(8) {
	case 0:
		return cat("EXPIRE", k, h.relative(), h.expireFlags(), h.expireFlags())
	case 1:
		return cat("PEXPIRE", k, h.relative()+"000", h.expireFlags())
	case 2:
		return cat("EXPIREAT", k, h.absolute(1), h.expireFlags())
	case 3:
		return cat("PEXPIREAT", k, h.absolute(1000), h.expireFlags(), h.expireFlags())
	case 4:
		return cat("TTL", k)
	case 5:
		return cat("PTTL", k)
	case 6:
		return cat("PERSIST", k)
	}
	return cat(h.pick("EXPIRETIME", "PEXPIRETIME"), k)
}

// oddCommand returns commands with wrong names, counts or subcommands, and the
// connection's own commands.
func (h *history) oddCommand() []string {
	switch h.IntN(17) {
	case 0:
		return cat(h.pick("FOO", "GETT", "", "set\r\nx", "RC.VIEW", strings.Repeat("x", 200)), h.value(), h.value())
	case 1:
		return cat(h.pick("GET", "SET", "MSET", "INCR", "DEL", "EXPIRE", "SCAN", "OBJECT", "CLIENT", "CLUSTER", "CONFIG"))
	case 2:
		return cat(h.pick("GET", "INCR", "TTL", "DBSIZE", "RENAME"), h.key(), h.key(), h.key())
	case 3:
		return cat(h.pick("CLIENT", "CLUSTER", "CONFIG", "OBJECT", "COMMAND", "MEMORY"), h.pick("FOO", "nope"), h.key())
	case 4:
		return cat("PING", h.pick("", "hello"))
	case 5:
		return cat("ECHO", h.value())
	case 6:
		return cat("SELECT", h.pick("0", "1", "-1", "x"))
	case 7:
		return cat("CLIENT", h.pick("GETNAME", "SETNAME", "SETNAME"), h.pick("", "me", "with space"))
	case 8:
		return cat("SCAN", h.pick("0", "x", "-1", "", "1.5"), h.pick("COUNT", "MATCH"), h.pick("0", "-1", "x", "*"))
	case 9:
		return cat("COMMAND", h.pick("COUNTT", "GETKEYS"), h.pick("GET", "MSET", "FOO", "PING"), h.key(), "1", h.key(), "2")
	case 10:
		return cat(h.pick("READONLY", "READWRITE", "ASKING"))
	case 11:
		return cat("AUTH", h.value())
	case 12:
		return cat("HELLO", h.pick("1", "4", "x", "2.5"))
	case 13:
		return cat(h.pick("SLOWLOG", "LATENCY", "MEMORY", "PUBSUB", "DEBUG"), h.pick("FOO", "GET", "HISTORY", "RESET", "USAGE"), h.pick("-2", "x", "nosuch"))
	case 14:
		return cat(h.pick("PUBLISH", "SPUBLISH"), h.key(), h.value())
	case 15:
		return cat("PUBSUB", h.pick("NUMPAT", "CHANNELS", "SHARDCHANNELS", "NUMSUB"))
	}
	return cat(h.pick("EXISTS", "DEL", "MGET", "TOUCH", "PUBLISH", "SUBSCRIBE", "SLOWLOG", "LATENCY"))
}
