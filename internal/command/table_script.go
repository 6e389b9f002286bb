package command

// scriptCommands run Lua.
var scriptCommands = []*Command{
	evalCommand(Eval, "eval", 0, "2.6.0", "Runs a Lua script.", "script"),
	evalCommand(EvalSHA, "evalsha", 0, "2.6.0", "Runs a Lua script that the node knows, by its SHA-1.", "sha1"),
	evalCommand(EvalRO, "eval_ro", ReadOnly, "7.0.0", "Runs a Lua script that may not write.", "script"),
	evalCommand(EvalSHARO, "evalsha_ro", ReadOnly, "7.0.0", "Runs a Lua script that may not write, by its SHA-1.", "sha1"),
	{
		ID: ScriptCmd, Name: "script", Arity: -2, Group: "scripting", Since: "2.6.0",
		Summary: "Container of the commands about scripts.", Complexity: "Depends on subcommand.",
		Subs: scriptSubs,
	},
}

func evalCommand(id ID, name string, flags Flag, since, summary, what string) *Command {
	access := []string{"RW", "access", "update"}
	if flags == ReadOnly {
		access = []string{"RO", "access"}
	}
	return &Command{
		ID: id, Name: name, Arity: -3, Flags: flags | NoScript | Stale | SkipMonitor | NoMandatoryKeys, Group: "scripting", Since: since,
		Summary: summary, Complexity: "Depends on the script",
		Categories: []string{"@scripting"},
		KeySpecs:   []KeySpec{keysCounted(2, 1, access...)},
		Args: []Arg{
			arg(what, "string"), arg("numkeys", "integer"),
			keyArg.optional().multiple(), arg("arg", "string").optional().multiple(),
		},
	}
}

// scriptSubs are the subcommands of SCRIPT.
var scriptSubs = []*Command{
	{
		ID: ScriptExists, Name: "exists", Arity: -3, Flags: NoScript, Group: "scripting", Since: "2.6.0",
		Summary: "Tells which scripts the node knows.", Complexity: "O(N) where N is the number of scripts",
		Categories: []string{"@scripting"},
		Tips:       []string{"request_policy:all_shards", "response_policy:agg_logical_and"},
		Args:       []Arg{arg("sha1", "string").multiple()},
	},
	{
		ID: ScriptFlush, Name: "flush", Arity: -2, Flags: NoScript, Group: "scripting", Since: "2.6.0",
		Summary: "Forgets all scripts.", Complexity: "O(N) where N is the number of scripts",
		Categories: []string{"@scripting"},
		Tips:       []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
		Args:       []Arg{oneOf("async", word("async"), word("sync")).since("6.2.0").optional()},
	},
	{
		ID: ScriptHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "scripting", Since: "5.0.0",
		Summary: "Lists the subcommands.", Complexity: "O(1)",
		Categories: []string{"@scripting"},
	},
	{
		ID: ScriptKill, Name: "kill", Arity: 2, Flags: NoScript | AllowBusy, Group: "scripting", Since: "2.6.0",
		Summary: "Would end a running script; scripts end by their own bounds first.", Complexity: "O(1)",
		Categories: []string{"@scripting"},
		Tips:       []string{"request_policy:all_shards", "response_policy:one_succeeded"},
	},
	{
		ID: ScriptLoad, Name: "load", Arity: 3, Flags: NoScript | Stale, Group: "scripting", Since: "2.6.0",
		Summary: "Compiles a script and keeps it for EVALSHA.", Complexity: "O(N) where N is the length of the script",
		Categories: []string{"@scripting"},
		Tips:       []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
		Args:       []Arg{arg("script", "string")},
	},
}
