package main

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// server is how to start and fill one kind of server.
type server struct {
	name  string
	path  string
	args  []string // with {port} and {mb}
	least int      // MiB: the smallest limit that it takes, if above options.smallest
	speak protocol
}

// parseServer reads name[:memcached]=path,arg,arg...
func parseServer(s string) (server, error) {
	name, rest, ok := strings.Cut(s, "=")
	parts := strings.Split(rest, ",")
	if !ok || name == "" || parts[0] == "" {
		return server{}, fmt.Errorf("%q is not name=path,args", s)
	}
	srv := server{path: parts[0], args: parts[1:], speak: resp{}}
	name, proto, _ := strings.Cut(name, ":")
	srv.name = name
	switch proto {
	case "", "resp":
	case "memcached":
		srv.speak = memcache{}
	default:
		return server{}, fmt.Errorf("protocol %q is unknown; use resp or memcached", proto)
	}
	if !strings.Contains(rest, "{port}") {
		return server{}, fmt.Errorf("the arguments of %s do not say {port}", name)
	}
	return srv, nil
}

// process is one running server and a connection to it.
type process struct {
	cmd  *exec.Cmd
	log  *bytes.Buffer // whole once done is closed
	done chan struct{} // closed when the process has been reaped
	conn *conn
}

// startTimeout bounds how long a server may take until it answers.
const startTimeout = 20 * time.Second

// start runs the server with a limit of mib and returns when it answers.
func start(s server, mib int) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	fill := strings.NewReplacer("{port}", strconv.Itoa(port), "{mb}", strconv.Itoa(mib))
	args := make([]string, len(s.args))
	for i, a := range s.args {
		args[i] = fill.Replace(a)
	}
	p := &process{cmd: exec.Command(s.path, args...), log: new(bytes.Buffer), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.log, p.log
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // ends with the process, which stop ends
		_ = p.cmd.Wait()
		close(p.done)
	}()
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for deadline := time.Now().Add(startTimeout); ; {
		if p.conn, err = dial(addr); err == nil {
			if _, err = s.speak.items(p.conn); err == nil {
				return p, nil
			}
			p.conn.Close()
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("%s ended: %w", s.path, p.lastWords())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			p.stop()
			return nil, fmt.Errorf("%s did not answer within %v: %w", s.path, startTimeout, err)
		}
	}
}

// freePort finds a port that is free, and whose port for gossip (plus 10000) is
// free too.
func freePort() (int, error) {
	for range 100 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port+10000 > 65535 {
			continue
		}
		g, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+10000)))
		if err != nil {
			continue
		}
		g.Close()
		return port, nil
	}
	return 0, fmt.Errorf("no free port on 127.0.0.1")
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends the process at once and waits for it.
func (p *process) stop() {
	if p.conn != nil {
		p.conn.Close()
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// lastWords gives the end of the process's log as an error when it has ended.
func (p *process) lastWords() error {
	select {
	case <-p.done:
		text := p.log.String()
		return fmt.Errorf("its log ends: %s", text[max(0, len(text)-500):])
	default:
		return nil
	}
}
