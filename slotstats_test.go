package ringcache_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/lua"
)

// traffic asks for the bytes of all slots that have some: "in/out" by slot.
func traffic(t *testing.T, c *rawConn) map[int]string {
	t.Helper()
	if err := c.send([][]string{{"CLUSTER", "SLOT-STATS", "SLOTSRANGE", "0", "16383"}}); err != nil {
		t.Fatal(err)
	}
	v, err := c.receive()
	if err != nil || len(v.Elems) != ring.Slots {
		t.Fatalf("%s, %v", show(v), err)
	}
	out := map[int]string{}
	for _, e := range v.Elems {
		in, _ := e.Elems[1].Find("network-bytes-in")
		sent, ok := e.Elems[1].Find("network-bytes-out")
		if !ok {
			t.Fatalf("no traffic in %s", show(e))
		}
		if in.Int != 0 || sent.Int != 0 {
			out[int(e.Elems[0].Int)] = fmt.Sprintf("%d/%d", in.Int, sent.Int)
		}
	}
	return out
}

// The bytes of commands and replies are those on the wire, with every transport. The
// figures beside the commands are counted by hand; those of Valkey's own tests are
// among them.
func TestTrafficOfSlots(t *testing.T) {
	slot := func(key string) int { return int(ring.Slot([]byte(key))) }
	key, channel := slot("key"), slot("channel")
	for _, io := range []string{"std", "auto"} {
		node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", Standalone: true, MaxMemory: 16 << 20, IO: io, Scripts: lua.New(nil),
			Diagnostics: ringcache.Diagnostics{SlotStats: true}})
		if err != nil {
			t.Fatal(err)
		}
		defer node.Close()
		c, listener := mustDial(t, node.Addr()), mustDial(t, node.Addr())
		for _, tc := range []struct {
			what string
			from *rawConn
			cmds []string
			want map[int]string
		}{
			{"a write", c, []string{"SET key value"}, map[int]string{key: "33/5"}},
			{"reads", c, []string{"GET key", "GET nosuch"}, map[int]string{key: "22/11", slot("nosuch"): "25/5"}},
			{"a pipeline", c, []string{"SET key v1\nSET key v2\nGET key\nPING\nDEL key"}, map[int]string{key: strconv.Itoa(2*30+22+22) + "/" + strconv.Itoa(5+5+8+4)}},
			{"a line", c, []string{"inline GET key"}, map[int]string{key: "9/5"}},
			{"no slot", c, []string{"INFO", "PING", "DBSIZE", "PUBLISH channel hello", "CLIENT ID"}, map[int]string{}},
			{"a transaction", c, []string{"MULTI", "SET key value", "EXEC"}, map[int]string{key: strconv.Itoa(15+33+14) + "/" + strconv.Itoa(4+5)}},
			{"a transaction that is dropped", c, []string{"MULTI", "SET key value", "DISCARD"}, map[int]string{key: "33/0"}},
			{"a transaction without keys", c, []string{"MULTI", "PING", "EXEC"}, map[int]string{}},
			{"a script", c, []string{"EVAL return(redis.call('get',KEYS[1])) 1 key"}, map[int]string{key: strconv.Itoa(4+10+40+7+9) + "/11"}},
			{"wrong ones", c, []string{"GET key x", "FOO key", "MGET key nosuch", "INCR key"}, map[int]string{key: strconv.Itoa(4+10+9) + "/" + strconv.Itoa(len("-ERR value is not an integer or out of range\r\n"))}},
			{"a shard channel", listener, []string{"SSUBSCRIBE channel"}, map[int]string{channel: "34/38"}},
			{"its message", c, []string{"SPUBLISH channel hello"}, map[int]string{channel: strconv.Itoa(42) + "/" + strconv.Itoa(4+42)}},
			{"silence", c, []string{"CLIENT REPLY SKIP\nGET key\nPING"}, map[int]string{key: "22/0"}},
		} {
			if reply, err := c.do([]string{"CONFIG", "RESETSTAT"}); err != nil || reply != "+OK" {
				t.Fatal(reply, err)
			}
			for _, line := range tc.cmds {
				replies := exchange(t, tc.from, line)
				if tc.what == "a script" && !strings.Contains(replies, "value") {
					t.Fatal(replies)
				}
			}
			if got := traffic(t, c); fmt.Sprint(got) != fmt.Sprint(tc.want) {
				t.Errorf("%s, %s: %v, want %v", node.IO(), tc.what, got, tc.want)
			}
		}
	}
}

