package membership

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate receives memberlist's callbacks. Most of them run under its locks,
// so each one only decodes and fills the inbox. Callbacks may still come after
// Close (a suspicion timer of memberlist outlives its Shutdown): they fill an
// inbox that nobody drains.
type delegate struct {
	self string // own name
	in   *inbox
	meta atomic.Pointer[[]byte] // own metadata, replaced as a whole
}

// NodeMeta implements memberlist.Delegate.
func (d *delegate) NodeMeta(int) []byte { return *d.meta.Load() }

// NotifyMsg implements memberlist.Delegate: the only messages are hints.
func (d *delegate) NotifyMsg(b []byte) {
	if from, about, ok := decodeHint(b); ok && about != d.self {
		d.in.putHint(from, about)
	}
}

// GetBroadcasts, LocalState and MergeRemoteState implement
// memberlist.Delegate: everything to know is in the metadata.
func (d *delegate) GetBroadcasts(int, int) [][]byte { return nil }
func (d *delegate) LocalState(bool) []byte          { return nil }
func (d *delegate) MergeRemoteState([]byte, bool)   {}
func (d *delegate) AckPayload() []byte              { return nil }
func (d *delegate) NotifyJoin(n *memberlist.Node)   { d.news(evJoin, n) }
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.news(evUpdate, n) }
func (d *delegate) NotifyLeave(n *memberlist.Node)  { d.news(evLeave, n) }
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	// Refusing here keeps a node whose entry nobody can read out of gossip.
	_, err := decodeMeta(n.Name, n.Address(), n.Meta)
	return err
}

// NotifyPingComplete implements memberlist.PingDelegate.
func (d *delegate) NotifyPingComplete(n *memberlist.Node, rtt time.Duration, _ []byte) {
	d.in.putAck(n.Name, rtt)
}

// probeFailed is memberlist's DisableTcpPingsForNode: it is asked exactly when
// a direct probe over UDP has failed, the earliest sign of trouble that
// memberlist shows (it has no callback for suspicion, and the State of the
// nodes that it hands out is not maintained). TCP pings stay enabled.
func (d *delegate) probeFailed(name string) bool {
	d.in.putFailed(name)
	return false
}

func (d *delegate) news(kind eventKind, n *memberlist.Node) {
	if n.Name == d.self {
		return
	}
	m, err := decodeMeta(n.Name, n.Address(), n.Meta)
	if err != nil {
		return // NotifyAlive has refused it, so it was never a member
	}
	d.in.putNews(event{kind: kind, name: n.Name, member: m, degraded: metaDegraded(n.Meta)})
}
