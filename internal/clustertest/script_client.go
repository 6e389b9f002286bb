package clustertest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

const (
	// callMost bounds one request of a client.
	callMost = 5 * time.Second
	// shownBytes is how much of a value is printed.
	shownBytes = 64
)

var (
	keyName   = regexp.MustCompile(`\$[a-z][a-z0-9]*`)
	valueSize = regexp.MustCompile(`^@\d+[km]?$`)
)

// expand puts keys in the place of their names, and values in that of sizes.
func (r *scriptRun) expand(words []string) (out []string, err error) {
	for _, w := range words {
		if valueSize.MatchString(w) {
			n, bad := size(w[1:])
			if bad != nil {
				return nil, bad
			}
			out = append(out, strings.Repeat("x", n))
			continue
		}
		out = append(out, keyName.ReplaceAllStringFunc(w, func(name string) string {
			k, ok := r.keys[name[1:]]
			if !ok {
				err = fmt.Errorf("no key %s; allowed: %s, or those that the command \"key\" makes", name, sortedNames(r.keys))
			}
			return k
		}))
	}
	return out, err
}

// key names a key whose slot is as the options say, in a slot of its own.
func (r *scriptRun) key(c *scriptCall) (string, error) {
	var fits []func(v *topology.View, slot uint16) bool
	is := func(m *topology.Member, name string) bool { return m != nil && m.Host == name }
	if text := c.opts["slot"]; text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil || n >= ring.Slots {
			return "", fmt.Errorf("slot=%s; allowed: 0 to %d", text, ring.Slots-1)
		}
		fits = append(fits, func(_ *topology.View, slot uint16) bool { return slot == uint16(n) })
	}
	if name := c.opts["owner"]; name != "" {
		fits = append(fits, func(v *topology.View, slot uint16) bool { return is(v.OwnerMember(slot), name) })
	}
	if name := c.opts["successor"]; name != "" {
		fits = append(fits, func(v *topology.View, slot uint16) bool {
			i := v.Successor(slot)
			return i >= 0 && is(v.Member(i), name)
		})
	}
	nodes, err := r.nodes(nil)
	if err != nil {
		return "", err
	}
	v := nodes[0].Node.View()
	if name := c.opts["next"]; name != "" {
		then, err := r.joined(v, name)
		if err != nil {
			return "", err
		}
		fits = append(fits, func(_ *topology.View, slot uint16) bool { return is(then.OwnerMember(slot), name) })
	}
	for slot := range uint16(ring.Slots) {
		if r.taken[slot] || slices.ContainsFunc(fits, func(f func(*topology.View, uint16) bool) bool { return !f(v, slot) }) {
			continue
		}
		r.taken[slot] = true
		r.keys[c.words[0]] = keyOf(slot)
		return "", nil
	}
	return "", fmt.Errorf("there is no such slot that is not taken by another key; allowed: what the view of %s has", nodes[0].Name)
}

// joined is the View once a node is a member too.
func (r *scriptRun) joined(v *topology.View, name string) (*topology.View, error) {
	members := slices.Clone(v.Members())
	members = append(members, topology.Member{ID: r.s.ID(name), Boot: 1, Sequence: 1, State: topology.Active, Weight: 1, Host: name, Port: 7001})
	return topology.NewView(v.Params(), nil, members, nil)
}

// at sends a command to one node and prints what it answers, redirects too.
func (r *scriptRun) at(c *scriptCall) (job, error) {
	args, err := r.expand(c.words[1:])
	if err != nil {
		return job{}, err
	}
	if _, err := r.node(c.words[0]); err != nil {
		return job{}, err
	}
	return job{run: func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), callMost)
		defer cancel()
		conn, err := link.Dial(ctx, dataAddr(c.words[0]), link.Options{Dialer: r.s.Net.Dialer(clientName), DialTimeout: callMost})
		if err != nil {
			return failure(err), nil
		}
		defer conn.Close()
		v, err := conn.Do(ctx, resp.AppendCommandStrings(nil, args...))
		if err != nil {
			return failure(err), nil
		}
		return render(v), nil
	}}, nil
}

