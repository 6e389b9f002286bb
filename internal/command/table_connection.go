package command

import "slices"

// connectionCommands concern the connection itself; the server executes them.
var connectionCommands = []*Command{
	{
		ID: Ping, Name: "ping", Arity: -1, Flags: Fast, Group: "connection", Since: "1.0.0",
		Summary: "Answers PONG, or the given message.", Complexity: "O(1)",
		Categories: []string{"@connection"},
		Tips:       []string{"request_policy:all_shards", "response_policy:all_succeeded"}, Conn: true,
		Args: []Arg{arg("message", "string").optional()},
	},
	{
		ID: Echo, Name: "echo", Arity: 2, Flags: Loading | Stale | Fast, Group: "connection", Since: "1.0.0",
		Summary: "Returns the given message.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{arg("message", "string")},
	},
	{
		ID: Hello, Name: "hello", Arity: -1, Flags: NoScript | Loading | Stale | Fast | NoAuth | AllowBusy, Group: "connection", Since: "6.0.0",
		Summary: "Switches the protocol version, optionally with authentication and a name.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{
			block("arguments",
				arg("protover", "integer"),
				block("username_password", arg("username", "string"), arg("password", "string")).token("AUTH").optional(),
				arg("clientname", "string").token("SETNAME").optional(),
			).optional(),
		},
	},
	{
		ID: Auth, Name: "auth", Arity: -2, Flags: NoScript | Loading | Stale | Fast | NoAuth | AllowBusy, Group: "connection", Since: "1.0.0",
		Summary: "Authenticates the connection.", Complexity: "O(N) where N is the number of passwords of the user",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{arg("username", "string").since("6.0.0").optional(), arg("password", "string")},
	},
	{
		ID: Select, Name: "select", Arity: 2, Flags: Loading | Stale | Fast, Group: "connection", Since: "1.0.0",
		Summary: "Selects database 0, the only one there is.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{arg("index", "integer")},
	},
	{
		ID: Quit, Name: "quit", Arity: -1, Flags: NoScript | Loading | Stale | Fast | NoAuth | AllowBusy, Group: "connection", Since: "1.0.0",
		Summary: "Closes the connection.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: Reset, Name: "reset", Arity: 1, Flags: NoScript | Loading | Stale | Fast | NoAuth | AllowBusy, Group: "connection", Since: "6.2.0",
		Summary: "Puts the connection back into its first state.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: Client, Name: "client", Arity: -2, Group: "connection", Since: "2.4.0",
		Summary: "Container of the commands about client connections.", Complexity: "Depends on subcommand.",
		Conn: true,
		Subs: slices.Concat(clientSubs, clientTrackingSubs, clientPauseSubs),
	},
	{
		ID: CommandCmd, Name: "command", Arity: -1, Flags: Loading | Stale, Group: "server", Since: "2.8.13",
		Summary: "Describes all commands.", Complexity: "O(N) where N is the number of commands",
		Categories: []string{"@connection"}, Tips: []string{"nondeterministic_output_order"}, Conn: true,
		Subs: commandSubs,
	},
	{
		ID: ReadOnlyCmd, Name: "readonly", Arity: 1, Flags: Loading | Stale | Fast, Group: "cluster", Since: "3.0.0",
		Summary: "Lets this connection read from replicas.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: ReadWrite, Name: "readwrite", Arity: 1, Flags: Loading | Stale | Fast, Group: "cluster", Since: "3.0.0",
		Summary: "Lets this connection read from owners only.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: Asking, Name: "asking", Arity: 1, Flags: Fast, Group: "cluster", Since: "3.0.0",
		Summary: "Lets the next command pass after an ASK redirect.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
}

// commandSubs are the subcommands of COMMAND.
var commandSubs = []*Command{
	{
		ID: CommandCount, Name: "count", Arity: 2, Flags: Loading | Stale, Group: "server", Since: "2.8.13",
		Summary: "Returns the number of commands.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: CommandDocs, Name: "docs", Arity: -2, Flags: Loading | Stale, Group: "server", Since: "7.0.0",
		Summary: "Returns the documentation of commands.", Complexity: "O(N) where N is the number of commands to look up",
		Categories: []string{"@connection"}, Tips: []string{"nondeterministic_output_order"}, Conn: true,
		Args: []Arg{arg("command-name", "string").optional().multiple()},
	},
	{
		ID: CommandGetKeys, Name: "getkeys", Arity: -4, Flags: Loading | Stale, Group: "server", Since: "2.8.13",
		Summary: "Returns the keys of a full command.", Complexity: "O(N) where N is the number of arguments",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: CommandGetKeysAndFlags, Name: "getkeysandflags", Arity: -4, Flags: Loading | Stale, Group: "server", Since: "7.0.0",
		Summary: "Returns the keys of a full command and what is done to them.", Complexity: "O(N) where N is the number of arguments",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: CommandHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "server", Since: "5.0.0",
		Summary: "Lists the subcommands.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: CommandInfo, Name: "info", Arity: -2, Flags: Loading | Stale, Group: "server", Since: "2.8.13",
		Summary: "Describes the given commands, or all.", Complexity: "O(N) where N is the number of commands to look up",
		Categories: []string{"@connection"}, Tips: []string{"nondeterministic_output_order"}, Conn: true,
		Args: []Arg{arg("command-name", "string").optional().multiple()},
	},
	{
		ID: CommandList, Name: "list", Arity: -2, Flags: Loading | Stale, Group: "server", Since: "7.0.0",
		Summary: "Lists the names of the commands.", Complexity: "O(N) where N is the number of commands",
		Categories: []string{"@connection"}, Tips: []string{"nondeterministic_output_order"}, Conn: true,
		Args: []Arg{
			oneOf("filterby",
				arg("module-name", "string").token("MODULE"),
				arg("category", "string").token("ACLCAT"),
				arg("pattern", "pattern").token("PATTERN"),
			).token("FILTERBY").optional(),
		},
	},
}
