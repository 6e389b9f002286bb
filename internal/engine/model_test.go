package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ringcache/ringcache/internal/errs"
)

// model is the engine as it should be: plain maps and a list in time order. It
// drives an Engine with one operation after the other and compares each answer.
// What the engine decides by itself (expiry that nobody asked for, eviction)
// reaches the model through the change feeds, and must be legal: so the feeds,
// replayed, equal the state at all times.
type model struct {
	e     *Engine
	file  string // "" = no restarts
	shape shape
	clock int64
	feeds []*Feed // by shard, nil where no slot of the model is
	buf   []Event

	slots    []uint16
	space    int // keys of a slot
	keys     map[uint16]map[string]*known
	serving  map[uint16]bool
	windows  map[uint16]*modelWindow
	limit    int64
	policy   string
	policies []string // to choose from; some more often
	custom   Custom
	classes  []Class
	count    counters

	scanning bool
	cursor   uint64
	owed     map[string]bool // present since the scan began, not returned yet

	expect  []Event // what the running operation must report, besides expiry and eviction
	redated *known  // what the running operation gave another deadline
	writing string  // key of the running write: never a victim while its shard has another
	victims int     // of the running operation
}

type known struct {
	value    []byte
	deadline int64
	form     int // how the deadline is stored
	access   int64
}

type modelWindow struct {
	max     int
	full    bool
	touched map[string]bool // nil = closed
}

var modelSlots = []uint16{0, 1, 2, 3, 130, 8191, 16383}

// shape is an engine to compare: how many shards it has, of which size its
// blocks are made (by the limit that it starts with), and how many keys a slot
// gets.
type shape struct {
	shards   int
	laidOut  int64
	space    int
	maxValue int
}

// whims is a custom policy that decides by the entry's length, and panics now and
// then.
type whims struct{}

func (whims) Class(w Write) int {
	if w.Size%29 == 7 {
		panic("class")
	}
	return w.Size % 5
}

func (whims) Score(g Segment) int64 {
	if g.Age%31 == 9 {
		panic("score")
	}
	return int64(g.Class) - int64(g.Age/4)
}

func (whims) Judge(r Record) Verdict {
	if r.Size%37 == 5 {
		panic("judge")
	}
	return Verdict((r.Size + r.Reads) % 3)
}

// shapes: small blocks with inline records only, the same with chains, the
// largest blocks, many keys in few pages, a shard per slot.
var shapes = []shape{
	{1, 60 << 10, 48, 4096},
	{4, 60 << 10, 48, 13_000},
	{1, 1 << 20, 48, 13_000},
	{2, 60 << 10, 400, 4096},
	{128, 60 << 10, 48, 4096},
	{1, 1 << 20, 400, 70_000},
	{Slots, 60 << 10, 100, 4096},
}

// turns is whose history comes when, by index of shapes: all of them first, then in turn
// with those again whose operations cost a tenth of the others', so that a long run has
// many of every kind.
var turns = []int{0, 1, 2, 3, 4, 5, 6, 4, 1, 3, 4, 0, 1, 4, 2, 4, 3, 1, 4, 0, 4, 1, 3, 4, 2, 1, 4, 3, 4, 0, 1, 4, 3, 4}

func newModel(sh shape, seed uint64) (*model, error) { return newModelIn("", sh, seed) }

func newModelIn(file string, sh shape, seed uint64) (*model, error) {
	m := &model{
		file:  file,
		clock: 1_000_000, slots: modelSlots, space: sh.space, policy: DefaultPolicy, limit: 60 << 10,
		keys: map[uint16]map[string]*known{}, serving: map[uint16]bool{}, windows: map[uint16]*modelWindow{},
	}
	m.policies = Policies()
	switch seed % 4 {
	case 0:
		m.custom = whims{}
		m.policy, m.policies = PolicyCustom, append(m.policies, PolicyCustom, PolicyCustom)
	case 1, 2:
		m.classes = []Class{{Prefix: "0/1", Rank: 5, Quota: 3000}, {Prefix: "1/", Rank: -3}, {Prefix: "130/2", Quota: 500}, {Rank: 1}}
		m.policies = append(m.policies, "priority", "priority")
	}
	for _, s := range m.slots {
		m.keys[s], m.windows[s] = map[string]*known{}, &modelWindow{}
	}
	return m, m.open(sh, seed)
}

