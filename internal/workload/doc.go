// Package workload drives a cache the way applications do: it owns the readers
// of real access traces, the synthetic generators, the latency histogram and
// the cache-aside replay behind `ringcache replay` and `ringcache dev --demo`.
//
// It reaches a cache through small interfaces that it declares (Cache, Fleet)
// or through the public client; it never starts a node and never imports one,
// so that every figure it prints crossed a real socket. All randomness comes
// from a seed that the caller gives.
//
// Concurrency: a Source, a Zipf and a Histogram belong to one goroutine; Replay
// gives each worker its own histogram and merges them at the end of a phase.
package workload
