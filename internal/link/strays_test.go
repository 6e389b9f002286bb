package link

import (
	"fmt"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/ring"
)

// TestManyAddressesInALife: a client has been sent to far more addresses than it has room
// for links to, none of which it kept in its table. It still learns of new nodes.
func TestManyAddressesInALife(t *testing.T) {
	bubble(t, 2, func(o *RouterOptions) { o.RefreshEvery = time.Minute }, func(t *testing.T, c *fakeCluster, r *Router) {
		k, n := c.on(1), 0
		c.nodes[1].set(func() {
			c.nodes[1].script = replyTo("GET", func() *act {
				n++
				return &act{reply: fmt.Sprintf("-ASK %d pod-%d:1\r\n", ring.SlotString(k), n)}
			})
		})
		for i := range 2 * DefaultMaxLinks {
			if v, _, err := do(t, r, "GET", k); err == nil {
				t.Fatalf("%q", v.Text())
			}
			if i%100 == 0 {
				<-time.After(time.Minute)
			}
		}
		if n < 2*DefaultMaxLinks {
			t.Fatalf("%d redirects", n)
		}
		late := startFake("next:1", c.net.listen("next:1"))
		defer late.stop()
		owners := func(s uint16) string {
			if o := c.even(s); o != "n2:1" {
				return o
			}
			return "next:1"
		}
		late.set(func() { late.owners, late.data[k] = owners, "v" })
		for _, n := range c.nodes {
			n.set(func() { n.owners, n.script = owners, nil })
		}
		wantOK(t, r, "v", "GET", k)
	})
}
