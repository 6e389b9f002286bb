// Package bench is a module of its own for benchmarks against other caches, so
// that they never become dependencies of a user. Its commands are hitratio,
// memory, engine and pair; docs/benchmarks.md says how they measure and what they
// found.
package bench
