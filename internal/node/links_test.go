package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringcache/ringcache/internal/link"
)

// TestManyNodesCameAndWent: in its life a node has met far more addresses than it has room
// for links to, as where pods come and go. It still reaches the next one, in every way
// that it has.
func TestManyNodesCameAndWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, there := errors.New("that node has left"), errors.New("that node is there")
		n := alone(t, func(o *Options) {
			o.Engine.NoBackground = true
			o.Dialer = func(_ context.Context, addr string) (net.Conn, error) {
				if addr == "next:7001" {
					return nil, there
				}
				return nil, gone
			}
		})
		for i := range 2 * link.DefaultMaxLinks {
			for _, set := range n.linkSets() {
				if _, err := set.Conn(t.Context(), fmt.Sprintf("pod-%d:7001", i)); !errors.Is(err, gone) {
					t.Fatalf("address %d: %v", i, err)
				}
			}
			if i%100 == 0 {
				<-time.After(2 * time.Second)
			}
		}
		for i, set := range n.linkSets() {
			if _, err := set.Conn(t.Context(), "next:7001"); !errors.Is(err, there) {
				t.Errorf("set %d: %v", i, err)
			}
		}
	})
}
