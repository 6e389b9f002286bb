package command

// keyCommands work on keys whatever their value.
var keyCommands = []*Command{
	{
		ID: Del, Name: "del", Arity: -2, Flags: Write, Group: "generic", Since: "1.0.0",
		Summary: "Deletes keys.", Complexity: "O(N) where N is the number of keys",
		Categories: []string{"@keyspace"}, Tips: []string{"request_policy:multi_shard", "response_policy:agg_sum"},
		KeySpecs: []KeySpec{keysFrom(1, 1, "RM", "delete")},
		Args:     []Arg{keyArg.multiple()},
	},
	{
		ID: Unlink, Name: "unlink", Arity: -2, Flags: Write | Fast, Group: "generic", Since: "4.0.0",
		Summary: "Deletes keys, like DEL.", Complexity: "O(N) where N is the number of keys",
		Categories: []string{"@keyspace"}, Tips: []string{"request_policy:multi_shard", "response_policy:agg_sum"},
		KeySpecs: []KeySpec{keysFrom(1, 1, "RM", "delete")},
		Args:     []Arg{keyArg.multiple()},
	},
	{
		ID: Exists, Name: "exists", Arity: -2, Flags: ReadOnly | Fast, Group: "generic", Since: "1.0.0",
		Summary: "Counts how many of the given keys exist.", Complexity: "O(N) where N is the number of keys",
		Categories: []string{"@keyspace"}, Tips: []string{"request_policy:multi_shard", "response_policy:agg_sum"},
		KeySpecs: []KeySpec{keysFrom(1, 1, "RO")},
		Args:     []Arg{keyArg.multiple()},
	},
	{
		ID: Touch, Name: "touch", Arity: -2, Flags: ReadOnly | Fast, Group: "generic", Since: "3.2.1",
		Summary: "Refreshes the recency of keys and counts those that exist.", Complexity: "O(N) where N is the number of keys",
		Categories: []string{"@keyspace"}, Tips: []string{"request_policy:multi_shard", "response_policy:agg_sum"},
		KeySpecs: []KeySpec{keysFrom(1, 1, "RO")},
		Args:     []Arg{keyArg.multiple()},
	},
	{
		ID: Type, Name: "type", Arity: 2, Flags: ReadOnly | Fast, Group: "generic", Since: "1.0.0",
		Summary: "Returns the type of a value: string, or none.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RO")},
		Args:       []Arg{keyArg},
	},
	{
		ID: Rename, Name: "rename", Arity: 3, Flags: Write, Group: "generic", Since: "1.0.0",
		Summary: "Renames a key, replacing the new name.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RW", "access", "delete"), keyAt(2, "OW", "update")},
		Args:       []Arg{keyArg, arg("newkey", "key").spec(1)},
	},
	{
		ID: RenameNX, Name: "renamenx", Arity: 3, Flags: Write | Fast, Group: "generic", Since: "1.0.0",
		Summary: "Renames a key if the new name is free.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RW", "access", "delete"), keyAt(2, "OW", "insert")},
		Args:       []Arg{keyArg, arg("newkey", "key").spec(1)},
	},
	{
		ID: Copy, Name: "copy", Arity: -3, Flags: Write | DenyOOM, Group: "generic", Since: "6.2.0",
		Summary: "Copies a key.", Complexity: "O(N) where N is the length of the value",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RO", "access"), keyAt(2, "OW", "update")},
		Args: []Arg{
			arg("source", "key"),
			arg("destination", "key").spec(1),
			arg("destination-db", "integer").token("DB").optional(),
			word("replace").optional(),
		},
	},
	{
		ID: Dump, Name: "dump", Arity: 2, Flags: ReadOnly, Group: "generic", Since: "2.6.0",
		Summary: "Returns the value of a key as a payload for RESTORE on a node of ring-cache.", Complexity: "O(N) where N is the length of the value",
		Categories: []string{"@keyspace"}, Tips: []string{"nondeterministic_output"},
		KeySpecs: []KeySpec{keyAt(1, "RO", "access")},
		Args:     []Arg{keyArg},
	},
	{
		ID: Restore, Name: "restore", Arity: -4, Flags: Write | DenyOOM, Group: "generic", Since: "2.6.0",
		Summary: "Sets a key from a payload of DUMP.", Complexity: "O(N) where N is the length of the value",
		Categories: []string{"@keyspace", "@dangerous"},
		KeySpecs:   []KeySpec{keyAt(1, "OW", "update")},
		Args: []Arg{
			keyArg, arg("ttl", "integer"), arg("serialized-value", "string"),
			word("replace").since("3.0.0").optional(), word("absttl").since("5.0.0").optional(),
			arg("seconds", "integer").token("IDLETIME").since("5.0.0").optional(),
			arg("frequency", "integer").token("FREQ").since("5.0.0").optional(),
		},
	},
	{
		ID: Wait, Name: "wait", Arity: 3, Flags: NoScript, Group: "generic", Since: "3.0.0",
		Summary:    "Waits until so many successors have copies of everything that was written to this node, and returns how many have.",
		Complexity: "O(N) where N is the number of slots",
		Categories: []string{"@connection"},
		Tips:       []string{"request_policy:all_shards", "response_policy:agg_min"},
		Args:       []Arg{arg("numreplicas", "integer"), arg("timeout", "integer")},
	},
	{
		ID: Keys, Name: "keys", Arity: 2, Flags: ReadOnly, Group: "generic", Since: "1.0.0",
		Summary: "Lists the keys of this node that match a pattern.", Complexity: "O(N) where N is the number of keys on the node",
		Categories: []string{"@keyspace", "@dangerous"},
		Tips:       []string{"request_policy:all_shards", "nondeterministic_output_order"},
		Args:       []Arg{arg("pattern", "pattern")},
	},
	{
		ID: Scan, Name: "scan", Arity: -2, Flags: ReadOnly, Group: "generic", Since: "2.8.0",
		Summary: "Walks over the keys of this node in steps.", Complexity: "O(1) for each call, O(N) for a whole walk",
		Categories: []string{"@keyspace"}, Tips: []string{"nondeterministic_output", "request_policy:special"},
		Args: []Arg{
			arg("cursor", "integer"),
			arg("pattern", "pattern").token("MATCH").optional(),
			arg("count", "integer").token("COUNT").optional(),
			arg("type", "string").token("TYPE").since("6.0.0").optional(),
		},
	},
	{
		ID: RandomKey, Name: "randomkey", Arity: 1, Flags: ReadOnly, Group: "generic", Since: "1.0.0",
		Summary: "Returns a random key of this node.", Complexity: "O(1)",
		Categories: []string{"@keyspace"}, Tips: []string{"request_policy:all_shards", "nondeterministic_output"},
	},
	{
		ID: DBSize, Name: "dbsize", Arity: 1, Flags: ReadOnly | Fast, Group: "server", Since: "1.0.0",
		Summary: "Returns the number of keys on this node.", Complexity: "O(1)",
		Categories: []string{"@keyspace"}, Tips: []string{"request_policy:all_shards", "response_policy:agg_sum"},
	},
	{
		ID: FlushAll, Name: "flushall", Arity: -1, Flags: Write, Group: "server", Since: "1.0.0",
		Summary: "Deletes all keys of this node.", Complexity: "O(N) where N is the number of keys on the node",
		Categories: []string{"@keyspace", "@dangerous"},
		Tips:       []string{"request_policy:all_shards", "response_policy:all_succeeded"},
		Args:       []Arg{oneOf("async", word("async").since("4.0.0"), word("sync").since("6.2.0")).optional()},
	},
	{
		ID: FlushDB, Name: "flushdb", Arity: -1, Flags: Write, Group: "server", Since: "1.0.0",
		Summary: "Deletes all keys of this node.", Complexity: "O(N) where N is the number of keys on the node",
		Categories: []string{"@keyspace", "@dangerous"},
		Tips:       []string{"request_policy:all_shards", "response_policy:all_succeeded"},
		Args:       []Arg{oneOf("async", word("async").since("4.0.0"), word("sync").since("6.2.0")).optional()},
	},
	{
		ID: Object, Name: "object", Arity: -2, Group: "generic", Since: "2.2.3",
		Summary: "Container of the commands that look into a value.", Complexity: "Depends on subcommand.",
		Subs: objectSubs,
	},
}

