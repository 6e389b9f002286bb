package main

import (
	"encoding/json"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringcache/ringcache/internal/workload"
)

// benchTarget starts a node and returns it with its address.
func benchTarget(t *testing.T) (*process, string) {
	t.Helper()
	addr := devAddr(freePorts(t, 1))
	return start(t, command(t, nil, "serve", "--addr", addr, "--max-memory", "64mb")), addr
}

func benchReport(t *testing.T, out string) workload.LoadReport {
	t.Helper()
	var r workload.LoadReport
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// untilLoaded waits until a load has stored its 1000 keys and sent as many requests
// as that again: it is under way then, however late the process began.
func untilLoaded(t *testing.T, addr string) {
	t.Helper()
	until(t, "the load is under way", func() bool {
		const field = "total_commands_processed:"
		info := bulk(t, addr, "INFO stats")
		value, _, _ := strings.Cut(info[strings.Index(info, field)+len(field):], "\r\n")
		n, err := strconv.Atoi(value)
		if err != nil {
			t.Fatalf("%v: %s", err, info)
		}
		return n > 2000
	})
}

// A node that stops for 100 ms shows in p99.9, although few requests were on their way.
func TestBenchShowsAStop(t *testing.T) {
	const stop = 100 * time.Millisecond
	node, addr := benchTarget(t)
	cmd := command(t, nil, "bench", "--rate", "2000", "--conns", "8", "--keys", "1000", "--warmup", "0s", "--duration", "5s", "-o", "json", addr)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	untilLoaded(t, addr)
	if err := node.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(stop)
	if err := node.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	r := benchReport(t, out.String())
	// 200 of 10000 were due meanwhile; 10, 0.1 %, within its first 5 ms.
	if r.All.P999 < 90e3 || r.All.Requests < 9900 || r.All.Requests > 10100 || r.Errors > 0 || r.Unanswered > 0 || r.Misses > 0 {
		t.Errorf("%+v", r)
	}
	node.stop(t, syscall.SIGTERM)
}

// The table of a load that Ctrl-C ends says so.
func TestBenchInterrupted(t *testing.T) {
	node, addr := benchTarget(t)
	cmd := command(t, nil, "bench", "--rate", "1000", "--keys", "1000", "--warmup", "0s", "--duration", "1h", addr)
	var out strings.Builder
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	untilLoaded(t, addr)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"P99.99", "GET", "SET", "interrupted", "1000 asked for", "hits"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
	node.stop(t, syscall.SIGTERM)
}

// Any server that speaks RESP will do, with a password too.
func TestBenchOnRedis(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip(err)
	}
	port := freePorts(t, 1)
	addr := devAddr(port)
	redis := exec.CommandContext(t.Context(), "redis-server", "--port", strconv.Itoa(port), "--save", "", "--requirepass", "secret", "--loglevel", "warning")
	if err := redis.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { redis.Process.Kill(); redis.Wait() })
	for until := time.Now().Add(time.Minute); ; <-time.After(10 * time.Millisecond) {
		if nc, err := net.Dial("tcp", addr); err == nil {
			nc.Close()
			break
		} else if time.Now().After(until) {
			t.Fatal(err)
		}
	}
	args := []string{"bench", "--rate", "0", "--pipeline", "8", "--conns", "4", "--keys", "500", "--zipf", "0.9", "--size", "10-1kb", "--ttl", "1h",
		"--warmup", "0s", "--duration", "1s", "-o", "json", addr}
	out, _ := runTo(t, exitOK, command(t, []string{"RINGCACHE_PASSWORD=secret"}, args...))
	if r := benchReport(t, out); r.Cluster || r.All.Requests < 100 || r.Misses > 0 || r.Errors > 0 || r.Target != 0 {
		t.Errorf("%+v", r)
	}
	runTo(t, exitFailed, command(t, nil, args...))
}

func TestBenchFaults(t *testing.T) {
	for _, args := range [][]string{{"--reads", "101"}, {"--size", "x"}, {"--size", "9-"}, {"nowhere"}, {"--zipf", "1"}, {"--conns", "-1"}, {"--duration", "0s"}, {"--tls-ca", "x"}, {"--tls", "--tls-ca", "missing"},
		{"--insecure"}, {"--tls", "--insecure", "--tls-name", "x"}, {"--tls", "--tls-cert", "missing", "--tls-key", "missing"}} {
		_, stderr := runTo(t, exitUsage, command(t, nil, append([]string{"bench"}, args...)...))
		if stderr == "" {
			t.Errorf("%q: nothing is said", args)
		}
	}
}
