package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/operate"
)

// bytesText writes a size with one digit behind the point.
func bytesText(n int64) string {
	f := float64(n)
	for _, unit := range []string{"b", "kb", "mb", "gb"} {
		if f < 1024 {
			if unit == "b" {
				return fmt.Sprintf("%db", n)
			}
			return fmt.Sprintf("%.1f%s", f, unit)
		}
		f /= 1024
	}
	return fmt.Sprintf("%.1ftb", f)
}

// memoryText is what is taken, of how much if there is a limit.
func memoryText(used, limit int64) string {
	if limit <= 0 {
		return bytesText(used)
	}
	return bytesText(used) + " of " + bytesText(limit)
}

func percentText(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

func shortID(id string) string { return id[:min(len(id), 8)] }

func yes(v bool, text string) string {
	if v {
		return text
	}
	return ""
}

func statusTable(w io.Writer, s operate.Status) {
	fmt.Fprintf(w, "cluster\t%s\n", s.Cluster)
	fmt.Fprintf(w, "state\t%s\n", s.State)
	for _, p := range s.Problems {
		fmt.Fprintf(w, "\t%s\n", p)
	}
	for _, text := range s.Notes {
		fmt.Fprintf(w, "note\t%s\n", text)
	}
	fmt.Fprintf(w, "members\t%d, %d own slots\n", s.Members, s.Owners)
	fmt.Fprintf(w, "slots\t%d owned, %d served\n", s.SlotsOwned, s.SlotsServed)
	fmt.Fprintf(w, "view\t%s, epoch %d\n", s.View, s.Epoch)
	fmt.Fprintf(w, "keys\t%d\n", s.Keys)
	fmt.Fprintf(w, "memory\t%s\n", memoryText(s.Bytes, s.MemoryLimit))
	fmt.Fprintf(w, "commands\t%.0f/s\n", s.CommandsPerSecond)
	fmt.Fprintf(w, "reads\t%.0f hits/s, %.0f misses/s, %s hits\n", s.HitsPerSecond, s.MissesPerSecond, percentText(s.HitRatio))
	fmt.Fprintf(w, "pins\t%d slots\n", s.Pins)
	fmt.Fprintf(w, "changes\t%d%s\n", s.Changes, yes(s.Paused, ", paused"))
}

func nodesTable(w io.Writer, nodes []operate.Node) {
	fmt.Fprintln(w, "ID\tADDR\tSTATE\tHEALTH\tWEIGHT\tSLOTS\tSHARE\tKEYS\tMEMORY\tCOMMANDS/S\tMISSES/S\tCLIENTS\tUP\tZONE")
	for i := range nodes {
		n := &nodes[i]
		state := n.State
		if n.Progress > 0 {
			state += " " + percentText(n.Progress)
		}
		health := n.Health
		if n.Degraded != "no" && n.Degraded != "" {
			health += " (" + n.Degraded + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%.2f", shortID(n.ID), n.Addr, state, health, weightText(n), n.Slots, n.Share)
		f := &n.Figures
		if !n.Answers {
			fmt.Fprintf(w, "\tno answer\t\t\t\t\t\t%s\n", n.Zone)
			continue
		}
		fmt.Fprintf(w, "\t%d\t%s\t%.0f\t%.0f\t%d\t%s\t%s\n", f.Keys, memoryText(f.Bytes, f.MemoryLimit), f.CommandsPerSecond, f.MissesPerSecond, f.Clients,
			(time.Duration(f.UptimeMS) * time.Millisecond).Round(time.Second), n.Zone)
	}
}

// weightText is the weight, on the way to another one both, and whether it is not
// that of the configuration.
func weightText(n *operate.Node) string {
	text := fmt.Sprintf("%g", n.Weight)
	if n.OldWeight != n.Weight && n.Progress > 0 {
		text = fmt.Sprintf("%g->%g", n.OldWeight, n.Weight)
	}
	if o := n.Figures.WeightOrigin; o == operate.WeightSet || o == operate.WeightKept {
		text += " (" + o + ")"
	}
	return text
}

func slotsTable(w io.Writer, ranges []operate.SlotRange) {
	fmt.Fprintln(w, "SLOTS\tOWNER\tKEYS\tBYTES\t")
	for _, r := range ranges {
		owner := r.Addr
		if owner == "" {
			owner = "nobody"
		}
		var notes []string
		if r.Pinned {
			notes = append(notes, "pinned")
		}
		if n := r.Last - r.First + 1; r.Served < n {
			notes = append(notes, fmt.Sprintf("%d of %d served by the owner", r.Served, n))
		}
		fmt.Fprintf(w, "%d-%d\t%s\t%d\t%s\t%s\n", r.First, r.Last, owner, r.Keys, bytesText(r.Bytes), strings.Join(notes, ", "))
	}
}

func pinsTable(w io.Writer, pins []operate.Pin) {
	fmt.Fprintln(w, "SLOT\tPINNED TO\tOWNER\tGROUP\tSINCE")
	for _, p := range pins {
		to := make([]string, len(p.Nodes))
		for i, id := range p.Nodes {
			to[i] = shortID(id)
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\n", p.Slot, strings.Join(to, ","), shortID(p.Owner), p.Group, timeText(p.AtMS))
	}
}

func timeText(ms int64) string { return operate.Time(ms).Format("2006-01-02 15:04:05") }

func eventsTable(w io.Writer, events []operate.Event) {
	fmt.Fprintln(w, "TIME\tKIND\tNODE\tWHAT")
	for i := range events {
		fmt.Fprintln(w, eventLine(&events[i], "\t"))
	}
}

func eventLine(e *operate.Event, sep string) string {
	node := e.Addr
	if node == "" {
		node = "-"
	}
	return strings.Join([]string{operate.Time(e.AtMS).Format("2006-01-02 15:04:05.000"), e.Kind, node, e.Text}, sep)
}

func planTable(w io.Writer, p operate.Plan) {
	fmt.Fprintf(w, "change\t%s%s\n", p.Change, yes(!p.Exact, " (an estimate: the slots depend on the IDs of the new nodes)"))
	fmt.Fprintf(w, "moves\t%d slots, %d keys (%s), %s\n", p.Slots, p.Keys, percentText(p.Share), bytesText(p.Bytes))
	o := &p.Origin
	if p.KeysLimit > 0 || p.BytesLimit > 0 {
		fmt.Fprintf(w, "duration\t%s at %.0f keys/s and %s/s from each source\n", (time.Duration(p.DurationMS) * time.Millisecond).Round(100*time.Millisecond), p.KeysLimit, bytesText(int64(p.BytesLimit)))
	} else {
		fmt.Fprintf(w, "duration\tat once: keys do not follow their slots\n")
	}
	fmt.Fprintf(w, "origin\t%.1f misses/s now, %.1f expected meanwhile, %.1f at worst (%.1f reads/s are for what moves)\n", o.Now, o.Expected, o.Worst, o.Moving)
	for _, text := range p.Warnings {
		fmt.Fprintf(w, "warning\t%s\n", text)
	}
	for _, text := range p.Notes {
		fmt.Fprintf(w, "note\t%s\n", text)
	}
	fmt.Fprintln(w, "\nNODE\tSLOTS\tAFTER\tKEYS\tAFTER\tBYTES\tAFTER")
	for _, n := range p.Nodes {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%s\n", n.Addr, n.SlotsBefore, n.SlotsAfter, n.KeysBefore, n.KeysAfter, bytesText(n.BytesBefore), bytesText(n.BytesAfter))
	}
	if len(p.Moves) == 0 {
		return
	}
	fmt.Fprintln(w, "\nFROM\tTO\tSLOTS\tKEYS\tBYTES")
	for _, m := range p.Moves {
		to := m.ToAddr
		if to == "" {
			to = "nobody"
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", m.FromAddr, to, m.Slots, m.Keys, bytesText(m.Bytes))
	}
}

// changeLines are the bars of changes.
func changeLines(changes []operate.Change) (lines []string) {
	for i := range changes {
		c := &changes[i]
		name := c.Kind + " " + c.Addr
		if c.PeerAddr != "" {
			name += " with " + c.PeerAddr
		}
		var parts []string
		if c.Slots > 0 {
			parts = append(parts, fmt.Sprintf("%d of %d slots", c.Done, c.Slots))
		}
		if c.Keys > 0 || c.Left > 0 {
			parts = append(parts, fmt.Sprintf("%d keys", c.Keys), bytesText(c.Bytes), fmt.Sprintf("%.0f keys/s", c.Rate))
		}
		switch {
		case c.Paused:
			parts = append(parts, "paused")
		case c.WaitsFor != "":
			parts = append(parts, "waits for "+c.WaitsFor)
		case c.ETAMS >= 0 && c.Percent < 100:
			parts = append(parts, (time.Duration(c.ETAMS)*time.Millisecond).Round(time.Second).String()+" left")
		}
		lines = append(lines, barLine(name, c.Percent/100, strings.Join(parts, ", ")))
	}
	return lines
}

// watcher shows changes as bars, or what is no terminal a line for each tenth.
type watcher struct {
	bars    *bars
	out     io.Writer
	asJSON  bool
	running int
	tenths  map[string]int
}

func (w *watcher) look(changes []operate.Change) error {
	w.running = len(changes)
	seen := map[string]int{}
	for i := range changes {
		c := &changes[i]
		tenth := int(c.Percent / 10)
		seen[c.ID] = tenth
		if before, known := w.tenths[c.ID]; known && before == tenth {
			continue
		}
		switch {
		case w.asJSON:
			if err := json.NewEncoder(w.out).Encode(c); err != nil {
				return err
			}
		case !w.bars.terminal:
			if _, err := fmt.Fprintln(w.out, c.ID+" "+changeLines(changes[i : i+1])[0]); err != nil {
				return err
			}
		}
	}
	w.tenths = seen
	if !w.asJSON {
		w.bars.show(changeLines(changes))
	}
	return nil
}