// objectSubs are the subcommands of OBJECT.
var objectSubs = []*Command{
	{
		ID: ObjectEncoding, Name: "encoding", Arity: 3, Flags: ReadOnly, Group: "generic", Since: "2.2.3",
		Summary: "Returns the encoding that Redis would use for the value.", Complexity: "O(1)",
		Categories: []string{"@keyspace"}, Tips: []string{"nondeterministic_output"},
		KeySpecs: []KeySpec{keyAt(2, "RO")},
		Args:     []Arg{keyArg},
	},
	{
		ID: ObjectFreq, Name: "freq", Arity: 3, Flags: ReadOnly, Group: "generic", Since: "4.0.0",
		Summary: "Returns the access frequency of a key, under an LFU policy.", Complexity: "O(1)",
		Categories: []string{"@keyspace"}, Tips: []string{"nondeterministic_output"},
		KeySpecs: []KeySpec{keyAt(2, "RO")},
		Args:     []Arg{keyArg},
	},
	{
		ID: ObjectHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "generic", Since: "6.2.0",
		Summary: "Lists the subcommands.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
	},
	{
		ID: ObjectIdleTime, Name: "idletime", Arity: 3, Flags: ReadOnly, Group: "generic", Since: "2.2.3",
		Summary: "Returns the seconds since the last access of a key.", Complexity: "O(1)",
		Categories: []string{"@keyspace"}, Tips: []string{"nondeterministic_output"},
		KeySpecs: []KeySpec{keyAt(2, "RO")},
		Args:     []Arg{keyArg},
	},
	{
		ID: ObjectRefCount, Name: "refcount", Arity: 3, Flags: ReadOnly, Group: "generic", Since: "2.2.3",
		Summary: "Returns the number of references to the value, always 1.", Complexity: "O(1)",
		Categories: []string{"@keyspace"}, Tips: []string{"nondeterministic_output"},
		KeySpecs: []KeySpec{keyAt(2, "RO")},
		Args:     []Arg{keyArg},
	},
}
