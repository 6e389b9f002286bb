package client

import (
	"context"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
)

// Do sends any command, for what has no method of its own:
//
//	v, err := c.Do(ctx, "LPOS", "list", "x", "RANK", -1)
//
// Arguments are strings, byte slices, integers, floats and booleans (1 and 0).
// The command goes to the owner of its first key, or to any node if it has
// none; its keys must lie in one slot. A command that this client does not know
// is taken for a write whose first argument is its key. Commands that change
// the state of a connection or block it (SUBSCRIBE, MULTI, BLPOP ...) are
// refused with ErrConfig: all callers share the links.
//
// An error reply is an error: an *OpError around a ServerError. A null reply is
// a Value, not an error.
func (c *Client) Do(ctx context.Context, args ...any) (Value, error) {
	raw, err := arguments("Do", args)
	if err != nil {
		return Value{}, err
	}
	key := ""
	if len(raw) > 1 {
		key = string(raw[1])
	}
	return reply(raw, key, c.router.CallArgs(ctx, raw))
}

// DoNode sends a command to one node by its address, whatever the slots say:
// for what is a matter of a node and not of a key, such as INFO or DBSIZE. Nodes
// lists the addresses. Redirects are returned as errors and nothing is retried.
// Arguments and errors are those of Do.
func (c *Client) DoNode(ctx context.Context, addr string, args ...any) (Value, error) {
	raw, err := arguments("DoNode", args)
	if err != nil {
		return Value{}, err
	}
	return reply(raw, "", c.router.CallNode(ctx, addr, raw))
}

// reply turns a result into what Do returns.
func reply(raw [][]byte, key string, res link.Result) (Value, error) {
	if res.Err != nil || res.Value.Kind == resp.Error {
		return Value{}, failure(strings.ToUpper(string(raw[0][:min(len(raw[0]), 32)])), key, &res)
	}
	return Value{res.Value}, nil
}

// arguments encodes a command.
func arguments(op string, args []any) ([][]byte, error) {
	if len(args) == 0 {
		return nil, invalid(op, "", "no command")
	}
	raw := make([][]byte, len(args))
	for i, a := range args {
		b, ok := argument(a)
		if !ok {
			return nil, invalid(op, "", "argument %d is a %T; use a string, bytes, an integer, a float or a boolean", i, a)
		}
		raw[i] = b
	}
	return raw, nil
}

// argument encodes one argument.
func argument(a any) ([]byte, bool) {
	switch a := a.(type) {
	case string:
		return []byte(a), true
	case []byte:
		return a, true
	case int:
		return strconv.AppendInt(nil, int64(a), 10), true
	case int64:
		return strconv.AppendInt(nil, a, 10), true
	case int32:
		return strconv.AppendInt(nil, int64(a), 10), true
	case int16:
		return strconv.AppendInt(nil, int64(a), 10), true
	case int8:
		return strconv.AppendInt(nil, int64(a), 10), true
	case uint:
		return strconv.AppendUint(nil, uint64(a), 10), true
	case uint64:
		return strconv.AppendUint(nil, a, 10), true
	case uint32:
		return strconv.AppendUint(nil, uint64(a), 10), true
	case uint16:
		return strconv.AppendUint(nil, uint64(a), 10), true
	case uint8:
		return strconv.AppendUint(nil, uint64(a), 10), true
	case float64:
		return strconv.AppendFloat(nil, a, 'g', -1, 64), true
	case float32:
		return strconv.AppendFloat(nil, float64(a), 'g', -1, 32), true
	case bool:
		if a {
			return []byte("1"), true
		}
		return []byte("0"), true
	}
	return nil, false
}
