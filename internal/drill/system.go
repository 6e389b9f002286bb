package drill

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ringcache/ringcache/internal/child"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
)

// system is what a drill runs against: a set of real processes. What changes it is
// called from one goroutine; the questions may be asked from others meanwhile.
type system interface {
	// start starts n nodes and returns when all slots are served.
	start(ctx context.Context, n int) error
	// open makes a client of the system as it is.
	open(ctx context.Context) (Driver, error)
	// nodes returns the nodes that run, in the order in which they were started.
	nodes() []*node
	// join adds a node, leave removes one in good order; both return when the
	// system has been told, which may be before it has settled.
	join(ctx context.Context) (*node, error)
	leave(ctx context.Context, n *node) error
	// kill ends a process with SIGKILL; restart starts a process for the same
	// node again: at the same address, or at a new one.
	kill(n *node)
	ended(n *node) // its process has been stopped otherwise
	restart(ctx context.Context, n *node, elsewhere bool) (*node, error)
	// settled says why the system does not serve all slots by the nodes that
	// run, all of which agree; nil when it does.
	settled(ctx context.Context) error
	// owners returns the owners of all slots in their order; nil: no slots.
	owners(ctx context.Context) ([]owned, error)
	// deaths counts how often a node took another one for dead.
	deaths() int
	close()
}

// node is one server of a system; it never changes. A restart makes a new one.
type node struct {
	addr  string // what clients are told
	dir   string // its own directory
	proc  *child.Process
	front *front // nil without a faulty network
	id    string // of a Redis node
}

func (n *node) pause()  { n.proc.Signal(syscall.SIGSTOP) }
func (n *node) resume() { n.proc.Signal(syscall.SIGCONT) }

// fleet is what the systems have in common: directories, processes, and a way to ask nodes.
type fleet struct {
	o    *Options
	root string // directory of this system
	ask  *link.Router
	// children are the processes of list, and those on their way into it.
	children child.Group

	mu   sync.Mutex
	list []*node
	dead int // deaths that processes noticed which have ended
}

const (
	askTimeout = time.Second
	askEvery   = 100 * time.Millisecond // between questions that cost the nodes of the cluster time
)

func newFleet(o *Options) (*fleet, error) {
	root, err := os.MkdirTemp("", "ringcache-drill")
	if err != nil {
		return nil, err
	}
	ask, err := link.NewRouter(link.RouterOptions{Manual: true, Timeout: askTimeout, NoRetry: true})
	if err != nil {
		return nil, err
	}
	return &fleet{o: o, root: root, ask: ask}, nil
}

func (f *fleet) nodes() []*node {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

func (f *fleet) addrs() []string {
	var out []string
	for _, n := range f.nodes() {
		out = append(out, n.addr)
	}
	return out
}

func (f *fleet) add(n *node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, n)
}

// ended takes a node off the list whose process has ended.
func (f *fleet) ended(n *node) {
	if n.front != nil {
		n.front.lower()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dead += n.proc.Counted()
	f.list = slices.DeleteFunc(f.list, func(o *node) bool { return o == n })
}

func (f *fleet) kill(n *node) {
	n.proc.Kill()
	f.ended(n)
}

func (f *fleet) deaths() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	sum := f.dead
	for _, n := range f.list {
		sum += n.proc.Counted()
	}
	return sum
}

func (f *fleet) directory(name string) (string, error) {
	dir := filepath.Join(f.root, name)
	return dir, os.MkdirAll(dir, 0o700)
}

// run starts a process of this system. It counts the peers that it takes for dead.
func (f *fleet) run(ctx context.Context, addr, dir string, started func(pid int) error, binary string, args ...string) (*child.Process, error) {
	return f.children.Start(ctx, child.Spec{Binary: binary, Args: args, Addr: addr, Dir: dir, Started: started, Count: deadLine})
}

// deadLine is what a node logs when it takes a peer for dead.
const deadLine = "peer is dead"

// close ends all processes and removes what they left.
func (f *fleet) close() {
	f.children.Close()
	_ = f.ask.Close()
	_ = os.RemoveAll(f.root)
}

// command asks the process of a node itself, past any cut.
func (f *fleet) command(ctx context.Context, n *node, args ...string) (resp.Value, error) {
	v, err := f.ask.DoNode(ctx, n.proc.Addr, resp.AppendCommandStrings(nil, args...))
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		return v, fmt.Errorf("%s of %s: %w", args[0], n.addr, err)
	}
	return v, nil
}

// owned is a run of slots with one owner.
type owned struct {
	first, last int
	owner       string
}

// slotTable reads CLUSTER SLOTS of a node: who owns which slots, in their order, and
// how many owners there are.
func (f *fleet) slotTable(ctx context.Context, n *node) (table []owned, owners int, err error) {
	v, err := f.command(ctx, n, "CLUSTER", "SLOTS")
	if err != nil {
		return nil, 0, err
	}
	names := map[string]bool{}
	for _, r := range v.Elems {
		if len(r.Elems) < 3 || len(r.Elems[2].Elems) < 2 {
			return nil, 0, fmt.Errorf("%s: malformed CLUSTER SLOTS", n.addr)
		}
		owner := r.Elems[2].Elems[0].Text() + ":" + r.Elems[2].Elems[1].Text()
		names[owner] = true
		table = append(table, owned{int(r.Elems[0].Int), int(r.Elems[1].Int), owner})
	}
	slices.SortFunc(table, func(a, b owned) int { return a.first - b.first })
	return table, len(names), nil
}

// agree says why not all nodes show the same owners, as many as given, of all slots.
func (f *fleet) agree(ctx context.Context, nodes []*node, owners int) error {
	var first []owned
	runs := map[string]bool{}
	for _, n := range nodes {
		runs[n.addr] = true
	}
	for _, n := range nodes {
		table, count, err := f.slotTable(ctx, n)
		if err != nil {
			return err
		}
		shown := 0
		for _, o := range table {
			shown += o.last - o.first + 1
			if !runs[o.owner] {
				return fmt.Errorf("slot %d: %s says %s, which does not run", o.first, n.addr, o.owner)
			}
		}
		switch {
		case count != owners || shown != slots:
			return fmt.Errorf("%s shows %d slots on %d nodes, %d run", n.addr, shown, count, owners)
		case first == nil:
			first = table
		case !slices.Equal(first, table):
			return fmt.Errorf("%s and %s show different owners", nodes[0].addr, n.addr)
		}
	}
	return nil
}

// fields returns the lines name:value of an INFO reply.
func fields(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			out[name] = value
		}
	}
	return out
}
