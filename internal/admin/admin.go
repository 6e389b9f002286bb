// Package admin owns the HTTP listener for operators: /metrics for Prometheus,
// /healthz, /readyz and, where asked for, the profiles of /debug/pprof. It reads
// a node through its Source interface and changes nothing.
//
// It never knows keys or values, and nothing that a client of the cache can
// send reaches it. A Server may be used from any goroutine.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ringcache/ringcache/internal/errs"
)

// Bounds of what callers may cost.
const (
	maxConns      = 64               // open at a time; further ones are closed at once
	maxScrapes    = 2                // of /metrics at a time; further ones get 503
	maxHeader     = 8 << 10          // bytes of request headers
	headerTimeout = 5 * time.Second  // to send them
	writeTimeout  = 10 * time.Second // a profile has its own time beside it
	idleTimeout   = time.Minute
	scrapeTimeout = 5 * time.Second
	maxProfile    = time.Minute     // one profile
	closeTimeout  = 2 * time.Second // for the requests that are being answered
)

// Source is the node that is told about.
type Source interface {
	// Info is the text of INFO with every section.
	Info() string
	// ClusterInfo is the text of CLUSTER INFO.
	ClusterInfo() string
	// Ready returns nil while the node serves, otherwise why it does not.
	Ready() error
}

// Options configures a Server.
type Options struct {
	// Addr is host:port to listen on. Without a host it is the loopback
	// interface: whoever reaches the listener reads everything.
	Addr string
	// Pprof adds /debug/pprof, whose profiles cost time and show the program.
	Pprof bool
	// Logger receives what an operator should know. Default slog.Default().
	Logger *slog.Logger
}

// Server is a running listener.
type Server struct {
	log    *slog.Logger
	addr   net.Addr
	http   *http.Server
	source atomic.Pointer[Source]
	done   sync.WaitGroup // the goroutine that serves
}

// Start listens and serves at once; until Attach the node counts as starting.
// Errors wrap errs.ErrConfig for an address that is none; others say that it
// is taken.
func Start(o Options) (*Server, error) {
	host, port, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, fmt.Errorf("%w: admin address %q is not host:port", errs.ErrConfig, o.Addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	s := &Server{log: o.Logger}
	if s.log == nil {
		s.log = slog.Default()
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s for admin: %w; stop what uses the port (ss -ltnp shows it) or choose another admin address", o.Addr, err)
	}
	s.addr = ln.Addr()
	if tcp, ok := s.addr.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		s.log.Warn("the admin listener has no authentication and can be reached from other machines: whoever reaches it reads metrics"+
			" and, with admin-pprof, profiles", "addr", s.Addr())
	}
	s.http = &http.Server{
		Handler:           s.routes(o.Pprof),
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       headerTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	// Ends with Close, which waits for it.
	s.done.Go(func() {
		if err := s.http.Serve(&limited{Listener: ln}); !errors.Is(err, http.ErrServerClosed) {
			s.log.Error("admin listener ended", "err", err)
		}
	})
	return s, nil
}

// Attach names the node that is told about from now on.
func (s *Server) Attach(src Source) { s.source.Store(&src) }

// Addr is the address that is listened on.
func (s *Server) Addr() string { return s.addr.String() }

// Close stops listening, waits up to two seconds for requests that are being
// answered, and cuts off the rest.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	s.done.Wait()
	return err
}

func (s *Server) routes(profiles bool) http.Handler {
	mux := http.NewServeMux()
	reg := prometheus.NewRegistry()
	reg.MustRegister(collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, Timeout: scrapeTimeout, ErrorHandling: promhttp.ContinueOnError,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
	}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := s.ready(); err != nil {
			say(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		say(w, http.StatusOK, "ok")
	})
	index := "ring-cache node\n\n/metrics\n/healthz\n/readyz"
	if profiles {
		index += "\n/debug/pprof/"
		// Not the command line: it may hold a secret.
		mux.HandleFunc("GET /debug/pprof/", brief(pprof.Index))
		mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound)
		mux.HandleFunc("GET /debug/pprof/profile", brief(pprof.Profile))
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", brief(pprof.Trace))
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, index) })
	return mux
}

// brief refuses profiles that take longer than maxProfile.
func brief(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if text := r.FormValue("seconds"); text != "" {
			if n, err := strconv.ParseFloat(text, 64); err != nil || !(n >= 0 && n <= maxProfile.Seconds()) {
				say(w, http.StatusBadRequest, fmt.Sprintf("seconds is %.20q, must be 0 to %v", text, maxProfile.Seconds()))
				return
			}
		}
		next(w, r)
	}
}

var errStarting = errors.New("the node is starting")

func (s *Server) ready() error {
	src := s.source.Load()
	if src == nil {
		return errStarting
	}
	return (*src).Ready()
}

// say answers with one text that no cache keeps and no browser takes for HTML.
func say(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// A caller that has gone misses nothing that could be done about it.
	_, _ = w.Write([]byte(text + "\n"))
}

// limited is a listener with at most maxConns open connections.
type limited struct {
	net.Listener
	open atomic.Int64
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= maxConns {
			return &counted{Conn: c, open: &l.open}, nil
		}
		l.open.Add(-1)
		c.Close()
	}
}

// counted gives its place back when it is closed, once.
type counted struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
