package main

import "testing"

// Replies are counted however they are cut into pieces, and refusals fail the run.
func TestReplies(t *testing.T) {
	const good = "+OK\r\n$5\r\nhello\r\n$0\r\n\r\n$12\r\nline\r\nbreak\n\r\n+OK\r\n"
	for size := 1; size <= len(good); size++ {
		c := client{owed: 5}
		for at := 0; at < len(good); at += size {
			if err := c.replies([]byte(good[at:min(at+size, len(good))])); err != nil {
				t.Fatal(size, err)
			}
		}
		if c.owed != 0 || c.skip != 0 || len(c.line) != 0 {
			t.Fatalf("pieces of %d: %d replies are missing", size, c.owed)
		}
	}
	for _, bad := range []string{"-ERR no\r\n", "$-1\r\n", ":1\r\n", "+OK\r\n+OK\r\n"} {
		c := client{owed: 1}
		if err := c.replies([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
