package node

import (
	"testing"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// BenchmarkExec measures admission and execution without a server.
func BenchmarkExec(b *testing.B) {
	for _, name := range []string{"GET", "SET"} {
		b.Run(name, func(b *testing.B) {
			n := alone(b, nil)
			args := [][]byte{[]byte(name), []byte("key:000000000042"), make([]byte, 64)}
			run(b, n, 2, "SET", string(args[1]), string(args[2]))
			if name == "GET" {
				args = args[:2]
			}
			cmd := command.Lookup(args[0])
			w := resp.Writer{Proto: 2, Buf: make([]byte, 0, 1<<10)}
			s := &fakeSession{}
			b.ReportAllocs()
			for b.Loop() {
				w.Buf = w.Buf[:0]
				n.Exec(s, cmd, args, &w)
			}
		})
	}
}
