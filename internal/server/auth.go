package server

import (
	"github.com/ringcache/ringcache/internal/acl"
	"github.com/ringcache/ringcache/internal/resp"
)

const (
	errSyntax      = "ERR syntax error"
	errWrongPass   = "WRONGPASS invalid username-password pair or user is disabled."
	errNoPassword  = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errHelloNoAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
	errNoProto     = "NOPROTO unsupported protocol version"
	errBadName     = "ERR Client names cannot contain spaces, newlines or special characters."
	errLongName    = "ERR Client names cannot be longer than 1024 bytes."

	// maxName bounds what a client may say about itself.
	maxName = 1024
)

// login checks user and password, in a time that does not depend on how much of
// them is right, and authenticates the session. word is the command as given.
func (s *Session) login(word, user, password []byte) bool {
	u := s.srv.users.Get(string(user))
	rules := nobody
	if u != nil {
		rules = u.Rules()
	}
	if !rules.Login(password) {
		s.srv.counters.authFailures.Add(1)
		s.srv.failures.note(host(s.remote), s.srv.o.Now())
		s.note(acl.DeniedAuth, s.context(), string(word), string(user))
		s.srv.log.Debug("authentication failed", "session", s.id, "remote", addrText(s.remote))
		return false
	}
	s.srv.failures.forget(host(s.remote))
	s.setUser(u)
	s.setAuthed(true)
	return true
}

// nobody stands for users that do not exist: it has one password, that nobody
// knows, so that looking at it takes as long.
var nobody = acl.Nobody()

// auth is AUTH [user] password.
func (s *Session) auth(args [][]byte) {
	user, password := []byte("default"), args[len(args)-1]
	switch {
	case len(args) > 3:
		s.w.Error(errSyntax)
		return
	case len(args) == 3:
		user = args[1]
	case s.srv.users.Default().Rules().NoPass():
		s.w.Error(errNoPassword)
		return
	}
	if !s.login(args[0], user, password) {
		s.w.Error(errWrongPass)
		return
	}
	s.w.Simple("OK")
}

// hello is HELLO [protover [AUTH user password] [SETNAME name]].
func (s *Session) hello(args [][]byte) {
	proto := int64(0)
	if len(args) > 1 {
		var ok bool
		if proto, ok = resp.ParseInt(args[1]); !ok {
			s.w.Error("ERR Protocol version is not an integer or out of range")
			return
		}
		if proto != 2 && proto != 3 {
			s.w.Error(errNoProto)
			return
		}
	}
	var user, password, name []byte
	for i := 2; i < len(args); i++ {
		more := len(args) - 1 - i
		switch opt := args[i]; {
		case isWord(opt, "AUTH") && more >= 2:
			user, password = args[i+1], args[i+2]
			i += 2
		case isWord(opt, "SETNAME") && more >= 1:
			name = args[i+1]
			if fault := nameFault(name, errBadName); fault != "" {
				s.w.Error(fault)
				return
			}
			i++
		default:
			s.w.Error("ERR Syntax error in HELLO option '" + string(opt) + "'")
			return
		}
	}
	if user != nil && !s.login(args[0], user, password) {
		s.w.Error(errWrongPass)
		return
	}
	if !s.authed && !s.peer {
		s.w.Error(errHelloNoAuth)
		return
	}
	if name != nil || proto != 0 {
		s.change(func(p *profile) {
			if name != nil {
				p.name = string(name)
			}
			if proto != 0 {
				p.proto = int(proto)
			}
		})
	}
	s.helloReply()
}

func (s *Session) helloReply() {
	w := &s.w
	w.Map(7)
	w.BulkString("server")
	w.BulkString("redis")
	w.BulkString("version")
	w.BulkString(s.srv.o.Version)
	w.BulkString("proto")
	w.Int(int64(w.Proto))
	w.BulkString("id")
	w.Int(int64(s.id))
	w.BulkString("mode")
	w.BulkString("cluster")
	w.BulkString("role")
	w.BulkString("master")
	w.BulkString("modules")
	w.Array(0)
}

// nameFault returns why a name is refused, or "". Names stay on one line of
// CLIENT LIST and hold no spaces.
func nameFault(name []byte, bad string) string {
	for _, c := range name {
		if c < '!' || c > '~' {
			return bad
		}
	}
	if len(name) > maxName {
		return errLongName
	}
	return ""
}
