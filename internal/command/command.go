// Package command owns the command table as data: one source that feeds
// dispatch, the COMMAND family, routing by keys and the documentation page. It
// holds no handlers, opens no connections and knows nothing of replies.
//
// The table is built once when the package is loaded and never written again,
// so every function may be called from any goroutine. Commands returned by
// Lookup, Sub and All are shared: callers must not modify them.
package command

// Command describes one command or one subcommand of a container.
//
// Facts (arity, flags, keys, tips) are those of Redis 7.0, and of Redis 7.2 or
// Valkey for the commands that came later; a test compares them with a real
// server.
type Command struct {
	// ID is the number that handlers dispatch on. Subcommands have their own.
	ID ID
	// Name is lower-case; a subcommand carries only its own part ("encoding").
	Name string
	// Arity counts the arguments with the command name and, for subcommands,
	// the container name; negative means "at least".
	Arity int
	// Flags say what the command does and when it is allowed.
	Flags Flag
	// Categories are the ACL categories with their "@", in Redis's order.
	Categories []string
	// FirstKey, LastKey and Step give the key positions in the arguments
	// (the name is position 0); LastKey below 0 counts from the end. All are
	// 0 for commands without keys.
	FirstKey, LastKey, Step int
	// Tips are Redis's command tips (request_policy:multi_shard and so on).
	Tips []string
	// Group is the documentation group, Since the Redis version (or "Valkey
	// 9.0.0", "ring-cache 0.1.0") that introduced the command.
	Group, Since string
	// Summary and Complexity are for documentation only.
	Summary, Complexity string
	// DeprecatedSince and ReplacedBy are empty for current commands.
	DeprecatedSince, ReplacedBy string
	// KeySpecs say where keys stand and what is done to them.
	KeySpecs []KeySpec
	// Args describe the arguments after the name, for COMMAND DOCS.
	Args []Arg
	// Subs are the subcommands of a container, sorted by name.
	Subs []*Command
	// Conn says that the command concerns the connection itself, so the server
	// executes it; every other command goes to the node.
	Conn bool
	// Parent is the container of a subcommand, nil otherwise.
	Parent *Command
}

// Flag is a set of command flags.
type Flag uint32

// The command flags. Names are those that COMMAND shows, except for Internal,
// which COMMAND never shows.
const (
	// Write commands may change the data set.
	Write Flag = 1 << iota
	// ReadOnly commands read keys and change nothing.
	ReadOnly
	// DenyOOM commands are refused when memory is full under noeviction.
	DenyOOM
	// Admin commands are administrative.
	Admin
	// NoScript commands cannot be called from scripts.
	NoScript
	// Loading commands are allowed while a data set loads.
	Loading
	// Stale commands are allowed when the node's view may be stale.
	Stale
	// Fast commands take O(1) or O(log N) time.
	Fast
	// NoAuth commands are allowed before authentication.
	NoAuth
	// NoMulti commands cannot stand inside a transaction.
	NoMulti
	// MovableKeys commands have keys that first, last and step cannot give.
	MovableKeys
	// NoAsyncLoading commands are refused during asynchronous loading.
	NoAsyncLoading
	// AllowBusy commands are allowed while a script runs too long.
	AllowBusy
	// SkipMonitor commands are not shown by MONITOR.
	SkipMonitor
	// SkipSlowLog commands never enter the slow log themselves.
	SkipSlowLog
	// NoMandatoryKeys commands may be called without keys although they take
	// some.
	NoMandatoryKeys
	// PubSub commands concern subscriptions and messages.
	PubSub
	// Internal commands are spoken between proven peers only and are hidden
	// from COMMAND and the documentation.
	Internal
)

// flagNames are the names in the order in which COMMAND lists them.
var flagNames = [...]struct {
	flag Flag
	name string
}{
	{Write, "write"},
	{ReadOnly, "readonly"},
	{DenyOOM, "denyoom"},
	{Admin, "admin"},
	{PubSub, "pubsub"},
	{NoScript, "noscript"},
	{Loading, "loading"},
	{Stale, "stale"},
	{SkipMonitor, "skip_monitor"},
	{SkipSlowLog, "skip_slowlog"},
	{Fast, "fast"},
	{NoAuth, "no_auth"},
	{NoMandatoryKeys, "no_mandatory_keys"},
	{NoAsyncLoading, "no_async_loading"},
	{NoMulti, "no_multi"},
	{MovableKeys, "movablekeys"},
	{AllowBusy, "allow_busy"},
}

// Has reports whether all flags of f are set.
func (f Flag) Has(g Flag) bool { return f&g == g }

// AppendNames appends the flag names that COMMAND shows.
func (f Flag) AppendNames(dst []string) []string {
	for _, n := range flagNames {
		if f&n.flag != 0 {
			dst = append(dst, n.name)
		}
	}
	return dst
}

// KeySpec says where a run of keys begins and ends (begin_search "index" and
// find_keys "range" or "keynum", the only kinds that the table needs).
type KeySpec struct {
	// Flags are Redis's key flags: RO, RW, OW or RM, then access, update,
	// insert, delete, variable_flags.
	Flags []string
	// Index is the position of the first key.
	Index int
	// LastKey is relative to Index (0: one key), or counted from the end of
	// the arguments when below 0 (-1: the last argument).
	LastKey int
	// Step is the distance between keys.
	Step int
	// KeyNum says that the number of keys stands at Index and the first key
	// behind it; LastKey means nothing then.
	KeyNum bool
}

// Arg describes one argument for COMMAND DOCS and for syntax lines.
type Arg struct {
	Name string
	// Type is Redis's: key, string, integer, double, pattern, unix-time,
	// pure-token, oneof or block.
	Type string
	// Token is the literal word in front of the value, or the whole argument
	// of a pure-token.
	Token string
	// Since is set when the argument is younger than its command.
	Since           string
	DeprecatedSince string
	// KeySpec is the index into the command's KeySpecs for arguments of type key.
	KeySpec  int
	Optional bool
	Multiple bool
	// MultipleToken says that the token of a Multiple argument is repeated too.
	MultipleToken bool
	Args          []Arg
}

// FullName is the name as COMMAND shows it: "get", "object|encoding".
func (c *Command) FullName() string {
	if c.Parent != nil {
		return c.Parent.Name + "|" + c.Name
	}
	return c.Name
}

// ArityOK reports whether n arguments, the name included, are acceptable.
func (c *Command) ArityOK(n int) bool {
	if c.Arity >= 0 {
		return n == c.Arity
	}
	return n >= -c.Arity
}
