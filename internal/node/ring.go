package node

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

const (
	defaultEvents = 32
	maxPlanned    = 100 // nodes that one plan adds
)

// ring answers RING. The replies are the values of package operate.
func (n *Node) ring(cmd *command.Command, args [][]byte, w *resp.Writer) {
	sub := subcommand(cmd, args, w)
	if sub == nil {
		return
	}
	switch sub.ID {
	case command.RingStatus:
		operate.Write(w, n.ringStatus())
	case command.RingNodes:
		operate.Write(w, n.ringNodes())
	case command.RingSlots:
		n.ringSlots(args[2:], w)
	case command.RingPlan:
		n.ringPlan(args[2:], w)
	case command.RingPins:
		operate.Write(w, n.ringPins())
	case command.RingEvents:
		n.ringEvents(args[2:], w)
	case command.RingChanges:
		operate.Write(w, n.ringChanges())
	case command.RingPin:
		n.ringPin(args[2], args[3], w)
	case command.RingUnpin:
		n.ringUnpin(args[2], w)
	case command.RingGroup:
		n.ringGroup(args[2:], w)
	case command.RingUngroup:
		n.ringUngroup(string(args[2]), w)
	case command.RingWeight:
		n.ringWeight(args[2], args[3], w)
	case command.RingDrain:
		n.passOn(args[2], w, "DRAIN")
	case command.RingMigrate:
		n.ringMigrate(args[2:], w)
	case command.RingHelp:
		help(w, sub.Parent.HelpLines())
	default:
		exec.UnknownSubcommand(w, sub.Parent, args[1])
	}
}

