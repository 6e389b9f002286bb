// Package workload drives a cache the way applications do: it owns the readers
// of real access traces, the synthetic generators, the latency histogram,
// the cache-aside replay behind `ringcache replay` and `ringcache dev --demo`, and
// the open-loop load behind `ringcache bench`.
//
// It reaches a cache through small interfaces that it declares (Cache, Fleet),
// through the public client or, for a load, by RESP over connections of its own; it never starts a node and never imports one,
// so that every figure it prints crossed a real socket. All randomness comes
// from a seed that the caller gives.
//
// Concurrency: a Source, a Zipf and a Histogram belong to one goroutine; Replay
// gives each worker its own histogram and merges them at the end of a phase, Load each
// connection. In a load one goroutine makes the requests when they are due and one per
// connection reads the replies; who finds a connection free for a request that
// waits writes it.
package workload
