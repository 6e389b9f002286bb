package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/resp"
	"github.com/ringcache/ringcache/internal/ring"
)

const (
	// maxLoadNodes bounds the servers of a cluster.
	maxLoadNodes = 256
	// loadTimeout bounds a dial with what is said first.
	loadTimeout = 5 * time.Second
)

// slotRange is a line of CLUSTER SLOTS: who owns what.
type slotRange struct {
	first, last int
	addr        string
}

// discover asks the seeds for the slots of their cluster. nil means that the first
// that answers is a server by itself.
func (e *loadEngine) discover(ctx context.Context) (seed string, slots []slotRange, err error) {
	var faults []error
	for _, addr := range e.o.Seeds {
		v, err := e.ask(ctx, addr, "CLUSTER", "SLOTS")
		switch {
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", addr, err))
			continue
		case v.Kind == resp.Error:
			return addr, nil, nil // no cluster, or none that says so
		}
		slots, err := parseSlots(v, addr)
		return addr, slots, err
	}
	return "", nil, fmt.Errorf("no server answers: %w", errors.Join(faults...))
}

// parseSlots reads the reply of CLUSTER SLOTS. A host that is not told is that of
// who was asked.
func parseSlots(v resp.Value, asked string) ([]slotRange, error) {
	var slots []slotRange
	host, _, _ := net.SplitHostPort(asked)
	for _, line := range v.Elems {
		if len(line.Elems) < 3 || len(line.Elems[2].Elems) < 2 {
			return nil, fmt.Errorf("%s: a line of CLUSTER SLOTS has no owner", asked)
		}
		owner := line.Elems[2].Elems
		r := slotRange{first: int(line.Elems[0].Int), last: int(line.Elems[1].Int), addr: owner[0].Text()}
		if r.first < 0 || r.last >= ring.Slots || r.first > r.last {
			return nil, fmt.Errorf("%s: CLUSTER SLOTS names slots %d to %d", asked, r.first, r.last)
		}
		if owner[0].IsNull() || r.addr == "" || r.addr == "?" {
			r.addr = host
		}
		r.addr = net.JoinHostPort(r.addr, strconv.FormatInt(owner[1].Int, 10))
		slots = append(slots, r)
	}
	if len(slots) == 0 {
		return nil, fmt.Errorf("%s: the cluster has no slots", asked)
	}
	return slots, nil
}

// dial opens a connection and authenticates.
func (e *loadEngine) dial(ctx context.Context, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	nc, err := e.o.Dial(ctx, addr)
	if err != nil || e.o.Password == "" {
		return nc, err
	}
	args := []string{"AUTH", e.o.Password}
	if e.o.User != "" {
		args = []string{"AUTH", e.o.User, e.o.Password}
	}
	v, err := roundTrip(nc, args)
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return nc, nil
}

// ask sends one command over a connection of its own.
func (e *loadEngine) ask(ctx context.Context, addr string, args ...string) (resp.Value, error) {
	nc, err := e.dial(ctx, addr)
	if err != nil {
		return resp.Value{}, err
	}
	defer nc.Close()
	return roundTrip(nc, args)
}

func roundTrip(nc net.Conn, args []string) (resp.Value, error) {
	nc.SetDeadline(time.Now().Add(loadTimeout))
	defer nc.SetDeadline(time.Time{})
	if _, err := nc.Write(resp.AppendCommandStrings(nil, args...)); err != nil {
		return resp.Value{}, err
	}
	var parser resp.ReplyParser
	var in []byte
	buf := make([]byte, 32<<10)
	for {
		n, err := nc.Read(buf)
		if err != nil {
			return resp.Value{}, err
		}
		in = append(in, buf[:n]...)
		v, size, err := parser.Next(in, nil)
		if err != nil {
			return resp.Value{}, err
		}
		if size > 0 {
			return v.Clone(), nil
		}
	}
}

// moved reads the error that sends a request elsewhere.
func moved(line []byte, asked string) (slot int, addr string, ok bool) {
	f := strings.Fields(string(line))
	if len(f) < 3 || f[0] != "-MOVED" {
		return 0, "", false
	}
	slot, err := strconv.Atoi(f[1])
	if err != nil || slot < 0 || slot >= ring.Slots {
		return 0, "", false
	}
	host, port, err := net.SplitHostPort(f[2])
	if err != nil {
		return 0, "", false
	}
	if host == "" {
		host, _, _ = net.SplitHostPort(asked)
	}
	return slot, net.JoinHostPort(host, port), true
}
