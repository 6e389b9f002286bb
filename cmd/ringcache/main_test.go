package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/child"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	if flag.Parse(); testing.Short() {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "ringcache-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "ringcache")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// command prepares a run without the caller's RINGCACHE_ variables. The program is
// built plainly even if the test has the race detector, so that a short run, which is
// for the detector, goes without.
func command(t testing.TB, env []string, args ...string) *exec.Cmd {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes are not started with -short")
	}
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = t.TempDir()
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "RINGCACHE_") {
			cmd.Env = append(cmd.Env, pair)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// runTo runs a command to its end and checks the exit code.
func runTo(t *testing.T, code int, cmd *exec.Cmd) (stdout, stderr string) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	_ = cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("exit code %d, want %d\nstdout: %s\nstderr: %s", got, code, out.String(), errOut.String())
	}
	return out.String(), errOut.String()
}

// written is what a running process has written so far.
type written struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *written) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *written) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is a command that keeps running.
type process struct {
	cmd    *exec.Cmd
	stderr written
	first  string // first line of stdout
	rest   chan string
}

// start runs a command and waits for its first line.
func start(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{cmd: cmd, rest: make(chan string, 1)}
	cmd.Stderr = &p.stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r := bufio.NewReader(stdout)
	if p.first, err = r.ReadString('\n'); err != nil {
		_ = cmd.Wait()
		t.Fatalf("no start line: %v\nstderr: %s", err, p.stderr.String())
	}
	go func() { // ends with the process
		b, _ := io.ReadAll(r)
		p.rest <- string(b)
	}()
	return p
}

// stop sends a signal and checks that the process ends well.
func (p *process) stop(t *testing.T, sig syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	<-p.rest
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("%v\nstderr: %s", err, p.stderr.String())
	}
}

// callLimit is for answers that never come, not for those that a busy machine delays.
const callLimit = 30 * time.Second

// call sends one inline command and returns the first line of the reply.
func call(t testing.TB, addr, command string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, callLimit)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(callLimit))
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return strings.TrimSpace(line)
}

// freePorts finds n data ports in a row that are free with their gossip ports.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	base, err := child.FreePorts("127.0.0.1", n)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// bulk sends one inline command and returns its reply, which is a text.
func bulk(t testing.TB, addr, command string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, callLimit)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(callLimit))
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r, size := bufio.NewReader(conn), 0
	if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(r, text); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(text)
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in: %s", part, text)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	tests := []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{"unknown command", nil, []string{"serv"}, []string{`unknown command "serv"`, "did you mean `ringcache serve`?"}},
		{"unknown subcommand", nil, []string{"config", "shwo"}, []string{"did you mean `ringcache config show`?"}},
		{"unknown flag", nil, []string{"serve", "--max-memry", "1gb"}, []string{"unknown flag: --max-memry; did you mean --max-memory?"}},
		{"bad flag of a tool", nil, []string{"placement", "--sets", "x"}, []string{"--sets", "`ringcache placement --help` lists all flags"}},
		{"bad range of a tool", nil, []string{"placement", "--sets", "0"}, []string{"--sets 0: must be at least 1"}},
		{"unknown placement", nil, []string{"placement", "--placements", "rink"}, []string{"rink"}},
		{"unknown format", nil, []string{"version", "-o", "yaml"}, []string{"table or json"}},
		{"missing argument", nil, []string{"config", "check"}, []string{"accepts 1 arg(s), received 0"}},
		{"argument too many", nil, []string{"serve", "here"}, []string{`unknown command "here"`}},
		{"faults of all sources", []string{"RINGCACHE_TOKNS=1"}, []string{"serve", "--weight", "x", "--policy", "lur"},
			[]string{"3 faults", "RINGCACHE_TOKNS: unknown variable; did you mean RINGCACHE_TOKENS?", `--weight: "x"`, `did you mean "lru"?`}},
		{"no secret", nil, []string{"serve", "--addr", "0.0.0.0:7001"}, []string{"cluster-secret: is missing"}},
		{"dev out of range", nil, []string{"dev", "--nodes", "0", "--port", "60000", "--max-memory", "x"},
			[]string{"--nodes 0: choose 1 to 10", "--port 60000: choose 1 to", `"x" is not a size`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stdout, stderr := runTo(t, exitUsage, command(t, tt.env, tt.args...))
			contains(t, stderr, append(tt.want, "ringcache: ")...)
			if stdout != "" || strings.Contains(stderr, "Usage:") {
				t.Errorf("usage was dumped: %s%s", stdout, stderr)
			}
		})
	}
}

