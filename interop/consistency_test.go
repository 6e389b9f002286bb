package interop

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The consistency test drives writers and readers while nodes join, leave,
// freeze, die and come back, and holds every reply against a register that may
// forget: no value is always legal. Never legal are a value older than one whose
// write was acknowledged before the read began, any value after an acknowledged
// DEL, a value that nobody wrote, and a value of another key. Counters may start
// anew; they never repeat or skip.
//
// Every key has one writer. A write that was sent and not answered may have
// happened, now or later: its value stays legal.
const (
	consistencyTime   = 30 * time.Second
	consistencyEnv    = "INTEROP_CONSISTENCY" // a longer run, for instance 10m
	consistencySeed   = "INTEROP_SEED"        // repeats the faults of a run
	writers           = 6
	keysPerWriter     = 60
	countersPerWriter = 20
	fewestNodes       = 3
	mostNodes         = 6
)

// register is what is known about one key.
type register struct {
	key string

	mu      sync.Mutex
	issued  int64          // version of the latest operation begun
	acked   int64          // version of the latest operation acknowledged
	deleted bool           // that one was a DEL
	unknown map[int64]bool // versions of SETs whose fate is unknown
}

func (r *register) value(version int64) string { return r.key + "|" + strconv.FormatInt(version, 10) }

// begin notes that an operation starts; end what came of it.
func (r *register) begin() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.issued++
	return r.issued
}

func (r *register) end(version int64, del bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.acked, r.deleted = version, del
	case errors.Is(err, errUnknown) && !del:
		r.unknown[version] = true
	}
}

// least returns the smallest version that a read beginning now may return.
func (r *register) least() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.deleted {
		return r.acked + 1
	}
	return r.acked
}

// judge says what is wrong with a value read.
func (r *register) judge(value string, least int64) string {
	key, number, _ := strings.Cut(value, "|")
	version, err := strconv.ParseInt(number, 10, 64)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err != nil || key != r.key:
		return fmt.Sprintf("key %s has the value %q of another key, or of nobody", r.key, value)
	case version > r.issued:
		return fmt.Sprintf("key %s has version %d, which nobody wrote", r.key, version)
	case version < least && !r.unknown[version]:
		return fmt.Sprintf("key %s (slot %d) has version %d, older than or deleted before %d, which was acknowledged before the read",
			r.key, slotOf(r.key), version, least)
	}
	return ""
}

type consistency struct {
	t     *testing.T
	f     *fleet
	begin time.Time
	stop  chan struct{}
	wg    sync.WaitGroup
	regs  []*register

	mu     sync.Mutex // guards the fleet's list for the clients
	seeds  []string
	faults []string // what was done, with times

	writes, reads, hits, unknown, failed, counted, restarted, wrong atomic.Int64
}

func (c *consistency) addrs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seeds
}

// fault notes what is done to the fleet, and whom clients may ask from now on.
func (c *consistency) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seeds = c.f.addrs()
	c.faults = append(c.faults, fmt.Sprintf("%7.3f ", time.Since(c.begin).Seconds())+fmt.Sprintf(format, args...))
}

func (c *consistency) violation(where, what string) {
	if c.wrong.Add(1) <= 20 {
		c.t.Errorf("%.3f %s: %s", time.Since(c.begin).Seconds(), where, what)
	}
}

func (c *consistency) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// write is one writer: it ends with stop.
func (c *consistency) write(regs []*register, rnd *rand.Rand) {
	conn := newRaw(c.addrs)
	defer conn.close()
	var counters [countersPerWriter]counter
	for !c.stopped() {
		r := regs[rnd.IntN(len(regs))]
		if rnd.IntN(5) == 0 {
			i := rnd.IntN(len(counters))
			counters[i].key = "n:" + regs[i].key
			c.count(conn, &counters[i])
			continue
		}
		version, del := r.begin(), rnd.IntN(6) == 0
		args := []string{"SET", r.key, r.value(version)}
		if del {
			args = []string{"DEL", r.key}
		}
		_, err := conn.do(r.key, args...)
		r.end(version, del, err)
		c.writes.Add(1)
		switch {
		case errors.Is(err, errUnknown):
			c.unknown.Add(1)
		case err != nil:
			c.failed.Add(1)
		}
	}
}

// counter is a key that one writer increments.
type counter struct {
	key           string
	last, unknown int64 // the last answer, and calls of unknown fate since
}

func (c *consistency) count(conn *raw, n *counter) {
	reply, err := conn.do(n.key, "INCR", n.key)
	got, _ := reply.(int64)
	switch {
	case errors.Is(err, errUnknown):
		n.unknown++
		c.unknown.Add(1)
		return
	case err != nil:
		c.failed.Add(1)
		return
	case got > n.last && got <= n.last+1+n.unknown:
	case got >= 1 && got <= 1+n.unknown:
		c.restarted.Add(1)
	default:
		c.violation("INCR", fmt.Sprintf("counter %s (slot %d) is %d after %d and %d calls of unknown fate", n.key, slotOf(n.key), got, n.last, n.unknown))
	}
	c.counted.Add(1)
	n.last, n.unknown = got, 0
}

