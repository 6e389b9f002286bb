package command

import "slices"

// clusterCommands hold the container CLUSTER.
var clusterCommands = []*Command{
	{
		ID: Cluster, Name: "cluster", Arity: -2, Group: "cluster", Since: "3.0.0",
		Summary: "Container of the commands about the cluster.", Complexity: "Depends on subcommand.",
		Subs: slices.Concat(clusterReadSubs, clusterAssignSubs),
	},
}

// clusterReadSubs describe the cluster or bring nodes into it.
var clusterReadSubs = []*Command{
	{
		ID: ClusterCountKeysInSlot, Name: "countkeysinslot", Arity: 3, Flags: Stale, Group: "cluster", Since: "3.0.0",
		Summary: "Counts the keys of a slot on this node.", Complexity: "O(1)",
		Args: []Arg{arg("slot", "integer")},
	},
	{
		ID: ClusterGetKeysInSlot, Name: "getkeysinslot", Arity: 4, Flags: Stale, Group: "cluster", Since: "3.0.0",
		Summary: "Returns keys of a slot on this node.", Complexity: "O(N) where N is the number of keys asked for",
		Tips: []string{"nondeterministic_output"},
		Args: []Arg{arg("slot", "integer"), arg("count", "integer")},
	},
	{
		ID: ClusterHelp, Name: "help", Arity: 2, Flags: Loading | Stale, Group: "cluster", Since: "5.0.0",
		Summary: "Lists the subcommands.", Complexity: "O(1)",
	},
	{
		ID: ClusterInfo, Name: "info", Arity: 2, Flags: Stale, Group: "cluster", Since: "3.0.0",
		Summary: "Returns the state of the cluster.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output"},
	},
	{
		ID: ClusterKeySlot, Name: "keyslot", Arity: 3, Flags: Stale, Group: "cluster", Since: "3.0.0",
		Summary: "Returns the slot of a key.", Complexity: "O(N) where N is the length of the key",
		Args: []Arg{arg("key", "string")},
	},
	{
		ID: ClusterLinks, Name: "links", Arity: 2, Flags: Stale, Group: "cluster", Since: "7.0.0",
		Summary: "Returns the connections between this node and its peers.", Complexity: "O(N) where N is the total number of Cluster nodes",
		Tips: []string{"nondeterministic_output"},
	},
	{
		ID: ClusterMeet, Name: "meet", Arity: -4, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Brings another node into the cluster.", Complexity: "O(1)",
		Args: []Arg{
			arg("ip", "string"),
			arg("port", "integer"),
			arg("cluster_bus_port", "integer").since("4.0.0").optional(),
		},
	},
	{
		ID: ClusterMyID, Name: "myid", Arity: 2, Flags: Stale, Group: "cluster", Since: "3.0.0",
		Summary: "Returns the ID of this node.", Complexity: "O(1)",
	},
	{
		ID: ClusterMyShardID, Name: "myshardid", Arity: 2, Flags: Stale, Group: "cluster", Since: "7.2.0",
		Summary: "Returns the shard ID of this node.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output"},
	},
	{
		ID: ClusterNodes, Name: "nodes", Arity: 2, Flags: Stale, Group: "cluster", Since: "3.0.0",
		Summary: "Returns the nodes in the text format of Redis Cluster.", Complexity: "O(N) where N is the total number of Cluster nodes",
		Tips: []string{"nondeterministic_output"},
	},
	{
		ID: ClusterReplicas, Name: "replicas", Arity: 3, Flags: Admin | Stale, Group: "cluster", Since: "5.0.0",
		Summary: "Lists the replicas of a node.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output"},
		Args: []Arg{arg("node-id", "string")},
	},
	{
		ID: ClusterShards, Name: "shards", Arity: 2, Flags: Stale, Group: "cluster", Since: "7.0.0",
		Summary: "Returns nodes with their slot ranges.", Complexity: "O(N) where N is the total number of cluster nodes",
		Tips: []string{"nondeterministic_output"},
	},
	{
		ID: ClusterSlaves, Name: "slaves", Arity: 3, Flags: Admin | Stale, Group: "cluster", Since: "3.0.0",
		Summary: "Lists the replicas of a node.", Complexity: "O(1)",
		DeprecatedSince: "5.0.0", ReplacedBy: "CLUSTER REPLICAS",
		Tips: []string{"nondeterministic_output"},
		Args: []Arg{arg("node-id", "string")},
	},
	{
		ID: ClusterSlotStats, Name: "slot-stats", Arity: -4, Flags: Loading | Stale, Group: "cluster", Since: "8.2.0",
		Summary: "Returns how many keys and bytes slots hold and, with cluster-slot-stats-enabled, the time and traffic of their commands, by number or in order of one of these.", Complexity: "O(N) where N is the number of slots; with ORDERBY O(N*log(N)) of all slots",
		Tips: []string{"nondeterministic_output", "request_policy:all_shards"},
		Args: []Arg{oneOf("filter",
			block("slotsrange", arg("start-slot", "integer"), arg("end-slot", "integer")).token("SLOTSRANGE"),
			block("orderby", arg("metric", "string"), arg("limit", "integer").token("LIMIT").optional(), oneOf("order", word("asc"), word("desc")).optional()).token("ORDERBY"),
		)},
	},
	{
		ID: ClusterSlots, Name: "slots", Arity: 2, Flags: Stale, Group: "cluster", Since: "3.0.0",
		Summary: "Returns slot ranges and their nodes.", Complexity: "O(N) where N is the total number of Cluster nodes",
		DeprecatedSince: "7.0.0", ReplacedBy: "CLUSTER SHARDS",
		Tips: []string{"nondeterministic_output"},
	},
}

