package server

import (
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/resp"
)

// Tracker is a Handler that tells sessions by Invalidate which keys have changed.
// Behind a Handler that is none, CLIENT TRACKING is refused. The methods are called
// on the goroutine that drives the session.
type Tracker interface {
	// Track tells that the session tracks, or does so in another way: the keys
	// that a command reads for which Tracks is true, or with broadcast every key
	// that begins with one of the prefixes.
	Track(s *Session, broadcast bool, prefixes []string)
	// Untrack ends Track; it comes at the latest before Closed.
	Untrack(s *Session)
	// Mark tells whether the commands of the session need attention: Tracks or
	// NoTouch may be true. Until it is called they are not, and neither after
	// the session has ended.
	Mark(s *Session, on bool)
}

const (
	// maxPrefixes and maxPrefixBytes bound what one session broadcasts by.
	maxPrefixes    = 4096
	maxPrefixBytes = 256 << 10
)

const (
	errNotTracking = "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled"
	errNotOptIn    = "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."
	errNotOptOut   = "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."
	errOneRedirect = "ERR A client can only redirect to a single other client"
	errNoRedirect  = "ERR The client ID you want redirect to does not exist"
	errNeedsBcast  = "ERR PREFIX option requires BCAST mode to be enabled"
	errBcastSwitch = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."
	errBcastOpt    = "ERR OPTIN and OPTOUT are not compatible with BCAST"
	errBothOpt     = "ERR You can't specify both OPTIN mode and OPTOUT mode"
	errOptSwitch   = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode."
	errPrefixes    = "RCTOOLARGE a connection tracks at most 4096 prefixes with 262144 bytes; use fewer or shorter ones"
)

// invalidateChannel is where clients of RESP2 that others redirect to get their
// messages.
const invalidateChannel = "__redis__:invalidate"

// tracking is what CLIENT TRACKING asked for. It is replaced, never changed, but
// for broken.
type tracking struct {
	broadcast, optIn, optOut, noLoop bool
	redirectID                       int64
	redirect                         *Session // of that ID; nil: the session itself
	prefixes                         []string // sorted

	broken atomic.Bool // redirect has ended, which a message found out
}

// redirection is the ID that messages go to: 0 for the session itself, -1 without
// tracking.
func (t *tracking) redirection() int64 {
	if t == nil {
		return -1
	}
	return t.redirectID
}

// Tracks tells whether the keys that the current command reads are to be
// remembered for the session.
func (s *Session) Tracks() bool {
	t := s.tracks.Load()
	return t != nil && !t.broadcast && (!t.optIn || s.caching) && (!t.optOut || !s.caching)
}

// Marked tells what the Tracker was told last by Mark.
func (s *Session) Marked() bool { return s.marked }

// remark tells the Tracker whether the session needs attention.
func (s *Session) remark() {
	if on := s.tracks.Load() != nil || s.NoTouch(); on != s.marked && s.srv.tracker != nil {
		s.marked = on
		s.srv.tracker.Mark(s, on)
	}
}

// endTracking is CLIENT TRACKING OFF. The session may have ended.
func (s *Session) endTracking() {
	if s.tracks.Swap(nil) != nil {
		s.srv.tracker.Untrack(s)
	}
	s.caching = false
	if s.marked {
		s.marked = false
		s.srv.tracker.Mark(s, false)
	}
}

// keepsCaching tells whether CLIENT CACHING is for the command after cmd.
func keepsCaching(cmd *command.Command) bool {
	return cmd != nil && (cmd.ID == command.Asking || cmd.Parent != nil && cmd.Parent.ID == command.Client)
}

