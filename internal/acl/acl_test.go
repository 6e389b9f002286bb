package acl

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/command"
)

// lookup finds the command of a line, and its arguments.
func lookup(t testing.TB, line string) (*command.Command, [][]byte) {
	t.Helper()
	args := bytes.Fields([]byte(line))
	cmd := command.Lookup(args[0])
	if cmd != nil && cmd.Subs != nil && len(args) > 1 {
		cmd = cmd.Sub(args[1])
	}
	if cmd == nil {
		t.Fatalf("%q is no command", line)
	}
	return cmd, args
}

func rulesOf(t testing.TB, words string) *Rules {
	t.Helper()
	u := New()
	if err := u.Set("x", strings.Fields(words)); err != nil {
		t.Fatalf("%s: %v", words, err)
	}
	return u.Get("x").Rules()
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		rules, line string
		want        Reason
		arg         int
	}{
		{"", "get a", DeniedCommand, 0},
		{"", "auth x", Allowed, 0}, // comes before a login
		{"+get", "get a", DeniedKey, 1},
		{"+get ~a", "get a", Allowed, 0},
		{"+get ~a", "get aa", DeniedKey, 1},
		{"+@all ~a*", "mget a1 a2 b a3", DeniedKey, 3},
		{"+@all %R~a", "get a", Allowed, 0},
		{"+@all %R~a", "set a 1", DeniedKey, 1},
		{"+@all %W~a", "set a 1", Allowed, 0},
		{"+@all %W~a", "set a 1 get", DeniedKey, 1},
		{"+@all %W~a", "get a", DeniedKey, 1},
		{"+@all %R~a %W~b", "copy a b", Allowed, 0},
		{"+@all %R~a %W~b", "copy b a", DeniedKey, 1},
		{"+@all %R~a %W~a", "getset a 1", Allowed, 0},
		{"+@all %W~a", "exists a", Allowed, 0}, // tells nothing of the value
		{"allkeys +@all -@dangerous", "config get x", DeniedCommand, 0},
		{"allkeys +@all -@dangerous", "get x", Allowed, 0},
		{"allkeys +@all -@dangerous +config|get", "config get x", Allowed, 0},
		{"allkeys +@all -@dangerous +config|get", "config set x 1", DeniedCommand, 0},
		{"allkeys +client -client|kill", "client id", Allowed, 0},
		{"allkeys +client -client|kill", "client kill id 1", DeniedCommand, 0},
		{"allkeys +@read", "get x", Allowed, 0},
		{"allkeys +@read", "set x 1", DeniedCommand, 0},
		{"allkeys +select|0", "select 0", Allowed, 0},
		{"allkeys +select|0", "select 1", DeniedCommand, 0},
		{"+get ~a (+set ~b)", "set b 1", Allowed, 0},
		{"+get ~a (+set ~b)", "set a 1", DeniedKey, 1}, // nearer than the first
		{"+get ~a (+set ~b)", "get b", DeniedKey, 1},
		{"+get ~a (+@all allkeys)", "flushall", Allowed, 0},
		{"+@all allkeys &news.*", "publish news.eu x", Allowed, 0},
		{"+@all allkeys &news.*", "publish other x", DeniedChannel, 1},
		{"+@all allkeys &news.*", "subscribe news.eu news.us other", DeniedChannel, 3},
		{"+@all allkeys &news.*", "psubscribe news.*", Allowed, 0},
		{"+@all allkeys &news.*", "psubscribe news.e*", DeniedChannel, 1}, // only as given
		{"+@all allkeys &*", "psubscribe anything*", Allowed, 0},
		{"+@all allkeys", "publish c x", DeniedChannel, 1},
		{"+@all allkeys allchannels nocommands", "get x", DeniedCommand, 0},
		{"+@all allkeys resetkeys ~b", "get a", DeniedKey, 1},
		{"+@all ~a*", "eval x 2 a1 b1", DeniedKey, 4},
	} {
		cmd, args := lookup(t, tt.line)
		if got := rulesOf(t, tt.rules).Check(cmd, args); got != (Denial{tt.want, tt.arg}) {
			t.Errorf("%q, %q: %v, want %v at %d", tt.rules, tt.line, got, tt.want, tt.arg)
		}
	}
}

