package child

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestMain is also the server that the tests start: "listen ADDR [deaf]" accepts on a
// port, prints, and as deaf takes no SIGTERM; "fail" ends at once.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == "listen":
		fmt.Println("a peer is dead\nnothing\nand another peer is dead\npeer is de")
		fmt.Println(strings.Join(os.Environ(), " "))
		if len(os.Args) > 3 {
			ignore := make(chan os.Signal, 1)
			signal.Notify(ignore, syscall.SIGTERM)
		}
		l, err := net.Listen("tcp", os.Args[2])
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		for {
			c, err := l.Accept()
			if err != nil {
				os.Exit(1)
			}
			c.Close()
		}
	case len(os.Args) > 1 && os.Args[1] == "fail":
		fmt.Println("no such luck")
		os.Exit(3)
	}
	os.Exit(m.Run())
}

func spec(t *testing.T, more ...string) Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := FreeAddr("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return Spec{Binary: self, Addr: addr, Args: append([]string{"listen", addr}, more...), Count: "peer is dead"}
}

func alive(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
	}
	return err == nil
}

// A process is there when Start returns, whatever has ended it is gone from the list,
// and Close leaves none.
func TestGroup(t *testing.T) {
	t.Setenv("RINGCACHE_PORT_OF_THE_TEST", "1")
	var g Group
	defer g.Close()
	var list []*Process
	for i := range 3 {
		s := spec(t)
		if i == 0 {
			s = spec(t, "deaf")
		}
		pid := 0
		s.Started = func(p int) error { pid = p; return nil }
		p, err := g.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if p.Addr != s.Addr || !alive(s.Addr) || pid == 0 {
			t.Fatalf("%+v does not answer, pid %d", p, pid)
		}
		list = append(list, p)
	}
	printed := func(context.Context) error { // it is read behind the process
		if n := list[0].Counted(); n != 2 || !strings.Contains(list[0].log.String(), "PATH=") {
			return fmt.Errorf("%d lines are counted, want 2: %s", n, list[0].log.String())
		}
		return nil
	}
	if err := Poll(t.Context(), time.Minute, printed); err != nil {
		t.Error(err)
	}
	if text := list[0].log.String(); strings.Contains(text, "RINGCACHE_") {
		t.Errorf("environment: %s", text)
	}
	list[2].Signal(syscall.SIGSTOP)
	list[2].Kill() // frozen
	if err := list[1].Term(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	if got := g.List(); len(got) != 1 || got[0] != list[0] {
		t.Errorf("%v are left", got)
	}
	if err := list[0].Term(t.Context(), 10*time.Millisecond); err == nil || !strings.Contains(err.Error(), "had not ended 10ms after SIGTERM: ") {
		t.Errorf("a process that takes no SIGTERM: %v", err)
	}
	last, err := g.Start(t.Context(), spec(t))
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	for _, p := range append(list, last) {
		if alive(p.Addr) {
			t.Errorf("%s is left", p.Addr)
		}
	}
	if _, err := g.Start(t.Context(), spec(t)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a start after the end: %v", err)
	}
}

// What goes wrong at a start is told, and leaves no process.
func TestStartFails(t *testing.T) {
	var g Group
	defer g.Close()
	s := spec(t)
	s.Args = []string{"fail"}
	if _, err := g.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "it ended at once: no such luck") {
		t.Error(err)
	}
	s = spec(t)
	s.Started = func(int) error { return errors.New("no front") }
	if _, err := g.Start(t.Context(), s); err == nil || err.Error() != "no front" {
		t.Error(err)
	}
	s.Binary, s.Started = "/nowhere/at/all", nil
	if _, err := g.Start(t.Context(), s); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if n := len(g.List()); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	out, err := Output(t.Context(), spec(t).Binary, "fail")
	if err == nil || string(out) != "no such luck\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, bad := time.Now(), errors.New("not yet")
		n := 0
		err := Poll(t.Context(), time.Minute, func(context.Context) error {
			if n++; n == 4 {
				return nil
			}
			return bad
		})
		if took := time.Since(began); err != nil || took != 3*pollEvery {
			t.Errorf("%v after %v", err, took)
		}
		if err := Poll(t.Context(), time.Minute, func(context.Context) error { return Fatal(bad) }); !errors.Is(err, bad) || time.Since(began) != 3*pollEvery {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		began = time.Now()
		if err := Poll(t.Context(), time.Second, func(context.Context) error { return bad }); !errors.Is(err, bad) || !strings.Contains(err.Error(), "not within 1s") || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := Pause(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if Pause(t.Context(), time.Second) != nil || Pause(ctx, 0) == nil {
			t.Error("a pause is an error, or an ended context none")
		}
	})
}

func TestTailIsBounded(t *testing.T) {
	l := tail{count: "dead"}
	for range 1000 {
		_, _ = l.Write([]byte(strings.Repeat("x", 1000)))
	}
	if len(l.buf) > maxLog || len(l.line) > maxLog {
		t.Errorf("%d and %d bytes", len(l.buf), len(l.line))
	}
	_, _ = l.Write([]byte("de"))
	_, _ = l.Write([]byte("ad\nthe end"))
	if l.found != 1 || !strings.HasSuffix(l.String(), "dead\nthe end") {
		t.Errorf("%d, %q", l.found, l.String()[len(l.String())-20:])
	}
}
