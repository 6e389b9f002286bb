package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// raw is the plainest cluster client: one connection per node, one request at a
// time, redirects followed, and a request that may have been executed is never
// sent again. Not safe for concurrent use.
type raw struct {
	seeds func() []string
	conns map[string]*rawConn
	owner map[int]string // slot -> address, as the last MOVED said
}

type rawConn struct {
	net.Conn
	r *bufio.Reader
}

// errUnknown says that a request was sent and its fate is not known.
var errUnknown = errors.New("sent, and not answered")

const (
	rawTimeout  = 6 * time.Second // of one call; longer than any pause of a node
	rawPatience = 20 * time.Millisecond
)

func newRaw(seeds func() []string) *raw {
	return &raw{seeds: seeds, conns: map[string]*rawConn{}, owner: map[int]string{}}
}

func (c *raw) close() {
	for _, n := range c.conns {
		n.Close()
	}
}

// do executes a command on a key. Any error but errUnknown says that it was not
// executed.
func (c *raw) do(key string, args ...string) (reply any, err error) {
	slot, deadline := slotOf(key), time.Now().Add(rawTimeout)
	for redirects := 0; time.Now().Before(deadline); {
		addr := c.owner[slot]
		if addr == "" {
			all := c.seeds()
			addr = all[rand.IntN(len(all))]
		}
		var conn *rawConn
		if conn, err = c.conn(addr); err != nil {
			delete(c.owner, slot)
			<-time.After(rawPatience)
			continue
		}
		_ = conn.SetDeadline(deadline)
		if reply, err = conn.call(args); err != nil {
			conn.Close()
			delete(c.conns, addr)
			delete(c.owner, slot)
			return nil, fmt.Errorf("%w: %s: %w", errUnknown, addr, err)
		}
		text, failed := reply.(error)
		if !failed {
			return reply, nil
		}
		word, rest, _ := strings.Cut(text.Error(), " ")
		switch word {
		case "MOVED":
			_, c.owner[slot], _ = strings.Cut(rest, " ")
			if redirects++; redirects%8 == 0 { // the nodes disagree: let them talk
				<-time.After(rawPatience)
			}
			err = text
		case "TRYAGAIN":
			err = text
		case "RCUNAVAILABLE":
			return nil, fmt.Errorf("%w: %w", errUnknown, text)
		default:
			return nil, text
		}
	}
	return nil, fmt.Errorf("no answer in time: %w", err)
}

func (c *raw) conn(addr string) (*rawConn, error) {
	if n := c.conns[addr]; n != nil {
		return n, nil
	}
	n, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return nil, err
	}
	c.conns[addr] = &rawConn{n, bufio.NewReader(n)}
	return c.conns[addr], nil
}

func (c *rawConn) call(args []string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(c, b.String()); err != nil {
		return nil, err
	}
	line, err := c.r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	text := strings.TrimSuffix(line[1:], "\r\n")
	switch line[0] {
	case '+':
		return text, nil
	case '-':
		return errors.New(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return nil, err
		}
		body := make([]byte, n+2)
		_, err = io.ReadFull(c.r, body)
		return string(body[:n]), err
	}
	return nil, fmt.Errorf("reply %q", line)
}

// rawStore is a store that asks through a raw client of its own.
func rawStore(f func() []string) store {
	var mu sync.Mutex
	c := newRaw(f)
	return store{name: "raw",
		get: func(_ context.Context, k string) (string, bool, error) {
			mu.Lock()
			defer mu.Unlock()
			v, err := c.do(k, "GET", k)
			text, found := v.(string)
			return text, found, err
		}}
}
