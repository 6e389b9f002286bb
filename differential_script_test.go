package ringcache_test

import (
	"strings"
	"testing"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/lua"
)

// scripts are compared with redis-server reply by reply, in both protocols.
var scripts = []string{
	"return 1", "return 3.99", "return -3.99", "return 'a'", "return true", "return false", "return nil", "return",
	"return {1,2.9,'a',true,false,nil,3}", "return {}", "return {{1,{2}},{ok='fine'},{err='MY bad'}}", "return {double=3.5}",
	"redis.setresp(3); return {map={a=1}}", "redis.setresp(3); return {set={x=true}}", "redis.setresp(3); return {double=3.5}",
	"redis.setresp(3); return true", "redis.setresp(3); return redis.call('get','{a}none')", "redis.setresp(3); return redis.call('get','{a}none') == nil",
	"return redis.call('get','{a}none')", "return redis.call('get','{a}none') == false",
	"return {err='MY x'}", "return redis.error_reply('x')", "return redis.error_reply('-MY x')", "return redis.status_reply('fine')",
	"return redis.call('set',KEYS[1],ARGV[1])", "return redis.call('get',KEYS[1])", "return redis.call('incr',KEYS[1])",
	"return redis.call('mget',KEYS[1],'{a}none')", "return redis.call('set',KEYS[1],10)", "return redis.call('incrby',KEYS[1],3)",
	"return redis.call('set',KEYS[1],1.5)", "return redis.call('get',KEYS[1])", "return redis.call('set',KEYS[1],3.0)", "return redis.call('get',KEYS[1])",
	"return redis.call('pexpire',KEYS[1],100000) + redis.call('exists',KEYS[1])", "return redis.call('ttl',KEYS[1])",
	"return redis.call('set',KEYS[1],'x','NX')", "return redis.call('set',KEYS[1],'x','NX') == false", "return redis.call('del',KEYS[1])",
	"return redis.call('incr','a','b')", "return redis.pcall('incr','a','b')", "return redis.pcall('incr','a','b').err",
	"local ok, e = pcall(redis.call,'set',KEYS[1]); return e.err", "redis.call('set',KEYS[1],'str'); return redis.call('incr',KEYS[1])",
	"return redis.call('get')", "return redis.call('nope')", "return redis.call()", "return redis.call({})", "return redis.call('multi')",
	"return redis.call('eval','return 1',0)", "return redis.call('ping')", "return redis.call('echo','x')",
	"return foo", "foo=1", "\n\nreturn foo", "error('x')", "\nerror('x')", "error({err='MY x'})", "string.rep = 1", "rawset(string,'rep',1)",
	"redis.call = 1", "return redis.setresp(4)", "redis.log('x')", "return redis.sha1hex('')", "return redis.sha1hex('abc')",
	"local t = {}; for i=1,100 do t[i]=i end; return #t", "local s=''; for i=1,10 do s = s..i end; return s", "return 'a'..1 ..'b'..2.5",
	"return tostring(1e15)", "return tostring(0.1)", "return ('x'):rep(3)", "return string.format('%d %s %5.2f', 3, 'x', 2.5)",
	"return string.gsub('hello world', 'o', '0')", "return {string.gsub('hello', 'l', {l='L'})}", "return {string.gsub('hello', '.', function(c) return c..c end)}",
	"return string.match('key:123', '^(%a+):(%d+)$')", "return {string.find('hello','l')}", "return table.concat({1,2,'x'}, ',')",
	"return math.floor(3.7)", "return #ARGV", "return ARGV", "return KEYS", "return type(redis)", "return tonumber('0x10')", "return tonumber('12')",
	"local t = setmetatable({}, {__concat=function(a,b) return 'meta' end}); return t..'x'", "return {} .. 'x'",
	"return loadstring('return 1+1')()", "return select('#', 1, 2, 3)", "return {unpack({1,2,3})}",
	"return bit.band(0xff, 0x0f)", "return bit.lshift(1, 31)", "return bit.tohex(255)", "return bit.bxor(1,2,3)", "return bit.rol(1,33)", "return bit.bnot(0)",
	"return cjson.encode({1,2,3})", "return cjson.encode({a='x/\"'})", "return cjson.encode({})", "return cjson.encode({[1]=1,[2]=cjson.null})",
	"return cjson.decode('[1,2,{\"a\":\"b\"}]')[3].a", "return cjson.decode('{\"a\":null}').a == cjson.null", "return cjson.encode(cjson.decode('[1.5,true,false,\"x\"]'))",
	"return cjson.encode(1000000)", "return cjson.encode(0.1)", "return cjson.encode(2^53)",
	"return pcall(function() error('a') end)", "return {pcall(function() error('a', 0) end)}",
	"return 1e100 .. ''", "return tostring(-1.5e-7)", "return tostring(nil)", "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
	"redis.replicate_commands(); return 1", "return {1,2,nil,4}", "return 0/0 ~= 0/0", "return 2^63",
}