func mustDial(t *testing.T, addr string) *rawConn {
	t.Helper()
	c, err := dialRaw(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// exchange sends commands, one a line, in one packet and returns their replies.
func exchange(t *testing.T, c *rawConn, lines string) string {
	t.Helper()
	var out []byte
	replies, silent := 0, false
	for line := range strings.SplitSeq(lines, "\n") {
		if inline, ok := strings.CutPrefix(line, "inline "); ok {
			out = append(out, inline+"\r\n"...)
		} else {
			out = resp.AppendCommandStrings(out, strings.Fields(line)...)
		}
		switch {
		case line == "CLIENT REPLY SKIP":
			silent = true
		case silent:
			silent = false
		default:
			replies++
		}
	}
	if _, err := c.Write(out); err != nil {
		t.Fatal(err)
	}
	var text []string
	for range replies {
		v, err := c.receive()
		if err != nil {
			t.Fatalf("%q: %v", lines, err)
		}
		text = append(text, show(v))
	}
	return strings.Join(text, " ")
}

// The time of a slot is that of its commands, those inside a script included. The
// figures that cost time are there only while they are wanted.
func TestTimeOfSlots(t *testing.T) {
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", Standalone: true, MaxMemory: 16 << 20, Scripts: lua.New(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	c := mustDial(t, node.Addr())
	names := func() []string {
		t.Helper()
		if err := c.send([][]string{{"CLUSTER", "SLOT-STATS", "ORDERBY", "key-count", "LIMIT", "1"}}); err != nil {
			t.Fatal(err)
		}
		v, err := c.receive()
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for i := 0; i < len(v.Elems[0].Elems[1].Elems); i += 2 {
			out = append(out, v.Elems[0].Elems[1].Elems[i].Text())
		}
		return out
	}
	if got := names(); !slices.Equal(got, []string{"key-count", "memory-bytes"}) {
		t.Errorf("off: %q", got)
	}
	for _, args := range [][]string{{"CONFIG", "SET", "cluster-slot-stats-enabled", "yes"}, {"SET", "busy", "0"}, {"SET", "idle", "0"},
		{"EVAL", "local n = 0; for i = 1, 10000 do n = n + i end return n", "1", "busy"}} {
		if reply, err := c.do(args); err != nil || reply[0] == '-' {
			t.Fatal(reply, err)
		}
	}
	if got := names(); !slices.Equal(got, []string{"key-count", "memory-bytes", "cpu-usec", "network-bytes-in", "network-bytes-out"}) {
		t.Errorf("on: %q", got)
	}
	if err := c.send([][]string{{"CLUSTER", "SLOT-STATS", "ORDERBY", "CPU-USEC", "LIMIT", "3"}}); err != nil {
		t.Fatal(err)
	}
	v, err := c.receive()
	if err != nil || len(v.Elems) != 3 {
		t.Fatal(show(v), err)
	}
	var micros []int64
	for _, e := range v.Elems {
		cpu, _ := e.Elems[1].Find("cpu-usec")
		micros = append(micros, cpu.Int)
	}
	if busy := int64(ring.Slot([]byte("busy"))); v.Elems[0].Elems[0].Int != busy || micros[0] < 100 || micros[0] < micros[1] || micros[1] < micros[2] {
		t.Errorf("slot %d first: %s", busy, show(v))
	}
	if reply, err := c.do([]string{"CONFIG", "SET", "cluster-slot-stats-enabled", "no"}); err != nil || reply != "+OK" {
		t.Fatal(reply, err)
	}
	if got := names(); !slices.Equal(got, []string{"key-count", "memory-bytes"}) {
		t.Errorf("off again: %q", got)
	}
}
