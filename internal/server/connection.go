package server

import (
	"strings"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// connection executes a command that concerns the connection itself.
func (s *Session) connection(cmd *command.Command, args [][]byte) {
	w := &s.w
	switch cmd.ID {
	case command.Ping:
		s.ping(args)
	case command.Echo:
		w.Bulk(args[1])
	case command.Hello:
		if len(args) < 4 || s.tarry(cmd, args) {
			s.hello(args)
		}
	case command.Auth:
		if s.tarry(cmd, args) {
			s.auth(args)
		}
	case command.Select:
		s.selectDB(args)
	case command.Quit:
		w.Simple("OK")
		s.closing = true
	case command.Reset:
		s.reset()
		w.Simple("RESET")
	case command.ReadOnlyCmd:
		s.change(func(p *profile) { p.readOnly = true })
		w.Simple("OK")
	case command.ReadWrite:
		s.change(func(p *profile) { p.readOnly = false })
		w.Simple("OK")
	case command.Asking:
		s.asking = true
		w.Simple("OK")
	case command.Multi, command.Exec, command.Discard:
		s.transaction(cmd, args)
	case command.ACL, command.ACLCat, command.ACLDelUser, command.ACLDryRun, command.ACLGenPass, command.ACLGetUser, command.ACLHelp,
		command.ACLList, command.ACLLoad, command.ACLLog, command.ACLSave, command.ACLSetUser, command.ACLUsers, command.ACLWhoAmI:
		s.acl(cmd, args)
	case command.CommandCmd:
		s.commandAll()
	case command.CommandCount, command.CommandDocs, command.CommandInfo, command.CommandList,
		command.CommandGetKeys, command.CommandGetKeysAndFlags, command.CommandHelp:
		s.command(cmd, args)
	case command.Subscribe, command.Unsubscribe, command.PSubscribe, command.PUnsubscribe, command.SSubscribe, command.SUnsubscribe:
		s.subscription(cmd, args)
	case command.PubSubChannels, command.PubSubNumPat, command.PubSubNumSub, command.PubSubShardChannels,
		command.PubSubShardNumSub, command.PubSubHelp:
		s.pubSub(cmd, args)
	case command.Monitor:
		s.monitor()
	default:
		s.client(cmd, args)
	}
}

func (s *Session) ping(args [][]byte) {
	if s.confined() && len(args) <= 2 { // where replies look like messages
		s.w.Array(2)
		s.w.BulkString("pong")
		if len(args) == 2 {
			s.w.Bulk(args[1])
		} else {
			s.w.BulkString("")
		}
		return
	}
	switch len(args) {
	case 1:
		s.w.Simple("PONG")
	case 2:
		s.w.Bulk(args[1])
	default:
		s.w.Error("ERR wrong number of arguments for 'ping' command")
	}
}

func (s *Session) selectDB(args [][]byte) {
	switch db, ok := resp.ParseInt(args[1]); {
	case !ok:
		s.w.Error("ERR value is not an integer or out of range")
	case db != int64(int32(db)):
		s.w.Error("ERR value is out of range, value must between -2147483648 and 2147483647")
	case db != 0:
		s.w.Error("ERR SELECT is not allowed in cluster mode")
	default:
		s.w.Simple("OK")
	}
}

// reset puts the session back into its first state, as RESET does: it has to
// authenticate again if there is a password. What a session that never
// authenticated has used of its allowance stays used.
func (s *Session) reset() {
	s.abandon()
	s.srv.hub.forget(s)
	s.endMonitor()
	s.profile.Store(&emptyProfile)
	s.w.Proto = emptyProfile.proto
	s.endTracking()
	s.asking, s.replyOff, s.skip, s.skipNext = false, false, false, false
	if s.trusted() {
		s.prepare()
	}
}

// isWord compares an argument with a word in upper case, in any case.
func isWord(arg []byte, word string) bool {
	return len(arg) == len(word) && strings.EqualFold(string(arg), word)
}

// help appends the reply of a HELP subcommand.
func (s *Session) help(name string, lines []string) {
	s.w.Array(len(lines) + 3)
	s.w.Simple(name + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")
	for _, l := range lines {
		s.w.Simple(l)
	}
	s.w.Simple("HELP")
	s.w.Simple("    Prints this help.")
}
