package operate

import "time"

// The values of the replies. Each is a map on the wire with the names of its JSON
// tags as keys, in RESP2 a flat array; keys may be added later, none is taken
// away. Times are ms since 1970, durations ms, rates per second.

// The states of a cluster.
const (
	// StateOK: every member answers and is alive, all have one View, every slot is
	// served by its owner, and nothing moves.
	StateOK = "ok"
	// StateChanging: slots or keys are on their way; requests are answered.
	StateChanging = "changing"
	// StateDegraded: a member does not answer, is suspected or disagrees, or slots
	// have no owner.
	StateDegraded = "degraded"
)

// Where a member's weight comes from.
const (
	WeightConfigured = "configuration"
	// WeightSet: it was set at run time, and ends with the process.
	WeightSet = "set"
	// WeightKept: it was set at run time, and is kept in the data directory: it
	// goes on after a restart, until the configuration says another one.
	WeightKept = "kept"
)

// Status is the cluster as a whole, as one member sees it.
type Status struct {
	Cluster  string   `json:"cluster"`
	State    string   `json:"state"`
	Problems []string `json:"problems"` // why the state is not ok
	Notes    []string `json:"notes"`    // what is not as configured, by somebody's will
	View     string   `json:"view"`     // hash, 16 hex digits
	Epoch    int64    `json:"epoch"`

	Members     int `json:"members"` // in any state, itself included
	Owners      int `json:"owners"`  // of slots
	Joining     int `json:"joining"` // or warming
	Draining    int `json:"draining"`
	Suspect     int `json:"suspect"`
	Unreachable int `json:"unreachable"` // did not answer in time

	SlotsOwned     int `json:"slots_owned"`     // have an owner in the View
	SlotsServed    int `json:"slots_served"`    // of all members together
	SlotsOpening   int `json:"slots_opening"`   // wait for agreement
	SlotsReleasing int `json:"slots_releasing"` // are served for their next owner

	Keys        int64 `json:"keys"`
	Bytes       int64 `json:"bytes"`
	MemoryLimit int64 `json:"memory_limit"` // 0: none

	CommandsPerSecond float64 `json:"commands_per_second"`
	HitsPerSecond     float64 `json:"hits_per_second"`
	MissesPerSecond   float64 `json:"misses_per_second"`
	HitRatio          float64 `json:"hit_ratio"` // of the last ten seconds; 1 without reads

	Pins    int  `json:"pins"`    // slots
	Changes int  `json:"changes"` // that run
	Paused  bool `json:"paused"`  // some member's migrations are paused
}

// Node is one member.
type Node struct {
	ID       string  `json:"id"`
	Addr     string  `json:"addr"`
	Zone     string  `json:"zone"`
	Self     bool    `json:"self"`     // it is the one that was asked
	State    string  `json:"state"`    // joining, warming, active, draining
	Health   string  `json:"health"`   // alive, degraded, suspect, dead
	Degraded string  `json:"degraded"` // in whose eyes: no, self, requests, both
	Answers  bool    `json:"answers"`
	RTTUs    int64   `json:"rtt_usec"` // of gossip probes; 0: not measured
	Weight   float64 `json:"weight"`
	// OldWeight is the weight that a member comes from that changes it; else Weight.
	OldWeight float64 `json:"old_weight"`
	Progress  float64 `json:"progress"` // of a join, a leave or a change of weight
	Slots     int     `json:"slots"`    // owned
	Share     float64 `json:"share"`    // of the slots, over its fair share by weight; 1 is even

	Figures Figures `json:"figures"` // zero unless it answers
}

// Figures are what a member says of itself.
type Figures struct {
	View      string `json:"view"`
	Serving   int    `json:"serving"`   // slots
	Opening   int    `json:"opening"`   // slots
	Releasing int    `json:"releasing"` // slots

	Keys        int64 `json:"keys"` // in served slots
	Bytes       int64 `json:"bytes"`
	MemoryLimit int64 `json:"memory_limit"`
	Clients     int64 `json:"clients"`
	UptimeMS    int64 `json:"uptime_ms"`

	CommandsPerSecond float64 `json:"commands_per_second"`
	HitsPerSecond     float64 `json:"hits_per_second"`
	MissesPerSecond   float64 `json:"misses_per_second"`

	Paused      bool    `json:"paused"`    // its migrations
	Transfers   bool    `json:"transfers"` // keys follow their slots
	KeysLimit   float64 `json:"keys_limit"`
	BytesLimit  float64 `json:"bytes_limit"`
	MovedKeys   int64   `json:"moved_keys"` // since it started
	MovedBytes  int64   `json:"moved_bytes"`
	PinsDigest  string  `json:"pins_digest"`
	ChangesOpen int     `json:"changes"`

	WeightOrigin     string  `json:"weight_origin"`     // WeightConfigured, WeightSet or WeightKept
	WeightConfigured float64 `json:"weight_configured"` // what its configuration says
	WeightKeeps      bool    `json:"weight_keeps"`      // one that is set goes on after a restart
}