func TestScriptsAgainstRedis(t *testing.T) {
	redisAddr := startRedis(t)
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", MaxMemory: 64 << 20, Scripts: lua.New(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	for _, proto := range []string{"2", "3"} {
		var conns [2]*rawConn
		for i, addr := range []string{redisAddr, node.Addr()} {
			if conns[i], err = dialRaw(addr); err != nil {
				t.Fatal(err)
			}
			defer conns[i].Close()
			if _, err := conns[i].do([]string{"HELLO", proto}); err != nil {
				t.Fatal(err)
			}
		}
		compare := func(args ...string) {
			t.Helper()
			var replies [2]string
			for i, c := range conns {
				if replies[i], err = c.do(args); err != nil {
					t.Fatal(err)
				}
			}
			if replies[0] != replies[1] {
				t.Errorf("RESP%s %q\n redis:      %s\n ring-cache: %s", proto, args, replies[0], replies[1])
			}
		}
		for _, script := range scripts {
			compare("EVAL", script, "1", "{a}k", "v1", "v2")
		}
		for _, script := range scripts {
			if !strings.Contains(script, "'set'") {
				compare("EVAL_RO", script, "1", "{a}k", "v1")
			}
		}
		for _, line := range []string{
			"EVAL x y", "EVAL return~1 x", "EVAL return~1 -1", "EVAL return~1 2 a", "EVAL return~1 1 a", "EVAL return~1 0", "EVAL return~1 2 {a}1 {b}1",
			"EVALSHA abc 0", "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", "EVALSHA E0E1F9FABFC9D4800C877A703B823AC0578FF8DB 1 {a}1",
			"SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db abc", "SCRIPT LOAD return~2", "EVALSHA 7f923f79fe76194c868d7e1d0820de36700eb649 0",
			"EVALSHA_RO 7f923f79fe76194c868d7e1d0820de36700eb649 0", "EVALSHA_RO 7F923F79FE76194C868D7E1D0820DE36700EB649 1 {a}1", "EVALSHA_RO abc 0", "EVALSHA_RO abc",
			"SCRIPT LOAD redis.call('set',KEYS[1],1)", "EVALSHA_RO c84ad0afc9ea3bd988026c3e00e58c92a3251088 1 {a}k", "SCRIPT EXISTS", "SCRIPT LOAD", "SCRIPT LOAD return~2 x",
			"COMMAND GETKEYS EVALSHA_RO x 2 {a}1 {a}2 x", "EVAL_RO", "EVAL_RO return~1 -1", "EVAL_RO return~1 2 {a}1", "EVAL_RO return~1 2 {a}1 {b}1",
			"SCRIPT KILL", "SCRIPT FLUSH FOO", "SCRIPT FLUSH", "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "SCRIPT EXISTS", "SCRIPT",
			"SCRIPT FOO", "EVAL_RO return~redis.call('set','{a}k',1) 1 {a}k",
			"MULTI", "EVAL return~redis.call('incr',KEYS[1]) 1 {a}n", "INCR {a}n", "EVAL return~KEYS[1] 1 {a}n", "EXEC",
			"COMMAND GETKEYS EVAL return 2 a b c", "COMMAND GETKEYS EVAL return 0 a",
		} {
			args := strings.Fields(line)
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "~", " ")
			}
			compare(args...)
		}
	}
}

// A script may only touch keys of the slot of its declared keys.
func TestScriptKeepsToItsSlot(t *testing.T) {
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", MaxMemory: 64 << 20, Scripts: lua.New(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	c, err := dialRaw(node.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, args := range [][]string{
		{"EVAL", "return redis.call('get','{b}1')", "1", "{a}1"},
		{"EVAL", "return redis.call('get','{b}1')", "0"},
		{"EVAL", "return redis.call('mget','{a}1','{b}1')", "1", "{a}1"},
	} {
		if got, err := c.do(args); err != nil || !strings.HasPrefix(got, "-ERR Script attempted to access a non local key in a cluster node") {
			t.Errorf("%q: %s %v", args, got, err)
		}
	}
	if got, _ := c.do([]string{"EVAL", "return redis.call('flushall')", "1", "{a}1"}); !strings.HasPrefix(got, "-ERR This Redis command is not allowed from script") {
		t.Error(got)
	}
}
