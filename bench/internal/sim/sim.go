// Package sim owns reference simulations of eviction policies, written from the
// papers and validated against published figures. They hold object numbers and
// sizes, no data, and tell what an ideal form of a policy reaches: with sizes of
// 1 the capacity is a number of items, otherwise a number of bytes.
//
// Concurrency: a Policy belongs to one goroutine.
package sim

import (
	"fmt"
	"strings"
)

// Policy is one simulated cache.
type Policy interface {
	// Access reads an object and stores it when it is absent. It says whether
	// the object was there. An object has the same size each time.
	Access(key uint64, size int64) bool
}

var policies = []struct {
	name string
	make func(capacity int64) Policy
}{
	{"LRU", newLRU},
	{"SIEVE", newSieve},
	{"S3-FIFO", newS3FIFO},
	{"S3-FIFO/1", newS3FIFO1},
	{"ARC", newARC},
	{"LIRS", newLIRS},
}

// Names lists the simulated policies. S3-FIFO promotes on the second read in the
// small queue, S3-FIFO/1 on the first.
func Names() []string {
	names := make([]string, len(policies))
	for i, p := range policies {
		names[i] = p.name
	}
	return names
}

// New returns an empty cache of the named policy.
func New(name string, capacity int64) (Policy, error) {
	for _, p := range policies {
		if p.name == name {
			return p.make(capacity), nil
		}
	}
	return nil, fmt.Errorf("no simulation of %q; there are %s", name, strings.Join(Names(), ", "))
}

// node is one object. It can be in several lists at once, which the list's
// number tells apart.
type node struct {
	key   uint64
	size  int64
	links [3]struct{ prev, next *node }
	freq  uint8
	state uint8
}

// list is a doubly linked list that counts its bytes. The front is the newest.
type list struct {
	id    int
	root  node
	bytes int64
}

func newList(id int) *list {
	l := &list{id: id}
	l.root.links[id].prev, l.root.links[id].next = &l.root, &l.root
	return l
}

func (l *list) pushFront(n *node) {
	next := l.root.links[l.id].next
	n.links[l.id].prev, n.links[l.id].next = &l.root, next
	next.links[l.id].prev, l.root.links[l.id].next = n, n
	l.bytes += n.size
}

func (l *list) remove(n *node) {
	at := &n.links[l.id]
	at.prev.links[l.id].next, at.next.links[l.id].prev = at.next, at.prev
	at.prev, at.next = nil, nil
	l.bytes -= n.size
}

func (l *list) has(n *node) bool { return n.links[l.id].next != nil }

func (l *list) moveFront(n *node) {
	l.remove(n)
	l.pushFront(n)
}

// back returns the oldest node, nil when there is none.
func (l *list) back() *node {
	if n := l.root.links[l.id].prev; n != &l.root {
		return n
	}
	return nil
}

// newer returns the node before n, nil when n is the newest.
func (l *list) newer(n *node) *node {
	if p := n.links[l.id].prev; p != &l.root {
		return p
	}
	return nil
}
