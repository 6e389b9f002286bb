package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ringcache/ringcache/internal/acl"
	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
)

// What a user may not do, in the texts of Redis.
const (
	noPerm     = "NOPERM this user has no permissions to "
	noPermKey  = noPerm + "access one of the keys used as arguments"
	noPermChan = noPerm + "access one of the channels used as arguments"

	// Of a transaction whose user lost a right after the command was queued.
	noPermLater = "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. " +
		"This command is no longer allowed for the following reason: "
)

// CheckUsers tells what is wrong with Options.Users and Options.ACLFile, without
// reading the file.
func CheckUsers(lines []string, file string) error {
	if file != "" && len(lines) > 0 {
		return errors.New("users are given in a file and beside it; choose one")
	}
	_, err := acl.New().Load("users", userLines(lines))
	return err
}

func userLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return "user " + strings.Join(lines, "\nuser ")
}

// loadUsers makes the users that the options describe. A file that does not exist
// is an error: an operator who named one expects its users.
func loadUsers(o *Options) (*acl.Users, error) {
	users := acl.New()
	users.SetPassword(o.Password)
	if err := CheckUsers(o.Users, o.ACLFile); err != nil {
		return nil, fmt.Errorf("server: %w: %w", errs.ErrConfig, err)
	}
	_, _ = users.Load("users", userLines(o.Users)) // checked
	if o.ACLFile != "" {
		text, err := readUsers(o.ACLFile)
		if err == nil {
			_, err = users.Load(o.ACLFile, text)
		}
		if err != nil {
			return nil, fmt.Errorf("server: %w: users: %w", errs.ErrConfig, err)
		}
	}
	return users, nil
}

func readUsers(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.Size() > acl.MaxFile {
		return "", fmt.Errorf("%s has %d bytes, limit %d", path, info.Size(), acl.MaxFile)
	}
	text, err := os.ReadFile(path)
	return string(text), err
}

// writeUsers replaces the file in one step, so that a crash leaves the old or the
// new one.
func writeUsers(path string, lines []string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".users-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Denials counts what the rules of users refused since the start.
func (s *Server) Denials(r acl.Reason) uint64 { return s.users.Denials(r) }

// openDefault tells whether the user "default" needs no password.
func (s *Server) openDefault() bool {
	r := s.users.Default().Rules()
	return r.NoPass() && r.On()
}

// setUser says whose session it is.
func (s *Session) setUser(u *acl.User) { s.user.Store(u) }

func (s *Session) rules() *acl.Rules { return s.user.Load().Rules() }

// UserName is the name of the session's user. Any goroutine may call it.
func (s *Session) UserName() string {
	if u := s.user.Load(); u != nil {
		return u.Name()
	}
	return acl.DefaultName
}

// free tells whether the session's user may do everything.
func (s *Session) free() bool { return s.peer || s.rules().Unrestricted }

// permit tells whether the user may execute a command, and answers if not.
func (s *Session) permit(cmd *command.Command, args [][]byte) bool {
	d := s.rules().Check(cmd, args)
	if d.Reason == acl.Allowed {
		return true
	}
	s.denied(d, s.context(), cmd, args)
	switch d.Reason {
	case acl.DeniedKey:
		s.w.Error(noPermKey)
	case acl.DeniedChannel:
		s.w.Error(noPermChan)
	default:
		s.w.Error(noPerm + "run the '" + cmd.FullName() + "' command")
	}
	return false
}

func (s *Session) context() string {
	if s.multi != nil {
		return "multi"
	}
	return "toplevel"
}

// denied notes a refusal in the log.
func (s *Session) denied(d acl.Denial, context string, cmd *command.Command, args [][]byte) {
	object := cmd.FullName()
	if d.Reason != acl.DeniedCommand {
		object = string(args[d.Arg])
	}
	s.note(d.Reason, context, object, s.UserName())
}

func (s *Session) note(r acl.Reason, context, object, user string) {
	s.last.Store(s.lastSeen)
	client := strings.TrimSuffix(string(s.appendInfo(nil)), "\n")
	s.srv.users.Note(s.srv.o.Now(), acl.Entry{Reason: r, Context: context, Object: object, User: user, Client: client})
}

// Guard returns what decides about the commands that a script of this session
// calls: the error for one that is refused, "" for others. It is nil for a user
// who may do everything. For the goroutine that drives the session.
func (s *Session) Guard() func(cmd *command.Command, args [][]byte) string {
	if s.free() {
		return nil
	}
	return func(cmd *command.Command, args [][]byte) string {
		d := s.rules().Check(cmd, args)
		if d.Reason == acl.Allowed {
			return ""
		}
		s.denied(d, "lua", cmd, args)
		switch d.Reason {
		case acl.DeniedKey:
			return "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
		case acl.DeniedChannel:
			return "ERR The user executing the script can't publish to the channel mentioned in the command"
		}
		return "ERR The user executing the script can't run this command or subcommand"
	}
}

// MayUseChannel tells whether the session's user may publish to a channel or
// subscribe to it, or, with pattern set, subscribe to a pattern. The check of a
// command looks at the channels among its arguments already; this is for
// subscriptions whose user's rules have changed since. Any goroutine may call it.
func (s *Session) MayUseChannel(channel []byte, pattern bool) bool {
	u := s.user.Load()
	return s.IsPeer() || u != nil && u.Rules().Channel(channel, pattern)
}

// Denied returns the error for a queued command that the user may no longer
// execute, "" for others.
func (t *Transaction) Denied(i int) string {
	s := t.s
	if s.free() {
		return ""
	}
	cmd, args := t.Command(i)
	d := s.rules().Check(cmd, args)
	if d.Reason == acl.Allowed {
		return ""
	}
	s.denied(d, "multi", cmd, args)
	switch d.Reason {
	case acl.DeniedKey:
		return noPermLater + "no permission to touch the specified keys"
	case acl.DeniedChannel:
		return noPermLater + "no permission to access one of the channels used as arguments"
	}
	return noPermLater + "no permission to execute the command or subcommand"
}

// cutListeners ends the sessions with a subscription that their user's rules no
// longer allow.
func (s *Session) cutListeners() {
	var cut []*Session
	h := &s.srv.hub
	h.mu.RLock()
	for t := range h.names {
		for name, listeners := range h.names[t] {
			for c := range listeners {
				if !c.MayUseChannel([]byte(name), topic(t) == onPattern) {
					cut = append(cut, c)
				}
			}
		}
	}
	h.mu.RUnlock()
	for _, c := range cut {
		if c == s {
			s.closing = true
		} else {
			c.Close()
		}
	}
}

// cutUser ends the sessions of a user who is gone. The caller's own ends after its
// reply.
func (s *Session) cutUser(u *acl.User) {
	s.srv.EachSession(func(c *Session) bool {
		switch {
		case c.user.Load() != u:
		case c == s:
			s.closing = true
		default:
			c.Close()
		}
		return true
	})
}
