//go:build !linux

package drill

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
