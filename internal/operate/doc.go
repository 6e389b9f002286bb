// Package operate owns what an operator asks of a cluster: the replies of the
// command RING as values, their form on the wire, and a client that asks any
// member, waits for a state of the cluster and follows its events.
//
// It never decides anything about the cluster and stores nothing: nodes fill the
// values in and this package carries them.
//
// Values are plain data. A Client is for one goroutine at a time and starts none
// of its own; Close ends its connection.
package operate