// open starts the model's engine, on its file if it has one.
func (m *model) open(sh shape, seed uint64) error {
	e, err := New(Options{
		Now: func() int64 { return m.clock }, Shards: sh.shards, Seed: seed, NoBackground: true,
		MaxValue: sh.maxValue, MaxKey: 64, MaxBytes: sh.laidOut, File: m.file, Policy: m.policy,
		Custom: m.custom, Classes: m.classes,
	})
	if err != nil {
		return err
	}
	if err := e.SetMaxBytes(m.limit); err != nil {
		return err
	}
	m.e, m.shape = e, sh
	m.feeds = make([]*Feed, sh.shards)
	for _, slot := range m.slots {
		if i := e.ShardOf(slot); m.feeds[i] == nil {
			if m.feeds[i], err = e.Subscribe(i, nil, 1<<13); err != nil {
				return err
			}
		}
	}
	return nil
}

// restart ends the engine and starts another on its file. What is not served
// does not come back, and a clock that was set back meanwhile goes on from the
// end.
func (m *model) restart(ahead int64) error {
	m.limit = 60 << 10
	if err := m.e.SetMaxBytes(m.limit); err != nil {
		return err
	}
	if err := m.settle(); err != nil { // what is evicted has to be seen
		return err
	}
	var kept int64
	for _, slot := range m.slots {
		if !m.serving[slot] {
			clear(m.keys[slot])
		}
		kept += int64(len(m.keys[slot]))
		m.windows[slot] = &modelWindow{}
	}
	end := m.clock
	k, err := m.e.CloseWith(CloseOptions{})
	if err != nil {
		return err
	}
	m.clock += ahead
	if err := m.open(m.shape, 0); err != nil {
		return err
	}
	if ahead < 0 {
		if now := m.e.Now(); now != end {
			return fmt.Errorf("the time is %d, it ended at %d", now, end)
		}
		m.clock = end
		m.e.now = func() int64 { return m.clock } // of which the model is the source again
	}
	if a := m.e.Attachment(); k.Entries != kept || a.Entries != kept || a.Empty != "" && kept > 0 {
		return fmt.Errorf("%d entries, kept %+v, found %+v", kept, k, a)
	}
	m.count, m.scanning, m.owed = counters{}, false, nil
	for slot, on := range m.serving {
		m.e.SetServing(slot, on)
	}
	return m.settle()
}

func id(slot uint16, key string) string { return fmt.Sprint(slot, "/", key) }

func slotOf(key string) uint16 {
	slot, _, _ := strings.Cut(key, "/")
	n, _ := strconv.Atoi(slot)
	return uint16(n)
}

func (m *model) gone(k *known) bool { return k.deadline != 0 && m.clock > k.deadline }

// live returns the key if it is present and its time has not passed.
func (m *model) live(slot uint16, key string) *known {
	if k := m.keys[slot][key]; k != nil && !m.gone(k) {
		return k
	}
	return nil
}

func (m *model) touch(slot uint16, key string) {
	w := m.windows[slot]
	if w.touched == nil || w.touched[key] {
		return
	}
	if len(w.touched) == w.max {
		w.touched, w.full = nil, true
		return
	}
	w.touched[key] = true
}

func (m *model) want(kind EventKind, slot uint16, key string, deadline int64) {
	m.expect = append(m.expect, Event{Kind: kind, Slot: slot, Key: []byte(key), Deadline: deadline})
}

func (m *model) forget(slot uint16, key string) {
	delete(m.keys[slot], key)
	delete(m.owed, key)
}

// settle replays the feeds after an operation.
func (m *model) settle() error {
	for shard, f := range m.feeds {
		if f == nil {
			continue
		}
		m.buf = m.buf[:0]
		var lost uint64
		m.buf, lost = f.Read(m.buf, math.MaxInt)
		if lost != 0 {
			return fmt.Errorf("feed of shard %d lost %d events", shard, lost)
		}
		for _, ev := range m.buf {
			if err := m.replay(shard, ev); err != nil {
				return fmt.Errorf("shard %d event %d %v slot %d key %q: %w", shard, ev.Number, ev.Kind, ev.Slot, ev.Key, err)
			}
		}
	}
	if len(m.expect) > 0 {
		return fmt.Errorf("%d events are missing, first %v slot %d key %q", len(m.expect), m.expect[0].Kind, m.expect[0].Slot, m.expect[0].Key)
	}
	victims := m.victims
	m.writing, m.redated, m.victims = "", nil, 0
	if err := m.checkRoom(victims); err != nil {
		return err
	}
	if used := m.e.used.Load(); m.policy != "noeviction" && m.limit > 0 && used > m.limit {
		return fmt.Errorf("%d bytes used, limit %d", used, m.limit)
	}
	return nil
}

