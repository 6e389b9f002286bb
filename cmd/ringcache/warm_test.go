package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kill ends a process as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.rest
	_ = p.cmd.Wait() // says that it was killed
}

// warmDirs are a directory on a disk and, where there is one, in shared memory.
func warmDirs(tb testing.TB) map[string]string {
	dirs := map[string]string{"disk": tb.TempDir()}
	if dir, err := os.MkdirTemp("/dev/shm", "ringcache-test"); err == nil {
		tb.Cleanup(func() { os.RemoveAll(dir) })
		dirs["memory"] = dir
	}
	return dirs
}

// TestServeWarmRestart: a node that was stopped by SIGTERM has its entries and
// their deadlines when it is back; one that was killed starts empty and says so.
func TestServeWarmRestart(t *testing.T) {
	for where, dir := range warmDirs(t) {
		t.Run(where, func(t *testing.T) {
			addr := devAddr(freePorts(t, 1))
			serve := func(args ...string) *process {
				t.Helper()
				return start(t, command(t, nil, append([]string{"serve", "--addr", addr, "--max-memory", "16mb", "--data-dir", dir}, args...)...))
			}
			p := serve()
			deadline := strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10)
			for _, c := range []string{"SET k v", "SET t v PXAT " + deadline, "SET gone v PX 1"} {
				if got := call(t, addr, c); got != "+OK" {
					t.Fatalf("%s answers %s", c, got)
				}
			}
			p.stop(t, syscall.SIGTERM)
			contains(t, p.stderr.String(), "started empty", "there was no arena yet", "kept the entries for the next start")

			p = serve()
			for c, want := range map[string]string{"EXISTS k": ":1", "GET k": "$1", "PEXPIRETIME t": ":" + deadline, "PEXPIRETIME k": ":-1", "EXISTS gone": ":0"} {
				if got := call(t, addr, c); got != want {
					t.Errorf("%s answers %s, want %s", c, got, want)
				}
			}
			_, stderr := runTo(t, exitUsage, command(t, nil, "serve", "--addr", devAddr(freePorts(t, 1)), "--max-memory", "16mb", "--data-dir", dir))
			contains(t, stderr, fmt.Sprintf("is in use by process %d", p.cmd.Process.Pid))
			p.kill()
			contains(t, p.stderr.String(), "took over the entries of the process before", "entries=")

			p = serve()
			if got := call(t, addr, "DBSIZE"); got != ":0" {
				t.Errorf("after a crash DBSIZE answers %s", got)
			}
			call(t, addr, "SET k again")
			p.stop(t, syscall.SIGTERM)
			contains(t, p.stderr.String(), "level=WARN", "started empty", "did not end cleanly")

			p = serve("--warm-dir", "off")
			if got := call(t, addr, "EXISTS k"); got != ":0" {
				t.Errorf("without a file EXISTS answers %s", got)
			}
			p.stop(t, syscall.SIGTERM)
			p = serve()
			if got := call(t, addr, "EXISTS k"); got != ":1" {
				t.Errorf("EXISTS answers %s", got)
			}
			p.stop(t, syscall.SIGTERM)
		})
	}
}

// ask sends a command that ends the session.
func ask(t *testing.T, addr, command string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(conn); len(b) > 0 {
		t.Fatalf("%s answers %s", command, b)
	}
}

// TestServeShutdown: SHUTDOWN keeps what SIGTERM keeps, NOSAVE nothing.
func TestServeShutdown(t *testing.T) {
	dir := t.TempDir()
	addr := devAddr(freePorts(t, 1))
	args := []string{"serve", "--addr", addr, "--max-memory", "16mb", "--data-dir", dir}
	for _, tc := range []struct{ stop, found string }{{"SHUTDOWN", ":0"}, {"SHUTDOWN SAVE", ":1"}, {"SHUTDOWN NOSAVE", ":1"}, {"SHUTDOWN", ":0"}} {
		p := start(t, command(t, nil, args...))
		if got := call(t, addr, "EXISTS k"); got != tc.found {
			t.Errorf("before %s EXISTS answers %s, want %s", tc.stop, got, tc.found)
		}
		call(t, addr, "SET k v")
		ask(t, addr, tc.stop)
		<-p.rest
		if err := p.cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", tc.stop, err, p.stderr.String())
		}
	}
	p := start(t, command(t, nil, append(args[:5:5], "--warm-dir", "off")...))
	if got := call(t, addr, "SHUTDOWN SAVE"); !strings.HasPrefix(got, "-ERR there is no file") {
		t.Errorf("SHUTDOWN SAVE without a file answers %s", got)
	}
	p.stop(t, syscall.SIGTERM)
}

