package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/operate"
)

// varying are the parts of the output that differ from run to run.
var varying = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "ADDR"},
	{regexp.MustCompile(`\b[0-9a-f]{16,40}\b`), "HASH"},
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`epoch \d+`), "epoch N"},
	{regexp.MustCompile(`\d+/s`), "N/s"},
	{regexp.MustCompile(` +`), " "},
}

// shape is an output without what varies.
func shape(text string) string {
	for _, v := range varying {
		text = v.what.ReplaceAllString(text, v.with)
	}
	return text
}

// twoNodes starts a cluster of two.
func twoNodes(t *testing.T) (addrs [2]string, nodes [2]*process) {
	t.Helper()
	base := freePorts(t, 2)
	for i := range nodes {
		addrs[i] = devAddr(base + i)
		args := []string{"serve", "--addr", addrs[i], "--max-memory", "16mb"}
		if i > 0 {
			args = append(args, "--seeds", addrs[0])
		}
		nodes[i] = start(t, command(t, nil, args...))
	}
	out, _ := runTo(t, exitOK, command(t, nil, "cluster", "wait", "--healthy", "--nodes", "2", "--timeout", "1m", "--addr", addrs[0]))
	if out != "ok  2 nodes  16384 slots served\n" {
		t.Fatalf("%q", out)
	}
	return addrs, nodes
}

// clusterCmd runs `ringcache cluster` against a node.
func clusterCmd(t *testing.T, addr string, args ...string) string {
	t.Helper()
	out, _ := runTo(t, exitOK, command(t, nil, append(append([]string{"cluster"}, args...), "--addr", addr)...))
	return out
}

func clusterJSON[T any](t *testing.T, addr string, args ...string) (v T) {
	t.Helper()
	out := clusterCmd(t, addr, append(args, "-o", "json")...)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return v
}

