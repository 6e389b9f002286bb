package local

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func openTyped[K comparable, V any](t testing.TB, c Codecs[K, V]) *Cache[K, V] {
	t.Helper()
	tc, err := NewCache(Options{MaxMemory: 16 << 20}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tc.Close() })
	return tc
}

type (
	userID  int64
	name    string
	payload []byte
	point   struct{ X, Y int }
)

// roundTrip stores every value under itself (as far as it can be a key) and
// under a string.
func roundTrip[T any](t *testing.T, values ...T) {
	t.Helper()
	c := openTyped(t, Codecs[string, T]{})
	for _, v := range values {
		if err := c.Set("k", v, 0); err != nil {
			t.Fatal(err)
		}
		got, ok, err := c.Get("k")
		if !ok || err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%T %v came back as %v, %v, %v", v, v, got, ok, err)
		}
	}
}

func keys[K comparable](t *testing.T, keys ...K) {
	t.Helper()
	c := openTyped(t, Codecs[K, int]{})
	for i, k := range keys {
		if err := c.Set(k, i, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i, k := range keys {
		if got, ok, err := c.Get(k); !ok || err != nil || got != i {
			t.Errorf("key %v: %v, %v, %v; want %d", k, got, ok, err, i)
		}
	}
	if c.Len() != len(keys) {
		t.Errorf("Len = %d, want %d", c.Len(), len(keys))
	}
}

func TestDefaultCodecs(t *testing.T) {
	roundTrip(t, "", "a", strings.Repeat("long ", 1000))
	roundTrip(t, name("named"))
	roundTrip(t, []byte{}, []byte("bytes"))
	roundTrip(t, payload("named"))
	roundTrip(t, 0, 1, -1, math.MaxInt, math.MinInt)
	roundTrip[int8](t, 0, -128, 127)
	roundTrip[int16](t, 0, math.MinInt16, math.MaxInt16)
	roundTrip[int32](t, 0, math.MinInt32, math.MaxInt32)
	roundTrip[int64](t, 0, math.MinInt64, math.MaxInt64)
	roundTrip[userID](t, 0, -7, math.MaxInt64)
	roundTrip[uint](t, 0, 1, math.MaxUint)
	roundTrip[uint8](t, 0, 255)
	roundTrip[uint16](t, 0, math.MaxUint16)
	roundTrip[uint32](t, 0, math.MaxUint32)
	roundTrip[uint64](t, 0, math.MaxUint64)
	roundTrip[uintptr](t, 0, 1<<30)
	roundTrip[float32](t, 0, -1.5, math.MaxFloat32)
	roundTrip(t, 0, -1.5, math.Inf(1), math.Copysign(0, -1))
	roundTrip(t, true, false)
	roundTrip[time.Duration](t, 0, time.Hour)

	keys(t, "", "a", "b")
	keys(t, 0, 1, -1, 64, -64, math.MaxInt, math.MinInt)
	keys[uint64](t, 0, 1, math.MaxUint64)
	keys[userID](t, 0, 1, -1)
	keys(t, 0, 1.5, -1.5)
	keys(t, true, false)
}

func TestDecodeRefuses(t *testing.T) {
	c := openTyped(t, Codecs[string, int8]{})
	for name, b := range map[string][]byte{"nothing": {}, "too great": {0x80, 0x80, 1}, "trailing": {1, 1}, "cut short": {0x80}} {
		if err := c.Bytes().Set([]byte("k"), b, 0); err != nil {
			t.Fatal(err)
		}
		if v, ok, err := c.Get("k"); ok || !errors.Is(err, errEncoding) {
			t.Errorf("%s: %v, %v, %v; want an error", name, v, ok, err)
		}
	}
	for _, b := range [][]byte{{}, {2}, {0, 0}} {
		if _, err := defaultCodec[bool]().Decode(b); !errors.Is(err, errEncoding) {
			t.Errorf("%v is a bool: %v", b, err)
		}
		if _, err := defaultCodec[float64]().Decode(b); !errors.Is(err, errEncoding) {
			t.Errorf("%v is a float64: %v", b, err)
		}
	}
	if _, err := defaultCodec[uint8]().Decode([]byte{0x80, 2}); !errors.Is(err, errEncoding) {
		t.Errorf("256 is a uint8: %v", err)
	}
}

func TestTypesWithoutCodec(t *testing.T) {
	_, err := NewCache(Options{}, Codecs[point, map[string]int]{})
	if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), "point") || !strings.Contains(err.Error(), "map[string]int") {
		t.Fatalf("%v; want ErrConfig that names both types", err)
	}
}

func TestJSON(t *testing.T) {
	c := openTyped(t, Codecs[point, map[string]int]{Key: JSON[point](), Value: JSON[map[string]int]()})
	want := map[string]int{"a": 1}
	if err := c.Set(point{1, 2}, want, 0); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := c.Get(point{1, 2}); !ok || err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("Get = %v, %v, %v", got, ok, err)
	}
	if _, ok, err := c.Get(point{2, 1}); ok || err != nil {
		t.Fatalf("another key: %v, %v", ok, err)
	}
	if ok, err := c.Touch(point{1, 2}, time.Minute); !ok || err != nil {
		t.Fatalf("Touch = %v, %v", ok, err)
	}
	if ok, err := c.Delete(point{1, 2}); !ok || err != nil {
		t.Fatalf("Delete = %v, %v", ok, err)
	}
	if s := c.Stats(); s.Len != 0 || s.Sets != 1 {
		t.Fatalf("%+v", s)
	}
}

var errCodec = errors.New("no encoding today")

type failing struct{}

func (failing) Append(dst []byte, v string) ([]byte, error) { return dst, errCodec }
func (failing) Decode(b []byte) (string, error)             { return "", errCodec }

func TestCodecErrors(t *testing.T) {
	k := openTyped(t, Codecs[string, string]{Key: failing{}})
	_, _, get := k.Get("k")
	_, del := k.Delete("k")
	_, touch := k.Touch("k", 0)
	for name, err := range map[string]error{"get": get, "set": k.Set("k", "v", 0), "delete": del, "touch": touch} {
		if !errors.Is(err, errCodec) {
			t.Errorf("%s: %v, want the codec's error", name, err)
		}
	}
	v := openTyped(t, Codecs[string, string]{Value: failing{}})
	if err := v.Set("k", "v", 0); !errors.Is(err, errCodec) {
		t.Errorf("Set: %v, want the codec's error", err)
	}
	if err := v.Bytes().Set([]byte("k"), nil, 0); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := v.Get("k"); ok || !errors.Is(err, errCodec) {
		t.Errorf("Get: %v, %v, want the codec's error", ok, err)
	}
}

func TestTypedAllocations(t *testing.T) {
	c := openTyped(t, Codecs[int, uint64]{})
	s := openTyped(t, Codecs[string, string]{})
	if err := errors.Join(c.Set(1, 2, 0), s.Set("key", "value", 0)); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]struct {
		want float64
		f    func()
	}{
		"Set int":    {0, func() { _ = c.Set(1, 2, 0) }},
		"Get int":    {0, func() { _, _, _ = c.Get(1) }},
		"Set string": {0, func() { _ = s.Set("key", "value", 0) }},
		"Get string": {1, func() { _, _, _ = s.Get("key") }}, // the string itself
	} {
		if got := testing.AllocsPerRun(1000, b.f); got > b.want {
			t.Errorf("%s allocates %v times, budget %v", name, got, b.want)
		}
	}
}
