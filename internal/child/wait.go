package child

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// GossipOffset is how far a node's gossip port is above its data port.
const GossipOffset = 10000

const (
	pollEvery = 20 * time.Millisecond
	maxPorts  = 200 // that are tried for a free pair
)

// fatalError ends a poll early.
type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

// Fatal makes Poll return err at once.
func Fatal(err error) error { return &fatalError{err} }

// Poll is PollEach every 20 ms.
func Poll(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	return PollEach(ctx, pollEvery, limit, check)
}

// PollEach repeats check now and then until it gives nil or an error of Fatal, limit has
// passed (then the last error is returned) or the context ends.
func PollEach(ctx context.Context, every, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := check(ctx)
		var fatal *fatalError
		if err == nil || errors.As(err, &fatal) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %v: %w", limit, err)
		}
	}
}

// Pause returns after d, or with the error of the context that ended first.
func Pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// FreeAddr finds an address on a loopback host whose data port and gossip port are
// free at the moment.
func FreeAddr(host string) (string, error) {
	for range maxPorts {
		l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
		if err != nil {
			return "", err
		}
		port := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if port > 65535-GossipOffset {
			continue
		}
		gossip := net.JoinHostPort(host, strconv.Itoa(port+GossipOffset))
		g, err := net.Listen("tcp", gossip)
		if err != nil {
			continue
		}
		g.Close()
		u, err := net.ListenPacket("udp", gossip)
		if err != nil {
			continue
		}
		u.Close()
		return net.JoinHostPort(host, strconv.Itoa(port)), nil
	}
	return "", fmt.Errorf("no free pair of ports for a node at %s (data port and data port + %d)", host, GossipOffset)
}
