package link

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// A table is cut into chunks, so that adopting one slot copies half a kilobyte.
const (
	chunkSlots = 256
	numChunks  = ring.Slots / chunkSlots
)

type chunk [chunkSlots]uint16 // index into nodes, ring.NoOwner if none

// Table says which node owns which slot, as far as this process knows. It is
// immutable.
type Table struct {
	chunks [numChunks]*chunk
	nodes  []*endpoint
	single bool

	spares  [numChunks]*chunk // who keeps copies of a slot: index into holders
	holders []*endpoint
}

// Owned is one run of slots with one owner, both ends included.
type Owned struct {
	First, Last uint16
	Addr        string // "host:port"
	Copy        string // of the node that keeps copies, "" if none is known
}

// Addr returns the address of the owner of slot, "" if none is known.
func (t *Table) Addr(slot uint16) string {
	if e := t.owner(slot); e != nil {
		return e.addr
	}
	return ""
}

// Nodes returns the addresses of all owners, sorted.
func (t *Table) Nodes() []string {
	list := make([]string, 0, len(t.nodes))
	for _, e := range t.nodes {
		list = append(list, e.addr)
	}
	slices.Sort(list)
	return list
}

// Single tells that the server has cluster support disabled: one node owns
// every slot, and a command may name keys of several slots.
func (t *Table) Single() bool { return t.single }

func (t *Table) owner(slot uint16) *endpoint {
	c := t.chunks[slot/chunkSlots]
	if c == nil {
		return nil
	}
	if i := c[slot%chunkSlots]; int(i) < len(t.nodes) {
		return t.nodes[i]
	}
	return nil
}

// with returns a table in which e owns slot.
func (t *Table) with(slot uint16, e *endpoint) *Table {
	next := *t
	i := slices.Index(t.nodes, e)
	if i < 0 {
		i = len(t.nodes)
		next.nodes = append(slices.Clip(t.nodes), e)
	}
	c := new(chunk)
	if old := t.chunks[slot/chunkSlots]; old != nil {
		*c = *old
	} else {
		clearChunk(c)
	}
	c[slot%chunkSlots] = uint16(i)
	next.chunks[slot/chunkSlots] = c
	return &next
}

func clearChunk(c *chunk) {
	for i := range c {
		c[i] = ring.NoOwner
	}
}

// newTable builds a table from runs; find gives the endpoint of an address.
func newTable(runs []Owned, single bool, find func(addr string) (*endpoint, error)) (*Table, error) {
	t := &Table{single: single}
	for i := range t.chunks {
		t.chunks[i], t.spares[i] = new(chunk), new(chunk)
		clearChunk(t.chunks[i])
		clearChunk(t.spares[i])
	}
	owners, holders := map[string]uint16{}, map[string]uint16{}
	enter := func(r Owned, addr string, index map[string]uint16, nodes *[]*endpoint, chunks *[numChunks]*chunk) error {
		i, ok := index[addr]
		if !ok {
			e, err := find(addr)
			if err != nil {
				return err
			}
			i = uint16(len(*nodes))
			index[addr] = i
			*nodes = append(*nodes, e)
		}
		for s := int(r.First); s <= int(r.Last); s++ {
			chunks[s/chunkSlots][s%chunkSlots] = i
		}
		return nil
	}
	for _, r := range runs {
		if err := enter(r, r.Addr, owners, &t.nodes, &t.chunks); err != nil {
			return nil, err
		}
		if r.Copy != "" && enter(r, r.Copy, holders, &t.holders, &t.spares) != nil {
			continue // no room for its link: there is no copy then
		}
	}
	return t, nil
}

// carry copies into t, which is not published yet, the owners that were adopted
// between old and now: the reply that made t may be older than they are.
func (t *Table) carry(old, now *Table) *Table {
	for i := range now.chunks {
		if old.chunks[i] == now.chunks[i] {
			continue
		}
		for s := range chunkSlots {
			slot := uint16(i*chunkSlots + s)
			if e := now.owner(slot); e != old.owner(slot) && e != nil && e != t.owner(slot) {
				t = t.with(slot, e)
			}
		}
	}
	return t
}

// parseSlots reads the reply to CLUSTER SLOTS. An empty or unknown host means
// the host that was asked.
func parseSlots(v resp.Value, asked string) ([]Owned, error) {
	bad := func(what string) error { return fmt.Errorf("%w: CLUSTER SLOTS: %s", errs.ErrProtocol, what) }
	if v.Kind != resp.Array {
		return nil, bad("the reply is a " + v.Kind.String())
	}
	if len(v.Elems) > ring.Slots {
		return nil, bad("more ranges than slots")
	}
	runs := make([]Owned, 0, len(v.Elems))
	for _, r := range v.Elems {
		if len(r.Elems) < 3 || len(r.Elems[2].Elems) < 2 {
			return nil, bad("a range lacks its node")
		}
		first, last, node := r.Elems[0].Int, r.Elems[1].Int, r.Elems[2]
		if first < 0 || last < first || last >= ring.Slots {
			return nil, bad(fmt.Sprintf("range %d-%d", first, last))
		}
		port := node.Elems[1].Int
		if port < 1 || port > 65535 {
			return nil, bad(fmt.Sprintf("port %d", port))
		}
		addr := joinHost(string(node.Elems[0].Str), strconv.FormatInt(port, 10), asked)
		run := Owned{First: uint16(first), Last: uint16(last), Addr: addr}
		if len(r.Elems) > 3 && len(r.Elems[3].Elems) > 1 {
			host, port := string(r.Elems[3].Elems[0].Str), r.Elems[3].Elems[1].Int
			if port >= 1 && port <= 65535 && host != "" && host != "?" {
				run.Copy = joinHost(host, strconv.FormatInt(port, 10), asked)
			}
		}
		runs = append(runs, run)
	}
	return runs, nil
}

// joinHost makes an address of a host and a port from a reply.
func joinHost(host, port, asked string) string {
	if host == "" || host == "?" {
		if h, _, err := net.SplitHostPort(asked); err == nil {
			host = h
		}
	}
	return net.JoinHostPort(host, port)
}

// parseRedirect reads "MOVED 3999 127.0.0.1:6381" or "ASK ...". IPv6 hosts come
// without brackets.
func parseRedirect(text, asked string) (slot uint16, addr string, ok bool) {
	f := strings.Fields(text)
	if len(f) < 3 {
		return 0, "", false
	}
	n, err := strconv.ParseUint(f[1], 10, 16)
	if err != nil || n >= ring.Slots {
		return 0, "", false
	}
	colon := strings.LastIndexByte(f[2], ':')
	if colon < 0 {
		return 0, "", false
	}
	host, port := strings.Trim(f[2][:colon], "[]"), f[2][colon+1:]
	if p, err := strconv.ParseUint(port, 10, 16); err != nil || p == 0 {
		return 0, "", false
	}
	return uint16(n), joinHost(host, port, asked), true
}
