package node

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/command"
	"github.com/ringcache/ringcache/internal/handoff"
	"github.com/ringcache/ringcache/internal/resp"
)

func TestAgreementRoundTrip(t *testing.T) {
	some, more := []handoff.Range{{First: 0, Last: 5}, {First: 9, Last: 9}}, []handoff.Range{{First: 16383, Last: 16383}}
	for _, v := range []handoff.Verdict{
		{},
		{Served: some},
		{Kept: more},
		{Served: some, Kept: more},
		{Offers: []handoff.Offer{{Ask: 7, Ranges: some}}, OfferedKeys: 12},
		{Served: some, Kept: more, Offers: []handoff.Offer{{Ask: 7, Ranges: some}, {Ask: 18446744073709551615, Ranges: more}}},
		{Served: some, Offers: []handoff.Offer{{Ask: 7, Ranges: some}}, Sealed: handoff.Sealed{Slots: some}},
		{Offers: []handoff.Offer{{Ask: 7, Ranges: some}}, Sealed: handoff.Sealed{Slots: some,
			Behind: []handoff.SlotKey{{Slot: 5, Key: []byte("a b:\r\n\x00")}, {Slot: 9, Key: []byte{}}, {Slot: 9, Key: []byte("=")}}}},
	} {
		text := agreement(&v)
		got, err := parseAgreement(text)
		if want := (handoff.Answer{Agreed: true, Served: v.Served, Kept: v.Kept, Offers: v.Offers, Sealed: v.Sealed}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is read as %+v (%v)", text, got, err)
		}
	}
	for text, good := range map[string]bool{
		"": false, "NO": false, "OK": true, "OK 5-4": false, "OK KEPT 16384": false, "OK CEDED 1 2 x": false,
		"OK LATER 5": true, "OK 1-2 KEPT 1 CEDED 4 7 1 LATER 5": true, // words of later versions
	} {
		if _, err := parseAgreement(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
	// A key that cannot be read makes what was said of copies void; so does too much.
	for _, text := range []string{"OK CEDED 1 7 1 SEALED 1 1:!", "OK CEDED 1 7 1 SEALED 1 1:YQ x:YQ", "OK CEDED 1 7 1 SEALED 1 YQ", "OK CEDED 1 7 1 SEALED 1 1:YQ LATER 5"} {
		if a, err := parseAgreement(text); err != nil || len(a.Offers) != 1 || len(a.Sealed.Slots) != 0 {
			t.Errorf("%q is read as %+v (%v)", text, a, err)
		}
	}
	long := handoff.Verdict{Offers: []handoff.Offer{{Ask: 7, Ranges: some}}, Sealed: handoff.Sealed{Slots: some, Behind: []handoff.SlotKey{{Slot: 5, Key: make([]byte, 48<<10)}}}}
	if text := agreement(&long); len(text) > agreementMost || strings.Contains(text, sealedCopies) {
		t.Errorf("an answer of %d bytes", len(text))
	}
}

// TestTakeRefusesNonsense: a peer is proven, but may be of another version.
func TestTakeRefusesNonsense(t *testing.T) {
	n := alone(t, nil)
	for _, line := range []string{
		"rc.take x 1 1 k", "rc.take 16384 1 1 k", "rc.take 1 -1 1 k", "rc.take 1 1 1" + strings.Repeat(" k", handoff.MaxTake+1), "rc.take 1 1 1 k",
		"rc.takemany 1 1 1 1 1", "rc.takemany 1 1 1 x 1 1", "rc.takemany 1 1 1 1 16384 1", "rc.taken x 1", "rc.taken 1 16384",
		"rc.have x 1 1 k", "rc.have 16384 1 1 k", "rc.have 1 1 1" + strings.Repeat(" k", handoff.MaxTake+1), "rc.have 1 1 1 k",
	} {
		var args [][]byte
		for _, f := range strings.Fields(line) {
			args = append(args, []byte(f))
		}
		w := resp.Writer{Proto: 2}
		n.takeCommand(n.id, command.Lookup(args[0]), args, &w)
		if len(w.Buf) == 0 || w.Buf[0] != '-' {
			t.Errorf("%.40s: %q", line, w.Buf)
		}
	}
	// What is not ceded is told for each slot.
	w := resp.Writer{Proto: 2}
	n.takeCommand(n.id, command.ByID(command.RCTakeMany), [][]byte{[]byte("rc.takemany"), []byte("1"), []byte("9"), []byte("9"), []byte("9"), []byte("5"), []byte("1")}, &w)
	if string(w.Buf) != "*1\r\n*2\r\n:5\r\n:-1\r\n" {
		t.Errorf("%q", w.Buf)
	}
}

func TestWarmRates(t *testing.T) {
	n := alone(t, func(o *Options) { o.WarmRate = 123 })
	for _, tc := range [][3]string{{"warm-rate", "77", "77"}, {"warm-bytes", "2mb", "2097152"}, {"warm-rate", "0", "5000"}} {
		if v := run(t, n, 2, "CONFIG", "SET", tc[0], tc[1]); v.Text() != "OK" {
			t.Errorf("%v: %q", tc, v.Text())
		}
		if v := run(t, n, 2, "CONFIG", "GET", tc[0]); len(v.Elems) != 2 || v.Elems[1].Text() != tc[2] {
			t.Errorf("%v: %v", tc, v)
		}
	}
	for _, bad := range []string{"-1", "x", "2147483648"} {
		if v := run(t, n, 2, "CONFIG", "SET", "warm-rate", bad); v.Kind != resp.Error {
			t.Errorf("%s: %q", bad, v.Text())
		}
	}
}

func TestPressure(t *testing.T) {
	var n Node
	for _, tc := range []struct {
		pulls, commands uint64
		want            float64
	}{{0, 0, 0}, {5, 100, 0.05}, {5, 200, 0}, {8, 200, 1}, {108, 250, 1}} {
		n.pressure.look(tc.pulls, tc.commands)
		if got := n.missPressure(); got < tc.want-1e-5 || got > tc.want+1e-5 {
			t.Errorf("after %d of %d requests: %g, want %g", tc.pulls, tc.commands, got, tc.want)
		}
	}
}
