package membership

import (
	"fmt"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/topology"
)

func TestInboxKeepsTheLatestPerNode(t *testing.T) {
	in := newInbox()
	for i := range 10 * maxNews { // far more than it holds, of few nodes
		in.putNews(event{kind: evJoin, name: fmt.Sprint(i % 7)})
	}
	in.putNews(event{kind: evLeave, name: "3"})
	select {
	case <-in.wake:
	default:
		t.Error("the policy was not woken")
	}
	evs, _, dropped := in.drain()
	if len(evs) != 7 || dropped != 0 {
		t.Fatalf("%d events, %d dropped", len(evs), dropped)
	}
	for i, ev := range evs {
		want := evJoin
		if i == 3 {
			want = evLeave
		}
		if ev.name != fmt.Sprint(i) || ev.kind != want {
			t.Errorf("event %d is %+v", i, ev)
		}
	}
	if evs, _, _ := in.drain(); len(evs) != 0 {
		t.Errorf("drained twice: %v", evs)
	}
}

func TestInboxIsBounded(t *testing.T) {
	in := newInbox()
	for i := range 2 * maxNews {
		in.putNews(event{name: fmt.Sprint(i)})
		in.putFailed(fmt.Sprint(i))
		in.putAck(fmt.Sprint(i), time.Second)
		in.putHint(topology.NodeID{1}, fmt.Sprint(i))
		in.putCheck(topology.NodeID{byte(i), byte(i >> 8)})
	}
	evs, _, dropped := in.drain()
	if want := maxNews + 4*maxAdvice; len(evs) != want || dropped != 10*maxNews-want {
		t.Errorf("%d events, want %d; %d dropped", len(evs), want, dropped)
	}
}
