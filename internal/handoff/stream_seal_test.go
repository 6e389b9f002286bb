package handoff

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// hold makes calls wait until the channel that it returns is closed.
func (m *mirrorTest) hold() chan struct{} {
	gate := make(chan struct{})
	m.setFault(func(*CopyBatch) (error, error) { <-gate; return nil, nil })
	return gate
}

func (m *mirrorTest) write(slot uint16, key, value string) {
	m.tb.Helper()
	if err := m.from.Set(slot, []byte(key), []byte(value), 0); err != nil {
		m.tb.Fatal(err)
	}
}

// TestSealTellsWhatIsBehind: wherever a change is when a slot is given up, it is
// told; where that is not known, the copies are not sealed.
func TestSealTellsWhatIsBehind(t *testing.T) {
	const slot = 5
	for _, tc := range []struct {
		name   string
		change func(m *mirrorTest)
		exact  bool
		behind string
	}{
		{"nothing has changed", func(*mirrorTest) {}, true, "[]"},
		{"it has arrived", func(m *mirrorTest) { m.write(slot, "k", "2"); <-time.After(20 * time.Millisecond) }, true, "[]"},
		{"in the feed", func(m *mirrorTest) { m.write(slot, "k", "2") }, true, "[k]"},
		{"under way, and in the queue", func(m *mirrorTest) {
			gate := m.hold()
			m.write(slot, "k", "2")
			<-time.After(20 * time.Millisecond)
			m.write(slot, "l", "2")
			<-time.After(20 * time.Millisecond)
			time.AfterFunc(20*time.Millisecond, func() { close(gate) })
		}, true, "[k l]"},
		{"of a key that nobody reads", func(m *mirrorTest) { m.write(slot, "other", "2") }, true, "[]"},
		{"deleted", func(m *mirrorTest) { _, _ = m.from.Delete(slot, []byte("k")) }, true, "[k]"},
		{"found the slot not served", func(m *mirrorTest) {
			m.write(slot, "k", "2")
			m.from.SetServing(slot, false)
			<-time.After(20 * time.Millisecond)
			m.write(slot+1, "x", "2") // whatever comes then
			<-time.After(20 * time.Millisecond)
		}, true, "[k]"},
		{"lost by the feed", func(m *mirrorTest) {
			for i := range feedMost {
				m.write(slot, fmt.Sprint("x", i%100), "2")
			}
		}, false, "[]"},
		{"flushed", func(m *mirrorTest) { m.from.Flush() }, false, "[]"},
		{"more than an answer can name", func(m *mirrorTest) {
			m.setFault(func(*CopyBatch) (error, error) { return errors.New("away"), nil })
			for i := range 3 * sealKeys {
				m.write(slot, fmt.Sprint("n", i), "2")
				m.read(slot, fmt.Append(nil, "n", i))
				if i%100 == 0 {
					<-time.After(5 * time.Millisecond)
				}
				m.write(slot, fmt.Sprint("n", i), "3")
			}
		}, false, "[]"},
		{"the receiver has forgotten", func(m *mirrorTest) {
			in := m.receiver.inbound(m.owner)
			in.mu.Lock()
			in.number += 5
			in.mu.Unlock()
			m.write(slot, "k", "2")
			m.setFault(func(b *CopyBatch) (error, error) {
				if b.Number == 1 {
					return errors.New("away"), nil
				}
				return nil, nil
			})
			<-time.After(20 * time.Millisecond)
		}, false, "[]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMirrorTest(t, 1, StreamOptions{})
				defer m.close()
				m.mirror(false)
				<-time.After(50 * time.Millisecond)
				for _, k := range []string{"k", "l"} {
					m.write(slot, k, "1")
					m.read(slot, []byte(k))
				}
				<-time.After(50 * time.Millisecond)
				tc.change(m)
				var slots Set
				slots.Add(slot)
				exact, behind := m.streams.Seal(Peer{nodeID(0), 1}, &slots)
				var keys []string
				for _, k := range behind {
					if k.Slot == slot && exact.Has(slot) {
						keys = append(keys, string(k.Key))
					}
				}
				if exact.Has(slot) != tc.exact || fmt.Sprint(keys) != tc.behind {
					t.Errorf("sealed: %v, behind: %v; want %v, %v", exact.Has(slot), keys, tc.exact, tc.behind)
				}
				if again, _ := m.streams.Seal(Peer{nodeID(0), 1}, &slots); again.Has(slot) {
					t.Error("sealed twice, though nothing is sent any more")
				}
			})
		})
	}
}

