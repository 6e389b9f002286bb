package server

import (
	"sync"

	"github.com/ringcache/ringcache/internal/resp"
)

// previewKeys is how many keys are shown to the Handler at once, and so how many
// waits for memory may overlap.
const previewKeys = 16

// Previewer is a Handler that makes use of the keys of commands that it is about to
// get, such as by bringing what they name into the processor's caches. keys is
// a guess, borrowed for the call.
type Previewer interface {
	Preview(keys [][]byte)
}

// preview shows the Handler the keys of the commands at the start of in, and
// returns how many bytes they take.
func (s *Server) preview(in []byte) int {
	keys := s.previews.Get().(*[]([]byte))
	found, n := resp.Ahead((*keys)[:0], in)
	if len(found) > 1 {
		s.previewer.Preview(found)
	}
	clear(found)
	s.previews.Put(keys)
	return n
}

// newPreviews makes the pool of lists that preview fills.
func newPreviews() *sync.Pool {
	return &sync.Pool{New: func() any {
		keys := make([][]byte, 0, previewKeys)
		return &keys
	}}
}
