package clustertest

import (
	"errors"
	"slices"

	"github.com/ringcache/ringcache/internal/topology"
)

// rumours is nil where membership cannot be told.
func (r *scriptRun) rumours() (*Rumours, error) {
	if r.s.Gossip != nil {
		return nil, errors.New("the nodes gossip by themselves; allowed: after \"cluster rumours\"")
	}
	return r.s.Rumours, nil
}

// idOf is the ID of the latest process of a name.
func (r *scriptRun) idOf(name string) topology.NodeID {
	for _, n := range slices.Backward(r.s.Nodes) {
		if n.Name == name {
			return n.Node.ID()
		}
	}
	return r.s.ID(name)
}

func (r *scriptRun) rumour(c *scriptCall, word string, fn func(m *Rumours, one topology.NodeID, others []topology.NodeID)) (string, error) {
	m, err := r.rumours()
	if err != nil {
		return "", err
	}
	left, right, err := r.groups(c.words, word)
	if err != nil {
		return "", err
	}
	var others []topology.NodeID
	for _, name := range right {
		others = append(others, r.idOf(name))
	}
	for _, name := range left {
		fn(m, r.idOf(name), others)
	}
	return "", nil
}

// bury lets nodes take one for dead.
func (r *scriptRun) bury(c *scriptCall) (string, error) {
	return r.rumour(c, "at", func(m *Rumours, dead topology.NodeID, at []topology.NodeID) {
		for _, id := range at {
			m.Bury(id, dead)
		}
	})
}

// tell lets a node know the latest of others.
func (r *scriptRun) tell(c *scriptCall) (string, error) {
	return r.rumour(c, "of", func(m *Rumours, to topology.NodeID, about []topology.NodeID) { m.Tell(to, about...) })
}

// deaf keeps news from nodes, and theirs from everybody.
func (r *scriptRun) deaf(c *scriptCall) (string, error) { return r.setDeaf(c, true) }

func (r *scriptRun) hear(c *scriptCall) (string, error) { return r.setDeaf(c, false) }

func (r *scriptRun) setDeaf(c *scriptCall, on bool) (string, error) {
	m, err := r.rumours()
	if err != nil {
		return "", err
	}
	for _, name := range c.words {
		m.Deaf(r.idOf(name), on)
	}
	return "", nil
}