// clusterAssignSubs move slots and roles by hand in Redis. They are known here
// so that they can be refused with a clear error: placement decides.
var clusterAssignSubs = []*Command{
	{
		ID: ClusterAddSlots, Name: "addslots", Arity: -3, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: placement assigns slots.", Complexity: "O(N) where N is the total number of hash slot arguments",
		Args: []Arg{arg("slot", "integer").multiple()},
	},
	{
		ID: ClusterAddSlotsRange, Name: "addslotsrange", Arity: -4, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "7.0.0",
		Summary: "Refused: placement assigns slots.", Complexity: "O(N) where N is the number of slots in the ranges",
		Args: []Arg{
			block("start-slot_end-slot", arg("start-slot", "integer"), arg("end-slot", "integer")).multiple(),
		},
	},
	{
		ID: ClusterBumpEpoch, Name: "bumpepoch", Arity: 2, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: epochs follow the members.", Complexity: "O(1)",
		Tips: []string{"nondeterministic_output"},
	},
	{
		ID: ClusterCountFailureReports, Name: "count-failure-reports", Arity: 3, Flags: Admin | Stale, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: failure detection keeps no reports per node.", Complexity: "O(N) where N is the number of failure reports",
		Tips: []string{"nondeterministic_output"},
		Args: []Arg{arg("node-id", "string")},
	},
	{
		ID: ClusterDelSlots, Name: "delslots", Arity: -3, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: placement assigns slots.", Complexity: "O(N) where N is the total number of hash slot arguments",
		Args: []Arg{arg("slot", "integer").multiple()},
	},
	{
		ID: ClusterDelSlotsRange, Name: "delslotsrange", Arity: -4, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "7.0.0",
		Summary: "Refused: placement assigns slots.", Complexity: "O(N) where N is the number of slots in the ranges",
		Args: []Arg{
			block("start-slot_end-slot", arg("start-slot", "integer"), arg("end-slot", "integer")).multiple(),
		},
	},
	{
		ID: ClusterFailover, Name: "failover", Arity: -2, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: failover is automatic.", Complexity: "O(1)",
		Args: []Arg{oneOf("options", word("force"), word("takeover")).optional()},
	},
	{
		ID: ClusterFlushSlots, Name: "flushslots", Arity: 2, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: placement assigns slots.", Complexity: "O(1)",
	},
	{
		ID: ClusterForget, Name: "forget", Arity: 3, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: nodes leave by themselves.", Complexity: "O(1)",
		Args: []Arg{arg("node-id", "string")},
	},
	{
		ID: ClusterReplicate, Name: "replicate", Arity: 3, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: every node is an owner.", Complexity: "O(1)",
		Args: []Arg{arg("node-id", "string")},
	},
	{
		ID: ClusterReset, Name: "reset", Arity: -2, Flags: Admin | NoScript | Stale, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: nodes leave by themselves.", Complexity: "O(N) where N is the number of known nodes",
		Args: []Arg{oneOf("hard_soft", word("hard"), word("soft")).optional()},
	},
	{
		ID: ClusterSaveConfig, Name: "saveconfig", Arity: 2, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: there is no cluster file.", Complexity: "O(1)",
	},
	{
		ID: ClusterSetConfigEpoch, Name: "set-config-epoch", Arity: 3, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: epochs follow the members.", Complexity: "O(1)",
		Args: []Arg{arg("config-epoch", "integer")},
	},
	{
		ID: ClusterSetSlot, Name: "setslot", Arity: -4, Flags: Admin | Stale | NoAsyncLoading, Group: "cluster", Since: "3.0.0",
		Summary: "Refused: placement assigns slots.", Complexity: "O(1)",
		Args: []Arg{
			arg("slot", "integer"),
			oneOf("subcommand",
				arg("node-id", "string").token("IMPORTING"),
				arg("node-id", "string").token("MIGRATING"),
				arg("node-id", "string").token("NODE"),
				word("stable"),
			),
		},
	},
}
