package client

import (
	"context"
	"time"

	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// call sends the request in s to the owner of key and recycles s.
func (c *Client) call(ctx context.Context, key string, read bool, s *buffer) link.Result {
	res := c.router.Call(ctx, link.Request{Slot: int(ring.SlotString(key)), Read: read, Bytes: s.b})
	c.recycle(s)
	return res
}

// Get returns the value of key, owned by the caller; never nil without an
// error. Errors: ErrNotFound if the key is absent; otherwise an *OpError.
func (c *Client) Get(ctx context.Context, key string) ([]byte, error) {
	s := c.buffer()
	s.b = s.b.begin(2).str("GET").str(key)
	res := c.call(ctx, key, true, s)
	if res.Err == nil {
		switch res.Value.Kind {
		case resp.Bulk:
			return res.Value.Str, nil
		case resp.Null:
			return nil, ErrNotFound
		}
	}
	return nil, failure("GET", key, &res)
}

// Set stores value under key. ttl is the time to live, rounded up to a
// millisecond; 0 means none. The server may still evict the key earlier.
// Errors: ErrTooLarge if the server refuses the size, ErrNoMemory, ErrConfig
// for a negative ttl, ErrUnavailable; all inside an *OpError.
func (c *Client) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if ttl < 0 {
		return invalid("SET", key, "time to live %v is negative; 0 means none", ttl)
	}
	s := c.buffer()
	s.b = s.b.set(key, value, ttl)
	res := c.call(ctx, key, false, s)
	if res.Err == nil && res.Value.Kind == resp.SimpleString {
		return nil
	}
	return failure("SET", key, &res)
}

// set appends SET key value [PX ms].
func (q request) set(key string, value []byte, ttl time.Duration) request {
	if ttl <= 0 {
		return q.begin(3).str("SET").str(key).bytes(value)
	}
	return q.begin(5).str("SET").str(key).bytes(value).str("PX").int(millis(ttl))
}

// millis rounds a positive duration up to milliseconds.
func millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	if time.Duration(ms)*time.Millisecond < d {
		ms++
	}
	return ms
}

// SetOptions are the less common forms of SET. The zero value is a plain SET
// without a time to live.
type SetOptions struct {
	// TTL is the time to live, rounded up to a millisecond; 0 means none.
	TTL time.Duration
	// KeepTTL keeps the time to live that the key has; TTL must be 0.
	KeepTTL bool
	// IfAbsent stores only if the key does not exist, IfPresent only if it
	// does; not both.
	IfAbsent, IfPresent bool
	// Return asks for the value that the key had before.
	Return bool
}

// SetResult is the outcome of SetWith.
type SetResult struct {
	// Stored tells whether the value was stored.
	Stored bool
	// Old is the value before, with SetOptions.Return; nil if there was none.
	Old []byte
}

// SetWith stores value under key as the options say. A condition that does not
// hold is no error: Stored is false. Return together with IfAbsent needs a
// server of Redis 7.0 or later. Errors as Set.
func (c *Client) SetWith(ctx context.Context, key string, value []byte, o SetOptions) (SetResult, error) {
	switch {
	case o.TTL < 0:
		return SetResult{}, invalid("SET", key, "time to live %v is negative; 0 means none", o.TTL)
	case o.TTL > 0 && o.KeepTTL:
		return SetResult{}, invalid("SET", key, "TTL and KeepTTL exclude each other")
	case o.IfAbsent && o.IfPresent:
		return SetResult{}, invalid("SET", key, "IfAbsent and IfPresent exclude each other")
	}
	s := c.buffer()
	s.b = s.b.setWith(key, value, &o)
	res := c.call(ctx, key, false, s)
	if res.Err != nil {
		return SetResult{}, failure("SET", key, &res)
	}
	switch v := res.Value; {
	case !o.Return && v.Kind == resp.SimpleString:
		return SetResult{Stored: true}, nil
	case !o.Return && v.Kind == resp.Null:
		return SetResult{}, nil
	case o.Return && v.Kind == resp.Bulk:
		return SetResult{Stored: !o.IfAbsent, Old: v.Str}, nil
	case o.Return && v.Kind == resp.Null:
		return SetResult{Stored: !o.IfPresent}, nil
	}
	return SetResult{}, failure("SET", key, &res)
}

func (q request) setWith(key string, value []byte, o *SetOptions) request {
	args := 3
	count := func(yes bool, n int) {
		if yes {
			args += n
		}
	}
	count(o.TTL > 0, 2)
	count(o.KeepTTL, 1)
	count(o.IfAbsent || o.IfPresent, 1)
	count(o.Return, 1)
	q = q.begin(args).str("SET").str(key).bytes(value)
	if o.TTL > 0 {
		q = q.str("PX").int(millis(o.TTL))
	}
	if o.KeepTTL {
		q = q.str("KEEPTTL")
	}
	if o.IfAbsent {
		q = q.str("NX")
	}
	if o.IfPresent {
		q = q.str("XX")
	}
	if o.Return {
		q = q.str("GET")
	}
	return q
}

// Touch gives key a new time to live, counted from now, and leaves the value
// alone. It returns false if the key is absent. ttl must be positive and is
// rounded up to a millisecond. (Redis's TOUCH, which only marks a key as used,
// is Do(ctx, "TOUCH", key).)
func (c *Client) Touch(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	if ttl <= 0 {
		return false, invalid("PEXPIRE", key, "time to live %v is not positive; Del removes a key", ttl)
	}
	s := c.buffer()
	s.b = s.b.begin(3).str("PEXPIRE").str(key).int(millis(ttl))
	res := c.call(ctx, key, false, s)
	if res.Err == nil && res.Value.Kind == resp.Integer {
		return res.Value.Int == 1, nil
	}
	return false, failure("PEXPIRE", key, &res)
}

// Incr adds delta, which may be negative, to the integer at key, taking an
// absent key for 0, and returns the sum. The time to live stays. It is never
// repeated once it was sent, so it may fail with ErrUnavailable although it was
// executed. Errors: ErrNotInteger, ErrUnavailable.
func (c *Client) Incr(ctx context.Context, key string, delta int64) (int64, error) {
	s := c.buffer()
	s.b = s.b.begin(3).str("INCRBY").str(key).int(delta)
	res := c.call(ctx, key, false, s)
	if res.Err == nil && res.Value.Kind == resp.Integer {
		return res.Value.Int, nil
	}
	return 0, failure("INCRBY", key, &res)
}
