package link

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

// PeerProtocol is the version of the internal commands. A peer with another
// one is refused.
const PeerProtocol = 1

const (
	nonceBytes   = 16
	proofBytes   = sha256.Size
	peerKeyInfo  = "ringcache peer v1"
	roleDialler  = "dialler"
	roleAcceptor = "acceptor"
	maxCluster   = 128 // bytes of a cluster name on the wire
)

// The error codes of the handshake on the wire.
const (
	codeMismatch = "RCMISMATCH"
	codeAuth     = "RCAUTH"
)

// PeerAuth is what a node proves to its peers: that it belongs to the cluster.
// Neither side sends the secret; each proves it over the nonces of both. The
// proofs are HMAC-SHA256 under a key derived from Secret by HKDF-SHA256. An
// empty secret still separates clusters by name, but proves nothing against an
// attacker: it is meant for loopback.
type PeerAuth struct {
	Cluster string
	Secret  []byte
	Self    topology.NodeID
}

// Handshake is one handshake as the accepting side sees it, between RC.HELLO
// and RC.AUTH. It belongs to one session and must be verified at most once.
type Handshake struct {
	// Peer is what the dialler says it is. It is proven only after
	// ServerVerify returned nil.
	Peer topology.NodeID

	transcript transcript
}

// transcript is what both proofs cover.
type transcript struct {
	cluster           string
	dialler, acceptor topology.NodeID
	nonceD, nonceA    [nonceBytes]byte
}

// proof computes the proof of one role. Every part has its length in front, so
// that two transcripts never give the same bytes.
func (a *PeerAuth) proof(role string, t *transcript) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, a.Secret, nil, peerKeyInfo, proofBytes)
	if err != nil {
		return nil, fmt.Errorf("derive the peer key: %w", err)
	}
	mac := hmac.New(sha256.New, key)
	part := func(b []byte) {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(b)))
		mac.Write(n[:])
		mac.Write(b)
	}
	part([]byte(role))
	part([]byte(strconv.Itoa(PeerProtocol)))
	part([]byte(t.cluster))
	part(t.dialler[:])
	part(t.acceptor[:])
	part(t.nonceD[:])
	part(t.nonceA[:])
	return mac.Sum(nil), nil
}

func newNonce() (n [nonceBytes]byte) {
	rand.Read(n[:]) // never fails: it ends the process instead
	return n
}

// ServerHello answers RC.HELLO. args are the command's arguments with its name:
//
//	RC.HELLO <protocol> <cluster> <node ID, 40 hex> <nonce, 32 hex> [ignored ...]
//
// On success it appends the array [protocol, cluster, own ID, own nonce, own
// proof] to w. On failure it appends the error reply and returns the same as an
// error: ErrMismatch for another protocol or cluster, ErrProtocol for
// arguments that are malformed. The session stays an ordinary one until
// ServerVerify accepted it.
func (a *PeerAuth) ServerHello(args [][]byte, w *resp.Writer) (*Handshake, error) {
	h, proof, err := a.serverHello(args)
	if err != nil {
		w.Error(wireError(err))
		return nil, err
	}
	w.Array(5)
	w.Int(PeerProtocol)
	w.BulkString(a.Cluster)
	w.BulkString(a.Self.String())
	w.BulkString(hex.EncodeToString(h.transcript.nonceA[:]))
	w.BulkString(hex.EncodeToString(proof))
	return h, nil
}

func (a *PeerAuth) serverHello(args [][]byte) (*Handshake, []byte, error) {
	if len(args) < 5 {
		return nil, nil, fmt.Errorf("%w: RC.HELLO needs protocol, cluster, node ID and nonce", errs.ErrProtocol)
	}
	if string(args[1]) != strconv.Itoa(PeerProtocol) {
		return nil, nil, fmt.Errorf("%w: peer protocol %.20q, this node speaks %d", errs.ErrMismatch, args[1], PeerProtocol)
	}
	if string(args[2]) != a.Cluster {
		return nil, nil, fmt.Errorf("%w: the node that was called belongs to cluster %q, the caller to %.*q; set cluster-name to the same on both", errs.ErrMismatch, a.Cluster, maxCluster, args[2])
	}
	id, err := topology.ParseNodeID(string(args[3]))
	if err != nil {
		return nil, nil, fmt.Errorf("%w: RC.HELLO: the node ID is not 40 hex digits", errs.ErrProtocol)
	}
	h := &Handshake{Peer: id, transcript: transcript{cluster: a.Cluster, dialler: id, acceptor: a.Self, nonceA: newNonce()}}
	if !decodeHex(h.transcript.nonceD[:], args[4]) {
		return nil, nil, fmt.Errorf("%w: RC.HELLO: the nonce is not %d hex digits", errs.ErrProtocol, 2*nonceBytes)
	}
	proof, err := a.proof(roleAcceptor, &h.transcript)
	return h, proof, err
}

