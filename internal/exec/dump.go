package exec

import (
	"encoding/binary"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/ringcache/ringcache/internal/resp"
)

// A dumped value is dumpHead, the value, and the XXH3 hash of both. It is a
// format of our own: payloads of Redis are refused, and so is ours by Redis.
const (
	dumpHead = "RCDUMP\x01" // the last byte is the version
	dumpTail = 8
)

const (
	errDump     = "ERR DUMP payload version or checksum are wrong"
	errBusyKey  = "BUSYKEY Target key name already exists."
	errTTL      = "ERR Invalid TTL value, must be >= 0"
	errIdleTime = "ERR Invalid IDLETIME value, must be >= 0"
	errFreq     = "ERR Invalid FREQ value, must be >= 0 and <= 255"
)

// dump: DUMP key
func dump(c *Call) {
	it, found := c.Tx.Get(c.Args[1])
	if !found {
		c.W.Null()
		return
	}
	mark := c.W.StartBulk()
	c.W.Buf = append(append(c.W.Buf, dumpHead...), it.Value...)
	c.W.Buf = binary.BigEndian.AppendUint64(c.W.Buf, xxh3.Hash(c.W.Buf[mark:]))
	c.W.EndBulk(mark)
}

// undump returns the value of a payload, a part of it.
func undump(payload []byte) ([]byte, bool) {
	end := len(payload) - dumpTail
	if end < len(dumpHead) || string(payload[:len(dumpHead)]) != dumpHead {
		return nil, false
	}
	return payload[len(dumpHead):end], binary.BigEndian.Uint64(payload[end:]) == xxh3.Hash(payload[:end])
}

// restoreOptions are the options of RESTORE. IDLETIME and FREQ are checked and
// have no effect.
type restoreOptions struct{ replace, absolute bool }

func (o *restoreOptions) parse(c *Call) bool {
	idle, freq := int64(-1), int64(-1)
	for i := 4; i < len(c.Args); i++ {
		a, more := c.Args[i], i+1 < len(c.Args)
		var ok bool
		switch {
		case is(a, "REPLACE"):
			o.replace = true
		case is(a, "ABSTTL"):
			o.absolute = true
		case is(a, "IDLETIME") && more && freq < 0:
			if idle, ok = c.integer(c.Args[i+1]); !ok {
				return false
			}
			if idle < 0 {
				c.W.Error(errIdleTime)
				return false
			}
			i++
		case is(a, "FREQ") && more && idle < 0:
			if freq, ok = c.integer(c.Args[i+1]); !ok {
				return false
			}
			if freq < 0 || freq > 255 {
				c.W.Error(errFreq)
				return false
			}
			i++
		default:
			c.W.Error(errSyntax)
			return false
		}
	}
	return true
}

// restore: RESTORE key ttl payload [REPLACE] [ABSTTL] [IDLETIME s] [FREQ n].
// With an absolute deadline in the past the engine removes the key.
func restore(c *Call) {
	var o restoreOptions
	if !o.parse(c) {
		return
	}
	if !o.replace && c.Tx.Has(c.Args[1]) {
		c.W.Error(errBusyKey)
		return
	}
	ttl, ok := c.integer(c.Args[2])
	if !ok {
		return
	}
	if ttl < 0 {
		c.W.Error(errTTL)
		return
	}
	value, ok := undump(c.Args[3])
	if !ok {
		c.W.Error(errDump)
		return
	}
	if ttl > 0 && !o.absolute {
		now := c.Tx.Now()
		if ttl > math.MaxInt64-now {
			c.W.Error(errTTL)
			return
		}
		ttl += now
	}
	c.store(c.Args[1], value, ttl)
}

// wait: WAIT numreplicas timeout. There are no replicas to wait for.
func wait(c *Call) {
	if _, ok := c.integer(c.Args[1]); !ok {
		return
	}
	switch timeout, ok := resp.ParseInt(c.Args[2]); {
	case !ok:
		c.W.Error("ERR timeout is not an integer or out of range")
	case timeout < 0:
		c.W.Error("ERR timeout is negative")
	default:
		c.W.Int(0)
	}
}
