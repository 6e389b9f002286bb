package admin

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics with labels, ring-cache's own and those of redis_exporter. Their names
// are data for the documentation too.
var labelled = []struct {
	name, help string
	labels     []string
	counter    bool
}{
	{"ringcache_ready", "1 while the node serves, see /readyz.", nil, false},
	{"ringcache_info", "1; the labels describe the node.", []string{"node", "version", "policy"}, false},
	{"ringcache_commands_total", "Commands by name.", []string{"cmd"}, true},
	{"ringcache_commands_failed_total", "Commands by name that were answered with an error.", []string{"cmd"}, true},
	{"ringcache_errors_total", "Error replies by their first word.", []string{"code"}, true},
	{"ringcache_keys", "Keys that the node serves.", nil, false},
	{"ringcache_keys_with_deadline", "Keys with a TTL.", nil, false},
	{"ringcache_cpu_seconds_total", "Processor time of the process.", []string{"mode"}, true},
	{"ringcache_class_bytes", "What the keys of a class take.", []string{"prefix"}, false},
	{"ringcache_class_quota_bytes", "Quota of a class; 0 is none.", []string{"prefix"}, false},
	{"ringcache_change_slots", "Slots of the changes of a kind that run.", []string{"kind"}, false},
	{"ringcache_change_slots_done", "Of these, slots that are done.", []string{"kind"}, false},
	{"ringcache_change_keys_left", "Keys that the changes of a kind still have to move, an estimate.", []string{"kind"}, false},
	{"ringcache_change_keys_per_second", "Keys that the changes of a kind move.", []string{"kind"}, false},
	{"ringcache_class_evicted_total", "Keys of a class that were evicted.", []string{"prefix"}, true},

	{"redis_up", "", nil, false},
	{"redis_start_time_seconds", "", nil, false},
	{"redis_instance_info", "", instanceLabels, false},
	{"redis_commands_total", "", []string{"cmd"}, true},
	{"redis_commands_duration_seconds_total", "", []string{"cmd"}, true},
	{"redis_commands_rejected_calls_total", "", []string{"cmd"}, true},
	{"redis_commands_failed_calls_total", "", []string{"cmd"}, true},
	{"redis_latency_percentiles_usec", "", []string{"cmd"}, false},
	{"redis_errors_total", "", []string{"err"}, true},
	{"redis_db_keys", "", []string{"db"}, false},
	{"redis_db_keys_expiring", "", []string{"db"}, false},
	{"redis_db_avg_ttl_seconds", "", []string{"db"}, false},
	{"redis_config_maxmemory", "", nil, false},
	{"redis_config_maxclients", "", nil, false},
}

var instanceLabels = []string{"role", "redis_version", "redis_build_id", "redis_mode", "os", "maxmemory_policy",
	"tcp_port", "run_id", "process_id", "master_replid"}

// descs are all metrics by name. Written once, here.
var descs = func() map[string]*prometheus.Desc {
	all := map[string]*prometheus.Desc{}
	for i := range own {
		all[own[i].name] = prometheus.NewDesc(own[i].name, own[i].help, nil, nil)
	}
	for i := range aliases {
		name := "redis_" + aliases[i].name
		all[name] = prometheus.NewDesc(name, "As redis_exporter: "+aliases[i].field+" of INFO.", nil, nil)
	}
	for _, l := range labelled {
		help := l.help
		if help == "" {
			help = "As redis_exporter."
		}
		all[l.name] = prometheus.NewDesc(l.name, help, l.labels, nil)
	}
	return all
}()

// collector makes metrics of what the node tells about itself, once per scrape.
// What the node does not tell is left out.
type collector struct{ s *Server }

// Describe describes nothing: which metrics there are depends on the node.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	src := c.s.source.Load()
	if src == nil {
		gauge(ch, "ringcache_ready", 0)
		gauge(ch, "redis_up", 0)
		return
	}
	ready := 1.0
	if (*src).Ready() != nil {
		ready = 0
	}
	gauge(ch, "ringcache_ready", ready)
	gauge(ch, "redis_up", 1)
	in := parseInfo((*src).Info())
	for field, value := range parseInfo((*src).ClusterInfo()).values {
		in.values[field] = value
	}
	send(ch, "", own, &in)
	send(ch, "redis_", aliases, &in)
	in.instance(ch)
	in.commands(ch)
	in.parts(ch)
	in.changes(ch)
}

func send(ch chan<- prometheus.Metric, prefix string, table []metric, in *info) {
	for i := range table {
		m := &table[i]
		text, ok := in.values[m.field]
		if !ok {
			continue
		}
		if v, ok := m.value(text); ok {
			kind := prometheus.GaugeValue
			if m.counter {
				kind = prometheus.CounterValue
			}
			ch <- prometheus.MustNewConstMetric(descs[prefix+m.name], kind, v)
		}
	}
}

func gauge(ch chan<- prometheus.Metric, name string, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(descs[name], prometheus.GaugeValue, v, labels...)
}

func counter(ch chan<- prometheus.Metric, name string, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(descs[name], prometheus.CounterValue, v, labels...)
}