func TestHelpHasExamples(t *testing.T) {
	root := newRoot()
	for _, cmd := range root.Commands() {
		if cmd.Example == "" && !cmd.HasSubCommands() {
			t.Errorf("%s has no example", cmd.Name())
		}
		out, _ := runTo(t, exitOK, command(t, nil, cmd.Name(), "--help"))
		contains(t, out, "Usage:", cmd.Long)
	}
}

func TestConfigCommands(t *testing.T) {
	cmd := command(t, []string{"RINGCACHE_MAX_MEMORY=64mb", "RINGCACHE_CONFIG=ring.yaml"}, "config", "show", "--tokens", "200", "-o", "json")
	if err := os.WriteFile(filepath.Join(cmd.Dir, "ring.yaml"), []byte("zone: a\npassword: hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ := runTo(t, exitOK, cmd)
	var entries []struct{ Key, Value, Origin string }
	if err := json.Unmarshal([]byte(out), &entries); err != nil {
		t.Fatal(err)
	}
	want := map[string][2]string{
		"max-memory": {"64mb", "RINGCACHE_MAX_MEMORY"}, "tokens": {"200", "--tokens"}, "zone": {"a", "ring.yaml:1"},
		"password": {"(set)", "ring.yaml:2"}, "policy": {"s3fifo", "default"},
	}
	for _, e := range entries {
		if w, ok := want[e.Key]; ok && w != [2]string{e.Value, e.Origin} {
			t.Errorf("%s: %s from %s, want %v", e.Key, e.Value, e.Origin, w)
		}
		delete(want, e.Key)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}

	bad := filepath.Join(cmd.Dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("adr: x\ntokens: many\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr := runTo(t, exitUsage, command(t, nil, "config", "check", bad))
	contains(t, stderr, "2 faults", bad+`:1:1: adr: unknown key; did you mean "addr"?`, bad+`:2:9: tokens: "many" is not a whole number`)
	out, _ = runTo(t, exitOK, command(t, []string{"RINGCACHE_NONSENSE=1"}, "config", "check", filepath.Join(cmd.Dir, "ring.yaml")))
	contains(t, out, "is valid")
}

func TestVersion(t *testing.T) {
	out, _ := runTo(t, exitOK, command(t, nil, "version", "-o", "json"))
	var v versionInfo
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Version == "" || v.Go == "" || v.Platform == "" {
		t.Errorf("%v: %s", err, out)
	}
	out, _ = runTo(t, exitOK, command(t, nil, "version"))
	contains(t, out, "ringcache ", v.Platform)
}

// TestPlacement checks shape and determinism; the figures are ring's.
func TestPlacement(t *testing.T) {
	args := []string{"placement", "--nodes", "3,4", "--tokens", "20", "--sets", "2", "--seed", "7", "-o", "json"}
	out, stderr := runTo(t, exitOK, command(t, nil, args...))
	if stderr != "" {
		t.Errorf("stderr is no terminal, but got %q", stderr)
	}
	var rows []map[string]any
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 6 {
		t.Fatalf("%d rows, want 2 sizes x 3 placements", len(rows))
	}
	for _, key := range []string{"nodes", "placement", "sd", "sd_worst", "max_over_mean", "moved_join_over_ideal", "moved_leave_over_ideal", "ranges"} {
		if _, ok := rows[0][key]; !ok {
			t.Errorf("no field %s", key)
		}
	}
	if again, _ := runTo(t, exitOK, command(t, nil, args...)); again != out {
		t.Error("two runs differ")
	}
	table, _ := runTo(t, exitOK, command(t, nil, args[:len(args)-2]...))
	contains(t, table, "NODES", "MAX/MEAN", "ring-unbounded")
}

func TestProgress(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, "placing", "sets")
	p.show(t.Context(), 1, 2)
	p.clear()
	if b.Len() != 0 {
		t.Errorf("printed to what is no terminal: %q", b.String())
	}
	p.terminal = true
	p.show(t.Context(), 1, 2)
	contains(t, b.String(), "placing [###############...............] 1 of 2 sets")
	b.Reset()
	p.show(t.Context(), 1, 2)
	if b.Len() != 0 {
		t.Errorf("drew twice within a period: %q", b.String())
	}
}

func TestTwoSignals(t *testing.T) {
	ch, cancelled, code := make(chan os.Signal), make(chan bool, 1), make(chan int, 1)
	go twoSignals(ch, func() { cancelled <- true }, func(c int) { code <- c })
	ch <- syscall.SIGINT
	<-cancelled
	if len(code) != 0 {
		t.Error("the first signal ended the process")
	}
	ch <- syscall.SIGTERM
	if got := <-code; got != 128+15 {
		t.Errorf("exit code %d, want 143", got)
	}
}
