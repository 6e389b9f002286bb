package clustertest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// clientName is the place of clients in the network.
const clientName = "client"

// scriptJobs are the commands that may take long, so that spawn and within take
// them.
var scriptJobs = map[string]scriptCommand{
	"start":   {usage: "NODE... [id=NODE] [seeds=NODE,NODE] [hold]", least: 1, opts: "id seeds", flags: "hold", prepare: (*scriptRun).start},
	"leave":   {usage: "NODE [time=DURATION]", least: 1, opts: "time", prepare: (*scriptRun).leave},
	"at":      {usage: "NODE COMMAND [ARGUMENT...]", least: 2, free: true, prepare: (*scriptRun).at},
	"client":  {usage: "COMMAND [ARGUMENT...]", least: 1, free: true, prepare: (*scriptRun).client},
	"program": {usage: "NODE get|set|del KEY [VALUE]", least: 3, free: true, prepare: (*scriptRun).program},
}

// scriptCommands are the others.
var scriptCommands = map[string]scriptCommand{
	"cluster": {usage: "[rumours] [replicas=N] [steps=N] [placement=NAME] [maxvalue=SIZE] [seed=N]", opts: "replicas steps placement maxvalue seed", flags: "rumours", do: (*scriptRun).cluster},

	"spawn":  {usage: "NAME COMMAND [WORD...]", least: 2, free: true, do: (*scriptRun).spawn},
	"await":  {usage: "NAME", least: 1, do: (*scriptRun).await},
	"within": {usage: "DURATION COMMAND [WORD...]", least: 2, free: true, do: (*scriptRun).within},
	"wait":   {usage: "DURATION | agreed [NODE...] [within=DURATION] | moved [within=DURATION] | copied N NODE...", least: 1, opts: "within", do: (*scriptRun).wait},

	"kill":    {usage: "NODE...", least: 1, do: (*scriptRun).kill},
	"restart": {usage: "NODE...", least: 1, do: (*scriptRun).restart},
	"freeze":  {usage: "NODE DURATION", least: 2, do: (*scriptRun).freeze},
	"pause":   {usage: "NODE DURATION", least: 2, do: (*scriptRun).pause},
	"cut":     {usage: "NODE... from NODE...|all", least: 3, do: (*scriptRun).cut},
	"heal":    {usage: "", do: (*scriptRun).heal},
	"reset":   {usage: "NODE NODE", least: 2, do: (*scriptRun).reset},
	"drop":    {usage: "NODE NODE", least: 2, do: (*scriptRun).drop},
	"rate":    {usage: "SIZE", least: 1, do: (*scriptRun).rate},
	"hold":    {usage: "NODE...", least: 1, do: (*scriptRun).hold},
	"release": {usage: "NODE...", least: 1, do: (*scriptRun).release},

	"bury": {usage: "NODE at NODE...", least: 3, do: (*scriptRun).bury},
	"tell": {usage: "NODE of NODE...", least: 3, do: (*scriptRun).tell},
	"deaf": {usage: "NODE...", least: 1, do: (*scriptRun).deaf},
	"hear": {usage: "NODE...", least: 1, do: (*scriptRun).hear},

	"key":     {usage: "NAME [slot=N] [owner=NODE] [next=NODE] [successor=NODE]", least: 1, opts: "slot owner next successor", do: (*scriptRun).key},
	"connect": {usage: "NODE...", least: 1, do: (*scriptRun).connect},
	"load":    {usage: "N [value=SIZE] [ttl=DURATION]", least: 1, opts: "value ttl", do: (*scriptRun).load},
	"use":     {usage: "N", least: 1, do: (*scriptRun).use},
	"check":   {usage: "", do: (*scriptRun).check},
	"evict":   {usage: "NODE KEY", least: 2, do: (*scriptRun).evict},

	"watch":   {usage: "", do: (*scriptRun).look},
	"unwatch": {usage: "", do: (*scriptRun).lookAway},
	"excuse":  {usage: "NODE NODE", least: 2, do: (*scriptRun).excuse},
	"owner":   {usage: "KEY", least: 1, do: (*scriptRun).owner},
	"served":  {usage: "KEY", least: 1, do: (*scriptRun).served},
	"view":    {usage: "NODE...", least: 1, do: (*scriptRun).view},
	"keys":    {usage: "[NODE...]", do: (*scriptRun).keysOf},
	"info":    {usage: "NODE FIELD...", least: 2, do: (*scriptRun).info},
	"held":    {usage: "NODE KEY", least: 2, do: (*scriptRun).held},
}