// instance sends what describes the node as a whole.
func (in *info) instance(ch chan<- prometheus.Metric) {
	labels := make([]string, len(instanceLabels))
	for i, l := range instanceLabels {
		labels[i] = in.values[l]
	}
	gauge(ch, "redis_instance_info", 1, labels...)
	gauge(ch, "ringcache_info", 1, in.values["run_id"], in.values["redis_version"], in.values["maxmemory_policy"])
	now, ok := number(in.values["server_time_usec"])
	up, known := number(in.values["uptime_in_seconds"])
	if ok && known {
		gauge(ch, "redis_start_time_seconds", float64(int64(now/1e6-up)))
	}
	for field, name := range map[string]string{"maxmemory": "redis_config_maxmemory", "maxclients": "redis_config_maxclients"} {
		if v, ok := number(in.values[field]); ok {
			gauge(ch, name, v)
		}
	}
	for field, mode := range map[string]string{"used_cpu_user": "user", "used_cpu_sys": "system"} {
		if v, ok := number(in.values[field]); ok {
			counter(ch, "ringcache_cpu_seconds_total", v, mode)
		}
	}
}

// commands sends what is told for each command and each kind of error.
func (in *info) commands(ch chan<- prometheus.Metric) {
	calls, spent := map[string]float64{}, map[string]float64{}
	for _, l := range in.lines["Commandstats"] {
		cmd := strings.TrimPrefix(l.field, "cmdstat_")
		for _, p := range []struct {
			part  string
			scale float64
			names []string
		}{
			{"calls", 1, []string{"redis_commands_total", "ringcache_commands_total"}},
			{"usec", 1e6, []string{"redis_commands_duration_seconds_total"}},
			{"rejected_calls", 1, []string{"redis_commands_rejected_calls_total"}},
			{"failed_calls", 1, []string{"redis_commands_failed_calls_total", "ringcache_commands_failed_total"}},
		} {
			v, ok := part(l.value, p.part)
			if !ok {
				continue
			}
			switch p.part {
			case "calls":
				calls[cmd] = v
			case "usec":
				spent[cmd] = v
			}
			for _, name := range p.names {
				counter(ch, name, v/p.scale, cmd)
			}
		}
	}
	for _, l := range in.lines["Latencystats"] {
		cmd := strings.TrimPrefix(l.field, "latency_percentiles_usec_")
		if q := quantiles(l.value); len(q) > 0 {
			ch <- prometheus.MustNewConstSummary(descs["redis_latency_percentiles_usec"], uint64(calls[cmd]), spent[cmd], q, cmd)
		}
	}
	for _, l := range in.lines["Errorstats"] {
		if v, ok := part(l.value, "count"); ok {
			code := strings.ToValidUTF8(strings.TrimPrefix(l.field, "errorstat_"), "\uFFFD")
			counter(ch, "redis_errors_total", v, code)
			counter(ch, "ringcache_errors_total", v, code)
		}
	}
}

// parts sends what stands in lines of several numbers. There is one database,
// which has no line while it is empty.
func (in *info) parts(ch chan<- prometheus.Metric) {
	db := in.values["db0"]
	keys, _ := part(db, "keys")
	volatile, _ := part(db, "expires")
	ttl, _ := part(db, "avg_ttl")
	gauge(ch, "redis_db_keys", keys, "db0")
	gauge(ch, "redis_db_keys_expiring", volatile, "db0")
	gauge(ch, "redis_db_avg_ttl_seconds", ttl/1000, "db0")
	gauge(ch, "ringcache_keys", keys)
	gauge(ch, "ringcache_keys_with_deadline", volatile)
	seen := map[string]bool{}
	for _, l := range in.lines["Memory"] {
		if !strings.HasPrefix(l.field, "ringcache_class") {
			continue
		}
		prefix, numbers, ok := class(l.value)
		if !ok || seen[prefix] {
			continue
		}
		seen[prefix] = true
		for name, of := range map[string]string{"ringcache_class_bytes": "bytes", "ringcache_class_quota_bytes": "quota"} {
			v, _ := part(numbers, of)
			gauge(ch, name, v, prefix)
		}
		evicted, _ := part(numbers, "evicted")
		counter(ch, "ringcache_class_evicted_total", evicted, prefix)
	}
}

// changes sends the changes that run, summed up by kind: their IDs would be series
// without end.
func (in *info) changes(ch chan<- prometheus.Metric) {
	sums := map[string]map[string]float64{}
	for _, l := range in.lines["Cluster"] {
		digits, ok := strings.CutPrefix(l.field, "ringcache_change")
		if !ok || digits == "" || digits[0] < '0' || digits[0] > '9' {
			continue
		}
		kind := ""
		for p := range strings.SplitSeq(l.value, ",") {
			if v, ok := strings.CutPrefix(p, "kind="); ok {
				kind = strings.ToValidUTF8(v, "\uFFFD")
			}
		}
		if sums[kind] == nil {
			sums[kind] = map[string]float64{}
		}
		for _, name := range []string{"slots", "slots_done", "keys_left", "keys_per_second"} {
			v, _ := part(l.value, name)
			sums[kind][name] += v
		}
	}
	for kind, of := range sums {
		for name, v := range of {
			gauge(ch, "ringcache_change_"+name, v, kind)
		}
	}
}
