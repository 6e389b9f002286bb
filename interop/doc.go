// Package interop holds the tests that drive real ring-cache processes with
// unmodified Redis clients: go-redis, rueidis, ioredis, redis-py, redis-cli and
// redis-benchmark.
// It is a module of its own so that their dependencies never reach a user of
// ring-cache; it talks to the server over sockets only and imports nothing of it.
package interop