// cluster sets what all nodes have in common.
func (r *scriptRun) cluster(c *scriptCall) (string, error) {
	if r.begun {
		return "", errors.New("a node was started already; allowed: as the first command")
	}
	if len(c.words) > 0 {
		return "", fmt.Errorf("%q is unknown; allowed: rumours (membership is told by bury, tell, deaf and hear), and options", c.words[0])
	}
	if c.flag("rumours") {
		r.s.Gossip = nil
	}
	number := func(name string, into *int, low, high int) error {
		if c.opts[name] == "" {
			return nil
		}
		n, err := strconv.Atoi(c.opts[name])
		if err != nil || n < low || n > high {
			return fmt.Errorf("%s=%s; allowed: %d to %d", name, c.opts[name], low, high)
		}
		*into = n
		return nil
	}
	seed := 1
	err := errors.Join(number("replicas", &r.replicas, 0, topology.MaxReplicas), number("steps", &r.steps, 1, node.MaxJoinSteps), number("seed", &seed, 0, 1<<30))
	r.rnd = rand.New(rand.NewPCG(uint64(seed), 1))
	if text := c.opts["maxvalue"]; text != "" {
		n, bad := size(text)
		r.maxValue, err = n, errors.Join(err, bad)
	}
	if p := c.opts["placement"]; p != "" {
		if r.params.Placement = p; !slices.Contains(ring.Names(), p) {
			err = errors.Join(err, fmt.Errorf("placement=%s; allowed: %s", p, strings.Join(ring.Names(), ", ")))
		}
	}
	return "", err
}

func dataAddr(name string) string { return net.JoinHostPort(name, "7001") }

// start opens nodes and brings them into the cluster, one after the other.
func (r *scriptRun) start(c *scriptCall) (job, error) {
	r.begun = true
	if c.opts["id"] != "" && len(c.words) > 1 {
		return job{}, fmt.Errorf("id=%s for %d nodes; allowed: for one", c.opts["id"], len(c.words))
	}
	var opened []*SimNode
	for _, name := range c.words {
		if _, err := r.node(name); err == nil {
			return job{}, fmt.Errorf("node %q runs already; allowed: another name, or kill it first", name)
		}
		if name == clientName || len(name) > len(topology.NodeID{}) {
			return job{}, fmt.Errorf("node %q; allowed: at most %d bytes, not %q", name, len(topology.NodeID{}), clientName)
		}
		seeds := []string{dataAddr(name)}
		if c.opts["seeds"] != "" {
			seeds = nil
			for s := range strings.SplitSeq(c.opts["seeds"], ",") {
				seeds = append(seeds, dataAddr(s))
			}
		} else {
			for _, n := range r.s.Nodes {
				if !n.dead && n.Name != name {
					seeds = append(seeds, dataAddr(n.Name))
				}
			}
		}
		n := r.s.Open(name, func(o *node.Options) {
			o.Replicas, o.Params, o.Steps.Join, o.Engine.MaxValue = r.replicas, r.params, r.steps, r.maxValue
			if c.opts["id"] != "" {
				o.ID = r.s.ID(c.opts["id"])
			}
		}, seeds...)
		n.Node.PauseTransfer(c.flag("hold"))
		if r.watch != nil {
			r.watch.Add(n)
		}
		opened = append(opened, n)
	}
	return job{run: func() (string, error) {
		for _, n := range opened {
			if err := n.Node.Start(context.Background()); err != nil {
				return "", fmt.Errorf("%s: %w", n.Name, err)
			}
		}
		return "", nil
	}}, nil
}

// leave drains a node and ends it.
func (r *scriptRun) leave(c *scriptCall) (job, error) {
	n, err := r.node(c.words[0])
	if err != nil {
		return job{}, err
	}
	limit := time.Hour // the node has limits of its own
	if c.opts["time"] != "" {
		if limit, err = duration(c.opts["time"]); err != nil {
			return job{}, err
		}
	}
	return job{run: func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if err := n.Node.Drain(ctx); err != nil {
			return "left, but: " + err.Error(), nil
		}
		return "", nil
	}, then: func() { r.end(n) }}, nil
}

// end ends a process at once.
func (r *scriptRun) end(n *SimNode) {
	if r.watch != nil {
		r.watch.Remove(n)
	}
	if !n.dead {
		r.s.Kill(n.Name)
	}
}

func (r *scriptRun) kill(c *scriptCall) (string, error) {
	nodes, err := r.nodes(c.words)
	for _, n := range nodes {
		r.end(n)
	}
	return "", err
}

// restart kills nodes and starts them again at once, each with the ID that it had.
func (r *scriptRun) restart(c *scriptCall) (string, error) {
	nodes, err := r.nodes(c.words)
	if err != nil {
		return "", err
	}
	for _, n := range nodes {
		id := n.Node.ID()
		r.end(n)
		again := &scriptCall{words: []string{n.Name}, opts: map[string]string{"id": strings.TrimRight(string(id[:]), "\x00")}}
		j, err := r.start(again)
		if err != nil {
			return "", err
		}
		if out, err := j.run(); err != nil {
			return out, err
		}
	}
	return "", nil
}

