package lint

// Room is one row of the floors table. Paths are relative to the module.
type Room struct {
	Path    string   // "internal/ring"; "" is the root package
	Floor   int      // imports go strictly downwards, apart from Same
	Same    []string // rooms on its own floor that it may import
	Modules []string // third-party modules (path prefixes) that it may import itself
	Never   []string // rooms below it that it may not reach, not even through others
	NoStd   []string // standard packages that it may not import itself
	NoGo    bool     // may not start goroutines
	Why     string   // the reason, printed with a fault
}

const (
	xxh3       = "github.com/zeebo/xxh3"
	memberlist = "github.com/hashicorp/memberlist"
	gopherLua  = "github.com/yuin/gopher-lua"
	goYAML     = "github.com/goccy/go-yaml"
	cobra      = "github.com/spf13/cobra"
	pflag      = "github.com/spf13/pflag"
	prometheus = "github.com/prometheus"
	xSync      = "golang.org/x/sync"
	xSys       = "golang.org/x/sys"
	xTime      = "golang.org/x/time"
	xz         = "github.com/ulikunitz/xz"
)

// Support lists the rooms that any floor may import; they import the standard
// library only.
var Support = []string{"internal/errs", "internal/invariant", "internal/metrics"}

// Rooms is the floors table of ARCHITECTURE.md.
var Rooms = []Room{
	{Path: "internal/errs", Floor: 0,
		Why: "sentinels are the one thing every layer shares; anything below them would be an import cycle in waiting"},
	{Path: "internal/invariant", Floor: 0, Why: "checks under a build tag may not drag anything along"},
	{Path: "internal/metrics", Floor: 0, Why: "counters stand in every hot path and in every embedder"},
	{Path: "internal/ring", Floor: 0, Modules: []string{xxh3}, NoGo: true,
		NoStd: []string{"time", "net", "context"},
		Why:   "placement is a pure function: two nodes that know the same members must compute the same owners"},
	{Path: "internal/resp", Floor: 0, NoStd: []string{"net", "context"}, NoGo: true,
		Why: "the parser works on bytes, so that every transport, test and fuzz target can drive it"},
	{Path: "internal/glob", Floor: 0, NoStd: []string{"net", "time", "context"}, NoGo: true,
		Why: "patterns of clients are matched in many rooms, and in each their time must be bounded alike"},
	{Path: "internal/command", Floor: 0, NoStd: []string{"net", "context"}, NoGo: true,
		Why: "the command table is data; server, client and node all read it"},
	{Path: "internal/latency", Floor: 0, NoStd: []string{"net", "context"}, NoGo: true,
		Why: "what is kept of durations stands in the hot path, and is tested without a clock"},
	{Path: "internal/engine", Floor: 0, Modules: []string{xSys, xxh3}, NoStd: []string{"net", "context"},
		Why: "memory and eviction are tested without a cluster or a socket"},
	{Path: "internal/loader", Floor: 0, Modules: []string{xSync, xTime}, NoStd: []string{"net"},
		Why: "loading from an origin serves the client and the embedded node alike"},
	{Path: "internal/hotkey", Floor: 0, Modules: []string{xxh3}, NoStd: []string{"net"},
		Why: "detection runs inside the request path and is measured by itself"},
	{Path: "internal/register", Floor: 0, NoStd: []string{"net", "context"}, NoGo: true,
		Why: "whether an answer was legal is decided from what is handed in, so that a test can feed it every violation"},
	{Path: "internal/child", Floor: 0,
		Why: "what starts servers for a time must leave none behind, whatever it starts them for"},
	{Path: "internal/topology", Floor: 1, Modules: []string{xxh3}, NoGo: true, NoStd: []string{"net"},
		Why: "a View is a value: everything that reads it must be free to keep it"},
	{Path: "internal/exec", Floor: 1, Modules: []string{xxh3}, NoStd: []string{"net", "context"}, NoGo: true,
		Why: "commands over one held slot run without a cluster, a session or a clock of their own"},
	{Path: "internal/acl", Floor: 1, NoStd: []string{"net", "context"}, NoGo: true,
		Why: "who may do what is decided from rules and a command alone, without a session or a store"},
	{Path: "lua", Floor: 2, Modules: []string{gopherLua}, NoStd: []string{"net"}, NoGo: true,
		Never: []string{"internal/topology", "internal/membership", "internal/link", "internal/handoff", "internal/node", "internal/server"},
		Why:   "scripts are a choice: whoever does not import this room links no interpreter"},
	{Path: "internal/membership", Floor: 1, Same: []string{"internal/topology"}, Modules: []string{memberlist},
		Never: []string{"internal/engine", "internal/exec"},
		Why:   "who is alive is decided without knowing what anybody stores"},
	{Path: "internal/link", Floor: 2, Never: []string{"internal/engine"},
		Why: "reaching a node is the same for a client, a proxy and a peer; a client stores nothing"},
	{Path: "internal/operate", Floor: 2, Same: []string{"internal/link"}, Never: []string{"internal/engine", "internal/membership"}, NoGo: true,
		Why: "what an operator is told has one form for the node that writes it and the tool that reads it"},
	{Path: "internal/handoff", Floor: 2, Same: []string{"internal/link"}, Never: []string{"internal/membership"},
		Why: "moving slots follows Views, not rumours"},
	{Path: "internal/node", Floor: 3, Modules: []string{xSys}, NoStd: []string{"net/http"},
		Why: "a node is driven by a server, a test or an embedder: it knows none of them"},
	{Path: "internal/server", Floor: 4, Modules: []string{xSys}, Never: []string{"internal/node", "internal/engine"},
		Why: "listeners and sessions hand commands to a Handler; the data model stays replaceable behind it"},
	{Path: "internal/proxy", Floor: 4, Same: []string{"internal/server"}, Never: []string{"internal/node", "internal/engine"},
		Why: "a proxy keeps no data"},
	{Path: "client", Floor: 4, Modules: []string{xSync, xTime}, Never: []string{"internal/node", "internal/membership", "internal/server"},
		Why: "an application that only reads a cache must not compile a node"},
	{Path: "local", Floor: 4, NoStd: []string{"net", "context"}, NoGo: true,
		Never: []string{"internal/topology", "internal/membership", "internal/link", "internal/node", "internal/server", "client"},
		Why:   "whoever wants the engine alone compiles nothing of the cluster"},
	{Path: "internal/console", Floor: 4, Never: []string{"internal/node", "internal/engine"},
		Why: "the console reads through its own Source interface"},
	{Path: "internal/workload", Floor: 4, Same: []string{"client"}, Modules: []string{xz, xTime, xSync},
		Never: []string{"internal/node", "internal/server"},
		Why:   "load comes from outside, over the wire, as a user's does"},
	{Path: "", Floor: 5, Never: []string{"internal/console", "client"},
		Why: "embedding one node must not bring the console or the client along"},
	{Path: "internal/clustertest", Floor: 5, Modules: []string{memberlist},
		Why: "the test harness stands above the nodes that it wires, and carries their gossip over its network"},
	{Path: "internal/drill", Floor: 5, Never: []string{"internal/node", "internal/server", "internal/membership", "internal/engine"},
		Why: "a drill sees a cluster as its users do: by sockets and signals"},
	{Path: "discovery", Floor: 4, Never: []string{"internal/topology", "internal/membership", "internal/node", "internal/server"},
		Why: "finding seeds is a user's plug-in like any other, and reaches HTTP only where it is imported"},
	{Path: "internal/admin", Floor: 4, Modules: []string{prometheus}, Never: []string{"internal/node", "internal/server", "internal/engine"},
		Why: "the admin listener reads a node through its own Source interface; whoever does not import it compiles no HTTP server and no metrics library"},
	{Path: "internal/config", Floor: 6, Modules: []string{goYAML},
		Why: "configuration turns text into Options and decides nothing else"},
	{Path: "internal/lint", Floor: 6, Why: "the gate looks at the tree from outside"},
	{Path: "cmd/ringcache", Floor: 7, Modules: []string{cobra, pflag}, Why: "the command line is thin: logic lives in rooms"},
}

