package ringcache

import (
	"net"
	"testing"
	"time"
)

// A node's connections to others leave from SourceAddr, with TLS and without.
func TestSourceAddr(t *testing.T) {
	const source = "127.0.8.9"
	if ln, err := net.Listen("tcp", source+":0"); err != nil {
		t.Skip("this system has one loopback address only: ", err)
	} else {
		ln.Close()
	}
	cert, key := selfSigned(t)
	for name, o := range map[string]Options{"plain": {}, "TLS": {TLSCert: cert, TLSKey: key}} {
		t.Run(name, func(t *testing.T) {
			peer, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer peer.Close()
			from := make(chan net.Addr, 1)
			go func() { // ends with the listener
				for {
					c, err := peer.Accept()
					if err != nil {
						return
					}
					select {
					case from <- c.RemoteAddr():
					default: // the first one is enough
					}
					c.Close()
				}
			}()
			o.Addr, o.Seeds, o.SourceAddr, o.JoinTimeout, o.MaxMemory = "127.0.0.1:0", []string{peer.Addr().String()}, source, time.Second, 16<<20
			if n, err := Open(o); err == nil {
				n.Close()
				t.Error("it joined through a port that answers nothing")
			}
			select {
			case got := <-from:
				if host, _, _ := net.SplitHostPort(got.String()); host != source {
					t.Errorf("it comes from %v, want %s", got, source)
				}
			default:
				t.Error("it never dialled its seed")
			}
		})
	}
}
