package local

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"unsafe"
)

// Codec turns values of T into bytes and back. Its methods may be called by many
// goroutines at once. As the codec of keys, equal keys must give equal bytes and
// different keys different bytes.
type Codec[T any] interface {
	// Append appends the encoding of v to dst and returns it.
	Append(dst []byte, v T) ([]byte, error)
	// Decode returns the value that b encodes. b is borrowed until Decode
	// returns: what it returns must not point into it.
	Decode(b []byte) (T, error)
}

// JSON returns a codec by encoding/json: for values whose encoding is not worth
// writing by hand.
func JSON[T any]() Codec[T] { return jsonCodec[T]{} }

type jsonCodec[T any] struct{}

func (jsonCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(dst, b...), err
}

func (jsonCodec[T]) Decode(b []byte) (v T, err error) {
	err = json.Unmarshal(b, &v)
	return v, err
}

// defaultCodec returns the codec of a T that is a string, a []byte, an integer,
// a float or a bool, or a named type of one of these; otherwise nil.
func defaultCodec[T any]() Codec[T] {
	t := reflect.TypeFor[T]()
	switch k := t.Kind(); k {
	case reflect.String:
		return stringCodec[T]{}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return bytesCodec[T]{}
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return numberCodec[T]{k}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return numberCodec[T]{k}
	case reflect.Float32, reflect.Float64, reflect.Bool:
		return numberCodec[T]{k}
	}
	return nil
}

// The codecs below look at a T through a pointer of its kind's basic type. That
// is sound because defaultCodec chose them by the kind, and types of one kind
// have one layout.
func as[B, T any](v *T) *B { return (*B)(unsafe.Pointer(v)) }

type stringCodec[T any] struct{}

func (stringCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	return append(dst, *as[string](&v)...), nil
}

func (stringCodec[T]) Decode(b []byte) (v T, err error) {
	*as[string](&v) = string(b)
	return v, nil
}

type bytesCodec[T any] struct{}

func (bytesCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	return append(dst, *as[[]byte](&v)...), nil
}

func (bytesCodec[T]) Decode(b []byte) (v T, err error) {
	*as[[]byte](&v) = append([]byte{}, b...)
	return v, nil
}

// numberCodec writes integers as varints, zigzag for the signed ones, so that a
// small one takes a byte; floats as their bits, a bool as 0 or 1.
type numberCodec[T any] struct{ kind reflect.Kind }

func (c numberCodec[T]) Append(dst []byte, v T) ([]byte, error) {
	switch c.kind {
	case reflect.Int:
		return binary.AppendVarint(dst, int64(*as[int](&v))), nil
	case reflect.Int8:
		return binary.AppendVarint(dst, int64(*as[int8](&v))), nil
	case reflect.Int16:
		return binary.AppendVarint(dst, int64(*as[int16](&v))), nil
	case reflect.Int32:
		return binary.AppendVarint(dst, int64(*as[int32](&v))), nil
	case reflect.Int64:
		return binary.AppendVarint(dst, *as[int64](&v)), nil
	case reflect.Float32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(*as[float32](&v))), nil
	case reflect.Float64:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(*as[float64](&v))), nil
	case reflect.Bool:
		if *as[bool](&v) {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	}
	return binary.AppendUvarint(dst, c.unsigned(&v)), nil
}

func (c numberCodec[T]) unsigned(v *T) uint64 {
	switch c.kind {
	case reflect.Uint:
		return uint64(*as[uint](v))
	case reflect.Uint8:
		return uint64(*as[uint8](v))
	case reflect.Uint16:
		return uint64(*as[uint16](v))
	case reflect.Uint32:
		return uint64(*as[uint32](v))
	case reflect.Uintptr:
		return uint64(*as[uintptr](v))
	}
	return *as[uint64](v)
}

// errEncoding says that bytes are no encoding of the type that is asked for.
var errEncoding = errors.New("not an encoding of this type")

func (c numberCodec[T]) Decode(b []byte) (v T, err error) {
	ok := true
	switch c.kind {
	case reflect.Float32:
		if ok = len(b) == 4; ok {
			*as[float32](&v) = math.Float32frombits(binary.LittleEndian.Uint32(b))
		}
	case reflect.Float64:
		if ok = len(b) == 8; ok {
			*as[float64](&v) = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
	case reflect.Bool:
		if ok = len(b) == 1 && b[0] <= 1; ok {
			*as[bool](&v) = b[0] == 1
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, size := binary.Varint(b)
		ok = size == len(b) && size > 0 && c.setSigned(&v, n)
	default:
		n, size := binary.Uvarint(b)
		ok = size == len(b) && size > 0 && c.setUnsigned(&v, n)
	}
	if !ok {
		return v, fmt.Errorf("local: %d bytes as %s: %w", len(b), reflect.TypeFor[T](), errEncoding)
	}
	return v, nil
}

// setSigned stores n and says whether the type holds it.
func (c numberCodec[T]) setSigned(v *T, n int64) bool {
	switch c.kind {
	case reflect.Int:
		*as[int](v) = int(n)
		return int64(int(n)) == n
	case reflect.Int8:
		*as[int8](v) = int8(n)
		return int64(int8(n)) == n
	case reflect.Int16:
		*as[int16](v) = int16(n)
		return int64(int16(n)) == n
	case reflect.Int32:
		*as[int32](v) = int32(n)
		return int64(int32(n)) == n
	}
	*as[int64](v) = n
	return true
}

// setUnsigned stores n and says whether the type holds it.
func (c numberCodec[T]) setUnsigned(v *T, n uint64) bool {
	switch c.kind {
	case reflect.Uint:
		*as[uint](v) = uint(n)
	case reflect.Uint8:
		*as[uint8](v) = uint8(n)
	case reflect.Uint16:
		*as[uint16](v) = uint16(n)
	case reflect.Uint32:
		*as[uint32](v) = uint32(n)
	case reflect.Uintptr:
		*as[uintptr](v) = uintptr(n)
	default:
		*as[uint64](v) = n
	}
	return c.unsigned(v) == n
}
