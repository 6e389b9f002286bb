package clustertest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/topology"
)

// scriptRun is a script that runs.
type scriptRun struct {
	s      *Sim
	clocks *Clocks

	begun    bool // a node was started: too late for cluster
	params   topology.Params
	replicas int
	steps    int
	maxValue int
	rnd      *rand.Rand

	keys    map[string]string // by their names in the script
	taken   map[uint16]bool   // slots of these keys
	router  *link.Router
	written map[string]string // keys of load and use, with what was acknowledged last
	version int
	blocked map[[2]string]bool
	watch   *Watch
	jobs    map[string]chan outcome

	mu     sync.Mutex
	faults []string // guarded by mu; those that no command returned
}

// outcome is what a command in the background came to.
type outcome struct {
	job
	out string
	err error
}

// job is a command that may run in the background. Then follows once it is done, on
// the goroutine of the script.
type job struct {
	run  func() (string, error)
	then func()
}

// scriptCommand is a word that a line may begin with.
type scriptCommand struct {
	usage string // what follows the word
	least int    // how many words must follow
	opts  string // words that may stand before "=", and those that may stand alone
	flags string
	free  bool // all words are its own, also those with "="
	// One of them: do runs it, prepare makes a job of it.
	do      func(r *scriptRun, c *scriptCall) (string, error)
	prepare func(r *scriptRun, c *scriptCall) (job, error)
}

// scriptCall is a command with its words.
type scriptCall struct {
	words []string
	opts  map[string]string
}

func (c *scriptCall) flag(name string) bool { return c.opts[name] == name }

func newScriptRun(s *Sim) *scriptRun {
	r := &scriptRun{s: s, clocks: NewClocks(), rnd: rand.New(rand.NewPCG(1, 1)), keys: map[string]string{}, taken: map[uint16]bool{},
		written: map[string]string{}, blocked: map[[2]string]bool{}, jobs: map[string]chan outcome{}}
	s.Clock = r.clocks.Of
	s.Gossip = NewGossipNet(s.Net)
	return r
}

// close ends what only the script knows of.
func (r *scriptRun) close() {
	if r.watch != nil {
		r.watch.Stop()
	}
	r.setBlocked(nil)
	if r.router != nil {
		_ = r.router.Close() // it has nothing to tell
	}
}

// unfinished tells of commands that were sent to the background for good.
func (r *scriptRun) unfinished() error {
	if len(r.jobs) > 0 {
		return fmt.Errorf("nobody has waited for %s; allowed: await each that was spawned", sortedNames(r.jobs))
	}
	return nil
}

func (r *scriptRun) fault(what string) {
	r.mu.Lock()
	r.faults = append(r.faults, what)
	r.mu.Unlock()
}

func (r *scriptRun) takeFaults() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.faults
	r.faults = nil
	return out
}

// do runs one line.
func (r *scriptRun) do(words []string) (string, error) {
	cmd, ok := scriptCommands[words[0]]
	if !ok {
		cmd, ok = scriptJobs[words[0]]
	}
	if !ok {
		return "", fmt.Errorf("unknown command %q; allowed: %s, %s", words[0], sortedNames(scriptCommands), sortedNames(scriptJobs))
	}
	c, err := cmd.parse(words)
	if err != nil {
		return "", err
	}
	if cmd.do != nil {
		return cmd.do(r, c)
	}
	j, err := cmd.prepare(r, c)
	if err != nil {
		return "", err
	}
	out, err := j.run()
	j.finish()
	return out, err
}

func (j *job) finish() {
	if j.then != nil {
		j.then()
	}
}

// parse tells words and options apart.
func (cmd *scriptCommand) parse(words []string) (*scriptCall, error) {
	c := &scriptCall{opts: map[string]string{}}
	opts, flags := strings.Fields(cmd.opts), strings.Fields(cmd.flags)
	fault := func(what string) error {
		return fmt.Errorf("%s: %s; allowed: %s", words[0], what, strings.TrimSpace(words[0]+" "+cmd.usage))
	}
	for _, w := range words[1:] {
		key, value, isOpt := strings.Cut(w, "=")
		switch {
		case cmd.free:
			c.words = append(c.words, w)
		case isOpt && slices.Contains(opts, key) && c.opts[key] == "" && value != "":
			c.opts[key] = value
		case isOpt:
			return nil, fault(fmt.Sprintf("option %q is unknown, empty or there twice", w))
		case slices.Contains(flags, w):
			c.opts[w] = w
		default:
			c.words = append(c.words, w)
		}
	}
	if len(c.words) < cmd.least {
		return nil, fault(fmt.Sprintf("%d words follow, at least %d must", len(c.words), cmd.least))
	}
	return c, nil
}

func sortedNames[V any](m map[string]V) string {
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

// backgroundJob prepares a command for spawn and within.
func (r *scriptRun) backgroundJob(words []string) (job, error) {
	cmd, ok := scriptJobs[words[0]]
	if !ok {
		return job{}, fmt.Errorf("%q cannot run here; allowed: %s", words[0], sortedNames(scriptJobs))
	}
	c, err := cmd.parse(words)
	if err != nil {
		return job{}, err
	}
	return cmd.prepare(r, c)
}

// spawn starts a command in the background under a name.
func (r *scriptRun) spawn(c *scriptCall) (string, error) {
	name := c.words[0]
	if r.jobs[name] != nil {
		return "", fmt.Errorf("%s runs already; allowed: another name, or await it first", name)
	}
	j, err := r.backgroundJob(c.words[1:])
	if err != nil {
		return "", err
	}
	done := make(chan outcome, 1)
	r.jobs[name] = done
	go func() { // ends with the command, which await or the end of the cluster wait for
		out, err := j.run()
		done <- outcome{j, out, err}
	}()
	return "", nil
}

// await prints what a command in the background has printed.
func (r *scriptRun) await(c *scriptCall) (string, error) {
	done := r.jobs[c.words[0]]
	if done == nil {
		return "", fmt.Errorf("%s was not spawned; allowed: %s", c.words[0], sortedNames(r.jobs))
	}
	delete(r.jobs, c.words[0])
	o := <-done
	o.finish()
	return o.out, o.err
}

// within runs a command and says so if it takes longer than it may.
func (r *scriptRun) within(c *scriptCall) (string, error) {
	limit, err := duration(c.words[0])
	if err != nil {
		return "", err
	}
	j, err := r.backgroundJob(c.words[1:])
	if err != nil {
		return "", err
	}
	began := time.Now()
	out, err := j.run()
	took := time.Since(began)
	j.finish()
	if took > limit {
		out = strings.TrimSuffix(out, "\n") + fmt.Sprintf("\nit took %v, at most %v are allowed", took, limit)
	}
	return out, err
}

func duration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration; allowed: a number and a unit, as in 200ms or 12s", text)
	}
	return d, nil
}

// node finds a live node.
func (r *scriptRun) node(name string) (*SimNode, error) {
	var names []string
	for _, n := range slices.Backward(r.s.Nodes) {
		if n.dead {
			continue
		}
		if n.Name == name {
			return n, nil
		}
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("no node %q runs; allowed: %s", name, strings.Join(names, ", "))
}

// nodes finds live nodes, all of them without names.
func (r *scriptRun) nodes(names []string) (out []*SimNode, err error) {
	for _, name := range names {
		n, err := r.node(name)
		if err != nil {
			return nil, err
		}
		out = append(out, n)
	}
	if len(names) == 0 {
		for _, n := range r.s.Nodes {
			if !n.dead {
				out = append(out, n)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no node runs; start one first")
	}
	slices.SortFunc(out, func(a, b *SimNode) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}
