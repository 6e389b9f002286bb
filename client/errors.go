package client

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
)

// The errors of this package, for errors.Is.
var (
	// ErrNotFound: the owner answered that the key is absent.
	ErrNotFound = errs.ErrNotFound
	// ErrUnavailable: the owner could not be reached or does not serve now.
	ErrUnavailable = errs.ErrUnavailable
	// ErrTimeout: the deadline passed. It comes together with ErrUnavailable.
	ErrTimeout = errs.ErrTimeout
	// ErrShed: a local limit refused the call before anything was sent.
	ErrShed = errs.ErrShed
	// ErrTooLarge: the server refused the size of a key or value.
	ErrTooLarge = errs.ErrTooLarge
	// ErrNoMemory: the server is full and does not evict.
	ErrNoMemory = errs.ErrNoMemory
	// ErrNotInteger: Incr met a value that is no 64-bit integer, or the sum
	// would overflow.
	ErrNotInteger = errs.ErrNotInteger
	// ErrClosed: the client was closed.
	ErrClosed = errs.ErrClosed
	// ErrAuth: the server refused the password, or the user lacks a right.
	ErrAuth = errs.ErrAuth
	// ErrNoSeed: Open found no seed that answers.
	ErrNoSeed = errs.ErrNoSeed
	// ErrProtocol: the server sent something else than a valid reply.
	ErrProtocol = errs.ErrProtocol
	// ErrConfig: an option or argument is invalid.
	ErrConfig = errs.ErrConfig
)

// ServerError is an error reply as the server sent it, for errors.As. Its first
// word is the code: "ERR", "WRONGTYPE", "OOM" ...
type ServerError string

// Error returns the server's text.
func (e ServerError) Error() string { return string(e) }

// Code returns the first word of the text.
func (e ServerError) Code() string {
	code, _, _ := strings.Cut(string(e), " ")
	return code
}

// OpError says which operation failed, on which key and at which node. Every
// failure but ErrNotFound comes as an *OpError (from GetMany, SetMany and Del
// of several keys, inside a *BatchError).
type OpError struct {
	Op   string // the command, such as "GET"
	Key  string // the key, empty if the command has none
	Node string // the address that failed or answered, empty if none was reached
	Err  error
}

// maxKeyInError cuts long keys in messages, in bytes.
const maxKeyInError = 64

// Error names operation, key (cut to 64 bytes), node and cause.
func (e *OpError) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Key != "" {
		key := e.Key
		if len(key) > maxKeyInError {
			key = key[:maxKeyInError] + "..."
		}
		b.WriteString(" " + strconv.Quote(key))
	}
	if e.Node != "" {
		b.WriteString(" at " + e.Node)
	}
	return b.String() + ": " + strings.TrimPrefix(e.Err.Error(), e.Node+": ")
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// BatchError says which keys of an operation on many keys failed. errors.Is and
// errors.As look through all of them.
type BatchError struct {
	Op     string
	Total  int              // keys of the operation, each counted once
	Failed map[string]error // by key
}

// Error gives counts and the first failure in key order.
func (e *BatchError) Error() string {
	first := ""
	for k := range e.Failed {
		if first == "" || k < first {
			first = k
		}
	}
	return fmt.Sprintf("%s: %d of %d keys failed; the first: %v", e.Op, len(e.Failed), e.Total, e.Failed[first])
}

// Unwrap returns the failures in key order.
func (e *BatchError) Unwrap() []error {
	keys := make([]string, 0, len(e.Failed))
	for k := range e.Failed {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	list := make([]error, len(keys))
	for i, k := range keys {
		list[i] = e.Failed[k]
	}
	return list
}

// failure turns a result that is no success into an error.
func failure(op, key string, res *link.Result) error {
	err := res.Err
	switch {
	case err != nil:
	case res.Value.Kind == resp.Error:
		err = serverError(string(res.Value.Str))
	default:
		err = fmt.Errorf("%w: the reply is a %v", errs.ErrProtocol, res.Value.Kind)
	}
	return &OpError{Op: op, Key: key, Node: res.Addr, Err: err}
}

// invalid is an error about an argument; nothing was sent.
func invalid(op, key, format string, a ...any) error {
	return &OpError{Op: op, Key: key, Err: fmt.Errorf("%w: "+format, append([]any{errs.ErrConfig}, a...)...)}
}

// serverError gives an error reply the sentinel that it means, if any.
func serverError(text string) error {
	e := ServerError(text)
	sentinel := error(nil)
	switch e.Code() {
	case "RCTOOLARGE":
		sentinel = errs.ErrTooLarge
	case "OOM":
		sentinel = errs.ErrNoMemory
	case "NOAUTH", "NOPERM", "WRONGPASS":
		sentinel = errs.ErrAuth
	case "RCNOTSERVING", "RCBUSY", "CLUSTERDOWN", "MASTERDOWN", "LOADING", "TRYAGAIN":
		sentinel = errs.ErrUnavailable
	case "ERR":
		switch {
		case strings.Contains(text, "not an integer or out of range"), strings.Contains(text, "would overflow"):
			sentinel = errs.ErrNotInteger
		case strings.Contains(text, "exceeds maximum allowed size"):
			sentinel = errs.ErrTooLarge
		}
	}
	if sentinel == nil {
		return e
	}
	return fmt.Errorf("%w: %w", sentinel, e)
}
