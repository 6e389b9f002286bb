// Package child owns the processes that a program starts for a time, as a drill and a
// replay do: starting one and waiting until its port answers, signals, what it has
// printed, and that none is left when the program ends, in whatever way. It never
// starts a process again, and does not know what they are for.
//
// A Group is safe for concurrent use, and so is a Process. Each process has one
// goroutine, which waits for its end and ends with it.
package child
