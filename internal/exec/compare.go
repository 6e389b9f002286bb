package exec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math"

	"github.com/zeebo/xxh3"

	"github.com/ringcache/ringcache/internal/resp"
)

// comparison is a condition on the value that a key has (Redis 8.4).
type comparison uint8

const (
	always comparison = iota
	ifEq              // the value equals
	ifNe
	ifDigestEq // the digest of the value equals
	ifDigestNe
)

func comparisonOf(word []byte) comparison {
	switch {
	case is(word, "IFEQ"):
		return ifEq
	case is(word, "IFNE"):
		return ifNe
	case is(word, "IFDEQ"):
		return ifDigestEq
	case is(word, "IFDNE"):
		return ifDigestNe
	}
	return always
}

// holds compares the value of a key, if it was found. Without a value nothing
// is equal. ok is false when a digest was needed that is none.
func (x comparison) holds(value []byte, found bool, with []byte) (holds, ok bool) {
	switch {
	case x == always:
		return true, true
	case !found:
		return x == ifNe || x == ifDigestNe, true
	case x == ifEq || x == ifNe:
		return bytes.Equal(value, with) == (x == ifEq), true
	}
	var sum [8]byte
	if len(with) != 2*len(sum) {
		return false, false
	}
	if _, err := hex.Decode(sum[:], with); err != nil {
		return false, false
	}
	return binary.BigEndian.Uint64(sum[:]) == xxh3.Hash(value) == (x == ifDigestEq), true
}

// digest: DIGEST key
func digest(c *Call) {
	it, found := c.Tx.Get(c.Args[1])
	if !found {
		c.W.Null()
		return
	}
	var sum [8]byte
	var text [16]byte
	binary.BigEndian.PutUint64(sum[:], xxh3.Hash(it.Value))
	hex.Encode(text[:], sum[:])
	c.W.Bulk(text[:])
}

// delEx: DELEX key [IFEQ v | IFNE v | IFDEQ d | IFDNE d]
func delEx(c *Call) {
	key := c.Args[1]
	var compare comparison
	var with []byte
	switch len(c.Args) {
	case 2:
	case 4:
		if compare, with = comparisonOf(c.Args[2]), c.Args[3]; compare == always {
			c.W.Error(errCondition)
			return
		}
	default:
		WrongArity(c.W, c.Cmd.FullName())
		return
	}
	it, found := c.Tx.Peek(key)
	if !found {
		c.W.Int(0)
		return
	}
	holds, ok := compare.holds(it.Value, true, with)
	if !ok {
		c.W.Error(errDigest)
		return
	}
	c.writeBool(holds && c.Tx.Delete(key))
}

// msetEx: MSETEX numkeys key value [key value ...] [NX | XX] [EX s | PX ms |
// EXAT s | PXAT ms | KEEPTTL]. With a wrong number of keys it is called without
// a hold, and only answers.
func msetEx(c *Call) {
	n, ok := resp.ParseInt(c.Args[1])
	if !ok || n < 1 || n > math.MaxInt32 {
		c.W.Error(errNumKeys)
		return
	}
	if 2+2*n > int64(len(c.Args)) {
		c.W.Error(errPairs)
		return
	}
	end := int(2 + 2*n)
	var o setOptions
	if !o.parse(c, end, forMSetEx) {
		return
	}
	deadline, ok := o.deadline(c)
	if !ok || !c.pairsFit(2, end) {
		return
	}
	for i := 2; i < end && (o.nx || o.xx); i += 2 {
		if c.Tx.Has(c.Args[i]) == o.nx {
			c.W.Int(0)
			return
		}
	}
	for i := 2; i < end; i += 2 {
		until := deadline
		if o.keepTTL {
			it, _ := c.Tx.Peek(c.Args[i])
			until = it.Deadline
		}
		if err := c.Tx.Set(c.Args[i], c.Args[i+1], until); err != nil {
			refused(c, err, c.Args[i], len(c.Args[i+1]))
			return
		}
	}
	c.W.Int(1)
}
