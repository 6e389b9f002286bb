package ringcache_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/lua"
)

// What redis-cli prints, in each of its forms of output and input, is the same before
// a node as before Redis.
func TestRedisCLIAsRedis(t *testing.T) {
	cli, err := exec.LookPath("redis-cli")
	if err != nil {
		t.Skip("redis-cli is not installed; `make test` installs it")
	}
	redis := startRedis(t)
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", Standalone: true, MaxMemory: 16 << 20, Scripts: lua.New(nil)})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	script := filepath.Join(t.TempDir(), "script.lua")
	if err := os.WriteFile(script, []byte("redis.call('SET', KEYS[1], ARGV[1]); return {KEYS[1], redis.call('GET', KEYS[1]), 3, false}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args  string // words
		stdin string
	}{
		{"--pipe", "SET k1 v\r\nSET k2 v\r\nNOSUCH\r\nINCR k1\r\n"},
		{"--no-raw GET k1", ""},
		{"--no-raw GET nosuch", ""},
		{"-3 --no-raw GET nosuch", ""},
		{"-x SET fromstdin", "text with\nlines"},
		{"-X tag SET fromtag tag", "text"},
		{"--no-raw GET fromstdin", ""},
		{"--csv MGET k1 nosuch", ""},
		{"--csv MGET {k1}a k1", ""},
		{"--json CONFIG GET appendonly", ""},
		{"--json ACL GETUSER default", ""},
		{"--quoted-json ECHO \\x", ""},
		{"-2 --no-raw ACL GETUSER default", ""},
		{"-3 --no-raw CLIENT TRACKINGINFO", ""},
		{"-3 --no-raw INCRBYFLOAT f 1.5", ""},
		{"-3 --no-raw LCS {k1}a k1 IDX", ""},
		{"--no-raw COMMAND INFO get nosuch", ""},
		{"--eval " + script + " k , v", ""},
		{"--no-raw --eval " + script + " k , v", ""},
		{"-r 3 -i 0 INCR count", ""},
		{"-n 1 PING", ""},
		{"-a wrong --no-auth-warning PING", ""},
		{"--user nobody --pass x --no-auth-warning PING", ""},
		{"-e GET", ""},
		{"-e HELLO 4", ""},
		{"-c SET anywhere v", ""},
		{"--no-raw", "MULTI\nSET a{t} 1\nINCR a{t}\nGET a{t} x\nEXEC\nMULTI\nSET a{t} 1\nINCR a{t}\nEXEC\nEXEC\nWATCH a{t}\nMULTI\nPING\nDISCARD\n"},
		{"--no-raw", "CLIENT NO-EVICT on\nACL WHOAMI\nACL LIST\nACL DRYRUN default GET k\nACL LOG RESET\nACL LOG\nLATENCY LATEST\nOBJECT ENCODING k1\nWAIT 0 10\nRESET\n"},
		{"--raw", "SET n 10\nAPPEND n 5\nGETRANGE n 0 -1\nSETBIT b 7 1\nBITCOUNT b\nEXPIRE n 100\nTTL n\nPERSIST n\nTYPE n\nDEL n\nEXISTS n\n"},
	} {
		var out [2]string
		for i, addr := range []string{redis, node.Addr()} {
			_, port, _ := net.SplitHostPort(addr)
			cmd := exec.CommandContext(t.Context(), cli, append([]string{"-p", port}, strings.Fields(tt.args)...)...)
			cmd.Stdin = strings.NewReader(tt.stdin)
			text, err := cmd.CombinedOutput()
			out[i] = strings.ReplaceAll(string(text), addr, "ADDR")
			if err != nil {
				out[i] += err.Error()
			}
		}
		if out[0] != out[1] || out[0] == "" {
			t.Errorf("redis-cli %s\n redis:      %q\n ring-cache: %q", tt.args, out[0], out[1])
		}
	}
}
