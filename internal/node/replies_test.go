package node

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/membership"
	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
	"github.com/ringcache/ringcache/internal/topology"
)

func member(i int, host string, state topology.State) topology.Member {
	return topology.Member{ID: topology.NodeID{byte(i)}, Boot: 1, Sequence: uint64(i), State: state, Weight: 1,
		Host: host, Port: uint16(7000 + i), Gossip: "127.0.0.1:17001"}
}

// publish makes what a node with the first member's ID would publish.
func publish(t testing.TB, members ...topology.Member) *published {
	t.Helper()
	v, err := topology.NewView(topology.Params{}, nil, members, nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{id: members[0].ID, boot: members[0].Boot}
	snap := membership.Snapshot{}
	for _, m := range members {
		snap.Members = append(snap.Members, membership.Peer{Member: m})
	}
	return n.newPublished(v, snap, nil)
}

func parse(t testing.TB, b []byte) resp.Value {
	t.Helper()
	var p resp.ReplyParser
	v, n, err := p.Next(b, nil)
	if err != nil || n != len(b) {
		t.Fatalf("not one reply: %q (%v)", b, err)
	}
	return v
}

var topologies = []struct {
	name    string
	members []topology.Member
}{
	{"one", []topology.Member{member(1, "127.0.0.1", topology.Active)}},
	{"one, still starting", []topology.Member{member(1, "127.0.0.1", topology.Joining)}},
	{"three", []topology.Member{member(1, "10.0.0.1", topology.Active), member(2, "10.0.0.2", topology.Active), member(3, "10.0.0.3", topology.Active)}},
	{"names and IPv6", []topology.Member{member(1, "cache-1.example", topology.Active), member(2, "2001:db8::2", topology.Active)}},
	{"joining and draining", []topology.Member{member(1, "10.0.0.1", topology.Joining), member(2, "10.0.0.2", topology.Active), member(3, "10.0.0.3", topology.Draining)}},
}

// TestSlotsCoverEverything: CLUSTER SLOTS and SHARDS name every slot exactly
// once, hosts are never empty and equal MOVED byte for byte.
func TestSlotsCoverEverything(t *testing.T) {
	for _, tc := range topologies {
		for _, proto := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, RESP%d", tc.name, proto), func(t *testing.T) {
				p := publish(t, tc.members...)
				var owner [ring.Slots]string
				for _, e := range parse(t, p.reply(replySlots, proto)).Elems {
					host, port, id := e.Elems[2].Elems[0].Text(), e.Elems[2].Elems[1].Int, e.Elems[2].Elems[2].Text()
					if host == "" || port == 0 || len(id) != 40 {
						t.Fatalf("entry %q %d %q", host, port, id)
					}
					for s := e.Elems[0].Int; s <= e.Elems[1].Int; s++ {
						if owner[s] != "" {
							t.Fatalf("slot %d is listed twice", s)
						}
						owner[s] = host + ":" + strconv.FormatInt(port, 10)
					}
				}
				for s, addr := range owner {
					if addr == "" {
						t.Fatalf("slot %d is a hole", s)
					}
					if o := p.view.Owner(uint16(s)); o >= 0 && p.addrs[o] != addr {
						t.Fatalf("slot %d: CLUSTER SLOTS %q, MOVED %q", s, addr, p.addrs[o])
					}
				}
				covered := 0
				for _, shard := range parse(t, p.reply(replyShards, proto)).Elems {
					slots, _ := shard.Find("slots")
					for i := 0; i < len(slots.Elems); i += 2 {
						covered += int(slots.Elems[i+1].Int-slots.Elems[i].Int) + 1
					}
					nodes, _ := shard.Find("nodes")
					for _, field := range []string{"id", "port", "ip", "endpoint", "role", "replication-offset", "health"} {
						if v, ok := nodes.Elems[0].Find(field); !ok || v.Text() == "" {
							t.Errorf("a shard's node lacks %s", field)
						}
					}
				}
				if covered != ring.Slots {
					t.Fatalf("CLUSTER SHARDS covers %d slots", covered)
				}
			})
		}
	}
}

