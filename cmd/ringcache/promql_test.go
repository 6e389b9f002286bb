package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// series is a sample of a scrape, or of a result.
type series struct {
	labels map[string]string // without the name
	value  float64
}

// key tells which samples belong together.
func (s *series) key() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.labels)) {
		fmt.Fprintf(&b, "%s=%q,", name, s.labels[name])
	}
	return b.String()
}

// scrapes are two scrapes of one target, which count as a second apart, by metric.
type scrapes struct{ before, after map[string][]series }

// labelled is a line of a scrape, apart from its value.
var labelled = regexp.MustCompile(`^([a-zA-Z_:]+)(?:\{(.*)\})?$`)
var labelPair = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)

// byMetric sorts a scrape by metric, with the labels that Prometheus adds.
func byMetric(samples map[string]float64, target map[string]string) map[string][]series {
	out := map[string][]series{}
	for row, v := range samples {
		m := labelled.FindStringSubmatch(row)
		if m == nil {
			continue
		}
		labels := maps.Clone(target)
		for _, p := range labelPair.FindAllStringSubmatch(m[2], -1) {
			labels[p[1]] = p[2]
		}
		out[m[1]] = append(out[m[1]], series{labels, v})
	}
	return out
}

// promQuery evaluates the part of PromQL that the dashboards use, which is no more than
// what follows. A number is a sample without labels.
type promQuery struct {
	text string
	data *scrapes
}

var token = regexp.MustCompile(`^\s*(!=|[a-z_]+|[0-9.]+|"[^"]*"|=~|.)`)

func (q *promQuery) peek() string {
	m := token.FindStringSubmatch(q.text)
	if m == nil {
		return ""
	}
	return m[1]
}

func (q *promQuery) next() string {
	t := q.peek()
	q.text = strings.TrimLeft(q.text, " \n")[len(t):]
	return t
}

func (q *promQuery) expect(t string) {
	if got := q.next(); got != t {
		panic(fmt.Sprintf("%q where %q should be, before %q", got, t, q.text))
	}
}

// eval returns the result of an expression, sorted by labels.
func eval(expr string, data *scrapes) (out []series, err error) {
	q := &promQuery{expr, data}
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%s: %v", expr, cause)
		}
	}()
	out = q.sum()
	if q.peek() == "!=" {
		q.next()
		than := q.sum()[0].value
		out = slices.DeleteFunc(out, func(s series) bool { return s.value == than })
	}
	if strings.TrimSpace(q.text) != "" {
		panic("what is " + q.text)
	}
	slices.SortFunc(out, func(a, b series) int { return strings.Compare(a.key(), b.key()) })
	return out, nil
}

func (q *promQuery) sum() []series {
	out := q.product()
	for q.peek() == "+" || q.peek() == "-" {
		op := q.next()
		out = combine(op, out, q.product())
	}
	return out
}

func (q *promQuery) product() []series {
	out := q.term()
	for q.peek() == "*" || q.peek() == "/" {
		op := q.next()
		out = combine(op, out, q.term())
	}
	return out
}

// combine joins the samples of equal labels, or all with a number.
func combine(op string, a, b []series) (out []series) {
	apply := func(x, y float64) float64 {
		switch op {
		case "+":
			return x + y
		case "-":
			return x - y
		case "*":
			return x * y
		}
		return x / y
	}
	for _, x := range a {
		for _, y := range b {
			switch {
			case len(a) == 1 && x.labels == nil:
				out = append(out, series{y.labels, apply(x.value, y.value)})
			case x.key() == y.key():
				out = append(out, series{x.labels, apply(x.value, y.value)})
			}
		}
	}
	return out
}

func (q *promQuery) term() []series {
	t := q.next()
	if v, err := strconv.ParseFloat(t, 64); err == nil {
		return []series{{nil, v}}
	}
	switch t {
	case "(":
		out := q.sum()
		q.expect(")")
		return out
	case "rate", "irate", "max_over_time":
		q.expect("(")
		before, after := q.selector(q.next())
		q.expect(")")
		if t == "max_over_time" {
			return after
		}
		var out []series
		for _, s := range after {
			i := slices.IndexFunc(before, func(b series) bool { return b.key() == s.key() })
			if i >= 0 { // what appears needs two samples to have a rate
				out = append(out, series{s.labels, s.value - before[i].value})
			}
		}
		return out
	case "sum", "avg", "max", "topk":
		return q.aggregate(t)
	}
	_, after := q.selector(t)
	return after
}

// selector reads what follows the name of a metric.
func (q *promQuery) selector(name string) (before, after []series) {
	match := func(series) bool { return true }
	if q.peek() == "{" {
		q.next()
		for q.peek() != "}" {
			label, op, value, more := q.next(), q.next(), strings.Trim(q.next(), `"`), match
			pattern := regexp.MustCompile("^(?:" + strings.TrimPrefix(value, "$") + ")$") // a variable is called like its value
			if op != "=" && op != "=~" {
				panic("no matcher " + op)
			}
			match = func(s series) bool { return more(s) && pattern.MatchString(s.labels[label]) }
			if q.peek() == "," {
				q.next()
			}
		}
		q.expect("}")
	}
	if q.peek() == "[" {
		for t := q.next(); t != "]"; t = q.next() {
			if t == "" {
				panic("a range without an end")
			}
		}
	}
	pick := func(all []series) (out []series) {
		for _, s := range all {
			if match(s) {
				out = append(out, s)
			}
		}
		return out
	}
	return pick(q.data.before[name]), pick(q.data.after[name])
}

// aggregate reads what follows sum and its relatives, with the labels that are kept.
func (q *promQuery) aggregate(op string) (out []series) {
	q.expect("(")
	most := 0
	if op == "topk" {
		most = int(q.term()[0].value)
		q.expect(",")
	}
	in := q.sum()
	q.expect(")")
	var by []string
	if q.peek() == "by" {
		q.next()
		q.expect("(")
		for t := q.next(); t != ")"; t = q.next() {
			if t != "," {
				by = append(by, t)
			}
		}
	}
	if op == "topk" {
		slices.SortFunc(in, func(a, b series) int { return int(b.value - a.value) })
		return in[:min(most, len(in))]
	}
	counts := map[string]int{}
	at := map[string]int{}
	for _, s := range in {
		labels := map[string]string{}
		for _, l := range by {
			if s.labels[l] == "" {
				panic("there is no label " + l)
			}
			labels[l] = s.labels[l]
		}
		group := series{labels, s.value}
		i, ok := at[group.key()]
		if !ok {
			at[group.key()] = len(out)
			out = append(out, group)
		} else if op == "max" {
			out[i].value = max(out[i].value, s.value)
		} else {
			out[i].value += s.value
		}
		counts[group.key()]++
	}
	for i := range out {
		if op == "avg" {
			out[i].value /= float64(counts[out[i].key()])
		}
	}
	return out
}
