package command

// ID numbers a command or a subcommand. IDs are dense, so a handler table may
// be an array of NumCommands entries; they are not stable between releases and
// never cross the wire.
type ID uint16

// The commands. CommandCmd and ReadOnlyCmd carry a suffix because the bare
// names are the type Command and the flag ReadOnly.
const (
	None ID = iota

	// Connection: executed by the server itself.
	Ping
	Echo
	Hello
	Auth
	Select
	Quit
	Reset
	Client
	CommandCmd
	ReadOnlyCmd
	ReadWrite
	Asking
	Multi
	Exec
	Discard

	// Transactions: the node knows who watches what.
	Watch
	Unwatch

	// Strings.
	Get
	Set
	GetEx
	GetDel
	GetSet
	SetNX
	SetEx
	PSetEx
	MGet
	MSet
	MSetNX
	Append
	StrLen
	GetRange
	SetRange
	SubStr
	Incr
	Decr
	IncrBy
	DecrBy
	IncrByFloat
	DelIfEq
	MSetEx
	DelEx
	Digest
	LCS

	// Bitmaps.
	SetBit
	GetBit
	BitCount
	BitPos
	BitOp
	BitField
	BitFieldRO

	// Keys.
	Del
	Unlink
	Exists
	Touch
	Type
	Expire
	PExpire
	ExpireAt
	PExpireAt
	TTL
	PTTL
	ExpireTime
	PExpireTime
	Persist
	Rename
	RenameNX
	Copy
	Dump
	Restore
	Wait
	Keys
	Scan
	RandomKey
	DBSize
	FlushAll
	FlushDB
	Object

	// The node.
	Memory
	Time
	Role
	Info
	Config
	Shutdown
	Cluster

	// Between peers.
	RCHello
	RCAuth
	RCPing
	RCView
	RCRelease
	RCForward
	RCPublish
	RCTake
	RCTakeMany
	RCTaken
	RCHave
	RCPins
	RCRing
	RCStanding
	RCTenure
	RCCopy

	// Scripts.
	Eval
	EvalSHA
	EvalRO
	EvalSHARO
	ScriptCmd
	ScriptExists
	ScriptFlush
	ScriptHelp
	ScriptKill
	ScriptLoad

	// Users and their rules.
	ACL
	ACLCat
	ACLDelUser
	ACLDryRun
	ACLGenPass
	ACLGetUser
	ACLHelp
	ACLList
	ACLLoad
	ACLLog
	ACLSave
	ACLSetUser
	ACLUsers
	ACLWhoAmI

	// Subcommands of CLIENT.
	ClientID
	ClientSetName
	ClientGetName
	ClientSetInfo
	ClientInfo
	ClientList
	ClientNoEvict
	ClientNoTouch
	ClientKill
	ClientReply
	ClientTracking
	ClientCaching
	ClientTrackingInfo
	ClientGetRedir
	ClientPause
	ClientUnpause
	ClientUnblock
	ClientHelp
	ClientCapa

	// Subcommands of COMMAND.
	CommandCount
	CommandDocs
	CommandInfo
	CommandGetKeys
	CommandGetKeysAndFlags
	CommandList
	CommandHelp

	// Subcommands of OBJECT.
	ObjectEncoding
	ObjectFreq
	ObjectIdleTime
	ObjectRefCount
	ObjectHelp

	// Subcommands of MEMORY.
	MemoryUsage
	MemoryStats
	MemoryDoctor
	MemoryPurge
	MemoryMallocStats
	MemoryHelp

	// Subcommands of CONFIG.
	ConfigGet
	ConfigSet
	ConfigResetStat
	ConfigRewrite
	ConfigHelp

	// Subcommands of CLUSTER.
	ClusterSlots
	ClusterShards
	ClusterNodes
	ClusterInfo
	ClusterMyID
	ClusterMyShardID
	ClusterKeySlot
	ClusterCountKeysInSlot
	ClusterGetKeysInSlot
	ClusterMeet
	ClusterLinks
	ClusterReplicas
	ClusterSlaves
	ClusterHelp
	ClusterAddSlots
	ClusterAddSlotsRange
	ClusterDelSlots
	ClusterDelSlotsRange
	ClusterSetSlot
	ClusterFailover
	ClusterForget
	ClusterReplicate
	ClusterReset
	ClusterFlushSlots
	ClusterBumpEpoch
	ClusterSaveConfig
	ClusterSetConfigEpoch
	ClusterCountFailureReports
	ClusterSlotStats

	// What the node tells of its own work.
	SlowLog
	SlowLogGet
	SlowLogLen
	SlowLogReset
	SlowLogHelp
	CommandLog
	CommandLogGet
	CommandLogLen
	CommandLogReset
	CommandLogHelp
	Latency
	LatencyDoctor
	LatencyGraph
	LatencyHistogram
	LatencyHistory
	LatencyLatest
	LatencyReset
	LatencyHelp
	HotKeys
	HotKeysGet
	HotKeysStart
	HotKeysStop
	HotKeysReset
	HotKeysHelp
	Debug
	Monitor

	// Messages.
	Subscribe
	Unsubscribe
	PSubscribe
	PUnsubscribe
	SSubscribe
	SUnsubscribe
	Publish
	SPublish
	PubSubCmd
	PubSubChannels
	PubSubNumPat
	PubSubNumSub
	PubSubShardChannels
	PubSubShardNumSub
	PubSubHelp

	// The ring, for operators.
	Ring
	RingChanges
	RingDrain
	RingEvents
	RingGroup
	RingHelp
	RingMigrate
	RingNodes
	RingPin
	RingPins
	RingPlan
	RingSlots
	RingStatus
	RingUngroup
	RingUnpin
	RingWeight

	// NumCommands is the number of IDs, None included.
	NumCommands
)