// SlotRange is a run of slots with one owner, all pinned or none.
type SlotRange struct {
	First  int    `json:"first"`
	Last   int    `json:"last"`
	Owner  string `json:"owner"` // "": nobody
	Addr   string `json:"addr"`
	Pinned bool   `json:"pinned"`
	Served int    `json:"served"` // slots that the owner serves by now
	Keys   int64  `json:"keys"`
	Bytes  int64  `json:"bytes"`
}

// Pin is a slot that is pinned.
type Pin struct {
	Slot  int      `json:"slot"`
	Nodes []string `json:"nodes"`
	Group string   `json:"group"`
	Owner string   `json:"owner"` // now; another than Nodes while none of them is present
	By    string   `json:"by"`    // the node that was asked to
	AtMS  int64    `json:"at_ms"`
}

// Event is something that a node has noticed.
type Event struct {
	ID   int64  `json:"id"` // 1, 2, 3 ... of this process
	AtMS int64  `json:"at_ms"`
	Kind string `json:"kind"`
	Node string `json:"node"` // whom it is about; "": the cluster
	Addr string `json:"addr"`
	Text string `json:"text"`
}

// Change is a change that runs: slots or keys on their way.
type Change struct {
	ID       string  `json:"id"`   // unique in the cluster
	Node     string  `json:"node"` // at which it runs
	Addr     string  `json:"addr"`
	Kind     string  `json:"kind"` // see docs/operations.md
	Peer     string  `json:"peer"` // the other side; "": several
	PeerAddr string  `json:"peer_addr"`
	Slots    int     `json:"slots"`
	Done     int     `json:"slots_done"`
	Percent  float64 `json:"percent"`
	Keys     int64   `json:"keys"` // moved
	Bytes    int64   `json:"bytes"`
	Left     int64   `json:"keys_left"` // an estimate
	Rate     float64 `json:"rate"`      // keys per second
	BeganMS  int64   `json:"began_ms"`
	ETAMS    int64   `json:"eta_ms"` // from now; -1: unknown
	Paused   bool    `json:"paused"`
	WaitsFor string  `json:"waits_for"` // address of the member that changes before it; "": nobody
}

// Plan is what a change would do.
type Plan struct {
	Change string `json:"change"`
	// Exact says that the slots are those that will move. Otherwise the ID of a
	// node that joins is not known, and another one takes others, about as many.
	Exact bool    `json:"exact"`
	Slots int     `json:"slots"` // that move
	Keys  int64   `json:"keys"`
	Bytes int64   `json:"bytes"`
	Share float64 `json:"share"` // of all keys
	// DurationMS is what moving the keys takes at the rates in force; 0 where keys
	// do not follow their slots.
	DurationMS int64      `json:"duration_ms"`
	KeysLimit  float64    `json:"keys_limit"` // per source
	BytesLimit float64    `json:"bytes_limit"`
	Moves      []Move     `json:"moves"`
	Nodes      []PlanNode `json:"nodes"`
	Origin     Origin     `json:"origin"`
	Warnings   []string   `json:"warnings"`
	Notes      []string   `json:"notes"` // where weights come from, and how long planned ones last
}

// Move is what one node gives to another.
type Move struct {
	From     string `json:"from"` // "": nobody had it
	FromAddr string `json:"from_addr"`
	To       string `json:"to"` // "": nobody is left
	ToAddr   string `json:"to_addr"`
	Slots    int    `json:"slots"`
	Keys     int64  `json:"keys"`
	Bytes    int64  `json:"bytes"`
}

// PlanNode is a member before and after.
type PlanNode struct {
	ID          string `json:"id"`
	Addr        string `json:"addr"`
	SlotsBefore int    `json:"slots_before"`
	SlotsAfter  int    `json:"slots_after"`
	KeysBefore  int64  `json:"keys_before"`
	KeysAfter   int64  `json:"keys_after"`
	BytesBefore int64  `json:"bytes_before"`
	BytesAfter  int64  `json:"bytes_after"`
	MemoryLimit int64  `json:"memory_limit"` // 0: unknown or none
}

// Origin is the load on what the cache stands in front of: reads that miss.
type Origin struct {
	HitsPerSecond float64 `json:"hits_per_second"`
	Now           float64 `json:"misses_per_second_now"`
	// Moving is how many hits per second fall on keys that move: while they do, so
	// many reads are served from the node that had them.
	Moving float64 `json:"moving_per_second"`
	// Expected is the greatest rate of misses during the change, Worst that of a
	// change at once whose keys are all lost.
	Expected float64 `json:"misses_per_second_expected"`
	Worst    float64 `json:"misses_per_second_worst"`
}

// Time turns ms since 1970 into a time.
func Time(ms int64) time.Time { return time.UnixMilli(ms) }
