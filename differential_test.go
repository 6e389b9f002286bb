package ringcache_test

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache"
	"github.com/ringcache/ringcache/internal/child"
	"github.com/ringcache/ringcache/internal/resp"
)

// startRedis runs a real redis-server as a one-node Redis Cluster that owns all
// slots, the peer of the differential test.
func startRedis(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed; `make test` installs it")
	}
	addr, err := child.FreeAddr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addr)
	data, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(data+child.GossipOffset), "--dir", t.TempDir(), "--loglevel", "warning")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	poll(t, "redis-server serves", func() bool { return redisReady(addr) })
	return addr
}

// redisReady gives all slots to the server and tells whether it serves them.
func redisReady(addr string) bool {
	c, err := dialRaw(addr)
	if err != nil {
		return false
	}
	defer c.Close()
	if _, err := c.do([]string{"CLUSTER", "ADDSLOTSRANGE", "0", "16383"}); err != nil {
		return false
	}
	reply, err := c.do([]string{"SET", "ready", "1"})
	if err != nil || reply != "+OK" {
		return false
	}
	_, err = c.do([]string{"DEL", "ready"})
	return err == nil
}

// rawConn speaks RESP without any client library in between, so that replies
// are compared as they are sent.
type rawConn struct {
	net.Conn
	r      *bufio.Reader
	parser resp.ReplyParser
	buf    []byte
}

func dialRaw(addr string) (*rawConn, error) {
	c, err := net.DialTimeout("tcp", addr, 30*time.Second)
	if err != nil {
		return nil, err
	}
	return &rawConn{Conn: c, r: bufio.NewReaderSize(c, 1<<16)}, nil
}

func (c *rawConn) send(cmds [][]string) error {
	var out []byte
	for _, args := range cmds {
		out = resp.AppendCommandStrings(out, args...)
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, err := c.Write(out)
	return err
}

func (c *rawConn) receive() (resp.Value, error) {
	chunk := make([]byte, 1<<16)
	for {
		v, n, err := c.parser.Next(c.buf, nil)
		if err != nil {
			return v, err
		}
		if n > 0 {
			v = v.Clone()
			c.buf = c.buf[n:]
			return v, nil
		}
		m, err := c.r.Read(chunk)
		if err != nil {
			return v, err
		}
		c.buf = append(c.buf, chunk[:m]...)
	}
}

func (c *rawConn) do(args []string) (string, error) {
	if err := c.send([][]string{args}); err != nil {
		return "", err
	}
	v, err := c.receive()
	return show(v), err
}

// show prints a reply with its RESP type, so that a bulk "1" differs from an
// integer 1 and from a simple string.
func show(v resp.Value) string {
	switch v.Kind {
	case resp.Null:
		return "(nil)"
	case resp.SimpleString:
		return "+" + string(v.Str)
	case resp.Error:
		return "-" + string(v.Str)
	case resp.Integer:
		return ":" + v.Text()
	case resp.Array, resp.Map, resp.Set, resp.Push:
		parts := make([]string, len(v.Elems))
		for i, e := range v.Elems {
			parts[i] = show(e)
		}
		return v.Kind.String() + "[" + strings.Join(parts, " ") + "]"
	}
	return v.Kind.String() + " " + strconv.Quote(v.Text())
}

// comparable maps a reply to what both servers must agree on.
func comparable(args []string, v resp.Value) string {
	name := strings.ToUpper(args[0])
	if v.Kind == resp.Error {
		return show(v)
	}
	switch name {
	case "KEYS":
		return sortedElems(v)
	case "OBJECT":
		// How Redis stores a string depends on the commands that made it (an
		// INCRBYFLOAT leaves embstr, an APPEND raw); here it follows from the
		// value alone. The narrated scripts of internal/exec hold the rest.
		// Nor are small integers shared objects here, which REFCOUNT would show.
		if v.Kind == resp.Bulk || v.Kind == resp.Integer {
			return "an encoding or a count"
		}
	case "SCAN":
		if len(v.Elems) != 2 {
			break
		}
		if len(args) < 4 || args[3] != "100000" { // a part of the keys: whose is each server's choice
			return "a cursor and keys"
		}
		return show(v.Elems[0]) + sortedElems(v.Elems[1])
	}
	return show(v)
}

// sameTime tells whether two times to live or deadlines are the same but for
// the moments at which the two servers looked at their clocks.
func sameTime(args []string, a, b resp.Value) bool {
	var tolerance int64
	switch strings.ToUpper(args[0]) {
	case "TTL", "EXPIRETIME":
		tolerance = 5
	case "PTTL", "PEXPIRETIME":
		tolerance = 5000
	}
	return a.Kind == resp.Integer && b.Kind == resp.Integer && a.Int > 0 && b.Int > 0 && max(a.Int-b.Int, b.Int-a.Int) <= tolerance
}

// beyondLCS tells whether ring-cache refused an LCS that Redis answered because
// it is above its bound of work, which Redis does not have.
func beyondLCS(want, got resp.Value) bool {
	const limit = 4 << 20
	var cells int
	n, _ := fmt.Sscanf(show(got), "-RCTOOLARGE the product of both lengths of LCS is %d bytes, limit 4194304;", &cells)
	return n == 1 && cells > limit && want.Kind != resp.Error
}

func sortedElems(v resp.Value) string {
	parts := make([]string, len(v.Elems))
	for i, e := range v.Elems {
		parts[i] = show(e)
	}
	slices.Sort(parts)
	return v.Kind.String() + fmt.Sprint(parts)
}

// diffSeed is where the random histories begin: the same in each run, so that what one
// run has shown another one shows too. RINGCACHE_DIFF_SEED gives another number, or
// "random" for histories that nobody has seen.
func diffSeed(t *testing.T) uint64 {
	t.Helper()
	switch s := os.Getenv("RINGCACHE_DIFF_SEED"); s {
	case "":
		return 1
	case "random":
		return uint64(time.Now().UnixNano())
	default:
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("RINGCACHE_DIFF_SEED: %v", err)
		}
		return n
	}
}

