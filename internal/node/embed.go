package node

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

// maxBatch bounds the keys of one GetMany that are fetched at a time.
const maxBatch = 64

// Get returns a copy of the value, or ErrNotFound.
func (n *Node) Get(ctx context.Context, key string) ([]byte, error) {
	if err := n.gate.wait(ctx); err != nil {
		return nil, err
	}
	if slot := ring.SlotString(key); !n.incoming(slot) {
		v, _, err := n.eng.Get(slot, []byte(key), nil)
		switch {
		case err == nil:
			if n.mirroring() {
				n.noteRead(slot, []byte(key))
			}
			return v, nil
		case !errors.Is(err, errs.ErrNotServing):
			return nil, err
		}
	}
	return bulk(n.call(ctx, "get", []byte(key)))
}

// Set stores a value. ttl 0 keeps it until it is evicted or deleted; another
// ttl is at least a millisecond.
func (n *Node) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if ttl < 0 {
		return fmt.Errorf("%w: the TTL is %v", errs.ErrConfig, ttl)
	}
	if err := n.gate.wait(ctx); err != nil {
		return err
	}
	ms := (ttl + time.Millisecond - 1).Milliseconds()
	var deadline int64
	if ms > 0 {
		deadline = n.eng.Now() + ms
	}
	err := n.eng.Set(ring.SlotString(key), []byte(key), value, deadline)
	if !errors.Is(err, errs.ErrNotServing) {
		return err
	}
	args := [][]byte{[]byte(key), value}
	if ms > 0 {
		args = append(args, []byte("PX"), strconv.AppendInt(nil, ms, 10))
	}
	_, err = n.call(ctx, "set", args...)
	return err
}

// Delete removes a key and reports whether it was there.
func (n *Node) Delete(ctx context.Context, key string) (bool, error) {
	if err := n.gate.wait(ctx); err != nil {
		return false, err
	}
	if !n.incoming(ring.SlotString(key)) {
		ok, err := n.eng.Delete(ring.SlotString(key), []byte(key))
		if !errors.Is(err, errs.ErrNotServing) {
			return ok, err
		}
	}
	v, err := n.call(ctx, "del", []byte(key))
	return v.Int == 1, err
}

// Touch gives a key a new TTL and leaves its value; 0 removes the TTL.
// ErrNotFound if there is no such key.
func (n *Node) Touch(ctx context.Context, key string, ttl time.Duration) error {
	if ttl < 0 {
		return fmt.Errorf("%w: the TTL is %v", errs.ErrConfig, ttl)
	}
	var v resp.Value
	var err error
	if ttl == 0 {
		// PERSIST answers 0 for a key without a TTL too, which is no failure.
		if v, err = n.call(ctx, "persist", []byte(key)); err == nil && v.Int == 0 {
			v, err = n.call(ctx, "exists", []byte(key))
		}
	} else {
		ms := (ttl + time.Millisecond - 1).Milliseconds()
		v, err = n.call(ctx, "pexpire", []byte(key), strconv.AppendInt(nil, ms, 10))
	}
	if err == nil && v.Int == 0 {
		err = errs.ErrNotFound
	}
	return err
}

// Incr adds to a counter, an absent key counting as 0, and keeps its TTL.
func (n *Node) Incr(ctx context.Context, key string, delta int64) (int64, error) {
	v, err := n.call(ctx, "incrby", []byte(key), strconv.AppendInt(nil, delta, 10))
	return v.Int, err
}

