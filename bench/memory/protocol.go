package main

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// protocol fills a server and asks how much it holds.
type protocol interface {
	// load stores the items from first to last - 1.
	load(c *conn, first, last int, sh shape, ttl time.Duration) error
	// items returns how many items the server holds.
	items(c *conn) (int, error)
}

// conn is one pipelined connection.
type conn struct {
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

const (
	dialTimeout = time.Second
	ioTimeout   = 30 * time.Second
	// batch is how many writes are sent before their replies are read.
	batch = 500
)

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReaderSize(c, 64<<10), bufio.NewWriterSize(c, 256<<10)}, nil
}

// line reads one line without its end.
func (c *conn) line() (string, error) {
	s, err := c.r.ReadString('\n')
	return strings.TrimRight(s, "\r\n"), err
}

// pipeline sends items by write, in batches, and wants one line per item.
func (c *conn) pipeline(first, last int, want string, write func(i int)) error {
	for first < last {
		if err := c.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
			return err
		}
		n := min(batch, last-first)
		for i := range n {
			write(first + i)
		}
		if err := c.w.Flush(); err != nil {
			return err
		}
		for range n {
			got, err := c.line()
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("a write was answered by %q, want %q", got, want)
			}
		}
		first += n
	}
	return nil
}

// item makes keys and values: keys of one length that differ in their last
// digits, values that do not compress.
type item struct {
	shape
	key, value []byte
}

func newItem(sh shape) *item {
	it := &item{shape: sh, key: make([]byte, sh.Key), value: make([]byte, sh.Value)}
	copy(it.key, "user:profile:by-identifier:of-the-account:")
	for i := range it.value {
		it.value[i] = 'a' + byte((i*7+i>>3)%26)
	}
	return it
}

// set changes the item to number i.
func (it *item) set(i int) {
	digits := it.key[max(0, len(it.key)-12):]
	for j := len(digits) - 1; j >= 0; j-- {
		digits[j] = '0' + byte(i%10)
		i /= 10
	}
	copy(it.value, digits)
}

type resp struct{}

func (resp) load(c *conn, first, last int, sh shape, ttl time.Duration) error {
	it := newItem(sh)
	head, tail := "*3\r\n$3\r\nSET\r\n$"+strconv.Itoa(sh.Key)+"\r\n", "\r\n"
	if ttl > 0 {
		ms := strconv.FormatInt(ttl.Milliseconds(), 10)
		head = "*5" + head[2:]
		tail = "\r\n$2\r\nPX\r\n$" + strconv.Itoa(len(ms)) + "\r\n" + ms + "\r\n"
	}
	middle := "\r\n$" + strconv.Itoa(sh.Value) + "\r\n"
	return c.pipeline(first, last, "+OK", func(i int) {
		it.set(i)
		c.w.WriteString(head)
		c.w.Write(it.key)
		c.w.WriteString(middle)
		c.w.Write(it.value)
		c.w.WriteString(tail)
	})
}

func (resp) items(c *conn) (int, error) {
	if err := c.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		return 0, err
	}
	c.w.WriteString("*1\r\n$6\r\nDBSIZE\r\n")
	if err := c.w.Flush(); err != nil {
		return 0, err
	}
	s, err := c.line()
	if err != nil {
		return 0, err
	}
	n, ok := strings.CutPrefix(s, ":")
	if !ok {
		return 0, fmt.Errorf("DBSIZE was answered by %q", s)
	}
	return strconv.Atoi(n)
}

type memcache struct{}

func (memcache) load(c *conn, first, last int, sh shape, ttl time.Duration) error {
	it := newItem(sh)
	middle := " 0 " + strconv.Itoa(int(ttl.Seconds())) + " " + strconv.Itoa(sh.Value) + "\r\n"
	return c.pipeline(first, last, "STORED", func(i int) {
		it.set(i)
		c.w.WriteString("set ")
		c.w.Write(it.key)
		c.w.WriteString(middle)
		c.w.Write(it.value)
		c.w.WriteString("\r\n")
	})
}

func (memcache) items(c *conn) (int, error) {
	if err := c.SetDeadline(time.Now().Add(ioTimeout)); err != nil {
		return 0, err
	}
	c.w.WriteString("stats\r\n")
	if err := c.w.Flush(); err != nil {
		return 0, err
	}
	n, found := 0, false
	for {
		s, err := c.line()
		if err != nil {
			return 0, err
		}
		if s == "END" {
			if !found {
				return 0, fmt.Errorf("stats do not tell curr_items")
			}
			return n, nil
		}
		if v, ok := strings.CutPrefix(s, "STAT curr_items "); ok {
			if n, err = strconv.Atoi(v); err != nil {
				return 0, err
			}
			found = true
		}
	}
}
