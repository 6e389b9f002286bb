package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/topology"
)

// ask runs RING and reads the reply; the kinds of replies are those of operate.
func ask[T any](t *testing.T, n *Node, proto int, line string) (out T) {
	t.Helper()
	if err := operate.Read(run(t, n, proto, strings.Fields("RING "+line)...), &out); err != nil {
		t.Fatalf("RING %s: %v", line, err)
	}
	return out
}

func TestRingReplies(t *testing.T) {
	n := alone(t, nil)
	id := n.ID().String()
	for _, k := range []string{"{b}1", "{b}2", "{a}1"} { // slots 3300 and 15495
		run(t, n, 2, "SET", k, "v")
	}
	for _, tc := range []struct{ line, want string }{
		{"PIN 5 " + id, "OK"},
		{"PIN 3299-3300 " + id[:6], "OK"},
		{"PIN 15495 127.0.0.1:7001", "OK"},
		{"PIN 16384 " + id, errSlotList}, {"PIN 9-5 " + id, errSlotList}, {"PIN x " + id, errSlotList}, {"PIN -1 " + id, errSlotList}, {"PIN 5- " + id, errSlotList},
		{"PIN 5 nobody", "ERR no member is called nobody: give a node ID, the beginning of one, or host:port (RING NODES lists them)"},
		{"UNPIN 0-4", "0"}, {"UNPIN 5", "1"}, {"UNPIN 5", "0"},
		{"GROUP g " + id + " a {b}x c", "3"}, {"GROUP g " + id + " a", "1"},
		{"GROUP g nobody,noone a", "ERR no member is called nobody: give a node ID, the beginning of one, or host:port (RING NODES lists them); no member is called noone: give a node ID, the beginning of one, or host:port (RING NODES lists them)"},
		{"GROUP " + strings.Repeat("g", 33) + " " + id + " a", `ERR group "` + strings.Repeat("g", 33) + `" is not a name of at most 32 bytes without spaces`},
		{"UNGROUP g", "1"}, {"UNGROUP g", "0"}, {"PIN 3300 " + id, "OK"}, // the group had taken it over
		{"WEIGHT " + id[:4] + " -1", `ERR weight "-1" must be 0 to 100`}, {"WEIGHT " + id[:4] + " NaN", `ERR weight "NaN" must be 0 to 100`},
		{"WEIGHT " + id[:4] + " 2.5", "OK"},
		{"DRAIN " + id, "ERR this node belongs to another program, which has to drain it"},
		{"EVENTS x", errNotInteger}, {"EVENTS -1", errNotInteger}, {"EVENTS BEFORE 5", errSyntax},
		{"SLOTS 5 4", errBadSlot}, {"SLOTS 0 16384", errBadSlot}, {"SLOTS 0 1 2", errSyntax},
		{"PLAN ADD COUNT 0", `ERR count "0" must be 1 to 100`}, {"PLAN ADD WEIGHT", "ERR syntax error: WEIGHT without a value"}, {"PLAN ADD ADDR here", `ERR address "here" is not host:port`},
		{"PLAN ADD ADDR 127.0.0.1:7001", "ERR 127.0.0.1:7001 is a member already, or is given twice"}, {"PLAN ADD ADDR 127.0.0.1:9 ADDR 127.0.0.1:9", "ERR 127.0.0.1:9 is a member already, or is given twice"},
		{"PLAN REMOVE", "ERR syntax error: PLAN ADD [COUNT n] [WEIGHT w] [ADDR host:port ...] | REMOVE node [node ...] | WEIGHT node w [node w ...]"},
		{"PLAN WEIGHT " + id + " 1 " + id, "ERR syntax error: PLAN ADD [COUNT n] [WEIGHT w] [ADDR host:port ...] | REMOVE node [node ...] | WEIGHT node w [node w ...]"},
		{"NOSUCH", "ERR unknown subcommand 'NOSUCH'. Try RING HELP."},
	} {
		if got := run(t, n, 2, strings.Fields("RING "+tc.line)...).Text(); got != tc.want {
			t.Errorf("RING %s: %q, want %q", tc.line, got, tc.want)
		}
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n.Ramp().What != "" { // the weight is set in the background
		<-tick.C
	}
	if help := flat(run(t, n, 2, "RING", "HELP")); !strings.HasPrefix(help, "[RING <subcommand> ") || !strings.Contains(help, "PLAN <ADD [COUNT count]") {
		t.Error(help)
	}
	for _, proto := range []int{2, 3} {
		s := ask[operate.Status](t, n, proto, "STATUS")
		if s.State != operate.StateOK || s.Members != 1 || s.Owners != 1 || s.SlotsServed != 16384 || s.Keys != 3 || s.Pins != 2 || s.Cluster != "test" || s.HitRatio != 1 || len(s.Problems) != 0 {
			t.Errorf("RESP%d: %+v", proto, s)
		}
		nodes := ask[[]operate.Node](t, n, proto, "NODES")
		if len(nodes) != 1 || nodes[0].ID != id || !nodes[0].Self || !nodes[0].Answers || nodes[0].Weight != 2.5 || nodes[0].Share != 1 || nodes[0].Figures.Serving != 16384 || nodes[0].Figures.MemoryLimit != 64<<20 {
			t.Errorf("RESP%d: %+v", proto, nodes)
		}
		slots := ask[[]operate.SlotRange](t, n, proto, "SLOTS 3298 3302")
		if len(slots) != 3 || slots[1].First != 3299 || slots[1].Last != 3300 || !slots[1].Pinned || slots[1].Keys != 2 || slots[1].Served != 2 || slots[0].Pinned || slots[2].Last != 3302 {
			t.Errorf("RESP%d: %+v", proto, slots)
		}
		pins := ask[[]operate.Pin](t, n, proto, "PINS")
		if len(pins) != 2 || pins[0].Slot != 3299 || pins[0].Nodes[0] != id || pins[0].Owner != id || pins[0].By != id {
			t.Errorf("RESP%d: %+v", proto, pins)
		}
	}
}

func TestRingPlan(t *testing.T) {
	n := alone(t, nil)
	for i := range 1000 {
		run(t, n, 2, "SET", "key"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+strings.Repeat("y", i/26), "value")
	}
	st := n.Engine().Stats()
	p := ask[operate.Plan](t, n, 3, "PLAN ADD COUNT 3")
	if p.Exact || p.Slots < 11000 || p.Slots > 13500 || p.Keys < 600 || p.Keys > 900 || p.Bytes <= 0 || len(p.Moves) != 3 || len(p.Nodes) != 4 || p.Share < 0.6 || p.DurationMS < 40 || p.DurationMS > 70 {
		t.Errorf("%+v", p)
	}
	slots, keys := 0, int64(0)
	for _, e := range p.Nodes {
		slots += e.SlotsAfter
		keys += e.KeysAfter
	}
	if slots != 16384 || keys != st.Keys {
		t.Errorf("%d slots and %d keys after it, want 16384 and %d", slots, keys, st.Keys)
	}
	p = ask[operate.Plan](t, n, 2, "PLAN ADD ADDR 127.0.0.1:7002 ADDR 127.0.0.1:7003 WEIGHT 0.5")
	if !p.Exact || p.Change != "add 2 of weight 0.5 127.0.0.1:7002 127.0.0.1:7003" || p.Slots < 7500 || p.Slots > 8900 {
		t.Errorf("%+v", p)
	}
	joiner := topology.Member{ID: derivedID("test", "127.0.0.1", 7002), State: topology.Active, Weight: 0.5, Host: "127.0.0.1", Port: 7002}
	other := topology.Member{ID: derivedID("test", "127.0.0.1", 7003), State: topology.Active, Weight: 0.5, Host: "127.0.0.1", Port: 7003}
	v, err := topology.NewView(n.View().Params(), nil, append([]topology.Member{joiner, other}, n.View().Members()...), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Nodes {
		id, _ := topology.ParseNodeID(e.ID)
		if i, ok := v.Index(id); !ok || v.OwnedBy(i) != e.SlotsAfter {
			t.Errorf("%s would own %d slots by the plan", e.Addr, e.SlotsAfter)
		}
	}
	p = ask[operate.Plan](t, n, 3, "PLAN REMOVE "+n.ID().String())
	if len(p.Warnings) != 1 || p.Warnings[0] != "nobody would own any slot" || p.Slots != 16384 || p.Moves[0].To != "" {
		t.Errorf("%+v", p)
	}
}

func TestRingMigrate(t *testing.T) {
	n := alone(t, func(o *Options) { o.WarmRate, o.WarmBytes = 700, 1<<20 })
	const syntax = "ERR syntax error: MIGRATE PAUSE | RESUME | RATE keys-per-second [bytes-per-second]"
	for _, tc := range []struct {
		line, want  string
		paused      bool
		keys, bytes float64
	}{
		{"MIGRATE STOP", syntax, false, 700, 1 << 20}, {"MIGRATE PAUSE now", syntax, false, 700, 1 << 20}, {"MIGRATE RATE", syntax, false, 700, 1 << 20},
		{"MIGRATE RATE 0", `ERR rate "0" must be 1 to 10000000 keys per second`, false, 700, 1 << 20},
		{"MIGRATE RATE x", `ERR rate "x" must be 1 to 10000000 keys per second`, false, 700, 1 << 20},
		{"MIGRATE RATE 5 1", `ERR rate "1" must be 65536 to 1099511627776 bytes per second`, false, 700, 1 << 20},
		{"MIGRATE PAUSE", "OK", true, 700, 1 << 20},
		{"MIGRATE RATE 900", "OK", true, 900, 1 << 20},
		{"MIGRATE RATE 50 65536", "OK", true, 50, 65536},
		{"MIGRATE resume", "OK", false, 50, 65536},
	} {
		if got := run(t, n, 2, strings.Fields("RING "+tc.line)...).Text(); got != tc.want {
			t.Errorf("RING %s: %q, want %q", tc.line, got, tc.want)
		}
		f := ask[[]operate.Node](t, n, 3, "NODES")[0].Figures
		if f.Paused != tc.paused || f.KeysLimit != tc.keys || f.BytesLimit != tc.bytes || !f.Transfers {
			t.Errorf("after RING %s: %+v", tc.line, f)
		}
	}
	if s := ask[operate.Status](t, n, 3, "STATUS"); s.Paused {
		t.Errorf("%+v", s)
	}
	if got := ask[[]operate.Event](t, n, 3, "EVENTS"); got[len(got)-1].Kind != "migrate" || got[len(got)-1].Text != "resume" {
		t.Errorf("%+v", got)
	}
}

// TestPlanOrigin: reads of a node are spread over its keys.
func TestPlanOrigin(t *testing.T) {
	a, b := topology.NodeID{1}, topology.NodeID{2}
	nodes := []operate.Node{
		{ID: a.String(), Answers: true, Figures: operate.Figures{Keys: 1000, HitsPerSecond: 400, MissesPerSecond: 10}},
		{ID: b.String(), Answers: true, Figures: operate.Figures{Keys: 500, HitsPerSecond: 100, MissesPerSecond: 5}},
	}
	var p operate.Plan
	moving := map[topology.NodeID]int64{a: 250, b: 500}
	planOrigin(&p, nodes, moving)
	want := operate.Origin{HitsPerSecond: 500, Now: 15, Moving: 200, Expected: 215, Worst: 215}
	if p.Origin != want {
		t.Errorf("got %+v, want %+v", p.Origin, want)
	}
	for i := range nodes {
		nodes[i].Figures.Transfers, nodes[i].Figures.KeysLimit, nodes[i].Figures.BytesLimit = true, 50, 1000
	}
	p = operate.Plan{Moves: []operate.Move{{From: a.String(), To: b.String(), Keys: 100, Bytes: 3000}, {From: b.String(), To: a.String(), Keys: 10, Bytes: 10}}}
	planOrigin(&p, nodes, moving)
	if want.Expected = 15; p.Origin != want {
		t.Errorf("got %+v, want %+v", p.Origin, want)
	}
	if planTime(&p, nodes); p.DurationMS != 3000 || p.KeysLimit != 50 {
		t.Errorf("%d ms at %g keys/s", p.DurationMS, p.KeysLimit)
	}
}

func TestEventLog(t *testing.T) {
	var l eventLog
	m := &topology.Member{ID: topology.NodeID{1}, Host: "h", Port: 1}
	if got := l.since(0, 10); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for i := range int64(maxEvents + 10) {
		l.add(i, "kind", m, "text")
	}
	for _, tc := range []struct {
		since         int64
		count         int
		first, length int64
	}{
		{0, maxEvents, 11, maxEvents}, {0, 3, maxEvents + 8, 3}, {maxEvents + 9, 5, maxEvents + 10, 1}, {maxEvents + 10, 5, 0, 0}, {maxEvents + 99, 5, 0, 0}, {0, 0, 0, 0},
	} {
		got := l.since(tc.since, tc.count)
		if int64(len(got)) != tc.length || tc.length > 0 && got[0].ID != tc.first {
			t.Errorf("since %d, %d: %d events, the first %v", tc.since, tc.count, len(got), got[:min(len(got), 1)])
		}
	}
	if e := l.since(0, 1)[0]; e.Node != m.ID.String() || e.Addr != "h:1" || e.AtMS != maxEvents+9 {
		t.Errorf("%+v", e)
	}
}

func TestFollowBarrier(t *testing.T) {
	var c changes
	if began, ended := c.follow(&c.open, 0, 1); began != nil || ended != nil {
		t.Error("something began without slots")
	}
	if began, _ := c.follow(&c.open, 10, 2); began == nil || began.total != 10 {
		t.Errorf("%+v", began)
	}
	c.follow(&c.open, 4, 3)
	if c.open.left != 4 || c.open.total != 10 {
		t.Errorf("%+v", c.open)
	}
	c.follow(&c.open, 12, 4) // another View, more slots
	if c.open.total != 12 {
		t.Errorf("%+v", c.open)
	}
	if _, ended := c.follow(&c.open, 0, 5); ended == nil || ended.began != 2 || c.open != nil {
		t.Errorf("%+v, %+v", ended, c.open)
	}
	if began, _ := c.follow(&c.open, 1, 6); began.id != 2 {
		t.Errorf("the next one has ID %d", began.id)
	}
}

func TestEstimate(t *testing.T) {
	for _, tc := range []struct {
		keys, left  int64
		slots, done int
		rate        float64
		paused      bool
		percent     float64
		eta, after  int64
	}{
		{0, 0, 100, 0, 0, false, 0, -1, 0}, // nothing is known yet
		{300, 100, 100, 10, 50, false, 75, 2000, 100},
		{300, 100, 100, 10, 50, true, 75, -1, 100},
		{300, 0, 40, 30, 10, false, 75, 10_000, 100}, // ten slots more, ten keys each
		{300, 0, 40, 40, 10, false, 100, 0, 0},
		{0, 0, 40, 10, 0, false, 25, -1, 0}, // empty slots
	} {
		e := operate.Change{Keys: tc.keys, Left: tc.left, Slots: tc.slots, Done: tc.done, Rate: tc.rate, Paused: tc.paused, ETAMS: -1}
		if estimate(&e); e.Percent != tc.percent || e.ETAMS != tc.eta || e.Left != tc.after {
			t.Errorf("%+v gives %+v", tc, e)
		}
	}
}

func TestRates(t *testing.T) {
	var c changes
	at := time.Unix(1000, 0)
	put := func(second int, hits, misses, commands int64) {
		copy(c.samples[1:], c.samples[:])
		c.samples[0] = sample{at.Add(time.Duration(second) * time.Second), hits, misses, commands}
	}
	if r := c.rates(); r != (rates{}) {
		t.Errorf("%+v", r)
	}
	for i := range 30 {
		put(i, int64(i*100), int64(i*10), int64(i*200))
	}
	if r := c.rates(); r != (rates{100, 10, 200}) {
		t.Errorf("%+v", r)
	}
	put(30, 0, 0, 6000) // CONFIG RESETSTAT
	put(31, 50, 5, 6200)
	if r := c.rates(); r != (rates{50, 5, 200}) {
		t.Errorf("after a reset: %+v", r)
	}
}

// TestPinsKept: pins outlive a process that has a data directory; one that cannot be
// read is none.
func TestPinsKept(t *testing.T) {
	dir := t.TempDir()
	keep := func(o *Options) { o.DataDir, o.WarmDir = dir, WarmOff }
	open := func() *Node {
		o := Options{Cluster: "test", Host: "127.0.0.1", Port: 7001, Standalone: true, Weight: 1}
		keep(&o)
		o.Engine.MaxBytes = 64 << 20
		n, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		return n
	}
	n := open()
	run(t, n, 2, "RING", "PIN", "5-6", n.ID().String())
	run(t, n, 2, "RING", "UNPIN", "6")
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	var records []topology.PinRecord
	text, err := os.ReadFile(filepath.Join(dir, pinFile))
	if err != nil || json.Unmarshal(text, &records) != nil || len(records) != 2 || len(records[0].Nodes) != 1 || len(records[1].Nodes) != 0 {
		t.Fatalf("%v: %s", err, text)
	}
	n = open()
	if pins := n.View().Pins(); len(pins) != 1 || pins[0].Slot != 5 {
		t.Errorf("%v", pins)
	}
	// The clock was set back: the next stamp is later all the same.
	n.pins.write(n.ID(), 1, []uint16{5}, nil, "")
	if records, _ := n.pins.now(); records[0].Stamp <= 1 || len(pinned(records, "")) != 0 {
		t.Errorf("%v", records)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"[{", `[{"slot":16384}]`} {
		writeFile(t, filepath.Join(dir, pinFile), bad)
		n = open()
		if records, _ := n.pins.now(); len(records) != 0 {
			t.Errorf("%q gives %v", bad, records)
		}
		if err := n.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestInfoOfRing(t *testing.T) {
	// It is not started, so that nothing follows the barrier meanwhile.
	n, err := Open(Options{Cluster: "test", Host: "127.0.0.1", Port: 7001, Standalone: true, Weight: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	run(t, n, 2, "RING", "PIN", "7", n.ID().String())
	n.changes.release = &running{id: 3, total: 8, left: 2, began: n.clock.millis()}
	info := run(t, n, 2, "INFO", "cluster").Text()
	for _, want := range []string{"ringcache_pins:1\r\n", "ringcache_changes:1\r\n", "ringcache_misses_per_second:",
		"ringcache_change0:id=" + n.ID().String()[:8] + "-b3,kind=release,percent=75.0,slots=8,slots_done=6,keys=0,"} {
		if !strings.Contains(info, want) {
			t.Errorf("INFO lacks %q:\n%s", want, info)
		}
	}
}
