package server

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/ringcache/ringcache/internal/acl"
	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// acl executes a subcommand of ACL.
func (s *Session) acl(cmd *command.Command, args [][]byte) {
	w, users := &s.w, s.srv.users
	switch cmd.ID {
	case command.ACLWhoAmI:
		w.BulkString(s.UserName())
	case command.ACLUsers:
		writeTexts(w, users.Names())
	case command.ACLList:
		writeTexts(w, users.Lines())
		s.tooLong()
	case command.ACLCat:
		s.aclCat(args)
	case command.ACLSetUser:
		s.aclSetUser(args)
	case command.ACLGetUser:
		s.aclGetUser(args)
	case command.ACLDelUser:
		s.aclDelUser(args)
	case command.ACLGenPass:
		s.aclGenPass(args)
	case command.ACLDryRun:
		s.aclDryRun(args)
	case command.ACLLog:
		s.aclLog(args)
	case command.ACLLoad, command.ACLSave:
		s.aclFile(cmd, args)
	case command.ACLHelp:
		s.help("ACL", aclHelp)
	default:
		w.Error("ERR unknown command '" + cmd.FullName() + "'")
	}
}

func writeTexts(w *resp.Writer, texts []string) {
	w.Array(len(texts))
	for _, t := range texts {
		w.BulkString(t)
	}
}

func (s *Session) aclCat(args [][]byte) {
	switch len(args) {
	case 2:
		writeTexts(&s.w, acl.Categories())
	case 3:
		names, ok := acl.CommandsIn(string(args[2]))
		if !ok {
			s.w.Error("ERR Unknown category '" + string(args[2]) + "'")
			return
		}
		writeTexts(&s.w, names)
	default:
		s.subcommandSyntax("ACL", args)
	}
}

// subcommandSyntax answers a number of arguments that the arity allows and the
// subcommand does not.
func (s *Session) subcommandSyntax(name string, args [][]byte) {
	s.w.Error("ERR unknown subcommand or wrong number of arguments for '" + string(args[1][:min(len(args[1]), 128)]) + "'. Try " + name + " HELP.")
}

func (s *Session) aclSetUser(args [][]byte) {
	words := make([]string, 0, len(args)-3)
	for _, a := range args[3:] {
		words = append(words, string(a))
	}
	err := s.srv.users.Set(string(args[2]), words)
	var word *acl.WordError
	switch {
	case errors.As(err, &word):
		s.w.Error("ERR Error in ACL SETUSER modifier " + word.Error())
	case err != nil:
		s.w.Error("ERR " + err.Error())
	default:
		s.cutListeners()
		s.w.Simple("OK")
	}
}

func (s *Session) aclGetUser(args [][]byte) {
	w := &s.w
	u := s.srv.users.Get(string(args[2]))
	if u == nil {
		w.Null()
		return
	}
	r := u.Rules()
	w.Map(6)
	w.BulkString("flags")
	w.Set(len(r.Flags()))
	for _, f := range r.Flags() {
		w.BulkString(f)
	}
	w.BulkString("passwords")
	writeTexts(w, r.Passwords())
	all := r.Selectors()
	writeSelector(w, all[0])
	w.BulkString("selectors")
	w.Array(len(all) - 1)
	for _, sel := range all[1:] {
		w.Map(3)
		writeSelector(w, sel)
	}
}

func writeSelector(w *resp.Writer, sel acl.Selector) {
	w.BulkString("commands")
	w.BulkString(sel.Commands)
	w.BulkString("keys")
	w.BulkString(sel.Keys)
	w.BulkString("channels")
	w.BulkString(sel.Channels)
}

func (s *Session) aclDelUser(args [][]byte) {
	for _, name := range args[2:] {
		if string(name) == acl.DefaultName {
			s.w.Error("ERR " + acl.ErrDefault.Error())
			return
		}
	}
	n := 0
	for _, name := range args[2:] {
		if u, _ := s.srv.users.Delete(string(name)); u != nil {
			s.cutUser(u)
			n++
		}
	}
	s.w.Int(int64(n))
}

// maxPassBits is the longest password of ACL GENPASS.
const maxPassBits = 4096

func (s *Session) aclGenPass(args [][]byte) {
	bits := int64(256)
	if len(args) > 3 {
		s.w.Error("ERR wrong number of arguments for 'acl|genpass' command")
		return
	}
	if len(args) == 3 {
		var ok bool
		if bits, ok = resp.ParseInt(args[2]); !ok {
			s.w.Error("ERR value is not an integer or out of range")
			return
		}
		if bits <= 0 || bits > maxPassBits {
			s.w.Error("ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096")
			return
		}
	}
	digits := (bits + 3) / 4
	raw := make([]byte, (digits+1)/2)
	_, _ = rand.Read(raw) // never fails
	s.w.BulkString(hex.EncodeToString(raw)[:digits])
}

