package handoff

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClockSetBackOverARestart: an owner has restarted, and its clock was set back
// meanwhile, so that its boot is earlier than that of its process before. It is the one
// that all Views name by now, and its copies are taken.
func TestClockSetBackOverARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamTest(t, StreamOptions{})
		defer s.close()
		before := Peer{s.owner.ID, s.owner.Boot + 8}
		if _, err := s.receiver.Take(before, &CopyBatch{Stream: 1, Number: 1}); err != nil {
			t.Fatal(err)
		}
		if err := s.from.Set(7, []byte("k"), []byte("v"), 0); err != nil {
			t.Fatal(err)
		}
		s.plan()
		s.wait(1)
		if !hasKey(s.to, 7, "k") {
			t.Error("there is no copy of k")
		}
	})
}

// TestRefusedStreamRests: a receiver takes nothing of a stream, not even its beginning.
// The owner asks again, a few times a second.
func TestRefusedStreamRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamTest(t, StreamOptions{})
		defer s.close()
		s.setFault(func(*CopyBatch) (error, error) {
			<-time.After(100 * time.Microsecond)
			return &GapError{1}, nil
		})
		s.plan()
		<-time.After(10 * time.Second)
		s.mu.Lock()
		calls := s.calls
		s.mu.Unlock()
		if calls < 10 || calls > 100 {
			t.Errorf("%d calls in 10 s", calls)
		}
		s.setFault(nil)
		s.wait(1)
	})
}

// TestRefusedCopiesGo: a slot whose copies were to begin anew, and could not, has none:
// those from before are not kept up to date.
func TestRefusedCopiesGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStreamTest(t, StreamOptions{})
		defer s.close()
		const slot = 5
		number := uint64(0)
		take := func(fill func(b *CopyBatch)) Taken {
			t.Helper()
			number++
			b := &CopyBatch{Stream: 1, Number: number}
			fill(b)
			taken, err := s.receiver.Take(s.owner, b)
			if err != nil {
				t.Fatal(err)
			}
			return taken
		}
		take(func(b *CopyBatch) {
			b.add(recordReset, slot, resetFirst)
			b.add(recordSet, slot, 0, []byte("k"), []byte("old"))
		})
		if _, ok := s.run.Copies().Of(slot); !ok || !hasKey(s.to, slot, "k") {
			t.Fatal("the copy was not taken")
		}
		owner := make([]int, MaxSlots)
		for i := range owner {
			owner[i] = 1
		}
		owner[slot] = 2
		s.run.Adopt(targets([]int{0, 1, 2}, owner), func() {})
		// Changes were lost at the owner, which serves on until 2 asks for the slot.
		if taken := take(func(b *CopyBatch) { b.add(recordReset, slot, resetFirst) }); len(taken.Refused) != 1 {
			t.Fatalf("refused: %v", taken.Refused)
		}
		if of, ok := s.run.Copies().Of(slot); ok || hasKey(s.to, slot, "k") {
			t.Errorf("copies of %v stay, the key: %v", of, hasKey(s.to, slot, "k"))
		}
	})
}
