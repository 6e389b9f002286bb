package ringcache

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Registrar is a Discovery that can list this node for others. A node that is opened
// with one is listed from before it looks for seeds until it drains or is closed.
type Registrar interface {
	Discovery
	// Register lists addr (host:port) until ctx is done, then takes it back within
	// a few seconds and returns nil. It returns early with an error when the entry
	// is lost or cannot be made; it is called again after a pause. A node serves
	// without it: an error is logged and nothing else.
	Register(ctx context.Context, addr string) error
}

// The pause before Register is called again doubles from the first to the last.
const (
	registerPause    = time.Second
	registerPauseMax = 30 * time.Second
)

// registration keeps a node listed.
type registration struct {
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// register begins to list addr; nil if d is no Registrar.
func register(d Discovery, addr string, log *slog.Logger) *registration {
	r, ok := d.(Registrar)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	reg := &registration{cancel: cancel}
	reg.wg.Go(func() { keepListed(ctx, r, addr, log) }) // ends at end
	return reg
}

func keepListed(ctx context.Context, r Registrar, addr string, log *slog.Logger) {
	for pause := registerPause; ; pause = min(2*pause, registerPauseMax) {
		began := time.Now()
		err := r.Register(ctx, addr)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > registerPauseMax {
			pause = registerPause // it was listed for a while
		}
		log.Warn("this node is not listed in the discovery; members are not affected, nodes that start may not find it",
			"addr", addr, "error", err, "again_in", pause.String())
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// end takes the entry back and waits for that. It may be called more than once, and
// on nil.
func (r *registration) end() {
	if r != nil {
		r.cancel()
		r.wg.Wait()
	}
}
