package node

import (
	"cmp"
	"crypto/sha1"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// planned is a View as it would be.
type planned struct {
	change string
	exact  bool
	view   *topology.View
	weighs map[topology.NodeID]float64 // the weights that it changes
	added  map[topology.NodeID]bool
}

// ringPlan answers PLAN: it places the slots as the change would, and adds up what
// the owners hold of those that move.
func (n *Node) ringPlan(args [][]byte, w *resp.Writer) {
	v := n.View()
	p, err := n.planView(v, args)
	if err != nil {
		w.Error("ERR " + err.Error())
		return
	}
	operate.Write(w, n.plan(v, p))
}

// planView makes the View that a change gives: ADD [COUNT n] [WEIGHT w] [ADDR
// host:port ...], REMOVE node [node ...], WEIGHT node w [node w ...].
func (n *Node) planView(v *topology.View, args [][]byte) (*planned, error) {
	p := &planned{exact: true, added: map[topology.NodeID]bool{}, weighs: map[topology.NodeID]float64{}}
	members := slices.Clone(v.Members())
	var err error
	switch what := strings.ToUpper(string(args[0])); {
	case what == "ADD":
		members, err = n.planAdd(p, members, args[1:])
	case what == "REMOVE" && len(args) > 1:
		p.change = "remove"
		for _, name := range args[1:] {
			m, fault := n.member(string(name))
			if fault != nil {
				return nil, fault
			}
			members = slices.DeleteFunc(members, func(e topology.Member) bool { return e.ID == m.ID })
			p.change += " " + m.Addr()
		}
	case what == "WEIGHT" && len(args) > 2 && len(args)%2 == 1:
		p.change = "weight"
		for i := 1; i < len(args); i += 2 {
			m, fault := n.member(string(args[i]))
			weight, bad := parseWeight(args[i+1])
			if fault != nil || bad != nil {
				return nil, cmp.Or(fault, bad)
			}
			for j := range members {
				if members[j].ID == m.ID {
					members[j].Weight = weight
					if members[j].State == topology.Active { // the end of a change that is under way too
						members[j].Progress = 0
					}
				}
			}
			p.weighs[m.ID] = weight
			p.change += fmt.Sprintf(" %s %g", m.Addr(), weight)
		}
	default:
		return nil, errors.New("syntax error: PLAN ADD [COUNT n] [WEIGHT w] [ADDR host:port ...] | REMOVE node [node ...] | WEIGHT node w [node w ...]")
	}
	if err != nil {
		return nil, err
	}
	p.view, err = topology.NewView(n.o.Params, n.place, members, n.pinsOf(members))
	return p, err
}

// planAdd adds members. One whose address is given has the ID that it will have
// without a data directory, so that the plan is exact; others get one of their own.
func (n *Node) planAdd(p *planned, members []topology.Member, args [][]byte) ([]topology.Member, error) {
	count, weight := 0, 1.0
	var addrs []string
	for i := 0; i < len(args); i++ {
		word := strings.ToUpper(string(args[i]))
		if i+1 == len(args) {
			return nil, fmt.Errorf("syntax error: %s without a value", word)
		}
		i++
		switch word {
		case "COUNT":
			v, ok := resp.ParseInt(args[i])
			if !ok || v < 1 || v > maxPlanned {
				return nil, fmt.Errorf("count %.20q must be 1 to %d", args[i], maxPlanned)
			}
			count = int(v)
		case "WEIGHT":
			var err error
			if weight, err = parseWeight(args[i]); err != nil {
				return nil, err
			}
		case "ADDR":
			addrs = append(addrs, string(args[i]))
		default:
			return nil, fmt.Errorf("syntax error: %.32s", word)
		}
	}
	count = max(count, len(addrs), 1)
	if len(addrs) > maxPlanned {
		return nil, fmt.Errorf("%d addresses, limit %d", len(addrs), maxPlanned)
	}
	p.exact = len(addrs) == count
	p.change = fmt.Sprintf("add %d of weight %g", count, weight)
	for i := range count {
		m := topology.Member{State: topology.Active, Weight: weight, Host: "new-" + strconv.Itoa(i+1), Boot: 1, Sequence: 1,
			ID: topology.NodeID(sha1.Sum(fmt.Appendf(nil, "%s\x00planned\x00%d", n.o.Cluster, i)))}
		if i < len(addrs) {
			host, port, err := net.SplitHostPort(addrs[i])
			number, bad := strconv.ParseUint(port, 10, 16)
			if err != nil || bad != nil || number == 0 {
				return nil, fmt.Errorf("address %.64q is not host:port", addrs[i])
			}
			m.Host, m.Port = host, uint16(number)
			if slices.ContainsFunc(members, func(e topology.Member) bool { return e.Addr() == m.Addr() }) {
				return nil, fmt.Errorf("%.64s is a member already, or is given twice", addrs[i])
			}
			m.ID = derivedID(n.o.Cluster, host, m.Port)
			p.change += " " + addrs[i]
		}
		p.added[m.ID] = true
		members = append(members, m)
	}
	return members, nil
}

// plan compares the View with the planned one.
func (n *Node) plan(v *topology.View, p *planned) operate.Plan {
	all := n.slotsOfAll(v)
	nodes := n.ringNodes()
	out := operate.Plan{Change: p.change, Exact: p.exact, Moves: []operate.Move{}, Warnings: []string{}, Notes: planNotes(p, nodes)}
	flows := map[[2]topology.NodeID]*operate.Move{}
	moving := map[topology.NodeID]int64{} // keys that leave an owner
	var keys int64
	for _, c := range all.counts {
		keys += c.keys
	}
	for _, m := range topology.Diff(v, p.view).Moves {
		pair := [2]topology.NodeID{m.From, m.To}
		f := flows[pair]
		if f == nil {
			f = &operate.Move{From: idText(m.From), To: idText(m.To), FromAddr: addrIn(v, m.From), ToAddr: addrIn(p.view, m.To)}
			flows[pair] = f
		}
		for s := int(m.First); s <= int(m.Last); s++ {
			c := all.counts[s]
			f.Slots++
			f.Keys += c.keys
			f.Bytes += c.bytes
			moving[m.From] += c.keys
		}
	}
	for _, pair := range slices.SortedFunc(maps.Keys(flows), func(a, b [2]topology.NodeID) int {
		return cmp.Or(a[0].Compare(b[0]), a[1].Compare(b[1]))
	}) {
		f := flows[pair]
		out.Moves = append(out.Moves, *f)
		out.Slots += f.Slots
		out.Keys += f.Keys
		out.Bytes += f.Bytes
	}
	if keys > 0 {
		out.Share = float64(out.Keys) / float64(keys)
	}
	n.planNodes(&out, v, p, all, nodes)
	planTime(&out, nodes)
	planOrigin(&out, nodes, moving)
	for _, addr := range all.lacking {
		out.Warnings = append(out.Warnings, addr+" does not answer: what it holds is not counted")
	}
	if p.view.Owned() == 0 {
		out.Warnings = append(out.Warnings, "nobody would own any slot")
	}
	return out
}

// planNotes says where the weights come from that are not as configured, and how long
// the planned ones last.
func planNotes(p *planned, nodes []operate.Node) []string {
	notes := []string{}
	for i := range nodes {
		e := &nodes[i]
		id, err := topology.ParseNodeID(e.ID)
		weight, planned := p.weighs[id]
		f := &e.Figures
		note := weightNote(e)
		switch {
		case err != nil || !e.Answers || f.WeightOrigin == "":
			continue
		case !planned:
		case weight == f.WeightConfigured:
			note = fmt.Sprintf("%s gets the weight of its configuration, %g", e.Addr, weight)
		case f.WeightKeeps:
			note = fmt.Sprintf("%s has the weight of its configuration, %g, at the moment; %g is kept in its data directory, until its configuration says something else", e.Addr, f.WeightConfigured, weight)
			if f.WeightOrigin != operate.WeightConfigured {
				note = fmt.Sprintf("%s; %g takes its place", weightNote(e), weight)
			}
		default:
			note = fmt.Sprintf("%s has no data directory: it has %g until it restarts, then the weight of its configuration, %g", e.Addr, weight, f.WeightConfigured)
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	return notes
}

func idText(id topology.NodeID) string {
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// addrIn is the address of a member of a View; a planned one may have none.
func addrIn(v *topology.View, id topology.NodeID) string {
	i, ok := v.Index(id)
	switch {
	case !ok:
		return ""
	case v.Member(i).Port == 0:
		return v.Member(i).Host
	}
	return v.Member(i).Addr()
}

// planNodes adds the members before and after, and warns of those whose memory
// would not hold what comes.
func (n *Node) planNodes(out *operate.Plan, v *topology.View, p *planned, all *allSlots, nodes []operate.Node) {
	limits := map[string]int64{}
	for i := range nodes {
		limits[nodes[i].ID] = nodes[i].Figures.MemoryLimit
	}
	ids := map[topology.NodeID]bool{}
	for _, view := range []*topology.View{v, p.view} {
		for i := range view.Len() {
			ids[view.Member(i).ID] = true
		}
	}
	sums := func(view *topology.View, id topology.NodeID) (slots int, keys, bytes int64) {
		i, ok := view.Index(id)
		if !ok {
			return 0, 0, 0
		}
		for s := range uint16(ring.Slots) {
			if view.Owner(s) == i {
				slots++
				keys += all.counts[s].keys
				bytes += all.counts[s].bytes
			}
		}
		return slots, keys, bytes
	}
	for _, id := range slices.SortedFunc(maps.Keys(ids), topology.NodeID.Compare) {
		e := operate.PlanNode{ID: id.String(), Addr: addrIn(p.view, id), MemoryLimit: limits[id.String()]}
		if e.Addr == "" {
			e.Addr = addrIn(v, id)
		}
		e.SlotsBefore, e.KeysBefore, e.BytesBefore = sums(v, id)
		e.SlotsAfter, e.KeysAfter, e.BytesAfter = sums(p.view, id)
		if e.MemoryLimit > 0 && e.BytesAfter > e.MemoryLimit && e.BytesAfter > e.BytesBefore {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s would get %d bytes with a limit of %d: it would evict", e.Addr, e.BytesAfter, e.MemoryLimit))
		}
		out.Nodes = append(out.Nodes, e)
	}
}

// planTime is how long the transfers take: each taker draws from each source at the
// rates in force, so the longest pair decides.
func planTime(out *operate.Plan, nodes []operate.Node) {
	for i := range nodes {
		if f := &nodes[i].Figures; nodes[i].Answers && f.Transfers {
			out.KeysLimit, out.BytesLimit = f.KeysLimit, f.BytesLimit
			if f.Paused {
				out.Warnings = append(out.Warnings, nodes[i].Addr+" has paused its migrations")
			}
		}
	}
	var seconds float64
	for i := range out.Moves {
		m := &out.Moves[i]
		if m.From == "" || m.To == "" {
			continue
		}
		if out.KeysLimit > 0 {
			seconds = max(seconds, float64(m.Keys)/out.KeysLimit)
		}
		if out.BytesLimit > 0 {
			seconds = max(seconds, float64(m.Bytes)/out.BytesLimit)
		}
	}
	out.DurationMS = int64(seconds * 1000)
}

// planOrigin estimates the misses: reads are spread over a node's keys as their
// number is, since hits are not counted for each slot.
func planOrigin(out *operate.Plan, nodes []operate.Node, moving map[topology.NodeID]int64) {
	o := &out.Origin
	follows := false
	for i := range nodes {
		f := &nodes[i].Figures
		follows = follows || f.Transfers
		o.HitsPerSecond += f.HitsPerSecond
		o.Now += f.MissesPerSecond
		id, err := topology.ParseNodeID(nodes[i].ID)
		if keys := moving[id]; err == nil && f.Keys > 0 {
			o.Moving += f.HitsPerSecond * min(float64(keys)/float64(f.Keys), 1)
		}
	}
	o.Worst = o.Now + o.Moving
	o.Expected = o.Worst
	if follows {
		o.Expected = o.Now
	}
}
