package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
)

const (
	// askWait bounds one question to one member: those that gather from all
	// members take about a second.
	askWait = 5 * time.Second
	// maxAddrs bounds the addresses that are remembered.
	maxAddrs = 64
)

// Client asks one member of a cluster at a time, and another when that one fails.
// One goroutine at a time may use it.
type Client struct {
	o     link.Options
	addrs []string // the first is the one that is asked
	conn  *link.Conn
}

// NewClient makes a client of the cluster that has members at these data
// addresses. It connects at the first question.
func NewClient(o link.Options, addrs ...string) (*Client, error) {
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%w: no address of a member", errs.ErrConfig)
	}
	return &Client{o: o, addrs: slices.Clone(addrs)}, nil
}

// Close ends the connection.
func (c *Client) Close() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	return err
}

// Addr is the member that is asked.
func (c *Client) Addr() string {
	return c.addrs[0]
}

// learn adds addresses to fall back on.
func (c *Client) learn(nodes []Node) {
	for _, n := range nodes {
		if len(c.addrs) < maxAddrs && !slices.Contains(c.addrs, n.Addr) {
			c.addrs = append(c.addrs, n.Addr)
		}
	}
}

// Ask sends one command and returns its reply; an error reply is an error of type
// resp.ReplyError. A member that cannot be reached gives way to the next one; an
// order that was sent and not answered is not repeated.
func (c *Client) Ask(ctx context.Context, args ...string) (resp.Value, error) {
	var faults []error
	for range len(c.addrs) {
		v, err := c.ask(ctx, args)
		var said resp.ReplyError
		var broken *link.Error
		unsure := errors.As(err, &broken) && broken.Sent && !question(args)
		switch {
		case err == nil, errors.As(err, &said), errors.Is(err, errs.ErrAuth):
			return v, err
		case ctx.Err() != nil && unsure:
			return v, fmt.Errorf("%w; it may have been done all the same", ctx.Err())
		case ctx.Err() != nil:
			return v, ctx.Err()
		case unsure:
			return v, fmt.Errorf("%w; it may have been done all the same", err)
		}
		faults = append(faults, err)
		_ = c.Close() // broken already
		c.addrs = append(c.addrs[1:], c.addrs[0])
	}
	return resp.Value{}, errors.Join(faults...)
}

// question tells whether a command changes nothing, so that it may be repeated.
func question(args []string) bool {
	return len(args) > 1 && slices.Contains([]string{"STATUS", "NODES", "SLOTS", "PLAN", "PINS", "EVENTS", "CHANGES"}, args[1])
}

func (c *Client) ask(ctx context.Context, args []string) (resp.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	if c.conn == nil {
		var err error
		if c.conn, err = link.Dial(ctx, c.addrs[0], c.o); err != nil {
			return resp.Value{}, err
		}
	}
	v, err := c.conn.Do(ctx, resp.AppendCommandStrings(nil, args...))
	if err == nil {
		err = v.Err()
	}
	return v, err
}

// get asks and reads the reply.
func get[T any](ctx context.Context, c *Client, args ...string) (out T, err error) {
	v, err := c.Ask(ctx, append([]string{"RING"}, args...)...)
	if err == nil {
		err = Read(v, &out)
	}
	return out, err
}

// Status asks for the cluster as a whole.
func (c *Client) Status(ctx context.Context) (Status, error) { return get[Status](ctx, c, "STATUS") }

// Nodes asks for all members.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	nodes, err := get[[]Node](ctx, c, "NODES")
	c.learn(nodes)
	return nodes, err
}

// Slots asks for slots between two, both included.
func (c *Client) Slots(ctx context.Context, first, last int) ([]SlotRange, error) {
	return get[[]SlotRange](ctx, c, "SLOTS", fmt.Sprint(first), fmt.Sprint(last))
}

// Pins asks for all pins.
func (c *Client) Pins(ctx context.Context) ([]Pin, error) { return get[[]Pin](ctx, c, "PINS") }

// Changes asks for the changes that run.
func (c *Client) Changes(ctx context.Context) ([]Change, error) {
	return get[[]Change](ctx, c, "CHANGES")
}

// Plan asks what a change would do; args are those behind RING PLAN.
func (c *Client) Plan(ctx context.Context, args ...string) (Plan, error) {
	return get[Plan](ctx, c, append([]string{"PLAN"}, args...)...)
}

// Events asks for the latest events of the member that is asked, the oldest first.
func (c *Client) Events(ctx context.Context, count int) ([]Event, error) {
	return get[[]Event](ctx, c, "EVENTS", fmt.Sprint(count))
}

// EventsSince asks for the events behind one; 0 is the beginning.
func (c *Client) EventsSince(ctx context.Context, id int64) ([]Event, error) {
	return get[[]Event](ctx, c, "EVENTS", "SINCE", fmt.Sprint(id))
}

// Order sends RING with these arguments, which changes something.
func (c *Client) Order(ctx context.Context, args ...string) (string, error) {
	v, err := c.Ask(ctx, append([]string{"RING"}, args...)...)
	return v.Text(), err
}

// Watch asks for nodes and changes every so often until look returns true, ctx ends
// or nobody has answered for patience. look also gets what the last round has
// failed with.
func (c *Client) Watch(ctx context.Context, every, patience time.Duration, look func(nodes []Node, changes []Change) bool) error {
	t := time.NewTicker(every)
	defer t.Stop()
	heard := time.Now()
	for {
		nodes, err := c.Nodes(ctx)
		var changes []Change
		if err == nil {
			changes, err = c.Changes(ctx)
		}
		var said resp.ReplyError
		switch {
		case err == nil:
			if heard = time.Now(); look(nodes, changes) {
				return nil
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &said), time.Since(heard) > patience:
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Wait asks for the status every so often until ready returns "". report, if given,
// gets each reason why not. A ctx that ends first gives an error with the last reason.
func (c *Client) Wait(ctx context.Context, every time.Duration, ready func(*Status) (why string), report func(why string)) (Status, error) {
	t := time.NewTicker(every)
	defer t.Stop()
	last, known := "nobody has answered yet", false
	for {
		s, err := c.Status(ctx)
		var said resp.ReplyError
		switch {
		case errors.As(err, &said) || errors.Is(err, errs.ErrAuth):
			return s, err
		case err == nil:
			if last, known = ready(&s), true; last == "" {
				return s, nil
			}
		case ctx.Err() == nil && !(known && errors.Is(err, context.DeadlineExceeded)):
			// A last call that the end of ctx cut short says less than the one before.
			last = err.Error()
		}
		if ctx.Err() == nil && report != nil {
			report(last)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return s, fmt.Errorf("%w: %s", ctx.Err(), last)
		}
	}
}