// read is one reader: it ends with stop.
func (c *consistency) read(s store, rnd *rand.Rand) {
	for !c.stopped() {
		c.look(s, c.regs[rnd.IntN(len(c.regs))])
	}
}

func (c *consistency) look(s store, r *register) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	least := r.least()
	value, found, err := s.get(ctx, r.key)
	c.reads.Add(1)
	switch {
	case err != nil:
		c.failed.Add(1)
	case found:
		c.hits.Add(1)
		if what := r.judge(value, least); what != "" {
			c.violation("GET by "+s.name, what)
		}
	}
}

// harm does one thing to the fleet.
func (c *consistency) harm(rnd *rand.Rand) {
	f := c.f
	p := f.procs[rnd.IntN(len(f.procs))]
	for {
		switch rnd.IntN(5) {
		case 0:
			if len(f.procs) == mostNodes {
				continue
			}
			c.fault("a node joins")
			p = f.add()
			c.fault("%s has joined", p.addr)
		case 1:
			if len(f.procs) == fewestNodes {
				continue
			}
			c.fault("%s leaves", p.addr)
			f.leave(p)
			c.fault("%s has left", p.addr)
		case 2:
			pause := 200*time.Millisecond + rand.N(1800*time.Millisecond)
			c.fault("%s freezes for %v", p.addr, pause.Round(time.Millisecond))
			c.wg.Go(func() { // ends with the pause: half of the time the next fault falls into it
				_ = p.cmd.Process.Signal(syscall.SIGSTOP)
				<-time.After(pause)
				_ = p.cmd.Process.Signal(syscall.SIGCONT)
			})
			if rnd.IntN(2) == 0 {
				<-time.After(pause)
			}
		case 3:
			victims := []*process{p}
			if q := f.procs[rnd.IntN(len(f.procs))]; q != p && rnd.IntN(2) == 0 {
				victims = append(victims, q)
			}
			for _, p := range victims {
				c.fault("%s is killed and restarted at once", p.addr)
				f.kill(p)
			}
			for _, p := range victims {
				f.addAt(p.addr)
				c.fault("%s has restarted", p.addr)
			}
		case 4:
			if len(f.procs) == fewestNodes {
				continue
			}
			c.fault("%s is killed", p.addr)
			f.kill(p)
			wait := rand.N(6 * time.Second)
			c.fault("%s stays dead for %v", p.addr, wait.Round(time.Millisecond))
			<-time.After(wait)
			f.addAt(p.addr)
			c.fault("%s has come back", p.addr)
		}
		return
	}
}

func (c *consistency) run(d time.Duration, seed uint64) {
	source := func(n uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, n)) }
	for w := range writers {
		var regs []*register
		for i := range keysPerWriter {
			regs = append(regs, &register{key: fmt.Sprintf("c:%d:%d", w, i), unknown: map[int64]bool{}})
		}
		c.regs = append(c.regs, regs...)
		c.wg.Go(func() { c.write(regs, source(uint64(w))) })
	}
	readers := stores(c.t, c.f)
	readers = append(readers, readers[0], readers[1], rawStore(c.addrs), rawStore(c.addrs))
	for i, s := range readers {
		c.wg.Go(func() { c.read(s, source(100+uint64(i))) })
	}
	rnd := source(1000)
	for end := time.Now().Add(d); time.Now().Before(end); {
		<-time.After(500*time.Millisecond + time.Duration(rnd.Int64N(int64(1500*time.Millisecond))))
		c.harm(rnd)
	}
	c.f.settled(len(c.f.procs), patience)
	<-time.After(500 * time.Millisecond)
	close(c.stop)
	c.wg.Wait()
	for _, s := range readers {
		for _, r := range c.regs {
			c.look(s, r)
		}
	}
}

func TestConsistencyWhileTheClusterChanges(t *testing.T) {
	d, seed := consistencyTime, uint64(time.Now().UnixNano())
	if text := os.Getenv(consistencyEnv); text != "" {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv(consistencySeed); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	c := &consistency{t: t, f: startFleet(t, 4), begin: time.Now(), stop: make(chan struct{})}
	c.fault("start with seed %d", seed)
	c.run(d, seed)
	t.Logf("%d faults; %d writes, %d reads (%d hits), %d counted (%d started anew), %d of unknown fate, %d failed, %d violations",
		len(c.faults), c.writes.Load(), c.reads.Load(), c.hits.Load(), c.counted.Load(), c.restarted.Load(), c.unknown.Load(), c.failed.Load(), c.wrong.Load())
	if c.hits.Load() < c.reads.Load()/10 {
		t.Errorf("only %d of %d reads found a value: the test shows nothing", c.hits.Load(), c.reads.Load())
	}
	if t.Failed() || testing.Verbose() {
		t.Logf("what happened:\n%s", strings.Join(c.faults, "\n"))
	}
}
