package child

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"time"
)

// GossipOffset is how far a node's gossip port is above its data port.
const GossipOffset = 10000

const (
	pollEvery = 20 * time.Millisecond
	maxPorts  = 200 // that are tried for a free pair

	// Data ports lie from firstPort on, portRange of them, and so do their gossip
	// ports GossipOffset above. None of them is one that a system gives to outgoing
	// connections (32768 and above on Linux): those come and go by the thousand, and
	// one could have taken the port before the process listens.
	firstPort = 10_000
	portRange = 8_000
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
	port, err := FreePorts(host, 1)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// FreePorts finds n data ports in a row, from the returned one on, that are free with
// their gossip ports at the moment. They are drawn, so that programs that look for
// some at the same time hardly ever find the same.
func FreePorts(host string, n int) (int, error) {
	for range maxPorts {
		base := firstPort + rand.IntN(portRange-n+1)
		free := true
		for i := 0; i < n && free; i++ {
			free = freePair(host, base+i)
		}
		if free {
			return base, nil
		}
	}
	return 0, fmt.Errorf("no %d free pairs of ports for nodes at %s (data port and data port + %d)", n, host, GossipOffset)
}

// freePair tells whether a node could listen.
func freePair(host string, port int) bool {
	data, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return false
	}
	defer data.Close()
	gossip := net.JoinHostPort(host, strconv.Itoa(port+GossipOffset))
	stream, err := net.Listen("tcp", gossip)
	if err != nil {
		return false
	}
	defer stream.Close()
	packets, err := net.ListenPacket("udp", gossip)
	if err != nil {
		return false
	}
	return packets.Close() == nil
}
