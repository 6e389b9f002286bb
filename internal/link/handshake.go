package link

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringcache/ringcache/internal/errs"
	"github.com/ringcache/ringcache/internal/resp"
)

// dial connects, performs the handshake and starts the connection. o has its
// defaults. onGone, if set, is called when the last goroutine ends.
func dial(ctx context.Context, addr string, o *Options, calls *callPool, onGone func(*Conn)) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	nc, err := o.Dialer(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := &Conn{addr: addr, o: o, nc: nc, calls: calls, onGone: onGone, rd: newReader(nc, o.MaxReply),
		wake: make(chan struct{}, 1), dead: make(chan struct{}), gone: make(chan struct{})}
	// The handshake is ordinary blocking I/O; the end of ctx interrupts it.
	stop := context.AfterFunc(ctx, func() { nc.SetDeadline(time.Unix(1, 0)) })
	err = c.handshake()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("handshake: %w", ctx.Err())
		}
		return nil, err
	}
	c.direct = newDirect(nc)
	c.start()
	return c, nil
}

// handshake introduces the link: as a peer, if it is one, then as a client.
func (c *Conn) handshake() error {
	if c.o.Peer != nil {
		id, info, err := c.o.Peer.dialPeer(c.ask)
		if err != nil {
			return err
		}
		c.peerID, c.peer = id, info
	}
	if c.o.Proto == 3 {
		done, err := c.sayHello()
		if done || err != nil {
			return err
		}
	}
	return c.introduce2()
}

// sayHello switches to RESP3 with authentication and name in one command. It
// returns false if the server has no HELLO or no RESP3, and the introduction is
// still to be made.
func (c *Conn) sayHello() (bool, error) {
	args := []string{"HELLO", "3"}
	if c.o.Password != "" {
		args = append(args, "AUTH", c.user(), c.o.Password)
	}
	if c.o.ClientName != "" {
		args = append(args, "SETNAME", c.o.ClientName)
	}
	v, err := c.ask(args...)
	if err != nil {
		return false, err
	}
	if v.Kind != resp.Error {
		c.hello = v.Clone()
		return true, c.declare()
	}
	text := string(v.Str)
	switch code, _, _ := strings.Cut(text, " "); {
	case c.o.Peer != nil:
		return true, nil // proven already; the internal commands need no RESP3
	case code == "NOPROTO", code == "NOPERM", code == "ERR":
		return false, nil // an old server; AUTH tells what is wrong otherwise
	}
	return false, refusal(text)
}

// declare says what the link can do. A server that does not know of it, or does not
// allow it, does without.
func (c *Conn) declare() error {
	if !c.o.TryAgain {
		return nil
	}
	_, err := c.ask("CLIENT", "CAPA", "tryagain")
	return err
}

// introduce2 authenticates and names the link by RESP2 commands. A server that
// lacks CLIENT SETNAME does without. PING tells whether the server takes
// commands at all: without it a refusal would hit the first call.
func (c *Conn) introduce2() error {
	if c.o.Password != "" {
		args := []string{"AUTH", c.o.Password}
		if c.o.Username != "" {
			args = []string{"AUTH", c.o.Username, c.o.Password}
		}
		if err := c.must(args...); err != nil {
			return err
		}
	}
	if c.o.ClientName != "" {
		if _, err := c.ask("CLIENT", "SETNAME", c.o.ClientName); err != nil {
			return err
		}
	}
	return c.must("PING")
}

func (c *Conn) user() string {
	if c.o.Username == "" {
		return "default"
	}
	return c.o.Username
}

// must asks and turns an error reply into an error. NOPERM is no refusal of the
// link: a user may be barred from PING.
func (c *Conn) must(args ...string) error {
	v, err := c.ask(args...)
	if err != nil {
		return err
	}
	if v.Kind == resp.Error && !strings.HasPrefix(string(v.Str), "NOPERM") {
		return refusal(string(v.Str))
	}
	return nil
}

// refusal classifies an error reply to the introduction.
func refusal(text string) error {
	code, _, _ := strings.Cut(text, " ")
	switch {
	case code == "WRONGPASS", code == "NOAUTH", strings.Contains(text, "invalid password"),
		strings.Contains(text, "without any password"):
		return fmt.Errorf("%w: %s", errs.ErrAuth, text)
	}
	return errors.New("refused: " + text)
}

// ask sends one command and reads its reply, borrowed until the next ask. Only
// the handshake uses it: afterwards reader and writer own the connection.
func (c *Conn) ask(args ...string) (resp.Value, error) {
	if _, err := c.nc.Write(resp.AppendCommandStrings(nil, args...)); err != nil {
		return resp.Value{}, fmt.Errorf("%s: %w", args[0], err)
	}
	for {
		v, err := c.rd.next()
		if err != nil {
			return resp.Value{}, fmt.Errorf("%s: %w", args[0], err)
		}
		if v.Kind != resp.Push {
			return v, nil
		}
		if c.o.OnPush != nil {
			c.o.OnPush(c.addr, v)
		}
	}
}
