package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ringcache/ringcache/bench/internal/report"
)

// result is one server with one number of items.
type result struct {
	Server   string  `json:"server"`
	Shape    shape   `json:"shape"`
	TTL      float64 `json:"ttl_seconds"`
	Items    int     `json:"items"` // that the server says it holds
	RSS      int64   `json:"rss_bytes"`
	Empty    int64   `json:"empty_rss_bytes"`
	Overhead float64 `json:"overhead_bytes"` // per item
}

// measure fills every server with every shape and TTL.
func measure(o options, servers []server) ([]result, error) {
	bar := report.NewProgress(len(servers) * len(o.shapes) * len(o.ttls) * len(o.counts))
	defer bar.End()
	var results []result
	for _, s := range servers {
		empty, err := emptyRSS(s, max(o.smallest, s.least), o.settle)
		if err != nil {
			return nil, fmt.Errorf("%s, empty: %w", s.name, err)
		}
		for _, sh := range o.shapes {
			for _, ttl := range o.ttls {
				rows, err := fill(o, s, sh, ttl, empty, bar)
				if err != nil {
					return nil, fmt.Errorf("%s with %s: %w", s.name, sh, err)
				}
				results = append(results, rows...)
			}
		}
	}
	return results, nil
}

// emptyRSS starts the server with the smallest limit and no items.
func emptyRSS(s server, mib int, settle time.Duration) (int64, error) {
	p, err := start(s, mib)
	if err != nil {
		return 0, err
	}
	defer p.stop()
	return settledRSS(p.pid(), settle)
}

// fill measures one server at every count of items.
func fill(o options, s server, sh shape, ttl time.Duration, empty int64, bar *report.Progress) ([]result, error) {
	p, err := start(s, o.limit)
	if err != nil {
		return nil, err
	}
	defer p.stop()
	var rows []result
	stored := 0
	for _, count := range o.counts {
		bar.Step(fmt.Sprintf("%s %s ttl %v, %d items", s.name, sh, ttl, count))
		if err := s.speak.load(p.conn, stored, count, sh, ttl); err != nil {
			return nil, errors.Join(err, p.lastWords())
		}
		stored = count
		items, err := s.speak.items(p.conn)
		if err != nil {
			return nil, err
		}
		if items != count {
			return nil, fmt.Errorf("holds %d items after %d were stored; is the limit of %d MiB too small?", items, count, o.limit)
		}
		rss, err := settledRSS(p.pid(), o.settle)
		if err != nil {
			return nil, err
		}
		rows = append(rows, result{
			Server: s.name, Shape: sh, TTL: ttl.Seconds(), Items: items, RSS: rss, Empty: empty,
			Overhead: float64(rss-empty)/float64(items) - float64(sh.Key+sh.Value),
		})
	}
	return rows, nil
}

const (
	// settleEvery is the time between two readings of resident memory while it
	// is waited that it stands still: a garbage collector or a background thread
	// may still be at work.
	settleEvery = 250 * time.Millisecond
	// still is a change between two readings that is none.
	still = 64 << 10
	// calm is how many readings in a row must not change.
	calm = 4
)

// settledRSS reads the resident memory of a process until it stands still, or
// for the given time.
func settledRSS(pid int, most time.Duration) (int64, error) {
	last, same := int64(-1), 0
	for deadline := time.Now().Add(most); ; time.Sleep(settleEvery) {
		rss, err := readRSS(pid)
		if err != nil {
			return 0, err
		}
		if d := rss - last; d >= -still && d <= still {
			same++
		} else {
			same = 0
		}
		if last = rss; same >= calm || time.Now().After(deadline) {
			return rss, nil
		}
	}
}

func readRSS(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory is read from /proc, which only Linux has: %w", err)
	}
	return parseRSS(string(text))
}

func parseRSS(status string) (int64, error) {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("the process has no VmRSS: it has ended")
}