// BadNames are package names that say nothing about what a package owns.
var BadNames = []string{"common", "util", "utils", "pkg", "types", "models", "helpers", "misc", "base", "shared"}

// Embedders are the public packages and the module prefixes that a program
// importing them must never compile.
var Embedders = map[string][]string{
	"":       {"github.com/spf13/", goYAML, gopherLua, "github.com/prometheus/", "go.opentelemetry.io/", "github.com/charmbracelet/"},
	"client": {"github.com/spf13/", goYAML, gopherLua, "github.com/prometheus/", "go.opentelemetry.io/", "github.com/charmbracelet/", memberlist},
	"local":  {"github.com/spf13/", goYAML, gopherLua, "github.com/prometheus/", "go.opentelemetry.io/", "github.com/charmbracelet/", memberlist},
}

// Foreign are modules that belong to interop/ and bench/ only: other clients
// and other caches that the project is compared with.
var Foreign = []string{
	"github.com/redis/", "github.com/go-redis/", "github.com/gomodule/redigo", "github.com/valkey-io/", "github.com/mediocregopher/radix",
	"github.com/golang/groupcache", "github.com/mailgun/groupcache", "github.com/groupcache/", "github.com/olric-data/", "github.com/buraksezer/",
	"github.com/dgraph-io/", "github.com/allegro/bigcache", "github.com/coocood/freecache", "github.com/maypok86/otter", "github.com/tidwall/",
	"github.com/Yiling-J/theine", "github.com/VictoriaMetrics/fastcache", "github.com/hashicorp/golang-lru/v2",
}
