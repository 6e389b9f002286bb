// Package lua runs the scripts of EVAL: Lua 5.1 by a pure Go interpreter
// (github.com/yuin/gopher-lua) in a sandbox without I/O, clock, coroutines or
// state that outlives a script. Set ringcache.Options.Scripts to New(); a
// program that does not import this package links no interpreter.
//
// A script runs while its slot is held, so it is bounded: MaxInstructions,
// MaxBytes of strings and MaxTime. One that goes beyond ends with an error;
// what it wrote until then stays. The cost of pattern matching is bounded by
// the lengths of subject and pattern.
//
// Available are the base functions without those that load code or reach
// environments, string, table, math, bit, cjson, and redis (call, pcall,
// error_reply, status_reply, sha1hex, log, setresp). Conversions between Lua
// and replies are those of Redis 7.
package lua

import (
	"container/list"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	glua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/ringcache/ringcache/internal/exec"
)

// Bounds of one script and of what is kept.
const (
	MaxInstructions = 1 << 20
	MaxBytes        = 16 << 20  // of the strings that one script makes
	MaxString       = 4 << 20   // bytes of one string
	MaxMillis       = 250       // of one execution
	MaxSource       = 256 << 10 // bytes of one script
	MaxScripts      = 1024      // kept; the one that was not used for longest gives way
	MaxKept         = 8 << 20   // bytes of the sources that are kept
	maxIdleStates   = 16        // interpreters that are kept for reuse
)

// Engine implements ringcache.Scripts. It is safe for concurrent use.
type Engine struct {
	log *slog.Logger

	mu      sync.Mutex
	scripts map[string]*list.Element // of *kept, by SHA-1
	recent  *list.List               // the last used first
	bytes   int                      // of the sources in scripts
	idle    []*state
}

var _ exec.Scripts = (*Engine)(nil)

type kept struct {
	sha   string
	size  int
	proto *glua.FunctionProto
}

// New returns an engine without scripts. redis.log writes to logger; nil drops
// its messages.
func New(logger *slog.Logger) *Engine {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Engine{log: logger, scripts: map[string]*list.Element{}, recent: list.New()}
}

// Load compiles a script and keeps it. It returns its SHA-1 in hexadecimal
// digits.
func (e *Engine) Load(source []byte) (string, error) {
	k, err := e.load(source)
	if err != nil {
		return "", err
	}
	return k.sha, nil
}

func (e *Engine) load(source []byte) (*kept, error) {
	sum := sha1.Sum(source)
	sha := hex.EncodeToString(sum[:])
	if k := e.find(sha); k != nil {
		return k, nil
	}
	if len(source) > MaxSource {
		return nil, fmt.Errorf("the script is %d bytes, limit %d", len(source), MaxSource)
	}
	proto, err := compile(string(source))
	if err != nil {
		return nil, err
	}
	k := &kept{sha: sha, size: len(source), proto: proto}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.scripts[sha] == nil {
		e.scripts[sha] = e.recent.PushFront(k)
		e.bytes += k.size
	}
	for len(e.scripts) > MaxScripts || e.bytes > MaxKept {
		e.drop(e.recent.Back())
	}
	return k, nil
}

// Kept returns how many scripts are kept and the bytes of their sources.
func (e *Engine) Kept() (scripts int, bytes int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.scripts), int64(e.bytes)
}

func (e *Engine) drop(at *list.Element) {
	k := e.recent.Remove(at).(*kept)
	delete(e.scripts, k.sha)
	e.bytes -= k.size
}

// find returns a kept script and notes that it was used.
func (e *Engine) find(sha string) *kept {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := e.scripts[sha]
	if at == nil {
		return nil
	}
	e.recent.MoveToFront(at)
	return at.Value.(*kept)
}

// Exists tells whether a script is kept; it counts as no use.
func (e *Engine) Exists(sha []byte) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.scripts[strings.ToLower(string(sha))] != nil
}

// Flush forgets all scripts.
func (e *Engine) Flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.scripts)
	e.recent.Init()
	e.bytes = 0
}

const chunkName = "user_script"

// compile parses a script and bounds its concatenations.
func compile(source string) (proto *glua.FunctionProto, err error) {
	defer func() { // the compiler panics beyond limits of its own
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: %v", chunkName, cause)
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(source), chunkName)
	if err == nil {
		proto, err = glua.Compile(bounded(chunk), chunkName)
	}
	if err != nil {
		return nil, errors.New(strings.TrimSpace(err.Error()))
	}
	return proto, nil
}

// take returns an interpreter that nobody uses.
func (e *Engine) take() *state {
	e.mu.Lock()
	n := len(e.idle)
	if n == 0 {
		e.mu.Unlock()
		return newState(e)
	}
	s := e.idle[n-1]
	e.idle = e.idle[:n-1]
	e.mu.Unlock()
	return s
}

// give keeps an interpreter for reuse.
func (e *Engine) give(s *state) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.idle) < maxIdleStates {
		e.idle = append(e.idle, s)
	}
}

// Run executes a script and appends its reply.
func (e *Engine) Run(r *exec.Script) {
	var k *kept
	if r.Source == nil {
		if k = e.find(strings.ToLower(string(r.SHA))); k == nil {
			r.W.Error("NOSCRIPT No matching script. Please use EVAL.")
			return
		}
	} else {
		var err error
		if k, err = e.load(r.Source); err != nil {
			r.W.Error("ERR Error compiling script (new function): " + err.Error())
			return
		}
	}
	s := e.take()
	if s.run(k, r) {
		e.give(s)
	}
}
