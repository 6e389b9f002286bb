package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"time"
)

// maxLog is how much of a process's output is kept for an error message.
const maxLog = 8 << 10

// process is one ringcache server that a replay started.
type process struct {
	addr string
	cmd  *exec.Cmd
	log  tail
	done chan struct{} // closed when the process has been reaped
}

// startProcess runs `binary serve --addr ADDR args...` and returns when its
// port answers.
func startProcess(ctx context.Context, binary, addr string, args ...string) (*process, error) {
	p := &process{addr: addr, done: make(chan struct{})}
	p.cmd = exec.Command(binary, append([]string{"serve", "--addr", addr}, args...)...)
	p.cmd.Stdout, p.cmd.Stderr = &p.log, &p.log
	p.cmd.SysProcAttr = dieWithParent()
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a node: %w", err)
	}
	go func() { // ends with the process
		_ = p.cmd.Wait()
		close(p.done)
	}()
	err := poll(ctx, 10*time.Second, func(ctx context.Context) error {
		select {
		case <-p.done:
			return &fatalError{fmt.Errorf("node %s ended at once: %s", addr, p.log.String())}
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
		return nil, fmt.Errorf("starting node %s: %w", addr, err)
	}
	return p, nil
}

// kill ends the process with SIGKILL and waits for it.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// fatalError ends a poll early.
type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

// poll repeats check every 20 ms until it gives nil, limit has passed (then the
// last error is returned) or the context ends.
func poll(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
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

// freeAddr finds a loopback address whose data port and gossip port (plus
// 10000) are free at the moment.
func freeAddr() (string, error) {
	for range 200 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port > 55535 {
			continue
		}
		g, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+10000)))
		if err != nil {
			continue
		}
		g.Close()
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
	}
	return "", errors.New("no free pair of ports for a node (data port and data port + 10000)")
}

// tail keeps the end of what was written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
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
