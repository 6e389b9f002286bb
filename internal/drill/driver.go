package drill

import (
	"context"
	"errors"
	"time"

	"github.com/ringcache/ringcache/client"
)

// Driver is a client of a cache, as an application uses one. It is safe for
// concurrent use. An error means that the fate of the call is unknown.
type Driver interface {
	// Get returns a value that the caller owns; false without an error means
	// that the cache answered and has none.
	Get(ctx context.Context, key string) (value []byte, found bool, err error)
	// Set stores a value, which the driver may keep.
	Set(ctx context.Context, key string, value []byte, ttl time.Duration) error
	Del(ctx context.Context, key string) error
	Incr(ctx context.Context, key string) (int64, error)
	Stats() DriverStats
	Close() error
}

// DriverStats counts since a driver was opened.
type DriverStats struct {
	Retries   uint64 `json:"retries"`
	Redirects uint64 `json:"redirects"`
}

func (s *DriverStats) add(o DriverStats) {
	s.Retries += o.Retries
	s.Redirects += o.Redirects
}

// sdk is the public client as a Driver.
type sdk struct{ c *client.Client }

// OpenSDK opens the public client; timeout is the total deadline of each call.
func OpenSDK(ctx context.Context, seeds []string, timeout time.Duration) (Driver, error) {
	c, err := client.Open(ctx, client.Options{Seeds: seeds, Timeout: timeout})
	if err != nil {
		return nil, err
	}
	return &sdk{c}, nil
}

func (s *sdk) Get(ctx context.Context, key string) ([]byte, bool, error) {
	v, err := s.c.Get(ctx, key)
	if errors.Is(err, client.ErrNotFound) {
		return nil, false, nil
	}
	return v, err == nil, err
}

func (s *sdk) Set(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	return s.c.Set(ctx, key, value, ttl.Round(time.Millisecond))
}

func (s *sdk) Del(ctx context.Context, key string) error {
	_, err := s.c.Del(ctx, key)
	return err
}

func (s *sdk) Incr(ctx context.Context, key string) (int64, error) { return s.c.Incr(ctx, key, 1) }

func (s *sdk) Stats() DriverStats {
	st := s.c.Stats()
	return DriverStats{Retries: st.Retries, Redirects: st.Moved + st.Asked}
}

func (s *sdk) Close() error { return s.c.Close() }
