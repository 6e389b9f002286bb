package command

import "encoding/binary"

// Lookup hashes the first and last eight bytes of a name, which together with
// the length identify every name of up to 16 bytes, into a table that has no
// collisions; one masked comparison decides. The hash multiplier is searched
// when the table is built.

const (
	maxName   = 16 // longest name of a top-level command
	indexBits = 10
	caseBits  = 0x2020202020202020
)

// entry is one place of the index. masks have 0x20 at the letters only, so
// OR-ing them folds the case of letters and leaves other bytes exact.
type entry struct {
	lo, hi         uint64
	loMask, hiMask uint64
	length         int
	cmd            *Command
}

type index struct {
	mul     uint64
	entries [1 << indexBits]entry
}

// words packs a name of 1 to maxName bytes into two words.
func words(b []byte) (lo, hi uint64) {
	n := len(b)
	switch {
	case n >= 8:
		return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[n-8:])
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[n-4:]))
	default:
		return uint64(b[0]) | uint64(b[n/2])<<8 | uint64(b[n-1])<<16, 0
	}
}

func (x *index) place(lo, hi uint64, n int) *entry {
	lo |= caseBits
	hi |= caseBits
	h := (lo ^ (hi<<29 | hi>>35) ^ uint64(n)<<57) * x.mul
	return &x.entries[h>>(64-indexBits)]
}

// Lookup finds a top-level command by its name in any case; nil if unknown. It
// does not allocate. Internal commands are found as well.
func Lookup(name []byte) *Command {
	n := len(name)
	if n == 0 || n > maxName {
		return nil
	}
	lo, hi := words(name)
	e := table.index.place(lo, hi, n)
	if e.length == n && lo|e.loMask == e.lo && hi|e.hiMask == e.hi {
		return e.cmd
	}
	return nil
}

// Sub finds a subcommand of a container by its name in any case; nil if
// unknown or if c is no container. It does not allocate.
func (c *Command) Sub(name []byte) *Command {
	for _, s := range c.Subs {
		if len(s.Name) == len(name) && equalFold(name, s.Name) {
			return s
		}
	}
	return nil
}

// equalFold compares b with the lower-case name of the same length.
func equalFold(b []byte, name string) bool {
	for i := range b {
		c := b[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != name[i] {
			return false
		}
	}
	return true
}

// letterMask has 0x20 at each byte of b that is a lower-case letter.
func letterMask(b []byte) []byte {
	m := make([]byte, len(b))
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			m[i] = 0x20
		}
	}
	return m
}

// newIndex searches a multiplier that gives every command a place of its own.
// With some 80 commands in 1,024 places about one multiplier in 20 does.
func newIndex(cmds []*Command) *index {
	const attempts = 1 << 16
	mul := uint64(0x9E3779B97F4A7C15)
	for range attempts {
		x := &index{mul: mul}
		if x.fill(cmds) {
			return x
		}
		mul = mul*0xD1342543DE82EF95 + 0x2545F4914F6CDD1D
		mul |= 1
	}
	panic("command: no collision-free index; raise indexBits")
}

func (x *index) fill(cmds []*Command) bool {
	for _, c := range cmds {
		b := []byte(c.Name)
		lo, hi := words(b)
		e := x.place(lo, hi, len(b))
		if e.cmd != nil {
			return false
		}
		loMask, hiMask := words(letterMask(b))
		*e = entry{lo: lo, hi: hi, loMask: loMask, hiMask: hiMask, length: len(b), cmd: c}
	}
	return true
}