// client sends a command as a client that knows the slots and follows redirects.
func (r *scriptRun) client(c *scriptCall) (job, error) {
	args, err := r.expand(c.words)
	if err != nil {
		return job{}, err
	}
	router, err := r.routed()
	if err != nil {
		return job{}, err
	}
	return job{run: func() (string, error) {
		v, err := routedCall(router, args)
		if err != nil {
			return failure(err), nil
		}
		return render(v), nil
	}}, nil
}

func routedCall(router *link.Router, args []string) (resp.Value, error) {
	raw := make([][]byte, len(args))
	for i, a := range args {
		raw[i] = []byte(a)
	}
	return router.Do(context.Background(), raw...) // the router has a deadline of its own
}

// program calls a node as the program does that it is embedded in.
func (r *scriptRun) program(c *scriptCall) (job, error) {
	n, err := r.node(c.words[0])
	if err != nil {
		return job{}, err
	}
	args, err := r.expand(c.words[2:])
	if err != nil {
		return job{}, err
	}
	calls := map[string]func(ctx context.Context) (string, error){
		"get": func(ctx context.Context) (string, error) {
			v, err := n.Node.Get(ctx, args[0])
			if errors.Is(err, errs.ErrNotFound) {
				return "nil", nil
			}
			return quote(string(v)), err
		},
		"set": func(ctx context.Context) (string, error) {
			return "ok", n.Node.Set(ctx, args[0], []byte(args[len(args)-1]), 0)
		},
		"del": func(ctx context.Context) (string, error) {
			found, err := n.Node.Delete(ctx, args[0])
			return strconv.FormatBool(found), err
		},
	}
	call, ok := calls[c.words[1]]
	if !ok {
		return job{}, fmt.Errorf("a program does not call %q; allowed: %s", c.words[1], sortedNames(calls))
	}
	return job{run: func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), callMost)
		defer cancel()
		out, err := call(ctx)
		if err != nil {
			return failure(err), nil
		}
		return out, nil
	}}, nil
}

// failure says in a word why there is no reply, so that outputs do not depend on
// ports and times: whether a call gives up first or its connection is chance.
func failure(err error) string {
	if errors.Is(err, errs.ErrTimeout) || errors.Is(err, errs.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) {
		return "no answer"
	}
	return "failed: " + err.Error()
}

// routed is the client of the script; it begins by asking the nodes that run.
func (r *scriptRun) routed() (*link.Router, error) {
	if r.router != nil {
		return r.router, nil
	}
	nodes, err := r.nodes(nil)
	if err != nil {
		return nil, err
	}
	return r.dialRouter(nodes)
}

func (r *scriptRun) dialRouter(nodes []*SimNode) (_ *link.Router, err error) {
	var seeds []string
	for _, n := range nodes {
		seeds = append(seeds, n.Addr)
	}
	r.router, err = link.NewRouter(link.RouterOptions{Link: link.Options{Dialer: r.s.Net.Dialer(clientName)}, Seeds: seeds, Timeout: callMost})
	return r.router, err
}

// connect starts the client anew, with other nodes to ask first.
func (r *scriptRun) connect(c *scriptCall) (string, error) {
	nodes, err := r.nodes(c.words)
	if err != nil {
		return "", err
	}
	if r.router != nil {
		_ = r.router.Close() // it has nothing to tell
	}
	_, err = r.dialRouter(nodes)
	return "", err
}

