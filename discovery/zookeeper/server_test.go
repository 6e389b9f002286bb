package zookeeper

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// server is the part of ZooKeeper's protocol that a Source uses: sessions that
// expire, create, delete, getChildren, addAuth, ping and close, in the encoding of
// zookeeper.jute (https://zookeeper.apache.org/doc/r3.9.3/zookeeperInternals.html).
type server struct {
	t  *testing.T
	ln net.Listener
	wg sync.WaitGroup

	mu       sync.Mutex
	nodes    map[string]int64 // path -> the session that owns it, 0: none
	sessions int64
	conns    map[net.Conn]struct{}
	auth     string // what addAuth must bring; "": anything
	expire   bool   // sessions that come back are told that they are over
	mute     int32  // the operation that gets no answer
}

// Operations and errors of the protocol.
const (
	opCreate, opDelete, opChildren, opPing, opChildren2, opAuth, opClose = 1, 2, 8, 11, 12, 100, -11
	errNoNode, errExists, errAuth                                        = -101, -110, -115
)

func newServer(t *testing.T) *server {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, ln: ln, nodes: map[string]int64{}, conns: map[net.Conn]struct{}{}}
	s.wg.Go(func() { // ends when ln is closed
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			s.mu.Lock()
			s.conns[conn] = struct{}{}
			s.mu.Unlock()
			s.wg.Go(func() { s.serve(conn) })
		}
	})
	t.Cleanup(func() { ln.Close(); s.cut(); s.wg.Wait() })
	return s
}

// cut breaks every connection.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

func (s *server) has(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.nodes[path]
	return ok
}

// in reads jute.
type in struct{ b []byte }

func (r *in) i32() int32 {
	v := int32(binary.BigEndian.Uint32(r.b))
	r.b = r.b[4:]
	return v
}

func (r *in) i64() int64 {
	v := int64(binary.BigEndian.Uint64(r.b))
	r.b = r.b[8:]
	return v
}

func (r *in) text() string {
	n := max(r.i32(), 0)
	v := string(r.b[:n])
	r.b = r.b[n:]
	return v
}

func packet(b []byte) []byte { return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...) }

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func read(conn net.Conn) (*in, error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(conn, b)
	return &in{b}, err
}

func (s *server) serve(conn net.Conn) {
	defer func() {
		conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	session, ok := s.greet(conn)
	for ok {
		r, err := read(conn)
		if err != nil {
			return
		}
		xid, op := r.i32(), r.i32()
		s.mu.Lock()
		mute := op == s.mute
		s.mu.Unlock()
		if mute {
			continue
		}
		code, body := s.answer(session, op, r)
		reply := binary.BigEndian.AppendUint32(nil, uint32(xid))
		reply = binary.BigEndian.AppendUint64(reply, 1)
		reply = binary.BigEndian.AppendUint32(reply, uint32(code))
		if _, err := conn.Write(packet(append(reply, body...))); err != nil || op == opClose {
			return
		}
	}
}

// greet answers the connect request.
func (s *server) greet(conn net.Conn) (session int64, ok bool) {
	r, err := read(conn)
	if err != nil {
		return 0, false
	}
	if v := r.i32(); v != 0 {
		s.t.Errorf("protocol version %d", v)
	}
	r.i64() // last zxid
	timeout := r.i32()
	session = r.i64()
	s.mu.Lock()
	over := session != 0 && s.expire
	if session == 0 {
		s.sessions++
		session = s.sessions
	}
	s.mu.Unlock()
	if over {
		timeout, session = 0, 0
	}
	out := binary.BigEndian.AppendUint32(nil, 0)
	out = binary.BigEndian.AppendUint32(out, uint32(timeout))
	out = binary.BigEndian.AppendUint64(out, uint64(session))
	out = appendText(out, strings.Repeat("p", 16)) // password
	_, err = conn.Write(packet(out))
	return session, err == nil && !over
}

func (s *server) answer(session int64, op int32, r *in) (code int32, body []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch op {
	case opPing:
	case opClose:
		for path, owner := range s.nodes {
			if owner == session {
				delete(s.nodes, path)
			}
		}
	case opAuth:
		r.i32()
		if got := r.text() + ":" + r.text(); s.auth != "" && got != s.auth {
			return errAuth, nil
		}
	case opCreate:
		path := r.text()
		r.text() // data
		for range r.i32() {
			r.i32() // permissions
			r.text()
			r.text()
		}
		flags := r.i32()
		if _, ok := s.nodes[path]; ok {
			return errExists, nil
		}
		if up := path[:strings.LastIndexByte(path, '/')]; up != "" {
			if _, ok := s.nodes[up]; !ok {
				return errNoNode, nil
			}
		}
		if s.nodes[path] = 0; flags == 1 {
			s.nodes[path] = session
		}
		return 0, appendText(nil, path)
	case opDelete:
		path := r.text()
		if _, ok := s.nodes[path]; !ok {
			return errNoNode, nil
		}
		delete(s.nodes, path)
	case opChildren, opChildren2:
		path := r.text()
		if _, ok := s.nodes[path]; !ok {
			return errNoNode, nil
		}
		var names []string
		for p := range s.nodes {
			if name, ok := strings.CutPrefix(p, path+"/"); ok && !strings.Contains(name, "/") {
				names = append(names, name)
			}
		}
		body = binary.BigEndian.AppendUint32(nil, uint32(len(names)))
		for _, n := range names {
			body = appendText(body, n)
		}
		body = append(body, make([]byte, 68)...) // stat
	default:
		s.t.Errorf("operation %d", op)
	}
	return 0, body
}

// until polls a condition in real time.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal(what)
		}
	}
}
