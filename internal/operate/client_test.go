package operate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/ringcache/ringcache/internal/link"
)

// silent is a member that answers HELLO and nothing else. asked gets every RING.
func silent(t *testing.T) (addr string, asked <-chan string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan string, 8)
	done := make(chan struct{})
	go func() { // ends when ln is closed, and the connection by its client
		defer close(done)
		for conn, err := ln.Accept(); err == nil; conn, err = ln.Accept() {
			serveSilently(conn, out)
		}
	}()
	t.Cleanup(func() { ln.Close(); <-done })
	return ln.Addr().String(), out
}

func serveSilently(conn net.Conn, asked chan<- string) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		var n int
		if _, err := fmt.Fscanf(r, "*%d\r\n", &n); err != nil {
			return
		}
		var words []string
		for range n {
			var size int
			if _, err := fmt.Fscanf(r, "$%d\r\n", &size); err != nil {
				return
			}
			b := make([]byte, size+2)
			if _, err := io.ReadFull(r, b); err != nil {
				return
			}
			words = append(words, string(b[:size]))
		}
		if words[0] == "RING" {
			asked <- strings.Join(words, " ")
			continue
		}
		if _, err := io.WriteString(conn, "%1\r\n$5\r\nproto\r\n:3\r\n"); err != nil {
			return
		}
	}
}

// TestInterruptedOrder: who interrupts an order that is on its way hears that it may
// have been done; a question changes nothing.
func TestInterruptedOrder(t *testing.T) {
	for _, tc := range []struct {
		words  string
		unsure bool
	}{{"PIN 5 x", true}, {"DRAIN x", true}, {"MIGRATE PAUSE", true}, {"STATUS", false}, {"PLAN ADD", false}} {
		addr, asked := silent(t)
		c, err := NewClient(link.Options{}, addr)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { // ends with the question
			<-asked
			cancel()
		}()
		_, err = c.Order(ctx, strings.Fields(tc.words)...)
		if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "it may have been done all the same") != tc.unsure {
			t.Errorf("%s: %v", tc.words, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
