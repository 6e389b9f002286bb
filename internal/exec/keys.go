package exec

import (
	"bytes"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// del: DEL key [key ...], UNLINK key [key ...]
func del(c *Call) {
	n := 0
	for _, key := range c.Args[1:] {
		if c.Tx.Delete(key) {
			n++
		}
	}
	c.W.Int(int64(n))
}

// exists: EXISTS key [key ...]; a key that is named twice counts twice.
func exists(c *Call) {
	n := 0
	for _, key := range c.Args[1:] {
		if c.Tx.Has(key) {
			n++
		}
	}
	c.W.Int(int64(n))
}

// touch: TOUCH key [key ...]
func touch(c *Call) {
	n := 0
	for _, key := range c.Args[1:] {
		if c.Tx.Touch(key) {
			n++
		}
	}
	c.W.Int(int64(n))
}

// typeOf: TYPE key
func typeOf(c *Call) {
	if c.Tx.Has(c.Args[1]) {
		c.W.Simple("string")
		return
	}
	c.W.Simple("none")
}

// rename: RENAME key newkey
func rename(c *Call) {
	if c.move(false) {
		c.W.Simple("OK")
	}
}

// renameNX: RENAMENX key newkey
func renameNX(c *Call) {
	if c.move(true) {
		c.W.Int(1)
	}
}

// move renames a key together with its deadline. It reports false when it has
// answered itself.
func (c *Call) move(nx bool) bool {
	from, to := c.Args[1], c.Args[2]
	it, ok := c.Tx.Peek(from)
	if !ok {
		c.W.Error(errNoSuchKey)
		return false
	}
	same := bytes.Equal(from, to)
	if nx && (same || c.Tx.Has(to)) {
		c.W.Int(0)
		return false
	}
	if same {
		return true
	}
	size := len(it.Value)
	if err := c.Tx.Set(to, it.Value, it.Deadline); err != nil {
		refused(c, err, to, size)
		return false
	}
	c.Tx.Delete(from)
	return true
}

// databases is what Redis has by default. COPY ... DB accepts a number below it
// and then refuses all but 0, as a cluster node of Redis does.
const databases = 16

// copyKey: COPY source destination [DB destination-db] [REPLACE]
func copyKey(c *Call) {
	replace, db := false, int64(0)
	for i := 3; i < len(c.Args); i++ {
		switch {
		case is(c.Args[i], "REPLACE"):
			replace = true
		case is(c.Args[i], "DB") && i+1 < len(c.Args):
			var ok bool
			if db, ok = c.database(c.Args[i+1]); !ok {
				return
			}
			i++
		default:
			c.W.Error(errSyntax)
			return
		}
	}
	from, to := c.Args[1], c.Args[2]
	switch {
	case db != 0:
		c.W.Error(errCopyDB)
		return
	case bytes.Equal(from, to):
		c.W.Error(errSameObject)
		return
	}
	it, ok := c.Tx.Get(from)
	if !ok || !replace && c.Tx.Has(to) {
		c.W.Int(0)
		return
	}
	size := len(it.Value)
	if err := c.Tx.Set(to, it.Value, it.Deadline); err != nil {
		refused(c, err, to, size)
		return
	}
	c.W.Int(1)
}

func (c *Call) database(arg []byte) (int64, bool) {
	db, ok := c.integer(arg)
	if !ok {
		return 0, false
	}
	if db != int64(int32(db)) {
		c.W.Error(errIntRange)
		return 0, false
	}
	if db < 0 || db >= databases {
		c.W.Error(errDBIndex)
		return 0, false
	}
	return db, true
}

// subcommand resolves the subcommand of a container and answers when there is
// none or when its arity is wrong.
func (c *Call) subcommand() *command.Command {
	sub := c.Cmd
	if sub.Parent == nil {
		if sub = c.Cmd.Sub(c.Args[1]); sub == nil {
			UnknownSubcommand(c.W, c.Cmd, c.Args[1])
			return nil
		}
	}
	if !sub.ArityOK(len(c.Args)) {
		WrongArity(c.W, sub.FullName())
		return nil
	}
	return sub
}

// help answers HELP of the container of sub.
func help(w *resp.Writer, sub *command.Command) {
	lines := sub.Parent.HelpLines()
	w.Array(len(lines))
	for _, l := range lines {
		w.Simple(l)
	}
}

// object: OBJECT ENCODING | FREQ | IDLETIME | REFCOUNT key, OBJECT HELP
func object(c *Call) {
	sub := c.subcommand()
	if sub == nil {
		return
	}
	if sub.ID == command.ObjectHelp {
		help(c.W, sub)
		return
	}
	it, ok := c.Tx.Peek(c.Args[2])
	if !ok {
		c.W.Null()
		return
	}
	lfu := c.Eng.Policy() == "lfu"
	switch sub.ID {
	case command.ObjectEncoding:
		c.W.BulkString(encoding(it.Value))
	case command.ObjectRefCount:
		c.W.Int(1)
	case command.ObjectIdleTime:
		if lfu {
			c.W.Error(errIdleNotTracked)
			return
		}
		c.W.Int(max(c.Tx.Now()-it.LastAccess, 0) / 1000)
	case command.ObjectFreq:
		if !lfu {
			c.W.Error(errFreqNotTracked)
			return
		}
		n, _ := c.Tx.Reads(c.Args[2])
		c.W.Int(int64(n))
	}
}

// embstrMax is the longest string that Redis keeps in one allocation with its
// header.
const embstrMax = 44

// encoding is what Redis would use for a value that was set as a whole.
func encoding(v []byte) string {
	if _, ok := resp.ParseInt(v); ok {
		return "int"
	}
	if len(v) <= embstrMax {
		return "embstr"
	}
	return "raw"
}

// memory: MEMORY USAGE key [SAMPLES count], MEMORY HELP. SAMPLES is checked and
// has no effect: a value has no elements.
func memory(c *Call) {
	sub := c.subcommand()
	if sub == nil {
		return
	}
	if sub.ID == command.MemoryHelp {
		help(c.W, sub)
		return
	}
	for i := 3; i < len(c.Args); i += 2 {
		if !is(c.Args[i], "SAMPLES") || i+1 >= len(c.Args) {
			c.W.Error(errSyntax)
			return
		}
		n, ok := c.integer(c.Args[i+1])
		if !ok {
			return
		}
		if n < 0 {
			c.W.Error(errSyntax)
			return
		}
	}
	it, ok := c.Tx.Peek(c.Args[2])
	if !ok {
		c.W.Null()
		return
	}
	c.W.Int(it.Bytes)
}
