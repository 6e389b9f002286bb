package drill

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxLog     = 16 << 10 // bytes of a process's output that are kept
	startLimit = 15 * time.Second
	pollEvery  = 20 * time.Millisecond
	askEvery   = 100 * time.Millisecond // between questions that cost the nodes of the cluster time
)

// process is one server that a drill started.
type process struct {
	addr string // where it listens
	cmd  *exec.Cmd
	log  *tail
	done chan struct{} // closed when the process has been reaped
}

// startProcess runs a server and returns when its port answers. started, if not
// nil, is called as soon as there is a process.
func startProcess(ctx context.Context, addr, dir string, started func(pid int) error, binary string, args ...string) (*process, error) {
	p := &process{addr: addr, cmd: exec.Command(binary, args...), log: &tail{}, done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = dir, environment()
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", binary, err)
	}
	go func() { // ends with the process
		_ = p.cmd.Wait()
		close(p.done)
	}()
	if started != nil {
		if err := started(p.cmd.Process.Pid); err != nil {
			p.kill()
			return nil, err
		}
	}
	err := poll(ctx, startLimit, func(ctx context.Context) error {
		select {
		case <-p.done:
			return &fatalError{fmt.Errorf("it ended at once: %s", p.log)}
		default:
		}
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			c.Close()
		}
		return err
	})
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("starting a node at %s: %w", addr, err)
	}
	return p, nil
}

// environment is the own one without what would configure a node.
func environment() []string {
	var out []string
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "RINGCACHE_") {
			out = append(out, e)
		}
	}
	return out
}

// kill ends the process with SIGKILL, frozen or not, and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// term ends the process with SIGTERM, after limit with SIGKILL; it tells whether it
// ended by itself.
func (p *process) term(ctx context.Context, limit time.Duration) error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		p.kill()
		return ctx.Err()
	case <-t.C:
		p.kill()
		return fmt.Errorf("node %s had not ended %v after SIGTERM: %s", p.addr, limit, p.log)
	}
}

func (p *process) signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// fatalError ends a poll early.
type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

// poll repeats check until it gives nil, limit has passed (then the last error is
// returned) or the context ends.
func poll(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	return pollEach(ctx, pollEvery, limit, check)
}

func pollEach(ctx context.Context, every, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := check(ctx)
		var fatal *fatalError
		if err == nil || errors.As(err, &fatal) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w", limit, err)
		}
	}
}

// wait returns after d, or with the error of the context that ended first.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tail keeps the end of what a process prints, and counts the peers that it took
// for dead.
type tail struct {
	mu   sync.Mutex
	buf  []byte
	line []byte // the last one, while it is not complete
	dead int
}

// deadLine is what a node logs when it takes a peer for dead.
const deadLine = "peer is dead"

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := string(t.line) + string(b)
	end := strings.LastIndexByte(text, '\n') + 1
	t.dead += strings.Count(text[:end], deadLine)
	t.line = append(t.line[:0], text[max(end, len(text)-maxLog):]...)
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - maxLog; n > 0 {
		t.buf = append(t.buf[:0], t.buf[n:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

func (t *tail) deaths() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dead
}