// member finds the member that an operator names: by its ID, by the beginning of
// one, or by its address.
func (n *Node) member(name string) (*topology.Member, error) {
	v := n.View()
	var found *topology.Member
	for i := range v.Len() {
		m := v.Member(i)
		if name == m.Addr() || name == clientAddr(m) {
			return m, nil
		}
		if name != "" && strings.HasPrefix(m.ID.String(), strings.ToLower(name)) {
			if found != nil {
				return nil, fmt.Errorf("%.40s is the beginning of several node IDs: give more of it", name)
			}
			found = m
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no member is called %.64s: give a node ID, the beginning of one, or host:port (RING NODES lists them)", name)
	}
	return found, nil
}

// slotList reads "5" or "5-9".
func slotList(text []byte) (first, last uint16, ok bool) {
	low, high, ranged := strings.Cut(string(text), "-")
	if !ranged {
		high = low
	}
	a, ok1 := resp.ParseInt([]byte(low))
	b, ok2 := resp.ParseInt([]byte(high))
	if !ok1 || !ok2 || !validSlot(a) || !validSlot(b) || a > b {
		return 0, 0, false
	}
	return uint16(a), uint16(b), true
}

func between(first, last uint16) (slots []uint16) {
	for s := int(first); s <= int(last); s++ {
		slots = append(slots, uint16(s))
	}
	return slots
}

const errSlotList = "ERR Invalid slot: give one, such as 5, or several, such as 5-9; the last is 16383"

func (n *Node) ringPin(slots, name []byte, w *resp.Writer) {
	first, last, ok := slotList(slots)
	if !ok {
		w.Error(errSlotList)
		return
	}
	m, err := n.member(string(name))
	if err != nil {
		w.Error("ERR " + err.Error())
		return
	}
	n.pin(between(first, last), []topology.NodeID{m.ID}, "")
	n.events.add(n.clock.millis(), "pins", m, fmt.Sprintf("slots %d-%d are pinned to it", first, last))
	n.log.Info("slots pinned by a client", "first", first, "last", last, "to", m.Addr())
	w.Simple("OK")
}

// ringUnpin answers with the number of slots that were pinned.
func (n *Node) ringUnpin(slots []byte, w *resp.Writer) {
	first, last, ok := slotList(slots)
	if !ok {
		w.Error(errSlotList)
		return
	}
	records, _ := n.pins.now()
	var were []uint16
	for _, s := range pinned(records, "") {
		if s >= first && s <= last {
			were = append(were, s)
		}
	}
	n.unpin(were, w)
}

func (n *Node) unpin(slots []uint16, w *resp.Writer) {
	if len(slots) > 0 {
		n.pin(slots, nil, "")
		n.events.add(n.clock.millis(), "pins", nil, fmt.Sprintf("%d slots are not pinned any more", len(slots)))
		n.log.Info("slots unpinned by a client", "slots", len(slots))
	}
	w.Int(int64(len(slots)))
}

// ringGroup answers GROUP <name> <node>[,<node>...] <tag> [<tag> ...] with the number
// of slots that the tags lie in. A group of that name that is there is replaced.
func (n *Node) ringGroup(args [][]byte, w *resp.Writer) {
	name := string(args[0])
	var nodes []topology.NodeID
	var faults []string
	for text := range strings.SplitSeq(string(args[1]), ",") {
		m, err := n.member(text)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		nodes = append(nodes, m.ID)
	}
	r := topology.PinRecord{Group: name, Nodes: nodes}
	if err := r.Validate(); err != nil {
		faults = append(faults, strings.TrimPrefix(err.Error(), "pin of slot 0: "))
	}
	if name == "" {
		faults = append(faults, "a group needs a name")
	}
	if len(faults) > 0 {
		w.Error("ERR " + strings.Join(faults, "; "))
		return
	}
	taken := map[uint16]bool{}
	var slots []uint16
	for _, tag := range args[2:] {
		if s := ring.Slot(tag); !taken[s] {
			taken[s] = true
			slots = append(slots, s)
		}
	}
	records, _ := n.pins.now()
	var gone []uint16
	for _, s := range pinned(records, name) {
		if !taken[s] {
			gone = append(gone, s)
		}
	}
	if len(gone) > 0 {
		n.pins.write(n.id, n.clock.millis(), gone, nil, "")
	}
	n.pin(slots, nodes, name)
	n.events.add(n.clock.millis(), "pins", nil, fmt.Sprintf("group %s: %d slots are pinned to %d nodes", name, len(slots), len(nodes)))
	n.log.Info("group of nodes set by a client", "group", name, "slots", len(slots), "nodes", len(nodes))
	w.Int(int64(len(slots)))
}

// ringUngroup answers with the number of slots that the group had.
func (n *Node) ringUngroup(name string, w *resp.Writer) {
	if name == "" {
		w.Error("ERR a group has a name")
		return
	}
	records, _ := n.pins.now()
	n.unpin(pinned(records, name), w)
}

// ringPins lists the pins with those who own the slots now.
func (n *Node) ringPins() []operate.Pin {
	records, _ := n.pins.now()
	v := n.View()
	out := []operate.Pin{}
	for i := range records {
		r := &records[i]
		if len(r.Nodes) == 0 {
			continue
		}
		p := operate.Pin{Slot: int(r.Slot), Group: r.Group, By: r.Writer.String(), AtMS: int64(r.Stamp)}
		for _, id := range r.Nodes {
			p.Nodes = append(p.Nodes, id.String())
		}
		if m := v.OwnerMember(r.Slot); m != nil {
			p.Owner = m.ID.String()
		}
		out = append(out, p)
	}
	return out
}

// ringEvents answers EVENTS [count | SINCE id].
func (n *Node) ringEvents(args [][]byte, w *resp.Writer) {
	since, count, ok := int64(0), int64(defaultEvents), true
	switch {
	case len(args) == 2 && isWord(args[0], "since"):
		since, ok = resp.ParseInt(args[1])
		count = maxEvents
	case len(args) == 1:
		count, ok = resp.ParseInt(args[0])
	case len(args) > 1:
		w.Error(errSyntax)
		return
	}
	if !ok || since < 0 || count < 0 {
		w.Error(errNotInteger)
		return
	}
	operate.Write(w, n.events.since(since, int(min(count, maxEvents))))
}

// ringWeight has a node set its weight.
func (n *Node) ringWeight(name, weight []byte, w *resp.Writer) {
	v, err := parseWeight(weight)
	if err != nil {
		w.Error("ERR " + err.Error())
		return
	}
	n.passOn(name, w, "WEIGHT", strconv.FormatFloat(v, 'g', -1, 64))
}

func parseWeight(text []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(v >= 0 && v <= topology.MaxWeight) {
		return 0, fmt.Errorf("weight %.20q must be 0 to %d", text, topology.MaxWeight)
	}
	return v, nil
}

// passOn lets a node do what concerns its own entry: only a node writes that.
func (n *Node) passOn(name []byte, w *resp.Writer, args ...string) {
	m, err := n.member(string(name))
	if err != nil {
		w.Error("ERR " + err.Error())
		return
	}
	if m.ID == n.id {
		var raw [][]byte
		for _, a := range append([]string{"RC.RING"}, args...) {
			raw = append(raw, []byte(a))
		}
		n.ringForPeer(raw, w)
		return
	}
	v, err := n.askMember(n.ctx, m, args...)
	if err != nil {
		w.Error(codeUnavailable + " the node at " + m.Addr() + " did not answer: " + err.Error())
		return
	}
	w.Value(v)
}
