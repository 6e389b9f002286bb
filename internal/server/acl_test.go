package server

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/command"
)

// aclVolatile is what may differ between two servers in replies about users.
var aclVolatile = []struct{ pattern, with string }{
	{`age-seconds\r\n(\$\d+\r\n|,)[0-9.e-]+`, "age-seconds\r\nAGE"},
	{`\$\d+\r\nid=\d+ [^\r]*`, "CLIENT"},
}

func aclNormal(s string) string {
	for _, v := range aclVolatile {
		s = regexp.MustCompile(v.pattern).ReplaceAllString(s, v.with)
	}
	return s
}

// Conversations about users are held with a real Redis and with a Server; the
// bytes that come back must be equal, in both protocols.
func TestACLAsRedis(t *testing.T) {
	redis := startRedis(t)
	const setup = "ACL SETUSER u reset on >p +@all -@dangerous ~k* %R~r* &c*\r\n"
	setups := []string{setup, "ACL SETUSER v on nopass ~* &* +@all\r\n", "ACL LOG RESET\r\n"}
	as := func(lines ...string) string { return "AUTH u p\r\n" + strings.Join(lines, "\r\n") }
	cases := []string{
		"ACL", "ACL FOO", "ACL HELP", "ACL WHOAMI", "ACL WHOAMI x", "ACL CAT", "ACL CAT nosuch", "ACL CAT a b", "ACL CAT transaction",
		"ACL SETUSER", "ACL SETUSER n", "ACL SETUSER n\r\nACL GETUSER n\r\nACL DELUSER n n", "ACL GETUSER nosuch", "ACL GETUSER default", "ACL GETUSER u",
		"ACL DELUSER default", "ACL DELUSER nosuch", "ACL DELUSER", "ACL USERS", "ACL LIST",
		"ACL GENPASS 0", "ACL GENPASS 4097", "ACL GENPASS x", "ACL GENPASS -1",
		"ACL LOAD", "ACL SAVE", "ACL LOG x", "ACL LOG 0", "ACL LOG -1", "ACL LOG",
		"ACL DRYRUN u get ka", "ACL DRYRUN u get z", "ACL DRYRUN u set ra 1", "ACL DRYRUN u get ra", "ACL DRYRUN u config get x", "ACL DRYRUN u get", "ACL DRYRUN u nosuch x",
		"ACL DRYRUN nosuch get x", "ACL DRYRUN u publish z 1", "ACL DRYRUN u publish ca 1", "ACL DRYRUN u set ra 1 get", "ACL DRYRUN u copy ra ka", "ACL DRYRUN u copy ka ra",
		as("ACL WHOAMI", "GET z", "CONFIG GET maxmemory", "ACL LIST", "PING", "PUBLISH z 1", "CLIENT ID x", "CLIENT KILL ID 99999"),
		"AUTH u wrong\r\nACL WHOAMI", "AUTH nosuch x", "AUTH u p\r\nAUTH u wrong\r\nACL WHOAMI", "HELLO 2 AUTH u wrong", "AUTH u p\r\nRESET\r\nACL WHOAMI",
		"AUTH v anything\r\nACL WHOAMI", "CLIENT KILL USER nosuch", "CLIENT KILL USER v",
		"AUTH u wrong\r\nAUTH u wrong\r\nACL LOG 1", as("GET z", "GET z") + "\r\nAUTH v x\r\nACL LOG 1",
	}
	for _, words := range []string{"+@foo", "+foo", "+get|x", "-get|x", "-client|nosuch", "+client|id|x", "-client|id|x", "+client|", "+get|", "~a allkeys ~b", ">", "#zz", "!zz",
		"<nopass", "foo", "(+get", "(+get ~x)", "( +get ~x )", "()", "(nopass)", "+get)", "allchannels &x", "%X~a", "%~a", "%RW~a %rw~b", "~", "on off nopass resetpass",
		"on >a >b <a", "reset", "skip-sanitize-payload", "sanitize-payload", "~a ~a %R~a %W~b %R~b", "+@all -@dangerous -get", "-@all +get", "+@all", "nocommands allcommands",
		"&a &b &a", "resetchannels", "clearselectors (~a) (+@all ~b)", "(~a) (~b) clearselectors", "+@read -@read", "+select|0 +GET|Foo +cOnfig|Get -cOnfig|Get", "\"~a b\"", "+@ALL"} {
		cases = append(cases, "ACL SETUSER w "+words+"\r\nACL GETUSER w\r\nACL DELUSER w")
	}
	s, _ := start(t, Options{})
	commands := regexp.MustCompile(`([-+]@all)( [-+][a-z|@0-9A-Z]+)+`)
	normalize := func(text string) string {
		// The order in which commands are listed follows Redis's hash table.
		return regexp.MustCompile(`\$\d+\r\n([-+]@all)`).ReplaceAllString(commands.ReplaceAllStringFunc(aclNormal(text), func(m string) string {
			words := strings.Fields(m)
			slices.Sort(words[1:])
			return strings.Join(words, " ")
		}), "$1")
	}
	for _, proto := range []string{"", "HELLO 3\r\n"} {
		for _, c := range cases {
			t.Run(fmt.Sprintf("%q %.60q", proto, c), func(t *testing.T) {
				for _, line := range setups {
					speak(redis, line)
					speak(s.Addr().String(), line)
				}
				want := normalize(normal(speak(redis, proto+c+"\r\n")))
				got := normalize(normal(speak(s.Addr().String(), proto+c+"\r\n")))
				if c == "ACL CAT transaction" || strings.HasPrefix(c, "ACL LIST") { // in Redis's order of a hash table
					want, got = sortedLines(want), sortedLines(got)
				}
				if got != want {
					t.Errorf("\n got %q\nwant %q", got, want)
				}
			})
		}
	}
}

