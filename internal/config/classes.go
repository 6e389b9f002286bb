package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ringcache/ringcache"
)

// ranks are the words for ringcache.Class.Rank, lowest first.
var ranks = []string{"lowest", "low", "normal", "high", "highest"}

// classList is the key of classes: `prefix=rank[,quota]`, separated by
// semicolons; in YAML also a list with one item for each.
func classList(k Key) Key {
	k.Kind, k.Limit = "classes", fmt.Sprintf("up to %d, prefix=rank or prefix=rank,quota each; rank is %s", ringcache.MaxClasses-1, strings.Join(ranks, ", "))
	k.list, k.separator = true, ";"
	k.set = func(c *Config, s string) (string, error) {
		var classes []ringcache.Class
		var shown []string
		for item := range strings.SplitSeq(s, ";") {
			if item = strings.TrimSpace(item); item == "" {
				continue
			}
			class, err := parseClass(item)
			if err != nil {
				return "", err
			}
			if slices.ContainsFunc(classes, func(o ringcache.Class) bool { return o.Prefix == class.Prefix }) {
				return "", bad("give each prefix once", "prefix %q is given twice", class.Prefix)
			}
			classes = append(classes, class)
			text := class.Prefix + "=" + ranks[class.Rank+len(ranks)/2]
			if class.Quota > 0 {
				text += "," + FormatSize(class.Quota)
			}
			shown = append(shown, text)
		}
		named := len(classes)
		if slices.ContainsFunc(classes, func(o ringcache.Class) bool { return o.Prefix == "" }) {
			named--
		}
		if named > ringcache.MaxClasses-1 {
			return "", bad("leave some out; keys of no class are one too", "%d classes, limit %d", named, ringcache.MaxClasses-1)
		}
		c.Options.Classes = classes
		return strings.Join(shown, ";"), nil
	}
	return k
}

// parseClass reads one item; the prefix may contain anything but a semicolon,
// also "=".
func parseClass(item string) (class ringcache.Class, err error) {
	at := strings.LastIndexByte(item, '=')
	if at < 0 {
		return class, bad("write prefix=rank or prefix=rank,quota, for example session:=high,512mb", "class %q has no rank", item)
	}
	class.Prefix = strings.TrimSpace(item[:at])
	if len(class.Prefix) > maxClassPrefix {
		return class, bad("shorten it", "the prefix %.16q... has %d bytes, limit %d", class.Prefix, len(class.Prefix), maxClassPrefix)
	}
	word, quota, hasQuota := strings.Cut(item[at+1:], ",")
	word, err = parseOneOf(strings.TrimSpace(word), ranks)
	if err != nil {
		return class, err
	}
	class.Rank = slices.Index(ranks, word) - len(ranks)/2
	if hasQuota {
		if class.Quota, err = ParseSize(strings.TrimSpace(quota)); err != nil {
			return class, err
		}
		if class.Quota == 0 {
			return class, bad("give a size, or leave it out for no quota", "the quota of class %q is 0", class.Prefix)
		}
	}
	return class, nil
}