// clientTracking is CLIENT TRACKING ON|OFF [REDIRECT id] [PREFIX prefix ...]
// [BCAST] [OPTIN] [OPTOUT] [NOLOOP].
func (s *Session) clientTracking(args [][]byte) {
	if s.srv.tracker == nil {
		s.w.Error("ERR client tracking is not served here")
		return
	}
	t, fault := s.parseTracking(args[3:])
	switch {
	case fault != "":
	case isWord(args[2], "OFF"):
		s.endTracking()
		s.remark() // for NO-TOUCH
	case !isWord(args[2], "ON"):
		fault = errSyntax
	default:
		if fault = s.startTracking(t); fault == "" {
			s.remark()
		}
	}
	if fault != "" {
		s.w.Error(fault)
		return
	}
	s.w.Simple("OK")
}

func (s *Session) parseTracking(opts [][]byte) (t *tracking, fault string) {
	t = &tracking{}
	for i := 0; i < len(opts); i++ {
		more := i+1 < len(opts)
		switch opt := opts[i]; {
		case isWord(opt, "REDIRECT") && more:
			if t.redirectID != 0 {
				return nil, errOneRedirect
			}
			i++
			id, ok := resp.ParseInt(opts[i])
			if !ok {
				return nil, "ERR value is not an integer or out of range"
			}
			if t.redirect = s.srv.client(id); t.redirect == nil {
				return nil, errNoRedirect
			}
			t.redirectID = id
		case isWord(opt, "PREFIX") && more:
			i++
			t.prefixes = append(t.prefixes, string(opts[i]))
		case isWord(opt, "BCAST"):
			t.broadcast = true
		case isWord(opt, "OPTIN"):
			t.optIn = true
		case isWord(opt, "OPTOUT"):
			t.optOut = true
		case isWord(opt, "NOLOOP"):
			t.noLoop = true
		default:
			return nil, errSyntax
		}
	}
	return t, ""
}

// startTracking checks what was asked for against what is, in Redis's order, and
// begins it.
func (s *Session) startTracking(t *tracking) (fault string) {
	was := s.tracks.Load()
	switch {
	case !t.broadcast && len(t.prefixes) > 0:
		return errNeedsBcast
	case was != nil && was.broadcast != t.broadcast:
		return errBcastSwitch
	case t.broadcast && (t.optIn || t.optOut):
		return errBcastOpt
	case t.optIn && t.optOut:
		return errBothOpt
	case was != nil && (t.optIn && was.optOut || t.optOut && was.optIn):
		return errOptSwitch
	}
	if t.broadcast {
		if fault := t.addPrefixes(was); fault != "" {
			return fault
		}
	}
	s.tracks.Store(t)
	s.srv.tracker.Track(s, t.broadcast, t.prefixes)
	return ""
}

// addPrefixes puts the prefixes asked for beside those of before.
func (t *tracking) addPrefixes(was *tracking) (fault string) {
	var old []string
	if was != nil {
		old = was.prefixes
	}
	if len(old)+len(t.prefixes) > maxPrefixes {
		return errPrefixes
	}
	const must = "'. Prefixes for a single client must not overlap."
	for i, p := range t.prefixes {
		if with, ok := overlap(old, p); ok {
			return "ERR Prefix '" + p + "' overlaps with an existing prefix '" + with + must
		}
		if with, ok := overlap(t.prefixes[i+1:], p); ok {
			return "ERR Prefix '" + p + "' overlaps with another provided prefix '" + with + must
		}
	}
	if len(t.prefixes) == 0 {
		t.prefixes = []string{""}
	}
	size := 0
	all := append(slices.Clone(old), t.prefixes...)
	slices.Sort(all)
	t.prefixes = slices.Compact(all)
	for _, p := range all {
		size += len(p)
	}
	if size > maxPrefixBytes {
		return errPrefixes
	}
	return ""
}

// overlap finds a prefix in list of which p is the beginning or the other way
// round.
func overlap(list []string, p string) (with string, ok bool) {
	for _, x := range list {
		if strings.HasPrefix(x, p) || strings.HasPrefix(p, x) {
			return x, true
		}
	}
	return "", false
}

