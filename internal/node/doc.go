// Package node is one node of the cluster: it wires engine, exec, membership,
// handoff and link, executes commands and answers what concerns the cluster.
//
// It owns the View of this node (there is exactly one writer), the admission of
// a request (slot, serving bit, MOVED, forwarding, waiting) and the internal
// commands between peers. It never listens, never reads or writes a session's
// bytes and never imports the server: whoever drives it calls Exec.
//
// Concurrency: Exec and the embedded calls may run on any goroutine. The View
// with everything derived from it is an immutable value behind an atomic
// pointer; viewLoop is the only goroutine that replaces it. Engine locks are
// held for one command and never over I/O. DESIGN.md tells more.
package node
