//go:build !linux && !darwin && !freebsd && !netbsd && !openbsd && !dragonfly

package engine

import (
	"errors"
	"os"
)

var errLocked = errors.New("locked")

// lockFile refuses: without a lock two processes could take one file for theirs.
func lockFile(*os.File) error {
	return errors.New("this system has no file locks that end with their process; entries cannot be kept over a restart here")
}