func TestClusterCommands(t *testing.T) {
	addrs, nodes := twoNodes(t)
	if got := call(t, addrs[0], "SET greeting hello"); !strings.HasPrefix(got, "+OK") && !strings.HasPrefix(got, "-MOVED") {
		t.Fatal(got)
	}
	contains(t, shape(clusterCmd(t, addrs[1], "status")), "cluster ringcache\nstate ok\nmembers 2, 2 own slots\nslots 16384 owned, 16384 served\nview HASH, epoch N\nkeys ",
		"reads 0 hits/s, 0 misses/s, 100.0% hits\npins 0 slots\nchanges 0\n")
	list := shape(clusterCmd(t, addrs[0], "nodes"))
	contains(t, list, "ID ADDR STATE HEALTH WEIGHT SLOTS SHARE KEYS MEMORY COMMANDS/S MISSES/S CLIENTS UP ZONE\n", "ID ADDR active alive 1 ")
	if n := strings.Count(list, "\n"); n != 3 {
		t.Errorf("%d lines: %s", n, list)
	}
	members := clusterJSON[[]operate.Node](t, addrs[0], "nodes")
	if len(members) != 2 || members[0].Slots+members[1].Slots != 16384 || !members[0].Answers {
		t.Fatalf("%+v", members)
	}
	first := members[0]

	if out := clusterCmd(t, addrs[1], "pin", "0-9", first.ID[:10]); out != "slots 0-9 are pinned to "+first.ID[:10]+"\n" {
		t.Errorf("%q", out)
	}
	// What one member was told reaches the other in a moment.
	until(t, "the other member has the pins", func() bool {
		return strings.Contains(shape(clusterCmd(t, addrs[0], "pins")), "SLOT PINNED TO OWNER GROUP SINCE\n0 ID ID TIME\n1 ID ID TIME\n")
	})
	clusterCmd(t, addrs[0], "wait", "--healthy", "--timeout", "1m")
	contains(t, shape(clusterCmd(t, addrs[0], "slots", "0", "9")), "SLOTS OWNER KEYS BYTES \n0-9 ADDR 0 0b pinned\n")
	if out := clusterCmd(t, addrs[0], "group", "eu", first.Addr+","+members[1].Addr, "tenant:1", "tenant:2", "tenant:3"); out != "group eu: 3 tags lie in 3 slots, which are pinned\n" {
		t.Errorf("%q", out)
	}
	until(t, "the other member has the pins of the group", func() bool { return len(clusterJSON[[]operate.Pin](t, addrs[1], "pins")) == 13 })
	if out := clusterCmd(t, addrs[1], "ungroup", "eu"); out != "3 slots were unpinned\n" {
		t.Errorf("%q", out)
	}
	if out := clusterCmd(t, addrs[1], "unpin", "0-16383"); out != "10 slots were unpinned\n" {
		t.Errorf("%q", out)
	}
	until(t, "the other member has no pins", func() bool { return len(clusterJSON[[]operate.Pin](t, addrs[0], "pins")) == 0 })
	plan := shape(clusterCmd(t, addrs[0], "plan", "add"))
	contains(t, plan, "change add 1 of weight 1 (an estimate: the slots depend on the IDs of the new nodes)\nmoves ", "\nNODE SLOTS AFTER KEYS AFTER BYTES AFTER\n", "\nFROM TO SLOTS KEYS BYTES\n", "\nADDR new-1 ")
	if p := clusterJSON[operate.Plan](t, addrs[0], "plan", "remove", first.Addr); !p.Exact || p.Slots != first.Slots || len(p.Moves) != 1 {
		t.Errorf("%+v", p)
	}
	contains(t, shape(clusterCmd(t, addrs[0], "events", "--count", "100")), "TIME KIND NODE WHAT\n", "member ADDR is a member now")

	_, stderr := runTo(t, exitFailed, command(t, nil, "cluster", "pin", "5", "nobody", "--addr", addrs[0]))
	contains(t, stderr, "ringcache: no member is called nobody: give a node ID")
	_, stderr = runTo(t, exitUsage, command(t, nil, "cluster", "plan", "remove", "--addr", addrs[0]))
	contains(t, stderr, "requires at least 1 arg(s)")
	_, stderr = runTo(t, exitUsage, command(t, nil, "cluster", "plan", "add", "--count", "-1", "--addr", addrs[0]))
	contains(t, stderr, "--count -1: must be at least 1")
	_, stderr = runTo(t, exitFailed, command(t, nil, "cluster", "wait", "--nodes", "3", "--timeout", "5s", "--addr", addrs[0]))
	contains(t, stderr, "not so within 5s: 2 of 3 nodes own slots")
	_, stderr = runTo(t, exitFailed, command(t, nil, "cluster", "status", "--addr", "127.0.0.1:1"))
	contains(t, stderr, "127.0.0.1:1", "connection refused")
	nodes[1].stop(t, syscall.SIGTERM)
	nodes[0].stop(t, syscall.SIGTERM)
}

