package topology

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/ring"
)

func TestEncodingRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Params{Placement: rapid.SampledFrom(ring.Names()).Draw(t, "placement"),
			Tokens: rapid.IntRange(1, 64).Draw(t, "tokens"), Bound: rapid.Float64Range(1, 9).Draw(t, "bound")}
		v := mustView(t, p, drawMembers(t, "state"), drawPins(t)...)
		b := v.AppendBinary([]byte("before"))
		if !bytes.HasPrefix(b, []byte("before")) {
			t.Fatal("AppendBinary does not append")
		}
		b = b[len("before"):]
		if xxh3.Hash(b) != v.Hash() {
			t.Fatal("the hash is not that of the encoding")
		}
		params, members, pins, err := DecodeView(b)
		if err != nil {
			t.Fatal(err)
		}
		back := mustView(t, params, members, pins...)
		if diff := cmp.Diff(v.Members(), back.Members()); diff != "" || back.Params() != p {
			t.Fatalf("%v: members differ: %s", params, diff)
		}
		if back.Hash() != v.Hash() || !slices.Equal(back.Pins(), v.Pins()) || back.owners != v.owners {
			t.Fatal("the decoded view is another one")
		}
	})
}

// Peers of another build must understand these bytes.
func TestEncodingNeverChanges(t *testing.T) {
	m := testMember(1)
	for _, tc := range []struct {
		old  float64
		want uint64
	}{{1, 0xd82eeb24012bc8de}, {0.5, 0x9697c1bcf39516ce}} {
		m.Progress, m.OldWeight = 0.5, tc.old
		v := mustView(t, Params{}, []Member{m, testMember(2)}, ring.Pin{Slot: 3, Node: m.ID.String()})
		if v.Hash() != tc.want {
			t.Errorf("hash %#x, want %#x; encoding %x", v.Hash(), tc.want, v.AppendBinary(nil))
		}
	}
}

// A version that does not know the old weight reads what comes before it and skips the
// rest; from such a version comes a member without it.
func TestOldWeightIsAppended(t *testing.T) {
	m := testMember(1)
	m.Weight, m.OldWeight, m.Progress = 3, 0, 0.5
	long := appendMember(nil, &m)
	m.OldWeight = m.Weight
	short := appendMember(nil, &m)
	if !bytes.HasPrefix(long, short) || len(long) != len(short)+8 {
		t.Fatalf("%x\nis not the beginning of\n%x", short, long)
	}
	for _, tc := range []struct {
		b    []byte
		want float64
	}{{long, 0}, {short, 3}} {
		var got Member
		d := decoder{rest: tc.b}
		if d.member(&got); d.err != nil || got.OldWeight != tc.want || got.Weight != 3 || got.Weighing() != (tc.want != 3) {
			t.Errorf("%+v, %v", got, d.err)
		}
	}
	m.State = Warming // a weight of before has a meaning only where it changes
	if got := mustView(t, Params{}, []Member{m}).Member(0).OldWeight; got != 0 {
		t.Errorf("old weight of a warming member: %v", got)
	}
}

func TestHashTellsViewsApart(t *testing.T) {
	base := func() ([]Member, []ring.Pin) {
		return testMembers(2), []ring.Pin{{Slot: 1, Node: testMember(1).ID.String()}}
	}
	seen := map[uint64]string{}
	for name, change := range map[string]func(p *Params, m *Member, pin *ring.Pin){
		"nothing":    func(*Params, *Member, *ring.Pin) {},
		"placement":  func(p *Params, _ *Member, _ *ring.Pin) { p.Placement = ring.NameModulo },
		"tokens":     func(p *Params, _ *Member, _ *ring.Pin) { p.Tokens = 161 },
		"bound":      func(p *Params, _ *Member, _ *ring.Pin) { p.Bound = 1.06 },
		"id":         func(_ *Params, m *Member, _ *ring.Pin) { m.ID[5]++ },
		"boot":       func(_ *Params, m *Member, _ *ring.Pin) { m.Boot++ },
		"sequence":   func(_ *Params, m *Member, _ *ring.Pin) { m.Sequence += 9 },
		"state":      func(_ *Params, m *Member, _ *ring.Pin) { m.State = Draining },
		"weight":     func(_ *Params, m *Member, _ *ring.Pin) { m.Weight = 2 },
		"progress":   func(_ *Params, m *Member, _ *ring.Pin) { m.State, m.Progress = Warming, 0.1 },
		"on the way": func(_ *Params, m *Member, _ *ring.Pin) { m.OldWeight, m.Progress = 1, 0.25 },
		"old weight": func(_ *Params, m *Member, _ *ring.Pin) { m.OldWeight, m.Progress = 0.5, 0.25 },
		"zone":       func(_ *Params, m *Member, _ *ring.Pin) { m.Zone = "z2" },
		"host":       func(_ *Params, m *Member, _ *ring.Pin) { m.Host = "h" },
		"port":       func(_ *Params, m *Member, _ *ring.Pin) { m.Port++ },
		"gossip":     func(_ *Params, m *Member, _ *ring.Pin) { m.Gossip = "" },
		"pin slot":   func(_ *Params, _ *Member, pin *ring.Pin) { pin.Slot++ },
		"pin node":   func(_ *Params, _ *Member, pin *ring.Pin) { pin.Node = testMember(2).ID.String() },
	} {
		var p Params
		members, pins := base()
		change(&p, &members[0], &pins[0])
		h := mustView(t, p, members, pins...).Hash()
		if other, ok := seen[h]; ok {
			t.Errorf("a change of %q gives the hash of %q", name, other)
		}
		seen[h] = name
	}
}

