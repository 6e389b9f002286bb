package node

import (
	"crypto/rand"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/topology"
)

const idFile = "node.id"

// identify finds the node's ID: given, kept in the data directory, derived from
// cluster name and advertised address so that it survives a restart, or random
// for a node that nobody can reach.
func identify(o *Options) (topology.NodeID, error) {
	switch {
	case !o.ID.IsZero():
		return o.ID, nil
	case o.DataDir != "":
		return keptID(o.DataDir)
	case o.Port != 0:
		return derivedID(o.Cluster, o.Host, o.Port), nil
	}
	return randomID(), nil
}

// derivedID is the ID of a node without a data directory.
func derivedID(cluster, host string, port uint16) topology.NodeID {
	return topology.NodeID(sha1.Sum(fmt.Appendf(nil, "%s\x00%s\x00%d", cluster, host, port)))
}

func randomID() (id topology.NodeID) {
	rand.Read(id[:]) // never fails: it ends the process instead
	return id
}

// keptID reads the ID from the data directory, or makes one and keeps it there.
func keptID(dir string) (topology.NodeID, error) {
	path := filepath.Join(dir, idFile)
	text, err := os.ReadFile(path)
	if err == nil {
		id, err := topology.ParseNodeID(strings.TrimSpace(string(text)))
		if err != nil {
			return id, fmt.Errorf("%s: %w; remove the file to get a new ID", path, err)
		}
		return id, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return topology.NodeID{}, fmt.Errorf("%w: node ID: %w", errs.ErrConfig, err)
	}
	id := randomID()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return id, fmt.Errorf("%w: data directory: %w", errs.ErrConfig, err)
	}
	if err := writeAside(path, []byte(id.String()+"\n")); err != nil {
		return id, fmt.Errorf("%w: node ID: %w", errs.ErrConfig, err)
	}
	return id, nil
}

// newBoot makes an incarnation number: a later boot gives a greater one.
func newBoot(now time.Time) uint64 {
	var b [2]byte
	rand.Read(b[:])
	return uint64(now.UnixMilli())<<16 | uint64(binary.BigEndian.Uint16(b[:]))
}
