package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/ringcache/ringcache/internal/child"
)

const slots = 16384

// binary is the server under test, built once from the checkout around this
// module.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "ringcache-interop")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "ringcache")
	build := exec.Command("go", "build", "-o", binary, "./cmd/ringcache")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the server: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// output is what a process has printed so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is one running server.
type process struct {
	addr string
	cmd  *exec.Cmd
	log  *output
	once sync.Once
	done chan struct{} // closed when the process has been reaped
}

func (p *process) stop(sig syscall.Signal) {
	p.once.Do(func() {
		_ = p.cmd.Process.Signal(sig)
		<-p.done
	})
}

// fleet is a cluster of real processes on loopback.
type fleet struct {
	t     *testing.T
	name  string
	procs []*process
}

// patience bounds what a cluster has to bring about where no test is about its time:
// it is for what never happens, not for what a busy machine delays.
const patience = time.Minute

// freeAddr finds an address whose port is free, as its gossip port is.
func freeAddr(t *testing.T) string {
	t.Helper()
	addr, err := child.FreeAddr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func startFleet(t *testing.T, n int, flags ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, name: fmt.Sprintf("interop-%d", time.Now().UnixNano())}
	for range n {
		f.add(flags...)
	}
	f.settled(n, patience)
	return f
}

func (f *fleet) add(flags ...string) *process {
	f.t.Helper()
	return f.addAt(freeAddr(f.t), flags...)
}

func (f *fleet) addAt(addr string, flags ...string) *process {
	f.t.Helper()
	p := f.spawn(addr, f.addrs(), flags...)
	f.await(patience, "the port of "+addr+" to answer", func() error {
		select {
		case <-p.done:
			f.t.Fatalf("%s ended at start:\n%s", addr, p.log)
		default:
		}
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err == nil {
			c.Close()
		}
		return err
	})
	return p
}

// spawn starts a process and waits for nothing.
func (f *fleet) spawn(addr string, seeds []string, flags ...string) *process {
	f.t.Helper()
	args := []string{"serve", "--addr", addr, "--cluster-name", f.name, "--max-memory", "64mb"}
	if len(seeds) > 0 {
		args = append(args, "--seeds", strings.Join(seeds, ","))
	}
	p := &process{addr: addr, cmd: exec.Command(binary, append(args, flags...)...), log: &output{}, done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { // ends with the process
		_ = p.cmd.Wait()
		close(p.done)
	}()
	f.t.Cleanup(func() {
		p.stop(syscall.SIGKILL)
		if f.t.Failed() {
			f.t.Logf("log of %s:\n%s", p.addr, p.log)
		}
	})
	f.procs = append(f.procs, p)
	return p
}

func (f *fleet) addrs() []string {
	var out []string
	for _, p := range f.procs {
		out = append(out, p.addr)
	}
	return out
}

// kill ends a process with SIGKILL and takes it off the list.
func (f *fleet) kill(p *process) {
	p.stop(syscall.SIGKILL)
	f.procs = slices.DeleteFunc(f.procs, func(q *process) bool { return q == p })
}

// leave takes a process off the list and lets it end in good order.
func (f *fleet) leave(p *process) {
	f.procs = slices.DeleteFunc(f.procs, func(q *process) bool { return q == p })
	p.stop(syscall.SIGTERM)
}

// lateness adds up by how much a goroutine is late that asks for 10 ms at a time: what
// others on the machine take from everybody. end ends it.
func lateness() (so func() time.Duration, end func()) {
	const each, usual = 10 * time.Millisecond, 10 * time.Millisecond
	var sum atomic.Int64
	done := make(chan struct{})
	go func() { // ends with end
		for asked := time.Now(); ; asked = time.Now() {
			select {
			case <-time.After(each):
			case <-done:
				return
			}
			if late := time.Since(asked) - each; late > usual {
				sum.Add(int64(late))
			}
		}
	}()
	return func() time.Duration { return time.Duration(sum.Load()) }, func() { close(done) }
}

// await polls until check gives nil; real processes leave no other way. The limit is for
// a machine that has time for them: what it was late counts twice on top, for the
// processes that wait for each other.
func (f *fleet) await(limit time.Duration, what string, check func() error) time.Duration {
	f.t.Helper()
	late, end := lateness()
	defer end()
	begin := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return time.Since(begin)
		}
		if time.Since(begin) > limit+2*late() {
			f.t.Fatalf("waited %v for %s on a machine that was %v late: %v", time.Since(begin), what, late(), err)
		}
		<-tick.C
	}
}

// settled waits until every process shows n owners that cover all slots, and
// serves what it owns: a write while a slot changes hands may be lost, which is
// what the tests that follow must not count.
func (f *fleet) settled(n int, limit time.Duration) time.Duration {
	f.t.Helper()
	return f.await(limit, fmt.Sprintf("%d nodes to agree", n), func() error {
		var first map[int]string
		for _, p := range f.procs {
			owners, err := slotOwners(p.addr)
			if err != nil {
				return err
			}
			if first == nil {
				first = owners
			}
			names := map[string]bool{}
			for s, o := range owners {
				names[o] = true
				if first[s] != o {
					return fmt.Errorf("slot %d: %s says %s, another says %s", s, p.addr, o, first[s])
				}
			}
			if len(owners) != slots || len(names) != n {
				return fmt.Errorf("%s shows %d slots on %d nodes", p.addr, len(owners), len(names))
			}
		}
		for _, p := range f.procs {
			if err := atRest(p.addr); err != nil {
				return err
			}
		}
		return nil
	})
}

// atRest says whether no slot of a node waits to change hands.
func atRest(addr string) error {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: 5 * time.Second})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	info, err := c.Info(ctx, "cluster").Result()
	if err != nil {
		return err
	}
	for _, field := range []string{"ringcache_slots_opening", "ringcache_slots_releasing"} {
		if !strings.Contains(info, field+":0\r\n") {
			return fmt.Errorf("%s: slots are changing hands: %q", addr, info)
		}
	}
	return nil
}

// slotOwners reads CLUSTER SLOTS and fails when a slot is covered twice.
func slotOwners(addr string) (map[int]string, error) {
	c := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, DialTimeout: 5 * time.Second})
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	//lint:ignore SA1019 most clients still learn the slots by CLUSTER SLOTS
	ranges, err := c.ClusterSlots(ctx).Result()
	if err != nil {
		return nil, err
	}
	owners := make(map[int]string, slots)
	for _, r := range ranges {
		if len(r.Nodes) == 0 {
			return nil, errors.New("a range without a node")
		}
		for s := r.Start; s <= r.End; s++ {
			if _, twice := owners[s]; twice {
				return nil, fmt.Errorf("slot %d is covered twice", s)
			}
			owners[s] = r.Nodes[0].Addr
		}
	}
	return owners, nil
}

// slotOf is CRC16 (XMODEM) of the key's hash tag, bit by bit: a second opinion.
func slotOf(key string) int {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if j := strings.IndexByte(key[i+1:], '}'); j > 0 {
			key = key[i+1 : i+1+j]
		}
	}
	var crc uint16
	for i := range len(key) {
		crc ^= uint16(key[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

// keyPerSlot returns one key for each slot.
func keyPerSlot() []string {
	keys := make([]string, slots)
	for i, found := 0, 0; found < slots; i++ {
		k := "k" + strconv.Itoa(i)
		if s := slotOf(k); keys[s] == "" {
			keys[s] = k
			found++
		}
	}
	return keys
}
