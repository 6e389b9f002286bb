// Package handoff makes the targets of a View true: it decides when a node may
// serve a slot that it gained.
//
// It owns the barrier (RELEASE): a node sets the serving bit of a gained slot
// only after every other live member of its View has agreed, and a member
// agrees only after it has cleared its own bit. Barrier is the pure state
// machine, Runner sends its questions and serialises everything that sets or
// clears serving bits. DESIGN.md holds the proof that two connected nodes never
// serve one slot.
//
// It never decides who is alive or where a slot belongs, never blocks in an
// answer, and never holds a lock over I/O.
//
// Concurrency: Barrier is not safe for concurrent use. Runner is; its mutex is
// the node's one writer lock for serving bits. The lock order is Runner, then
// engine shard; code that holds a shard lock never calls a Runner.
package handoff