// clientCaching is CLIENT CACHING YES|NO.
func (s *Session) clientCaching(arg []byte) {
	t := s.tracks.Load()
	yes := isWord(arg, "YES")
	switch {
	case t == nil:
		s.w.Error(errNotTracking)
	case !yes && !isWord(arg, "NO"):
		s.w.Error(errSyntax)
	case yes && !t.optIn:
		s.w.Error(errNotOptIn)
	case !yes && !t.optOut:
		s.w.Error(errNotOptOut)
	default:
		s.caching = true
		s.w.Simple("OK")
	}
}

// trackingInfo is CLIENT TRACKINGINFO.
func (s *Session) trackingInfo() {
	t := s.tracks.Load()
	var flags []string
	add := func(on bool, name string) {
		if on {
			flags = append(flags, name)
		}
	}
	var prefixes []string
	if t == nil {
		flags = append(flags, "off")
	} else {
		flags, prefixes = append(flags, "on"), t.prefixes
		add(t.broadcast, "bcast")
		add(t.optIn, "optin")
		add(t.optIn && s.caching, "caching-yes")
		add(t.optOut, "optout")
		add(t.optOut && s.caching, "caching-no")
		add(t.noLoop, "noloop")
		add(t.broken.Load(), "broken_redirect")
	}
	w := &s.w
	w.Map(3)
	w.BulkString("flags")
	w.Set(len(flags))
	for _, f := range flags {
		w.BulkString(f)
	}
	w.BulkString("redirect")
	w.Int(t.redirection())
	w.BulkString("prefixes")
	w.Array(len(prefixes))
	for _, p := range prefixes {
		w.BulkString(p)
	}
}

// client returns the session of a client by its ID; nil if there is none.
func (s *Server) client(id int64) *Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.sessions[uint64(id)]; id > 0 && c != nil && !c.isPeer.Load() {
		return c
	}
	return nil
}

// Invalidate tells the client that a key is not what it has read; own says that
// the client changed it itself. It is ignored unless the session tracks. It never
// blocks, and any goroutine may call it, also under a lock. A message that comes
// while a command of the session is executed follows its reply.
func (s *Session) Invalidate(key []byte, own bool) {
	t := s.tracks.Load()
	if t == nil || own && t.noLoop {
		return
	}
	var room [256]byte
	w := resp.Writer{Proto: 3, Buf: room[:0]}
	if to := s.invalidating(t, &w); to != nil {
		w.Array(1)
		w.Bulk(key)
		to.Push(w.Buf)
	}
}

// InvalidateAll is Invalidate for all keys.
func (s *Session) InvalidateAll() {
	t := s.tracks.Load()
	if t == nil {
		return
	}
	var room [64]byte
	w := resp.Writer{Proto: 3, Buf: room[:0]}
	if to := s.invalidating(t, &w); to != nil {
		w.Proto = to.Proto()
		w.Null()
		to.Push(w.Buf)
	}
}

// invalidating begins a message with everything before the keys, and returns the
// session that gets it; nil: none does.
func (s *Session) invalidating(t *tracking, w *resp.Writer) *Session {
	to := s
	if t.redirect != nil {
		if to = t.redirect; to.gone() {
			t.broken.Store(true)
			if s.Proto() == 3 {
				w.Push(2)
				w.BulkString("tracking-redir-broken")
				w.Int(t.redirectID)
				s.Push(w.Buf)
			}
			return nil
		}
	}
	switch {
	case to.Proto() == 3:
		w.Push(2)
		w.BulkString("invalidate")
	case to != s && to.kind() == pubSubClient:
		w.Push(3)
		w.BulkString("message")
		w.BulkString(invalidateChannel)
	default:
		return nil // RESP2 has no messages beside replies
	}
	return to
}

// gone tells whether the session has ended or is about to. Any goroutine may
// call it.
func (s *Session) gone() bool {
	if s.stop.Load() == stopCut {
		return true
	}
	o := s.outbox.Load()
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed
}
