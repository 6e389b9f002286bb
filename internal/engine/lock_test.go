package engine

import "testing"

func TestLockVersions(t *testing.T) {
	needGlances(t)
	var l lock
	seen := l.seen()
	if !l.claim(seen) || l.TryLock() || l.claim(seen) {
		t.Fatal("claimed, and free")
	}
	if !l.still(seen) {
		t.Error("a claim disturbs readers")
	}
	l.disclaim()
	if !l.still(seen) {
		t.Error("a claim has changed the version")
	}
	for _, take := range []func(){l.Lock, func() {
		if !l.TryLock() {
			t.Fatal("not free")
		}
	}} {
		seen = l.seen()
		if seen&1 != 0 {
			t.Error("nobody holds the lock, and the version is odd")
		}
		take()
		if l.still(seen) || l.claim(seen) || l.seen()&1 == 0 {
			t.Error("held, and free")
		}
		l.Unlock()
		if l.still(seen) || l.claim(seen) {
			t.Error("a hold has not changed the version")
		}
	}
	if !l.claim(l.seen()) {
		t.Error("a claim in vain keeps the lock")
	}
}
