package child

import "syscall"

// dieWithParent makes the kernel end the child when its parent ends, by a signal,
// a panic or in good order, so that nobody leaves servers behind.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
