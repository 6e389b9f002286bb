package client

import (
	"context"
	"strings"

	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
)

// DoNode sends a command to one node by its address, whatever the slots say:
// for what is a matter of a node and not of a key, such as INFO or DBSIZE. Nodes
// lists the addresses. Redirects are returned as errors and nothing is retried.
// Arguments and errors are those of Do.
func (c *Client) DoNode(ctx context.Context, addr string, args ...any) (Value, error) {
	if len(args) == 0 {
		return Value{}, invalid("DoNode", "", "no command")
	}
	raw := make([][]byte, len(args))
	for i, a := range args {
		b, ok := argument(a)
		if !ok {
			return Value{}, invalid("DoNode", "", "argument %d is a %T; use a string, bytes, an integer, a float or a boolean", i, a)
		}
		raw[i] = b
	}
	v, err := c.router.DoNode(ctx, addr, resp.AppendCommand(nil, raw...))
	if res := (link.Result{Value: v, Addr: addr, Err: err}); err != nil || v.Kind == resp.Error {
		return Value{}, failure(strings.ToUpper(string(raw[0])), "", &res)
	}
	return Value{v}, nil
}
