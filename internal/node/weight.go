package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/operate"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

// weightFile keeps a weight that was set at run time in the data directory.
const weightFile = "weight.json"

// setWeight is a weight that was set at run time.
type setWeight struct {
	Weight float64 `json:"weight"`
	// Configured is what the configuration said then. Where it says something else
	// now, somebody has changed it since, and that is the later word.
	Configured float64 `json:"configured"`
}

// ownWeight is where this node's weight comes from.
type ownWeight struct {
	path       string // file that keeps it; "": none
	configured float64

	order sync.Mutex // held by SetWeight: the weight that is kept is the one that is set last

	mu   sync.Mutex
	set  *setWeight // nil: the weight is that of the configuration
	kept bool       // set is in the file
}

// open returns the weight to start with: the configured one, or the one that was set
// at run time while the configuration said the same as now. note is for the log. With
// an error the configured one counts.
func (o *ownWeight) open(path string, configured float64) (weight float64, note string, err error) {
	o.path, o.configured = path, ring.RoundWeight(configured)
	if path == "" {
		return o.configured, "", nil
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return o.configured, "", nil
	}
	if err != nil {
		return o.configured, "", err
	}
	var s setWeight
	if err = json.Unmarshal(text, &s); err != nil {
		return o.configured, "", fmt.Errorf("%s: %w", path, err)
	}
	s.Weight, s.Configured = ring.RoundWeight(s.Weight), ring.RoundWeight(s.Configured)
	if s.Configured != o.configured {
		return o.configured, fmt.Sprintf("the weight %g that was set at run time has ended: the configuration said %g then and says %g now",
			s.Weight, s.Configured, o.configured), os.Remove(path)
	}
	o.set, o.kept = &s, true
	return s.Weight, fmt.Sprintf("the weight %g that was set at run time goes on; the configuration says %g", s.Weight, o.configured), nil
}

// put notes a weight that is set now, and keeps it for the next process; the
// configured one needs no note. An error says that it lasts until this process ends.
func (o *ownWeight) put(weight float64) error {
	var text []byte
	s := &setWeight{weight, o.configured}
	if weight != o.configured {
		var err error
		if text, err = json.MarshalIndent(s, "", " "); err != nil {
			return err
		}
	} else {
		s = nil
	}
	var err error
	switch {
	case o.path == "":
	case s != nil:
		err = writeAside(o.path, append(text, '\n'))
	default:
		if err = os.Remove(o.path); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	o.mu.Lock()
	o.set, o.kept = s, s != nil && o.path != "" && err == nil
	o.mu.Unlock()
	return err
}

// origin says where the weight comes from, in the words of operate.
func (o *ownWeight) origin() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.set == nil:
		return operate.WeightConfigured
	case o.kept:
		return operate.WeightKept
	}
	return operate.WeightSet
}

// weightNote says where a member's weight comes from if that is not its configuration;
// "" otherwise, and where it does not tell.
func weightNote(e *operate.Node) string {
	f := &e.Figures
	switch f.WeightOrigin {
	case operate.WeightKept:
		return fmt.Sprintf("%s has weight %g, set at run time and kept in its data directory; its configuration says %g", e.Addr, e.Weight, f.WeightConfigured)
	case operate.WeightSet:
		return fmt.Sprintf("%s has weight %g, set at run time, until it restarts; its configuration says %g", e.Addr, e.Weight, f.WeightConfigured)
	}
	return ""
}

// SetWeight changes this node's share of the slots in the background, in steps
// like a join: 0 to topology.MaxWeight, in millionths, 0 owns nothing. A change of
// weight that is under way is first brought to that of its ends which is nearer. With a
// data directory the weight outlives this process, until the configuration says
// another one than now. Its errors wrap ErrConfig, or ErrUnavailable while the node
// joins or leaves. Peers learn the weight with the other facts of a member, of which
// host name and zone may leave no room for the steps: then it changes at once; or for
// any other weight than 1: then the log says so, and the weight stays.
func (n *Node) SetWeight(w float64) error {
	if !(w >= 0 && w <= topology.MaxWeight) {
		return fmt.Errorf("%w: weight is %v, must be 0 to %d", errs.ErrConfig, w, topology.MaxWeight)
	}
	w = ring.RoundWeight(w)
	self := n.selfMember()
	if self.State != topology.Active || n.draining.Load() {
		return fmt.Errorf("%w: the weight of a node that is %s cannot be changed", errs.ErrUnavailable, self.State)
	}
	n.weight.order.Lock()
	defer n.weight.order.Unlock()
	n.keepWeight(w)
	n.startRamp("weight", func(ctx context.Context) { n.weighInSteps(ctx, w) })
	return nil
}

// openWeight gives the weight that this process starts with.
func (n *Node) openWeight() float64 {
	path := ""
	if n.o.DataDir != "" {
		path = filepath.Join(n.o.DataDir, weightFile)
	}
	weight, note, err := n.weight.open(path, n.o.Weight)
	if note != "" {
		n.log.Info(note, "file", path)
	}
	if err != nil {
		n.log.Warn("the weight that was set at run time is not usable, or its file cannot be removed; the configured one counts", "file", path, "weight", weight, "error", err)
	}
	return weight
}

func (n *Node) keepWeight(w float64) {
	if err := n.weight.put(w); err != nil {
		n.log.Warn("the weight is not kept over a restart of this node", "weight", w, "file", n.weight.path, "error", err)
	}
}

func (n *Node) weighInSteps(ctx context.Context, to float64) {
	steps := n.o.Steps.Join
	if _, present := others(n.View(), n.id); present == 0 {
		steps = 1 // alone, it owns all slots anyway
	}
	err := n.inSteps(ctx, func(m *topology.Member) (last bool) { return weighStep(m, to, steps) })
	if errors.Is(err, errs.ErrConfig) && steps > 1 {
		n.log.Warn("the weight changes at once: the entry of this node has no room for two weights; a shorter host name or zone would give some", "weight", to)
		err = n.inSteps(ctx, func(m *topology.Member) (last bool) { return weighStep(m, to, 1) })
	}
	if err != nil {
		self := n.selfMember()
		n.keepWeight(self.Weight)
	}
}

// weighStep takes the next step of a change of weight, and tells whether it is the
// last. Every step but the last leaves the member Weighing, so that each group of slots
// moves from one weight to the other once. A change to another weight that has begun
// goes to the nearer of its ends first.
func weighStep(m *topology.Member, to float64, steps int) (last bool) {
	switch back := math.Abs(to-m.OldWeight) < math.Abs(to-m.Weight); {
	case m.Progress == 0 && m.Weight == to:
	case m.Progress == 0:
		m.OldWeight, m.Weight, m.Progress = m.Weight, to, stepUp(0, steps)
	case back:
		if m.Progress = stepDown(m.Progress, steps); m.Progress == 0 {
			m.Weight = m.OldWeight
		}
	default:
		m.Progress = stepUp(m.Progress, steps)
	}
	if m.Progress == 0 || m.Progress == 1 {
		m.Progress, m.OldWeight = 0, 0
	}
	return m.Progress == 0 && m.Weight == to
}
