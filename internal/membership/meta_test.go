package membership

import (
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

func TestMetaRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := topology.Member{
			ID:       topology.NodeID{1, 2, 3},
			Boot:     rapid.Uint64().Draw(t, "boot"),
			Sequence: rapid.Uint64Max(1<<42-1).Draw(t, "sequence"),
			State:    topology.State(rapid.IntRange(0, int(topology.Left)).Draw(t, "state")),
			Weight:   rapid.OneOf(rapid.SampledFrom([]float64{0, 0.5, 1, 100}), rapid.Float64Range(0, 100)).Draw(t, "weight"),
			Progress: rapid.OneOf(rapid.SampledFrom([]float64{0, 1}), rapid.Float64Range(0, 1)).Draw(t, "progress"),
			Port:     rapid.Uint16Min(1).Draw(t, "port"),
			Host:     rapid.SampledFrom([]string{"10.0.0.1", "fd00::1", "cache-0.cache.svc"}).Draw(t, "host"),
			Zone:     rapid.StringMatching(`[a-z0-9-]{0,15}`).Draw(t, "zone"),
			Gossip:   rapid.SampledFrom([]string{"10.0.0.1:17001", "[fd00::1]:17001"}).Draw(t, "gossip"),
		}
		m.OldWeight = rapid.OneOf(rapid.SampledFrom([]float64{m.Weight, 0, 0.1, 100}), rapid.Map(rapid.Float64Range(0, 100), ring.RoundWeight)).Draw(t, "old weight")
		m = m.Canonical()
		if err := checkMeta(&m, ipOf(m.Gossip)); err != nil {
			t.Fatal(err)
		}
		b := appendMeta(nil, &m, ipOf(m.Gossip))
		if len(b) > MaxMeta {
			t.Fatalf("%d bytes, limit %d", len(b), MaxMeta)
		}
		got, err := decodeMeta(nodeName(m.ID, m.Boot), m.Gossip, append(b, "later fields"...))
		if err != nil || got != m {
			t.Fatalf("got  %+v, %v\nwant %+v", got, err, m)
		}
	})
}

func TestMetaLimits(t *testing.T) {
	good := topology.Member{ID: topology.NodeID{1}, Weight: 1, Host: "10.0.0.1", Port: 7001}
	for _, tc := range []struct {
		name   string
		change func(*topology.Member)
		says   []string // nil: accepted
	}{
		{"longest host and zone", func(m *topology.Member) { m.Host, m.Zone = strings.Repeat("h", 30), strings.Repeat("z", 14) }, nil},
		{"the gossip IP takes no room", func(m *topology.Member) { m.Zone = strings.Repeat("z", 32) }, nil},
		{"one byte more", func(m *topology.Member) { m.Host, m.Zone = strings.Repeat("h", 31), strings.Repeat("z", 14) },
			[]string{"31 bytes", "has 14", "may have 44"}},
		{"a weight takes eight bytes", func(m *topology.Member) { m.Host, m.Zone, m.Weight = strings.Repeat("h", 30), "zzzzzzz", 2 },
			[]string{"may have 36"}},
		{"an old weight takes four more", func(m *topology.Member) {
			m.State, m.Host, m.Zone, m.Weight, m.OldWeight, m.Progress = topology.Active, strings.Repeat("h", 30), "zzz", 2, 1, 0.5
		}, []string{"may have 32"}},
		{"two weights fit", func(m *topology.Member) {
			m.State, m.Host, m.Zone, m.Weight, m.OldWeight, m.Progress = topology.Active, strings.Repeat("h", 30), "zz", 2, 1, 0.5
		}, nil},
		{"old weight", func(m *topology.Member) { m.OldWeight = 101 }, []string{"old weight is 101"}},
		{"an old weight of the ninth digit", func(m *topology.Member) { m.State, m.OldWeight, m.Progress = topology.Active, 0.123456789, 0.5 }, []string{"multiple of a millionth"}},
		{"zone", func(m *topology.Member) { m.Zone = strings.Repeat("z", 33) }, []string{"zone", "33", "32"}},
		{"space in host", func(m *topology.Member) { m.Host = "a b" }, []string{"spaces"}},
		{"no port", func(m *topology.Member) { m.Port = 0 }, []string{"incomplete"}},
		{"weight", func(m *topology.Member) { m.Weight = math.NaN() }, []string{"weight"}},
		{"progress", func(m *topology.Member) { m.Progress = 1.1 }, []string{"progress"}},
		{"state", func(m *topology.Member) { m.State = 9 }, []string{"state"}},
		{"no ID", func(m *topology.Member) { m.ID = topology.NodeID{} }, []string{"zero"}},
		{"sequence", func(m *topology.Member) { m.Sequence = 1 << 42 }, []string{"sequence"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := good
			tc.change(&m)
			err := checkMeta(&m, "10.0.0.1")
			if (err != nil) != (tc.says != nil) || err != nil && !errors.Is(err, errs.ErrConfig) {
				t.Fatal(err)
			}
			for _, part := range tc.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			// The worst that can follow from an accepted entry still fits.
			m.Progress, m.Sequence = 0.3, 1<<42-1
			if n := len(appendMeta(nil, &m, "10.0.0.1")); err == nil && n > MaxMeta {
				t.Errorf("grows to %d bytes", n)
			}
		})
	}
}

