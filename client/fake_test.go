package client_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringcache/ringcache/client"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// fakeServer is one node of a small cluster on loopback.
type fakeServer struct {
	ln    net.Listener
	addr  string
	peers *[]*fakeServer
	wg    sync.WaitGroup

	mu     sync.Mutex
	data   map[string]string
	ttl    map[string]int64  // ms as given
	errs   map[string]string // error reply by key
	silent bool              // answer nothing from now on
	conns  map[net.Conn]bool
	seen   []string
}

// listenCluster starts nodes that own equal shares of the slots.
func listenCluster(n int) (all []*fakeServer, stop func(), err error) {
	nodes := new([]*fakeServer)
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		*nodes = append(*nodes, &fakeServer{ln: ln, addr: ln.Addr().String(), peers: nodes, data: map[string]string{},
			ttl: map[string]int64{}, errs: map[string]string{}, conns: map[net.Conn]bool{}})
	}
	for _, s := range *nodes {
		s.wg.Go(s.accept) // ends with stop
	}
	return *nodes, func() {
		for _, s := range *nodes {
			s.stop()
		}
	}, nil
}

func startCluster(t testing.TB, n int) []*fakeServer {
	t.Helper()
	all, stop, err := listenCluster(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return all
}

func owner(all []*fakeServer, key string) *fakeServer {
	return all[int(ring.SlotString(key))*len(all)/ring.Slots]
}

// keysOn returns n keys of distinct slots that one node owns.
func keysOn(all []*fakeServer, s *fakeServer, n int) []string {
	var keys []string
	for i := 0; len(keys) < n; i++ {
		if k := "k" + strconv.Itoa(i); owner(all, k) == s {
			keys = append(keys, k)
		}
	}
	return keys
}

// open opens a client with a generous deadline: these tests are not about time.
func open(t testing.TB, all []*fakeServer, change func(*client.Options)) *client.Client {
	t.Helper()
	o := client.Options{Seeds: []string{all[0].addr}, Timeout: 10 * time.Second}
	if change != nil {
		change(&o)
	}
	c, err := client.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func (s *fakeServer) accept() {
	for {
		nc, err := s.ln.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[nc] = true
		s.mu.Unlock()
		s.wg.Go(func() { s.serve(nc) }) // ends when the connection does
	}
}

func (s *fakeServer) stop() {
	s.ln.Close()
	s.mu.Lock()
	for nc := range s.conns {
		nc.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func (s *fakeServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *fakeServer) commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

func (s *fakeServer) serve(nc net.Conn) {
	defer nc.Close()
	var p resp.Parser
	lim := resp.DefaultLimits(16 << 20)
	w := resp.Writer{Proto: 2}
	buf, chunk := []byte(nil), make([]byte, 64<<10)
	for {
		m, err := nc.Read(chunk)
		if err != nil {
			return
		}
		buf = append(buf, chunk[:m]...)
		w.Buf = w.Buf[:0]
		for {
			args, n, err := p.Next(buf, &lim)
			if err != nil {
				return
			}
			if n == 0 {
				break
			}
			words := make([]string, len(args))
			for i, a := range args {
				words[i] = string(a)
			}
			buf = buf[n:]
			s.mu.Lock()
			if !s.silent {
				s.execute(&w, words)
			}
			s.mu.Unlock()
		}
		if _, err := nc.Write(w.Buf); err != nil {
			return
		}
	}
}

// execute answers one command. The caller holds mu.
func (s *fakeServer) execute(w *resp.Writer, args []string) {
	name := strings.ToUpper(args[0])
	switch name {
	case "CLUSTER":
		s.slots(w)
		return
	case "HELLO":
		w.Error("ERR unknown command 'HELLO'")
		return
	case "PING", "CLIENT", "AUTH", "READONLY", "READWRITE":
		w.Simple("PONG")
		return
	}
	s.seen = append(s.seen, strings.Join(args, " "))
	for _, k := range args[1:] {
		if e := s.errs[k]; e != "" {
			w.Error(e)
			return
		}
	}
	if len(args) > 1 && owner(*s.peers, args[1]) != s {
		w.Error(fmt.Sprintf("MOVED %d %s", ring.SlotString(args[1]), owner(*s.peers, args[1]).addr))
		return
	}
	s.keyed(w, name, args)
}

func (s *fakeServer) keyed(w *resp.Writer, name string, args []string) {
	value := func(k string) {
		if v, ok := s.data[k]; ok {
			w.BulkString(v)
		} else {
			w.Null()
		}
	}
	switch name {
	case "GET":
		value(args[1])
	case "MGET":
		w.Array(len(args) - 1)
		for _, k := range args[1:] {
			value(k)
		}
	case "SET":
		s.data[args[1]] = args[2]
		if len(args) == 5 && args[3] == "PX" {
			s.ttl[args[1]], _ = strconv.ParseInt(args[4], 10, 64)
		}
		w.Simple("OK")
	case "DEL":
		n := 0
		for _, k := range args[1:] {
			if _, ok := s.data[k]; ok {
				n++
				delete(s.data, k)
			}
		}
		w.Int(int64(n))
	case "INCRBY":
		v, err := strconv.ParseInt(s.data[args[1]], 10, 64)
		if err != nil && s.data[args[1]] != "" {
			w.Error("ERR value is not an integer or out of range")
			return
		}
		d, _ := strconv.ParseInt(args[2], 10, 64)
		s.data[args[1]] = strconv.FormatInt(v+d, 10)
		w.Int(v + d)
	case "PEXPIRE":
		if _, ok := s.data[args[1]]; !ok {
			w.Int(0)
			return
		}
		s.ttl[args[1]], _ = strconv.ParseInt(args[2], 10, 64)
		w.Int(1)
	default:
		w.Error("ERR unknown command '" + name + "'")
	}
}

func (s *fakeServer) slots(w *resp.Writer) {
	n := len(*s.peers)
	w.Array(n)
	for i, p := range *s.peers {
		first, last := (i*ring.Slots+n-1)/n, ((i+1)*ring.Slots+n-1)/n-1
		host, port, _ := net.SplitHostPort(p.addr)
		num, _ := strconv.Atoi(port)
		w.Array(3)
		w.Int(int64(first))
		w.Int(int64(last))
		w.Array(2)
		w.BulkString(host)
		w.Int(int64(num))
	}
}

// demo gives the examples a client on a small cluster.
func demo() (*client.Client, func()) {
	all, stop, err := listenCluster(2)
	if err != nil {
		panic(err)
	}
	c, err := client.Open(context.Background(), client.Options{Seeds: []string{all[0].addr}, Timeout: 10 * time.Second})
	if err != nil {
		panic(err)
	}
	return c, func() { c.Close(); stop() }
}