// load writes keys by the client.
func (r *scriptRun) load(c *scriptCall) (string, error) {
	n, err := strconv.Atoi(c.words[0])
	if err != nil || n < 1 || n > 100_000 {
		return "", fmt.Errorf("load %s; allowed: 1 to 100000", c.words[0])
	}
	bytes := 0
	if text := c.opts["value"]; text != "" {
		if bytes, err = size(text); err != nil {
			return "", err
		}
	}
	var more []string
	if text := c.opts["ttl"]; text != "" {
		d, err := duration(text)
		if err != nil {
			return "", err
		}
		more = []string{"PX", strconv.FormatInt(d.Milliseconds(), 10)}
	}
	router, err := r.routed()
	if err != nil {
		return "", err
	}
	for i := range n {
		k := fmt.Sprintf("key:%d", i)
		r.version++
		value := strconv.Itoa(r.version) + strings.Repeat("x", bytes)
		v, err := routedCall(router, append([]string{"SET", k, value}, more...))
		if err != nil || v.Text() != "OK" {
			return "", fmt.Errorf("SET %s: %q, %v", k, v.Text(), err)
		}
		r.written[k] = value
	}
	return "", nil
}

// use reads, overwrites, counts on and deletes the keys of load, by chance. It
// prints what may not be: another value than was acknowledged last, or any after a
// delete. Nothing is always legal. A write that fails may have been executed.
func (r *scriptRun) use(c *scriptCall) (string, error) {
	n, err := strconv.Atoi(c.words[0])
	if err != nil || n < 1 || n > 100_000 {
		return "", fmt.Errorf("use %s; allowed: 1 to 100000", c.words[0])
	}
	keys := slices.Sorted(maps.Keys(r.written))
	router, err := r.routed()
	if err != nil || len(keys) == 0 {
		return "", errors.Join(err, errors.New("no keys; allowed: after load"))
	}
	var wrong strings.Builder
	for range n {
		k := keys[r.rnd.IntN(len(keys))]
		r.version++
		next := strconv.Itoa(r.version)
		args := [][]string{{"SET", k, next}, {"DEL", k}, {"GETSET", k, next}, {"GET", k}, {"GET", k}, {"GET", k}}[r.rnd.IntN(6)]
		v, err := routedCall(router, args)
		failed := err != nil || v.Kind == resp.Error
		if want, known := r.written[k]; !failed && known && v.Kind == resp.Bulk && string(v.Str) != want {
			fmt.Fprintf(&wrong, "%s %s gives %s, the latest is %q\n", args[0], k, quote(string(v.Str)), want)
		}
		switch {
		case args[0] == "GET":
		case failed:
			delete(r.written, k)
		case args[0] == "DEL":
			r.written[k] = "" // a value that nobody writes
		default:
			r.written[k] = next
		}
	}
	return wrong.String(), nil
}

// check reads all keys of load.
func (r *scriptRun) check(*scriptCall) (string, error) {
	router, err := r.routed()
	if err != nil {
		return "", err
	}
	found, absent, failed, wrong := 0, 0, 0, ""
	for _, k := range slices.Sorted(maps.Keys(r.written)) {
		v, err := routedCall(router, []string{"GET", k})
		switch want := r.written[k]; {
		case err != nil || v.Kind == resp.Error:
			failed++
		case v.IsNull():
			if want != "" {
				absent++
			}
		case string(v.Str) != want || want == "":
			wrong += fmt.Sprintf("%s is %s, the latest is %q\n", k, quote(string(v.Str)), want)
		default:
			found++
		}
	}
	return fmt.Sprintf("%d found, %d absent, %d failed\n%s", found, absent, failed, wrong), nil
}

// quote writes a value; a long one is cut.
func quote(s string) string {
	if len(s) <= shownBytes {
		return strconv.Quote(s)
	}
	return fmt.Sprintf("%q... %d bytes", s[:8], len(s))
}

// render writes a reply as lines: +simple, -error, :integer, "bulk", nil, and *n
// followed by the indented elements.
func render(v resp.Value) string {
	switch v.Kind {
	case resp.SimpleString:
		return "+" + string(v.Str)
	case resp.Error:
		return "-" + string(v.Str)
	case resp.Integer:
		return ":" + strconv.FormatInt(v.Int, 10)
	case resp.Bulk:
		return quote(string(v.Str))
	case resp.Null:
		return "nil"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "*%d", len(v.Elems))
	for _, e := range v.Elems {
		for line := range strings.SplitSeq(render(e), "\n") {
			b.WriteString("\n  " + line)
		}
	}
	return b.String()
}
