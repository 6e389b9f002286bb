package node

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/resp"
)

// Limits of the rates that MIGRATE RATE takes.
const (
	maxKeysRate   = 10_000_000 // per second
	leastByteRate = 64 << 10   // per second
	maxBytesRate  = 1 << 40    // per second
)

// transferred lists the transfers of keys that run at this node.
func (n *Node) transferred() (out []operate.Change) {
	v := n.View()
	paused := n.transfer.Paused()
	for _, c := range n.Changes() {
		e := operate.Change{ID: fmt.Sprintf("%s-t%d", n.id.String()[:8], c.ID), Kind: c.Kind, Peer: c.Peer.String(), PeerAddr: addrIn(v, c.Peer),
			Slots: c.Slots, Done: c.SlotsDone, Keys: int64(c.Keys), Bytes: int64(c.Bytes), Left: int64(c.LeftKeys), Rate: c.Rate,
			BeganMS: c.Started.UnixMilli(), ETAMS: -1, Paused: paused && c.Kind == handoff.Gain}
		estimate(&e)
		out = append(out, e)
	}
	return out
}

// ramped is the change in steps of this node, if one is under way.
func (n *Node) ramped(now int64) (out []operate.Change) {
	r := n.Ramp()
	if r.What == "" {
		return nil
	}
	done := r.Progress
	if r.What == rampDrain {
		self := n.selfMember()
		done = 1 - self.Presence()
	}
	e := operate.Change{ID: fmt.Sprintf("%s-r%d", n.id.String()[:8], r.Started.UnixMilli()), Kind: r.What, Percent: 100 * done,
		BeganMS: r.Started.UnixMilli(), ETAMS: remaining(now-r.Started.UnixMilli(), done, 1-done)}
	if !r.WaitingFor.IsZero() {
		e.WaitsFor, e.ETAMS = addrIn(n.View(), r.WaitingFor), -1
	}
	return append(out, e)
}

// rampDrain is what Ramp calls a drain.
const rampDrain = "drain"

// estimate says how far a transfer is and when it will be done. A taker learns what is
// left of a slot with its first keys; slots of which it knows nothing are taken to be
// like those that are done.
func estimate(e *operate.Change) {
	if e.Left == 0 && e.Done > 0 {
		e.Left = int64(float64(e.Keys) / float64(e.Done) * float64(e.Slots-e.Done))
	}
	if e.Left > 0 {
		e.Percent = percent(float64(e.Keys), float64(e.Keys+e.Left))
	} else {
		e.Percent = percent(float64(e.Done), float64(e.Slots))
	}
	switch {
	case e.Done >= e.Slots && e.Left == 0:
		e.ETAMS = 0
	case e.Left > 0 && e.Rate > 0 && !e.Paused:
		e.ETAMS = int64(float64(e.Left) / e.Rate * 1000)
	}
}

// transferFigures adds what this node says of its transfers.
func (n *Node) transferFigures(f *operate.Figures) {
	keys, bytes := n.transfer.Rate()
	t := n.transfer.Figures()
	f.Transfers, f.Paused = true, n.transfer.Paused()
	f.KeysLimit, f.BytesLimit = float64(keys), float64(bytes)
	f.MovedKeys, f.MovedBytes = int64(t.Moved+t.Pulled), int64(t.MovedBytes)
}

// noteTransfers writes down which transfers have begun and ended.
func (n *Node) noteTransfers(at int64) {
	v := n.View()
	c := &n.changes
	now := map[uint64]handoff.Change{}
	for _, t := range n.Changes() {
		now[t.ID] = t
	}
	c.mu.Lock()
	before := c.transfers
	c.transfers = now
	c.mu.Unlock()
	verb := map[string]string{handoff.Gain: "taken over from", handoff.Give: "handed over to"}
	say := func(t handoff.Change, format string, more ...any) {
		if i, ok := v.Index(t.Peer); ok {
			n.events.add(at, "change", v.Member(i), fmt.Sprintf(format, append([]any{t.Slots, verb[t.Kind]}, more...)...))
			return
		}
		n.events.add(at, "change", nil, fmt.Sprintf(format+" (a node that is gone)", append([]any{t.Slots, verb[t.Kind]}, more...)...))
	}
	for id, t := range now {
		if _, known := before[id]; !known {
			say(t, "the content of %d slots is %s it")
		}
	}
	for id, t := range before {
		if _, still := now[id]; !still {
			say(t, "the content of %d slots was %s it: %d keys, %d bytes, after %s", t.Keys, t.Bytes,
				(time.Duration(at-t.Started.UnixMilli()) * time.Millisecond).Round(time.Millisecond))
		}
	}
}

// ringMigrate has all members pause or resume their transfers, or set their rates.
func (n *Node) ringMigrate(args [][]byte, w *resp.Writer) {
	what, err := parseMigrate(args)
	if err != nil {
		w.Error("ERR " + err.Error())
		return
	}
	v := n.View()
	var lacking []string
	for i, reply := range n.gather(v, append([]string{"MIGRATE"}, what...)...) {
		if reply == nil {
			lacking = append(lacking, v.Member(i).Addr())
		}
	}
	n.log.Info("transfers of keys set by a client", "what", strings.ToLower(strings.Join(what, " ")))
	if len(lacking) > 0 {
		w.Error(codeUnavailable + " not done by " + strings.Join(lacking, ", ") + ", which did not answer")
		return
	}
	w.Simple("OK")
}

// migrateForPeer does at this node what parseMigrate has read at another.
func (n *Node) migrateForPeer(args [][]byte, w *resp.Writer) {
	what, err := parseMigrate(args)
	if err != nil {
		w.Error("ERR " + err.Error())
		return
	}
	switch what[0] {
	case "PAUSE":
		n.setTransferPaused(true)
	case "RESUME":
		n.setTransferPaused(false)
	default:
		keys, bytes := n.transfer.Rate()
		numbers := []int64{keys, bytes}
		for i, text := range what[1:] {
			numbers[i], _ = strconv.ParseInt(text, 10, 64) // checked
		}
		n.setTransferRate(int(numbers[0]), int(numbers[1]))
	}
	self := n.selfMember()
	n.events.add(n.clock.millis(), "migrate", &self, strings.ToLower(strings.Join(what, " ")))
	w.Simple("OK")
}

// parseMigrate reads PAUSE | RESUME | RATE keys-per-second [bytes-per-second].
func parseMigrate(args [][]byte) ([]string, error) {
	what := strings.ToUpper(string(args[0]))
	switch {
	case (what == "PAUSE" || what == "RESUME") && len(args) == 1:
		return []string{what}, nil
	case what == "RATE" && (len(args) == 2 || len(args) == 3):
		keys, ok := resp.ParseInt(args[1])
		if !ok || keys < 1 || keys > maxKeysRate {
			return nil, fmt.Errorf("rate %.20q must be 1 to %d keys per second", args[1], maxKeysRate)
		}
		out := []string{what, string(args[1])}
		if len(args) == 3 {
			bytes, ok := resp.ParseInt(args[2])
			if !ok || bytes < leastByteRate || bytes > maxBytesRate {
				return nil, fmt.Errorf("rate %.20q must be %d to %d bytes per second", args[2], leastByteRate, int64(maxBytesRate))
			}
			out = append(out, string(args[2]))
		}
		return out, nil
	}
	return nil, errors.New("syntax error: MIGRATE PAUSE | RESUME | RATE keys-per-second [bytes-per-second]")
}
