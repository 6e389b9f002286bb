package node

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/latency"
	"github.com/ringcache/ringcache/internal/resp"
)

// defaultEntries is how many entries SLOWLOG GET gives without a count.
const defaultEntries = 10

// logCommand answers SLOWLOG and COMMANDLOG.
func (n *Node) logCommand(cmd *command.Command, args [][]byte, w *resp.Writer) {
	sub := subcommand(cmd, args, w)
	if sub == nil {
		return
	}
	log := &n.diag.slow
	if sub.Parent.ID == command.CommandLog && sub.ID != command.CommandLogHelp {
		if log = n.logOf(args[len(args)-1]); log == nil {
			w.Error("ERR type should be one of the following: slow, large-request, large-reply")
			return
		}
	}
	switch sub.ID {
	case command.SlowLogGet, command.CommandLogGet:
		count := int64(defaultEntries)
		if len(args) > 2 {
			var ok bool
			if count, ok = resp.ParseInt(args[2]); !ok || count < -1 {
				w.Error("ERR count should be greater than or equal to -1")
				return
			}
		}
		if len(args) > 3 && sub.ID == command.SlowLogGet {
			w.Error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try SLOWLOG HELP.", args[1]))
			return
		}
		writeEntries(w, log.Latest(int(min(count, MaxKept))))
	case command.SlowLogLen, command.CommandLogLen:
		w.Int(int64(log.Len()))
	case command.SlowLogReset, command.CommandLogReset:
		log.Reset()
		w.Simple("OK")
	case command.SlowLogHelp, command.CommandLogHelp:
		help(w, sub.Parent.HelpLines())
	}
}

func (n *Node) logOf(kind []byte) *latency.Log {
	switch strings.ToLower(string(kind)) {
	case "slow":
		return &n.diag.slow
	case "large-request":
		return &n.diag.requests
	case "large-reply":
		return &n.diag.replies
	}
	return nil
}

func writeEntries(w *resp.Writer, entries []latency.Entry) {
	w.Array(len(entries))
	for _, e := range entries {
		w.Array(6)
		w.Int(e.ID)
		w.Int(e.At.Unix())
		w.Int(e.Value)
		w.Array(len(e.Args))
		for _, a := range e.Args {
			w.BulkString(a)
		}
		w.BulkString(e.Client)
		w.BulkString(e.Name)
	}
}

// latencyCommand answers LATENCY.
func (n *Node) latencyCommand(cmd *command.Command, args [][]byte, w *resp.Writer) {
	sub := subcommand(cmd, args, w)
	if sub == nil {
		return
	}
	events := &n.diag.events
	switch sub.ID {
	case command.LatencyDoctor:
		w.Verbatim("txt", n.latencyDoctor())
	case command.LatencyGraph:
		picture := events.Graph(string(args[2]), n.clock.millis()/1000)
		if picture == "" {
			w.Error(fmt.Sprintf("ERR No samples available for event '%.128s'", args[2]))
			return
		}
		w.Verbatim("txt", picture)
	case command.LatencyHistory:
		list := events.History(string(args[2]))
		w.Array(len(list))
		for _, s := range list {
			w.Array(2)
			w.Int(s.At)
			w.Int(s.Millis)
		}
	case command.LatencyLatest:
		all := events.All()
		w.Array(len(all))
		for _, l := range all {
			w.Array(4)
			w.BulkString(l.Kind)
			w.Int(l.At)
			w.Int(l.Millis)
			w.Int(l.Max)
		}
	case command.LatencyReset:
		var kinds []string
		for _, a := range args[2:] {
			kinds = append(kinds, string(a))
		}
		w.Int(int64(events.Reset(kinds...)))
	case command.LatencyHistogram:
		n.histograms(args[2:], w)
	case command.LatencyHelp:
		help(w, sub.Parent.HelpLines())
	}
}

// histograms answers LATENCY HISTOGRAM: for all commands that were called, or for
// those named; the name of a container stands for its subcommands.
func (n *Node) histograms(names [][]byte, w *resp.Writer) {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[strings.ToLower(string(name))] = true
	}
	var found []*command.Command
	var sums []*latency.Summary
	n.eachUsed(func(c *command.Command, s *latency.Summary) {
		if s.Count > 0 && (len(names) == 0 || wanted[c.FullName()] || c.Parent != nil && wanted[c.Parent.Name]) {
			kept := *s
			found, sums = append(found, c), append(sums, &kept)
		}
	})
	w.Map(len(found))
	for i, c := range found {
		w.BulkString(c.FullName())
		w.Map(2)
		w.BulkString("calls")
		w.Int(int64(sums[i].Count))
		w.BulkString("histogram_usec")
		steps := sums[i].Steps()
		w.Map(len(steps))
		for _, s := range steps {
			w.Int(s.Micros)
			w.Int(int64(s.Count))
		}
	}
}

