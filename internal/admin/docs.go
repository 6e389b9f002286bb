package admin

import (
	"fmt"
	"strings"
)

const docsHead = `# Metrics

<!-- Written by make docs from internal/admin; a test keeps it current. -->

    ringcache serve --admin 127.0.0.1:8500

` + "`/metrics`" + ` is for Prometheus, ` + "`/healthz`" + ` answers 200 while the process runs, ` + "`/readyz`" + ` 200 while the
node serves and 503, with the reason, while it starts, joins, drains or stops.
` + "`--admin-pprof`" + ` adds ` + "`/debug/pprof`" + `. The listener is read-only and has no authentication:
without a host in the address it is the loopback interface, and another one is
warned about. It takes 64 connections and makes two scrapes at a time; what a scrape
costs does not depend on keys or clients.

    scrape_configs:
      - job_name: ringcache
        static_configs:
          - targets: [127.0.0.1:8500]

All values are those of INFO and CLUSTER INFO at that moment. Beside them stand the
metrics of the Go runtime and of the process (` + "`go_*`, `process_*`" + `).

## Own names
`

const docsAliases = `
## Names of redis_exporter

These are the names that redis_exporter gives, among them all that the dashboards 763
(redis_exporter's own) and 11835 (helm stable/redis-ha) of grafana.com ask for: a test
evaluates each of their expressions over two scrapes of a node, and compares them with
what its client counted. Their variables are labels that Prometheus gives to a target
(` + "`instance`, `namespace`, `pod`" + `). A node is scraped directly, so there are no metrics about the exporter itself, of single keys,
of modules, of Sentinel or of replicas. What a node has no figure for is left out:
` + "`expire_cycle_cpu_milliseconds`, `expired_time_cap_reached_count`, `eventloop_*`" + `, processor
time of single threads and memory of interpreters. What cannot happen in a node (forks,
append-only files, replication) is 0, and the mean TTL of keys is not computed: 0 as well.

`

// Markdown is docs/metrics.md.
func Markdown() string {
	var b strings.Builder
	b.WriteString(docsHead)
	b.WriteString("\n| metric | kind | of INFO | what |\n|---|---|---|---|\n")
	kind := map[bool]string{false: "gauge", true: "counter"}
	for i := range own {
		m := &own[i]
		fmt.Fprintf(&b, "| `%s` | %s | `%s` | %s |\n", m.name, kind[m.counter], m.field, m.help)
	}
	for _, l := range labelled {
		if l.help != "" {
			fmt.Fprintf(&b, "| `%s` | %s | | %s |\n", withLabels(l.name, l.labels), kind[l.counter], l.help)
		}
	}
	b.WriteString(docsAliases)
	b.WriteString("\n| metric | kind | of INFO |\n|---|---|---|\n")
	for _, l := range labelled {
		if l.help == "" {
			fmt.Fprintf(&b, "| `%s` | %s | |\n", withLabels(l.name, l.labels), kind[l.counter])
		}
	}
	for i := range aliases {
		m := &aliases[i]
		fmt.Fprintf(&b, "| `redis_%s` | %s | `%s` |\n", m.name, kind[m.counter], m.field)
	}
	return b.String()
}

func withLabels(name string, labels []string) string {
	if len(labels) == 0 {
		return name
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}
