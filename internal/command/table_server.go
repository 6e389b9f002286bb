package command

import "slices"

// serverCommands concern the node.
var serverCommands = []*Command{
	{
		ID: Memory, Name: "memory", Arity: -2, Group: "server", Since: "4.0.0",
		Summary: "Container of the commands about memory.", Complexity: "Depends on subcommand.",
		Subs: slices.Concat(memorySubs, memoryFigures),
	},
	{
		ID: Time, Name: "time", Arity: 1, Flags: Loading | Stale | Fast, Group: "server", Since: "2.6.0",
		Summary: "Returns the time of the node.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output"},
	},
	{
		ID: Role, Name: "role", Arity: 1, Flags: NoScript | Loading | Stale | Fast, Group: "server", Since: "2.8.12",
		Summary: "Returns the replication role of the node.", Complexity: "O(1)",
		Categories: []string{"@admin", "@dangerous"},
	},
	{
		ID: Info, Name: "info", Arity: -1, Flags: Loading | Stale, Group: "server", Since: "1.0.0",
		Summary: "Returns information and statistics.", Complexity: "O(1)",
		Categories: []string{"@dangerous"},
		Tips:       []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
		Args:       []Arg{arg("section", "string").optional().multiple()},
	},
	{
		ID: Config, Name: "config", Arity: -2, Group: "server", Since: "2.0.0",
		Summary: "Container of the commands about parameters.", Complexity: "Depends on subcommand.",
		Subs: configSubs,
	},
	{
		ID: Shutdown, Name: "shutdown", Arity: -1, Flags: Admin | NoScript | Loading | Stale | NoMulti | AllowBusy, Group: "server", Since: "1.0.0",
		Summary: "Stops the node.", Complexity: "O(1)",
		Args: []Arg{
			oneOf("nosave_save", word("nosave"), word("save")).optional(),
			word("now").since("7.0.0").optional(),
			word("force").since("7.0.0").optional(),
			word("abort").since("7.0.0").optional(),
		},
	},
}

// memorySubs are the subcommands of MEMORY.
var memorySubs = []*Command{
	{
		ID: MemoryHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "server", Since: "4.0.0",
		Summary: "Lists the subcommands.", Complexity: "O(1)",
	},
	{
		ID: MemoryUsage, Name: "usage", Arity: -3, Flags: ReadOnly, Group: "server", Since: "4.0.0",
		Summary: "Returns the bytes that a key and its value take.", Complexity: "O(1)",
		KeySpecs: []KeySpec{keyAt(2, "RO")},
		Args:     []Arg{keyArg, arg("count", "integer").token("SAMPLES").optional()},
	},
}

// memoryFigures are about the memory of the node.
var memoryFigures = []*Command{
	{
		ID: MemoryDoctor, Name: "doctor", Arity: 2, Group: "server", Since: "4.0.0",
		Summary: "Says in words whether the memory of the node has a problem.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
	},
	{
		ID: MemoryMallocStats, Name: "malloc-stats", Arity: 2, Group: "server", Since: "4.0.0",
		Summary: "Returns the figures of arena and Go runtime as text.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
	},
	{
		ID: MemoryPurge, Name: "purge", Arity: 2, Group: "server", Since: "4.0.0",
		Summary: "Gives free memory of the Go runtime back to the system.", Complexity: "Depends on how much memory the runtime holds",
		Tips: []string{"request_policy:all_shards", "response_policy:all_succeeded"},
	},
	{
		ID: MemoryStats, Name: "stats", Arity: 2, Group: "server", Since: "4.0.0",
		Summary: "Returns the memory of the node by what it is used for.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
	},
}

// configSubs are the subcommands of CONFIG.
var configSubs = []*Command{
	{
		ID: ConfigGet, Name: "get", Arity: -3, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.0.0",
		Summary: "Returns parameters that match patterns.", Complexity: "O(N) where N is the number of patterns",
		Args: []Arg{block("parameter", arg("parameter", "string")).multiple()},
	},
	{
		ID: ConfigHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "server", Since: "5.0.0",
		Summary: "Lists the subcommands.", Complexity: "O(1)",
	},
	{
		ID: ConfigResetStat, Name: "resetstat", Arity: 2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.0.0",
		Summary: "Sets the statistics back to zero.", Complexity: "O(1)",
	},
	{
		ID: ConfigRewrite, Name: "rewrite", Arity: 2, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.8.0",
		Summary: "Writes parameters that were set to the configuration file.", Complexity: "O(1)",
	},
	{
		ID: ConfigSet, Name: "set", Arity: -4, Flags: Admin | NoScript | Loading | Stale, Group: "server", Since: "2.0.0",
		Summary: "Sets parameters.", Complexity: "O(N) where N is the number of parameters",
		Tips: []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
		Args: []Arg{block("parameter_value", arg("parameter", "string"), arg("value", "string")).multiple()},
	},
}