func (s *Session) aclDryRun(args [][]byte) {
	u := s.srv.users.Get(string(args[2]))
	if u == nil {
		s.w.Error("ERR User '" + string(args[2]) + "' not found")
		return
	}
	run := args[3:]
	cmd := command.Lookup(run[0])
	if cmd != nil && cmd.Subs != nil && len(run) > 1 {
		cmd = cmd.Sub(run[1])
	}
	switch {
	case cmd == nil || cmd.Flags.Has(command.Internal):
		s.w.Error("ERR Command '" + string(run[0]) + "' not found")
		return
	case !cmd.ArityOK(len(run)):
		s.w.Error("ERR wrong number of arguments for '" + cmd.FullName() + "' command")
		return
	}
	switch d := u.Rules().Check(cmd, run); d.Reason {
	case acl.Allowed:
		s.w.Simple("OK")
	case acl.DeniedKey:
		s.w.BulkString("This user has no permissions to access the '" + string(run[d.Arg]) + "' key")
	case acl.DeniedChannel:
		s.w.BulkString("This user has no permissions to access the '" + string(run[d.Arg]) + "' channel")
	default:
		s.w.BulkString("This user has no permissions to run the '" + cmd.FullName() + "' command")
	}
}

func (s *Session) aclLog(args [][]byte) {
	w := &s.w
	count := int64(10)
	switch {
	case len(args) > 3:
		s.subcommandSyntax("ACL", args)
		return
	case len(args) == 3 && isWord(args[2], "RESET"):
		s.srv.users.ResetLog()
		w.Simple("OK")
		return
	case len(args) == 3:
		var ok bool
		if count, ok = resp.ParseInt(args[2]); !ok {
			w.Error("ERR value is not an integer or out of range")
			return
		}
	}
	list := s.srv.users.Log()
	list = list[:max(0, min(int64(len(list)), count))]
	now := s.srv.o.Now()
	w.Array(len(list))
	for _, e := range list {
		w.Map(7)
		w.BulkString("count")
		w.Int(int64(e.Count))
		for _, f := range [][2]string{{"reason", e.Reason.String()}, {"context", e.Context}, {"object", e.Object}, {"username", e.User}} {
			w.BulkString(f[0])
			w.BulkString(f[1])
		}
		w.BulkString("age-seconds")
		w.Double(float64(max(0, now.Sub(e.Latest).Milliseconds())) / 1000)
		w.BulkString("client-info")
		w.BulkString(e.Client)
	}
}

// aclFile is LOAD and SAVE. A session that shares a loop leaves it for the time of
// the file, unless a transaction is being executed.
func (s *Session) aclFile(cmd *command.Command, args [][]byte) {
	path := s.srv.o.ACLFile
	if path == "" {
		s.w.Error("ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command " +
			"and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.")
		return
	}
	if !s.mayWait && s.multi == nil {
		s.later, s.laterArgs = cmd, args
		return
	}
	if cmd.ID == command.ACLSave {
		if err := writeUsers(path, s.srv.users.Lines()); err != nil {
			s.srv.log.Error("users cannot be written", "file", path, "err", err)
			s.w.Error("ERR There was an error trying to save the ACLs. Please check the server logs for more information")
			return
		}
		s.w.Simple("OK")
		return
	}
	text, err := readUsers(path)
	var gone []*acl.User
	if err == nil {
		gone, err = s.srv.users.Load(path, text)
	}
	if err != nil {
		s.w.Error("ERR " + strings.TrimSuffix(err.Error(), ".") + ". WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
		return
	}
	for _, u := range gone {
		s.cutUser(u)
	}
	s.cutListeners()
	s.w.Simple("OK")
}

var aclHelp = []string{
	"CAT [<category>]",
	"    List all commands that belong to <category>, or all command categories",
	"    when no category is specified.",
	"DELUSER <username> [<username> ...]",
	"    Delete a list of users.",
	"DRYRUN <username> <command> [<arg> ...]",
	"    Returns whether the user can execute the given command without executing the command.",
	"GETUSER <username>",
	"    Get the user's details.",
	"GENPASS [<bits>]",
	"    Generate a secure 256-bit user password. The optional `bits` argument can",
	"    be used to specify a different size.",
	"LIST",
	"    Show users details in config file format.",
	"LOAD",
	"    Reload users from the ACL file.",
	"LOG [<count> | RESET]",
	"    Show the ACL log entries.",
	"SAVE",
	"    Save the current config to the ACL file.",
	"SETUSER <username> <attribute> [<attribute> ...]",
	"    Create or modify a user with the specified attributes.",
	"USERS",
	"    List all the registered usernames.",
	"WHOAMI",
	"    Return the current connection username.",
}