// Negative zero and upper-case pins are the same values, so the same view.
func TestOneViewOneEncoding(t *testing.T) {
	m := testMember(1)
	m.Weight = 0
	a := mustView(t, Params{}, []Member{m}, ring.Pin{Slot: 1, Node: m.ID.String()}, ring.Pin{Slot: 0, Node: m.ID.String()})
	m.Weight, m.Progress = math.Copysign(0, -1), math.Copysign(0, -1)
	b := mustView(t, Params{Tokens: 160}, []Member{m},
		ring.Pin{Slot: 0, Node: m.ID.String()},
		ring.Pin{Slot: 0, Node: strings.ToUpper(m.ID.String())}, ring.Pin{Slot: 1, Node: m.ID.String()})
	if a.Hash() != b.Hash() {
		t.Errorf("encodings differ:\n%x\n%x", a.AppendBinary(nil), b.AppendBinary(nil))
	}
}

func TestDecodeSkipsLaterFields(t *testing.T) {
	m := testMember(1)
	record := append(appendMember(nil, &m), "a later field"...)
	b := appendView(nil, Params{}.WithDefaults(), nil, nil)
	b = b[:len(b)-2] // without the two counts
	b = binary.AppendUvarint(b, 1)
	b = append(binary.AppendUvarint(b, uint64(len(record))), record...)
	b = binary.AppendUvarint(b, 1)
	b = append(append(b, 0x3F, 0xFF), m.ID[:]...)
	b = append(b, "more of the view"...)
	_, members, pins, err := DecodeView(b)
	if err != nil {
		t.Fatal(err)
	}
	if want := []Member{m}; !slices.Equal(members, want) {
		t.Errorf("members %v, want %v", members, want)
	}
	if want := []ring.Pin{{Slot: ring.Slots - 1, Node: m.ID.String()}}; !slices.Equal(pins, want) {
		t.Errorf("pins %v, want %v", pins, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole := mustView(t, Params{}, testMembers(2), ring.Pin{Slot: 1, Node: testMember(1).ID.String()}).AppendBinary(nil)
	for n := range whole {
		if _, members, _, err := DecodeView(whole[:n]); !errors.Is(err, errs.ErrProtocol) || members != nil {
			t.Errorf("the first %d of %d bytes: error %v, want ErrProtocol", n, len(whole), err)
		}
	}
	header := func() []byte {
		b := appendView(nil, Params{}.WithDefaults(), nil, nil)
		return b[:len(b)-2]
	}
	m := testMember(1)
	m.Host = strings.Repeat("h", MaxHost+1)
	record := appendMember(nil, &m)
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"version 2":           {append([]byte{2}, whole[1:]...), "version 2, this node speaks 1"},
		"too many members":    {binary.AppendUvarint(header(), MaxMembers+1), "members is 1001, limit 1000"},
		"members not there":   {binary.AppendUvarint(header(), MaxMembers), "truncated"},
		"pins not there":      {binary.AppendUvarint(append(header(), 0), ring.Slots), "truncated"},
		"too many pins":       {binary.AppendUvarint(append(header(), 0), maxViewPins+1), "pins is 81921, limit 81920"},
		"long host":           {append(binary.AppendUvarint(append(header(), 1), uint64(len(record))), record...), "length of host is 254, limit 253"},
		"endless varint":      {append(header(), bytes.Repeat([]byte{0xFF}, 20)...), "truncated"},
		"long placement name": {append([]byte{1, 33}, bytes.Repeat([]byte{'p'}, 60)...), "length of placement is 33, limit 32"},
	} {
		if _, _, _, err := DecodeView(c.b); !errors.Is(err, errs.ErrProtocol) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestDecodeSetsNoMemoryAsideForAHeader(t *testing.T) {
	b := appendView(nil, Params{}.WithDefaults(), nil, nil)
	b = append(binary.AppendUvarint(b[:len(b)-2], MaxMembers), make([]byte, 100)...)
	n := testing.AllocsPerRun(20, func() {
		if _, _, _, err := DecodeView(b); err == nil {
			t.Error("no error")
		}
	})
	if n > 20 {
		t.Errorf("%v allocations for a lying header", n)
	}
}

func FuzzDecodeView(f *testing.F) {
	f.Fuzz(func(t *testing.T, b []byte) {
		p, members, pins, err := DecodeView(b)
		if err != nil {
			if !errors.Is(err, errs.ErrProtocol) || members != nil || pins != nil {
				t.Fatalf("error %v with %d members", err, len(members))
			}
			return
		}
		if p.Tokens > 200 || len(members) > 20 {
			return // keep placement quick
		}
		v, err := NewView(p, nil, members, pins)
		if err != nil {
			return
		}
		encoded := v.AppendBinary(nil)
		p, members, pins, err = DecodeView(encoded)
		if err != nil {
			t.Fatalf("own encoding refused: %v", err)
		}
		if back := mustView(t, p, members, pins...); back.Hash() != v.Hash() {
			t.Fatalf("hash %x becomes %x", v.Hash(), back.Hash())
		}
	})
}
