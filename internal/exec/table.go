package exec

import "github.com/ringcache/ringcache/internal/command"

// handlers are the commands over one held slot.
var handlers = [command.NumCommands]handler{
	command.Get:         get,
	command.GetEx:       getEx,
	command.GetDel:      getDel,
	command.GetSet:      getSet,
	command.MGet:        mget,
	command.StrLen:      strLen,
	command.Set:         set,
	command.SetNX:       setNX,
	command.SetEx:       setEx,
	command.PSetEx:      setEx,
	command.MSet:        mset,
	command.MSetNX:      msetNX,
	command.DelIfEq:     delIfEq,
	command.MSetEx:      msetEx,
	command.DelEx:       delEx,
	command.Digest:      digest,
	command.Append:      appendValue,
	command.GetRange:    getRange,
	command.SubStr:      getRange,
	command.SetRange:    setRange,
	command.Incr:        incr,
	command.Decr:        decr,
	command.IncrBy:      incrBy,
	command.DecrBy:      decrBy,
	command.IncrByFloat: incrByFloat,
	command.LCS:         lcs,
	command.SetBit:      setBit,
	command.GetBit:      getBit,
	command.BitCount:    bitCount,
	command.BitPos:      bitPos,
	command.BitOp:       bitOp,
	command.BitField:    bitField,
	command.BitFieldRO:  bitField,
	command.Del:         del,
	command.Unlink:      del,
	command.Exists:      exists,
	command.Touch:       touch,
	command.Type:        typeOf,
	command.Rename:      rename,
	command.RenameNX:    renameNX,
	command.Dump:        dump,
	command.Restore:     restore,
	command.Copy:        copyKey,
	command.Expire:      expire,
	command.PExpire:     expire,
	command.ExpireAt:    expire,
	command.PExpireAt:   expire,
	command.TTL:         ttl,
	command.PTTL:        ttl,
	command.ExpireTime:  ttl,
	command.PExpireTime: ttl,
	command.Persist:     persist,

	command.Object:         object,
	command.ObjectEncoding: object,
	command.ObjectFreq:     object,
	command.ObjectIdleTime: object,
	command.ObjectRefCount: object,
	command.Memory:         memory,
	command.MemoryUsage:    memory,
}

// keyless are the commands over the whole node. Containers stand here for
// HELP, unknown subcommands and subcommands with too few arguments, none of
// which has keys.
var keyless = [command.NumCommands]handler{
	command.Scan:         scan,
	command.Keys:         keys,
	command.DBSize:       dbSize,
	command.RandomKey:    randomKey,
	command.FlushAll:     flush,
	command.FlushDB:      flush,
	command.Wait:         wait,
	command.Time:         serverTime,
	command.Object:       object,
	command.ObjectHelp:   object,
	command.Memory:       memory,
	command.MemoryHelp:   memory,
	command.ScriptCmd:    script,
	command.ScriptExists: script,
	command.ScriptFlush:  script,
	command.ScriptHelp:   script,
	command.ScriptKill:   script,
	command.ScriptLoad:   script,
	command.MSetEx:       msetEx, // with a number of keys that is wrong
}

// HoldSafe reports whether a command without keys, or the answer to one whose
// keys are missing, may be executed while a slot is held: it asks nothing of the
// Engine that takes a lock.
func HoldSafe(id command.ID) bool {
	switch id {
	case command.Time, command.Wait, command.Object, command.ObjectHelp, command.Memory, command.MemoryHelp, command.MSetEx,
		command.Eval, command.EvalSHA, command.EvalRO, command.EvalSHARO,
		command.ScriptCmd, command.ScriptExists, command.ScriptFlush, command.ScriptHelp, command.ScriptKill, command.ScriptLoad:
		return true
	}
	return false
}
