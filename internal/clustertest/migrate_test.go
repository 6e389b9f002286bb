package clustertest

import (
	"strings"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/operate"
)

// TestMigrate: a pause holds the transfer of keys and not the slots; every member tells
// of what runs at any, until it is resumed and done. All of it stands in the events.
func TestMigrate(t *testing.T) {
	simulate(t, func(t *testing.T, s *Sim) {
		s.Add("a", "a")
		s.Add("b", "a")
		s.Settled(watched()...)
		fill(t, s, s.Get("a"), s.Get("b"))
		wantText(t, s.Do("a", "RING", "MIGRATE", "RATE", "500"), "OK")
		plan := ringOf[operate.Plan](t, s, "b", "PLAN", "WEIGHT", "b:7001", "0.1")
		if plan.KeysLimit != 500 || plan.DurationMS < 10_000 || plan.Origin.Expected != plan.Origin.Now {
			t.Errorf("%+v", plan)
		}
		wantText(t, s.Do("a", "RING", "MIGRATE", "PAUSE"), "OK")
		// a takes about 6,700 slots, each with a key, an eighth of them by the first step.
		wantText(t, s.Do("a", "RING", "WEIGHT", "b:7001", "0.1"), "OK")
		pass(20 * time.Second)
		s.Settled(watched()...)
		find := func(at, kind string) *operate.Change {
			t.Helper()
			for _, c := range ringOf[[]operate.Change](t, s, at, "CHANGES") {
				if c.Kind == kind {
					return &c
				}
			}
			return nil
		}
		for _, at := range []string{"a", "b"} {
			gain, cede, weight := find(at, "gain"), find(at, "cede"), find(at, "weight")
			if gain == nil || cede == nil || weight == nil {
				t.Fatalf("%s knows of the changes %+v, %+v and %+v", at, gain, cede, weight)
			}
			if weight.Percent != 12.5 || weight.Addr != "b:7001" {
				t.Errorf("a step was taken while all transfers are paused: %+v", weight)
			}
			if gain.Addr != "a:7001" || gain.PeerAddr != "b:7001" || cede.Addr != "b:7001" || cede.PeerAddr != "a:7001" || !gain.Paused || gain.ETAMS != -1 ||
				gain.Keys != 0 || cede.Left < 300 || cede.Left > 3000 || gain.BeganMS == 0 {
				t.Errorf("%+v\n%+v", gain, cede)
			}
		}
		st := ringOf[operate.Status](t, s, "b", "STATUS")
		if st.State != operate.StateChanging || !st.Paused || st.Changes < 2 {
			t.Errorf("%+v", st)
		}
		wantText(t, s.Do("b", "RING", "MIGRATE", "RESUME"), "OK")
		pass(500 * time.Millisecond)
		gain := find("b", "gain")
		if gain == nil || gain.Keys < 100 || gain.Keys > 400 || gain.Percent <= 5 || gain.Percent >= 90 || gain.ETAMS <= 0 || gain.Rate < 200 || gain.Paused {
			t.Errorf("%+v", gain)
		}
		wantText(t, s.Do("b", "RING", "MIGRATE", "RATE", "100000"), "OK")
		settled(t, s, "b")
		if st := ringOf[operate.Status](t, s, "b", "STATUS"); st.State != operate.StateOK || st.Changes != 0 || st.Keys != 16384 {
			t.Errorf("%+v", st)
		}
		var text strings.Builder
		for _, e := range ringOf[[]operate.Event](t, s, "a", "EVENTS", "1000") {
			text.WriteString(e.Kind + " " + e.Addr + " " + e.Text + "\n")
		}
		for _, want := range []string{"migrate a:7001 pause", "migrate a:7001 resume", "migrate a:7001 rate 100000", "change b:7001 the content of ", "slots is taken over from it", "slots was taken over from it: "} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("no event %q in:\n%s", want, text.String())
			}
		}
	})
}
