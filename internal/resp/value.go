package resp

import (
	"bytes"
	"strconv"
)

// Kind is the type of a reply value.
type Kind uint8

// The kinds of reply values. RESP2's two nulls and RESP3's one are all Null; a
// RESP3 blob error is an Error.
const (
	Null Kind = iota
	SimpleString
	Error
	Integer
	Bulk
	Array
	Map // Elems holds key, value, key, value ...
	Set
	Push
	Double
	Boolean // Int is 0 or 1
	BigNumber
	Verbatim // Str is the text, Format its three-byte format

	// Attribute is a RESP3 attribute. ReplyParser drops attributes, so no
	// Value has this kind; it exists so that every type byte has one.
	Attribute
)

var kindNames = [...]string{"null", "simple string", "error", "integer", "bulk string", "array",
	"map", "set", "push", "double", "boolean", "big number", "verbatim string", "attribute"}

// String returns the name of the kind in words.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind " + strconv.Itoa(int(k))
}

// Value is one reply. Which fields count depends on Kind: Str for texts, errors,
// bulks and big numbers; Int for integers and booleans; Float for doubles;
// Elems for aggregates. Values from a ReplyParser are borrowed: Str until the
// buffer that was parsed changes, Elems until the next call of Next.
type Value struct {
	Kind   Kind
	Format [3]byte
	Str    []byte
	Int    int64
	Float  float64
	Elems  []Value
}

// Clone returns a deep copy that borrows nothing.
func (v Value) Clone() Value {
	v.Str = bytes.Clone(v.Str)
	if v.Elems != nil {
		elems := make([]Value, len(v.Elems))
		for i := range v.Elems {
			elems[i] = v.Elems[i].Clone()
		}
		v.Elems = elems
	}
	return v
}

// IsNull tells whether v is null.
func (v Value) IsNull() bool { return v.Kind == Null }

// Text returns a scalar as text: numbers in decimal, booleans as "true" or
// "false", null and aggregates as "".
func (v Value) Text() string {
	switch v.Kind {
	case Integer:
		return strconv.FormatInt(v.Int, 10)
	case Double:
		return string(AppendDouble(nil, v.Float))
	case Boolean:
		return strconv.FormatBool(v.Int != 0)
	}
	return string(v.Str)
}

// ReplyError is an error reply: the whole text, its code first.
type ReplyError string

// Error returns the text as the server sent it.
func (e ReplyError) Error() string { return string(e) }

// Code returns the first word of the text: "ERR", "MOVED", "WRONGTYPE" ...
func (e ReplyError) Code() string {
	for i := range len(e) {
		if e[i] == ' ' {
			return string(e[:i])
		}
	}
	return string(e)
}

// Err returns an error of type ReplyError, owned by the caller, if v is an error
// reply, and nil otherwise.
func (v Value) Err() error {
	if v.Kind != Error {
		return nil
	}
	return ReplyError(v.Str)
}

// Find returns the value of a key in a Map, or in an Array of key, value, key,
// value (the RESP2 form of a map). The keys compared are texts.
func (v Value) Find(key string) (Value, bool) {
	if v.Kind != Map && v.Kind != Array {
		return Value{}, false
	}
	for i := 0; i+1 < len(v.Elems); i += 2 {
		if string(v.Elems[i].Str) == key {
			return v.Elems[i+1], true
		}
	}
	return Value{}, false
}
