//go:build !linux

package workload

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
