package node

import (
	"net"
	"strconv"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/exec"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

const (
	errNotInteger = "ERR value is not an integer or out of range"
	maxKeysInSlot = 1 << 20 // GETKEYSINSLOT answers at most so many keys

	placedByRing = "ERR slots are placed by the ring, not by commands: start a node with this one among its seeds to add it, " +
		"drain it (SIGTERM) to remove it, set weights to shift load"
)

// refusals answer the subcommands that change what the ring decides.
var refusals = map[command.ID]string{
	command.ClusterAddSlots:            placedByRing,
	command.ClusterAddSlotsRange:       placedByRing,
	command.ClusterDelSlots:            placedByRing,
	command.ClusterDelSlotsRange:       placedByRing,
	command.ClusterSetSlot:             placedByRing,
	command.ClusterFlushSlots:          placedByRing,
	command.ClusterFailover:            "ERR nobody is promoted by command: when a node dies, the ring gives its slots to others by itself, with their copies if there are any",
	command.ClusterReplicate:           "ERR every node is an owner: start a node with this one among its seeds to add it",
	command.ClusterForget:              "ERR members are forgotten by themselves: drain the node (SIGTERM); a dead one is out within seconds",
	command.ClusterReset:               "ERR a node cannot be reset: stop it, remove its data directory and start it again",
	command.ClusterBumpEpoch:           "ERR epochs follow the members and cannot be set",
	command.ClusterSetConfigEpoch:      "ERR epochs follow the members and cannot be set",
	command.ClusterSaveConfig:          "ERR there is no cluster file: the members tell each other",
	command.ClusterCountFailureReports: "ERR failures are detected by gossip, without reports per node",
}

var clusterHelp = []string{
	"CLUSTER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"COUNTKEYSINSLOT <slot>", "    Return the number of keys in <slot>.",
	"GETKEYSINSLOT <slot> <count>", "    Return key names stored by current node in a slot.",
	"INFO", "    Return information about the cluster.",
	"KEYSLOT <key>", "    Return the hash slot for <key>.",
	"LINKS", "    Return information about all network links between this node and its peers.",
	"MEET <ip> <port> [<bus-port>]", "    Connect nodes into a working cluster.",
	"MYID", "    Return the node id.",
	"MYSHARDID", "    Return the node's shard id.",
	"NODES", "    Return cluster configuration seen by node.",
	"REPLICAS <node-id>", "    Return <node-id> replicas.",
	"SLOT-STATS SLOTSRANGE <start-slot> <end-slot>", "    Return the keys and bytes of slots that this node owns, and with cluster-slot-stats-enabled the time and traffic of their commands.",
	"SLOT-STATS ORDERBY <metric> [LIMIT <limit>] [ASC | DESC]", "    Return the slots with most or least of key-count, memory-bytes, cpu-usec, network-bytes-in or network-bytes-out.",
	"SLOTS", "    Return information about slots range mappings.",
	"SHARDS", "    Return information about slot range mappings and the nodes associated with them.",
	"HELP", "    Print this help.",
}

// subcommand resolves the subcommand of a container; nil after it has answered
// that there is none or that the number of arguments is wrong.
func subcommand(cmd *command.Command, args [][]byte, w *resp.Writer) *command.Command {
	if cmd.Parent != nil {
		return cmd
	}
	if len(args) < 2 {
		exec.WrongArity(w, cmd.FullName())
		return nil
	}
	sub := cmd.Sub(args[1])
	switch {
	case sub == nil:
		exec.UnknownSubcommand(w, cmd, args[1])
		return nil
	case !sub.ArityOK(len(args)):
		exec.WrongArity(w, sub.FullName())
		return nil
	}
	return sub
}

// cluster answers CLUSTER.
func (n *Node) cluster(s Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	sub := subcommand(cmd, args, w)
	if sub == nil {
		return
	}
	if text, ok := refusals[sub.ID]; ok {
		w.Error(text)
		return
	}
	p := n.pub.Load()
	switch sub.ID {
	case command.ClusterSlots:
		kind := replySlots
		if s != nil && s.ReadOnly() && p.replicas > 0 {
			kind = replyCopies
		}
		w.Raw(p.reply(kind, w.Proto))
	case command.ClusterShards:
		w.Raw(p.reply(replyShards, w.Proto))
	case command.ClusterNodes:
		w.Raw(p.reply(replyNodes, w.Proto))
	case command.ClusterInfo:
		w.Verbatim("txt", n.ClusterInfo())
	case command.ClusterMyID, command.ClusterMyShardID:
		w.BulkString(n.id.String())
	case command.ClusterKeySlot:
		w.Int(int64(ring.Slot(args[2])))
	case command.ClusterCountKeysInSlot:
		n.countKeysInSlot(args, w)
	case command.ClusterGetKeysInSlot:
		n.keysInSlot(args, w)
	case command.ClusterSlotStats:
		n.slotStats(args, w)
	case command.ClusterMeet:
		n.meetCommand(args, w)
	case command.ClusterLinks:
		n.links(p, w)
	case command.ClusterReplicas, command.ClusterSlaves:
		replicas(p, args[2], w)
	case command.ClusterHelp:
		help(w, clusterHelp)
	default:
		exec.UnknownSubcommand(w, sub.Parent, args[1])
	}
}

func help(w *resp.Writer, lines []string) {
	w.Array(len(lines))
	for _, l := range lines {
		w.Simple(l)
	}
}

func validSlot(v int64) bool { return v >= 0 && v < ring.Slots }

func (n *Node) countKeysInSlot(args [][]byte, w *resp.Writer) {
	slot, ok := resp.ParseInt(args[2])
	switch {
	case !ok:
		w.Error(errNotInteger)
	case !validSlot(slot):
		w.Error("ERR Invalid slot")
	default:
		keys := int64(0)
		if n.eng.Serving(uint16(slot)) { // else they are kept for another node, which counts them
			keys = n.eng.SlotStats(uint16(slot)).Keys
		}
		w.Int(keys)
	}
}

func (n *Node) keysInSlot(args [][]byte, w *resp.Writer) {
	number, ok := resp.ParseInt(args[2])
	count, isInt := resp.ParseInt(args[3])
	if !ok || !isInt {
		w.Error(errNotInteger)
		return
	}
	if !validSlot(number) || count < 0 {
		w.Error("ERR Invalid slot or number of keys")
		return
	}
	mark, found := len(w.Buf), 0
	if !n.eng.Serving(uint16(number)) { // see countKeysInSlot
		count = 0
	}
	n.eng.KeysInSlot(uint16(number), int(min(count, maxKeysInSlot)), func(key []byte) {
		if !w.Over(mark) {
			w.Bulk(key)
			found++
		}
	})
	if exec.TooLong(w, mark) {
		return
	}
	var room [16]byte
	head := resp.Writer{Buf: room[:0], Proto: w.Proto}
	head.Array(found)
	w.Insert(mark, head.Buf)
}

// meetCommand contacts the node at an address in the background, as Redis does.
func (n *Node) meetCommand(args [][]byte, w *resp.Writer) {
	host, port := string(args[2]), string(args[3])
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number == 0 || host == "" || len(host) > topology.MaxHost {
		w.Error("ERR Invalid node address specified: " + host + ":" + port)
		return
	}
	if n.membership() == nil {
		w.Error("ERR this node stands alone: it has no cluster to meet others in")
		return
	}
	n.meet(net.JoinHostPort(host, port))
	w.Simple("OK")
}

// links lists the links that this node keeps to its peers.
func (n *Node) links(p *published, w *resp.Writer) {
	var to []string
	if n.peers != nil {
		for _, addr := range n.peers.Addrs() {
			for i := range p.view.Len() {
				if m := p.view.Member(i); m.Addr() == addr && m.ID != p.self {
					to = append(to, m.ID.String())
				}
			}
		}
	}
	w.Array(len(to))
	for _, id := range to {
		w.Map(6)
		w.BulkString("direction")
		w.BulkString("to")
		w.BulkString("node")
		w.BulkString(id)
		w.BulkString("create-time")
		w.Int(n.started.UnixMilli())
		w.BulkString("events")
		w.BulkString("rw")
		w.BulkString("send-buffer-allocated")
		w.Int(0)
		w.BulkString("send-buffer-used")
		w.Int(0)
	}
}

// replicas answers that a known node has none.
func replicas(p *published, id []byte, w *resp.Writer) {
	node, err := topology.ParseNodeID(string(id))
	if _, known := p.view.Index(node); err != nil || !known {
		w.Error("ERR Unknown node " + string(id[:min(len(id), 64)]))
		return
	}
	w.Array(0)
}
