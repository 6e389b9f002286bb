package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ringcache/ringcache/internal/link"
	"github.com/ringcache/ringcache/internal/operate"
)

// accessFlags say who connects, and whether by TLS.
type accessFlags struct {
	user, password                  string
	tls, insecure                   bool
	tlsCA, tlsCert, tlsKey, tlsName string
}

func (f *accessFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.user, "user", "", "user name for AUTH")
	flags.StringVar(&f.password, "password", os.Getenv("RINGCACHE_PASSWORD"), "password for AUTH; RINGCACHE_PASSWORD if not given")
	flags.Lookup("password").DefValue = ""
	flags.BoolVar(&f.tls, "tls", false, "speak TLS")
	flags.StringVar(&f.tlsCA, "tls-ca", "", "file of the certificates that may have signed the server's; the system's if not given")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "certificate of this client, with --tls-key")
	flags.StringVar(&f.tlsKey, "tls-key", "", "key of that certificate")
	flags.StringVar(&f.tlsName, "tls-name", "", "name that the server's certificate must have; the host's if not given")
	flags.BoolVar(&f.insecure, "insecure", false, "speak TLS with whoever answers: the server's certificate is not checked")
}

// dialer opens connections; nil is plain TCP.
func (f *accessFlags) dialer() (func(ctx context.Context, addr string) (net.Conn, error), error) {
	if !f.tls {
		if f.tlsCA != "" || f.tlsCert != "" || f.tlsKey != "" || f.tlsName != "" || f.insecure {
			return nil, errors.New("--tls-ca, --tls-cert, --tls-key, --tls-name and --insecure need --tls")
		}
		return nil, nil
	}
	if f.insecure && (f.tlsCA != "" || f.tlsName != "") {
		return nil, errors.New("--insecure checks no certificate: leave --tls-ca and --tls-name out, or --insecure")
	}
	conf := &tls.Config{ServerName: f.tlsName, MinVersion: tls.VersionTLS12, InsecureSkipVerify: f.insecure}
	if f.tlsCA != "" {
		pem, err := os.ReadFile(f.tlsCA)
		if err != nil {
			return nil, err
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--tls-ca %s: holds no certificate", f.tlsCA)
		}
	}
	if f.tlsCert != "" || f.tlsKey != "" {
		own, err := tls.LoadX509KeyPair(f.tlsCert, f.tlsKey)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
		}
		conf.Certificates = []tls.Certificate{own}
	}
	d := &tls.Dialer{Config: conf}
	return func(ctx context.Context, addr string) (net.Conn, error) { return d.DialContext(ctx, "tcp", addr) }, nil
}

// checkAddrs refuses what is not host:port.
func checkAddrs(addrs []string) error {
	for _, addr := range addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("address %q: must be host:port: %w", addr, err)
		}
	}
	return nil
}

// operator is a command that asks a running cluster.
type operator struct {
	addrs  []string
	access accessFlags
}

func addOperator(cmd *cobra.Command) *operator {
	o := new(operator)
	cmd.Flags().StringSliceVar(&o.addrs, "addr", []string{"127.0.0.1:7001"}, "addresses of members; the first that answers is asked")
	o.access.add(cmd.Flags())
	return o
}

// run gives fn a client of the cluster.
func (o *operator) run(fn func(c *operate.Client) error) error {
	if err := checkAddrs(o.addrs); err != nil {
		return usage(err)
	}
	dial, err := o.access.dialer()
	if err != nil {
		return usage(err)
	}
	c, err := operate.NewClient(link.Options{Dialer: dial, Username: o.access.user, Password: o.access.password, ClientName: "ringcache-cli"}, o.addrs...)
	if err != nil {
		return usage(err)
	}
	defer c.Close()
	return fn(c)
}
