package main

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	startWait = 10 * time.Second // a server must answer by then
	stopWait  = 10 * time.Second
	// requestWait bounds a batch of requests: a server that stalls fails the run.
	requestWait = 30 * time.Second
	keyForm     = "key:%012d"
)

// load is what the generator asks for.
type load struct{ conns, pipeline, size, keys, reads int }

// side is one of the two servers.
type side struct {
	cmd   *exec.Cmd
	load  load
	conns []*client
}

// client is one connection of the generator.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	rnd  *rand.Rand
}

// startSide starts a server on a free port, connects and stores every key.
func startSide(line string, cpu int, l load) (*side, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	_, port, _ := net.SplitHostPort(addr)
	ln.Close()
	args := strings.Fields(strings.ReplaceAll(line, "{port}", port))
	for i := range args {
		args[i] = strings.Trim(args[i], "'\"")
	}
	s := &side{load: l, cmd: exec.Command("taskset", append([]string{"-c", strconv.Itoa(cpu)}, args...)...)}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	deadline := time.Now().Add(startWait)
	for len(s.conns) < l.conns {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			if time.Now().After(deadline) {
				s.stop()
				return nil, fmt.Errorf("%s does not listen on %s: %w", args[0], addr, err)
			}
			<-time.After(20 * time.Millisecond)
			continue
		}
		id := uint64(len(s.conns))
		s.conns = append(s.conns, &client{conn: conn, in: bufio.NewReaderSize(conn, 64<<10), rnd: rand.New(rand.NewPCG(id, 1))})
	}
	if err := s.preload(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *side) preload() error {
	c, value := s.conns[0], strings.Repeat("v", s.load.size)
	const batch = 100
	for k := 0; k < s.load.keys; k += batch {
		n := min(batch, s.load.keys-k)
		c.out = c.out[:0]
		for i := range n {
			c.set(k+i, value)
		}
		if err := c.exchange(n); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) get(key int) {
	c.out = append(c.out, "*2\r\n$3\r\nGET\r\n$16\r\n"...)
	c.out = fmt.Appendf(c.out, keyForm+"\r\n", key)
}

func (c *client) set(key int, value string) {
	c.out = append(c.out, "*3\r\n$3\r\nSET\r\n$16\r\n"...)
	c.out = fmt.Appendf(c.out, keyForm+"\r\n$%d\r\n%s\r\n", key, len(value), value)
}

// exchange sends what is in out and reads n replies.
func (c *client) exchange(n int) error {
	c.conn.SetDeadline(time.Now().Add(requestWait))
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	for range n {
		if err := c.reply(); err != nil {
			return err
		}
	}
	return nil
}

// reply reads one reply. An error, or a key that is not there, fails the run: the
// servers would not be doing the same work.
func (c *client) reply() error {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return err
	}
	switch line[0] {
	case '+':
		return nil
	case '$':
		n, err := strconv.Atoi(strings.TrimSpace(string(line[1:])))
		if err != nil || n < 0 {
			return fmt.Errorf("reply %q to GET of a stored key", line)
		}
		_, err = c.in.Discard(n + 2)
		return err
	}
	return fmt.Errorf("reply %.200q", line)
}

// block puts load on the server for a time, and returns its CPU-seconds per million
// requests and the requests per second.
func (s *side) block(d time.Duration) (cpu, rate float64, err error) {
	before, err := cpuTime(s.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	var done atomic.Int64
	var mu sync.Mutex
	var workers sync.WaitGroup
	value := strings.Repeat("w", s.load.size)
	begin := time.Now()
	for _, c := range s.conns {
		workers.Go(func() {
			for time.Since(begin) < d {
				c.out = c.out[:0]
				for range s.load.pipeline {
					if key := c.rnd.IntN(s.load.keys); c.rnd.IntN(100) < s.load.reads {
						c.get(key)
					} else {
						c.set(key, value)
					}
				}
				if e := c.exchange(s.load.pipeline); e != nil {
					mu.Lock()
					err = errors.Join(err, e)
					mu.Unlock()
					return
				}
				done.Add(int64(s.load.pipeline))
			}
		})
	}
	workers.Wait()
	span := time.Since(begin)
	after, e := cpuTime(s.cmd.Process.Pid)
	if err = errors.Join(err, e); err != nil {
		return 0, 0, err
	}
	n := float64(done.Load())
	return (after - before).Seconds() / n * 1e6, n / span.Seconds(), nil
}

// stop ends the server.
func (s *side) stop() {
	for _, c := range s.conns {
		c.conn.Close()
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(stopWait, func() { s.cmd.Process.Kill() })
	s.cmd.Wait()
	kill.Stop()
}

// cpuTime is what the threads of a process have run, in system calls too. Threads
// that have ended are missing, so a server must not end any within a block.
func cpuTime(pid int) (sum time.Duration, err error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("no scheduler statistics of process %d: it has ended, or the kernel keeps none", pid)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return 0, err
		}
		first, _, _ := strings.Cut(string(b), " ")
		ns, err := strconv.ParseInt(first, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		sum += time.Duration(ns)
	}
	return sum, nil
}
