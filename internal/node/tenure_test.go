package node

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/topology"
)

// A member that restarts serves as soon as all have agreed, and others may learn a moment
// later by gossip that it is another process. If its first silence began in between, they would
// seem not to have known it for all of that silence, and it would drop what it holds.
func TestRestartedMemberIsKnownSinceItsFirstAgreement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		self, old, stranger := member(1, "a", topology.Active), member(2, "b", topology.Active), member(3, "c", topology.Active)
		again := old
		again.Boot++
		n := &Node{id: self.ID, boot: self.Boot, clock: newClock(time.Now)}
		adopt := func(before *published, members ...topology.Member) *published {
			v, err := topology.NewView(topology.Params{}, nil, members, nil)
			if err != nil {
				t.Fatal(err)
			}
			return n.newPublished(v, membership.Snapshot{}, before)
		}
		since := func(p *published, id topology.NodeID) time.Duration {
			i, _ := p.view.Index(id)
			return n.clock.time().Sub(p.since[i])
		}
		first := adopt(nil, self, old)

		n.agreements.note(first, again.ID, again.Boot, n.clock.time())
		n.agreements.note(first, stranger.ID, stranger.Boot, n.clock.time())
		<-time.After(100 * time.Millisecond)
		n.agreements.note(first, again.ID, again.Boot, n.clock.time())
		second := adopt(first, self, again, stranger)
		<-time.After(time.Second)
		if got := since(second, again.ID); got != 1100*time.Millisecond {
			t.Errorf("the restarted member has been known for %v, want 1.1s", got)
		}
		if got := since(second, stranger.ID); got != time.Second {
			t.Errorf("the member whose ID is new has been known for %v, want 1s", got)
		}

		// Once it was gone, an agreement of before says nothing.
		later := again
		later.Boot++
		n.agreements.note(second, later.ID, later.Boot, n.clock.time())
		gone := adopt(second, self, stranger)
		n.agreements.note(second, later.ID, later.Boot, n.clock.time()) // by the View of a moment ago
		back := adopt(gone, self, again, stranger)
		<-time.After(time.Second)
		last := adopt(back, self, later, stranger)
		if got := since(last, later.ID); got != 0 {
			t.Errorf("the member that was gone has been known for %v, want 0", got)
		}
	})
}
