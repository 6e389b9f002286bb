package link

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// act is what a script lets a fake node do instead of answering.
type act struct {
	reply string        // raw bytes
	delay time.Duration // before the reply; later commands wait behind it
	hang  bool          // never answer anything on this connection again
	close bool          // close the connection
	split bool          // send the reply byte by byte
}

// fakeNode is a scriptable server with a map of strings.
type fakeNode struct {
	addr string
	ln   net.Listener
	wg   sync.WaitGroup

	mu     sync.Mutex
	script func(args []string) *act // nil result: answer normally
	owners func(slot uint16) string // nil: cluster support disabled
	spares func(slot uint16) string // who keeps copies; nil: nobody
	copies map[string]string        // that this node keeps
	takes  map[net.Conn]bool        // connections with READONLY
	taking bool                     // that of the present command
	resp2  bool                     // has no HELLO
	data   map[string]string
	seen   map[string]int // commands by upper-case name
	log    []string       // data commands in order of arrival
	conns  map[net.Conn]bool
	accept int
	down   chan struct{}
}

// fakeCluster is some fake nodes on one memory network.
type fakeCluster struct {
	t     *testing.T
	net   *memNet
	nodes []*fakeNode
}

// newFakeCluster starts nodes n1:1, n2:1 ... that own equal shares of the slots.
func newFakeCluster(t *testing.T, n int) *fakeCluster {
	c := &fakeCluster{t: t, net: newMemNet()}
	for i := range n {
		c.nodes = append(c.nodes, startFake(fmt.Sprintf("n%d:1", i+1), c.net.listen(fmt.Sprintf("n%d:1", i+1))))
	}
	for _, node := range c.nodes {
		node.set(func() { node.owners = c.even })
	}
	return c
}

func (c *fakeCluster) even(slot uint16) string {
	return c.nodes[int(slot)*len(c.nodes)/ring.Slots].addr
}

func (c *fakeCluster) close() {
	for _, n := range c.nodes {
		n.stop()
	}
}

// router makes a router over the cluster; change edits the options.
func (c *fakeCluster) router(change func(*RouterOptions)) *Router {
	c.t.Helper()
	o := RouterOptions{Seeds: []string{c.nodes[0].addr}, RefreshEvery: -1}
	o.Link.Dialer = c.net.dial
	if change != nil {
		change(&o)
	}
	r, err := NewRouter(o)
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

func startFake(addr string, ln net.Listener) *fakeNode {
	n := &fakeNode{addr: addr, ln: ln, data: map[string]string{}, seen: map[string]int{},
		conns: map[net.Conn]bool{}, down: make(chan struct{})}
	n.wg.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			n.mu.Lock()
			n.conns[nc] = true
			n.accept++
			n.mu.Unlock()
			n.wg.Go(func() { n.serve(nc) })
		}
	})
	return n
}

func (n *fakeNode) stop() {
	n.mu.Lock()
	select {
	case <-n.down:
		n.mu.Unlock()
		return
	default:
	}
	close(n.down)
	n.mu.Unlock()
	n.ln.Close()
	n.cut()
	n.wg.Wait()
}

// cut closes every connection.
func (n *fakeNode) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for nc := range n.conns {
		nc.Close()
	}
	clear(n.conns)
}

func (n *fakeNode) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// count returns how many commands of a name arrived.
func (n *fakeNode) count(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[name]
}

func (n *fakeNode) accepted() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.accept
}

func (n *fakeNode) serve(nc net.Conn) {
	defer nc.Close()
	var p resp.Parser
	lim := resp.DefaultLimits(16 << 20)
	w := resp.Writer{Proto: 2}
	buf, chunk := []byte(nil), make([]byte, 64<<10)
	asking := false
	for {
		m, err := nc.Read(chunk)
		if err != nil {
			return
		}
		buf = append(buf, chunk[:m]...)
		for {
			args, used, err := p.Next(buf, &lim)
			if err != nil {
				return
			}
			if used == 0 {
				break
			}
			words := make([]string, len(args))
			for i, a := range args {
				words[i] = string(a)
			}
			buf = buf[used:]
			if !n.answer(nc, &w, words, &asking) {
				return
			}
		}
	}
}

// answer runs one command; false ends the session.
func (n *fakeNode) answer(nc net.Conn, w *resp.Writer, args []string, asking *bool) bool {
	name := strings.ToUpper(args[0])
	n.mu.Lock()
	n.seen[name]++
	switch name {
	case "READONLY", "READWRITE":
		if n.takes == nil {
			n.takes = map[net.Conn]bool{}
		}
		n.takes[nc] = name == "READONLY"
	}
	n.taking = n.takes[nc]
	if name != "HELLO" && name != "CLUSTER" && name != "READONLY" && name != "READWRITE" {
		n.log = append(n.log, strings.Join(args, " "))
	}
	var a *act
	if n.script != nil {
		a = n.script(args)
	}
	if a == nil {
		w.Buf = w.Buf[:0]
		n.execute(w, name, args, *asking)
		a = &act{reply: string(w.Buf)}
	}
	n.mu.Unlock()
	*asking = name == "ASKING"
	if a.delay > 0 {
		t := time.NewTimer(a.delay)
		select {
		case <-t.C:
		case <-n.down:
			t.Stop()
			return false
		}
	}
	switch {
	case a.close:
		return false
	case a.hang:
		drain := make([]byte, 1024)
		for {
			if _, err := nc.Read(drain); err != nil {
				return false
			}
		}
	case a.split:
		for i := range len(a.reply) {
			if _, err := nc.Write([]byte{a.reply[i]}); err != nil {
				return false
			}
		}
		return true
	}
	_, err := nc.Write([]byte(a.reply))
	return err == nil
}