// latencyDoctor says what the samples tell.
func (n *Node) latencyDoctor() string {
	events := &n.diag.events
	threshold := events.Threshold()
	if threshold == 0 {
		return "Latency is not monitored on this node. Switch it on with \"CONFIG SET latency-monitor-threshold <milliseconds>\"; " +
			"LATENCY HISTOGRAM and INFO latencystats tell about all commands without that.\n"
	}
	all := events.Figures()
	if len(all) == 0 {
		return fmt.Sprintf("No command has taken %d ms or more (latency-monitor-threshold) since the samples were reset.\n", threshold)
	}
	var b strings.Builder
	b.WriteString("Commands were slow on this node:\n\n")
	for i, f := range all {
		fmt.Fprintf(&b, "%d. %s: %d latency spikes (average %dms, mean deviation %dms, period %.2f sec). Worst all time event %dms.\n",
			i+1, f.Kind, f.Count, f.Mean, f.Deviation, f.Period, f.Greatest)
	}
	b.WriteString("\nWhat to look at:\n\n")
	if t := n.diag.slow.Threshold(); t < 0 || t > threshold*1000 {
		fmt.Fprintf(&b, "- SLOWLOG would not show all of them: CONFIG SET slowlog-log-slower-than %d does.\n", threshold*1000)
	} else {
		b.WriteString("- SLOWLOG GET shows which commands they were.\n")
	}
	for _, f := range all {
		if f.Kind == eventFast {
			b.WriteString("- Commands of O(1) were among them: the time went into waiting, for a script or transaction on the same slots, " +
				"for a slot that changed its owner, or for the processor (see the load of the machine).\n")
		} else {
			b.WriteString("- Commands over all keys (KEYS, SCAN with a large COUNT), large values and long scripts take their time; " +
				"others on the same slots wait for scripts.\n")
		}
	}
	return b.String()
}

// hotKeys answers HOTKEYS: the node does not track any.
func hotKeys(cmd *command.Command, args [][]byte, w *resp.Writer) {
	sub := subcommand(cmd, args, w)
	if sub == nil {
		return
	}
	switch sub.ID {
	case command.HotKeysGet, command.HotKeysStop:
		w.Null() // as where it was never started
	case command.HotKeysReset:
		w.Simple("OK")
	case command.HotKeysStart:
		w.Error("ERR hot keys are off: this node does not track them")
	case command.HotKeysHelp:
		help(w, sub.Parent.HelpLines())
	}
}

const errNoDebug = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local connection, " +
	"otherwise you need to set this option in the configuration file, and then restart the server."

// maxSleep bounds DEBUG SLEEP.
const maxSleep = time.Minute

var debugHelp = []string{
	"DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
	"PROTOCOL <type>", "    Reply with a test value of the specified type. <type> can be: string,",
	"    integer, double, null, array, set, map, verbatim, true, false.",
	"SLEEP <seconds>", "    Hold up this connection for <seconds>. Decimals allowed, a minute at most.",
	"HELP", "    Print this help.",
}

// debug answers DEBUG: only what harms nobody.
func (n *Node) debug(s Session, args [][]byte, w *resp.Writer) {
	if n.diag.debugCommand == "no" || n.diag.debugCommand == "local" && !isLocal(s) {
		w.Error(errNoDebug)
		return
	}
	switch sub := strings.ToLower(string(args[1])); {
	case sub == "help" && len(args) == 2:
		help(w, debugHelp)
	case sub == "sleep" && len(args) == 3:
		seconds, _ := strconv.ParseFloat(string(args[2]), 64) // Redis takes anything else for 0
		if d := min(seconds, maxSleep.Seconds()); d > 0 {
			t := time.NewTimer(time.Duration(d * float64(time.Second)))
			defer t.Stop()
			select {
			case <-t.C:
			case <-n.ctx.Done():
			}
		}
		w.Simple("OK")
	case sub == "protocol" && len(args) == 3:
		debugProtocol(args[2], w)
	default:
		w.Error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try DEBUG HELP.", args[1]))
	}
}

// debugProtocol replies with a value of a type of RESP, the values of Redis.
func debugProtocol(kind []byte, w *resp.Writer) {
	switch string(bytes.ToLower(kind)) {
	case "string":
		w.BulkString("Hello World")
	case "integer":
		w.Int(12345)
	case "double":
		w.Double(3.141)
	case "null":
		w.Null()
	case "array":
		w.Array(3)
		for i := range int64(3) {
			w.Int(i)
		}
	case "set":
		w.Set(3)
		for i := range int64(3) {
			w.Int(i)
		}
	case "map":
		w.Map(3)
		for i := range int64(3) {
			w.Int(i)
			w.Bool(i == 1)
		}
	case "verbatim":
		w.Verbatim("txt", "This is a verbatim\nstring")
	case "true", "false":
		w.Bool(len(kind) == 4)
	default:
		w.Error("ERR Wrong protocol type name. Please use one of the following: string|integer|double|null|array|set|map|attrib|push|verbatim|true|false")
	}
}