// A version that does not know the old weight takes the new one at once: what it reads
// is what would be there without an old one. From such a version comes an entry without.
func TestMetaOfFormerVersions(t *testing.T) {
	m := topology.Member{ID: topology.NodeID{1}, State: topology.Active, Weight: 2, OldWeight: 0.5, Progress: 0.25, Host: "cache-0", Zone: "eu", Port: 7001, Sequence: 300}
	name := nodeName(m.ID, 77)
	long := appendMeta(nil, &m, "10.0.0.1")
	m.OldWeight = m.Weight
	short := appendMeta(nil, &m, "10.0.0.1")
	if long[1] != short[1]|flagOldWeight || long[0] != short[0] || string(long[2:len(short)]) != string(short[2:]) || len(long) != len(short)+4 {
		t.Fatalf("%x\nis read as another member than\n%x", long, short)
	}
	for _, tc := range []struct {
		b    []byte
		want float64
	}{{long, 0.5}, {short, 2}} {
		if got, err := decodeMeta(name, "10.0.0.1:17001", tc.b); err != nil || got.OldWeight != tc.want || got.Weighing() != (tc.want == 0.5) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := decodeMeta(name, "10.0.0.1:17001", long[:len(long)-1]); err == nil {
		t.Error("an old weight of three bytes is read")
	}
}

// FuzzMeta holds that nothing decoded can spoil a View, and that decoding what
// was encoded again gives the same.
func FuzzMeta(f *testing.F) {
	m := topology.Member{ID: topology.NodeID{1}, Weight: 2.5, Progress: 0.5, Host: "cache-0", Zone: "eu", Port: 7001, Sequence: 300}
	name := nodeName(m.ID, 77)
	f.Add(name, appendMeta(nil, &m, "10.0.0.1"))
	m.Host, m.Weight, m.Progress = "10.0.0.1", 1, 1
	f.Add(name, appendMeta(nil, &m, "10.0.0.1"))
	m = topology.Member{ID: m.ID, State: topology.Active, Weight: 2, OldWeight: 0.5, Progress: 0.25, Host: "cache-0", Port: 7001, Sequence: 300}
	f.Add(name, appendMeta(nil, &m, "10.0.0.1"))
	f.Add(name, []byte{0x12, 0x0B, 0x01, 0x1b, 0x59, 0xff, 'x'})
	f.Add(name[:40], []byte{})
	f.Add(strings.Repeat("-", nameLength), []byte{0x10})
	f.Fuzz(func(t *testing.T, name string, b []byte) {
		m, err := decodeMeta(name, "10.0.0.1:17001", b)
		if err != nil {
			return
		}
		if _, err := topology.NewView(topology.Params{}, nil, []topology.Member{m}, nil); err != nil {
			t.Fatalf("decoded an entry that no View accepts: %v", err)
		}
		again, err := decodeMeta(nodeName(m.ID, m.Boot), "10.0.0.1:17001", appendMeta(nil, &m, "10.0.0.1"))
		if err != nil || again != m {
			t.Fatalf("%+v became %+v, %v", m, again, err)
		}
	})
}

func TestHintRoundTrip(t *testing.T) {
	name := nodeName(topology.NodeID{9}, 1<<60)
	b := appendHint(nil, topology.NodeID{3}, name)
	from, about, ok := decodeHint(append(b, "more"...))
	if !ok || from != (topology.NodeID{3}) || about != name {
		t.Errorf("%v %v %v", from, about, ok)
	}
	for _, bad := range [][]byte{nil, b[:len(b)-1], append([]byte{2}, b[1:]...), append(b[:30:30], make([]byte, 60)...)} {
		if _, _, ok := decodeHint(bad); ok {
			t.Errorf("%q was taken", bad)
		}
	}
}
