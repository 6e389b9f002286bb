package server

import (
	"bytes"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ringcache/ringcache/internal/resp"
)

// rawClient is a connection that costs no memory on this side.
func rawClient(t testing.TB, s *Server) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	to := unix.SockaddrInet4{Port: s.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Connect(fd, &to); err != nil {
		t.Fatal(err)
	}
	return fd
}

// descriptors raises the limit of open files to n if it may, and returns it.
func descriptors(t *testing.T, n uint64) uint64 {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	if was.Cur >= n {
		return was.Cur
	}
	for _, to := range []unix.Rlimit{{Cur: n, Max: max(n, was.Max)}, {Cur: was.Max, Max: was.Max}} {
		if unix.Setrlimit(unix.RLIMIT_NOFILE, &to) == nil {
			t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: was.Cur, Max: to.Max}) })
			return to.Cur
		}
	}
	return was.Cur
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An idle connection that has been busy costs at most 1 KiB.
func TestManyIdleConnections(t *testing.T) {
	const want, least = 10_000, 1000
	n := want
	if limit := descriptors(t, 2*want+200); limit < 2*want+200 {
		if n = (int(limit) - 200) / 2; n < least {
			t.Skipf("%d open files are allowed, which is too few", limit)
		}
		t.Logf("%d open files are allowed: %d connections", limit, n)
	}
	if testing.Short() {
		n = least
	}
	for _, io := range []string{IOEpoll, IOUring} {
		t.Run(io, func(t *testing.T) {
			needs(t, io)
			s, _ := start(t, Options{IO: io, Loops: 1, MaxClients: n, Handler: instant{make([]byte, 64)}})
			in := resp.AppendCommandStrings(nil, "GET", "key:000001")
			in = append(in, "PING\r\n"...)
			out := make([]byte, 64+len("$64\r\n\r\n+PONG\r\n"))
			busy := func(fd int) {
				if _, err := unix.Write(fd, in); err != nil {
					t.Fatal(err)
				}
				for got := 0; got < len(out); {
					k, err := unix.Read(fd, out[got:])
					if err != nil || k == 0 {
						t.Fatal(k, err)
					}
					got += k
				}
			}
			fds := make([]int, 0, n)
			defer func() {
				for _, fd := range fds {
					unix.Close(fd)
				}
			}()
			fds = append(fds, rawClient(t, s))
			busy(fds[0])
			before := heap()
			for len(fds) < n {
				fds = append(fds, rawClient(t, s))
				busy(fds[len(fds)-1])
			}
			each := (heap() - before) / int64(n-1)
			if st := s.Stats(); st.Clients != n || st.BufferBytes != 0 {
				t.Fatalf("%+v", st)
			}
			t.Logf("%d idle connections, %d bytes each", n, each)
			if each > 1024 {
				t.Errorf("an idle connection costs %d bytes", each)
			}
			for _, fd := range fds[:100] {
				busy(fd)
			}
		})
	}
}

// A loop allocates nothing for a command.
func TestLoopAllocations(t *testing.T) {
	for _, io := range []string{IOEpoll, IOUring} {
		t.Run(io, func(t *testing.T) {
			needs(t, io)
			s, _ := start(t, Options{IO: io, Loops: 1, Handler: instant{make([]byte, 64)}})
			fds := make([]int, 8)
			for i := range fds {
				fds[i] = rawClient(t, s)
				defer unix.Close(fds[i])
			}
			in := append(pipeline(32), "PING\r\nASKING\r\n"...)
			out := make([]byte, 32*(64+len("$64\r\n\r\n"))+len("+PONG\r\n+OK\r\n"))
			run := func() {
				for _, fd := range fds {
					if _, err := unix.Write(fd, in); err != nil {
						t.Fatal(err)
					}
				}
				for _, fd := range fds {
					for got := 0; got < len(out); {
						k, err := unix.Read(fd, out[got:])
						if err != nil || k == 0 {
							t.Fatal(k, err)
						}
						got += k
					}
				}
			}
			for range 20 {
				run()
			}
			// A sample of the rates once a second is all there may be.
			if n := testing.AllocsPerRun(300, run); n > 0 {
				t.Errorf("%v allocations for %d commands", n, len(fds)*34)
			}
		})
	}
}

// The ring does what plain calls do, in batches of any size.
func TestUringAsPlainCalls(t *testing.T) {
	u, err := openUring()
	if err != nil {
		t.Skip(err)
	}
	defer u.close()
	for _, n := range []int{1, plainUpTo, plainUpTo + 1, 17, maxBatch} {
		for round := range 3 {
			var got [2]string
			for i, io := range []batchIO{plainIO{}, u} {
				got[i] = exchange(t, io, n, round)
			}
			if got[0] != got[1] || u.fault != nil {
				t.Fatalf("batch of %d, fault %v:\n%s\n%s", n, u.fault, got[0], got[1])
			}
		}
	}
}

// exchange sends and receives through n pairs of sockets, in all ways that a
// transfer may end, and tells what became of it.
func exchange(t *testing.T, io batchIO, n, round int) string {
	t.Helper()
	var said strings.Builder
	var sends, reads []transfer
	for i := range n {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pair[1])
		text := bytes.Repeat([]byte{byte('a' + i%26)}, 1+i*97)
		switch (i + round) % 4 {
		case 1: // more than the other side takes
			text = make([]byte, 8<<20)
		case 2: // the end
			unix.Close(pair[0])
			text = nil
		case 3: // nothing there
			text = nil
		}
		if text != nil {
			sends = append(sends, transfer{fd: int32(pair[0]), buf: text})
			defer unix.Close(pair[0])
		} else if (i+round)%4 == 3 {
			defer unix.Close(pair[0])
		}
		reads = append(reads, transfer{fd: int32(pair[1]), buf: make([]byte, 100+i)})
	}
	if len(sends) > 0 {
		io.send(sends)
	}
	io.receive(reads)
	for _, x := range slices.Concat(sends, reads) {
		fmt.Fprint(&said, x.n, " ", x.errno, " ", string(x.buf[:min(x.n, 3)]), "; ")
	}
	return said.String()
}

// A loop that keeps its processor while it waits holds up neither the collector
// nor whoever else needs the processor.
func TestHeldProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	for _, io := range []string{IOEpoll, IOUring} {
		t.Run(io, func(t *testing.T) {
			needs(t, io)
			s, node := start(t, Options{IO: io, Loops: 1, HoldProcessor: true})
			node.set("later", []byte("x"))
			c := dial(t, s)
			for range 50 {
				c.ask("PING", "PONG") // the wait that follows holds the processor
				runtime.GC()
				c.ask("GET later\r\nPING", "x", "PONG")
				done := make(chan struct{})
				go func() { close(done) }()
				<-done
			}
		})
	}
}

// BenchmarkStopTheWorld is how long the world takes to stop when a loop waits.
func BenchmarkStopTheWorld(b *testing.B) {
	for _, hold := range []bool{false, true} {
		b.Run(fmt.Sprint("hold-", hold), func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
			s, _ := start(b, Options{IO: IOEpoll, Loops: 1, HoldProcessor: hold})
			c := dial(b, s)
			var m runtime.MemStats
			for range b.N {
				b.StopTimer()
				c.ask("PING", "PONG")
				b.StartTimer()
				runtime.ReadMemStats(&m)
			}
		})
	}
}
