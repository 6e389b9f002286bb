package discovery

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// file is a text file with addresses, separated by white space or commas; what
// follows a # is a comment. It is read anew for each answer, so that whoever
// writes it may replace it at any time (best by a rename).
type file string

// Seeds implements Source.
func (path file) Seeds(context.Context) ([]string, error) {
	info, err := os.Stat(string(path))
	if err != nil {
		return nil, fmt.Errorf("seed file: %w; write the addresses of nodes into it, one host:port a line", err)
	}
	if !info.Mode().IsRegular() { // to open a pipe would wait for whoever writes it
		return nil, fmt.Errorf("seed file: %s is no regular file", string(path))
	}
	f, err := os.Open(string(path))
	if err != nil {
		return nil, fmt.Errorf("seed file: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("seed file %s: %w", string(path), err)
	}
	if len(text) > MaxBody {
		return nil, fmt.Errorf("seed file %s has more than %d bytes; a few addresses are enough", string(path), MaxBody)
	}
	var addrs []string
	var slips faults
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line, _, _ = strings.Cut(line, "#")
		for _, addr := range strings.FieldsFunc(line, func(r rune) bool { return r <= ' ' || r == ',' }) {
			if err := checkAddr(addr); err != nil {
				slips.add(fmt.Errorf("seed file %s line %d: %w", string(path), number, err))
				continue
			}
			addrs = append(addrs, addr)
		}
	}
	if len(addrs) > 0 {
		return bounded(addrs), nil // a slip in one line does not hide the others
	}
	return nil, slips.err()
}
