// Package errs owns every sentinel error of ring-cache, each defined once. The
// public packages (the root package and client) alias the same values, so
// errors.Is gives one answer at every layer. It never imports anything and
// never formats: whoever returns a sentinel wraps it with what happened, the
// limit and what to do.
package errs

import "errors"

var (
	// ErrNotFound says that the key is not in the cache; the owner answered.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable says that the owner of the key could not be reached or
	// does not serve at the moment. It is never used for an absent key.
	ErrUnavailable = errors.New("unavailable")
	// ErrTimeout says that the deadline of the call passed before the answer
	// came. It always comes together with ErrUnavailable.
	ErrTimeout = errors.New("deadline exceeded")
	// ErrShed says that a local limit (queue, connection or retry budget)
	// refused the call before anything was sent.
	ErrShed = errors.New("shed by a local limit")
	// ErrTooLarge says that a key or value is above its limit.
	ErrTooLarge = errors.New("too large")
	// ErrNoMemory says that the memory limit is reached and the policy is
	// noeviction.
	ErrNoMemory = errors.New("out of memory")
	// ErrNotInteger says that a counter command met a value that is no 64-bit
	// integer, or that the result would overflow.
	ErrNotInteger = errors.New("value is not an integer or out of range")
	// ErrNotServing says that this node may not serve the slot at the moment.
	ErrNotServing = errors.New("slot is not served here")
	// ErrClosed says that the node, client or connection was closed by its user.
	ErrClosed = errors.New("closed")
	// ErrAuth says that a password or the cluster secret was refused.
	ErrAuth = errors.New("authentication failed")
	// ErrMismatch says that two nodes differ in what every member of a cluster
	// must share: protocol, cluster name or ring parameters.
	ErrMismatch = errors.New("cluster mismatch")
	// ErrOtherNode says that another node, or another incarnation of the same
	// node, answers at the address: the wanted one is no longer there.
	ErrOtherNode = errors.New("another node answers at this address")
	// ErrNoSeed says that none of the given seeds answered.
	ErrNoSeed = errors.New("no seed reachable")
	// ErrProtocol says that a peer sent bytes that are not valid RESP.
	ErrProtocol = errors.New("protocol error")
	// ErrConfig says that options or configuration are invalid.
	ErrConfig = errors.New("invalid configuration")
)
