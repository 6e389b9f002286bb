// Package acl owns the users of a node and what each may do: commands, keys and
// channels, as in Redis 7. It reads and writes the rules in Redis's words, decides
// about one command at a time, and keeps a bounded log of what was refused.
//
// It never knows sessions and never opens files. Rules are immutable and stand behind an
// atomic pointer, so a check takes no lock; Users may be used from any goroutine.
package acl

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultName is the user of sessions that did not name one.
const DefaultName = "default"

// ErrDefault is the refusal to delete the user "default".
const ErrDefault = refusal("The 'default' user cannot be removed")

// User is one user. Sessions keep it, and see each change of its rules.
type User struct {
	name  string
	rules atomic.Pointer[Rules]
}

// Name is the user's name.
func (u *User) Name() string { return u.name }

// Rules are the rules in force. It costs one atomic load.
func (u *User) Rules() *Rules { return u.rules.Load() }

// Users are all users of a node.
type Users struct {
	def *User
	log log

	mu     sync.Mutex // guards the map and every change of rules
	byName map[string]*User
}

// New makes the user "default", who may do everything without a password.
func New() *Users {
	u := &Users{def: &User{name: DefaultName}}
	u.byName = map[string]*User{DefaultName: u.def}
	u.def.rules.Store(openRules())
	return u
}

func openRules() *Rules {
	r := &Rules{root: newSelector()}
	for _, w := range []string{"on", "nopass", "~*", "&*", "+@all"} {
		_ = r.apply(w) // all of them are right
	}
	_ = r.settle()
	return r
}

// Nobody are rules that let nobody in, with one password that is not known.
func Nobody() *Rules {
	return &Rules{root: newSelector(), passwords: []string{strings.Repeat("0", 64)}}
}

// Default is the user "default". There always is one.
func (u *Users) Default() *User { return u.def }

// Get returns a user, nil if there is none of that name.
func (u *Users) Get(name string) *User {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.byName[name]
}

// Names lists the users in order.
func (u *Users) Names() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.byName))
}

// Lines are the users in the form of a file of users, in order.
func (u *Users) Lines() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []string
	for _, name := range slices.Sorted(maps.Keys(u.byName)) {
		out = append(out, u.byName[name].Rules().Line(name))
	}
	return out
}

// WordError is an error about one word of ACL SETUSER.
type WordError struct {
	Word string
	Err  error
}

func (e *WordError) Error() string { return fmt.Sprintf("'%s': %s", e.Word, e.Err) }
func (e *WordError) Unwrap() error { return e.Err }

// Set creates a user, or changes one, by words of ACL SETUSER. On an error
// nothing is changed.
func (u *Users) Set(name string, words []string) error {
	if err := nameFault(name); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	user := u.byName[name]
	rules := &Rules{root: newSelector()}
	if user != nil {
		rules = user.Rules().clone()
	} else if len(u.byName) >= MaxUsers {
		return fmt.Errorf("there are %d users, the limit; delete some", MaxUsers)
	}
	if err := rules.change(words); err != nil {
		return err
	}
	if user == nil {
		user = &User{name: name}
		u.byName[name] = user
	}
	user.rules.Store(rules)
	return nil
}

// change applies words and settles.
func (r *Rules) change(words []string) error {
	merged, err := merge(words)
	if err != nil {
		return err
	}
	for _, w := range merged {
		if err := r.apply(w); err != nil {
			return &WordError{w, err}
		}
	}
	return r.settle()
}

// clone copies what apply changes in place.
func (r *Rules) clone() *Rules {
	c := *r
	c.passwords = slices.Clone(r.passwords)
	c.more = slices.Clone(r.more)
	return &c
}

func nameFault(name string) error {
	if strings.ContainsAny(name, blanks+"\x00") {
		return refusal("Usernames can't contain spaces or null characters")
	}
	if name == "" || len(name) > MaxName {
		return fmt.Errorf("the name of a user has 1 to %d bytes, this one %d", MaxName, len(name))
	}
	return nil
}