// TestReadsOfASlotThatBeginsAnew: what was read before does not count: its changes
// are not sent any more.
func TestReadsOfASlotThatBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rate atomic.Int64
		m := newMirrorTest(t, 1, StreamOptions{MirrorPace: func() (int64, int64) { return rate.Load(), 1 << 20 }})
		defer m.close()
		m.mirror(false)
		<-time.After(50 * time.Millisecond)
		m.write(5, "k", "1")
		m.read(5, []byte("k"))
		<-time.After(50 * time.Millisecond)
		m.streams.targets[Peer{nodeID(0), 1}].resync(5)
		<-time.After(2 * time.Second)
		rate.Store(1000)
		<-time.After(time.Second)
		m.write(5, "k", "2")
		<-time.After(time.Second)
		if v, _ := peek(m, 5, "k"); v == "1" {
			t.Fatal("the copy is of before the change")
		}
		m.read(5, []byte("k"))
		<-time.After(time.Second)
		if v, _ := peek(m, 5, "k"); v != "2" {
			t.Fatalf("the copy is %q", v)
		}
	})
}

func peek(m *mirrorTest, slot uint16, key string) (string, bool) {
	tx := m.to.LockAny(slot)
	defer tx.Unlock()
	it, ok := tx.Peek([]byte(key))
	return string(it.Value), ok
}

// TestMirrorPace: what is read is sent no faster than allowed, and not while a pace
// of 0 says that transfers are paused.
func TestMirrorPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rate atomic.Int64
		m := newMirrorTest(t, 1, StreamOptions{MirrorPace: func() (int64, int64) { return rate.Load(), 1 << 20 }})
		defer m.close()
		m.mirror(false)
		<-time.After(50 * time.Millisecond)
		for i := range 3000 {
			m.write(uint16(i%mirrorSlots), fmt.Sprint("k", i), "v")
		}
		<-time.After(50 * time.Millisecond) // changes of what is mirrored are sent at once
		for i := range 3000 {
			m.read(uint16(i%mirrorSlots), fmt.Append(nil, "k", i))
		}
		<-time.After(3 * time.Second)
		if n := m.to.Stats().SpareKeys; n != 0 {
			t.Errorf("%d keys while paused", n)
		}
		rate.Store(500)
		<-time.After(2*time.Second + 100*time.Millisecond)
		if n := m.to.Stats().SpareKeys; n < 900 || n > 1000+copyKeys+100 {
			t.Errorf("%d keys after two seconds at 500 per second", n)
		}
		if f := m.streams.Figures(); int64(f.Mirrored) != m.to.Stats().SpareKeys || f.Targets[0].Slots != 0 || f.Targets[0].Mirrors != mirrorSlots {
			t.Errorf("%+v", f)
		}
	})
}

// TestMirrorBound: no more keys are kept up to date than may be.
func TestMirrorBound(t *testing.T) {
	var r reads
	for i := range mirrorMost + 10 {
		r.next = nil // sent
		if fresh := r.add(uint16(i%100), fmt.Append(nil, i)); fresh != (i < mirrorMost) {
			t.Fatalf("key %d is new: %v", i, fresh)
		}
	}
	for slot := range uint16(100) {
		r.forget(slot)
	}
	if r.keys != 0 || len(r.slots) != 0 || r.has(1, []byte("1")) {
		t.Errorf("%d keys are left", r.keys)
	}
	for i := range readsMost + 10 {
		if fresh := r.add(1, fmt.Append(nil, i)); fresh != (i < readsMost) {
			t.Fatalf("read %d waits: %v", i, fresh)
		}
	}
}
