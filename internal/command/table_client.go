package command

// clientSubs are the subcommands of CLIENT.
var clientSubs = []*Command{
	{
		ID: ClientCapa, Name: "capa", Arity: -3, Flags: NoScript | Loading | Stale, Group: "connection", Since: "8.0.0",
		Summary: "Tells what this client can do: TRYAGAIN, repeat by itself what is answered so. Other words are ignored.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{arg("capability", "string").multiple()},
	},
	{
		ID: ClientGetName, Name: "getname", Arity: 2, Flags: NoScript | Loading | Stale, Group: "connection", Since: "2.6.9",
		Summary: "Returns the name of this connection.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: ClientHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "connection", Since: "5.0.0",
		Summary: "Lists the subcommands.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: ClientID, Name: "id", Arity: 2, Flags: NoScript | Loading | Stale, Group: "connection", Since: "5.0.0",
		Summary: "Returns the ID of this connection.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: ClientInfo, Name: "info", Arity: 2, Flags: NoScript | Loading | Stale, Group: "connection", Since: "6.2.0",
		Summary: "Describes this connection.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Tips: []string{"nondeterministic_output"}, Conn: true,
	},
	{
		ID: ClientKill, Name: "kill", Arity: -3, Flags: Admin | NoScript | Loading | Stale, Group: "connection", Since: "2.4.0",
		Summary: "Closes connections.", Complexity: "O(N) where N is the number of connections",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{
			oneOf("filter",
				arg("ip:port", "string").deprecated("2.8.12"),
				oneOf("new-format",
					arg("client-id", "integer").token("ID").since("2.8.12").optional(),
					oneOf("normal_master_slave_pubsub",
						word("normal"),
						word("master").since("3.2.0"),
						word("slave"),
						word("replica").since("5.0.0"),
						word("pubsub"),
					).token("TYPE").since("2.8.12").optional(),
					arg("username", "string").token("USER").optional(),
					arg("ip:port", "string").token("ADDR").optional(),
					arg("ip:port", "string").token("LADDR").since("6.2.0").optional(),
					arg("yes/no", "string").token("SKIPME").optional(),
				).multiple(),
			),
		},
	},
	{
		ID: ClientList, Name: "list", Arity: -2, Flags: Admin | NoScript | Loading | Stale, Group: "connection", Since: "2.4.0",
		Summary: "Lists the connections.", Complexity: "O(N) where N is the number of connections",
		Categories: []string{"@connection"}, Tips: []string{"nondeterministic_output"}, Conn: true,
		Args: []Arg{
			oneOf("normal_master_replica_pubsub",
				word("normal"),
				word("master"),
				word("replica"),
				word("pubsub"),
			).token("TYPE").since("5.0.0").optional(),
			block("id", arg("client-id", "integer").multiple()).token("ID").since("6.2.0").optional(),
		},
	},
	{
		ID: ClientNoEvict, Name: "no-evict", Arity: 3, Flags: Admin | NoScript | Loading | Stale, Group: "connection", Since: "7.0.0",
		Summary: "Keeps this connection when memory for clients runs short.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{oneOf("enabled", word("on"), word("off"))},
	},
	{
		ID: ClientNoTouch, Name: "no-touch", Arity: 3, Flags: NoScript | Loading | Stale, Group: "connection", Since: "7.2.0",
		Summary: "Keeps the commands of this connection from refreshing recency.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{oneOf("enabled", word("on"), word("off"))},
	},
	{
		ID: ClientReply, Name: "reply", Arity: 3, Flags: NoScript | Loading | Stale, Group: "connection", Since: "3.2.0",
		Summary: "Turns replies on, off, or off for one command.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{oneOf("on_off_skip", word("on"), word("off"), word("skip"))},
	},
	{
		ID: ClientSetInfo, Name: "setinfo", Arity: 4, Flags: NoScript | Loading | Stale, Group: "connection", Since: "7.2.0",
		Summary: "Sets the library name or version of this connection.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{
			oneOf("attr",
				arg("libname", "string").token("LIB-NAME"),
				arg("libver", "string").token("LIB-VER"),
			),
		},
	},
	{
		ID: ClientSetName, Name: "setname", Arity: 3, Flags: NoScript | Loading | Stale, Group: "connection", Since: "2.6.9",
		Summary: "Names this connection.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{arg("connection-name", "string")},
	},
}
