package engine

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// TestAttachDamagedAnywhere: wherever a file is damaged or cut, the start is empty
// and says why, or nothing that matters was there and all entries are right.
func TestAttachDamagedAnywhere(t *testing.T) {
	for where, dir := range fileDirs(t) {
		path := filepath.Join(dir, "arena")
		c := newClock()
		o := Options{Now: c.now, MaxBytes: 512 << 10, Shards: 2}
		e := reopen(t, path, o)
		all := fillFile(t, e, c, 1000)
		mustClose(t, e)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var h fileHeader
		if err := h.decode(good); err != nil {
			t.Fatal(err)
		}
		end := int(h.place + h.length)
		r := rand.New(rand.NewPCG(7, 7))
		whole, files := 0, 60
		if raceEnabled {
			files = 16
		}
		for i := range files {
			b := bytes.Clone(good)
			at := []int{r.IntN(headLen), headLen + r.IntN(fileHead-headLen), fileHead + r.IntN(int(h.place)-fileHead), int(h.place) + r.IntN(int(h.length))}[i%4]
			if i%8 == 3 { // seed and counts, of which any value could be right
				at = int(h.place) + r.IntN(30)
			}
			if i%3 == 0 {
				b = b[:at]
			} else {
				for j := at; j < min(at+1+i%9, end); j++ {
					b[j] ^= byte(1 + r.IntN(255))
				}
			}
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			e, err := New(Options{Now: c.now, MaxBytes: o.MaxBytes, Shards: o.Shards, File: path, NoBackground: true})
			if errors.Is(err, errs.ErrConfig) && at < 16 {
				continue // it is no arena's file any more
			}
			if err != nil {
				t.Fatalf("%s: byte %d: %v", where, at, err)
			}
			for slot := range Slots {
				e.SetServing(uint16(slot), true)
			}
			if a := e.Attachment(); a.Empty == "" {
				whole++
				holds(t, e, all, c.now())
			} else if a.Entries != 0 || e.Stats().Keys != 0 || a.Fresh && at > 0 {
				t.Errorf("%s: byte %d: %+v, %d keys", where, at, a, e.Stats().Keys)
			}
			mustClose(t, e)
		}
		if whole == 0 || whole > files/3 {
			t.Errorf("%s: %d of %d were taken over, want those damaged behind the head only", where, whole, files)
		}
	}
}

// TestSecondCloseWaitsForTheFirst: whoever closes too may end the process when its
// Close returns, and the entries must be in the file by then.
func TestSecondCloseWaitsForTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "arena")
	e := reopen(t, path, Options{Now: newClock().now, MaxBytes: 64 << 20})
	for i := range scale(20_000) {
		mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 500), 0)
	}
	tx := e.LockAny(3) // the first Close waits for it
	var both sync.WaitGroup
	both.Go(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	for !e.closed.Load() {
		runtime.Gosched()
	}
	both.Go(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		b, err := os.ReadFile(path)
		var h fileHeader
		if err = errors.Join(err, h.decode(b)); err != nil || h.state != stateClean {
			t.Errorf("the file is in state %d, %v", h.state, err)
		}
	})
	for range 100 {
		runtime.Gosched()
	}
	tx.Unlock()
	both.Wait()
}

// TestLimitOfAClosedEngine: what was left to a file is not evicted any more, so nobody
// may wait for that, whether Close comes before the limit is lowered or meanwhile.
func TestLimitOfAClosedEngine(t *testing.T) {
	for where, dir := range fileDirs(t) {
		rounds := 6
		if raceEnabled {
			rounds = 2
		}
		for round := range rounds {
			path := filepath.Join(dir, "arena")
			e := reopen(t, path, Options{Now: newClock().now, MaxBytes: 16 << 20, Shards: 4})
			for i := range scale(20_000) {
				mustSet(t, e, slotFor(i), keyFor(i), make([]byte, 500), 0)
			}
			ended := make(chan error, 1)
			lower := func() { // ends with the engine
				var err error
				for i := range 1000 {
					if err = e.SetMaxBytes(int64(1+i%8) << 20); errors.Is(err, errs.ErrClosed) {
						break
					}
				}
				ended <- err
			}
			if round%2 == 0 {
				mustClose(t, e)
				go lower()
			} else {
				go lower()
				mustClose(t, e)
			}
			select {
			case err := <-ended:
				if err != nil && !errors.Is(err, errs.ErrClosed) && !errors.Is(err, errs.ErrConfig) {
					t.Errorf("%s: %v", where, err)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s: round %d: a limit is waited for that will never be reached", where, round)
			}
			again := reopen(t, path, Options{Now: newClock().now, MaxBytes: 16 << 20, Shards: 4})
			if a := again.Attachment(); a.Empty != "" {
				t.Errorf("%s: the entries are lost: %s", where, a.Empty)
			}
			verifyAll(t, again)
			mustClose(t, again)
			if err := e.SetPolicy("lru"); err != nil {
				t.Errorf("%s: %v", where, err)
			}
			if err := e.SetMaxBytes(1 << 20); !errors.Is(err, errs.ErrClosed) {
				t.Errorf("%s: after Close: %v", where, err)
			}
		}
	}
}
