package drill

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// deafDriver answers no write until a time, each after the deadline of a call.
type deafDriver struct {
	Driver
	until  time.Time
	stored atomic.Int64
	calls  atomic.Int64
}

func (d *deafDriver) Set(ctx context.Context, _ string, _ []byte, _ time.Duration) error {
	d.calls.Add(1)
	if time.Now().Before(d.until) {
		t := time.NewTimer(100 * time.Millisecond)
		defer t.Stop()
		select {
		case <-t.C:
			return errors.New("no answer within the deadline")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	d.stored.Add(1)
	return nil
}

// Keys are stored although the machine is too busy to answer for seconds; a cluster
// that answers nothing ends the drill soon.
func TestPreloadIsPatient(t *testing.T) {
	for _, tc := range []struct {
		deaf, least, most time.Duration
		fails             bool
	}{
		{0, 0, 0, false},
		{8 * time.Second, 8 * time.Second, 9 * time.Second, false},
		{time.Hour, preloadPatience, preloadPatience + time.Second, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			o := Options{Binary: "none", Keys: 500}
			if err := o.setDefaults(); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			d := &deafDriver{until: began.Add(tc.deaf)}
			s := newSide(&o, nil, began, time.Second)
			s.clients.Store(&[]Driver{d})
			err := s.preload(t.Context(), o.Keys, func() {}, s.set)
			took := time.Since(began)
			if (err != nil) != tc.fails || took < tc.least || took > tc.most {
				t.Errorf("deaf for %v: %v after %v", tc.deaf, err, took)
			}
			if tc.fails {
				if !strings.Contains(err.Error(), "storing the keys: no answer within the deadline") {
					t.Error(err)
				}
				// Each caller gives way: without, it would be 100 calls in ten seconds.
				if n := d.calls.Load(); n > 64*30 {
					t.Errorf("%d calls", n)
				}
				return
			}
			if n := d.stored.Load(); n != 500 {
				t.Errorf("%d of 500 keys are stored", n)
			}
			if s.overdue.Load() != 0 || s.longest.Load() != 0 {
				t.Error("calls before the load count as its own")
			}
		})
	}
}
