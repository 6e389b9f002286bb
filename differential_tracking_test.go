package ringcache_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/lua"
)

// trackingStory is what some connections, a to d, say in turn. A line is
// "a: COMMAND; COMMAND"; the commands are sent together. Besides:
//
//	a: (await)   a message is on its way to a
//	a: (close)   a ends its connection
//	a: (silent)  the line before turned a's replies off: nothing follows it
//
// <b> stands for the ID of b's connection.
type trackingStory struct {
	name  string
	loose bool // messages of one line are compared as a set: Redis gathers them
	needs string
	lines string
}

var trackingStories = []trackingStory{
	{name: "changes", lines: `
		a: HELLO 3; CLIENT TRACKING ON; CLIENT TRACKINGINFO; CLIENT GETREDIR
		b: SET {t}k 1
		a: GET {t}k
		b: SET {t}k 2
		b: SET {t}k 3
		a: MGET {t}k {t}none {t}k
		b: MSET {t}k 1 {t}none 2 {t}other 3
		a: GET {t}k; STRLEN {t}k; TTL {t}k; TYPE {t}k; EXISTS {t}none; GETRANGE {t}other 0 1
		b: APPEND {t}k 1
		b: EXPIRE {t}other 1000
		b: DEL {t}none
		b: DEL {t}none
		a: TTL {t}other
		b: PERSIST {t}other
		b: PERSIST {t}other
		a: EXISTS {t}k
		b: INCR {t}k
		a: BITCOUNT {t}k
		b: SETBIT {t}k 3 1
		a: GETBIT {t}k 1
		b: SETRANGE {t}k 0 ""
		b: SETRANGE {t}k 0 5
		a: GET {t}k
		b: SETNX {t}k 1; SET {t}k 1 NX; GET {t}k; STRLEN {t}k; TOUCH {t}k
		b: GETSET {t}k 7
		a: GET {t}k
		b: GETEX {t}k
		b: GETEX {t}k EX 1000
		a: GET {t}k
		b: GETEX {t}k PERSIST
		a: GET {t}k; GET {t}new
		b: COPY {t}new {t}k
		a: GET {t}k
		b: GETDEL {t}k
		a: GET {t}new
		b: SET {t}new 1 PXAT 1
		a: GET {t}new
		b: SET {t}new 1 PXAT 1
		b: SET {t}bits aaaa
		a: BITFIELD_RO {t}bits GET u8 0; BITPOS {t}bits 1; GET {t}sum
		b: BITFIELD {t}bits SET u8 0 1
		b: BITOP NOT {t}sum {t}bits
		a: TOUCH {t}bits; OBJECT REFCOUNT {t}bits; GET {t}sum
		b: UNLINK {t}bits {t}sum
		a: SET {t}soon 1 PX 300; GET {t}soon
		a: (await)
		a: GET {t}k; GET {t}l; GET {t}m
		b: FLUSHALL
		b: SET {t}k 1
		a: GET {t}k
		b: FLUSHDB
		a: CLIENT TRACKING OFF; GET {t}k; CLIENT TRACKINGINFO; CLIENT GETREDIR
		b: SET {t}k 1`},
	{name: "renamed", loose: true, lines: `
		a: HELLO 3; CLIENT TRACKING ON
		b: SET {t}k 1
		a: GET {t}k; GET {t}new
		b: RENAME {t}k {t}new
		a: GET {t}k; GET {t}new
		b: RENAMENX {t}new {t}k`},
	{name: "own changes", lines: `
		a: HELLO 3; CLIENT TRACKING ON
		a: GET {t}k; SET {t}k 1; GET {t}k; GET {t}k; INCR {t}k; INCR {t}k; PING
		a: GET {t}k; MULTI; GET {t}k; SET {t}k 1; INCR {t}k; GET {t}k; EXEC; PING
		b: SET {t}k 5
		a: GET {t}k; GET {t}l; MSET {t}k 1 {t}l 2; PING
		a: GET {t}k; FLUSHALL; PING
		a: GET {t}k; EVAL "redis.call('set', KEYS[1], 1) return redis.call('get', KEYS[1])" 1 {t}k; PING
		b: SET {t}k 2
		a: MULTI; GET {t}k; EXEC
		b: MULTI; SET {t}k 1; SET {t}k 2; EXEC
		a: GET {t}k; MULTI; PING; SET {t}k 1; DISCARD; GET {t}k
		b: DEL {t}k`},
	{name: "no loop", lines: `
		a: HELLO 3; CLIENT TRACKING ON NOLOOP; CLIENT TRACKINGINFO
		c: HELLO 3; CLIENT TRACKING ON
		a: GET {t}k
		c: GET {t}k
		a: SET {t}k 1; PING
		b: SET {t}k 1
		a: GET {t}k; MULTI; SET {t}k 2; EXEC; PING
		a: GET {t}k; EVAL "return redis.call('set', KEYS[1], 1)" 1 {t}k; PING
		a: GET {t}k
		b: SET {t}k 1
		a: GET {t}k; FLUSHALL; PING`},
	{name: "scripts", lines: `
		a: HELLO 3; CLIENT TRACKING ON
		b: MSET {t}k 1 {t}l 2
		a: EVAL "return redis.call('get', KEYS[1])" 2 {t}k {t}l
		b: EVAL "redis.call('set', KEYS[1], 2) redis.call('set', KEYS[2], 2) return 1" 2 {t}k {t}l
		a: EVAL_RO "return redis.call('get', KEYS[1])" 2 {t}k {t}l
		b: SET {t}k 1
		b: SET {t}l 1
		a: MULTI; EVAL "return redis.call('mget', KEYS[1], KEYS[2])" 2 {t}k {t}l; EXEC
		b: DEL {t}k {t}l`},
	{name: "opt in", lines: `
		a: HELLO 3; CLIENT CACHING YES; CLIENT TRACKING ON OPTIN; CLIENT TRACKINGINFO; CLIENT CACHING NO; CLIENT CACHING MAYBE
		a: GET {t}k
		b: SET {t}k 1
		a: CLIENT CACHING YES; CLIENT TRACKINGINFO; GET {t}k; CLIENT TRACKINGINFO
		b: SET {t}k 2
		a: CLIENT CACHING YES; CLIENT ID; PING; GET {t}k
		b: SET {t}k 3
		a: CLIENT CACHING YES; MULTI; PTTL {t}k; GET {t}k; EXEC; GET {t}l
		b: SET {t}k 4; SET {t}l 4
		a: CLIENT CACHING YES; MULTI; GET {t}k; DISCARD; GET {t}k
		b: SET {t}k 5
		a: MULTI; CLIENT CACHING YES; GET {t}k; EXEC; GET {t}l
		b: SET {t}k 6; SET {t}l 6
		a: CLIENT CACHING YES; NOSUCH; GET {t}k
		b: SET {t}k 7
		a: CLIENT CACHING YES; CLIENT NOSUCH; GET {t}k
		b: SET {t}k 8
		a: CLIENT CACHING YES; CLIENT TRACKING OFF; CLIENT TRACKING ON OPTIN; GET {t}k
		b: SET {t}k 9
		a: CLIENT CACHING YES; EVAL "return redis.call('get', KEYS[1])" 1 {t}k
		b: SET {t}k 10
		a: CLIENT TRACKING ON OPTOUT; CLIENT TRACKING ON; CLIENT TRACKINGINFO; CLIENT TRACKING ON OPTOUT; CLIENT TRACKINGINFO; CLIENT TRACKING ON OPTIN`},
	{name: "opt out", lines: `
		a: HELLO 3; CLIENT TRACKING ON OPTOUT NOLOOP; CLIENT TRACKINGINFO; CLIENT CACHING YES
		a: GET {t}k; CLIENT CACHING NO; CLIENT TRACKINGINFO; GET {t}l; CLIENT TRACKINGINFO
		b: SET {t}k 1; SET {t}l 1
		a: CLIENT CACHING NO; MULTI; GET {t}k; GET {t}l; EXEC; GET {t}k
		b: SET {t}k 1; SET {t}l 1`},
	{name: "wrong", lines: `
		a: CLIENT TRACKING; CLIENT TRACKING MAYBE; CLIENT TRACKING ON FOO; CLIENT TRACKING ON PREFIX; CLIENT TRACKING ON REDIRECT
		a: CLIENT TRACKING ON PREFIX a; CLIENT TRACKING ON REDIRECT x; CLIENT TRACKING ON REDIRECT 0; CLIENT TRACKING ON REDIRECT 99999
		a: CLIENT TRACKING ON BCAST OPTIN; CLIENT TRACKING ON BCAST OPTOUT; CLIENT TRACKING ON OPTIN OPTOUT; CLIENT TRACKING OFF FOO
		a: CLIENT TRACKING ON REDIRECT <b> REDIRECT <b>; CLIENT TRACKING OFF; CLIENT TRACKING OFF PREFIX a; CLIENT CACHING; CLIENT CACHING YES
		a: CLIENT TRACKING ON; CLIENT TRACKING ON BCAST; CLIENT TRACKING ON OPTIN; CLIENT TRACKINGINFO; CLIENT CACHING NO
		a: CLIENT TRACKING ON; CLIENT TRACKINGINFO; CLIENT TRACKING ON NOLOOP; CLIENT TRACKINGINFO; CLIENT TRACKINGINFO x; CLIENT GETREDIR x
		a: CLIENT TRACKING OFF; CLIENT TRACKING ON BCAST PREFIX foo PREFIX bar PREFIX foobar; CLIENT TRACKING ON BCAST PREFIX foo PREFIX bar
		a: CLIENT TRACKING ON BCAST PREFIX f; CLIENT TRACKING ON BCAST PREFIX bars; CLIENT TRACKING ON BCAST PREFIX foo; CLIENT TRACKINGINFO
		a: CLIENT TRACKING ON BCAST PREFIX zap PREFIX az; CLIENT TRACKINGINFO; CLIENT TRACKING ON; CLIENT TRACKING ON BCAST OPTIN
		a: CLIENT TRACKING ON BCAST; CLIENT TRACKINGINFO; CLIENT TRACKING ON BCAST PREFIX new; CLIENT TRACKING OFF; CLIENT TRACKINGINFO
		a: CLIENT TRACKING ON BCAST PREFIX a PREFIX b PREFIX bb PREFIX ab; CLIENT TRACKING ON BCAST PREFIX "" PREFIX b
		a: CLIENT TRACKING ON BCAST NOLOOP; CLIENT TRACKINGINFO; RESET; CLIENT TRACKINGINFO
		a: MULTI; CLIENT TRACKING ON; CLIENT TRACKINGINFO; CLIENT TRACKING FOO; EXEC; CLIENT TRACKINGINFO`},
	{name: "broadcast", loose: true, lines: `
		a: HELLO 3; CLIENT TRACKING ON BCAST PREFIX {t}user: PREFIX {t}item:
		c: HELLO 3; CLIENT TRACKING ON BCAST
		d: HELLO 3; CLIENT TRACKING ON BCAST NOLOOP PREFIX {t}user:
		b: SET {t}user:1 a
		b: MSET {t}user:1 a {t}user:2 b {t}item:1 c {t}thing d
		b: DEL {t}user:1 {t}none
		a: SET {t}item:9 x; GET {t}item:9
		d: SET {t}user:5 x
		d: MULTI; SET {t}user:5 x; SET {t}user:6 x; EXEC
		b: SET {t}user:7 x PX 1500
		a: (await)
		b: EXPIRE {t}user:2 1000
		b: EVAL "redis.call('set', KEYS[1], 1) redis.call('set', KEYS[2], 1) return 1" 2 {t}user:1 {t}item:7
		a: CLIENT TRACKING ON BCAST PREFIX {t}more:; CLIENT TRACKINGINFO
		b: SET {t}more:1 x
		b: FLUSHALL
		a: CLIENT TRACKING OFF
		b: SET {t}user:1 x`},
	{name: "protocols", lines: `
		a: CLIENT TRACKING ON
		a: GET {t}k
		b: SET {t}k 1
		a: GET {t}k; HELLO 3
		b: SET {t}k 2
		a: GET {t}k; HELLO 2
		b: SET {t}k 3
		a: HELLO 3; GET {t}k; RESET; PING
		b: SET {t}k 4
		a: HELLO 3; CLIENT TRACKING ON
		b: SET {t}k 5`},
	{name: "redirection", lines: `
		b: HELLO 3
		a: CLIENT TRACKING ON REDIRECT <b>; CLIENT TRACKINGINFO; CLIENT GETREDIR
		a: GET {t}k
		c: SET {t}k 1
		a: GET {t}k; SET {t}k 2; GET {t}k
		c: FLUSHALL
		a: HELLO 3; GET {t}k
		b: (close)
		c: SET {t}k 4
		a: CLIENT TRACKINGINFO; CLIENT GETREDIR; CLIENT TRACKING ON; CLIENT TRACKINGINFO; GET {t}k
		c: SET {t}k 5`},
	{name: "redirection to subscribers", needs: "subscribe", lines: `
		b: SUBSCRIBE __redis__:invalidate
		a: CLIENT TRACKING ON REDIRECT <b>
		a: GET {t}k
		c: SET {t}k 1
		a: GET {t}k; SET {t}k 2; GET {t}k
		c: FLUSHALL
		a: GET {t}k
		b: UNSUBSCRIBE
		c: SET {t}k 1
		a: CLIENT TRACKING ON REDIRECT <b> BCAST PREFIX {t}; CLIENT TRACKING OFF; CLIENT TRACKING ON REDIRECT <b> BCAST PREFIX {t}
		b: SUBSCRIBE __redis__:invalidate
		c: SET {t}k 1`},
	{name: "silent replies", lines: `
		a: HELLO 3; CLIENT TRACKING ON
		b: SET {t}k 1
		a: GET {t}k
		a: CLIENT REPLY OFF
		a: (silent)
		b: SET {t}k 2
		a: (await)
		a: CLIENT REPLY ON`},
}

