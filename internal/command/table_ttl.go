package command

// ttlCommands read and change deadlines.
var ttlCommands = []*Command{
	{
		ID: Expire, Name: "expire", Arity: -3, Flags: Write | Fast, Group: "generic", Since: "1.0.0",
		Summary: "Sets the time to live of a key in seconds.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RW", "update")},
		Args:       []Arg{keyArg, arg("seconds", "integer"), expireCondition},
	},
	{
		ID: PExpire, Name: "pexpire", Arity: -3, Flags: Write | Fast, Group: "generic", Since: "2.6.0",
		Summary: "Sets the time to live of a key in milliseconds.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RW", "update")},
		Args:       []Arg{keyArg, arg("milliseconds", "integer"), expireCondition},
	},
	{
		ID: ExpireAt, Name: "expireat", Arity: -3, Flags: Write | Fast, Group: "generic", Since: "1.2.0",
		Summary: "Sets the deadline of a key as Unix time in seconds.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RW", "update")},
		Args:       []Arg{keyArg, arg("unix-time-seconds", "unix-time"), expireCondition},
	},
	{
		ID: PExpireAt, Name: "pexpireat", Arity: -3, Flags: Write | Fast, Group: "generic", Since: "2.6.0",
		Summary: "Sets the deadline of a key as Unix time in milliseconds.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RW", "update")},
		Args:       []Arg{keyArg, arg("unix-time-milliseconds", "unix-time"), expireCondition},
	},
	{
		ID: TTL, Name: "ttl", Arity: 2, Flags: ReadOnly | Fast, Group: "generic", Since: "1.0.0",
		Summary: "Returns the remaining time to live in seconds.", Complexity: "O(1)",
		Categories: []string{"@keyspace"}, Tips: []string{"nondeterministic_output"},
		KeySpecs: []KeySpec{keyAt(1, "RO", "access")},
		Args:     []Arg{keyArg},
	},
	{
		ID: PTTL, Name: "pttl", Arity: 2, Flags: ReadOnly | Fast, Group: "generic", Since: "2.6.0",
		Summary: "Returns the remaining time to live in milliseconds.", Complexity: "O(1)",
		Categories: []string{"@keyspace"}, Tips: []string{"nondeterministic_output"},
		KeySpecs: []KeySpec{keyAt(1, "RO", "access")},
		Args:     []Arg{keyArg},
	},
	{
		ID: ExpireTime, Name: "expiretime", Arity: 2, Flags: ReadOnly | Fast, Group: "generic", Since: "7.0.0",
		Summary: "Returns the deadline of a key as Unix time in seconds.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RO", "access")},
		Args:       []Arg{keyArg},
	},
	{
		ID: PExpireTime, Name: "pexpiretime", Arity: 2, Flags: ReadOnly | Fast, Group: "generic", Since: "7.0.0",
		Summary: "Returns the deadline of a key as Unix time in milliseconds.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RO", "access")},
		Args:       []Arg{keyArg},
	},
	{
		ID: Persist, Name: "persist", Arity: 2, Flags: Write | Fast, Group: "generic", Since: "2.2.0",
		Summary: "Removes the expiration of a key.", Complexity: "O(1)",
		Categories: []string{"@keyspace"},
		KeySpecs:   []KeySpec{keyAt(1, "RW", "update")},
		Args:       []Arg{keyArg},
	},
}

// expireCondition is the optional last argument of the commands that set a
// deadline.
var expireCondition = oneOf("condition", word("nx"), word("xx"), word("gt"), word("lt")).since("7.0.0").optional()
