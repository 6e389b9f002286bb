package node

import (
	"runtime/metrics"
	"time"
)

// One limit for the process: what sessions hold, and in a process of its own
// whatever the Go runtime holds, takes memory from the entries when it is more
// than what every process is granted beside the limit.
const (
	// memoryEvery is how often memory beside the entries is looked at.
	memoryEvery = 100 * time.Millisecond
	// memoryStep is what changes of it are rounded up to, and memoryHold how
	// many looks it must stay lower before entries get memory back: a heap
	// grows and shrinks with every collection, which should evict nothing.
	memoryStep = 1 << 20
	memoryHold = 100
	// sessionGrant and RuntimeGrant are the bytes beside the limit, of session
	// buffers and of the whole Go runtime. With the program itself, about 16 MiB,
	// the process stays within 48 MiB of its limit.
	sessionGrant = 16 << 20
	RuntimeGrant = 28 << 20
)

// outside smooths what the process holds beside the entries.
type outside struct {
	applied int64
	most    int64 // since it was above applied the last time
	looks   int
}

// look takes a new figure and returns what should apply from now on: a greater
// one at once, a smaller one after it lasted.
func (o *outside) look(now int64) int64 {
	now = (max(now, 0) + memoryStep - 1) / memoryStep * memoryStep
	if now >= o.applied {
		o.applied, o.most, o.looks = now, 0, 0
		return now
	}
	o.most = max(o.most, now)
	if o.looks++; o.looks >= memoryHold {
		o.applied, o.most, o.looks = o.most, 0, 0
	}
	return o.applied
}

// memoryLoop takes memory from the entries for what else the process holds. It
// ends with n.ctx.
func (n *Node) memoryLoop() {
	t := time.NewTicker(memoryEvery)
	defer t.Stop()
	var o outside
	for {
		select {
		case <-t.C:
			// What is refused after Close concerns nobody.
			_ = n.eng.SetOutside(o.look(n.beside()))
		case <-n.ctx.Done():
			return
		}
	}
}

// beside is how many bytes more than granted the process holds beside the
// entries.
func (n *Node) beside() int64 {
	if n.o.WholeProcess {
		return runtimeBytes() - RuntimeGrant
	}
	return n.frontStats().BufferBytes - sessionGrant
}

// runtimeBytes is what the Go runtime holds of the system's memory: heap, stacks
// and its own tables. The arena of the entries is not part of it.
func runtimeBytes() int64 {
	s := [...]metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s[:])
	for i := range s {
		if s[i].Value.Kind() != metrics.KindUint64 {
			return 0
		}
	}
	return int64(s[0].Value.Uint64()) - int64(s[1].Value.Uint64())
}