// What is described can be given again and means the same.
func TestLinesRoundTrip(t *testing.T) {
	for _, words := range []string{"", "on nopass allkeys allchannels +@all", "on >a >b ~k* %R~r* %W~w* &c +@read -get +client|id -@dangerous",
		"off reset +select|0 +get|Foo (~x +@all -config) (&y)", "on +@all -@all +get +@all -set"} {
		r := rulesOf(t, words)
		line := r.Line("x")
		u := New()
		if _, err := u.Load("f", line+"\n"); err != nil {
			t.Errorf("%q becomes %q: %v", words, line, err)
			continue
		}
		if again := u.Get("x").Rules().Line("x"); again != line {
			t.Errorf("%q becomes %q, then %q", words, line, again)
		}
		for _, c := range command.All() {
			for _, c := range append([]*command.Command{c}, c.Subs...) {
				args := [][]byte{[]byte("x"), []byte("0"), []byte("k"), []byte("k")}
				if c.TakesKeys() {
					continue
				}
				if a, b := r.Check(c, args), u.Get("x").Rules().Check(c, args); a != b {
					t.Errorf("%q: %s is %v, then %v", words, c.FullName(), a, b)
				}
			}
		}
	}
}

func TestPasswords(t *testing.T) {
	r := rulesOf(t, "on >a >b")
	for password, want := range map[string]bool{"a": true, "b": true, "c": false, "": false} {
		if r.Login([]byte(password)) != want {
			t.Errorf("login with %q: %v", password, !want)
		}
	}
	if rulesOf(t, ">a").Login([]byte("a")) {
		t.Error("a user who is off logs in")
	}
	if !rulesOf(t, "on nopass").Login([]byte("anything")) || rulesOf(t, "on nopass >a").Login([]byte("b")) || rulesOf(t, "on").Login(nil) {
		t.Error("nopass")
	}
	if Nobody().Login(nil) || Nobody().Login([]byte(strings.Repeat("0", 64))) {
		t.Error("nobody logs in")
	}
}

// A change reaches those who hold the user, and nothing of it is there after an
// error.
func TestChanges(t *testing.T) {
	u := New()
	if !u.Default().Rules().Unrestricted {
		t.Error("the default user is restricted")
	}
	_ = u.Set("a", []string{"on", "allkeys", "+@all", "allchannels", "(+get)"})
	a := u.Get("a")
	if !a.Rules().Unrestricted {
		t.Error("all rights are restricted")
	}
	before := a.Rules()
	if err := u.Set("a", []string{"-get", "~x", "+nosuch"}); err == nil || a.Rules() != before {
		t.Errorf("an error changed the rules: %v", err)
	}
	if err := u.Set("a", []string{"-get"}); err != nil || a.Rules().Unrestricted || !before.Unrestricted {
		t.Errorf("the change: %v", err)
	}
	if gone, err := u.Delete("a"); gone != a || err != nil || u.Get("a") != nil {
		t.Errorf("delete: %v, %v", gone, err)
	}
	cmd, args := lookup(t, "ping")
	if d := a.Rules().Check(cmd, args); d.Reason != DeniedCommand {
		t.Errorf("a user who is gone may: %v", d)
	}
	if _, err := u.Delete(DefaultName); err != ErrDefault {
		t.Errorf("delete default: %v", err)
	}
}