// trackingSide is one of the two servers with the connections of a story.
type trackingSide struct {
	t     *testing.T
	addr  string
	conns map[string]*rawConn
	ids   map[string]string
	mute  map[string]bool
	syncs int
}

func (s *trackingSide) open(who string) *rawConn {
	if c := s.conns[who]; c != nil {
		return c
	}
	c, err := dialRaw(s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	id, err := c.do([]string{"CLIENT", "ID"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.conns[who], s.ids[who] = c, id[1:]
	return c
}

// hide replaces what differs between two servers.
func (s *trackingSide) hide(text string) string {
	for who, id := range s.ids {
		text = strings.ReplaceAll(text, ":"+id, ":<"+who+">")
	}
	return text
}

func (s *trackingSide) receive(who string) resp.Value {
	v, err := s.conns[who].receive()
	if err != nil {
		s.t.Fatalf("%s at %s: %v", who, s.addr, err)
	}
	return v
}

func isMessage(v resp.Value) bool {
	return v.Kind == resp.Push || v.Kind == resp.Array && len(v.Elems) == 3 && v.Elems[0].Text() == "message"
}

// drain reads what is on its way to everybody.
func (s *trackingSide) drain(out map[string][]string) {
	for who := range s.conns {
		if s.mute[who] {
			continue
		}
		s.syncs++
		token := "sync-" + strconv.Itoa(s.syncs)
		if err := s.conns[who].send([][]string{{"PING", token}}); err != nil {
			s.t.Fatal(err)
		}
		for {
			v := s.receive(who)
			if strings.Contains(show(v), token) {
				break
			}
			out[who] = append(out[who], show(v))
		}
	}
}

// line plays a line and returns what everybody got.
func (s *trackingSide) line(who, text string) map[string][]string {
	out := map[string][]string{}
	c := s.open(who)
	switch text {
	case "(await)":
		out[who] = append(out[who], show(s.receive(who)))
	case "(silent)":
		s.mute[who] = true
	case "(close)":
		id := s.ids[who]
		c.Close()
		delete(s.conns, who)
		watcher, err := dialRaw(s.addr)
		if err != nil {
			s.t.Fatal(err)
		}
		defer watcher.Close()
		poll(s.t, "the server notices", func() bool {
			list, err := watcher.do([]string{"CLIENT", "LIST"})
			return err == nil && !strings.Contains(list, "id="+id+" ")
		})
	default:
		s.mute[who] = false
		var cmds [][]string
		for _, cmd := range strings.Split(text, "; ") {
			for name := range s.ids {
				cmd = strings.ReplaceAll(cmd, "<"+name+">", s.ids[name])
			}
			args, err := splitQuoted(cmd)
			if err != nil {
				s.t.Fatal(err)
			}
			cmds = append(cmds, args)
		}
		if err := c.send(cmds); err != nil {
			s.t.Fatal(err)
		}
		replies := len(cmds)
		if text == "CLIENT REPLY OFF" {
			replies = 0
			s.mute[who] = true
		}
		for n := 0; n < replies; {
			v := s.receive(who)
			if !isMessage(v) {
				n++
			}
			if strings.Contains(show(v), `"proto"`) {
				continue // HELLO tells versions
			}
			out[who] = append(out[who], show(v))
		}
	}
	s.drain(out)
	for who, list := range out {
		for i := range list {
			out[who][i] = s.hide(list[i])
		}
	}
	return out
}

// splitQuoted splits a command at its spaces, but for those in double quotes.
func splitQuoted(line string) (args []string, err error) {
	for i, part := range strings.Split(line, `"`) {
		if i%2 == 1 {
			args = append(args, part)
			continue
		}
		args = append(args, strings.Fields(part)...)
	}
	if strings.Count(line, `"`)%2 != 0 {
		err = fmt.Errorf("open quote in %q", line)
	}
	return args, err
}

// asSet puts the messages of a line behind the replies, one for each key, sorted.
func asSet(list []string) []string {
	var replies, messages []string
	for _, text := range list {
		const begin = `push[bulk string "invalidate" array[`
		if !strings.HasPrefix(text, begin) {
			replies = append(replies, text)
			continue
		}
		for _, key := range strings.Split(strings.TrimSuffix(text[len(begin):], "]]"), " bulk string ") {
			messages = append(messages, "invalidate "+strings.TrimPrefix(key, "bulk string "))
		}
	}
	slices.Sort(messages)
	return append(replies, slices.Compact(messages)...)
}

func poll(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// TestTrackingAgainstRedis plays stories of clients that track to redis-server
// and to nodes with each transport: replies and messages must be equal, and in
// the same order.
func TestTrackingAgainstRedis(t *testing.T) {
	redisAddr := startRedis(t)
	manyIDs(t, redisAddr)
	for _, io := range []string{"std", "epoll", "uring"} {
		t.Run(io, func(t *testing.T) {
			node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", MaxMemory: 64 << 20, IO: io, Scripts: lua.New(nil)})
			if err != nil {
				if io == "std" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			defer node.Close()
			manyIDs(t, node.Addr())
			for _, story := range trackingStories {
				t.Run(story.name, func(t *testing.T) { story.play(t, redisAddr, node.Addr()) })
			}
		})
	}
}

// manyIDs makes the IDs of connections greater than any other number in a story.
func manyIDs(t *testing.T, addr string) {
	for range 1000 {
		c, err := dialRaw(addr)
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

func (story *trackingStory) play(t *testing.T, addrs ...string) {
	if story.needs != "" && command.Lookup([]byte(story.needs)) == nil {
		t.Skip(story.needs + " is not served")
	}
	var sides [2]*trackingSide
	for i, addr := range addrs {
		sides[i] = &trackingSide{t: t, addr: addr, conns: map[string]*rawConn{}, ids: map[string]string{}, mute: map[string]bool{}}
		for _, who := range []string{"a", "b", "c", "d"} {
			sides[i].open(who)
		}
		if _, err := sides[i].open("d").do([]string{"FLUSHALL"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(story.lines), "\n") {
		who, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		var got [2]map[string][]string
		for i, side := range sides {
			got[i] = side.line(who, text)
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			want, have := got[0][name], got[1][name]
			if story.loose {
				want, have = asSet(want), asSet(have)
			}
			if !slices.Equal(want, have) {
				t.Errorf("%s\n%s got   %s\nredis  %s", strings.TrimSpace(line), name, strings.Join(have, "\n       "), strings.Join(want, "\n       "))
			}
		}
	}
}
