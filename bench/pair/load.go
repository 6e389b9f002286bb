package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startWait = 10 * time.Second // a server must answer by then
	stopWait  = 10 * time.Second
	// requestWait bounds a batch of requests: a server that stalls fails the run.
	requestWait = 30 * time.Second
)

// load is what the generator asks for.
type load struct{ conns, pipeline, size, keys, reads int }

// side is one of the two servers.
type side struct {
	cmd  *exec.Cmd
	load load
	gen  *generator
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
	if s.gen, err = openGenerator(l); err != nil {
		s.stop()
		return nil, err
	}
	deadline := time.Now().Add(startWait)
	for n := 0; n < l.conns; {
		if err := s.gen.dial(addr); err == nil {
			n++
			continue
		} else if time.Now().After(deadline) {
			s.stop()
			return nil, fmt.Errorf("%s does not listen on %s: %w", args[0], addr, err)
		}
		<-time.After(20 * time.Millisecond)
	}
	if err := s.gen.preload(); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

// block puts load on the server for a time, and returns its CPU-seconds per million
// requests and the requests per second.
func (s *side) block(d time.Duration) (cpu, rate float64, err error) {
	before, err := cpuTime(s.cmd.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	n, err := s.gen.run(begin.Add(d))
	span := time.Since(begin)
	after, e := cpuTime(s.cmd.Process.Pid)
	if err = errors.Join(err, e); err != nil {
		return 0, 0, err
	}
	return (after - before).Seconds() / float64(n) * 1e6, float64(n) / span.Seconds(), nil
}

// stop ends the server.
func (s *side) stop() {
	if s.gen != nil {
		s.gen.close()
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