// execute answers like a Redis Cluster node. The caller holds mu.
func (n *fakeNode) execute(w *resp.Writer, name string, args []string, asking bool) {
	switch name {
	case "HELLO":
		if n.resp2 {
			w.Error("ERR unknown command 'HELLO', with args beginning with: ")
			return
		}
		w.Proto = 3
		w.Map(2)
		w.BulkString("server")
		w.BulkString("fake")
		w.BulkString("proto")
		w.Int(3)
	case "CLUSTER":
		n.slots(w)
	case "ASKING", "CLIENT", "AUTH", "PING", "READONLY", "READWRITE":
		w.Simple("OK")
	case "GET", "SET", "DEL", "MGET", "INCRBY":
		slot := ring.SlotString(args[1])
		if v, ok := n.copies[args[1]]; ok && n.taking && name == "GET" {
			w.BulkString(v)
			return
		}
		if n.owners != nil && n.owners(slot) != n.addr && !asking {
			w.Error(fmt.Sprintf("MOVED %d %s", slot, n.owners(slot)))
			return
		}
		n.executeKeyed(w, name, args)
	default:
		w.Error("ERR unknown command '" + name + "'")
	}
}

func (n *fakeNode) executeKeyed(w *resp.Writer, name string, args []string) {
	value := func(k string) {
		if v, ok := n.data[k]; ok {
			w.BulkString(v)
		} else {
			w.Null()
		}
	}
	switch name {
	case "GET":
		value(args[1])
	case "MGET":
		w.Array(len(args) - 1)
		for _, k := range args[1:] {
			value(k)
		}
	case "SET":
		n.data[args[1]] = args[2]
		w.Simple("OK")
	case "DEL":
		found := 0
		for _, k := range args[1:] {
			if _, ok := n.data[k]; ok {
				found++
				delete(n.data, k)
			}
		}
		w.Int(int64(found))
	case "INCRBY":
		v, _ := strconv.ParseInt(n.data[args[1]], 10, 64)
		d, _ := strconv.ParseInt(args[2], 10, 64)
		n.data[args[1]] = strconv.FormatInt(v+d, 10)
		w.Int(v + d)
	}
}

// slots answers CLUSTER SLOTS from the owners function.
func (n *fakeNode) slots(w *resp.Writer) {
	if n.owners == nil {
		w.Error("ERR This instance has cluster support disabled")
		return
	}
	type run struct {
		first, last int
		addr, spare string
	}
	var runs []run
	for s := range ring.Slots {
		a, spare := n.owners(uint16(s)), ""
		if n.spares != nil && n.taking {
			spare = n.spares(uint16(s))
		}
		if k := len(runs) - 1; k >= 0 && runs[k].addr == a && runs[k].spare == spare {
			runs[k].last = s
		} else if a != "" {
			runs = append(runs, run{s, s, a, spare})
		}
	}
	w.Array(len(runs))
	for _, r := range runs {
		nodes := []string{r.addr}
		if r.spare != "" {
			nodes = append(nodes, r.spare)
		}
		w.Array(2 + len(nodes))
		w.Int(int64(r.first))
		w.Int(int64(r.last))
		for _, addr := range nodes {
			host, port, _ := net.SplitHostPort(addr)
			p, _ := strconv.Atoi(port)
			w.Array(3)
			w.BulkString(host)
			w.Int(int64(p))
			w.BulkString("id")
		}
	}
}

// encode encodes a command from words.
func encode(args ...string) []byte { return resp.AppendCommandStrings(nil, args...) }

// keyOf returns a key whose slot satisfies want.
func keyOf(want func(slot uint16) bool) string {
	for i := 0; ; i++ {
		if k := "key" + strconv.Itoa(i); want(ring.SlotString(k)) {
			return k
		}
	}
}

// on returns a key that the named node owns by the even table.
func (c *fakeCluster) on(node int) string {
	return keyOf(func(s uint16) bool { return c.even(s) == c.nodes[node].addr })
}

// words turns a function over command words into a byte request for Router.Do.
func words(args ...string) [][]byte {
	out := make([][]byte, len(args))
	for i, a := range args {
		out[i] = []byte(a)
	}
	return out
}

// logged tells whether a node saw a data command.
func (n *fakeNode) logged(line string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.log, line)
}
