package clustertest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
)

// TestProgramAroundAnAwayNode: a and b have taken the slots of c over while its process
// stood still, and have newer values. The program around c, whose calls have deadlines
// shorter than what c needs to find that out, gets errors in time, and neither an old
// value nor the word that a write was done.
func TestProgramAroundAnAwayNode(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		c := NewClocks()
		s.Clock = c.Of
		s.Add("a", "a")
		s.Add("b", "a")
		s.Add("c", "a")
		pass(10 * time.Second) // joins come in steps
		s.Settled(watched()...)
		key := keyOf(placedAt(t, s, "c"))
		n := s.Get("c").Node
		if err := n.Set(t.Context(), key, []byte("old"), 0); err != nil {
			t.Fatal(err)
		}
		s.Rumours.Deaf(s.ID("c"), true)
		for _, at := range []string{"a", "b"} {
			s.Rumours.Bury(s.ID(at), s.ID("c"))
		}
		pass(20 * time.Millisecond)
		if v, path := s.Follow(2, "a", "SET", key, "new"); v.Text() != "OK" {
			t.Fatalf("%v: %q", path, v.Text())
		}
		s.Net.Block("a", "c", true) // answers take longer than the calls
		s.Net.Block("b", "c", true)
		c.Away("c", 20*time.Second)
		const deadline = 50 * time.Millisecond
		for name, call := range map[string]func(ctx context.Context) error{
			"Get": func(ctx context.Context) error {
				v, err := n.Get(ctx, key)
				if err == nil {
					t.Errorf("Get gives %q", v)
				}
				return err
			},
			"GetMany": func(ctx context.Context) error {
				all, err := n.GetMany(ctx, key)
				if len(all) > 0 {
					t.Errorf("GetMany gives %q", all[key])
				}
				return err
			},
			"Set":    func(ctx context.Context) error { return n.Set(ctx, key, []byte("lost"), 0) },
			"Delete": func(ctx context.Context) error { _, err := n.Delete(ctx, key); return err },
			"Incr":   func(ctx context.Context) error { _, err := n.Incr(ctx, key, 1); return err },
			"Touch":  func(ctx context.Context) error { return n.Touch(ctx, key, time.Minute) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			start := time.Now()
			err := call(ctx)
			cancel()
			if took := time.Since(start); !errors.Is(err, errs.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || took > deadline+time.Millisecond {
				t.Errorf("%s: %v after %v", name, err, took)
			}
		}
		s.Net.Block("a", "c", false)
		s.Net.Block("b", "c", false)
		pass(4 * time.Second)
		s.Rumours.Deaf(s.ID("c"), false)
		for _, at := range []string{"a", "b"} {
			s.Rumours.Tell(s.ID(at), s.ID("c"))
		}
		s.Settled(watched()...)
		if v, err := n.Get(t.Context(), key); err != nil || string(v) != "new" {
			t.Errorf("at last %q, %v", v, err)
		}
	})
}
