package discovery

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// nameServer answers over UDP from a table: real queries of the real resolver.
type nameServer struct {
	conn net.PacketConn
	mu   sync.Mutex
	a    map[string][]string // name -> addresses, v4 and v6
	srv  map[string][]net.SRV
	done chan struct{}
}

// newNameServer starts a server for the names that fill gives it.
func newNameServer(t *testing.T, fill func(s *nameServer)) *nameServer {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{conn: conn, a: map[string][]string{}, srv: map[string][]net.SRV{}, done: make(chan struct{})}
	fill(s)
	go s.serve() // ends when conn is closed
	t.Cleanup(func() { conn.Close(); <-s.done })
	return s
}

func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, StrictErrors: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
}

func (s *nameServer) serve() {
	defer close(s.done)
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		s.mu.Lock()
		reply := s.answer(buf[:n])
		s.mu.Unlock()
		if reply != nil {
			_, _ = s.conn.WriteTo(reply, from) // a lost answer is a timeout of the test
		}
	}
}

// Types of records, RFC 1035, 3596 and 2782.
const (
	typeA    = 1
	typeAAAA = 28
	typeSRV  = 33
)

// answer builds the reply to one query with one question.
func (s *nameServer) answer(q []byte) []byte {
	if len(q) < 12 || binary.BigEndian.Uint16(q[4:]) != 1 {
		return nil
	}
	var labels []string
	at := 12
	for at < len(q) && q[at] != 0 {
		end := at + 1 + int(q[at])
		labels = append(labels, string(q[at+1:end]))
		at = end
	}
	question := q[12 : at+5]
	kind := binary.BigEndian.Uint16(q[at+1:])
	name := strings.Join(labels, ".")
	var records [][]byte
	for _, text := range s.a[name] {
		ip := netip.MustParseAddr(text)
		if ip.Is4() == (kind == typeA) && kind != typeSRV {
			records = append(records, ip.AsSlice())
		}
	}
	if kind == typeSRV {
		for _, r := range s.srv[name] {
			data := binary.BigEndian.AppendUint16(nil, r.Priority)
			data = binary.BigEndian.AppendUint16(data, r.Weight)
			data = binary.BigEndian.AppendUint16(data, r.Port)
			for label := range strings.SplitSeq(r.Target, ".") {
				data = append(append(data, byte(len(label))), label...)
			}
			records = append(records, append(data, 0))
		}
	}
	code := byte(0)
	if s.a[name] == nil && s.srv[name] == nil {
		code = 3 // no such name
	}
	out := append([]byte(nil), q[0], q[1], 0x85, 0x80|code, 0, 1, 0, byte(len(records)), 0, 0, 0, 0)
	out = append(out, question...)
	for _, data := range records {
		out = append(out, 0xC0, 12) // the name of the question
		out = binary.BigEndian.AppendUint16(out, kind)
		out = append(out, 0, 1, 0, 0, 0, 1) // class IN, one second
		out = binary.BigEndian.AppendUint16(out, uint16(len(data)))
		out = append(out, data...)
	}
	return out
}

func TestDNS(t *testing.T) {
	s := newNameServer(t, func(s *nameServer) {
		s.a["cache.test"] = []string{"10.0.0.2", "10.0.0.1", "fd00::1"}
		s.a["pod-0.cache.test"] = []string{"10.0.0.7"}
		s.a["pod-1.cache.test"] = []string{"10.0.0.8"}
		s.srv["_ringcache._tcp.cache.test"] = []net.SRV{{Target: "pod-0.cache.test", Port: 7001}, {Target: "pod-1.cache.test", Port: 7002},
			{Target: "gone.cache.test", Port: 7003}}
		s.srv["_ringcache._tcp.gone.test"] = []net.SRV{{Target: "gone.cache.test", Port: 7003}}
		s.srv["_ringcache._tcp.zero.test"] = []net.SRV{{Target: "pod-0.cache.test"}}
	})
	for _, tc := range []struct {
		in   string
		want []string
		says string
	}{
		{"dns:cache.test.:7009", []string{"10.0.0.1:7009", "10.0.0.2:7009", "[fd00::1]:7009"}, ""},
		{"dns:pod-0.cache.test.", []string{"10.0.0.7:7001"}, ""},
		{"dns:missing.test.", nil, "publishNotReadyAddresses"},
		{"srv:_ringcache._tcp.cache.test.", []string{"10.0.0.7:7001", "10.0.0.8:7002"}, ""},
		{"srv:_ringcache._tcp.missing.test.", nil, "has no address in DNS"},
		{"srv:_ringcache._tcp.gone.test.", nil, "gone.cache.test has no address"},
		{"srv:_ringcache._tcp.zero.test.", nil, "the port of pod-0.cache.test is 0"},
	} {
		source, err := Parse(tc.in, Options{Resolver: s.resolver()})
		if err != nil {
			t.Fatal(err)
		}
		got, err := source.Seeds(context.Background())
		if len(got)+len(tc.want) > 0 && !reflect.DeepEqual(got, tc.want) || (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %q, %v", tc.in, got, err)
		}
	}
}

// A pod more or less, and the next answer says so; without a name server there is none.
func TestDNSAnswersChange(t *testing.T) {
	s := newNameServer(t, func(s *nameServer) { s.a["cache.test"] = []string{"10.0.0.1"} })
	source := mustParse(t, "dns:cache.test.", Options{Resolver: s.resolver()})
	for _, ips := range [][]string{{"10.0.0.1"}, {"10.0.0.1", "10.0.0.2"}, {"10.0.0.3"}} {
		var want []string
		for _, ip := range ips {
			want = append(want, ip+":7001")
		}
		s.mu.Lock()
		s.a["cache.test"] = ips
		s.mu.Unlock()
		if got, err := source.Seeds(t.Context()); !reflect.DeepEqual(got, want) || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	s.conn.Close()
	<-s.done
	if _, err := source.Seeds(t.Context()); err == nil {
		t.Error("an answer without a name server")
	}
}

func mustParse(t *testing.T, in string, o Options) Source {
	t.Helper()
	s, err := Parse(in, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
