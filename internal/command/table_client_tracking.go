package command

// clientTrackingSubs are the subcommands of CLIENT about what a client caches.
var clientTrackingSubs = []*Command{
	{
		ID: ClientCaching, Name: "caching", Arity: 3, Flags: NoScript | Loading | Stale, Group: "connection", Since: "6.0.0",
		Summary: "Says whether the keys of the next command are tracked.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{oneOf("mode", word("yes"), word("no"))},
	},
	{
		ID: ClientGetRedir, Name: "getredir", Arity: 2, Flags: NoScript | Loading | Stale, Group: "connection", Since: "6.0.0",
		Summary: "Returns the ID of the connection that gets the invalidations of this one.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
	{
		ID: ClientTracking, Name: "tracking", Arity: -3, Flags: NoScript | Loading | Stale, Group: "connection", Since: "6.0.0",
		Summary: "Tells this connection when keys that it has read change.", Complexity: "O(1), with BCAST O(N) where N is the number of connections in that mode",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{
			oneOf("status", word("on"), word("off")),
			arg("client-id", "integer").token("REDIRECT").optional(),
			arg("prefix", "string").token("PREFIX").optional().multiple().multipleToken(),
			word("bcast").optional(),
			word("optin").optional(),
			word("optout").optional(),
			word("noloop").optional(),
		},
	},
	{
		ID: ClientTrackingInfo, Name: "trackinginfo", Arity: 2, Flags: NoScript | Loading | Stale, Group: "connection", Since: "6.2.0",
		Summary: "Describes the tracking of this connection.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
	},
}

// clientPauseSubs are the subcommands of CLIENT that hold connections up or let
// them go on.
var clientPauseSubs = []*Command{
	{
		ID: ClientPause, Name: "pause", Arity: -3, Flags: Admin | NoScript | Loading | Stale, Group: "connection", Since: "2.9.50",
		Summary: "Lets the commands of all connections wait for some time.", Complexity: "O(1)",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{
			arg("timeout", "integer"),
			oneOf("mode", word("write"), word("all")).since("6.2.0").optional(),
		},
	},
	{
		ID: ClientUnblock, Name: "unblock", Arity: -3, Flags: Admin | NoScript | Loading | Stale, Group: "connection", Since: "5.0.0",
		Summary: "Ends a command of another connection that blocks; none does.", Complexity: "O(log N) where N is the number of client connections",
		Categories: []string{"@connection"}, Conn: true,
		Args: []Arg{
			arg("client-id", "integer"),
			oneOf("timeout_error", word("timeout"), word("error")).optional(),
		},
	},
	{
		ID: ClientUnpause, Name: "unpause", Arity: 2, Flags: Admin | NoScript | Loading | Stale, Group: "connection", Since: "6.2.0",
		Summary: "Ends CLIENT PAUSE.", Complexity: "O(N) Where N is the number of paused clients",
		Categories: []string{"@connection"}, Conn: true,
	},
}
