package node

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/topology"
)

// codeNotCeded says that a slot is not kept for who asks.
const codeNotCeded = "RCNOTCEDED"

// takeBytes bounds what one answer to RC.TAKE carries; the first key is always
// among it.
const takeBytes = 1 << 20

// agreementMost bounds the answer to RC.RELEASE where it can be shorter: a peer
// reads lines of up to 64 KiB.
const agreementMost = 60 << 10

// Words of RC.RELEASE and its answer; see agreement.
const (
	pulling = "PULL"
	ceded   = "CEDED"
	// sealedCopies names copies that are the latest.
	sealedCopies = "SEALED"
	same         = "=" // in place of the ranges: all that are asked for
)

// takeCommand executes what next owners ask of this node.
func (n *Node) takeCommand(from topology.NodeID, cmd *command.Command, args [][]byte, w *resp.Writer) {
	var err error
	switch cmd.ID {
	case command.RCTake:
		err = n.take(from, args, w)
	case command.RCTakeMany:
		err = n.takeMany(from, args, w)
	case command.RCTaken:
		err = n.taken(from, args, w)
	case command.RCHave:
		err = n.have(from, args, w)
	}
	if err != nil {
		w.Error("ERR " + err.Error())
	}
}

var errPlainNumber = errors.New("value is not an integer or out of range")

// numbers reads unsigned numbers.
func numbers(args [][]byte, into ...*uint64) error {
	for i, p := range into {
		v, err := strconv.ParseUint(string(args[i]), 10, 64)
		if err != nil {
			return errPlainNumber
		}
		*p = v
	}
	return nil
}

// take: RC.TAKE <slot> <boot> <ask> <key> [<key> ...]. The answer has for each key
// null, or value and remaining TTL in ms (0: none), or LATER if it would be too
// large. What is handed over is forgotten here.
func (n *Node) take(from topology.NodeID, args [][]byte, w *resp.Writer) error {
	var slot, boot, ask uint64
	if err := numbers(args[1:], &slot, &boot, &ask); err != nil {
		return err
	}
	keys := args[4:]
	if slot >= handoff.MaxSlots || len(keys) > handoff.MaxTake {
		return fmt.Errorf("slot %d or %d keys are out of range", slot, len(keys))
	}
	mark, given := len(w.Buf), 0
	w.Array(len(keys))
	by := handoff.Cession{Peer: handoff.Peer{ID: from, Boot: boot}, Ask: ask}
	ok := n.transfer.Give(uint16(slot), by, keys, func(_ int, e handoff.Entry) bool {
		switch {
		case !e.Found:
			w.Null()
		case given > 0 && len(w.Buf)-mark+len(e.Value) > takeBytes:
			w.Simple("LATER")
			return false
		default:
			given++
			w.Array(2)
			w.Bulk(e.Value)
			w.Int(e.TTL)
		}
		return true
	})
	if !ok {
		w.Buf = w.Buf[:mark]
		w.Error(codeNotCeded + " slot " + strconv.FormatUint(slot, 10))
	}
	return nil
}

// takeMany: RC.TAKEMANY <boot> <keys> <bytes> <keys of each slot> <slot> <ask> [...].
// The answer has for each slot that it came to: slot, keys left (-1: not ceded),
// then key, value and TTL in turns.
func (n *Node) takeMany(from topology.NodeID, args [][]byte, w *resp.Writer) error {
	var boot, keys, bytes, each uint64
	if err := numbers(args[1:], &boot, &keys, &bytes, &each); err != nil {
		return err
	}
	pairs := args[5:]
	if len(pairs)%2 != 0 {
		return errors.New("slots and asks must be pairs")
	}
	const most = 1 << 16
	q := handoff.Many{Keys: int(min(keys, most)), Bytes: int(min(bytes, takeBytes)), Each: int(min(each, most))}
	for i := 0; i < len(pairs); i += 2 {
		var slot, ask uint64
		if err := numbers(pairs[i:], &slot, &ask); err != nil {
			return err
		}
		if slot >= handoff.MaxSlots {
			return fmt.Errorf("slot %d is out of range", slot)
		}
		q.Slots = append(q.Slots, handoff.Source{Slot: uint16(slot), Ask: ask})
	}
	by := handoff.Peer{ID: from, Boot: boot}
	body, one := resp.Writer{Proto: 2}, resp.Writer{Proto: 2}
	slots, values := 0, 0
	var empty handoff.Set
	n.transfer.GiveMany(by, q,
		func(uint16) { one.Buf, values = one.Buf[:0], 0 },
		func(e handoff.Entry) {
			one.Bulk(e.Key)
			one.Bulk(e.Value)
			one.Int(e.TTL)
			values += 3
		},
		func(b handoff.Batch) {
			left := int64(b.Left)
			if b.Refused {
				left = -1
			} else if left == 0 {
				empty.Add(b.Slot)
			}
			slots++
			body.Array(values + 2)
			body.Int(int64(b.Slot))
			body.Int(left)
			body.Raw(one.Buf)
		})
	w.Array(slots)
	w.Raw(body.Buf)
	if empty.Len() > 0 {
		n.barrier.Taken(by, empty.Ranges())
	}
	return nil
}