// TestDifferentialAgainstRedis sends the same random history to redis-server
// and to one node of ring-cache; every reply must be equal.
func TestDifferentialAgainstRedis(t *testing.T) {
	commands := 60_000 // per protocol
	if s := os.Getenv("RINGCACHE_DIFF_COMMANDS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatalf("RINGCACHE_DIFF_COMMANDS: %v", err)
		}
		commands = n
	}
	seed := diffSeed(t)
	redisAddr := startRedis(t)
	node, err := ringcache.Open(ringcache.Options{Addr: "127.0.0.1:0", MaxMemory: 64 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			t.Logf("seed %d, %d commands", seed, commands)
			compareHistories(t, redisAddr, node.Addr(), proto, seed, commands)
		})
	}
}

func compareHistories(t *testing.T, redisAddr, ourAddr, proto string, seed uint64, commands int) {
	t.Helper()
	var conns [2]*rawConn
	for i, addr := range []string{redisAddr, ourAddr} {
		c, err := dialRaw(addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns[i] = c
		for _, args := range [][]string{{"FLUSHALL"}, {"HELLO", proto}} {
			if _, err := c.do(args); err != nil {
				t.Fatal(err)
			}
		}
	}
	h := history{Rand: rand.New(rand.NewPCG(seed, 1))}
	const batch = 50
	var past [][]string
	differing := map[string]bool{} // names of commands that were reported
	for done := 0; done < commands; done += batch {
		cmds := make([][]string, batch)
		for i := range cmds {
			cmds[i] = h.next()
		}
		past = append(past, cmds...)
		if err := errors.Join(conns[0].send(cmds), conns[1].send(cmds)); err != nil {
			t.Fatal(err)
		}
		for i, args := range cmds {
			want, err := conns[0].receive()
			if err != nil {
				t.Fatalf("redis-server ended the connection at %q: %v", args, err)
			}
			got, err := conns[1].receive()
			if err != nil {
				t.Fatalf("ring-cache ended the connection at %q: %v", args, err)
			}
			if a, b := comparable(args, want), comparable(args, got); a != b && !sameTime(args, want, got) && !beyondLCS(want, got) && !differing[args[0]] {
				differing[args[0]] = true // later ones may differ because this did
				report(t, past[:done+i], args, a, b)
			}
		}
	}
}

// report shows a difference together with the commands before it that touched
// the same keys.
func report(t *testing.T, past [][]string, args []string, want, got string) {
	t.Helper()
	var related []string
	for i := len(past) - 1; i >= 0 && len(related) < 12; i-- {
		if len(args) > 1 && slices.Contains(past[i], args[1]) {
			related = append(related, fmt.Sprintf("%q", past[i]))
		}
	}
	slices.Reverse(related)
	t.Errorf("%q\n redis:      %s\n ring-cache: %s\n before: %s", args, want, got, strings.Join(related, "\n         "))
}
