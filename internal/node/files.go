package node

import "os"

// writeAside writes a file of the data directory under another name and renames it: a
// crash leaves the old one, or none, but no half of the new one.
func writeAside(path string, text []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
