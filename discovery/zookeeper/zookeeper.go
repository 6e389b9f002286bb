// Package zookeeper finds the seeds of a ring-cache cluster in ZooKeeper, and lists
// nodes there. It is a module of its own, so that nobody else downloads a client of
// ZooKeeper:
//
//	source, err := zookeeper.New(zookeeper.Options{Servers: []string{"10.0.0.1:2181"}, Path: "/ringcache/prod"})
//	node, err := ringcache.Open(ringcache.Options{Addr: ":7001", Discovery: source, ...})
//
// Each node is an ephemeral znode PATH/ADDRESS, which ZooKeeper removes when the
// session of the node ends. Each call has a session of its own: a node asks for seeds
// rarely, and a registry that is away costs nothing meanwhile. All methods are safe
// for concurrent use.
package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

// Bounds and defaults.
const (
	MaxSeeds       = 256              // addresses of one answer
	Timeout        = 3 * time.Second  // of one question
	DefaultSession = 10 * time.Second // how long an entry outlives its node
	maxServers     = 16
)

// Options say where and what.
type Options struct {
	// Servers are addresses host:port of the ensemble, 1 to 16 of them.
	Servers []string
	// Path is the znode below which nodes are listed, such as /ringcache/prod. It is
	// made if it does not exist.
	Path string
	// Session is ZooKeeper's session timeout, default 10 s, at least 2 s.
	Session time.Duration
	// Auth is "scheme:credentials", such as "digest:user:password"; then only that
	// user may change or remove the entry, and everybody may read it. Default: none.
	Auth string
}

// Source is a ringcache.Discovery and a ringcache.Registrar.
type Source struct {
	o           Options
	scheme      string
	credentials []byte
}

// New checks the options; it contacts nobody.
func New(o Options) (*Source, error) {
	s := &Source{o: o}
	s.o.Servers = slices.Clone(o.Servers)
	if s.o.Session == 0 {
		s.o.Session = DefaultSession
	}
	var faults []error
	if len(o.Servers) == 0 || len(o.Servers) > maxServers {
		faults = append(faults, fmt.Errorf("zookeeper: %d servers, need 1 to %d", len(o.Servers), maxServers))
	}
	for _, server := range o.Servers {
		if _, _, err := net.SplitHostPort(server); err != nil {
			faults = append(faults, fmt.Errorf("zookeeper: server %q is not host:port", server))
		}
	}
	if !strings.HasPrefix(o.Path, "/") || path.Clean(o.Path) != o.Path || o.Path == "/" {
		faults = append(faults, fmt.Errorf("zookeeper: path %q is not like /ringcache/prod", o.Path))
	}
	if s.o.Session < 2*time.Second {
		faults = append(faults, fmt.Errorf("zookeeper: session of %s is below 2s", o.Session))
	}
	if o.Auth != "" {
		scheme, rest, ok := strings.Cut(o.Auth, ":")
		if s.scheme, s.credentials = scheme, []byte(rest); !ok || scheme == "" || rest == "" {
			faults = append(faults, errors.New("zookeeper: auth is not scheme:credentials"))
		}
	}
	return s, errors.Join(faults...)
}

// connect opens a session. Its events are taken until it is closed.
func (s *Source) connect(ctx context.Context) (conn *zk.Conn, lost <-chan struct{}, err error) {
	conn, events, err := zk.Connect(s.o.Servers, s.o.Session, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	if err != nil {
		return nil, nil, fmt.Errorf("zookeeper: %w", err)
	}
	ready, gone := make(chan struct{}), make(chan struct{})
	go func() { // ends when the session is closed, which closes events
		open, over := false, false
		for e := range events {
			switch {
			case e.State == zk.StateHasSession && !open:
				open = true
				close(ready)
			case e.State == zk.StateExpired && !over:
				over = true
				close(gone)
			}
		}
	}()
	select {
	case <-ready:
	case <-time.After(Timeout):
		conn.Close()
		return nil, nil, fmt.Errorf("zookeeper at %s does not answer within %s; check the addresses", strings.Join(s.o.Servers, ","), Timeout)
	case <-ctx.Done():
		conn.Close()
		return nil, nil, ctx.Err()
	}
	if s.scheme != "" {
		if err := s.within(ctx, conn, func() error { return conn.AddAuth(s.scheme, s.credentials) }); err != nil {
			conn.Close()
			return nil, nil, fmt.Errorf("zookeeper refuses the authentication by %s: %w", s.scheme, err)
		}
	}
	return conn, gone, nil
}

// within asks over conn for Timeout at most; the end of ctx ends it too. The client's
// own timeout is that of the whole connection, which a server keeps alive by answering
// pings alone. After an error conn may be closed.
func (s *Source) within(ctx context.Context, conn *zk.Conn, ask func() error) error {
	limited, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	stop := context.AfterFunc(limited, conn.Close)
	err := ask()
	switch {
	case stop():
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("zookeeper at %s keeps the session and does not answer within %s", strings.Join(s.o.Servers, ","), Timeout)
}

// Seeds lists the nodes below the path. A path that does not exist has none.
func (s *Source) Seeds(ctx context.Context) ([]string, error) {
	conn, _, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var children []string
	err = s.within(ctx, conn, func() (err error) {
		children, _, err = conn.Children(s.o.Path)
		return err
	})
	switch {
	case errors.Is(err, zk.ErrNoNode):
		return nil, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("zookeeper: children of %s: %w", s.o.Path, err)
	}
	addrs := slices.DeleteFunc(children, func(addr string) bool { return checkAddr(addr) != nil })
	slices.Sort(addrs)
	return addrs[:min(len(addrs), MaxSeeds)], nil
}

// Register lists addr until ctx is done. It returns early when the session is lost.
func (s *Source) Register(ctx context.Context, addr string) error {
	if err := checkAddr(addr); err != nil {
		return fmt.Errorf("zookeeper: own address: %w", err)
	}
	conn, lost, err := s.connect(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer conn.Close() // which removes the entry
	if err := s.within(ctx, conn, func() error { return s.create(conn, addr) }); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-lost:
		return fmt.Errorf("zookeeper has ended the session of %s: nothing reached it for %s", addr, s.o.Session)
	}
}

// create makes the path and the entry. An entry of the process before, whose session
// has not ended yet, gives way.
func (s *Source) create(conn *zk.Conn, addr string) error {
	at := ""
	for part := range strings.SplitSeq(s.o.Path[1:], "/") {
		at += "/" + part
		if _, err := conn.Create(at, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return fmt.Errorf("zookeeper: create %s: %w", at, err)
		}
	}
	acl := zk.WorldACL(zk.PermAll)
	if s.scheme != "" {
		acl = append(zk.WorldACL(zk.PermRead), zk.AuthACL(zk.PermAll)...)
	}
	entry := s.o.Path + "/" + addr
	_, err := conn.Create(entry, []byte(addr), zk.FlagEphemeral, acl)
	if errors.Is(err, zk.ErrNodeExists) {
		if err = conn.Delete(entry, -1); err == nil || errors.Is(err, zk.ErrNoNode) {
			_, err = conn.Create(entry, []byte(addr), zk.FlagEphemeral, acl)
		}
	}
	if err != nil {
		return fmt.Errorf("zookeeper: create %s: %w", entry, err)
	}
	return nil
}

func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" || strings.Contains(addr, "/") {
		return fmt.Errorf("%.80q is not host:port", addr)
	}
	return nil
}

// silent drops the client's log: what matters comes back as an error.
type silent struct{}

func (silent) Printf(string, ...any) {}
