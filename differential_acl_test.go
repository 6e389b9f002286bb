package ringcache_test

import (
	"strings"
	"testing"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/lua"
)

// TestRulesAsRedis: what users may do in transactions and scripts, and when rules
// change in between, compared with a real Redis over two connections. "a " in
// front of a line is the administrator's.
func TestRulesAsRedis(t *testing.T) {
	redisAddr := startRedis(t)
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", MaxMemory: 64 << 20, Scripts: lua.New(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	const setup = "a ACL SETUSER t reset on nopass ~k* %R~r* &c* +@all -@dangerous -del +acl|whoami"
	histories := map[string][]string{
		"queue":       {"MULTI", "GET z", "SET k 1", "EXEC"},
		"unqueue":     {"MULTI", "DEL k", "DISCARD", "GET k"},
		"changed":     {"MULTI", "GET k", "SET k 1", "PUBLISH c x", "STRLEN k", "PING", "a ACL SETUSER t -get -ping resetkeys ~z resetchannels", "EXEC"},
		"still":       {"MULTI", "GET k", "a ACL SETUSER t +del", "SET k 2", "EXEC", "DEL k"},
		"script":      {"EVAL|return redis.call('GET',KEYS[1])|1|k", "EVAL|return redis.call('GET',KEYS[1])|1|z", "EVAL|return redis.call('DEL',KEYS[1])|1|k", "EVAL|return redis.pcall('DEL',KEYS[1])|1|k", "EVAL|return redis.call('SET',KEYS[1],1)|1|r", "EVAL|return redis.pcall('GET','z')|0"},
		"scriptKey":   {"EVAL|return redis.pcall('GET','{k}z')|1|{k}", "EVAL|return redis.pcall('SET','k{r}',1)|1|r", "EVAL|return redis.pcall('SET','r{r}',1)|1|r"},
		"scriptInTx":  {"MULTI", "EVAL|return redis.pcall('DEL',KEYS[1])|1|k", "EVAL|return redis.pcall('GET',KEYS[1])|1|k", "EXEC"},
		"authInTx":    {"MULTI", "AUTH default x", "ACL WHOAMI", "EXEC", "ACL WHOAMI"},
		"write":       {"SET r 1", "SET k 1 GET", "SET r 1 GET", "GETSET r 1", "MGET k r", "MSET k 1 {k}2 2", "COPY r k", "APPEND r x", "EXISTS r z", "TTL r", "EXPIRE r 1", "OBJECT ENCODING r", "WATCH z", "WATCH k", "UNWATCH"},
		"dangerous":   {"KEYS *", "FLUSHALL", "CONFIG GET maxmemory", "INFO", "CLIENT ID", "CLIENT LIST", "SCAN 0 COUNT 1000000 MATCH none", "DBSIZE", "RANDOMKEY", "CLUSTER KEYSLOT k", "CLUSTER SLOTS"},
		"channels":    {"PUBLISH c x", "PUBLISH z x", "SPUBLISH z x", "SUBSCRIBE z", "PSUBSCRIBE c*", "PSUBSCRIBE cc*"},
		"fewer rules": {"a ACL SETUSER t reset on nopass +get", "GET k", "a ACL SETUSER t ~k", "GET k", "a ACL SETUSER t (+set ~s)", "SET s 1", "SET k 1", "GET s"},
	}
	for name, lines := range histories {
		t.Run(name, func(t *testing.T) {
			var replies [2][]string
			for i, addr := range []string{redisAddr, node.Addr()} {
				var conns [2]*rawConn
				for j := range conns {
					c, err := dialRaw(addr)
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					conns[j] = c
				}
				for _, line := range append([]string{setup, "AUTH t x"}, lines...) {
					who := 1
					if rest, ok := strings.CutPrefix(line, "a "); ok {
						who, line = 0, rest
					}
					args := strings.Fields(line)
					if strings.Contains(line, "|") && strings.HasPrefix(line, "EVAL") {
						args = strings.Split(line, "|")
					}
					if err := conns[who].send([][]string{args}); err != nil {
						t.Fatal(err)
					}
					v, err := conns[who].receive()
					if err != nil {
						t.Fatalf("%s: %v", line, err)
					}
					reply := show(v)
					if strings.Contains(line, "ID") || line == "CLUSTER SLOTS" || line == "RANDOMKEY" { // any key will do
						reply = reply[:1]
					}
					replies[i] = append(replies[i], line+" => "+reply)
				}
			}
			want, got := strings.Join(replies[0], "\n"), strings.Join(replies[1], "\n")
			if want != got {
				t.Errorf("redis:\n%s\n\nring-cache:\n%s", want, got)
			}
		})
	}
}
