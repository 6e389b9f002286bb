package server

import (
	"fmt"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// client executes a subcommand of CLIENT.
func (s *Session) client(cmd *command.Command, args [][]byte) {
	w := &s.w
	switch cmd.ID {
	case command.ClientID:
		w.Int(int64(s.id))
	case command.ClientGetName:
		if name := s.Name(); name != "" {
			w.BulkString(name)
		} else {
			w.Null()
		}
	case command.ClientSetName:
		if fault := nameFault(args[2], errBadName); fault != "" {
			w.Error(fault)
			return
		}
		s.change(func(p *profile) { p.name = string(args[2]) })
		w.Simple("OK")
	case command.ClientSetInfo:
		s.clientSetInfo(args)
	case command.ClientInfo:
		s.last.Store(cmd)
		w.Verbatim("txt", string(s.appendInfo(nil)))
	case command.ClientList:
		s.last.Store(cmd)
		s.clientList(args)
	case command.ClientNoEvict:
		s.clientSwitch(args[2], func(p *profile, on bool) { p.noEvict = on })
	case command.ClientNoTouch:
		s.clientSwitch(args[2], func(p *profile, on bool) { p.noTouch = on })
		s.remark()
	case command.ClientCapa:
		s.clientCapa(args[2:])
	case command.ClientPause:
		s.clientPause(args)
	case command.ClientUnpause:
		s.srv.pause.end()
		w.Simple("OK")
	case command.ClientUnblock:
		s.clientUnblock(args)
	case command.ClientTracking:
		s.clientTracking(args)
	case command.ClientCaching:
		s.clientCaching(args[2])
	case command.ClientTrackingInfo:
		s.trackingInfo()
	case command.ClientGetRedir:
		w.Int(s.tracks.Load().redirection())
	case command.ClientReply:
		s.clientReply(args[2])
	case command.ClientKill:
		s.clientKill(args)
	case command.ClientHelp:
		s.help("CLIENT", clientHelp)
	default:
		w.Error("ERR unknown command '" + cmd.FullName() + "'")
	}
}

func (s *Session) clientSetInfo(args [][]byte) {
	attr, value := args[2], args[3]
	set := func(p *profile) { p.libName = string(value) }
	switch {
	case isWord(attr, "LIB-NAME"):
	case isWord(attr, "LIB-VER"):
		set = func(p *profile) { p.libVersion = string(value) }
	default:
		s.w.Error("ERR Unrecognized option '" + string(attr) + "'")
		return
	}
	bad := "ERR " + string(attr) + " cannot contain spaces, newlines or special characters."
	if fault := nameFault(value, bad); fault != "" {
		s.w.Error(fault)
		return
	}
	s.change(set)
	s.w.Simple("OK")
}

// clientCapa takes what a client says of itself. As in Valkey, from which the command
// is, unknown words are ignored: a client tells every server all that it can do.
func (s *Session) clientCapa(words [][]byte) {
	for _, word := range words {
		if isWord(word, "TRYAGAIN") {
			s.change(func(p *profile) { p.triesAgain = true })
		}
	}
	s.w.Simple("OK")
}

func (s *Session) clientSwitch(arg []byte, set func(*profile, bool)) {
	on := isWord(arg, "ON")
	if !on && !isWord(arg, "OFF") {
		s.w.Error(errSyntax)
		return
	}
	s.change(func(p *profile) { set(p, on) })
	s.w.Simple("OK")
}

func (s *Session) clientReply(mode []byte) {
	switch {
	case isWord(mode, "ON"):
		s.replyOff, s.skip = false, false
		s.w.Simple("OK")
	case isWord(mode, "OFF"):
		s.replyOff = true
	case isWord(mode, "SKIP"):
		s.skipNext = !s.replyOff
	default:
		s.w.Error(errSyntax)
	}
}

// clientKind is a type of CLIENT LIST and KILL.
type clientKind uint8

const (
	normalClient clientKind = iota + 1
	pubSubClient
	otherClient // a type that no session has
)

// clientType reads a type; false if there is none of that name.
func clientType(arg []byte) (clientKind, bool) {
	switch {
	case isWord(arg, "NORMAL"):
		return normalClient, true
	case isWord(arg, "PUBSUB"):
		return pubSubClient, true
	case isWord(arg, "MASTER"), isWord(arg, "REPLICA"), isWord(arg, "SLAVE"):
		return otherClient, true
	}
	return 0, false
}

// kind tells the type of a session. Any goroutine may call it.
func (s *Session) kind() clientKind {
	if channels, shards, patterns := s.srv.hub.counts(s); channels+shards+patterns > 0 {
		return pubSubClient
	}
	return normalClient
}

func (s *Session) clientList(args [][]byte) {
	var text []byte
	switch {
	case len(args) == 2:
		s.eachClient(func(c *Session) { text = c.appendInfo(text) })
	case len(args) == 4 && isWord(args[2], "TYPE"):
		kind, ok := clientType(args[3])
		if !ok {
			s.w.Error("ERR Unknown client type '" + string(args[3]) + "'")
			return
		}
		s.eachClient(func(c *Session) {
			if c.kind() == kind {
				text = c.appendInfo(text)
			}
		})
	case len(args) > 3 && isWord(args[2], "ID"):
		wanted := make(map[uint64]bool, len(args)-3)
		for _, a := range args[3:] {
			id, ok := resp.ParseInt(a)
			if !ok {
				s.w.Error("ERR Invalid client ID")
				return
			}
			wanted[uint64(id)] = true
		}
		s.eachClient(func(c *Session) {
			if wanted[c.id] {
				text = c.appendInfo(text)
			}
		})
	default:
		s.w.Error(errSyntax)
		return
	}
	s.w.Verbatim("txt", string(text))
}

// eachClient calls fn for every session that is not a peer's.
func (s *Session) eachClient(fn func(*Session)) {
	s.srv.EachSession(func(c *Session) bool {
		if !c.isPeer.Load() {
			fn(c)
		}
		return true
	})
}

// appendInfo appends the session's line of CLIENT LIST. Any goroutine may call it.
func (s *Session) appendInfo(b []byte) []byte {
	now := s.srv.o.Now().Sub(s.created)
	p := s.profile.Load()
	tr := s.tracks.Load()
	channels, shards, patterns := s.srv.hub.counts(s)
	b = fmt.Appendf(b, "id=%d addr=%s laddr=%s fd=-1 name=%s age=%d idle=%d flags=%s db=0 sub=%d psub=%d ssub=%d multi=%s",
		s.id, addrText(s.remote), addrText(s.local), p.name, int64(now.Seconds()),
		max(0, (now.Milliseconds()-s.active.Load())/1000), s.flags(p, tr, channels+shards+patterns > 0), channels, patterns, shards, s.queuedText())
	out := s.transport.queued() + s.pushBytes()
	held := s.held.Load()
	return fmt.Appendf(b, " qbuf=%d qbuf-free=%d argv-mem=0 multi-mem=0 rbs=%d rbp=%d obl=0 oll=0 omem=%d tot-mem=%d events=r cmd=%s user=%s redir=%d resp=%d lib-name=%s lib-ver=%s\n",
		s.pending.Load(), max(0, held-s.pending.Load()), held, held, out, held+int64(out),
		commandName(s.last.Load()), s.UserName(), tr.redirection(), p.proto, p.libName, p.libVersion)
}

// flags are the letters of CLIENT LIST, in Redis's order.
func (s *Session) flags(p *profile, tr *tracking, listens bool) string {
	var b []byte
	add := func(on bool, letter byte) {
		if on {
			b = append(b, letter)
		}
	}
	add(s.monitors.Load(), 'O')
	add(listens, 'P')
	add(s.queued.Load() > 0, 'x')
	add(s.waits.Load(), 'b')
	add(tr != nil, 't')
	add(tr != nil && tr.broken.Load(), 'R')
	add(tr != nil && tr.broadcast, 'B')
	add(p.readOnly, 'r')
	add(p.noEvict, 'e')
	add(p.noTouch, 'T')
	if len(b) == 0 {
		return "N"
	}
	return string(b)
}

// killFilter says which sessions CLIENT KILL ends.
type killFilter struct {
	id            uint64
	addr, laddr   []byte
	kinds         []clientKind  // of all that are given, a session must have each
	minAge        time.Duration // 0: any
	now           time.Time     // for minAge
	user          []byte
	includeMyself bool
}

func (f *killFilter) matches(c *Session) bool {
	for _, k := range f.kinds {
		if c.kind() != k {
			return false
		}
	}
	return (f.minAge == 0 || f.now.Sub(c.created) >= f.minAge) && (f.id == 0 || f.id == c.id) &&
		(f.addr == nil || string(f.addr) == addrText(c.remote)) &&
		(f.user == nil || string(f.user) == c.UserName()) &&
		(f.laddr == nil || string(f.laddr) == addrText(c.local))
}

func (s *Session) clientKill(args [][]byte) {
	if len(args) == 3 { // the old form, by address; it may hit the caller
		f := killFilter{addr: args[2], includeMyself: true}
		if s.kill(&f) == 0 {
			s.w.Error("ERR No such client")
			return
		}
		s.w.Simple("OK")
		return
	}
	f, fault := s.parseKill(args)
	if fault != "" {
		s.w.Error(fault)
		return
	}
	f.now = s.srv.o.Now()
	s.w.Int(int64(s.kill(f)))
}

// kill ends the sessions that match. The caller's own ends after its reply.
func (s *Session) kill(f *killFilter) (n int) {
	s.eachClient(func(c *Session) {
		switch {
		case !f.matches(c), c.stop.Load() == stopCut: // the latter has ended, or is about to
		case c != s:
			c.Close()
			n++
		case f.includeMyself:
			s.closing = true
			n++
		}
	})
	return n
}

// parseKill reads the options of CLIENT KILL.
func (s *Session) parseKill(args [][]byte) (*killFilter, string) {
	f := &killFilter{}
	if len(args)%2 != 0 {
		return nil, errSyntax
	}
	for i := 2; i < len(args); i += 2 {
		value := args[i+1]
		switch opt := args[i]; {
		case isWord(opt, "ID"):
			id, ok := resp.ParseInt(value)
			if !ok || id < 1 {
				return nil, "ERR client-id should be greater than 0"
			}
			f.id = uint64(id)
		case isWord(opt, "TYPE"):
			kind, ok := clientType(value)
			if !ok {
				return nil, "ERR Unknown client type '" + string(value) + "'"
			}
			f.kinds = append(f.kinds, kind)
		case isWord(opt, "MAXAGE"):
			age, ok := resp.ParseInt(value)
			switch {
			case !ok:
				return nil, "ERR maxage is not an integer or out of range"
			case age < 1:
				return nil, "ERR maxage must be greater than 0"
			}
			f.minAge = time.Duration(min(age, maxPause/1000)) * time.Second
		case isWord(opt, "ADDR"):
			f.addr = value
		case isWord(opt, "LADDR"):
			f.laddr = value
		case isWord(opt, "USER"):
			if f.user = value; s.srv.users.Get(string(value)) == nil {
				return nil, "ERR No such user '" + string(value) + "'"
			}
		case isWord(opt, "SKIPME") && isWord(value, "YES"):
			f.includeMyself = false
		case isWord(opt, "SKIPME") && isWord(value, "NO"):
			f.includeMyself = true
		default:
			return nil, errSyntax
		}
	}
	return f, ""
}
