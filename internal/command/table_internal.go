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
		Summary: "Answers PONG to a peer.", Complexity: "O(1)",
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
}
