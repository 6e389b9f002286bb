package node

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/engine"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/ring"
)

// Accounts exist only while they are wanted; what was counted is forgotten with them,
// by CONFIG RESETSTAT, and when a slot begins to be served.
func TestAccounts(t *testing.T) {
	n := alone(t, nil)
	slot := int32(ring.Slot([]byte("k")))
	figures := func() [3]int64 {
		took, in, out := n.accounts.show(uint16(slot))
		return [3]int64{took, in, out}
	}
	set := func(v string) {
		t.Helper()
		if got := run(t, n, 2, "CONFIG", "SET", "cluster-slot-stats-enabled", v).Text(); got != "OK" {
			t.Fatal(got)
		}
		if got := run(t, n, 2, "CONFIG", "GET", "cluster-slot-stats-enabled").Elems[1].Text(); got != strings.ToLower(v) {
			t.Fatalf("CONFIG GET says %q", got)
		}
	}
	n.Spent(slot, 1, 2, time.Millisecond)
	if n.accounts.kept() {
		t.Fatal("there are accounts without being asked for")
	}
	set("YES")
	n.Spent(slot, 10, 20, 1500*time.Nanosecond)
	n.Spent(slot, 1, 2, 600*time.Nanosecond)
	set("yes")
	if got := figures(); got != [3]int64{2, 11, 22} {
		t.Errorf("%v", got)
	}
	run(t, n, 2, "CONFIG", "RESETSTAT")
	if got := figures(); got != [3]int64{} {
		t.Errorf("after RESETSTAT %v", got)
	}
	n.Spent(slot, 10, 20, time.Second)
	var slots handoff.Slots = countedSlots{n.transfer, &n.accounts}
	slots.SetServing(uint16(slot), false)
	if got := figures(); got != [3]int64{1e6, 10, 20} {
		t.Errorf("after the slot has left %v", got)
	}
	slots.SetServing(uint16(slot), true)
	if got := figures(); got != [3]int64{} {
		t.Errorf("after the slot came %v", got)
	}
	n.Spent(slot, 10, 20, time.Second)
	set("no")
	set("yes")
	if got := figures(); got != [3]int64{} {
		t.Errorf("after no and yes %v", got)
	}
}

// A command is charged to the slot of its keys, or of its shard channel.
func TestAccountOfCommands(t *testing.T) {
	n := alone(t, nil)
	k, other := int32(ring.Slot([]byte("k"))), int32(ring.Slot([]byte("other")))
	for _, tc := range []struct {
		line string
		want int32
	}{
		{"GET k", k}, {"SET other v EX 10", other}, {"MSET {k}1 v {k}2 v", k}, {"EVAL s 1 k arg", k}, {"EVAL s 0 k", -1}, {"BITOP NOT {k}1 {k}2", k},
		{"SPUBLISH k message", k}, {"SSUBSCRIBE k", k}, {"PUBLISH k message", -1}, {"SUBSCRIBE k", -1}, {"OBJECT FREQ k", k}, {"MEMORY USAGE other", other},
		{"INFO", -1}, {"DBSIZE", -1}, {"CLUSTER KEYSLOT k", -1}, {"PING k", -1}, {"SCAN 0", -1}, {"MULTI", -1}, {"EXEC", -1}, {"CLIENT ID", -1}, {"SUNSUBSCRIBE", -1},
	} {
		args := [][]byte{}
		for _, a := range strings.Fields(tc.line) {
			args = append(args, []byte(a))
		}
		if got := n.Account(command.Lookup(args[0]), args); got != tc.want {
			t.Errorf("%s: slot %d, want %d", tc.line, got, tc.want)
		}
	}
}

// Counting allocates nothing.
func TestAccountsAllocateNothing(t *testing.T) {
	n := alone(t, func(o *Options) { o.Diagnostics.SlotStats = true })
	get, args := command.ByID(command.Get), [][]byte{[]byte("GET"), []byte("k")}
	if allocs := testing.AllocsPerRun(100, func() { n.Spent(n.Account(get, args), 20, 10, time.Microsecond) }); allocs != 0 {
		t.Errorf("%v allocations for each command", allocs)
	}
	took, in, _ := n.accounts.show(ring.Slot([]byte("k")))
	if took != 101 || in != 101*20 {
		t.Errorf("%d µs and %d bytes for 101 commands of 1 µs with 20 bytes", took, in)
	}
}

// What bulkSize says is what a message takes.
func TestMessageSize(t *testing.T) {
	for size := range 1200 {
		want := len("$") + len(strconv.Itoa(size)) + len("\r\n") + size + len("\r\n")
		if got := bulkSize(size); got != want {
			t.Fatalf("%d bytes: %d, want %d", size, got, want)
		}
	}
}

func BenchmarkAccount(b *testing.B) {
	n := alone(b, func(o *Options) { o.Diagnostics.SlotStats, o.Engine = true, engine.Options{MaxBytes: 1 << 20} })
	get, args := command.ByID(command.Get), [][]byte{[]byte("GET"), []byte("key:0000012345")}
	for b.Loop() {
		n.Spent(n.Account(get, args), 20, 10, time.Microsecond)
	}
}