// A change of weight and a drain are followed to their end; the node that is asked may
// be the one that leaves.
func TestClusterWeightAndDrain(t *testing.T) {
	addrs, nodes := twoNodes(t)
	out := clusterCmd(t, addrs[0], "weight", addrs[1], "0")
	if out != addrs[1]+" has its new weight, and nothing moves any more\n" {
		t.Errorf("%q", out)
	}
	for _, n := range clusterJSON[[]operate.Node](t, addrs[0], "nodes") {
		if want := map[string]int{addrs[0]: 16384, addrs[1]: 0}[n.Addr]; n.Slots != want || n.State != "active" {
			t.Errorf("%+v", n)
		}
	}
	until(t, "the status says where the weight comes from", func() bool {
		return strings.Contains(shape(clusterCmd(t, addrs[0], "status")), "note ADDR has weight 0, set at run time, until it restarts; its configuration says 1\n")
	})
	contains(t, shape(clusterCmd(t, addrs[0], "nodes")), " 0 (set) 0 ")
	contains(t, shape(clusterCmd(t, addrs[0], "plan", "weight", addrs[1], "2")),
		"note ADDR has no data directory: it has 2 until it restarts, then the weight of its configuration, 1\n")
	contains(t, shape(clusterCmd(t, addrs[0], "plan", "weight", addrs[1], "1")), "note ADDR gets the weight of its configuration, 1\n")
	clusterCmd(t, addrs[0], "weight", addrs[1], "3")
	out = clusterCmd(t, addrs[1], "drain", addrs[1])
	if out != addrs[1]+" has left the cluster\n" {
		t.Errorf("%q", out)
	}
	<-nodes[1].rest
	if err := nodes[1].cmd.Wait(); err != nil {
		t.Errorf("the drained node ended with %v: %s", err, nodes[1].stderr.String())
	}
	if s := clusterJSON[operate.Status](t, addrs[0], "status"); s.Members != 1 || s.State != operate.StateOK {
		t.Errorf("%+v", s)
	}
	for _, tc := range []struct{ line, want string }{
		{"pause", "paused on all members\n"}, {"rate 900 1mb", "set on all members\n"}, {"resume", "resumed on all members\n"},
	} {
		if out, _ := runTo(t, exitOK, command(t, nil, append(strings.Fields("migrate "+tc.line), "--addr", addrs[0])...)); out != tc.want {
			t.Errorf("migrate %s: %q", tc.line, out)
		}
	}
	if f := clusterJSON[[]operate.Node](t, addrs[0], "nodes")[0].Figures; f.KeysLimit != 900 || f.BytesLimit != 1<<20 || f.Paused {
		t.Errorf("%+v", f)
	}
	_, said := runTo(t, exitFailed, command(t, nil, "migrate", "rate", "0", "--addr", addrs[0]))
	contains(t, said, `ringcache: rate "0" must be 1 to`)
	out, stderr := runTo(t, exitOK, command(t, nil, "migrate", "watch", "--addr", addrs[0]))
	if out != "no change runs\n" || stderr != "" {
		t.Errorf("%q, %q", out, stderr)
	}
	// The last member has nobody who could tell that it is gone.
	if out = clusterCmd(t, addrs[0], "drain", addrs[0]); out != addrs[0]+" has left the cluster\n" {
		t.Errorf("%q", out)
	}
	<-nodes[0].rest
	if err := nodes[0].cmd.Wait(); err != nil {
		t.Errorf("the last node ended with %v: %s", err, nodes[0].stderr.String())
	}
}

// Ctrl-C ends the following, not the change.
func TestClusterDetach(t *testing.T) {
	addrs, nodes := twoNodes(t)
	follow := command(t, nil, "cluster", "events", "-f", "--count", "0", "--addr", addrs[0])
	var events, said written
	follow.Stdout, follow.Stderr = &events, &said
	if err := follow.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "a pin is shown", func() bool {
		clusterCmd(t, addrs[1], "pin", "7", addrs[1])
		return strings.Contains(events.String(), "pins")
	})
	interrupt(t, follow)
	if strings.Contains(events.String(), "is a member now") {
		t.Errorf("earlier events are shown: %s", events.String())
	}
	// A stopped member keeps a change from ending.
	if err := nodes[1].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	looks := func() int { // how often somebody has asked node 0 for all members
		info := bulk(t, addrs[0], "INFO commandstats")
		_, rest, _ := strings.Cut(info, "cmdstat_ring|nodes:calls=")
		calls, _, _ := strings.Cut(rest, ",")
		n, _ := strconv.Atoi(calls) // 0 before the first
		return n
	}
	before := looks()
	drain := command(t, nil, "cluster", "drain", addrs[0], "--addr", addrs[0])
	var out, errOut written
	drain.Stdout, drain.Stderr = &out, &errOut
	if err := drain.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the node drains", func() bool { return strings.Contains(nodes[0].stderr.String(), "drain requested") })
	until(t, "the drain is followed", func() bool { return looks() >= before+2 }) // after the look at whom to drain
	interrupt(t, drain)
	contains(t, errOut.String(), "detached; the change goes on in the cluster")
	if err := nodes[1].cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	<-nodes[0].rest // it went on
	_ = nodes[0].cmd.Wait()
	nodes[1].stop(t, syscall.SIGTERM)
}

