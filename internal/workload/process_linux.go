package workload

import "syscall"

// dieWithParent makes the kernel end the child when its parent is killed, so
// that an interrupted replay leaves no servers behind.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
