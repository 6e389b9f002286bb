package exec

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/child"
	"github.com/ringcache/ringcache/internal/resp"
)

// redis is one connection to a real redis-server.
type redis struct {
	conn net.Conn
	p    resp.ReplyParser
	buf  []byte
	used int // bytes of the last reply, dropped before the next
}

// startRedis starts a redis-server 7.0, on request in cluster mode with all
// slots, or skips the test.
func startRedis(tb testing.TB, cluster bool) *redis {
	tb.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		tb.Skip("no redis-server in PATH: nothing was compared with a real server")
	}
	if out, err := exec.Command(bin, "--version").Output(); err != nil || !strings.Contains(string(out), " v=7.0.") {
		tb.Skipf("redis-server is not 7.0 (%s): nothing was compared", strings.TrimSpace(string(out)))
	}
	dir := tb.TempDir()
	sock := filepath.Join(dir, "s")
	options := []string{"--port", "0", "--unixsocket", sock, "--save", "", "--dir", dir, "--enable-debug-command", "yes"}
	if cluster { // needs ports, although nobody dials them
		port, err := child.FreePorts("127.0.0.1", 1)
		if err != nil {
			tb.Fatal(err)
		}
		options = append(options, "--cluster-enabled", "yes", "--bind", "127.0.0.1", "--port", strconv.Itoa(port)) // the other port is 10000 above
	}
	cmd := exec.Command(bin, options...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewReader(stdout)
	for line := ""; !strings.Contains(line, "ready to accept connections at"); {
		if line, err = lines.ReadString('\n'); err != nil {
			tb.Fatalf("redis-server did not start: %v", err)
		}
	}
	// From here on nobody reads the log but this goroutine, which ends when
	// the server does.
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	conn, err := net.Dial("unix", sock)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(10 * time.Minute))
	r := &redis{conn: conn}
	if !cluster {
		return r
	}
	if got := r.text(tb, "CLUSTER ADDSLOTSRANGE 0 16383"); got != "+OK\n" {
		tb.Fatal(got)
	}
	// The state turns to ok within the next cluster tick.
	for r.text(tb, "GET x") != "nil\n" {
		r.text(tb, "DEBUG SLEEP 0.01")
	}
	return r
}

func (r *redis) send(tb testing.TB, args ...[]byte) {
	tb.Helper()
	if _, err := r.conn.Write(resp.AppendCommand(nil, args...)); err != nil {
		tb.Fatal(err)
	}
}

// reply reads one reply; it is valid until the next call.
func (r *redis) reply(tb testing.TB) resp.Value {
	tb.Helper()
	r.buf = r.buf[:copy(r.buf, r.buf[r.used:])]
	r.used = 0
	for {
		v, n, err := r.p.Next(r.buf, nil)
		if err != nil {
			tb.Fatal(err)
		}
		if n > 0 {
			r.used = n
			return v
		}
		room := make([]byte, len(r.buf), 2*len(r.buf)+4096)
		copy(room, r.buf)
		got, err := r.conn.Read(room[len(room):cap(room)])
		if err != nil {
			tb.Fatal(err)
		}
		r.buf = room[:len(room)+got]
	}
}

func (r *redis) text(tb testing.TB, line string) string {
	tb.Helper()
	r.send(tb, parseLine(line)...)
	return render(r.reply(tb))
}

// TestScriptsAgainstRedis checks that the expectations are what Redis says.
func TestScriptsAgainstRedis(t *testing.T) {
	r := startRedis(t, true)
	for _, path := range scripts(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			r.text(t, "FLUSHALL")
			steps := readScript(t, path)
			for i := range steps {
				s := &steps[i]
				switch s.verb {
				case "~":
					d, err := time.ParseDuration(s.text)
					if err != nil {
						t.Fatal(err)
					}
					r.text(t, fmt.Sprintf("DEBUG SLEEP %f", d.Seconds()))
				case ">":
					got := r.text(t, s.text)
					if *update && !strings.Contains(s.want, "..") {
						s.want = got
					}
					if !agrees(s.want, got) {
						t.Errorf("line %d: %s\nRedis says %sthe script  %s", s.line, s.text, got, s.want)
					}
				}
			}
			if *update {
				writeScript(t, path, steps)
			}
		})
	}
}