// ServerVerify checks RC.AUTH <proof, 64 hex> against the handshake that the
// same session began. It compares in constant time. On failure it appends the
// error reply to w and returns an error that wraps ErrAuth; the session must
// then be closed. On success it appends nothing: the reply, a map about this
// node, is the caller's.
func (a *PeerAuth) ServerVerify(h *Handshake, args [][]byte, w *resp.Writer) error {
	err := a.serverVerify(h, args)
	if err != nil {
		w.Error(wireError(err))
	}
	return err
}

func (a *PeerAuth) serverVerify(h *Handshake, args [][]byte) error {
	if h == nil {
		return fmt.Errorf("%w: RC.AUTH without RC.HELLO", errs.ErrAuth)
	}
	want, err := a.proof(roleDialler, &h.transcript)
	if err != nil {
		return err
	}
	var got [proofBytes]byte
	if len(args) < 2 || !decodeHex(got[:], args[1]) || !hmac.Equal(got[:], want) {
		return a.otherSecret()
	}
	return nil
}

// otherSecret says whose secret is missing, as far as this side can know.
func (a *PeerAuth) otherSecret() error {
	if len(a.Secret) == 0 {
		return fmt.Errorf("%w: the peer has a cluster secret and this node has none; set cluster-secret to the same value on every node", errs.ErrAuth)
	}
	return fmt.Errorf("%w: the peer has another cluster secret, or none; set cluster-secret to the same value on every node", errs.ErrAuth)
}

// decodeHex fills dst exactly.
func decodeHex(dst, src []byte) bool {
	if len(src) != 2*len(dst) {
		return false
	}
	n, err := hex.Decode(dst, src)
	return err == nil && n == len(dst)
}

// wireError gives the error reply of a handshake failure.
func wireError(err error) string {
	switch {
	case errors.Is(err, errs.ErrMismatch):
		return codeMismatch + " " + err.Error()
	case errors.Is(err, errs.ErrAuth):
		return codeAuth + " " + err.Error()
	}
	return "ERR " + err.Error()
}

// peerReplyError turns the error reply of a handshake into an error.
func peerReplyError(v resp.Value) error {
	text := string(v.Str)
	switch code, _, _ := strings.Cut(text, " "); code {
	case codeMismatch:
		return fmt.Errorf("%w: %s", errs.ErrMismatch, text)
	case codeAuth, "NOAUTH", "NOPERM":
		return fmt.Errorf("%w: %s", errs.ErrAuth, text)
	}
	return fmt.Errorf("peer handshake refused: %s", text)
}

// dialPeer performs the dialling side. It returns the acceptor's ID and its
// reply to RC.AUTH, owned by the caller.
func (a *PeerAuth) dialPeer(ask func(args ...string) (resp.Value, error)) (topology.NodeID, resp.Value, error) {
	none := topology.NodeID{}
	nonce := newNonce()
	v, err := ask("RC.HELLO", strconv.Itoa(PeerProtocol), a.Cluster, a.Self.String(), hex.EncodeToString(nonce[:]))
	if err != nil {
		return none, v, err
	}
	t, err := a.checkHello(v, nonce)
	if err != nil {
		return none, v, err
	}
	proof, err := a.proof(roleDialler, t)
	if err != nil {
		return none, v, err
	}
	if v, err = ask("RC.AUTH", hex.EncodeToString(proof)); err != nil {
		return none, v, err
	}
	if v.Kind == resp.Error {
		return none, v, peerReplyError(v)
	}
	return t.acceptor, v.Clone(), nil
}

// checkHello verifies the acceptor's half: it must know the secret too, before
// anything is sent that only a member may see.
func (a *PeerAuth) checkHello(v resp.Value, nonce [nonceBytes]byte) (*transcript, error) {
	if v.Kind == resp.Error {
		return nil, peerReplyError(v)
	}
	if v.Kind != resp.Array || len(v.Elems) < 5 {
		return nil, fmt.Errorf("%w: the answer to RC.HELLO is a %v of %d elements", errs.ErrProtocol, v.Kind, len(v.Elems))
	}
	if p := v.Elems[0].Text(); p != strconv.Itoa(PeerProtocol) {
		return nil, fmt.Errorf("%w: the peer speaks protocol %.20q, this node %d", errs.ErrMismatch, p, PeerProtocol)
	}
	if c := v.Elems[1].Text(); c != a.Cluster {
		return nil, fmt.Errorf("%w: the peer belongs to cluster %.*q, this node to %q", errs.ErrMismatch, maxCluster, c, a.Cluster)
	}
	id, err := topology.ParseNodeID(v.Elems[2].Text())
	if err != nil {
		return nil, fmt.Errorf("%w: the peer's node ID is not 40 hex digits", errs.ErrProtocol)
	}
	t := &transcript{cluster: a.Cluster, dialler: a.Self, acceptor: id, nonceD: nonce}
	var got [proofBytes]byte
	if !decodeHex(t.nonceA[:], v.Elems[3].Str) || !decodeHex(got[:], v.Elems[4].Str) {
		return nil, fmt.Errorf("%w: the peer's nonce or proof is malformed", errs.ErrProtocol)
	}
	want, err := a.proof(roleAcceptor, t)
	if err != nil {
		return nil, err
	}
	if !hmac.Equal(got[:], want) {
		return nil, a.otherSecret()
	}
	return t, nil
}
