// Package drill runs scenarios on clusters of real processes: a node joins, leaves,
// is killed, frozen or cut off while applications read, write and delete through
// it, beside a second cluster that gets the same requests and no fault. It owns
// the processes, the faulty network between them, the load, the bins and the
// report; whether an answer was legal decides internal/register.
//
// It reaches a cache through Driver only, over sockets; it never imports a node
// and never shares memory with one. All choices come from the seed; what the
// scheduler and the network do does not.
//
// Concurrency: Run starts workers for both sides and one goroutine for the
// script of faults, and returns when all have ended and all processes are reaped.
// A process dies with the drill, whatever ends it (Linux).
package drill