// taken: RC.TAKEN <boot> <ranges>.
func (n *Node) taken(from topology.NodeID, args [][]byte, w *resp.Writer) error {
	var boot uint64
	if err := numbers(args[1:], &boot); err != nil {
		return err
	}
	ranges, err := handoff.ParseRanges(string(args[2]))
	if err != nil {
		return err
	}
	n.barrier.Taken(handoff.Peer{ID: from, Boot: boot}, ranges)
	w.Simple("OK")
	return nil
}

// have: RC.HAVE <slot> <boot> <ask> <key> [<key> ...].
func (n *Node) have(from topology.NodeID, args [][]byte, w *resp.Writer) error {
	var slot, boot, ask uint64
	if err := numbers(args[1:], &slot, &boot, &ask); err != nil {
		return err
	}
	if slot >= handoff.MaxSlots || len(args)-4 > handoff.MaxTake {
		return fmt.Errorf("slot %d or %d keys are out of range", slot, len(args)-4)
	}
	if !n.transfer.Forget(uint16(slot), handoff.Cession{Peer: handoff.Peer{ID: from, Boot: boot}, Ask: ask}, args[4:]) {
		w.Error(codeNotCeded + " slot " + strconv.FormatUint(slot, 10))
		return nil
	}
	w.Simple("OK")
	return nil
}

// takes reaches previous owners; it is the Transfer's Caller.
type takes struct {
	n *Node
	// Links of their own: a request that waits for its key must stand neither
	// behind a RELEASE nor behind a batch.
	single, many *link.Peers
}

func (t *takes) open(o link.Options) (err error) {
	if t.single, err = link.NewPeers(o); err == nil {
		t.many, err = link.NewPeers(o)
	}
	return err
}

// dial opens the links to a node, in the background.
func (t *takes) dial(addr string) {
	for _, links := range []*link.Peers{t.single, t.many} {
		t.n.transfer.Background(func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, link.DefaultDialTimeout)
			defer cancel()
			_, _ = links.Conn(ctx, addr) // who needs the link will see why not
		})
	}
}

func (t *takes) do(ctx context.Context, links *link.Peers, to handoff.Peer, args ...[]byte) (resp.Value, error) {
	view := t.n.View()
	i, ok := view.Index(to.ID)
	if !ok || links == nil {
		return resp.Value{}, fmt.Errorf("%w: no address of %s", errs.ErrUnavailable, to.ID)
	}
	v, err := links.Do(ctx, view.Member(i).Addr(), resp.AppendCommand(nil, args...))
	if err != nil {
		if links == t.many { // a request waits for a key for milliseconds only: that is no failure
			t.n.failed(ctx, to.ID, err)
		}
		return v, err
	}
	t.n.heard(to.ID)
	if v.Kind == resp.Error {
		if strings.HasPrefix(v.Text(), codeNotCeded) {
			return v, handoff.ErrNotCeded
		}
		return v, v.Err()
	}
	return v, nil
}

func decimal(v uint64) []byte { return strconv.AppendUint(nil, v, 10) }

// Take implements handoff.Caller.
func (t *takes) Take(ctx context.Context, from handoff.Peer, slot uint16, ask uint64, keys [][]byte) ([]handoff.Entry, error) {
	args := append(make([][]byte, 0, len(keys)+4), []byte("RC.TAKE"), decimal(uint64(slot)), decimal(t.n.boot), decimal(ask))
	v, err := t.do(ctx, t.single, from, append(args, keys...)...)
	if err != nil {
		return nil, err
	}
	out := make([]handoff.Entry, len(v.Elems))
	for i, e := range v.Elems {
		switch {
		case e.IsNull():
		case e.Kind == resp.Array && len(e.Elems) == 2:
			out[i] = handoff.Entry{Value: e.Elems[0].Str, TTL: e.Elems[1].Int, Found: true}
		default:
			out[i].Later = true
		}
	}
	return out, nil
}

// TakeMany implements handoff.Caller.
func (t *takes) TakeMany(ctx context.Context, from handoff.Peer, q handoff.Many) ([]handoff.Batch, error) {
	args := append(make([][]byte, 0, 2*len(q.Slots)+5), []byte("RC.TAKEMANY"), decimal(t.n.boot),
		decimal(uint64(q.Keys)), decimal(uint64(q.Bytes)), decimal(uint64(q.Each)))
	for _, s := range q.Slots {
		args = append(args, decimal(uint64(s.Slot)), decimal(s.Ask))
	}
	v, err := t.do(ctx, t.many, from, args...)
	if err != nil {
		return nil, err
	}
	var out []handoff.Batch
	for _, e := range v.Elems {
		if len(e.Elems) < 2 || (len(e.Elems)-2)%3 != 0 {
			return out, fmt.Errorf("%w: answer to RC.TAKEMANY", errs.ErrProtocol)
		}
		b := handoff.Batch{Slot: uint16(e.Elems[0].Int), Left: int(e.Elems[1].Int), Refused: e.Elems[1].Int < 0}
		for i := 2; i < len(e.Elems); i += 3 {
			b.Entries = append(b.Entries, handoff.Entry{Key: e.Elems[i].Str, Value: e.Elems[i+1].Str, TTL: e.Elems[i+2].Int, Found: true})
		}
		out = append(out, b)
	}
	return out, nil
}

