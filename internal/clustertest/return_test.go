package clustertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/ring"
)

// TestReturn: a node that was away for so long that others have served its slots
// drops what it had. Without copies that costs what nobody has asked for meanwhile;
// with copies the others had everything, and it takes it back. Nothing old comes back
// in either case.
func TestReturn(t *testing.T) {
	for _, tc := range []struct{ replicas, keys, used, lost int }{{0, 600, 60, 540}, {1, 600, 60, 0}} {
		t.Run(fmt.Sprint(tc.replicas, " copies"), func(t *testing.T) {
			simulate(t, func(t *testing.T, s *Sim) {
				c := NewClocks()
				s.Clock = c.Of
				s.Change = func(o *node.Options) { o.Replicas = tc.replicas }
				for _, name := range []string{"a", "b", "c"} {
					s.Add(name, "a")
				}
				pass(10 * time.Second) // joins come in steps
				s.Settled(watched()...)
				waits := keyOf(placedAt(t, s, "c"))
				latest := returnFilled(t, s, tc.keys)
				if tc.replicas > 0 {
					copied(t, s, tc.replicas, "a", "b", "c")
				}
				s.Rumours.Deaf(s.ID("c"), true)
				for _, at := range []string{"a", "b"} {
					s.Rumours.Bury(s.ID(at), s.ID("c"))
				}
				pass(50 * time.Millisecond)
				i := 0
				for key := range latest { // as clients do that do not find it, and others
					if i++; i > tc.used {
						break
					}
					latest[key] = "new"
					if v, path := s.Follow(3, "a", "SET", key, "new"); v.Text() != "OK" {
						t.Fatalf("%v: %q", path, v.Text())
					}
				}
				c.Away("c", 20*time.Second)
				s.Do("c", "GET", waits)
				s.Rumours.Deaf(s.ID("c"), false)
				for _, at := range []string{"a", "b"} {
					s.Rumours.Tell(s.ID(at), s.ID("c"))
				}
				s.Settled(watched()...)
				s.quiet(t)
				lost := 0
				for key, want := range latest {
					switch v, path := s.Follow(3, "a", "GET", key); {
					case v.Text() == want:
					case v.IsNull() && want == "old":
						lost++
					default:
						t.Errorf("%s at %v is %q, want %q", key, path, v.Text(), want)
					}
				}
				t.Logf("%d of %d keys of the node were used meanwhile, %d are lost", tc.used, tc.keys, lost)
				if want := tc.lost; lost != want {
					t.Errorf("%d keys are lost, want %d", lost, want)
				}
			})
		})
	}
}

// returnFilled writes keys that are c's.
func returnFilled(t *testing.T, s *Sim, keys int) map[string]string {
	t.Helper()
	latest := map[string]string{}
	v := s.Get("c").Node.View()
	for i := 0; len(latest) < keys; i++ {
		key := fmt.Sprint("key:", i)
		if err := s.Get("c").Node.Set(context.Background(), key, []byte("old"), 0); err != nil {
			t.Fatal(err)
		}
		if v.OwnerMember(ring.SlotString(key)).Host == "c" {
			latest[key] = "old"
		}
	}
	return latest
}
