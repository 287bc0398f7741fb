package p2p

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A connector turns addresses into connections: which schemes are dialed, and by what
// route (spec/wire.md, section 8).
type connector struct {
	cfg   *settings
	hosts *hosts

	mu     sync.Mutex
	noIPv6 time.Time // until then direct IPv6 addresses count as not dialable
}

// mixing is one row of the table of mixed transports: a peer scheme that is dialed
// through an active one.
var mixing = []struct{ scheme, through string }{
	{"tcp", "tor"},
	{"tcp+tls", "tor+tls"},
	{"tcp", "nym"},
	{"tcp+tls", "nym+tls"},
	{"tcp", "socks5"},
	{"tcp+tls", "socks5+tls"},
	{"tor", "socks5"},
	{"tor+tls", "socks5+tls"},
}

// active tells whether this node dials the scheme directly.
func (c *connector) active(scheme string) bool {
	_, ok := c.cfg.Profiles[scheme]
	return ok && c.cfg.Transports[scheme] != nil
}

// routes are the ways to reach u, in the order in which they are tried.
func (c *connector) routes(u URL) (routes []URL) {
	scheme := u.Scheme()
	if slices.Contains(c.cfg.MixedProfiles, scheme) {
		for _, m := range mixing {
			if m.scheme == scheme && c.active(m.through) {
				routes = append(routes, c.mixed(u, m.through)...)
			}
		}
		if len(routes) > 0 {
			return routes
		}
	}
	if c.active(scheme) && !c.lacksIPv6(u) {
		return []URL{u}
	}
	return nil
}

func (c *connector) mixed(u URL, through string) (routes []URL) {
	if through != "socks5" && through != "socks5+tls" {
		if r, err := u.WithScheme(through); err == nil {
			return []URL{r}
		}
		return nil
	}
	if u.HostKind() == HostIPv6 {
		return nil // cannot be written as the path of a proxy address
	}
	proxies := []URL{c.cfg.TorProxy}
	if s := u.Scheme(); s == "tcp" || s == "tcp+tls" {
		proxies = append(proxies, c.cfg.NymProxy)
	}
	for _, proxy := range proxies {
		if proxy.IsZero() {
			continue
		}
		if r, err := ParseURL(through + "://" + proxy.HostPort() + "/" + u.HostPort()); err == nil {
			routes = append(routes, r)
		}
	}
	return routes
}

// dialable tells whether there is any route to u.
func (c *connector) dialable(u URL) bool { return len(c.routes(u)) > 0 }

// shareable are the schemes that this node asks for: those it dials and others pass
// on. quic comes last, so that it is what a full getaddr leaves out.
func (c *connector) shareable() (schemes []string) {
	for _, s := range shareable {
		mixed := slices.ContainsFunc(mixing, func(m struct{ scheme, through string }) bool {
			return m.scheme == s && slices.Contains(c.cfg.MixedProfiles, s) && c.active(m.through)
		})
		if mixed || c.active(s) {
			schemes = append(schemes, s)
		}
	}
	if c.active("quic") {
		schemes = append(schemes, "quic")
	}
	return schemes
}

func (c *connector) lacksIPv6(u URL) bool {
	if u.HostKind() != HostIPv6 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.noIPv6)
}

// dial connects to u by the first route that works. route is what was dialed. The
// error may hold addresses: it goes to callers that asked for this very address, and
// to no log.
func (c *connector) dial(ctx context.Context, u URL) (conn net.Conn, route URL, err error) {
	if c.hosts.blacklisted(u) {
		return nil, URL{}, ErrBlacklisted
	}
	if len(u.String()) > maxDialedURL {
		return nil, URL{}, ErrUnsupported
	}
	err = ErrUnsupported
	for _, r := range c.routes(u) {
		if c.hosts.blacklisted(r) {
			err = ErrBlacklisted
			continue
		}
		if len(r.String()) > maxDialedURL {
			continue
		}
		conn, err = c.dialRoute(ctx, r)
		if err == nil {
			return conn, r, nil
		}
		if errors.Is(err, syscall.ENETUNREACH) && r.HostKind() == HostIPv6 {
			c.mu.Lock()
			c.noIPv6 = time.Now().Add(ipv6Retry)
			c.mu.Unlock()
		}
		if ctx.Err() != nil {
			return nil, URL{}, context.Cause(ctx)
		}
	}
	return nil, URL{}, err
}

func (c *connector) dialRoute(ctx context.Context, r URL) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.profile(r.Scheme()).ConnectTimeout)
	defer cancel()
	return c.cfg.Transports[r.Scheme()].Dial(ctx, r)
}
