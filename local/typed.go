package local

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"
)

// Cache is a memory-bounded cache of keys K and values V, encoded by codecs. Its
// methods may be called by many goroutines at once. Create it with NewCache.
type Cache[K comparable, V any] struct {
	b     *Bytes
	key   Codec[K]
	value Codec[V]
	// scratch holds *buffers; what lies in it is used by one call at a time.
	scratch sync.Pool
}

// Codecs are those of a Cache. A nil one means the default, which exists for
// strings, []byte, integers, floats, bools and named types of these. As keys, the
// floats 0 and -0 are two.
type Codecs[K comparable, V any] struct {
	Key   Codec[K]
	Value Codec[V]
}

// buffers are the encoded key and value of one call.
type buffers struct{ key, value []byte }

// keepBuffer is the largest buffer that is kept for later calls.
const keepBuffer = 64 << 10

// NewCache returns an empty typed cache with the codecs c. It must be closed. A
// type without a default codec needs one: otherwise the error is ErrConfig.
func NewCache[K comparable, V any](o Options, c Codecs[K, V]) (*Cache[K, V], error) {
	var faults []error
	if c.Key == nil {
		c.Key = defaultCodec[K]()
	}
	if c.Value == nil {
		c.Value = defaultCodec[V]()
	}
	if c.Key == nil {
		faults = append(faults, fmt.Errorf("%w: keys of type %s have no default codec; give Codecs.Key", ErrConfig, reflect.TypeFor[K]()))
	}
	if c.Value == nil {
		faults = append(faults, fmt.Errorf("%w: values of type %s have no default codec; give Codecs.Value, for example JSON", ErrConfig, reflect.TypeFor[V]()))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("local: %w", errors.Join(faults...))
	}
	b, err := New(o)
	if err != nil {
		return nil, err
	}
	return &Cache[K, V]{b: b, key: c.Key, value: c.Value, scratch: sync.Pool{New: func() any { return new(buffers) }}}, nil
}

// Get returns the value of key; ok says whether it is there. An error is one of
// the codecs' only.
func (c *Cache[K, V]) Get(key K) (v V, ok bool, err error) {
	s, err := c.encodeKey(key)
	if err != nil {
		return v, false, err
	}
	defer c.done(s)
	if s.value, ok = c.b.Get(s.value[:0], s.key); !ok {
		return v, false, nil
	}
	if v, err = c.value.Decode(s.value); err != nil {
		return v, false, fmt.Errorf("local: decode the value: %w", err)
	}
	return v, true, nil
}

// Set stores v under key, with a TTL as Bytes.Set takes it. Its errors are those
// of Bytes.Set and of the codecs.
func (c *Cache[K, V]) Set(key K, v V, ttl time.Duration) error {
	s, err := c.encodeKey(key)
	if err != nil {
		return err
	}
	defer c.done(s)
	if s.value, err = c.value.Append(s.value[:0], v); err != nil {
		return fmt.Errorf("local: encode the value: %w", err)
	}
	return c.b.Set(s.key, s.value, ttl)
}

// Delete removes key and says whether it was there. An error is one of the
// codec's only.
func (c *Cache[K, V]) Delete(key K) (bool, error) {
	s, err := c.encodeKey(key)
	if err != nil {
		return false, err
	}
	defer c.done(s)
	return c.b.Delete(s.key), nil
}

// Touch makes key the most recently used, gives it a new TTL and says whether it
// was there. An error is one of the codec's only.
func (c *Cache[K, V]) Touch(key K, ttl time.Duration) (bool, error) {
	s, err := c.encodeKey(key)
	if err != nil {
		return false, err
	}
	defer c.done(s)
	return c.b.Touch(s.key, ttl), nil
}

// encodeKey returns buffers with the encoded key; they go back by done.
func (c *Cache[K, V]) encodeKey(key K) (*buffers, error) {
	s := c.scratch.Get().(*buffers)
	k, err := c.key.Append(s.key[:0], key)
	if err != nil {
		c.scratch.Put(s)
		return nil, fmt.Errorf("local: encode the key: %w", err)
	}
	s.key = k
	return s, nil
}

func (c *Cache[K, V]) done(s *buffers) {
	if cap(s.key) <= keepBuffer && cap(s.value) <= keepBuffer {
		c.scratch.Put(s)
	}
}

// Bytes returns the cache below, which holds the encoded keys and values.
func (c *Cache[K, V]) Bytes() *Bytes { return c.b }

// Clear removes everything.
func (c *Cache[K, V]) Clear() { c.b.Clear() }

// Len is Bytes.Len.
func (c *Cache[K, V]) Len() int { return c.b.Len() }

// Stats is Bytes.Stats.
func (c *Cache[K, V]) Stats() Stats { return c.b.Stats() }

// SetMaxMemory is Bytes.SetMaxMemory.
func (c *Cache[K, V]) SetMaxMemory(n int64) error { return c.b.SetMaxMemory(n) }

// Close is Bytes.Close.
func (c *Cache[K, V]) Close() error { return c.b.Close() }