// SetPassword gives the user "default" one password, or none: then it needs none.
func (u *Users) SetPassword(password string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	rules := u.def.Rules().clone()
	words := []string{"resetpass", ">" + password}
	if password == "" {
		words[1] = "nopass"
	}
	for _, w := range words {
		_ = rules.apply(w) // both are right
	}
	u.def.rules.Store(rules)
}

// Delete removes a user and returns it; nil if there is none of that name. It may
// do nothing any more: its sessions are to be ended.
func (u *Users) Delete(name string) (*User, error) {
	if name == DefaultName {
		return nil, ErrDefault
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.remove(name), nil
}

func (u *Users) remove(name string) *User {
	user := u.byName[name]
	if user == nil {
		return nil
	}
	delete(u.byName, name)
	user.rules.Store(&Rules{root: newSelector()})
	return user
}

// Load replaces all users by those of a text with a line for each, in the form of
// Lines; the user "default" stays as it is if the text does not name it. It
// returns the users that are gone. On errors, all of which are told, with the name
// of the file and the line, nothing is changed.
func (u *Users) Load(file, text string) (gone []*User, err error) {
	loaded, err := parseFile(file, text)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(u.byName)) {
		if loaded[name] == nil && name != DefaultName {
			gone = append(gone, u.remove(name))
		}
	}
	for name, rules := range loaded {
		user := u.byName[name]
		if user == nil {
			user = &User{name: name}
			u.byName[name] = user
		}
		user.rules.Store(rules)
	}
	return gone, nil
}

// parseFile reads the lines of a file of users.
func parseFile(file, text string) (map[string]*Rules, error) {
	if len(text) > MaxFile {
		return nil, fmt.Errorf("%s: the file has %d bytes, limit %d", file, len(text), MaxFile)
	}
	loaded := map[string]*Rules{}
	var faults []string
	n := 0
	for row := range strings.SplitSeq(text, "\n") {
		n++
		fault := func(format string, a ...any) {
			faults = append(faults, fmt.Sprintf("%s:%d: ", file, n)+fmt.Sprintf(format, a...)+".")
		}
		words := words(row)
		if len(words) == 0 {
			continue
		}
		if words[0] != "user" || len(words) < 2 {
			fault("should start with user keyword followed by the username")
			continue
		}
		name := words[1]
		if loaded[name] != nil {
			fault("duplicate user '%s' found", name)
			continue
		}
		if err := nameFault(name); err != nil {
			fault("%v", err)
			continue
		}
		rules := &Rules{root: newSelector()}
		if err := rules.change(words[2:]); err != nil {
			fault("%v", err)
			continue
		}
		if loaded[name] = rules; len(loaded) > MaxUsers {
			fault("more than %d users, the limit", MaxUsers)
			break
		}
	}
	if len(faults) > 0 {
		return nil, errors.New(strings.Join(faults, " "))
	}
	return loaded, nil
}

// blanks are what separates words. Nothing else does: a pattern may have any other
// bytes, and what Unicode takes for space is a part of it.
const blanks = " \t\n\v\f\r"

func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(blanks, r) })
}

// CheckLine tells what is wrong with one user: the name, then the rules.
func CheckLine(line string) error {
	name, rest, _ := strings.Cut(line, " ")
	if err := nameFault(name); err != nil {
		return err
	}
	rules := &Rules{root: newSelector()}
	return rules.change(words(rest))
}

// Categories are the names of ACL CAT. Do not modify them.
func Categories() []string { return categories }

// CommandsIn lists the full names of the commands of a category; false if there
// is no such category.
func CommandsIn(category string) ([]string, bool) {
	category = strings.ToLower(category)
	if !slices.Contains(categories, category) {
		return nil, false
	}
	return commandNames(category), true
}

// Log is the log of refusals.
func (u *Users) Log() []Entry { return u.log.entries() }

// ResetLog empties it.
func (u *Users) ResetLog() { u.log.reset() }

// Note puts a refusal into the log.
func (u *Users) Note(now time.Time, e Entry) { u.log.add(now, e) }

// Denials counts what was refused since the start, by reason.
func (u *Users) Denials(r Reason) uint64 { return u.log.denied[r].Load() }