// Have implements handoff.Caller.
func (t *takes) Have(ctx context.Context, from handoff.Peer, slot uint16, ask uint64, keys [][]byte) error {
	args := append(make([][]byte, 0, len(keys)+4), []byte("RC.HAVE"), decimal(uint64(slot)), decimal(t.n.boot), decimal(ask))
	_, err := t.do(ctx, t.many, from, append(args, keys...)...)
	return err
}

// Taken implements handoff.Caller.
func (t *takes) Taken(ctx context.Context, from handoff.Peer, ranges []handoff.Range) error {
	_, err := t.do(ctx, t.many, from, []byte("RC.TAKEN"), decimal(t.n.boot), []byte(handoff.FormatRanges(ranges)))
	return err
}

// agreement writes the answer OK to RC.RELEASE: OK [<ranges served until now>]
// [KEPT <ranges>] [CEDED <keys> <ask> <ranges> [<ask> <ranges> ...]] [SEALED
// <ranges> [<slot>:<key, base64> ...]].
func agreement(v *handoff.Verdict) string {
	text := "OK"
	if len(v.Served) > 0 {
		text += " " + handoff.FormatRanges(v.Served)
	}
	if len(v.Kept) > 0 {
		text += " " + kept + " " + handoff.FormatRanges(v.Kept)
	}
	if len(v.Offers) > 0 {
		text += " " + ceded + " " + strconv.FormatUint(v.OfferedKeys, 10)
		for _, o := range v.Offers {
			text += " " + strconv.FormatUint(o.Ask, 10) + " " + handoff.FormatRanges(o.Ranges)
		}
	}
	if len(v.Sealed.Slots) > 0 {
		more := " " + sealedCopies + " " + handoff.FormatRanges(v.Sealed.Slots)
		for _, k := range v.Sealed.Behind {
			more += " " + strconv.Itoa(int(k.Slot)) + ":" + base64.RawStdEncoding.EncodeToString(k.Key)
		}
		if len(text)+len(more) <= agreementMost { // else no copies are kept
			text += more
		}
	}
	return text
}

// parsePull reads what follows PULL.
func parsePull(q *handoff.Request, args [][]byte) (err error) {
	if err = numbers(args, &q.Boot, &q.Ask); err != nil {
		return err
	}
	if q.Pull = q.Ranges; string(args[2]) != same {
		q.Pull, err = handoff.ParseRanges(string(args[2]))
	}
	return err
}

// parseAgreement reads what agreement writes; words that are not known end it.
func parseAgreement(text string) (handoff.Answer, error) {
	words := strings.Fields(text)
	if len(words) == 0 || words[0] != "OK" {
		return handoff.Answer{}, fmt.Errorf("%w: answer %.40q to RC.RELEASE", errs.ErrProtocol, text)
	}
	a := handoff.Answer{Agreed: true}
	var err error
	i := 1
	if i < len(words) && words[i][0] >= '0' && words[i][0] <= '9' {
		if a.Served, err = handoff.ParseRanges(words[i]); err != nil {
			return handoff.Answer{}, err
		}
		i++
	}
	if i+1 < len(words) && words[i] == kept {
		if a.Kept, err = handoff.ParseRanges(words[i+1]); err != nil {
			return handoff.Answer{}, err
		}
		i += 2
	}
	if i+1 < len(words) && words[i] == ceded {
		for i += 2; i+1 < len(words); i += 2 {
			ask, err := strconv.ParseUint(words[i], 10, 64)
			if err != nil {
				break // another word
			}
			ranges, err := handoff.ParseRanges(words[i+1])
			if err != nil {
				return handoff.Answer{}, err
			}
			a.Offers = append(a.Offers, handoff.Offer{Ask: ask, Ranges: ranges})
		}
	}
	if i+1 < len(words) && words[i] == sealedCopies {
		if a.Sealed, err = parseSealed(words[i+1:]); err != nil {
			return handoff.Answer{}, err
		}
	}
	return a, nil
}

// parseSealed reads what follows SEALED. What cannot be read makes all of it void:
// a key that is behind must not be overlooked.
func parseSealed(words []string) (s handoff.Sealed, err error) {
	if s.Slots, err = handoff.ParseRanges(words[0]); err != nil {
		return s, err
	}
	for _, word := range words[1:] {
		slot, text, both := strings.Cut(word, ":")
		number, err := strconv.ParseUint(slot, 10, 16)
		key, bad := base64.RawStdEncoding.DecodeString(text)
		if !both || err != nil || bad != nil {
			return handoff.Sealed{}, nil
		}
		s.Behind = append(s.Behind, handoff.SlotKey{Slot: uint16(number), Key: key})
	}
	return s, nil
}
