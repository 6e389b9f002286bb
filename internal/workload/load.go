package workload

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	maxLoadConns    = 10_000
	maxLoadPipeline = 1024
	maxLoadKeys     = 1 << 30
	maxLoadValue    = 64 << 20
	// loadDrain bounds how long the replies to the last requests are waited for.
	loadDrain = 2 * time.Second
)

// LoadOptions describe a load. The zero value of a field is its default where one is
// named.
type LoadOptions struct {
	// Seeds are addresses of a RESP server, or of nodes of a cluster: the first
	// that answers tells by CLUSTER SLOTS.
	Seeds []string
	// Dial opens connections. Default: TCP.
	Dial           func(ctx context.Context, addr string) (net.Conn, error)
	User, Password string

	// Rate is how many requests are sent per second, whatever the servers answer;
	// 0: each connection sends as soon as it may.
	Rate float64
	// Conns is how many connections are opened, spread evenly over the nodes,
	// default 50; Pipeline how many requests wait for replies on each at most,
	// default 1.
	Conns, Pipeline int
	Keys            int     // default 100,000
	Theta           float64 // of Zipf's distribution of keys, below 1; 0: all are equally likely
	// MinValue and MaxValue are the bytes of a value, default 64; between them all
	// are equally likely.
	MinValue, MaxValue int
	Reads              float64       // share of GET, 0 to 1; the others are SET
	TTL                time.Duration // of what is stored, whole milliseconds; 0: none
	Preload            bool          // store every key first
	Warmup, Duration   time.Duration // requests that are due during the first are not counted; Duration follows it
	Seed               uint64

	// Progress is called now and then with what is done of a phase.
	Progress func(phase string, done, total int)
}

// Validate returns all faults of the options at once.
func (o LoadOptions) Validate() error { return o.setDefaults() }

func (o *LoadOptions) setDefaults() error {
	if o.Dial == nil {
		var d net.Dialer
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }
	}
	if o.Progress == nil {
		o.Progress = func(string, int, int) {}
	}
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.Conns, 50)
	set(&o.Pipeline, 1)
	set(&o.Keys, 100_000)
	set(&o.MinValue, 64)
	set(&o.MaxValue, o.MinValue)
	var faults []error
	bad := func(wrong bool, format string, a ...any) {
		if wrong {
			faults = append(faults, fmt.Errorf(format, a...))
		}
	}
	bad(len(o.Seeds) == 0, "no address of a server")
	bad(!(o.Rate >= 0 && o.Rate <= 1e8), "rate %g: must be 0 to 100 million requests per second", o.Rate)
	bad(o.Conns < 1 || o.Conns > maxLoadConns, "%d connections: must be 1 to %d", o.Conns, maxLoadConns)
	bad(o.Pipeline < 1 || o.Pipeline > maxLoadPipeline, "pipeline %d: must be 1 to %d", o.Pipeline, maxLoadPipeline)
	bad(o.Keys < 2 || o.Keys > maxLoadKeys, "%d keys: must be 2 to %d", o.Keys, maxLoadKeys)
	bad(!(o.Theta >= 0 && o.Theta < 1), "Zipf %g: must be 0 to below 1", o.Theta)
	bad(o.MinValue < 1 || o.MaxValue > maxLoadValue || o.MinValue > o.MaxValue, "values of %d to %d bytes: must be 1 to %d", o.MinValue, o.MaxValue, maxLoadValue)
	bad(!(o.Reads >= 0 && o.Reads <= 1), "share of reads %g: must be 0 to 1", o.Reads)
	bad(o.TTL < 0 || o.TTL%time.Millisecond != 0, "TTL %s: must be whole milliseconds", o.TTL)
	bad(o.Duration <= 0 || o.Warmup < 0, "duration %s, warm-up %s: must be positive, warm-up may be 0", o.Duration, o.Warmup)
	return errors.Join(faults...)
}

// Latencies sum up a number of requests, in microseconds. With a rate a latency counts
// from when the request was due, not from when it could be sent: what a server that
// stalls does to those behind is in it. A quantile is at most 1/32 above the true one.
type Latencies struct {
	Requests uint64  `json:"requests"`
	Rate     float64 `json:"requests_per_second"`
	P50      float64 `json:"p50_us"`
	P90      float64 `json:"p90_us"`
	P99      float64 `json:"p99_us"`
	P999     float64 `json:"p99_9_us"`
	P9999    float64 `json:"p99_99_us"`
	Max      float64 `json:"max_us"`
}

func latencies(h *Histogram, span time.Duration) Latencies {
	at := func(q float64) float64 { return float64(h.Quantile(q)) / 1e3 }
	l := Latencies{Requests: h.Count(), P50: at(0.5), P90: at(0.9), P99: at(0.99), P999: at(0.999), P9999: at(0.9999), Max: at(1)}
	if span > 0 {
		l.Rate = float64(l.Requests) / span.Seconds()
	}
	return l
}

// NodeLatencies are those of one server.
type NodeLatencies struct {
	Addr string `json:"addr"`
	Latencies
	Errors uint64 `json:"errors"`
}

// LoadReport is what a load found. Latencies are those of requests with a reply that
// is no error.
type LoadReport struct {
	Cluster bool    `json:"cluster"`
	Target  float64 `json:"target_rate"` // 0: saturation
	Seconds float64 `json:"seconds"`     // that were counted
	// Interrupted tells that the load ended before its time.
	Interrupted bool            `json:"interrupted"`
	All         Latencies       `json:"all"`
	Get         Latencies       `json:"get"`
	Set         Latencies       `json:"set"`
	Nodes       []NodeLatencies `json:"nodes"`
	Hits        uint64          `json:"hits"`
	Misses      uint64          `json:"misses"`
	Moved       uint64          `json:"moved"` // replies that sent a request elsewhere
	Errors      uint64          `json:"errors"`
	FirstError  string          `json:"first_error,omitempty"`
	// Unanswered are requests that were due and have no reply; their latency
	// until the end is among the others'.
	Unanswered uint64 `json:"unanswered"`
	// LateP99 is by how much the generator itself sent too late, in microseconds:
	// the part of the latencies that is not the servers'.
	LateP99 float64 `json:"generator_late_p99_us"`
}

// Load puts a load on a server or cluster and measures it. When ctx ends early, the report
// tells what was measured until then.
func Load(ctx context.Context, o LoadOptions) (*LoadReport, error) {
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	e, err := openLoad(ctx, &o)
	if err != nil {
		return nil, err
	}
	defer e.close()
	if o.Preload {
		if err := e.preload(ctx); err != nil {
			return nil, err
		}
	}
	return e.run(ctx)
}