// GetMany returns the values that are there. Keys that could not be asked for
// are missing too; the error then says why.
func (n *Node) GetMany(ctx context.Context, keys ...string) (map[string][]byte, error) {
	if err := n.gate.wait(ctx); err != nil {
		return map[string][]byte{}, err
	}
	out := make(map[string][]byte, len(keys))
	var remote []string
	for _, k := range keys {
		slot := ring.SlotString(k)
		if n.incoming(slot) {
			remote = append(remote, k)
			continue
		}
		v, _, err := n.eng.Get(slot, []byte(k), nil)
		switch {
		case err == nil:
			if n.mirroring() {
				n.noteRead(slot, []byte(k))
			}
			out[k] = v
		case errors.Is(err, errs.ErrNotServing):
			remote = append(remote, k)
		case !errors.Is(err, errs.ErrNotFound):
			return out, err
		}
	}
	type answer struct {
		key   string
		value []byte
		err   error
	}
	var faults []error
	for len(remote) > 0 {
		batch := remote[:min(len(remote), maxBatch)]
		remote = remote[len(batch):]
		answers := make(chan answer, len(batch))
		for _, k := range batch {
			go func() { // ends with its call, which the loop below waits for
				v, err := bulk(n.call(ctx, "get", []byte(k)))
				answers <- answer{k, v, err}
			}()
		}
		for range batch {
			switch a := <-answers; {
			case a.err == nil:
				out[a.key] = a.value
			case !errors.Is(a.err, errs.ErrNotFound):
				faults = append(faults, fmt.Errorf("key %.64q: %w", a.key, a.err))
			}
		}
	}
	return out, errors.Join(faults...)
}

// call executes a command where its key lives: here, or by the router, which
// follows redirects. A value that is an error comes back as an error.
func (n *Node) call(ctx context.Context, name string, args ...[]byte) (resp.Value, error) {
	if err := ctx.Err(); err != nil {
		return resp.Value{}, err
	}
	if n.ctx.Err() != nil {
		return resp.Value{}, errs.ErrClosed
	}
	if err := n.gate.wait(ctx); err != nil {
		return resp.Value{}, err
	}
	cmd := command.Lookup([]byte(name))
	all := append([][]byte{[]byte(cmd.Name)}, args...)
	w := resp.Writer{Proto: 3}
	n.execute(ctx, nil, cmd, all, &w)
	v, err := parseReply(w.Buf)
	if err != nil {
		return resp.Value{}, err
	}
	if v.Kind == resp.Error && strings.HasPrefix(string(v.Str), "MOVED ") && n.router != nil {
		if v, err = n.instead(ctx, cmd, all); err != nil {
			return resp.Value{}, err
		}
	}
	return v, wireError(v)
}

// wireError turns an error reply into the error that embedded calls return.
func wireError(v resp.Value) error {
	if v.Kind != resp.Error {
		return nil
	}
	text := resp.ReplyError(v.Str)
	switch text.Code() {
	case "OOM":
		return fmt.Errorf("%w: %w", errs.ErrNoMemory, text)
	case "RCTOOLARGE":
		return fmt.Errorf("%w: %w", errs.ErrTooLarge, text)
	case "TRYAGAIN", "RCBUSY", "MOVED", "LOADING", "CLUSTERDOWN", codeUnavailable, codeNotServing:
		return fmt.Errorf("%w: %w", errs.ErrUnavailable, text)
	}
	if strings.Contains(string(text), "not an integer") || strings.Contains(string(text), "overflow") {
		return fmt.Errorf("%w: %w", errs.ErrNotInteger, text)
	}
	return text
}

// bulk gives the value of a reply to GET.
func bulk(v resp.Value, err error) ([]byte, error) {
	switch {
	case err != nil:
		return nil, err
	case v.IsNull():
		return nil, errs.ErrNotFound
	}
	return v.Str, nil
}

// installRoutes gives the router the table of a View.
func (n *Node) installRoutes(p *published) {
	if n.router == nil {
		return
	}
	var runs []link.Owned
	for _, r := range p.view.Ranges() {
		runs = append(runs, link.Owned{First: r.First, Last: r.Last, Addr: p.view.Member(r.Owner).Addr()})
	}
	if err := n.router.Install(runs); err != nil {
		n.log.Warn("routes of the new view", "error", err)
	}
}