// The commands log in, and speak TLS, as `ringcache bench` does; a user needs the rights
// of an administrator.
func TestClusterAccess(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	writeCert(t, cert, key, "ring.test")
	addr := devAddr(freePorts(t, 1))
	node := start(t, command(t, []string{"RINGCACHE_PASSWORD=the right one"}, "serve", "--addr", addr, "--max-memory", "16mb", "--tls-cert", cert, "--tls-key", key))
	args := []string{"cluster", "status", "--addr", addr, "--tls", "--tls-ca", cert, "--tls-name", "ring.test"}
	out, _ := runTo(t, exitOK, command(t, []string{"RINGCACHE_PASSWORD=the right one"}, args...))
	contains(t, shape(out), "state ok\n")
	_, stderr := runTo(t, exitFailed, command(t, nil, args...))
	contains(t, stderr, "NOAUTH")
	_, stderr = runTo(t, exitFailed, command(t, nil, append(args, "--password", "wr0ng")...))
	contains(t, stderr, "authentication failed")
	if strings.Contains(stderr, "wr0ng") {
		t.Errorf("the password is printed: %s", stderr)
	}
	_, stderr = runTo(t, exitUsage, command(t, nil, "cluster", "status", "--addr", addr, "--tls-ca", cert))
	contains(t, stderr, "need --tls")
	_, stderr = runTo(t, exitUsage, command(t, nil, "cluster", "status", "--addr", "nowhere"))
	contains(t, stderr, "must be host:port")
	node.stop(t, syscall.SIGTERM)
}

// until polls in real time, for a minute.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("not so within a minute: " + what)
		}
	}
}

func interrupt(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

func TestBars(t *testing.T) {
	var b bytes.Buffer
	bars := newBars(&b)
	bars.show([]string{"x"})
	bars.clear()
	if b.Len() > 0 {
		t.Errorf("printed to what is no terminal: %q", b.String())
	}
	bars.terminal = true
	bars.show([]string{"one", "two"})
	bars.show([]string{"three"})
	bars.clear()
	if want := "one\ntwo\n\r\x1b[2A\x1b[Jthree\n\r\x1b[1A\x1b[J"; b.String() != want {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	var many []string
	for i := range maxBars + 3 {
		many = append(many, fmt.Sprint("line ", i))
	}
	bars.show(many)
	if n := strings.Count(b.String(), "\n"); n != maxBars+1 || !strings.Contains(b.String(), "and 3 more\n") {
		t.Errorf("%q", b.String())
	}
	for _, tc := range []struct {
		c    operate.Change
		want string
	}{
		{operate.Change{Kind: "open", Addr: "a:1", Slots: 10, Done: 5, Percent: 50, ETAMS: 2000}, "open a:1 [###############...............]  50.0% 5 of 10 slots, 2s left"},
		{operate.Change{Kind: "gain", Addr: "a:1", PeerAddr: "b:1", Slots: 4, Percent: 25, Keys: 100, Left: 300, Bytes: 2048, Rate: 50, ETAMS: 6000},
			"gain a:1 with b:1 [#######.......................]  25.0% 0 of 4 slots, 100 keys, 2.0kb, 50 keys/s, 6s left"},
		{operate.Change{Kind: "gain", Addr: "a:1", Slots: 4, Percent: 25, Paused: true, ETAMS: -1}, "gain a:1 [#######.......................]  25.0% 0 of 4 slots, paused"},
	} {
		if got := changeLines([]operate.Change{tc.c}); len(got) != 1 || got[0] != tc.want {
			t.Errorf("got  %q\nwant %q", got, tc.want)
		}
	}
	var out bytes.Buffer
	w := watcher{bars: newBars(&b), out: &out, tenths: map[string]int{}}
	for _, p := range []float64{0, 3, 9.9, 12, 15, 40} {
		if err := w.look([]operate.Change{{ID: "x-1", Kind: "open", Addr: "a:1", Percent: p, ETAMS: -1}}); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 3 || !strings.HasPrefix(out.String(), "x-1 open a:1 [") {
		t.Errorf("a line for 0, 12 and 40 per cent: %s", out.String())
	}
}