func TestLoad(t *testing.T) {
	u := New()
	u.SetPassword("secret")
	_ = u.Set("old", []string{"on"})
	_ = u.Set("kept", []string{"on"})
	kept := u.Get("kept")
	_, err := u.Load("f.acl", "user kept on ~* +@all\nfoo\nuser b foo on\nuser c (+get\nuser kept on\n\nuser d on +nosuch\nuser\n")
	for _, want := range []string{"f.acl:2: should start", "f.acl:3: 'foo': Syntax error", "f.acl:4: Unmatched", "f.acl:5: duplicate user 'kept'", "f.acl:7: '+nosuch'", "f.acl:8: should start"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if u.Get("old") == nil || kept.Rules().root.allCommands {
		t.Error("a file with faults changed something")
	}
	gone, err := u.Load("f.acl", "user kept on ~* +@all\r\n\n")
	if err != nil || len(gone) != 1 || gone[0].Name() != "old" {
		t.Errorf("gone %v, %v", gone, err)
	}
	if u.Get("kept") != kept || !kept.Rules().root.allCommands || u.Default().Rules().NoPass() {
		t.Error("the sessions of kept do not see the new rules, or default lost its password")
	}
}

func TestBounds(t *testing.T) {
	u := New()
	var many []string
	for i := range MaxPasswords + 1 {
		many = append(many, fmt.Sprintf(">%d", i))
	}
	for _, words := range [][]string{
		{"~" + strings.Repeat("x", 2000)}, many, strings.Fields(strings.Repeat("(~a) ", MaxSelectors+1)),
	} {
		if err := u.Set("x", words); err == nil {
			t.Errorf("%.40q is accepted", words)
		}
	}
	var patterns []string
	for i := range 200 {
		patterns = append(patterns, fmt.Sprintf("~%d%s", i, strings.Repeat("x", 1000)))
	}
	if err := u.Set("x", patterns); err == nil || !strings.Contains(err.Error(), "limit 65536") {
		t.Errorf("200 KB of patterns: %v", err)
	}
	for _, name := range []string{"", "a b", "a\nb", strings.Repeat("x", 600)} {
		if err := u.Set(name, nil); err == nil {
			t.Errorf("the name %.20q is accepted", name)
		}
	}
	now := time.Unix(1000, 0)
	for i := range 3 * MaxLog {
		u.Note(now, Entry{Reason: DeniedKey, Object: fmt.Sprint(i, strings.Repeat("x", 100_000))})
	}
	list := u.Log()
	if len(list) != MaxLog || len(list[0].Object) > maxObject || !strings.HasPrefix(list[0].Object, fmt.Sprint(3*MaxLog-1)) {
		t.Errorf("%d entries, the first of %d bytes", len(list), len(list[0].Object))
	}
	if n := u.Denials(DeniedKey); n != 3*MaxLog {
		t.Errorf("%d denials are counted", n)
	}
}

func TestLogJoins(t *testing.T) {
	u := New()
	now := time.Unix(1000, 0)
	e := Entry{Reason: DeniedCommand, Context: "toplevel", Object: "get", User: "a"}
	u.Note(now, e)
	u.Note(now.Add(30*time.Second), e)
	other := e
	other.Context = "lua"
	u.Note(now.Add(30*time.Second), other)
	u.Note(now.Add(60*time.Second), e)
	u.Note(now.Add(121*time.Second), e)
	var got []string
	for _, e := range u.Log() {
		got = append(got, fmt.Sprint(e.Count, e.Context))
	}
	if s := strings.Join(got, ", "); s != "1toplevel, 3toplevel, 1lua" {
		t.Error(s)
	}
	u.ResetLog()
	if len(u.Log()) != 0 {
		t.Error("a log after its reset")
	}
}

// The check of a user with rules allocates nothing, and that of one with all
// rights is a look at one flag.
func TestCheckAllocates(t *testing.T) {
	r := rulesOf(t, "on +@all -@dangerous ~user:* %R~"+strings.Repeat("config:*", 8)+" &x")
	cmd, args := lookup(t, "mget user:1 user:2 user:3")
	if n := testing.AllocsPerRun(100, func() { r.Check(cmd, args) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// No rule makes a key of 64 KiB cost more than its length times the pattern's
// words: CVE-2022-36021 and CVE-2024-31228 were about such patterns.
func TestCVE202236021AndCVE202431228PatternsAreBounded(t *testing.T) {
	var words []string
	for i := range 16 {
		words = append(words, "~*"+strings.Repeat("a", 30+i)+strings.Repeat("*a", 400)+"b")
	}
	r := rulesOf(t, "+get "+strings.Join(words, " "))
	cmd, _ := lookup(t, "get x")
	args := [][]byte{[]byte("get"), bytes.Repeat([]byte("a"), 64<<10)}
	began := time.Now()
	if d := r.Check(cmd, args); d.Reason != DeniedKey {
		t.Errorf("%v", d)
	}
	if d := time.Since(began); d > 5*time.Second { // going back to stars, it takes minutes
		t.Errorf("one check took %v", d)
	}
}

// FuzzRules: no words make the parser panic; what it accepts can be written and
// read again.
func FuzzRules(f *testing.F) {
	for _, s := range []string{"on >a ~k* %R~r* &c +@read -get +client|id (+set %W~w)", "reset nopass allkeys", "+get|x -select|1 #" + strings.Repeat("a", 64),
		"(", "()", "( +get )", "%~a", "~", "&", "+", "-@", "+client|id|x", "<x !y", "clearselectors (a", "&\u0085", "~\u00a0 (~\u2003 +get)", "\v"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u := New()
		if u.Set("x", strings.Split(text, " ")) != nil {
			if u.Get("x") != nil {
				t.Error("a fault made a user")
			}
			return
		}
		line := u.Get("x").Rules().Line("x")
		again := New()
		if _, err := again.Load("f", line); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if got := again.Get("x").Rules().Line("x"); got != line {
			t.Errorf("%q becomes %q", line, got)
		}
		cmd, args := lookup(t, "copy a b")
		u.Get("x").Rules().Check(cmd, args)
	})
}

// What Unicode calls space is part of a pattern: a file gives it back as it was. A line
// of blanks is no user.
func TestPatternsMayHoldUnicodeSpaces(t *testing.T) {
	u := New()
	for _, pattern := range []string{"~a\u0085b", "&\u0085", "%R~\u2003"} {
		if err := u.Set("x", []string{"reset", pattern}); err != nil {
			t.Fatal(err)
		}
		line, again := u.Get("x").Rules().Line("x"), New()
		if _, err := again.Load("f", line+"\n\v\n \f\n"); err != nil {
			t.Fatal(err)
		}
		if got := again.Get("x").Rules().Line("x"); got != line {
			t.Errorf("%q becomes %q", line, got)
		}
	}
}