// freeze lets a process wake up after a time in which it did not run, as far as its
// clock tells: no timer of it has run.
func (r *scriptRun) freeze(c *scriptCall) (string, error) {
	n, err := r.node(c.words[0])
	if err != nil {
		return "", err
	}
	d, err := duration(c.words[1])
	if err == nil {
		r.clocks.Away(n.Name, d)
	}
	return "", err
}

// everybody is all that the network knows.
func (r *scriptRun) everybody() (names []string) {
	names = []string{clientName}
	for _, n := range r.s.Nodes {
		if !slices.Contains(names, n.Name) {
			names = append(names, n.Name)
		}
	}
	return names
}

// setBlocked makes exactly the given pairs a black hole.
func (r *scriptRun) setBlocked(pairs map[[2]string]bool) {
	for p := range r.blocked {
		if !pairs[p] {
			r.s.Net.Block(p[0], p[1], false)
		}
	}
	for p := range pairs {
		if !r.blocked[p] {
			r.s.Net.Block(p[0], p[1], true)
		}
	}
	r.blocked = pairs
}

// with returns the blocked pairs and those of every one of from with every one of
// to.
func (r *scriptRun) with(from, to []string) map[[2]string]bool {
	pairs := map[[2]string]bool{}
	for p := range r.blocked {
		pairs[p] = true
	}
	for _, a := range from {
		for _, b := range to {
			if a != b {
				pairs[pair(a, b)] = true
			}
		}
	}
	return pairs
}

// pause holds up for a time what a node sends and what is sent to it.
func (r *scriptRun) pause(c *scriptCall) (string, error) {
	n, err := r.node(c.words[0])
	if err != nil {
		return "", err
	}
	d, err := duration(c.words[1])
	if err != nil {
		return "", err
	}
	before := r.blocked
	r.setBlocked(r.with([]string{n.Name}, r.everybody()))
	<-time.After(d)
	r.setBlocked(before)
	return "", nil
}

// cut makes a black hole between two groups.
func (r *scriptRun) cut(c *scriptCall) (string, error) {
	from, to, err := r.groups(c.words, "from")
	if err == nil {
		r.setBlocked(r.with(from, to))
	}
	return "", err
}

// groups cuts words at a word.
func (r *scriptRun) groups(words []string, at string) (left, right []string, err error) {
	i := slices.Index(words, at)
	if i < 1 || i == len(words)-1 {
		return nil, nil, fmt.Errorf("no names on both sides of %q; allowed: names of nodes, %s, names of nodes", at, at)
	}
	known := r.everybody()
	left, right = words[:i], words[i+1:]
	if len(right) == 1 && right[0] == "all" {
		right = known
	}
	for _, name := range slices.Concat(left, right) {
		if !slices.Contains(known, name) {
			return nil, nil, fmt.Errorf("there never was a %q; allowed: %s", name, strings.Join(known, ", "))
		}
	}
	return left, right, nil
}

func (r *scriptRun) heal(*scriptCall) (string, error) {
	r.setBlocked(nil)
	return "", nil
}

func (r *scriptRun) reset(c *scriptCall) (string, error) {
	r.s.Net.Cut(c.words[0], c.words[1])
	return "", nil
}

// drop lets the connections of now go silent, as a firewall does that has forgotten
// them: what is sent over them is lost, and new ones work.
func (r *scriptRun) drop(c *scriptCall) (string, error) {
	r.s.Net.Drop(c.words[0], c.words[1])
	return "", nil
}

// rate sets how many bytes a second each connection carries.
func (r *scriptRun) rate(c *scriptCall) (string, error) {
	n, err := size(c.words[0])
	if err == nil {
		r.s.Net.Rate(n)
	}
	return "", err
}

// size reads a number of bytes.
func size(text string) (int, error) {
	digits, unit := strings.TrimRight(text, "km"), 1
	switch text[len(digits):] {
	case "k":
		unit = 1 << 10
	case "m":
		unit = 1 << 20
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || n > 64<<20/unit || len(text) > len(digits)+1 {
		return 0, fmt.Errorf("%q is no size; allowed: a number of bytes up to 64m, as in 256k", text)
	}
	return n * unit, nil
}

// hold stops what nodes take over unasked.
func (r *scriptRun) hold(c *scriptCall) (string, error) { return r.setHold(c, true) }

func (r *scriptRun) release(c *scriptCall) (string, error) { return r.setHold(c, false) }

func (r *scriptRun) setHold(c *scriptCall, on bool) (string, error) {
	nodes, err := r.nodes(c.words)
	for _, n := range nodes {
		n.Node.PauseTransfer(on)
	}
	return "", err
}
