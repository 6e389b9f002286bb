package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// pin moves all threads of this process to one processor; those that start later
// inherit it.
func pin(cpu int) error {
	var mask [16]uint64
	if cpu < 0 || cpu >= len(mask)*64 {
		return fmt.Errorf("no processor %d", cpu)
	}
	mask[cpu/64] = 1 << (cpu % 64)
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			return err
		}
		_, _, errno := syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, uintptr(id), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)))
		if errno != 0 && errno != syscall.ESRCH {
			return os.NewSyscallError("sched_setaffinity", errno)
		}
	}
	return nil
}
