package ringcache

import "github.com/ringcache/ringcache/internal/errs"

// The errors that calls return, for errors.Is. They are the same values as in
// package client.
var (
	// ErrNotFound: the key is not in the cache; its owner answered.
	ErrNotFound = errs.ErrNotFound
	// ErrUnavailable: the owner could not be reached or does not serve.
	ErrUnavailable = errs.ErrUnavailable
	// ErrTimeout: the deadline passed; always together with ErrUnavailable.
	ErrTimeout = errs.ErrTimeout
	// ErrShed: a local limit refused the call before anything was sent.
	ErrShed = errs.ErrShed
	// ErrTooLarge: a key or value is above its limit.
	ErrTooLarge = errs.ErrTooLarge
	// ErrNoMemory: memory is full and the policy is noeviction.
	ErrNoMemory = errs.ErrNoMemory
	// ErrNotInteger: the value of a counter is no 64-bit integer.
	ErrNotInteger = errs.ErrNotInteger
	// ErrClosed: the node was closed.
	ErrClosed = errs.ErrClosed
	// ErrAuth: a password or the cluster secret was refused.
	ErrAuth = errs.ErrAuth
	// ErrMismatch: nodes differ in protocol, cluster name or ring parameters.
	ErrMismatch = errs.ErrMismatch
	// ErrNoSeed: none of the seeds answered.
	ErrNoSeed = errs.ErrNoSeed
	// ErrConfig: the options are invalid; the message lists every fault.
	ErrConfig = errs.ErrConfig
)
