// Package register is the consistency checker of drills: what a cache may
// answer, held against what was written to it. Its model is a register that may
// forget: that a key is absent is always legal; a value is legal only if it was
// written under that key, is whole, is not older than a write or delete that was
// acknowledged before the read began, and has not outlived its time to live. A
// write that was sent and not acknowledged may have happened, or may happen
// later: its value stays legal.
//
// It owns the format of the values, the registers, the counters, the verdicts and
// the windows in which an old value is counted instead of condemned (a crash, a
// partition). It never talks to a cache, never reads a clock and never starts a
// goroutine: every instant is handed in, as a duration since the run began.
//
// Concurrency: a Checker is safe for concurrent use. The writes of one key follow
// each other (Begin refuses a second one meanwhile); reads run beside them.
package register
