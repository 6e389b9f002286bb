package clustertest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// waitMost is how long the script waits for what it does not bound itself.
const waitMost = 5 * time.Minute

// wait lets time pass, a given one or until something holds.
func (r *scriptRun) wait(c *scriptCall) (string, error) {
	limit := waitMost
	if text := c.opts["within"]; text != "" {
		var err error
		if limit, err = duration(text); err != nil {
			return "", err
		}
	}
	switch c.words[0] {
	case "agreed":
		nodes, err := r.nodes(c.words[1:])
		if err != nil {
			return "", err
		}
		if err = poll(limit, func() string { return disagreement(nodes) }); err != nil {
			return "", err
		}
		return states(nodes[0].Node.View()), nil
	case "moved":
		return "", poll(limit, r.moving)
	case "copied":
		return "", r.waitCopied(c.words[1:])
	}
	d, err := duration(c.words[0])
	if err != nil {
		return "", fmt.Errorf("wait %s; allowed: agreed, moved, copied, or a duration", c.words[0])
	}
	<-time.After(d)
	return "", nil
}

// poll waits until nothing is in the way any more.
func poll(limit time.Duration, what func() string) error {
	end := time.Now().Add(limit)
	for {
		why := what()
		if why == "" {
			return nil
		}
		if !time.Now().Before(end) {
			return fmt.Errorf("not within %v: %s", limit, why)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// disagreement says why nodes are not one cluster: all are active in one View that
// has nobody else, and its owners alone serve.
func disagreement(nodes []*SimNode) string {
	v := nodes[0].Node.View()
	for _, n := range nodes {
		if other := n.Node.View(); other.Hash() != v.Hash() {
			return fmt.Sprintf("%s sees %s, %s sees %s", nodes[0].Name, states(v), n.Name, states(other))
		}
		i, ok := v.Index(n.Node.ID())
		if !ok || v.Member(i).Host != n.Name || v.Member(i).State != topology.Active || v.Member(i).Progress != 0 {
			return fmt.Sprintf("%s is not active in %s", n.Name, states(v))
		}
	}
	if v.Len() != len(nodes) {
		return "others are in " + states(v)
	}
	for slot := range uint16(ring.Slots) {
		owner := v.OwnerMember(slot).Host
		for _, n := range nodes {
			if n.Node.Serving(slot) != (n.Name == owner) {
				return fmt.Sprintf("slot %d of %s: %s serves it: %v", slot, owner, n.Name, n.Node.Serving(slot))
			}
		}
	}
	return ""
}

// states lists the members of a View.
func states(v *topology.View) string {
	var out []string
	for _, m := range v.Members() {
		text := m.Host + " " + m.State.String()
		if m.Progress != 0 {
			text += " " + strconv.FormatFloat(m.Progress, 'g', 3, 64)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

// moving says what content is on its way.
func (r *scriptRun) moving() string {
	nodes, err := r.nodes(nil)
	if err != nil {
		return err.Error()
	}
	for _, n := range nodes {
		if w, c := n.Node.WindowsOpen(), n.Node.CededSlots(); w+c > 0 {
			return fmt.Sprintf("%s has %d windows open and keeps %d slots for others", n.Name, w, c)
		}
	}
	return ""
}

// waitCopied waits until all that nodes serve has so many copies.
func (r *scriptRun) waitCopied(words []string) error {
	if len(words) < 2 {
		return errors.New("wait copied; allowed: wait copied, a number, and names of nodes")
	}
	for _, name := range words[1:] {
		got := ""
		for range 30 { // after a change of the View some slots are copied again after a while only
			j, err := r.at(&scriptCall{words: []string{name, "WAIT", words[0], "1000"}})
			if err != nil {
				return err
			}
			if got, err = j.run(); err != nil || got == ":"+words[0] {
				break
			}
		}
		if got != ":"+words[0] {
			return fmt.Errorf("%s has %s copies of everything, want %s", name, got, words[0])
		}
	}
	return nil
}

func (r *scriptRun) look(*scriptCall) (string, error) {
	if r.watch != nil {
		return "", errors.New("it watches already; allowed: after unwatch")
	}
	r.watch = r.s.watch(r.fault)
	return "", nil
}

func (r *scriptRun) lookAway(*scriptCall) (string, error) {
	if r.watch == nil {
		return "", errors.New("it does not watch; allowed: after watch")
	}
	r.watch.Stop()
	r.watch = nil
	return "", nil
}

// excuse lets two nodes serve one slot: one takes the other for dead.
func (r *scriptRun) excuse(c *scriptCall) (string, error) {
	if r.watch == nil {
		return "", errors.New("it does not watch; allowed: after watch")
	}
	r.watch.Excuse(c.words[0], c.words[1], true)
	return "", nil
}

// slotOf is the slot of a key as a script writes it.
func (r *scriptRun) slotOf(word string) (uint16, error) {
	words, err := r.expand([]string{word})
	if err != nil {
		return 0, err
	}
	return ring.SlotString(words[0]), nil
}

// owner prints whom the Views name the owner of a key.
func (r *scriptRun) owner(c *scriptCall) (string, error) {
	slot, err := r.slotOf(c.words[0])
	if err != nil {
		return "", err
	}
	nodes, err := r.nodes(nil)
	if err != nil {
		return "", err
	}
	by := map[string][]string{}
	for _, n := range nodes {
		name := "nobody"
		if m := n.Node.View().OwnerMember(slot); m != nil {
			name = m.Host
		}
		by[name] = append(by[name], n.Name)
	}
	if len(by) == 1 {
		return sortedNames(by), nil
	}
	var out []string
	for name, who := range by {
		out = append(out, strings.Join(who, " and ")+": "+name)
	}
	slices.Sort(out)
	return strings.Join(out, "\n"), nil
}

// served prints who serves a key.
func (r *scriptRun) served(c *scriptCall) (string, error) {
	slot, err := r.slotOf(c.words[0])
	if err != nil {
		return "", err
	}
	by := r.s.Servers(slot)
	if slices.Sort(by); len(by) == 0 {
		return "nobody", nil
	}
	return strings.Join(by, " and "), nil
}

// view prints the members as nodes see them.
func (r *scriptRun) view(c *scriptCall) (string, error) {
	nodes, err := r.nodes(c.words)
	var out []string
	for _, n := range nodes {
		out = append(out, n.Name+": "+states(n.Node.View()))
	}
	return strings.Join(out, "\n"), err
}

// keysOf prints how many keys nodes say that they have, or all say together.
func (r *scriptRun) keysOf(c *scriptCall) (string, error) {
	nodes, err := r.nodes(c.words)
	if err != nil {
		return "", err
	}
	sum := 0
	var out []string
	for _, n := range nodes {
		j, err := r.at(&scriptCall{words: []string{n.Name, "DBSIZE"}})
		if err != nil {
			return "", err
		}
		reply, err := j.run()
		if err != nil {
			return "", err
		}
		keys, err := strconv.Atoi(strings.TrimPrefix(reply, ":"))
		if err != nil {
			return "", fmt.Errorf("DBSIZE at %s: %s", n.Name, reply)
		}
		sum += keys
		out = append(out, fmt.Sprintf("%s %d", n.Name, keys))
	}
	if len(c.words) == 0 {
		return fmt.Sprintf("%d together", sum), nil
	}
	return strings.Join(out, ", "), nil
}

// held tells whether a node has an entry of a key in memory, served or not.
func (r *scriptRun) held(c *scriptCall) (string, error) {
	n, err := r.node(c.words[0])
	if err != nil {
		return "", err
	}
	slot, err := r.slotOf(c.words[1])
	return strconv.FormatInt(n.Node.Engine().SlotStats(slot).Keys, 10), err
}

// info prints fields of INFO.
func (r *scriptRun) info(c *scriptCall) (string, error) {
	n, err := r.node(c.words[0])
	if err != nil {
		return "", err
	}
	fields := map[string]string{}
	for line := range strings.SplitSeq(n.Node.Info(), "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = value
		}
	}
	var out []string
	for _, f := range c.words[1:] {
		value, ok := fields[f]
		if !ok {
			return "", fmt.Errorf("INFO has no field %q; allowed: those of INFO everything", f)
		}
		out = append(out, f+" "+value)
	}
	return strings.Join(out, "\n"), nil
}

// evict removes an entry as an eviction does.
func (r *scriptRun) evict(c *scriptCall) (string, error) {
	n, err := r.node(c.words[0])
	if err != nil {
		return "", err
	}
	words, err := r.expand(c.words[1:2])
	if err != nil {
		return "", err
	}
	tx := n.Node.Engine().LockAny(ring.SlotString(words[0]))
	defer tx.Unlock()
	tx.Invalidate([]byte(words[0]))
	return "", nil
}
