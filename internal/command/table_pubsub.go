package command

const (
	subscribing = PubSub | NoScript | Loading | Stale
	publishing  = PubSub | Loading | Stale | Fast
)

var pubSubCategory = []string{"@pubsub"}

// pubSubCommands send messages to whoever listens. Nothing is kept.
var pubSubCommands = []*Command{
	{
		ID: Subscribe, Name: "subscribe", Arity: -2, Flags: subscribing, Group: "pubsub", Since: "2.0.0",
		Summary: "Listens to channels.", Complexity: "O(N) where N is the number of channels to subscribe to.",
		Categories: pubSubCategory, Conn: true,
		Args: []Arg{arg("channel", "string").multiple()},
	},
	{
		ID: Unsubscribe, Name: "unsubscribe", Arity: -1, Flags: subscribing, Group: "pubsub", Since: "2.0.0",
		Summary: "Stops to listen to channels, or to all.", Complexity: "O(N) where N is the number of channels",
		Categories: pubSubCategory, Conn: true,
		Args: []Arg{arg("channel", "string").optional().multiple()},
	},
	{
		ID: PSubscribe, Name: "psubscribe", Arity: -2, Flags: subscribing, Group: "pubsub", Since: "2.0.0",
		Summary: "Listens to the channels that match patterns.", Complexity: "O(N) where N is the number of patterns",
		Categories: pubSubCategory, Conn: true,
		Args: []Arg{block("pattern", arg("pattern", "pattern")).multiple()},
	},
	{
		ID: PUnsubscribe, Name: "punsubscribe", Arity: -1, Flags: subscribing, Group: "pubsub", Since: "2.0.0",
		Summary: "Stops to listen by patterns, or by all.", Complexity: "O(N) where N is the number of patterns",
		Categories: pubSubCategory, Conn: true,
		Args: []Arg{arg("pattern", "pattern").optional().multiple()},
	},
	{
		ID: SSubscribe, Name: "ssubscribe", Arity: -2, Flags: subscribing, Group: "pubsub", Since: "7.0.0",
		Summary: "Listens to shard channels, which live with their slot.", Complexity: "O(N) where N is the number of shard channels to subscribe to.",
		Categories: pubSubCategory, Conn: true,
		KeySpecs: []KeySpec{keysFrom(1, 1, notKey)},
		Args:     []Arg{arg("shardchannel", "string").multiple()},
	},
	{
		ID: SUnsubscribe, Name: "sunsubscribe", Arity: -1, Flags: subscribing, Group: "pubsub", Since: "7.0.0",
		Summary: "Stops to listen to shard channels, or to all.", Complexity: "O(N) where N is the number of shard channels",
		Categories: pubSubCategory, Conn: true,
		KeySpecs: []KeySpec{keysFrom(1, 1, notKey)},
		Args:     []Arg{arg("shardchannel", "string").optional().multiple()},
	},
	{
		ID: Publish, Name: "publish", Arity: 3, Flags: publishing, Group: "pubsub", Since: "2.0.0",
		Summary:    "Sends a message to whoever listens to the channel at any node; returns how many do at this one.",
		Complexity: "O(N+M) where N is the number of listeners and M that of all patterns",
		Categories: pubSubCategory,
		Args:       []Arg{arg("channel", "string"), arg("message", "string")},
	},
	{
		ID: SPublish, Name: "spublish", Arity: 3, Flags: publishing, Group: "pubsub", Since: "7.0.0",
		Summary: "Sends a message to whoever listens to the shard channel.", Complexity: "O(N) where N is the number of listeners",
		Categories: pubSubCategory,
		KeySpecs:   []KeySpec{keyAt(1, notKey)},
		Args:       []Arg{arg("shardchannel", "string"), arg("message", "string")},
	},
	{
		ID: PubSubCmd, Name: "pubsub", Arity: -2, Group: "pubsub", Since: "2.8.0",
		Summary: "Container of the commands about subscriptions.", Complexity: "Depends on subcommand.", Conn: true,
		Subs: pubSubSubs,
	},
}

// pubSubSubs are the subcommands of PUBSUB.
var pubSubSubs = []*Command{
	{
		ID: PubSubChannels, Name: "channels", Arity: -2, Flags: PubSub | Loading | Stale, Group: "pubsub", Since: "2.8.0",
		Summary: "Lists the channels of this node that somebody listens to.", Complexity: "O(N) where N is the number of channels",
		Categories: pubSubCategory, Conn: true,
		Args: []Arg{arg("pattern", "pattern").optional()},
	},
	{
		ID: PubSubHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "pubsub", Since: "6.2.0",
		Summary: "Lists the subcommands.", Complexity: "O(1)", Conn: true,
	},
	{
		ID: PubSubNumPat, Name: "numpat", Arity: 2, Flags: PubSub | Loading | Stale, Group: "pubsub", Since: "2.8.0",
		Summary: "Counts the patterns of this node.", Complexity: "O(1)",
		Categories: pubSubCategory, Conn: true,
	},
	{
		ID: PubSubNumSub, Name: "numsub", Arity: -2, Flags: PubSub | Loading | Stale, Group: "pubsub", Since: "2.8.0",
		Summary: "Counts who listens to channels at this node.", Complexity: "O(N) where N is the number of channels asked for",
		Categories: pubSubCategory, Conn: true,
		Args: []Arg{arg("channel", "string").optional().multiple()},
	},
	{
		ID: PubSubShardChannels, Name: "shardchannels", Arity: -2, Flags: PubSub | Loading | Stale, Group: "pubsub", Since: "7.0.0",
		Summary: "Lists the shard channels of this node that somebody listens to.", Complexity: "O(N) where N is the number of shard channels",
		Categories: pubSubCategory, Conn: true,
		Args: []Arg{arg("pattern", "pattern").optional()},
	},
	{
		ID: PubSubShardNumSub, Name: "shardnumsub", Arity: -2, Flags: PubSub | Loading | Stale, Group: "pubsub", Since: "7.0.0",
		Summary: "Counts who listens to shard channels at this node.", Complexity: "O(N) where N is the number of shard channels asked for",
		Categories: pubSubCategory, Conn: true,
		Args: []Arg{arg("shardchannel", "string").optional().multiple()},
	},
}