// TestServeRestartInCluster: a node of a cluster that is stopped by SHUTDOWN SAVE and
// is back before the others took it for dead has its entries; one that left by
// SIGTERM has none, since the others own its slots meanwhile.
func TestServeRestartInCluster(t *testing.T) {
	base, dir := freePorts(t, 3), t.TempDir()
	addr := func(i int) string { return devAddr(base + i) }
	serve := func(i int) *process {
		t.Helper()
		return start(t, command(t, nil, "serve", "--addr", addr(i), "--seeds", strings.Join([]string{addr(0), addr(1), addr(2)}, ","),
			"--max-memory", "16mb", "--hold-down", "10s", "--data-dir", filepath.Join(dir, strconv.Itoa(i))))
	}
	nodes := []*process{serve(0), serve(1), serve(2)}
	for i := range 3000 {
		for n := range 3 {
			if call(t, addr(n), fmt.Sprintf("SET key%d v", i)) == "+OK" {
				break
			}
		}
		if i >= 300 && call(t, addr(1), "DBSIZE") != ":0" {
			break
		}
	}
	before := call(t, addr(1), "DBSIZE")
	ask(t, addr(1), "SHUTDOWN SAVE")
	<-nodes[1].rest
	if err := nodes[1].cmd.Wait(); err != nil {
		t.Fatal(err, nodes[1].stderr.String())
	}
	nodes[1] = serve(1)
	// On a machine so busy that the others noticed, nothing is back; then it
	// must say so.
	after, log := call(t, addr(1), "DBSIZE"), nodes[1].stderr.String()
	t.Logf("%s entries before, %s after", before, after)
	if after != before && !(after == ":0" && strings.Contains(log, "dropped")) {
		t.Errorf("%s entries before, %s after\n%s", before, after, log)
	}
	size := func(which ...int) (sum int) {
		t.Helper()
		for _, i := range which {
			n, err := strconv.Atoi(strings.TrimPrefix(call(t, addr(i), "DBSIZE"), ":"))
			if err != nil {
				t.Fatal(err)
			}
			sum += n
		}
		return sum
	}
	total := size(0, 1, 2)
	nodes[1].stop(t, syscall.SIGTERM)
	if got := size(0, 2); got != total {
		t.Errorf("the others have %d entries after it has left, want all %d", got, total)
	}
	nodes[1] = serve(1)
	if log := nodes[1].stderr.String(); strings.Contains(log, "took over the entries of the process before") {
		t.Errorf("it took entries back that it had handed over:\n%s", log)
	}
	for _, p := range nodes {
		p.stop(t, syscall.SIGTERM)
	}
}

// BenchmarkWarmRestart measures the restart of a real process that holds
// RINGCACHE_RESTART_ITEMS entries (100000), a third of them with a deadline:
// the time from SIGTERM to the end, and from the start of the next process to
// its first answer to a GET. It fails if an entry or a deadline is not as before.
func BenchmarkWarmRestart(b *testing.B) {
	items := 100_000
	if v, err := strconv.Atoi(os.Getenv("RINGCACHE_RESTART_ITEMS")); err == nil {
		items = v
	}
	for where, dir := range warmDirs(b) {
		b.Run(where, func(b *testing.B) {
			for b.Loop() {
				stop, first := warmRestart(b, dir, items)
				b.ReportMetric(stop.took.Seconds()*1000, "ms-stop")
				b.ReportMetric(stop.cpu.Seconds()*1000, "cpu-ms-stop")
				b.ReportMetric(first.took.Seconds()*1000, "ms-first-get")
				b.ReportMetric(first.cpu.Seconds()*1000, "cpu-ms-first-get")
				b.ReportMetric(float64(items), "items")
				b.ReportMetric(0, "ns/op") // which is the loading of the items
			}
		})
	}
}

