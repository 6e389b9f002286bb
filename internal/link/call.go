package link

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
)

// The states of a call. Exactly one side moves it out of pending.
const (
	pending   uint32 = iota
	finished         // by the connection: v and err are the caller's
	abandoned        // by the caller: the connection drops the reply
)

// call is one request that waits for its reply. After a caller abandoned it, it
// belongs to the connection; otherwise the caller releases it.
type call struct {
	calls *callPool
	state atomic.Uint32
	done  chan struct{} // capacity 1; one token, sent after state became finished
	timer *time.Timer   // stopped between waits

	skip    int       // replies to drop before the one that counts (ASKING's)
	sent    time.Time // when it was given to the connection
	breakAt time.Time // an unanswered call this old breaks the connection
	v       resp.Value
	err     error
}

// callPool recycles calls. Each pool belongs to one Conn, Peers or Router:
// timers and channels stay with their owner.
type callPool struct{ pool sync.Pool }

func (p *callPool) get() *call {
	c, ok := p.pool.Get().(*call)
	if !ok {
		c = &call{calls: p, done: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
		c.timer.Stop()
	}
	c.state.Store(pending)
	return c
}

func (c *call) release() {
	c.skip, c.v, c.err = 0, resp.Value{}, nil
	c.calls.pool.Put(c)
}

// finish delivers the outcome; v may be borrowed. The connection calls it
// exactly once and does not touch the call afterwards.
func (c *call) finish(v resp.Value, err error) {
	if c.state.Load() == abandoned {
		c.release()
		return
	}
	c.v, c.err = v.Clone(), err
	if c.state.CompareAndSwap(pending, finished) {
		c.done <- struct{}{}
		return
	}
	c.release()
}

// wait waits until the reply is there (true), until ctx ends or until the time
// given, if it is not zero. After false the call is still pending: wait again
// or abandon it.
func (c *call) wait(ctx context.Context, until time.Time) bool {
	select {
	case <-c.done:
		return true
	default:
	}
	var expired <-chan time.Time
	if !until.IsZero() {
		d := time.Until(until)
		if d <= 0 {
			return false
		}
		c.timer.Reset(d)
		expired = c.timer.C
	}
	select {
	case <-c.done:
		c.timer.Stop()
		return true
	case <-ctx.Done():
		c.timer.Stop()
		return false
	case <-expired:
		return false
	}
}

// take gives the outcome of a call for which wait returned true, and releases it.
func (c *call) take() (resp.Value, error) {
	v, err := c.v, c.err
	c.release()
	return v, err
}

// abandon leaves the call. It returns false if the outcome arrived meanwhile:
// then the caller takes it.
func (c *call) abandon() bool {
	if c.state.CompareAndSwap(pending, abandoned) {
		return true
	}
	<-c.done
	return false
}

// callQueue is a first-in first-out ring of calls. It grows up to what its
// owner allows.
type callQueue struct {
	ring []*call // length is a power of two
	head int
	n    int
}

func (q *callQueue) push(c *call) {
	if q.n == len(q.ring) {
		ring := make([]*call, max(16, 2*len(q.ring)))
		for i := range q.n {
			ring[i] = q.ring[(q.head+i)&(len(q.ring)-1)]
		}
		q.ring, q.head = ring, 0
	}
	q.ring[(q.head+q.n)&(len(q.ring)-1)] = c
	q.n++
}

func (q *callQueue) front() *call { return q.ring[q.head] }

func (q *callQueue) pop() *call {
	c := q.ring[q.head]
	q.ring[q.head] = nil
	q.head = (q.head + 1) & (len(q.ring) - 1)
	q.n--
	return c
}
