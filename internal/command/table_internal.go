package command

// internalCommands are spoken between proven peers only. RC.HELLO and RC.AUTH
// are how a peer proves itself, so they are allowed before authentication.
var internalCommands = []*Command{
	{
		ID: RCHello, Name: "rc.hello", Arity: -5, Flags: NoScript | Loading | Stale | Fast | NoAuth | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Opens the proof of the cluster secret.", Complexity: "O(1)",
		Args: []Arg{
			arg("protocol", "integer"), arg("cluster", "string"), arg("node-id", "string"), arg("nonce", "string"),
		},
	},
	{
		ID: RCAuth, Name: "rc.auth", Arity: -2, Flags: NoScript | Loading | Stale | Fast | NoAuth | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Closes the proof of the cluster secret.", Complexity: "O(1)",
		Args: []Arg{arg("proof", "string")},
	},
	{
		ID: RCPing, Name: "rc.ping", Arity: -1, Flags: NoScript | Loading | Stale | Fast | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Answers PONG to a peer, with DATA once it has got at a shard of the data.", Complexity: "O(1)",
		Args: []Arg{word("data").optional()},
	},
	{
		ID: RCView, Name: "rc.view", Arity: -1, Flags: NoScript | Loading | Stale | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Returns the view of this node in its canonical encoding.", Complexity: "O(N) where N is the number of members",
	},
	{
		ID: RCRelease, Name: "rc.release", Arity: -3, Flags: NoScript | Loading | Stale | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Asks this node to agree that the peer serves the given slots.", Complexity: "O(N) where N is the number of slots",
		Args: []Arg{arg("view", "string"), arg("ranges", "string")},
	},
	{
		ID: RCForward, Name: "rc.forward", Arity: -3, Flags: NoScript | NoMulti | MovableKeys | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Executes a command on behalf of a peer if this node serves its slot.", Complexity: "that of the command",
		Args: []Arg{arg("view-hash", "string"), arg("command", "string"), arg("arg", "string").optional().multiple()},
	},
	{
		ID: RCPublish, Name: "rc.publish", Arity: -3, Flags: NoScript | Loading | Stale | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Gives messages of a peer to whoever listens at this node.", Complexity: "O(N) where N is the number of listeners",
		Args: []Arg{block("message", arg("channel", "string"), arg("message", "string")).multiple()},
	},
	{
		ID: RCTake, Name: "rc.take", Arity: -5, Flags: NoScript | Loading | Stale | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Hands keys of a slot that was ceded to the peer over to it.", Complexity: "O(N) where N is the number of keys",
		Args: []Arg{arg("slot", "integer"), arg("boot", "integer"), arg("ask", "integer"), arg("key", "string").multiple()},
	},
	{
		ID: RCTakeMany, Name: "rc.takemany", Arity: -7, Flags: NoScript | Loading | Stale | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Hands what is in slots that were ceded to the peer over to it.", Complexity: "O(N log N) where N is the number of keys in the slots",
		Args: []Arg{
			arg("boot", "integer"), arg("keys", "integer"), arg("bytes", "integer"), arg("each", "integer"),
			block("source", arg("slot", "integer"), arg("ask", "integer")).multiple(),
		},
	},
	{
		ID: RCTaken, Name: "rc.taken", Arity: 3, Flags: NoScript | Loading | Stale | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Says that ceded slots need not be kept for the peer any more.", Complexity: "O(N) where N is what is left in them",
		Args: []Arg{arg("boot", "integer"), arg("ranges", "string")},
	},
	{
		ID: RCHave, Name: "rc.have", Arity: -5, Flags: NoScript | Loading | Stale | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Says which keys of a slot that was ceded to the peer it has already: they are forgotten here.", Complexity: "O(N) where N is the number of keys",
		Args: []Arg{arg("slot", "integer"), arg("boot", "integer"), arg("ask", "integer"), arg("key", "string").multiple()},
	},
	{
		ID: RCPins, Name: "rc.pins", Arity: -2, Flags: NoScript | Loading | Stale | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Exchanges pins with a peer.", Complexity: "O(N) where N is the number of pins",
		Args: []Arg{arg("digest", "string"), arg("records", "string").optional()},
	},
	{
		ID: RCRing, Name: "rc.ring", Arity: -2, Flags: NoScript | Loading | Stale | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Asks this node for its figures, or passes on what an operator asked a peer for.", Complexity: "Depends on what is asked",
		Args: []Arg{arg("what", "string"), arg("arg", "string").optional().multiple()},
	},
	{
		ID: RCStanding, Name: "rc.standing", Arity: -1, Flags: NoScript | Loading | Stale | Fast | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Tells a peer that joins how many keys this node serves, and which part of its slots the peer still owns.", Complexity: "O(1)",
	},
	{
		ID: RCTenure, Name: "rc.tenure", Arity: 2, Flags: NoScript | Loading | Stale | Fast | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Returns for how many milliseconds the peer's process has been in all views of this node.", Complexity: "O(1)",
		Args: []Arg{arg("boot", "integer")},
	},
	{
		ID: RCCopy, Name: "rc.copy", Arity: -10, Flags: NoScript | Loading | Stale | NoMulti | Internal,
		Group: "internal", Since: sinceFirst,
		Summary: "Gives this node copies of what the peer serves.", Complexity: "O(N) where N is the number of records",
		Args: []Arg{
			arg("node-id", "string"), arg("boot", "integer"), arg("stream", "integer"), arg("number", "integer"), arg("sent", "integer"), arg("age", "integer"),
			arg("count", "integer"), arg("sum", "integer"), arg("heads", "string"), arg("data", "string").optional().multiple(),
		},
	},
}
