package client

import (
	"fmt"
	"strconv"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

// Value is a reply to Do. The zero Value is null.
type Value struct{ v resp.Value }

// IsNull tells whether the reply is null.
func (v Value) IsNull() bool { return v.v.Kind == resp.Null }

// Bytes returns the bytes of a string reply, nil for everything else. The bytes
// belong to the caller, shared with v.
func (v Value) Bytes() []byte {
	switch v.v.Kind {
	case resp.Bulk, resp.SimpleString, resp.Verbatim, resp.BigNumber:
		return v.v.Str
	}
	return nil
}

// Text returns any scalar as text: numbers in decimal, booleans as "true" or
// "false", null and aggregates as "".
func (v Value) Text() string { return v.v.Text() }

// Int returns an integer or boolean reply, or a string reply that is a decimal
// integer.
func (v Value) Int() (int64, error) {
	switch v.v.Kind {
	case resp.Integer, resp.Boolean:
		return v.v.Int, nil
	case resp.Bulk, resp.SimpleString, resp.BigNumber:
		if n, err := strconv.ParseInt(string(v.v.Str), 10, 64); err == nil {
			return n, nil
		}
		return 0, fmt.Errorf("%w: %.64q", errs.ErrNotInteger, v.v.Str)
	}
	return 0, fmt.Errorf("%w: the reply is a %v", errs.ErrNotInteger, v.v.Kind)
}

// Float returns a number reply, or a string reply that is a decimal number.
func (v Value) Float() (float64, error) {
	switch v.v.Kind {
	case resp.Double:
		return v.v.Float, nil
	case resp.Integer:
		return float64(v.v.Int), nil
	case resp.Bulk, resp.SimpleString:
		if f, err := strconv.ParseFloat(string(v.v.Str), 64); err == nil {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%w: the reply is not a number but a %v", errs.ErrProtocol, v.v.Kind)
}

// Bool returns a boolean reply, an integer other than 0, or the text "OK".
func (v Value) Bool() bool {
	switch v.v.Kind {
	case resp.Boolean, resp.Integer:
		return v.v.Int != 0
	}
	return string(v.v.Str) == "OK"
}

// Array returns the elements of an array or set; of a map, keys and values in
// turn; nil for everything else.
func (v Value) Array() []Value {
	if v.v.Elems == nil {
		return nil
	}
	list := make([]Value, len(v.v.Elems))
	for i, e := range v.v.Elems {
		list[i] = Value{e}
	}
	return list
}

// Map returns a map, or an array of keys and values in turn (the form that
// older servers give), by the text of its keys; nil for everything else.
func (v Value) Map() map[string]Value {
	if v.v.Kind != resp.Map && v.v.Kind != resp.Array || len(v.v.Elems)%2 != 0 {
		return nil
	}
	m := make(map[string]Value, len(v.v.Elems)/2)
	for i := 0; i < len(v.v.Elems); i += 2 {
		m[v.v.Elems[i].Text()] = Value{v.v.Elems[i+1]}
	}
	return m
}

// Err returns a ServerError if the value is an error inside an aggregate (an
// error that is the whole reply is returned by Do), nil otherwise.
func (v Value) Err() error {
	if v.v.Kind != resp.Error {
		return nil
	}
	return serverError(string(v.v.Str))
}

// String is for logs: texts quoted, aggregates in brackets.
func (v Value) String() string {
	switch v.v.Kind {
	case resp.Null:
		return "(null)"
	case resp.Array, resp.Set, resp.Map, resp.Push:
		return fmt.Sprint(v.Array())
	case resp.Bulk, resp.Verbatim:
		return strconv.Quote(string(v.v.Str))
	case resp.Error:
		return "(error) " + string(v.v.Str)
	}
	return v.v.Text()
}
