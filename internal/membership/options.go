package membership

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringcache/ringcache/internal/errs"
)

const (
	resolveTimeout = 5 * time.Second // of Advertise, when it is a host name
	streamTimeout  = 3 * time.Second // of memberlist's TCP exchanges
	pushPullEvery  = 15 * time.Second
	toTheDead      = 30 * time.Second // memberlist goes on gossiping to the dead
	gossipEvery    = 100 * time.Millisecond
	gossipKeyInfo  = "ringcache gossip v1"
)

// withDefaults returns o with defaults filled in, or all its faults at once.
func (o Options) withDefaults() (Options, error) {
	if o.ProbeInterval == 0 {
		o.ProbeInterval = time.Second
	}
	if o.ProbeTimeout == 0 {
		o.ProbeTimeout = o.ProbeInterval / 2
	}
	if o.SuspicionMult == 0 {
		o.SuspicionMult = 4
	}
	if o.HoldDown == 0 {
		o.HoldDown = 3 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Seed == 0 {
		o.Seed = o.Self.Boot
	}
	var faults []error
	add := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: "+format, append([]any{errs.ErrConfig}, args...)...))
	}
	if o.Prober == nil {
		add("membership needs a Prober")
	}
	if n := len(o.Cluster); n > memberlist.LabelMaxSize {
		add("cluster name has %d bytes, limit %d", n, memberlist.LabelMaxSize)
	}
	if o.ProbeInterval < 100*time.Millisecond || o.ProbeInterval > time.Minute {
		add("probe interval is %s, must be 100ms to 1m", o.ProbeInterval)
	}
	if o.ProbeTimeout < 10*time.Millisecond || o.ProbeTimeout > o.ProbeInterval {
		add("probe timeout is %s, must be 10ms to the probe interval (%s)", o.ProbeTimeout, o.ProbeInterval)
	}
	if o.SuspicionMult < 1 || o.SuspicionMult > 20 {
		add("suspicion multiplier is %d, must be 1 to 20", o.SuspicionMult)
	}
	if o.HoldDown < 0 || o.HoldDown > time.Minute {
		add("hold-down is %s, must be 0 to 1m", o.HoldDown)
	}
	if o.Transport == nil {
		if _, err := netip.ParseAddrPort(o.Bind); err != nil {
			add("gossip address %q is not ip:port", o.Bind)
		}
	}
	return o, errors.Join(faults...)
}

// dialTimeout bounds one own dial.
func (o *Options) dialTimeout() time.Duration { return max(time.Second, 2*o.ProbeTimeout) }

// advertise returns the IP and port that peers are told; an empty IP leaves
// the choice to memberlist (the bound IP, or a private one for 0.0.0.0).
func (o *Options) advertise(port int) (string, int, error) {
	if o.Advertise == "" {
		return "", port, nil
	}
	host := o.Advertise
	if h, p, err := net.SplitHostPort(o.Advertise); err == nil {
		host = h
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return "", 0, fmt.Errorf("%w: advertised gossip address %q: port: %w", errs.ErrConfig, o.Advertise, err)
		}
		if n != 0 {
			port = int(n)
		}
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String(), port, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil || len(ips) == 0 {
		return "", 0, fmt.Errorf("advertised gossip host %q cannot be resolved: %w", host, err)
	}
	for _, ip := range ips {
		if ip.Unmap().Is4() {
			return ip.Unmap().String(), port, nil
		}
	}
	return ips[0].String(), port, nil
}

// config is what memberlist gets.
func (o *Options) config(d *delegate, t *transport, advIP string, advPort int, logger *log.Logger) (*memberlist.Config, error) {
	c := memberlist.DefaultLANConfig()
	c.Name, c.Label = d.self, o.Cluster
	c.Transport, c.Logger = t, logger
	c.Delegate, c.Events, c.Ping, c.Alive = d, d, d, d
	c.DisableTcpPingsForNode = d.probeFailed
	c.ProbeInterval, c.ProbeTimeout = o.ProbeInterval, o.ProbeTimeout

	// Above the number of members minus two, memberlist expects no
	// confirmations of a suspicion any more and uses the shortest timeout from
	// the start, however great the multiplier. Below, an unconfirmed suspicion
	// lasts SuspicionMaxTimeoutMult times as long: twice, not the default six
	// times, so that memberlist notices a black hole before we do without it.
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = o.SuspicionMult, 2
	// Doubting itself, memberlist slows its probes down by up to this factor.
	// Our own dials and the mass guard do the doubting here.
	c.AwarenessMaxMultiplier = 3

	// Of 8 nodes started at once, one missed a join in 7 of 150 simulated starts
	// with the default of 4, and learned of it in the next full sync only.
	c.RetransmitMult = 8
	// News wait for the next turn of gossip, twice or more in a larger cluster,
	// and a joiner serves nothing until all have them. A turn without news
	// sends nothing.
	c.GossipInterval = gossipEvery
	c.EnableCompression = false // packets are small: it costs time and gains nothing
	c.TCPTimeout = streamTimeout
	c.PushPullInterval = pushPullEvery
	c.GossipToTheDeadTime = toTheDead
	// Names hold the incarnation, so nobody ever has a reason to take over the
	// name of a dead node under another address.
	c.DeadNodeReclaimTime = 0
	c.RequireNodeNames = false // a rejoin knows an address only

	if len(o.Secret) > 0 {
		key, err := hkdf.Key(sha256.New, o.Secret, nil, gossipKeyInfo, 32)
		if err != nil {
			return nil, fmt.Errorf("gossip key: %w", err)
		}
		c.SecretKey = key
	}
	c.BindPort = t.port()
	c.AdvertiseAddr, c.AdvertisePort = advIP, advPort
	return c, nil
}
