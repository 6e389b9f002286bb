package child

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxLog     = 16 << 10 // bytes of a process's output that are kept
	startLimit = 15 * time.Second
)

// Spec says what to start.
type Spec struct {
	Binary string
	Args   []string
	Addr   string // the process is ready when this TCP port answers
	Dir    string // its working directory; "": the own one
	// Started, if not nil, is called as soon as there is a process; an error of it
	// ends the process.
	Started func(pid int) error
	// Count is a text: Counted tells how many lines of the output have it.
	Count string
}

// Process is a process of a Group.
type Process struct {
	Addr  string // where it listens
	group *Group
	cmd   *exec.Cmd
	log   tail
	done  chan struct{} // closed when the process has been reaped
}

// Group is processes that are ended together. The zero value is an empty one.
type Group struct {
	mu     sync.Mutex
	list   []*Process // in the order of their starts, until Kill or Term
	closed bool
}

// Start runs a server and returns when its port answers, within 15 s. The process gets
// the own environment without what would configure a node. Errors have the end of what
// the process has printed.
func (g *Group) Start(ctx context.Context, s Spec) (*Process, error) {
	p := &Process{Addr: s.Addr, group: g, cmd: exec.Command(s.Binary, s.Args...), log: tail{count: s.Count}, done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = s.Dir, environment()
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = dieWithParent()
	if err := g.run(p); err != nil {
		return nil, fmt.Errorf("starting %s: %w", s.Binary, err)
	}
	if s.Started != nil {
		if err := s.Started(p.cmd.Process.Pid); err != nil {
			p.Kill()
			return nil, err
		}
	}
	err := Poll(ctx, startLimit, func(ctx context.Context) error {
		select {
		case <-p.done:
			return Fatal(fmt.Errorf("it ended at once: %s", p.log.String()))
		default:
		}
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", s.Addr)
		if err == nil {
			c.Close()
		}
		return err
	})
	if err != nil {
		p.Kill()
		return nil, fmt.Errorf("starting a node at %s: %w", s.Addr, err)
	}
	return p, nil
}

// run starts the process; Close misses none.
func (g *Group) run(p *Process) error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() { // ends with the process
		_ = p.cmd.Wait()
		close(p.done)
	}()
	g.mu.Lock()
	closed := g.closed
	if !closed {
		g.list = append(g.list, p)
	}
	g.mu.Unlock()
	if closed {
		p.Kill()
		return os.ErrClosed
	}
	return nil
}

// List returns the processes that have not been ended by Kill or Term, in the order of
// their starts; one that has ended by itself is among them.
func (g *Group) List() []*Process {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.list)
}

// Close ends all processes with SIGKILL and waits for them. Nothing starts afterwards.
func (g *Group) Close() {
	g.mu.Lock()
	g.closed = true
	list := slices.Clone(g.list)
	g.mu.Unlock()
	for _, p := range list {
		p.Kill()
	}
}

func (g *Group) forget(p *Process) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = slices.DeleteFunc(g.list, func(o *Process) bool { return o == p })
}

// Kill ends the process with SIGKILL, frozen or not, and waits for it.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
	p.group.forget(p)
}

// Term ends the process with SIGTERM; if it has not ended after limit, or when ctx ends,
// with SIGKILL, and says so.
func (p *Process) Term(ctx context.Context, limit time.Duration) error {
	p.Signal(syscall.SIGTERM)
	t := time.NewTimer(limit)
	defer t.Stop()
	select {
	case <-p.done:
		p.group.forget(p)
		return nil
	case <-ctx.Done():
		p.Kill()
		return ctx.Err()
	case <-t.C:
		p.Kill()
		return fmt.Errorf("node %s had not ended %v after SIGTERM: %s", p.Addr, limit, p.log.String())
	}
}

// Signal sends a signal and waits for nothing.
func (p *Process) Signal(sig syscall.Signal) { _ = p.cmd.Process.Signal(sig) }

// Counted is how many complete lines of the output had Spec.Count so far.
func (p *Process) Counted() int {
	p.log.mu.Lock()
	defer p.log.mu.Unlock()
	return p.log.found
}

// Output runs a program to its end, or to that of ctx, as Start runs one, and returns
// what it has printed.
func Output(ctx context.Context, binary string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.SysProcAttr, cmd.Env = dieWithParent(), environment()
	return cmd.CombinedOutput()
}

// environment is the own one without what would configure a node.
func environment() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "RINGCACHE_") })
}

// tail keeps the end of what a process prints, and counts lines.
type tail struct {
	count string // what counted lines have; "": none

	mu    sync.Mutex
	buf   []byte
	line  []byte // the last one, while it is not complete
	found int
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count != "" {
		text := string(t.line) + string(b)
		end := strings.LastIndexByte(text, '\n') + 1
		for line := range strings.Lines(text[:end]) {
			if strings.Contains(line, t.count) {
				t.found++
			}
		}
		t.line = append(t.line[:0], text[max(end, len(text)-maxLog):]...)
	}
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
