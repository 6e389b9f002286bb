package server

import (
	"regexp"
	"strings"
	"testing"
)

var monitorHead = regexp.MustCompile(`^\d{10,}\.\d{6} \[0 127\.0\.0\.1:\d+\] `)

// The same commands are sent to a real Redis and to a Server, each with a
// monitor; what the monitors see must be equal but for times and ports.
func TestMonitorAsRedis(t *testing.T) {
	redis := startRedis(t, "--requirepass", "secret")
	s, _ := start(t, Options{Password: "secret"})
	lines := []string{"AUTH secret", "AUTH default wrong", "HELLO 3 AUTH default secret SETNAME me", "HELLO 2", "PING", `ECHO "a\x00b\"\\\n\t\xff"`,
		"nosuch command", "GET", "CONFIG GET maxmemory", "CLIENT ID", "MULTI", "PING inside", "DISCARD", "SUBSCRIBE a", "RESET", "PING", "QUIT"}
	see := func(addr string) string {
		m := dialAddr(t, addr)
		m.ask("AUTH secret", "OK")
		m.ask("MONITOR", "OK")
		speak(addr, strings.Join(lines, "\r\n")+"\r\n")
		speak(addr, "AUTH secret\r\nECHO end\r\n")
		var out []string
		for {
			v, err := m.value()
			if err != nil {
				t.Fatal(err)
			}
			text := textOf(v)
			head := monitorHead.FindString(text)
			if head == "" {
				t.Fatalf("%q", text)
			}
			text = text[len(head):]
			if text == `"ECHO" "end"` {
				return strings.Join(out, "\n")
			}
			out = append(out, text)
		}
	}
	want, got := see(redis), see(s.Addr().String())
	want = withoutMulti(want) // the fake node knows no transactions
	got = withoutMulti(got)
	if want != got {
		t.Errorf("redis:\n%s\nring-cache:\n%s", want, got)
	}
}

func withoutMulti(s string) string {
	var out []string
	for _, l := range strings.Split(s, "\n") {
		if l != `"MULTI"` && l != `"DISCARD"` && l != `"PING" "inside"` {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}

// A monitor that does not read is dropped and holds up nobody.
func TestMonitorThatDoesNotRead(t *testing.T) {
	s, _ := start(t, Options{OutputLimit: 1 << 20})
	m, c := dial(t, s), dial(t, s)
	m.ask("MONITOR", "OK")
	long := strings.Repeat("x", 50_000)
	for i := 0; s.monitors.n.Load() > 0; i++ {
		if i > 10_000 {
			t.Fatal("the monitor was never dropped")
		}
		c.ask("ECHO "+long, long)
	}
	if got := s.Stats().OutputLimit; got != 1 {
		t.Errorf("%d sessions were cut off", got)
	}
	c.ask("MONITOR", "OK")
	c.ask("RESET", "RESET")
	c.ask("PING", "PONG")
	if s.monitors.n.Load() != 0 {
		t.Error("RESET does not end MONITOR")
	}
}