// cost is what a step took, and how much of a processor: on a busy machine they
// are far apart.
type cost struct{ took, cpu time.Duration }

// cpuOf returns the processor time of a running process, 0 where that is not known.
func cpuOf(p *process) time.Duration {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond // in ticks
}

func warmRestart(b *testing.B, dir string, items int) (stop, first cost) {
	port := 20000 + os.Getpid()%20000
	addr := devAddr(port)
	memory := strconv.Itoa(64+items/5000) + "mb"
	run := func() *process {
		cmd := command(b, nil, "serve", "--addr", addr, "--max-memory", memory, "--data-dir", dir)
		return start(b, cmd)
	}
	p := run()
	base := time.Now().Add(time.Hour).UnixMilli()
	pipeline(b, addr, items, func(i int) string {
		if i%3 == 0 {
			return fmt.Sprintf("SET item:%d value-of-%d-and-forty-bytes-more-of-that PXAT %d\r\n", i, i, base+int64(i))
		}
		return fmt.Sprintf("SET item:%d value-of-%d-and-forty-bytes-more-of-that\r\n", i, i)
	}, func(i int, r *bufio.Reader) string {
		line, _ := r.ReadString('\n')
		if line != "+OK\r\n" {
			return line
		}
		return ""
	})
	began, used := time.Now(), cpuOf(p)
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.rest
	if err := p.cmd.Wait(); err != nil {
		b.Fatal(err, p.stderr.String())
	}
	stop = cost{time.Since(began), p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime() - used}
	began = time.Now()
	answered := make(chan time.Duration, 1)
	go func() { // ends with the first answer
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				continue
			}
			_, _ = io.WriteString(conn, "GET item:1\r\n")
			line, _ := bufio.NewReader(conn).ReadString('\n')
			conn.Close()
			if strings.HasPrefix(line, "$") && line != "$-1\r\n" {
				answered <- time.Since(began)
				return
			}
		}
	}()
	p = run()
	first = cost{<-answered, cpuOf(p)}
	pipeline(b, addr, items, func(i int) string { return fmt.Sprintf("GET item:%d\r\nPEXPIRETIME item:%d\r\n", i, i) },
		func(i int, r *bufio.Reader) string {
			_, _ = r.ReadString('\n')
			value, _ := r.ReadString('\n')
			until, _ := r.ReadString('\n')
			want := ":-1\r\n"
			if i%3 == 0 {
				want = fmt.Sprintf(":%d\r\n", base+int64(i))
			}
			if value != fmt.Sprintf("value-of-%d-and-forty-bytes-more-of-that\r\n", i) || until != want {
				return fmt.Sprintf("item %d: %q until %q", i, value, until)
			}
			return ""
		})
	p.kill()
	p = run()
	if got := call(b, addr, "DBSIZE"); got != ":0" {
		b.Fatalf("after a crash DBSIZE answers %s", got)
	}
	p.kill()
	return stop, first
}

// pipeline sends a request for each item and checks the replies.
func pipeline(b *testing.B, addr string, items int, request func(i int) string, check func(i int, r *bufio.Reader) string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	r, w := bufio.NewReaderSize(conn, 1<<20), bufio.NewWriterSize(conn, 1<<20)
	const batch = 2000
	for i := 0; i < items; i += batch {
		end := min(items, i+batch)
		for j := i; j < end; j++ {
			_, _ = w.WriteString(request(j))
		}
		if err := w.Flush(); err != nil {
			b.Fatal(err)
		}
		for j := i; j < end; j++ {
			if fault := check(j, r); fault != "" {
				b.Fatalf("item %d: %s", j, fault)
			}
		}
	}
}
