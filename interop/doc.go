// Package interop holds the tests that drive real ring-cache processes with
// unmodified Redis clients: go-redis, rueidis, ioredis, redis-py, redis-cli and
// redis-benchmark.
// It is a module of its own so that their dependencies never reach a user of
// ring-cache. It talks to the server over sockets only; of the main module it
// imports internal/drill, whose checker and scenarios the stock clients drive too, and
// internal/child, which finds free ports.
package interop
