package topology

import (
	"bytes"
	"encoding/hex"
	"fmt"

	"github.com/ringcache/ringcache/internal/errs"
)

// NodeID is the stable identity of a node, never its address. The zero value
// names nobody and is refused in a view.
type NodeID [20]byte

// ParseNodeID reads the 40 hex digits of a node ID, in either case. Its error
// wraps errs.ErrConfig.
func ParseNodeID(s string) (NodeID, error) {
	id, err := parseNodeID(s)
	if err != nil {
		return NodeID{}, fmt.Errorf("%w: %w", errs.ErrConfig, err)
	}
	return id, nil
}

func parseNodeID(s string) (id NodeID, err error) {
	if len(s) != 2*len(id) {
		return NodeID{}, fmt.Errorf("node ID has %d characters, must be %d hex digits", len(s), 2*len(id))
	}
	if _, err := hex.Decode(id[:], []byte(s)); err != nil {
		return NodeID{}, fmt.Errorf("node ID %q is not hexadecimal", s)
	}
	return id, nil
}

// String returns 40 lower-case hex digits.
func (id NodeID) String() string { return hex.EncodeToString(id[:]) }

// IsZero reports whether id names nobody.
func (id NodeID) IsZero() bool { return id == NodeID{} }

// Compare orders node IDs by their bytes: -1, 0 or +1.
func (id NodeID) Compare(other NodeID) int { return bytes.Compare(id[:], other[:]) }

// Less reports whether id comes before other.
func (id NodeID) Less(other NodeID) bool { return id.Compare(other) < 0 }

// MarshalText implements encoding.TextMarshaler.
func (id NodeID) MarshalText() ([]byte, error) {
	return hex.AppendEncode(make([]byte, 0, 2*len(id)), id[:]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *NodeID) UnmarshalText(text []byte) error {
	parsed, err := ParseNodeID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
