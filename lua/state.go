package lua

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	glua "github.com/yuin/gopher-lua"

	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/resp"
)

// state is one interpreter with its sandbox. It serves one script at a time.
type state struct {
	e       *Engine
	l       *glua.LState
	concat  *glua.LFunction
	globals *glua.LTable // what the script's environment shows
	env     *glua.LTable // empty and read-only
	locked  map[*glua.LTable]bool
	null    *glua.LUserData // cjson.null
	budget  budget
	random  uint64

	script *exec.Script // the running script
	proto  int          // of replies that redis.call gives, set by redis.setresp
	w      resp.Writer  // replies of redis.call
	parser resp.ReplyParser
}

// budget bounds one execution. The interpreter asks Done before each
// instruction.
type budget struct {
	context.Context
	left   int // instructions
	bytes  int // of strings
	until  time.Time
	reason string
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// Done implements context.Context: it counts one instruction.
func (b *budget) Done() <-chan struct{} {
	b.left--
	switch {
	case b.reason != "":
	case b.left <= 0:
		b.reason = "the script was ended: more than " + strconv.Itoa(MaxInstructions) + " instructions"
	case b.left&63 == 0 && time.Now().After(b.until):
		b.reason = "the script was ended: it ran for more than " + strconv.Itoa(MaxMillis) + " ms"
	default:
		return nil
	}
	return closed
}

// Err implements context.Context.
func (b *budget) Err() error {
	if b.reason == "" {
		return nil
	}
	return errors.New(b.reason)
}

// charge counts the bytes of a string that the script makes.
func (s *state) charge(l *glua.LState, n int) {
	if n > MaxString {
		l.RaiseError("string is %d bytes, limit %d", n, MaxString)
	}
	if s.budget.bytes += n; s.budget.bytes > MaxBytes {
		s.budget.reason = "the script was ended: its strings take more than " + strconv.Itoa(MaxBytes) + " bytes"
		l.RaiseError("%s", s.budget.reason)
	}
}

func newState(e *Engine) *state {
	l := glua.NewState(glua.Options{
		SkipOpenLibs: true, CallStackSize: 200, MinimizeStackMemory: true,
		RegistrySize: 256, RegistryGrowStep: 2048, RegistryMaxSize: 64 << 10,
	})
	s := &state{e: e, l: l, locked: map[*glua.LTable]bool{}}
	s.budget.Context = context.Background()
	s.openLibs()
	return s
}

// run executes a script and appends its reply. It reports whether the
// interpreter may be used again.
func (s *state) run(k *kept, r *exec.Script) bool {
	l := s.l
	s.script, s.proto, s.random = r, 2, 0
	s.budget.left, s.budget.bytes, s.budget.reason = MaxInstructions, 0, ""
	s.budget.until = time.Now().Add(MaxMillis * time.Millisecond)
	defer func() { s.script = nil }()
	s.globals.RawSetString("KEYS", stringTable(l, r.Keys))
	s.globals.RawSetString("ARGV", stringTable(l, r.Args))
	fn := l.NewFunctionFromProto(k.proto)
	fn.Env = s.env
	l.SetContext(&s.budget)
	base := l.GetTop()
	l.Push(fn)
	l.Push(s.concat)
	err := l.PCall(1, 1, nil)
	if err != nil {
		r.W.Error(s.failure(err, k.sha))
		return false
	}
	mark := len(r.W.Buf)
	if !s.reply(r.W, l.Get(-1), 0) {
		r.W.Buf = r.W.Buf[:mark]
		r.W.Error("ERR reached lua stack limit")
	}
	exec.TooLong(r.W, mark)
	l.SetTop(base)
	return s.budget.reason == ""
}

func stringTable(l *glua.LState, list [][]byte) *glua.LTable {
	t := l.CreateTable(len(list), 0)
	for _, b := range list {
		t.Append(glua.LString(b))
	}
	return t
}

// failure is the error reply for an error that ended the script, in the form of
// Redis 7.
func (s *state) failure(err error, sha string) string {
	where, text := "1", err.Error()
	var api *glua.ApiError
	if errors.As(err, &api) {
		if t, ok := api.Object.(*glua.LTable); ok {
			if line := t.RawGetString("line"); line != glua.LNil {
				where = line.String()
			}
			text = "ERR unknown error"
			if e, ok := t.RawGetString("err").(glua.LString); ok {
				text = string(e)
			}
			return fmt.Sprintf("%s script: %s, on @%s:%s.", text, sha, chunkName, where)
		}
		if api.Object != nil && api.Object != glua.LNil {
			text = api.Object.String()
		}
	}
	if s.budget.reason != "" {
		text = s.budget.reason
	}
	text, _, _ = strings.Cut(text, "\nstack traceback")
	if rest, ok := strings.CutPrefix(text, chunkName+":"); ok {
		if line, _, ok := strings.Cut(rest, ":"); ok {
			where = line
		}
	}
	return fmt.Sprintf("ERR %s script: %s, on @%s:%s.", text, sha, chunkName, where)
}

// line returns the line of the script that called the running Go function.
func line(l *glua.LState) string {
	parts := strings.SplitN(l.Where(1), ":", 3)
	if len(parts) < 2 {
		return "1"
	}
	return parts[1]
}
