package command

// ringFlags are those of every subcommand of RING: it is for operators, works
// while a View may be stale, and may wait for other members.
const ringFlags = Admin | NoScript | Loading | Stale | NoMulti

// ringCommands hold the container RING, by which operators look at a cluster and
// change it. Redis has nothing of it.
var ringCommands = []*Command{
	{
		ID: Ring, Name: "ring", Arity: -2, Group: "cluster", Since: sinceFirst,
		Summary: "Container of the commands that look at a ring and change it.", Complexity: "Depends on subcommand.",
		Subs: []*Command{
			ringSub(RingChanges, "changes", 2, "Returns the changes that run in the cluster: slots and keys on their way.", "O(N) where N is the number of members"),
			ringSub(RingDrain, "drain", 3, "Lets a node hand everything over and leave.", "O(1)", nodeArg),
			ringSub(RingEvents, "events", -2, "Returns the latest events of this node, the oldest first.", "O(N) where N is the number of events returned",
				oneOf("which", arg("count", "integer"), arg("id", "integer").token("SINCE")).optional()),
			ringSub(RingGroup, "group", -5, "Pins the slots of hash tags to some nodes, one of them for each slot.", "O(N) where N is the number of tags",
				arg("name", "string"), arg("nodes", "string"), arg("tag", "string").multiple()),
			{
				ID: RingHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "cluster", Since: sinceFirst,
				Summary: "Lists the subcommands.", Complexity: "O(1)",
			},
			ringSub(RingMigrate, "migrate", -3, "Pauses or resumes the transfer of keys on all members, or sets its rates for each source.", "O(N) where N is the number of members",
				oneOf("what", word("pause"), word("resume"),
					block("rates", arg("keys-per-second", "integer"), arg("bytes-per-second", "integer").optional()).token("RATE"))),
			ringSub(RingNodes, "nodes", 2, "Returns all members with what they say of themselves.", "O(N) where N is the number of members"),
			ringSub(RingPin, "pin", 4, "Lets slots belong to a node, whatever the ring says.", "O(N) where N is the number of slots", slotsArg, nodeArg),
			ringSub(RingPins, "pins", 2, "Returns the pins.", "O(N) where N is the number of pins"),
			ringSub(RingPlan, "plan", -3, "Returns what adding, removing or weighting nodes would move, before anything does.", "O(N) where N is the number of slots",
				oneOf("change",
					block("add", arg("count", "integer").token("COUNT").optional(), arg("weight", "double").token("WEIGHT").optional(),
						arg("addr", "string").token("ADDR").optional().multiple().multipleToken()).token("ADD"),
					arg("node", "string").token("REMOVE").multiple(),
					block("weight", arg("node", "string"), arg("weight", "double")).token("WEIGHT").multiple(),
				)),
			ringSub(RingSlots, "slots", -2, "Returns slots with their owners, keys and bytes.", "O(N) where N is the number of slots",
				block("range", arg("first-slot", "integer"), arg("last-slot", "integer").optional()).optional()),
			ringSub(RingStatus, "status", 2, "Returns the cluster as a whole.", "O(N) where N is the number of members"),
			ringSub(RingUngroup, "ungroup", 3, "Takes the pins of a group away.", "O(N) where N is the number of pins", arg("name", "string")),
			ringSub(RingUnpin, "unpin", 3, "Takes the pins of slots away.", "O(N) where N is the number of slots", slotsArg),
			ringSub(RingWeight, "weight", 4, "Sets the weight of a node.", "O(1)", nodeArg, arg("weight", "double")),
		},
	},
}

var (
	nodeArg  = arg("node", "string")  // ID, the beginning of one, or address
	slotsArg = arg("slots", "string") // "5" or "5-9"
)

func ringSub(id ID, name string, arity int, summary, complexity string, args ...Arg) *Command {
	return &Command{ID: id, Name: name, Arity: arity, Flags: ringFlags, Group: "cluster", Since: sinceFirst,
		Summary: summary, Complexity: complexity, Tips: []string{"nondeterministic_output"}, Args: args}
}
