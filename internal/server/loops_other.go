//go:build !linux

package server

import (
	"fmt"
	"net"
)

// rawArrival does not exist here: every connection is a net.Conn.
type rawArrival struct{ net.Conn }

func (a *rawArrival) conn() (net.Conn, error) { return a.Conn, nil }

// rawListener does not exist here either.
type rawListener struct{ *net.TCPListener }

func (l *rawListener) next() (arrival, error) { return l.Accept() }
func (l *rawListener) release() error         { return nil }

func openRaw(*net.TCPListener) (*rawListener, error) {
	return nil, fmt.Errorf("%w: they need Linux", errNoLoops)
}

func openLoops(*Server) ([]multiplexer, string, error) {
	return nil, "", fmt.Errorf("%w: they need Linux", errNoLoops)
}