func sortedLines(s string) string {
	lines := strings.Split(s, "\r\n")
	slices.Sort(lines)
	return strings.Join(lines, "\r\n")
}

// Rules that change act on sessions that are connected, and a user who is deleted
// is cut off.
func TestRulesActAtOnce(t *testing.T) {
	s, _ := start(t, Options{Users: []string{"a on >p ~* +@all &news"}})
	admin, a, b := dial(t, s), dial(t, s), dial(t, s)
	a.ask("AUTH a p\r\nGET k", "OK", "(null)")
	b.ask("AUTH a p\r\nPING", "OK", "PONG")
	admin.ask("ACL SETUSER a -get", "OK")
	a.ask("GET k\r\nACL WHOAMI", "-NOPERM this user has no permissions to run the 'get' command", "a")
	admin.ask("ACL SETUSER a off", "OK")
	a.ask("PING", "PONG") // who is in stays in, as in Redis
	dial(t, s).ask("AUTH a p", "-"+errWrongPass)
	admin.ask("ACL DELUSER a nosuch", "1")
	a.ended()
	b.ended()
	admin.ask("ACL USERS", "[default]")
	// A user who deletes himself gets his reply.
	admin.ask("ACL SETUSER me on nopass ~* +@all\r\nAUTH me x\r\nACL DELUSER me", "OK", "OK", "1")
	admin.ended()
}

// A session whose subscription is no longer allowed is cut off; others are not.
func TestSubscribersLoseTheirChannels(t *testing.T) {
	s, _ := start(t, Options{Users: []string{"a on nopass +@all &news &sport* &b*"}})
	admin, a, b, p := dial(t, s), dial(t, s), dial(t, s), dial(t, s)
	a.ask("AUTH a x\r\nSUBSCRIBE other", "OK", "-"+noPermChan)
	a.ask("SUBSCRIBE news", "[subscribe news 1]")
	b.ask("AUTH a x\r\nSUBSCRIBE sport1", "OK", "[subscribe sport1 1]")
	p.ask("AUTH a x\r\nPSUBSCRIBE b1*\r\nPSUBSCRIBE b*", "OK", "-"+noPermChan, "[psubscribe b* 1]")
	admin.ask("ACL SETUSER a resetchannels &sport*", "OK")
	a.ended()
	p.ended()
	b.ask("UNSUBSCRIBE", "[unsubscribe sport1 0]")
}

func TestACLFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "users.acl")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := New(Options{Handler: newFakeNode(), ACLFile: path}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a file that is not there: %v", err)
	}
	write("user a on nopass +nosuch\n")
	if _, err := New(Options{Handler: newFakeNode(), ACLFile: path}); err == nil || !strings.Contains(err.Error(), path+":1: '+nosuch'") {
		t.Errorf("a file with a fault: %v", err)
	}
	write("user a on nopass +@all ~*\nuser default on >secret ~* &* +@all\n")
	s, _ := start(t, Options{ACLFile: path, Password: "replaced"})
	admin, a := dial(t, s), dial(t, s)
	admin.ask("PING\r\nAUTH replaced\r\nAUTH secret", "-NOAUTH Authentication required.", "-"+errWrongPass, "OK")
	a.ask("AUTH a x", "OK")
	admin.ask("ACL SETUSER b on >b\r\nACL SAVE", "OK", "OK")
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != 3 || !strings.Contains(string(text), "user b on #") {
		t.Errorf("saved %q, %v", text, err)
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("files beside it: %v", files)
	}
	write("user c on\nfoo\n")
	admin.ask("ACL LOAD", "-ERR "+path+":2: should start with user keyword followed by the username. WARNING: ACL errors detected, no change to the previously active ACL rules was performed")
	admin.ask("ACL USERS", "[a b default]")
	write("user c on\n")
	admin.ask("ACL LOAD\r\nACL USERS", "OK", "[c default]")
	a.ended()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	admin.send("ACL LOAD\r\n")
	if v, err := admin.value(); err != nil || !strings.Contains(v.Text(), "no such file") {
		t.Errorf("without the file: %v, %v", v.Text(), err)
	}
}

// What decides about scripts refuses by the user's rules and keeps a log of it; a
// user with all rights has nothing that decides.
func TestGuard(t *testing.T) {
	s, _ := start(t, Options{Users: []string{"a on nopass +@all -del ~k &c"}})
	c := dial(t, s)
	c.ask("PING", "PONG")
	session := func() (out *Session) {
		s.EachSession(func(x *Session) bool { out = x; return false })
		return out
	}()
	if session.Guard() != nil {
		t.Error("a user with all rights is guarded")
	}
	c.ask("AUTH a x", "OK")
	guard := session.Guard()
	check := func(line, want string) {
		t.Helper()
		var args [][]byte
		for _, w := range strings.Fields(line) {
			args = append(args, []byte(w))
		}
		if got := guard(command.Lookup(args[0]), args); got != want {
			t.Errorf("%s: %q", line, got)
		}
	}
	check("get k", "")
	check("del k", "ERR The user executing the script can't run this command or subcommand")
	check("get z", "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments")
	check("publish z x", "ERR The user executing the script can't publish to the channel mentioned in the command")
	if log := s.users.Log(); len(log) != 3 || log[0].Context != "lua" || log[0].Object != "z" || log[0].User != "a" {
		t.Errorf("log %+v", log)
	}
}

// A command of a user with all rights costs no allocation, nor does one of a user
// with rules.
func TestPermitAllocates(t *testing.T) {
	s, _ := start(t, Options{Users: []string{"a on nopass +@all -@dangerous ~k*"}})
	c := dial(t, s)
	c.ask("AUTH a x", "OK")
	var session *Session
	s.EachSession(func(x *Session) bool { session = x; return false })
	cmd, args := command.Lookup([]byte("get")), [][]byte{[]byte("get"), []byte("k1")}
	if n := testing.AllocsPerRun(100, func() {
		if !session.free() && !session.permit(cmd, args) {
			t.Error("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkPermit(b *testing.B) {
	for name, rules := range map[string]string{"all": "+@all ~* &*", "some": "+@all -@dangerous ~k*"} {
		b.Run(name, func(b *testing.B) {
			s, _ := start(b, Options{Users: []string{"a on nopass " + rules}})
			c := dial(b, s)
			c.ask("AUTH a x", "OK")
			var session *Session
			s.EachSession(func(x *Session) bool { session = x; return false })
			cmd, args := command.Lookup([]byte("get")), [][]byte{[]byte("get"), []byte("k1")}
			for b.Loop() {
				if !session.free() && !session.permit(cmd, args) {
					b.Fatal("refused")
				}
			}
		})
	}
}
