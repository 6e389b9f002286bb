package config

import (
	"fmt"
	"strings"
)

// Markdown is docs/configuration.md, written from the table of keys.
func Markdown() string {
	var b strings.Builder
	b.WriteString(docsHead)
	group := ""
	for i := range keys {
		k := &keys[i]
		if k.Group != group {
			group = k.Group
			fmt.Fprintf(&b, "\n## %s\n", group)
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n%s.\n\n", k.Name, strings.ToUpper(k.Usage[:1])+k.Usage[1:])
		row := func(name, value string) {
			if value != "" {
				fmt.Fprintf(&b, "- %s: %s\n", name, value)
			}
		}
		kind := k.Kind
		if len(k.Values) > 0 {
			kind += " `" + strings.Join(k.Values, "`, `") + "`"
		}
		row("kind", kind)
		row("limit", k.Limit)
		if k.Default == "" {
			row("default", "none")
		} else {
			row("default", "`"+k.Default+"`")
		}
		row("example", "`"+k.Name+": "+k.Example+"`")
		row("flag and variable", fmt.Sprintf("`--%s`, `%s`", k.Name, k.Env()))
	}
	return b.String()
}

const docsHead = `# Configuration

<!-- Written by make docs from internal/config; a test keeps it current. -->

A value comes from a flag, else from the environment, else from the YAML file
(` + "`--config FILE` or `RINGCACHE_CONFIG`" + `), else from its default. The names are the
same everywhere: ` + "`max-memory`" + ` in YAML, ` + "`--max-memory`" + ` as a flag,
` + "`RINGCACHE_MAX_MEMORY`" + ` as a variable.

    addr: 10.0.0.1:7001
    seeds: [10.0.0.2:7001, 10.0.0.3:7001]
    cluster-secret: a long random string
    max-memory: 60%
    log-format: json

Unknown keys, unknown ` + "`RINGCACHE_`" + ` variables and values out of range are errors;
all of them are reported at once, with file, line and column. An empty variable
counts as unset. Variables that Kubernetes sets for a service called
` + "`ringcache`" + ` are skipped.

    ringcache config check ring.yaml     # is this file valid?
    ringcache config show                # effective values and where each came from

**Sizes** take units in any case, as in Redis: ` + "`k`, `m`, `g`, `t`" + ` are decimal (1k = 1000),
` + "`kb`, `mb`, `gb`, `tb`" + ` and ` + "`kib`, `mib`, `gib`, `tib`" + ` binary (1kb = 1024); a bare number is bytes.
**Durations** need a unit: ` + "`500ms`, `5s`, `2m`" + `. **Lists** are comma-separated, in YAML
also a sequence. Secrets are better kept in the file or the environment than in a
flag, which other users of the machine can see.
`
