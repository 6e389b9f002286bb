//go:build linux && amd64 && !race && !heaparena

package engine

import (
	"runtime"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The addresses of a closed engine go when nobody can reach it any more.
func TestAddressesGoWithTheEngine(t *testing.T) {
	e, err := New(Options{MaxBytes: 1 << 20, Now: newClock().now, NoBackground: true})
	if err != nil {
		t.Fatal(err)
	}
	base, _ := e.arena.mem.span()
	mapped := func() bool {
		var page byte
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(base), 4096, uintptr(unsafe.Pointer(&page)))
		return errno != unix.ENOMEM
	}
	e.Close()
	runtime.GC()
	runtime.Gosched()
	if !mapped() {
		t.Error("the addresses are gone while a reader may look there")
	}
	runtime.KeepAlive(e)
	e = nil
	for range 1000 {
		runtime.GC()
		runtime.Gosched()
		if !mapped() {
			return
		}
	}
	t.Error("the mapping is still there")
}
