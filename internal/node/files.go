package node

import (
	"errors"
	"os"
)

// writeAside writes a file of the data directory under another name and renames it: a
// crash, or a loss of power, leaves the old one, or none, but no half of the new one.
func writeAside(path string, text []byte) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
