package client

import (
	"context"
	"time"

	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// maxGroup bounds the keys of one MGET or DEL: a server works one command off
// at a time, so a huge one would hold up everybody else.
const maxGroup = 256

// group is the keys of one request; all lie in one slot.
type group struct {
	slot uint16
	keys []string
}

// bySlot drops repeated keys and forms groups. total counts distinct keys.
func bySlot(keys []string) (groups []group, total int) {
	seen := make(map[string]struct{}, len(keys))
	open := make(map[uint16]int, len(keys)) // slot -> index of the group that has room
	for _, k := range keys {
		if _, again := seen[k]; again {
			continue
		}
		seen[k] = struct{}{}
		slot := ring.SlotString(k)
		i, ok := open[slot]
		if !ok || len(groups[i].keys) == maxGroup {
			i = len(groups)
			groups = append(groups, group{slot: slot})
			open[slot] = i
		}
		groups[i].keys = append(groups[i].keys, k)
	}
	return groups, len(seen)
}

// requests encodes one command per group into one buffer.
func requests(groups []group, read bool, encode func(request, *group) request) []link.Request {
	ends := make([]int, len(groups))
	var buf request
	for i := range groups {
		buf = encode(buf, &groups[i])
		ends[i] = len(buf)
	}
	list := make([]link.Request, len(groups))
	start := 0
	for i, g := range groups {
		list[i] = link.Request{Slot: int(g.slot), Read: read, Bytes: buf[start:ends[i]:ends[i]]}
		start = ends[i]
	}
	return list
}

// faults collects failures by key.
type faults struct {
	op     string
	total  int
	failed map[string]error
}

func (f *faults) add(keys []string, res *link.Result) {
	if f.failed == nil {
		f.failed = map[string]error{}
	}
	for _, k := range keys {
		f.failed[k] = failure(f.op, k, res)
	}
}

func (f *faults) err() error {
	if f.failed == nil {
		return nil
	}
	return &BatchError{Op: f.op, Total: f.total, Failed: f.failed}
}

// GetMany returns the values of the keys that exist. All owners are asked at
// once, each by one pipeline, under one total deadline. If some could not be
// read, the values that came are returned together with a *BatchError that
// names the others: a key that is in neither is absent.
func (c *Client) GetMany(ctx context.Context, keys []string) (map[string][]byte, error) {
	groups, total := bySlot(keys)
	found := make(map[string][]byte, total)
	results := c.router.CallAll(ctx, requests(groups, true, func(q request, g *group) request {
		if len(g.keys) == 1 {
			return q.begin(2).str("GET").str(g.keys[0])
		}
		return q.keyed("MGET", g.keys)
	}))
	f := faults{op: "GET", total: total}
	for i := range results {
		res, g := &results[i], &groups[i]
		switch v := res.Value; {
		case res.Err != nil:
			f.add(g.keys, res)
		case len(g.keys) == 1 && v.Kind == resp.Bulk:
			found[g.keys[0]] = v.Str
		case len(g.keys) == 1 && v.Kind == resp.Null:
		case len(g.keys) > 1 && v.Kind == resp.Array && len(v.Elems) == len(g.keys):
			for n, e := range v.Elems {
				if e.Kind == resp.Bulk {
					found[g.keys[n]] = e.Str
				}
			}
		default:
			f.add(g.keys, res)
		}
	}
	return found, f.err()
}

// keyed appends a command whose arguments are keys.
func (q request) keyed(name string, keys []string) request {
	q = q.begin(1 + len(keys)).str(name)
	for _, k := range keys {
		q = q.str(k)
	}
	return q
}

// SetMany stores all items with the same time to live (see Set), all owners at
// once, under one total deadline. It is not atomic: a *BatchError names the keys
// that failed, the others are stored.
func (c *Client) SetMany(ctx context.Context, items map[string][]byte, ttl time.Duration) error {
	if ttl < 0 {
		return invalid("SET", "", "time to live %v is negative; 0 means none", ttl)
	}
	groups := make([]group, 0, len(items))
	for k := range items {
		groups = append(groups, group{slot: ring.SlotString(k), keys: []string{k}})
	}
	results := c.router.CallAll(ctx, requests(groups, false, func(q request, g *group) request {
		return q.set(g.keys[0], items[g.keys[0]], ttl)
	}))
	f := faults{op: "SET", total: len(items)}
	for i := range results {
		if res := &results[i]; res.Err != nil || res.Value.Kind != resp.SimpleString {
			f.add(groups[i].keys, res)
		}
	}
	return f.err()
}

// Del removes keys and returns how many existed. Keys of several owners are
// removed in parallel, under one total deadline; a *BatchError names those that
// failed, and the count covers the others. One key that fails is an *OpError.
func (c *Client) Del(ctx context.Context, keys ...string) (int, error) {
	if len(keys) == 1 {
		s := c.buffer()
		s.b = s.b.begin(2).str("DEL").str(keys[0])
		res := c.call(ctx, keys[0], false, s)
		if res.Err == nil && res.Value.Kind == resp.Integer {
			return int(res.Value.Int), nil
		}
		return 0, failure("DEL", keys[0], &res)
	}
	groups, total := bySlot(keys)
	results := c.router.CallAll(ctx, requests(groups, false, func(q request, g *group) request {
		return q.keyed("DEL", g.keys)
	}))
	f, n := faults{op: "DEL", total: total}, 0
	for i := range results {
		if res := &results[i]; res.Err != nil || res.Value.Kind != resp.Integer {
			f.add(groups[i].keys, res)
		} else {
			n += int(res.Value.Int)
		}
	}
	return n, f.err()
}
