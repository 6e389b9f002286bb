package server

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/child"
)

// startRedis runs a real redis-server in cluster mode until the test ends.
func startRedis(t *testing.T, args ...string) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	addr, err := child.FreeAddr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	cmd := exec.Command(path, append([]string{"--port", port, "--save", "", "--daemonize", "no",
		"--cluster-enabled", "yes", "--bind", "127.0.0.1", "--dir", t.TempDir()}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	eventually(t, "redis answers", func() bool { return speak(addr, "PING\r\n") != "" })
	return addr
}

// speak sends text and QUIT, and returns all that comes back until the other
// side closes.
func speak(addr, text string) string {
	c, err := net.DialTimeout("tcp", addr, 30*time.Second)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Write([]byte(text)); err != nil {
		return ""
	}
	c.(*net.TCPConn).CloseWrite()
	b, _ := io.ReadAll(c)
	return string(b)
}

var volatile = []struct{ pattern, with string }{
	{`\$2\r\nid\r\n:\d+`, "$2\r\nid\r\n:ID"},
	{`\$\d+\r\n7\.\d+\.\d+`, "$N\r\nVERSION"},
}

func normal(s string) string {
	for _, v := range volatile {
		s = regexp.MustCompile(v.pattern).ReplaceAllString(s, v.with)
	}
	return s
}

// Every case is sent to a real Redis (7.0) and to a Server; the bytes that come
// back must be equal.
func TestRepliesAsRedis(t *testing.T) {
	redis := startRedis(t)
	s, _ := start(t, Options{})
	cases := []string{
		"PING", "PING x", "PING a b", "ECHO x", "ECHO", "ECHO a b", "FOO", "FOO a b", "", `""`,
		"FOO " + strings.Repeat("x", 300) + " y", strings.Repeat("x", 200) + " " + strings.Repeat("y ", 100),
		"FOO \"a\\r\\n+OK\"", "GET", "GET a b",
		"HELLO", "HELLO 2", "HELLO 3", "HELLO 4", "HELLO 1", "HELLO x", "HELLO 3 FOO", "HELLO 3 AUTH default",
		"HELLO 3 AUTH default x", "HELLO 3 AUTH other x", "HELLO 3 SETNAME", "HELLO 3 SETNAME a\r\nCLIENT GETNAME",
		`HELLO 2 SETNAME "a b"`, "HELLO 3 AUTH default x SETNAME n\r\nCLIENT GETNAME", "HELLO 3\r\nHELLO 2\r\nCLIENT GETNAME",
		"AUTH", "AUTH x", "AUTH default x", "AUTH other x", "AUTH a b c",
		"SELECT 0", "SELECT 1", "SELECT -1", "SELECT x", "SELECT 99999999999", "SELECT",
		"QUIT\r\nPING", "QUIT now", "RESET", "RESET x", "HELLO 3 SETNAME a\r\nRESET\r\nCLIENT GETNAME",
		"READONLY", "READWRITE", "ASKING", "READONLY x",
		"CLIENT", "CLIENT FOO", "CLIENT \"a\\r\\nb\"", "CLIENT ID x", "CLIENT GETNAME", "CLIENT SETNAME", "CLIENT SETNAME a\r\nCLIENT GETNAME",
		`CLIENT SETNAME "a b"`, `CLIENT SETNAME "a\nb"`, `CLIENT SETNAME ""` + "\r\nCLIENT GETNAME",
		"CLIENT LIST FOO", "CLIENT LIST TYPE", "CLIENT LIST TYPE FOO", "CLIENT LIST TYPE master", "CLIENT LIST ID", "CLIENT LIST ID x", "CLIENT LIST ID 99999", "CLIENT LIST ID 99998 99999",
		"HELLO 3\r\nCLIENT LIST ID 99999",
		"CLIENT NO-EVICT", "CLIENT NO-EVICT on", "CLIENT NO-EVICT OFF", "CLIENT NO-EVICT x",
		"CLIENT KILL", "CLIENT KILL 1.2.3.4:5", "CLIENT KILL ID 99999", "CLIENT KILL ID x", "CLIENT KILL ID 0", "CLIENT KILL ID -1",
		"CLIENT KILL TYPE foo", "CLIENT KILL TYPE pubsub", "CLIENT KILL FOO bar", "CLIENT KILL ADDR 1:1", "CLIENT KILL ADDR 1:1 LADDR",
		"CLIENT KILL USER nobody", "CLIENT KILL SKIPME x", "CLIENT KILL SKIPME yes ADDR 1:1", "CLIENT KILL LADDR 1:1 TYPE normal",
		"CLIENT PAUSE", "CLIENT PAUSE x", "CLIENT PAUSE -1", "CLIENT PAUSE 0 foo", "CLIENT PAUSE x foo", "CLIENT PAUSE 0", "CLIENT PAUSE 0 all", "CLIENT PAUSE 0 WRITE x",
		"CLIENT PAUSE 99999999999999999999", "CLIENT PAUSE 9000 WRITE\r\nPING\r\nCLIENT UNPAUSE", "CLIENT UNPAUSE", "CLIENT UNPAUSE x",
		"CLIENT UNBLOCK", "CLIENT UNBLOCK x", "CLIENT UNBLOCK x foo", "CLIENT UNBLOCK 1 foo", "CLIENT UNBLOCK 9999", "CLIENT UNBLOCK 9999 error", "CLIENT UNBLOCK 9999 TIMEOUT", "CLIENT UNBLOCK 1 error x",
		"CLIENT KILL ID", "CLIENT KILL ID 1 2 3", "CLIENT CACHING YES", "CLIENT CACHING", "CLIENT GETREDIR", "CLIENT TRACKINGINFO", "HELLO 3\r\nCLIENT TRACKINGINFO",
		"CLIENT REPLY ON", "CLIENT REPLY OFF\r\nPING\r\nFOO\r\nCLIENT REPLY ON\r\nPING", "CLIENT REPLY SKIP\r\nPING\r\nPING",
		"CLIENT REPLY SKIP\r\nCLIENT REPLY ON", "CLIENT REPLY OFF\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY ON\r\nPING", "CLIENT REPLY x", "CLIENT REPLY",
		"CLIENT REPLY SKIP\r\nFOO\r\nPING",
		"COMMAND FOO", "COMMAND COUNT x", "COMMAND INFO nosuch", "HELLO 3\r\nCOMMAND INFO nosuch", "COMMAND INFO client|nosuch",
		"COMMAND INFO get", "HELLO 3\r\nCOMMAND INFO get", "COMMAND INFO GET mset ping client|id",
		"COMMAND DOCS nosuch", "HELLO 3\r\nCOMMAND DOCS nosuch",
		"COMMAND LIST x", "COMMAND LIST FILTERBY", "COMMAND LIST FILTERBY PATTERN", "COMMAND LIST FILTERBY x y", "COMMAND LIST FILTERBY MODULE x",
		"COMMAND LIST FILTERBY ACLCAT nosuch", "COMMAND LIST FILTERBY PATTERN SETN?", "COMMAND LIST FILTERBY PATTERN ech[a-z]", "COMMAND LIST FILTERBY PATTERN nosuch*",
		"COMMAND GETKEYS", "COMMAND GETKEYS GET", "COMMAND GETKEYS GET a", "COMMAND GETKEYS MSET a b c d", "COMMAND GETKEYS GET a b", "COMMAND GETKEYS ECHO a",
		"COMMAND GETKEYS nosuch a", "COMMAND GETKEYS CLIENT foo", "COMMAND GETKEYS CLIENT id",
		"COMMAND GETKEYSANDFLAGS SET a b", "HELLO 3\r\nCOMMAND GETKEYSANDFLAGS SET a b", "COMMAND GETKEYSANDFLAGS MGET a b",
		`ECHO "\x41\x4a\xff"`, `ECHO "\x4"`, `ECHO "\xzz"`, `ECHO "\n\r\t\b\a\q\""`, `ECHO '\'\n'`, `ECHO a"b c"`, `ECHO a'b c'`, `ECHO a\b`, `ECHO ""`,
		"\t ECHO a\v\fb\t", `ECHO 'a'b`, `ECHO 'a`, `ECHO "a\"`, `ECHO "a\`,
		`"foo`, `foo"`, `"foo"bar`, "POST / HTTP", "Host: x",
		"*1\r\nfoo", "*1\r\n", "*x", "*1\r\n$x", "*1\r\n$-1", "*1\r\n$536870913", "*99999999999", "*01",
		"*-1\r\nPING", "*0\r\nPING", "\r\n\r\nPING", "*1\r\n$0\r\n", "*1\r\n$4\r\nPING", "*" + strings.Repeat("1", 70000), strings.Repeat("x", 70000),
		"*1\r\n$" + strings.Repeat("1", 70000),
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%.60q", c), func(t *testing.T) {
			if len(c) < 64<<10 { // longer ones are about lines that do not end
				c += "\r\n"
			}
			want := normal(speak(redis, c))
			if got := normal(speak(s.Addr().String(), c)); got != want {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
}

func TestAuthenticationAsRedis(t *testing.T) {
	redis := startRedis(t, "--requirepass", "secret")
	s, _ := start(t, Options{Password: "secret"})
	cases := []string{
		"PING", "GET a", "GET", "FOO", "CLIENT ID", "CLIENT FOO", "COMMAND COUNT", "QUIT", "RESET", "RESET\r\nPING",
		"AUTH secret\r\nPING", "AUTH default secret\r\nPING", "AUTH wrong\r\nPING", "AUTH other secret", "AUTH default", "AUTH a b c",
		"HELLO", "HELLO 3", "HELLO 4", "HELLO 3 AUTH default secret", "HELLO 3 AUTH default wrong", "HELLO 3 AUTH other secret\r\nPING",
		"HELLO 2 SETNAME a", "HELLO 3 AUTH default secret SETNAME a\r\nCLIENT GETNAME", "AUTH secret\r\nRESET\r\nPING",
		"AUTH secret\r\nAUTH wrong\r\nPING",
		"*11\r\n$4\r\nPING", "*2\r\n$4\r\nPING\r\n$16385", "*10\r\n",
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%.60q", c), func(t *testing.T) {
			want := normal(speak(redis, c+"\r\n"))
			if got := normal(speak(s.Addr().String(), c+"\r\n")); got != want {
				t.Errorf("\n got %q\nwant %q", got, want)
			}
		})
	}
}
