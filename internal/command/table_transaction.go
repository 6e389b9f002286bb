package command

// transactionCommands execute several commands of one slot as one step.
var transactionCommands = []*Command{
	{
		ID: Multi, Name: "multi", Arity: 1, Flags: NoScript | Loading | Stale | Fast | AllowBusy, Group: "transactions", Since: "1.2.0",
		Summary: "Begins a transaction: the commands that follow wait for EXEC.", Complexity: "O(1)",
		Categories: []string{"@transaction"}, Conn: true,
	},
	{
		ID: Exec, Name: "exec", Arity: 1, Flags: NoScript | Loading | Stale | SkipSlowLog, Group: "transactions", Since: "1.2.0",
		Summary: "Executes the commands since MULTI as one step, unless a watched key was changed.", Complexity: "Depends on the commands",
		Categories: []string{"@transaction"}, Conn: true,
	},
	{
		ID: Discard, Name: "discard", Arity: 1, Flags: NoScript | Loading | Stale | Fast | AllowBusy, Group: "transactions", Since: "2.0.0",
		Summary: "Drops the commands since MULTI and ends all watches.", Complexity: "O(N) where N is the number of commands",
		Categories: []string{"@transaction"}, Conn: true,
	},
	{
		ID: Watch, Name: "watch", Arity: -2, Flags: NoScript | Loading | Stale | Fast | AllowBusy, Group: "transactions", Since: "2.2.0",
		Summary: "Lets EXEC fail if one of the keys is changed until then.", Complexity: "O(1) for every key",
		Categories: []string{"@transaction"},
		KeySpecs:   []KeySpec{keysFrom(1, 1, "RO")},
		Args:       []Arg{keyArg.multiple()},
	},
	{
		ID: Unwatch, Name: "unwatch", Arity: 1, Flags: NoScript | Loading | Stale | Fast | AllowBusy, Group: "transactions", Since: "2.2.0",
		Summary: "Ends all watches of the connection.", Complexity: "O(1)",
		Categories: []string{"@transaction"},
	},
}
