package interop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// plain is a client of one process.
func plain(t *testing.T, p *process) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: p.addr, MaxRetries: -1})
	t.Cleanup(func() { c.Close() })
	return c
}

// listen waits until a subscription of go-redis is confirmed and returns its
// messages.
func listen(t *testing.T, s *redis.PubSub) <-chan *redis.Message {
	t.Helper()
	t.Cleanup(func() { s.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := s.Receive(ctx); err != nil {
		t.Fatal(err)
	}
	return s.Channel()
}

func expectMessages(t *testing.T, from <-chan *redis.Message, channel string, want ...string) {
	t.Helper()
	limit := time.After(patience)
	for _, w := range want {
		select {
		case m := <-from:
			if m.Channel != channel || m.Payload != w {
				t.Fatalf("got %v, want %q on %s", m, w, channel)
			}
		case <-limit:
			t.Fatalf("no message %q on %s", w, channel)
		}
	}
}

// A message that is published at one node reaches those who listen at any, by
// channel and by pattern, in order.
func TestPubSubAcrossNodes(t *testing.T) {
	f := startFleet(t, 3)
	var all []<-chan *redis.Message
	for _, p := range f.procs {
		c := plain(t, p)
		all = append(all, listen(t, c.Subscribe(t.Context(), "news")), listen(t, c.PSubscribe(t.Context(), "ne*")))
	}
	all = append(all, listen(t, goRedis(t, f).Subscribe(t.Context(), "news")))
	var want []string
	pipe := plain(t, f.procs[0]).Pipeline()
	for i := range 500 {
		want = append(want, strconv.Itoa(i))
		pipe.Publish(t.Context(), "news", i)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		expectMessages(t, c, "news", want...)
	}
	if n, err := plain(t, f.procs[0]).PubSubNumPat(t.Context()).Result(); err != nil || n != 1 {
		t.Errorf("NUMPAT: %d, %v", n, err)
	}
	// A node that joins takes part at once.
	p := f.add()
	f.settled(4, patience)
	c := listen(t, plain(t, p).Subscribe(t.Context(), "news"))
	if err := goRedis(t, f).Publish(t.Context(), "news", "hello").Err(); err != nil {
		t.Fatal(err)
	}
	expectMessages(t, c, "news", "hello")
	for _, c := range all {
		expectMessages(t, c, "news", "hello")
	}
}

// Shard channels of all nodes, through cluster clients that follow the slots.
func TestShardChannelsOfClusterClients(t *testing.T) {
	f := startFleet(t, 3)
	channels := make([]string, 12)
	for i := range channels {
		channels[i] = "shard:" + strconv.Itoa(i)
	}
	t.Run("go-redis", func(t *testing.T) {
		g := goRedis(t, f)
		for _, ch := range channels {
			c := listen(t, g.SSubscribe(t.Context(), ch))
			if n, err := g.SPublish(t.Context(), ch, "for "+ch).Result(); err != nil || n != 1 {
				t.Fatalf("SPUBLISH %s: %d, %v", ch, n, err)
			}
			expectMessages(t, c, ch, "for "+ch)
		}
	})
	t.Run("rueidis", func(t *testing.T) {
		r := rueidisClient(t, f)
		for _, ch := range channels {
			got := receiveOne(t, r, r.B().Ssubscribe().Channel(ch).Build(), func(ctx context.Context) error {
				return r.Do(ctx, r.B().Spublish().Channel(ch).Message("for "+ch).Build()).Error()
			})
			if got.Channel != ch || got.Message != "for "+ch {
				t.Fatalf("%+v", got)
			}
		}
	})
}

// receiveOne subscribes with rueidis, publishes until a message comes, since the
// client does not tell when it listens, and returns that message.
func receiveOne(t *testing.T, r rueidis.Client, subscribe rueidis.Completed, publish func(context.Context) error) rueidis.PubSubMessage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var once sync.Once
	got := make(chan rueidis.PubSubMessage, 1)
	done := make(chan error, 1)
	go func() { // ends with ctx
		done <- r.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) { once.Do(func() { got <- m }) })
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case m := <-got:
			cancel()
			if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			return m
		case err := <-done:
			t.Fatalf("the subscription ended: %v", err)
		case <-tick.C:
			if err := publish(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestRueidisPubSub(t *testing.T) {
	f := startFleet(t, 3)
	r := rueidisClient(t, f)
	other := plain(t, f.procs[2])
	for name, cmd := range map[string]rueidis.Completed{
		"channel": r.B().Subscribe().Channel("news").Build(),
		"pattern": r.B().Psubscribe().Pattern("n[de]ws").Build(),
	} {
		got := receiveOne(t, r, cmd, func(ctx context.Context) error { return other.Publish(ctx, "news", "hello").Err() })
		if got.Channel != "news" || got.Message != "hello" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// When a slot moves to a node that joined, go-redis finds the shard channel there
// again: the old owner has ended the subscription and sends nothing any more.
func TestShardChannelMovesWithItsSlot(t *testing.T) {
	f := startFleet(t, 2)
	ctx := t.Context()
	owners, err := slotOwners(f.procs[0].addr)
	if err != nil {
		t.Fatal(err)
	}
	// One channel for each slot of a sample, listened to at its owner.
	conns := map[string]*redis.PubSub{}
	for _, p := range f.procs {
		conns[p.addr] = plain(t, p).SSubscribe(ctx)
		t.Cleanup(func() { conns[p.addr].Close() })
	}
	sample := keyPerSlot()[:400]
	for _, ch := range sample {
		if err := conns[owners[slotOf(ch)]].SSubscribe(ctx, ch); err != nil {
			t.Fatal(err)
		}
	}
	f.add()
	f.settled(3, patience)
	after, err := slotOwners(f.procs[0].addr)
	if err != nil {
		t.Fatal(err)
	}
	moved := 0
	for _, ch := range sample {
		was, is := owners[slotOf(ch)], after[slotOf(ch)]
		if was == is {
			continue
		}
		moved++
		// Nobody listens at the new owner, and the old one says where it is.
		i := slices.IndexFunc(f.procs, func(p *process) bool { return p.addr == was })
		if n, err := plain(t, f.procs[i]).SPublish(ctx, ch, "x").Result(); err == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
			t.Fatalf("SPUBLISH %s at the old owner: %d, %v", ch, n, err)
		}
	}
	if moved == 0 {
		t.Fatal("no slot of the sample moved")
	}
	for _, p := range f.procs {
		left, err := plain(t, p).PubSubShardChannels(ctx, "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, ch := range left {
			if after[slotOf(ch)] != p.addr {
				t.Fatal(fmt.Errorf("%s still has listeners of %s, whose slot is at %s", p.addr, ch, after[slotOf(ch)]))
			}
		}
	}
}
