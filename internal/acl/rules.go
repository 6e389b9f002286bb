package acl

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/glob"
)

// Reason says why a command is refused. A greater one came closer to being
// allowed.
type Reason uint8

// The reasons, in the order in which they are looked at.
const (
	Allowed Reason = iota
	DeniedCommand
	DeniedKey
	DeniedAuth // only for the log: a login that failed
	DeniedChannel
)

// Denial is why a command is refused, and for keys and channels which one. The
// zero value says that it is allowed.
type Denial struct {
	Reason Reason
	Arg    int // position of the key or channel
}

// access is what is done to a key.
type access uint8

const (
	reads access = 1 << iota
	writes
)

// keyPattern allows access to the keys that match.
type keyPattern struct {
	glob.Pattern
	may access
}

// bits has one bit for each command and subcommand.
type bits [(int(command.NumCommands) + 63) / 64]uint64

func (b *bits) has(id command.ID) bool { return b[id/64]>>(id%64)&1 != 0 }

func (b *bits) set(id command.ID, on bool) {
	if on {
		b[id/64] |= 1 << (id % 64)
	} else {
		b[id/64] &^= 1 << (id % 64)
	}
}

// selector is one set of rules: a command is allowed if one selector of the user
// allows all of it.
type selector struct {
	commands    bits
	allCommands bool     // also those that do not exist yet
	words       []string // the rules about commands in force, oldest first, with their sign
	// first holds the first arguments that are allowed where the command is not.
	first map[command.ID][]string

	allKeys, allChannels bool
	keys                 []keyPattern
	channels             []glob.Pattern
}

// Rules are what one user may do. They are never changed once a User has them.
type Rules struct {
	on, noPass bool
	sanitize   string // "", "sanitize-payload" or "skip-sanitize-payload": kept, without effect
	passwords  []string
	root       selector
	more       []selector
	size       int // bytes of patterns and words

	// Unrestricted: every command, key and channel is allowed. It is what a
	// session asks first.
	Unrestricted bool
}

// On tells whether the user may log in.
func (r *Rules) On() bool { return r.on }

// NoPass tells whether any password is right.
func (r *Rules) NoPass() bool { return r.noPass }

// Login tells whether the user may log in with a password, in a time that does
// not depend on how much of it is right.
func (r *Rules) Login(password []byte) bool {
	sum := sha256.Sum256(password)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	ok := 0
	for _, p := range r.passwords {
		ok |= subtle.ConstantTimeCompare(text[:], []byte(p))
	}
	return (r.noPass || ok == 1) && r.on
}

// Check tells whether the user may execute a command. cmd is the subcommand of a
// container. args passed the check of the arity.
func (r *Rules) Check(cmd *command.Command, args [][]byte) Denial {
	if r.Unrestricted {
		return Denial{}
	}
	best := r.root.check(cmd, args)
	for i := range r.more {
		if best.Reason == Allowed {
			break
		}
		d := r.more[i].check(cmd, args)
		if d.Reason == Allowed || d.Reason > best.Reason || d.Reason == best.Reason && d.Arg > best.Arg {
			best = d
		}
	}
	return best
}

// Channel tells whether the user may publish to a channel, or subscribe to it.
// A pattern is allowed only where the same pattern was given, or all channels.
func (r *Rules) Channel(channel []byte, pattern bool) bool {
	if r.Unrestricted || r.root.channel(channel, pattern) {
		return true
	}
	for i := range r.more {
		if r.more[i].channel(channel, pattern) {
			return true
		}
	}
	return false
}

func (s *selector) check(cmd *command.Command, args [][]byte) Denial {
	if !s.runs(cmd, args) {
		return Denial{Reason: DeniedCommand}
	}
	if !s.allKeys && cmd.TakesKeys() {
		var room [32]int
		for _, pos := range cmd.AppendKeys(room[:0], args) {
			if !s.key(args[pos], needs(cmd, args, pos)) {
				return Denial{DeniedKey, pos}
			}
		}
	}
	if at := channelArgs[cmd.ID]; at.from > 0 && !s.allChannels {
		for pos := at.from; pos < len(args) && (at.all || pos == at.from); pos++ {
			if !s.channel(args[pos], at.pattern) {
				return Denial{DeniedChannel, pos}
			}
		}
	}
	return Denial{}
}

// runs tells whether the command itself is allowed. Those that come before a
// login always are.
func (s *selector) runs(cmd *command.Command, args [][]byte) bool {
	if s.commands.has(cmd.ID) || cmd.Flags.Has(command.NoAuth) {
		return true
	}
	if len(args) > 1 {
		for _, first := range s.first[cmd.ID] {
			if len(first) == len(args[1]) && strings.EqualFold(first, string(args[1])) {
				return true
			}
		}
	}
	return false
}

func (s *selector) key(key []byte, need access) bool {
	for i := range s.keys {
		if p := &s.keys[i]; p.may&need == need && p.Match(key) {
			return true
		}
	}
	return false
}

func (s *selector) channel(channel []byte, pattern bool) bool {
	if s.allChannels {
		return true
	}
	for i := range s.channels {
		p := &s.channels[i]
		if pattern && string(p.Text()) == string(channel) || !pattern && p.Match(channel) {
			return true
		}
	}
	return false
}

// needs is what a command does to the key at a position.
func needs(cmd *command.Command, args [][]byte, pos int) (a access) {
	for _, flag := range cmd.KeyFlags(args, pos) {
		switch flag {
		case "access":
			a |= reads
		case "update", "insert", "delete":
			a |= writes
		}
	}
	return a
}

// channels are the arguments that name channels: the one at from, or all from
// there on.
type channels struct {
	from         int
	all, pattern bool
}

// channelArgs is filled from the names, since not every table has the commands.
var channelArgs = func() (at [command.NumCommands]channels) {
	for name, c := range map[string]channels{
		"publish": {from: 1}, "spublish": {from: 1},
		"subscribe": {from: 1, all: true}, "ssubscribe": {from: 1, all: true}, "psubscribe": {from: 1, all: true, pattern: true},
	} {
		if cmd := command.Lookup([]byte(name)); cmd != nil {
			at[cmd.ID] = c
		}
	}
	return at
}()
