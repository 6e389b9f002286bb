package server

import "testing"

// A loop waits for more than one request only while several connections are busy.
func TestCrowd(t *testing.T) {
	batch := func(from, n int, conns []*loopConn) []*loopConn {
		var ts []*loopConn
		for i := range n {
			ts = append(ts, conns[(from+i)%len(conns)])
		}
		return ts
	}
	for _, tt := range []struct {
		name             string
		conns, each, now int // connections, requests in each turn of a window, and in the last
		want             int
	}{
		{"one client", 1, 1, 1, 1},
		{"one request at a time", 50, 1, 1, 1},
		{"three clients at once", 3, 3, 3, 1},
		{"some clients", 12, 3, 2, 4},
		{"fifty clients", 50, 4, 2, 16},
		{"many clients", 1000, 100, 100, gatherMost},
		{"nothing came", 50, 4, 0, 1},
	} {
		var w crowd
		conns := make([]*loopConn, tt.conns)
		for i := range conns {
			conns[i] = new(loopConn)
		}
		if tt.each > 1 && w.least() != 1 {
			t.Errorf("%s: waits before anything is known", tt.name)
		}
		for i := range gatherTurns {
			w.note(batch(i*tt.each, tt.each, conns))
		}
		w.note(batch(0, tt.now, conns))
		if got := w.least(); got != tt.want {
			t.Errorf("%s: waits for %d requests, want %d", tt.name, got, tt.want)
		}
	}
}