var nodesLine = regexp.MustCompile(`^[0-9a-f]{40} \S+:\d+@\d+(,\S+)? (myself,)?master(,fail\??)? - \d+ \d+ \d+ (connected|disconnected)( \d+(-\d+)?)*$`)

func TestClusterNodes(t *testing.T) {
	for _, tc := range topologies {
		t.Run(tc.name, func(t *testing.T) {
			p := publish(t, tc.members...)
			text := parse(t, p.reply(replyNodes, 2)).Text()
			if !strings.HasSuffix(text, "\n") {
				t.Fatal("the last line is not ended")
			}
			seen, myself := map[string]bool{}, 0
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				if !nodesLine.MatchString(line) {
					t.Errorf("line %q", line[:min(len(line), 200)])
				}
				if seen[line[:40]] {
					t.Errorf("node %s is listed twice", line[:40])
				}
				seen[line[:40]] = true
				if strings.Contains(line, "myself") {
					myself++
				}
			}
			if myself != 1 {
				t.Errorf("%d lines say myself", myself)
			}
		})
	}
}

func TestClusterNodesTellsHealth(t *testing.T) {
	p := publish(t, member(1, "10.0.0.1", topology.Active), member(2, "10.0.0.2", topology.Active))
	p.snap.Members[1].Health = membership.Suspect
	p.snap.Members = append(p.snap.Members, membership.Peer{Member: member(3, "10.0.0.3", topology.Active), Health: membership.Dead})
	text := p.nodesText()
	for _, want := range []string{"10.0.0.2:7002@17001 master,fail? ", "10.0.0.3:7003@17001 master,fail - 0 0 3 disconnected\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%.300s", want, text)
		}
	}
	if info := p.infoText(); !strings.Contains(info, "cluster_state:ok\r\n") || !strings.Contains(info, "cluster_known_nodes:2\r\n") {
		t.Errorf("CLUSTER INFO %q", info)
	}
}

// TestRepliesAreEncodedOnce: many clients asking at once share the bytes.
func TestRepliesAreEncodedOnce(t *testing.T) {
	p := publish(t, topologies[2].members...)
	for kind := range replyKinds {
		for _, proto := range []int{2, 3} {
			if a, b := p.reply(kind, proto), p.reply(kind, proto); &a[0] != &b[0] {
				t.Errorf("reply %d is encoded again", kind)
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() { p.reply(replySlots, 2) }); n > 1 {
		t.Errorf("%v allocations for a cached reply", n)
	}
}

// TestFormerServers: members that owned the slot in earlier Views, newest
// first, if they are members still.
func TestFormerServers(t *testing.T) {
	a, b, c := member(1, "a", topology.Active), member(2, "b", topology.Active), member(3, "c", topology.Active)
	n := &Node{id: a.ID, boot: a.Boot, clock: newClock(nil)}
	var p *published
	for _, members := range [][]topology.Member{{b}, {c}, {b}, {a}, {a, b, c}} {
		v, err := topology.NewView(topology.Params{}, nil, members, nil)
		if err != nil {
			t.Fatal(err)
		}
		p = n.newPublished(v, membership.Snapshot{}, p)
	}
	var names []string
	for _, m := range p.servers(0) {
		names = append(names, m.Host)
	}
	if got := strings.Join(names, " "); got != "b c" {
		t.Errorf("servers %q, want b c", got)
	}
	for i := range 3 * keptViews {
		v, err := topology.NewView(topology.Params{}, nil, []topology.Member{a, member(2, fmt.Sprintf("b%d", i), topology.Active)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		p = n.newPublished(v, membership.Snapshot{}, p)
	}
	if len(p.previous) != keptViews {
		t.Errorf("%d earlier views are kept, limit %d", len(p.previous), keptViews)
	}
}
