package ringcache

import (
	"context"
	"time"

	"github.com/ringcache/ringcache/internal/acl"
	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/node"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/server"
)

// handler gives a server's commands to a node; neither knows the other.
type handler struct{ n *node.Node }

func (h handler) Exec(s *server.Session, cmd *command.Command, args [][]byte, w *resp.Writer) {
	h.n.Exec(session{s}, cmd, args, w)
}

func (h handler) TryExec(s *server.Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	return h.n.TryExec(session{s}, cmd, args, w)
}

func (h handler) Preview(keys [][]byte) { h.n.Preview(keys) }

func (h handler) Closed(s *server.Session) { h.n.Closed(session{s}) }

func (h handler) Admit(s *server.Session, cmd *command.Command, args [][]byte, w *resp.Writer) bool {
	return h.n.Admit(session{s}, cmd, args, w)
}

func (h handler) Transact(s *server.Session, t *server.Transaction, w *resp.Writer) {
	h.n.Transact(session{s}, t, w)
}

func (h handler) TryTransact(s *server.Session, t *server.Transaction, w *resp.Writer) bool {
	return h.n.TryTransact(session{s}, t, w)
}

func (h handler) Forget(s *server.Session) { h.n.Forget(session{s}) }

func (h handler) Took(s *server.Session, runs []server.Run, d time.Duration) {
	calls := 0
	for i := range runs {
		calls += int(runs[i].Calls)
	}
	each := d / time.Duration(calls)
	for i := range runs {
		h.n.Took(session{s}, runs[i].ID, int(runs[i].Calls), each)
	}
}

func (h handler) Failed(s *server.Session, cmd *command.Command, executed bool, reply []byte) bool {
	return h.n.Failed(cmd, executed, reply)
}

func (h handler) Stood(s *server.Session, n server.Notable) {
	if n.Kind == server.Slow {
		h.n.Slow(session{s}, n.Cmd, n.Args, n.Took, n.Others)
		return
	}
	h.n.Large(session{s}, n.Cmd, n.Args, n.Size, n.Kind == server.LargeReply)
}

func (h handler) Account(cmd *command.Command, args [][]byte) int32 { return h.n.Account(cmd, args) }

func (h handler) Spent(account int32, in, out int, d time.Duration) {
	h.n.Spent(account, in, out, d)
}

func (h handler) AwaitFresh(*server.Session) { h.n.AwaitFresh() }

func (h handler) KeepsShards(_ *server.Session, channels [][]byte) string {
	return h.n.KeepsShards(channels)
}

func (h handler) Track(s *server.Session, broadcast bool, prefixes []string) {
	h.n.Track(session{s}, broadcast, prefixes)
}

func (h handler) Untrack(s *server.Session) { h.n.Untrack(session{s}) }

func (h handler) Mark(s *server.Session, on bool) { h.n.Mark(session{s}, on) }

// session is a server's session as a node sees it.
type session struct{ *server.Session }

func (s session) Attachment() any     { return s.Session.Attachment }
func (s session) SetAttachment(v any) { s.Session.Attachment = v }

// front is a server as its node sees it.
type front struct{ *server.Server }

func (f front) Stats() node.FrontStats {
	s := f.Server.Stats()
	return node.FrontStats{Connected: int64(s.Clients), Peers: int64(s.Peers), Waiting: int64(s.Waiting), Total: s.Total, Rejected: s.Rejected, Commands: s.Commands,
		NetIn: s.NetIn, NetOut: s.NetOut, Reads: s.Reads, Writes: s.Writes, RecentInput: s.RecentInput, RecentOutput: s.RecentOutput, OutputLimit: s.OutputLimit,
		DeniedAuth: f.Server.Denials(acl.DeniedAuth), DeniedCommand: f.Server.Denials(acl.DeniedCommand),
		DeniedKey: f.Server.Denials(acl.DeniedKey), DeniedChannel: f.Server.Denials(acl.DeniedChannel),
		BufferBytes: s.BufferBytes, BufferLimit: s.BufferLimit, BufferRefusals: s.BufferRefusals,
		Channels: s.Channels, ShardChannels: s.ShardChannels, Patterns: s.Patterns, Listening: s.Listening,
		CommandsPerSec: s.CommandsPerSec, NetInPerSec: s.NetInPerSec, NetOutPerSec: s.NetOutPerSec}
}

func (f front) SetNotable(slow time.Duration, request, reply int64, each bool) {
	f.Server.SetNotable(server.Limits{Slow: slow, Request: request, Reply: reply, Each: each})
}

// seeds joins the fixed seeds with those of the user's Discovery.
type seeds struct {
	fixed []string
	more  Discovery
}

func (s seeds) Seeds(ctx context.Context) ([]string, error) {
	all := append([]string(nil), s.fixed...)
	if s.more == nil {
		return all, nil
	}
	found, err := s.more.Seeds(ctx)
	if len(all) > 0 {
		err = nil // the fixed seeds stand without the others
	}
	return append(all, found...), err
}