func (m *model) replay(shard int, ev Event) error {
	k := m.keys[ev.Slot][string(ev.Key)]
	switch ev.Kind {
	case EventExpire:
		if k == nil || !m.gone(k) {
			return fmt.Errorf("the key is not expired (now %d)", m.clock)
		}
		m.count.expired++
	case EventEvict:
		if k == nil || m.gone(k) {
			return errors.New("the key is absent or expired")
		}
		if m.policy == "noeviction" {
			return errors.New("the policy is noeviction")
		}
		if n := m.e.shards[shard].keys.Load(); string(ev.Key) == m.writing && m.inShard(shard) > 1 {
			return fmt.Errorf("the key being written was evicted, %d others were there, %d are", m.inShard(shard)-1, n)
		}
		m.count.evicted++
		m.victims++
	default:
		at := slices.IndexFunc(m.expect, func(w Event) bool {
			return w.Kind == ev.Kind && w.Slot == ev.Slot && w.Deadline == ev.Deadline && bytes.Equal(w.Key, ev.Key)
		})
		if at < 0 && ev.Kind == EventWrite && k == nil && m.redated != nil {
			// The record that gets a deadline was the last to evict for it.
			at = slices.IndexFunc(m.expect, func(w Event) bool { return w.Kind == EventTTL && bytes.Equal(w.Key, ev.Key) })
			m.keys[ev.Slot][string(ev.Key)] = m.redated
		}
		if at < 0 {
			return fmt.Errorf("unexpected (expected %v)", m.expect)
		}
		m.expect = slices.Delete(m.expect, at, at+1)
		return nil
	}
	m.touch(ev.Slot, string(ev.Key))
	m.forget(ev.Slot, string(ev.Key))
	return nil
}

// put is what a successful write does.
func (m *model) put(slot uint16, key string, value []byte, deadline int64) {
	m.keys[slot][key] = &known{bytes.Clone(value), deadline, m.formIn(slot, deadline), m.clock}
	m.touch(slot, key)
}

func (m *model) checkItem(key string, it Item, k *known, value bool) error {
	if value && !bytes.Equal(it.Value, k.value) {
		return fmt.Errorf("value %q, want %q", it.Value, k.value)
	}
	if it.Size != len(k.value) || it.Deadline != k.deadline || it.LastAccess != m.clock-(m.clock/1000-k.access/1000)&(1<<timeBits-1)*1000 || it.Bytes != m.chargeOf(key, k) {
		return fmt.Errorf("item %+v, want size %d deadline %d access %d bytes %d", it, len(k.value), k.deadline, k.access, m.chargeOf(key, k))
	}
	return nil
}

// set runs write and compares. It settles itself, since evictions come before
// the write in the model too.
func (m *model) set(slot uint16, key string, value []byte, deadline int64, write func() error) error {
	before := m.live(slot, key)
	past := deadline != 0 && m.clock > deadline
	m.writing = key
	err := write()
	switch {
	case errors.Is(err, errs.ErrTooLarge):
		if len(key) <= m.e.MaxKey() && len(value) <= m.e.MaxValue() {
			return fmt.Errorf("set: %w", err)
		}
		return m.settle()
	case errors.Is(err, errs.ErrNoMemory):
		if past {
			return fmt.Errorf("set: %w", err)
		}
		if err := m.refused(slot, key, len(value), deadline, err); err != nil {
			return err
		}
		if err := m.settle(); err != nil {
			return err
		}
		if before != nil && m.live(slot, key) != before {
			return errors.New("a failed set lost the old value")
		}
		return nil
	case err != nil:
		return err
	case past:
		if before != nil {
			m.want(EventDelete, slot, key, before.deadline)
			m.count.deleted++
		}
		if err := m.settle(); err != nil {
			return err
		}
		m.touch(slot, key)
		m.forget(slot, key)
		return nil
	}
	m.count.sets++
	if before == nil {
		if err := m.stored(slot, key, len(value), deadline); err != nil {
			return err
		}
	}
	m.want(EventWrite, slot, key, deadline)
	if err := m.settle(); err != nil {
		return err
	}
	m.put(slot, key, value, deadline)
	return nil
}
