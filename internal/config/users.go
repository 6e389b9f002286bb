package config

import (
	"fmt"
	"strings"

	"github.com/ringcache/ringcache/internal/acl"
)

// userList is the key of users: lines of ACL rules, separated by semicolons; in
// YAML also a list with one item for each.
func userList(k Key) Key {
	k.Kind, k.list, k.separator = "users", true, ";"
	k.Limit = fmt.Sprintf("up to %d, `name rule rule ...` each", acl.MaxUsers)
	k.set = func(c *Config, s string) (string, error) {
		var users []string
		for line := range strings.SplitSeq(s, ";") {
			if line = strings.TrimSpace(line); line == "" {
				continue
			}
			if err := acl.CheckLine(line); err != nil {
				name, _, _ := strings.Cut(line, " ") // the rest may hold a password
				return "", bad("see ACL SETUSER of Redis", "user %.64q: %v", name, err)
			}
			users = append(users, line)
		}
		c.Options.Users = users
		if len(users) == 0 {
			return "", nil
		}
		return fmt.Sprintf("%d users", len(users)), nil
	}
	return k
}
