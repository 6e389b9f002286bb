package server

import (
	"bytes"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/glob"
)

// ShardKeeper is a Handler that knows where shard channels live. Without one, all
// live here.
type ShardKeeper interface {
	// KeepsShards tells why shard channels do not belong to this server, "" if
	// they do. It must not block.
	KeepsShards(s *Session, channels [][]byte) (refusal string)
}

// subscribing tells what SUBSCRIBE and its relatives do.
var subscribing = map[command.ID]struct {
	topic topic
	word  string
	ends  bool
}{
	command.Subscribe:    {onChannel, "subscribe", false},
	command.SSubscribe:   {onShard, "ssubscribe", false},
	command.PSubscribe:   {onPattern, "psubscribe", false},
	command.Unsubscribe:  {onChannel, "unsubscribe", true},
	command.SUnsubscribe: {onShard, "sunsubscribe", true},
	command.PUnsubscribe: {onPattern, "punsubscribe", true},
}

// confined tells whether the session may execute nothing but what concerns its
// subscriptions: it has some and speaks RESP2.
func (s *Session) confined() bool { return s.subs != nil && s.w.Proto != 3 && s.subs.total.Load() > 0 }

// mayListen lists what a confined session may execute.
func mayListen(id command.ID) bool {
	if _, ok := subscribing[id]; ok {
		return true
	}
	return id == command.Ping || id == command.Quit || id == command.Reset
}

// refuseConfined answers what a confined session may not execute. As for any EXEC
// that is refused, the transaction ends.
func (s *Session) refuseConfined(cmd *command.Command) {
	code := "ERR "
	if cmd.ID == command.Exec {
		code = "EXECABORT Transaction discarded because of: "
		s.abandon()
	}
	s.w.Error(code + "Can't execute '" + cmd.FullName() + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context")
}

// subscription executes SUBSCRIBE and its relatives.
func (s *Session) subscription(cmd *command.Command, args [][]byte) {
	does := subscribing[cmd.ID]
	names := args[1:]
	if does.ends {
		s.unsubscribe(does.topic, does.word, names)
		return
	}
	if refusal := s.maySubscribe(does.topic, names); refusal != "" {
		s.w.Error(refusal)
		return
	}
	for _, name := range names {
		n := s.srv.hub.add(s, does.topic, name)
		s.subscribed(does.word, name, n)
	}
	if does.topic != onShard || s.srv.keeper == nil {
		return
	}
	// The slot may have left between the look and the subscription.
	if refusal := s.srv.keeper.KeepsShards(s, names); refusal != "" {
		s.w.Buf = s.w.Buf[:s.mark]
		for _, name := range names {
			s.srv.hub.remove(s, onShard, string(name))
		}
		s.w.Error(refusal)
	}
}

// maySubscribe tells why the session cannot subscribe to names.
func (s *Session) maySubscribe(t topic, names [][]byte) (refusal string) {
	switch {
	case t == onShard && s.watch.inExec: // Redis lets the other two kinds pass
		return "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"
	case t == onPattern:
		for _, name := range names {
			if len(name) > glob.MaxPattern {
				return "RCTOOLARGE a pattern is longer than 1024 bytes; use a shorter one"
			}
		}
	case t == onShard && s.srv.keeper != nil:
		if refusal := s.srv.keeper.KeepsShards(s, names); refusal != "" {
			return refusal
		}
	}
	return s.srv.hub.room(s, names)
}

// unsubscribe ends the named subscriptions, or all of a kind if none is named.
// Messages that came before are put in front of the reply: afterwards there may
// be none.
func (s *Session) unsubscribe(t topic, word string, names [][]byte) {
	all := len(names) == 0
	if all {
		for _, name := range s.srv.hub.list(s, t) {
			names = append(names, []byte(name))
		}
	}
	left := make([]int64, len(names))
	for i, name := range names {
		left[i] = s.srv.hub.remove(s, t, string(name))
	}
	if !s.watch.inExec {
		s.takePushes()
	}
	for i, name := range names {
		s.subscribed(word, name, left[i])
	}
	if len(names) == 0 {
		s.w.Push(3)
		s.w.BulkString(word)
		s.w.Null()
		s.w.Int(s.srv.hub.remove(s, t, ""))
	}
}

// subscribed appends the message that answers for one name.
func (s *Session) subscribed(word string, name []byte, n int64) {
	s.w.Push(3)
	s.w.BulkString(word)
	s.w.Bulk(name)
	s.w.Int(n)
}

// pubSub executes a subcommand of PUBSUB.
func (s *Session) pubSub(cmd *command.Command, args [][]byte) {
	h, w := &s.srv.hub, &s.w
	switch cmd.ID {
	case command.PubSubChannels:
		s.listChannels(onChannel, args)
	case command.PubSubShardChannels:
		s.listChannels(onShard, args)
	case command.PubSubNumPat:
		_, _, patterns := h.counts(nil)
		w.Int(int64(patterns))
	case command.PubSubNumSub, command.PubSubShardNumSub:
		t := onChannel
		if cmd.ID == command.PubSubShardNumSub {
			t = onShard
		}
		w.Array(2 * len(args[2:]))
		for _, name := range args[2:] {
			w.Bulk(name)
			w.Int(int64(h.size(t, name)))
		}
	case command.PubSubHelp:
		s.help("PUBSUB", pubSubHelp)
	}
}

// listChannels answers CHANNELS and SHARDCHANNELS [pattern].
func (s *Session) listChannels(t topic, args [][]byte) {
	if len(args) > 3 {
		s.w.Error("ERR unknown subcommand or wrong number of arguments for '" + string(bytes.ToUpper(args[1])) + "'. Try PUBSUB HELP.")
		return
	}
	pattern, all := "", len(args) == 2
	if !all {
		if len(args[2]) > glob.MaxPattern {
			s.w.Error("RCTOOLARGE the pattern is longer than 1024 bytes; use a shorter one")
			return
		}
		pattern = string(args[2])
	}
	var names []string
	size := 0
	s.srv.hub.audiences(t, func(name string, _ int) {
		if size <= s.w.Limit && (all || matchName(pattern, name)) {
			names = append(names, name)
			size += len(name)
		}
	})
	s.w.Array(len(names))
	for _, name := range names {
		s.w.BulkString(name)
	}
	s.tooLong()
}

var pubSubHelp = []string{
	"CHANNELS [<pattern>]",
	"    Return the currently active channels matching a <pattern> (default: '*').",
	"NUMPAT",
	"    Return number of subscriptions to patterns.",
	"NUMSUB [<channel> ...]",
	"    Return the number of subscribers for the specified channels, excluding",
	"    pattern subscriptions(default: no channels).",
	"SHARDCHANNELS [<pattern>]",
	"    Return the currently active shard level channels matching a <pattern> (default: '*').",
	"SHARDNUMSUB [<shardchannel> ...]",
	"    Return the number of subscribers for the specified shard level channel(s)",
}
