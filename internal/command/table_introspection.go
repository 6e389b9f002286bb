package command

// introspectionCommands tell what the node has done and how long it took.
var introspectionCommands = []*Command{
	{
		ID: SlowLog, Name: "slowlog", Arity: -2, Group: "server", Since: "2.2.12",
		Summary: "Container of the commands about slow commands.", Complexity: "Depends on subcommand.",
		Subs: []*Command{
			{
				ID: SlowLogGet, Name: "get", Arity: -2, Flags: Admin | Loading | Stale, Group: "server", Since: "2.2.12",
				Summary: "Returns the latest slow commands.", Complexity: "O(N) where N is the number of entries returned",
				Tips: []string{"request_policy:all_nodes", "nondeterministic_output"},
				Args: []Arg{arg("count", "integer").optional()},
			},
			{
				ID: SlowLogHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "server", Since: "6.2.0",
				Summary: "Lists the subcommands.", Complexity: "O(1)",
			},
			{
				ID: SlowLogLen, Name: "len", Arity: 2, Flags: Admin | Loading | Stale, Group: "server", Since: "2.2.12",
				Summary: "Counts the slow commands that are kept.", Complexity: "O(1)",
				Tips: []string{"request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"},
			},
			{
				ID: SlowLogReset, Name: "reset", Arity: 2, Flags: Admin | Loading | Stale, Group: "server", Since: "2.2.12",
				Summary: "Forgets the slow commands.", Complexity: "O(N) where N is the number of entries in the slowlog",
				Tips: []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
			},
		},
	},
	{
		ID: CommandLog, Name: "commandlog", Arity: -2, Group: "server", Since: "Valkey 8.1.0",
		Summary: "Container of the commands about slow and large commands.", Complexity: "Depends on subcommand.",
		Subs: commandLogSubs,
	},
	{
		ID: Latency, Name: "latency", Arity: -2, Group: "server", Since: "2.8.13",
		Summary: "Container of the commands about latency.", Complexity: "Depends on subcommand.",
		Subs: latencySubs,
	},
	{
		ID: HotKeys, Name: "hotkeys", Arity: -2, Group: "server", Since: "8.6.0",
		Summary: "Container of the commands about hot keys, which are not tracked.", Complexity: "O(1)",
		Subs: []*Command{
			{
				ID: HotKeysGet, Name: "get", Arity: 2, Flags: Admin | NoScript, Group: "server", Since: "8.6.0",
				Summary: "Returns null: hot keys are not tracked.", Complexity: "O(1)",
			},
			{
				ID: HotKeysHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "server", Since: "8.6.0",
				Summary: "Lists the subcommands.", Complexity: "O(1)",
			},
			{
				ID: HotKeysReset, Name: "reset", Arity: 2, Flags: Admin | NoScript, Group: "server", Since: "8.6.0",
				Summary: "Forgets nothing: hot keys are not tracked.", Complexity: "O(1)",
			},
			{
				ID: HotKeysStart, Name: "start", Arity: -2, Flags: Admin | NoScript, Group: "server", Since: "8.6.0",
				Summary: "Refused: hot keys are not tracked.", Complexity: "O(1)",
				Args: []Arg{arg("option", "string").optional().multiple()},
			},
			{
				ID: HotKeysStop, Name: "stop", Arity: 2, Flags: Admin | NoScript, Group: "server", Since: "8.6.0",
				Summary: "Returns null: hot keys are not tracked.", Complexity: "O(1)",
			},
		},
	},
	{
		ID: Monitor, Name: "monitor", Arity: 1, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "1.0.0",
		Summary: "Shows every command that this node executes, until the connection ends.", Complexity: "O(1)", Conn: true,
	},
	{
		ID: Debug, Name: "debug", Arity: -2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "1.0.0",
		Summary: "Helps tests of clients: SLEEP and PROTOCOL. Refused unless enable-debug-command allows it.", Complexity: "Depends on subcommand.",
	},
}

var commandLogKind = oneOf("type", word("slow"), word("large-request"), word("large-reply"))

// commandLogSubs are the subcommands of COMMANDLOG.
var commandLogSubs = []*Command{
	{
		ID: CommandLogGet, Name: "get", Arity: 4, Flags: Admin | Loading | Stale, Group: "server", Since: "Valkey 8.1.0",
		Summary: "Returns the latest commands that were slow, or large in request or reply.", Complexity: "O(N) where N is the number of entries returned",
		Tips: []string{"request_policy:all_nodes", "nondeterministic_output"},
		Args: []Arg{arg("count", "integer"), commandLogKind},
	},
	{
		ID: CommandLogHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "server", Since: "Valkey 8.1.0",
		Summary: "Lists the subcommands.", Complexity: "O(1)",
	},
	{
		ID: CommandLogLen, Name: "len", Arity: 3, Flags: Admin | Loading | Stale, Group: "server", Since: "Valkey 8.1.0",
		Summary: "Counts the entries of a kind.", Complexity: "O(1)",
		Tips: []string{"request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"},
		Args: []Arg{commandLogKind},
	},
	{
		ID: CommandLogReset, Name: "reset", Arity: 3, Flags: Admin | Loading | Stale, Group: "server", Since: "Valkey 8.1.0",
		Summary: "Forgets the entries of a kind.", Complexity: "O(N) where N is the number of entries in the commandlog",
		Tips: []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
		Args: []Arg{commandLogKind},
	},
}

// latencySubs are the subcommands of LATENCY.
var latencySubs = []*Command{
	{
		ID: LatencyDoctor, Name: "doctor", Arity: 2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.13",
		Summary: "Says in words what was slow.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"},
	},
	{
		ID: LatencyGraph, Name: "graph", Arity: 3, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.13",
		Summary: "Draws the samples of an event.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"},
		Args: []Arg{arg("event", "string")},
	},
	{
		ID: LatencyHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "server", Since: "2.8.13",
		Summary: "Lists the subcommands.", Complexity: "O(1)",
	},
	{
		ID: LatencyHistogram, Name: "histogram", Arity: -2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "7.0.0",
		Summary: "Returns how long commands took, as cumulative counts.", Complexity: "O(N) where N is the number of commands with latency information being retrieved.",
		Tips: []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"},
		Args: []Arg{arg("command", "string").optional().multiple()},
	},
	{
		ID: LatencyHistory, Name: "history", Arity: 3, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.13",
		Summary: "Returns the samples of an event.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"},
		Args: []Arg{arg("event", "string")},
	},
	{
		ID: LatencyLatest, Name: "latest", Arity: 2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.13",
		Summary: "Returns the latest sample of every event.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"},
	},
	{
		ID: LatencyReset, Name: "reset", Arity: -2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.13",
		Summary: "Forgets the samples of all or of some events.", Complexity: "O(1)",
		Tips: []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
		Args: []Arg{arg("event", "string").optional().multiple()},
	},
}
