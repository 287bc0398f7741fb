package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"sync"
	"time"

	"hearsay/internal/config"
)

const (
	// skewNotice is how far off a clock is told, and skewPeers how many peers it takes
	// to know (DS-82).
	skewNotice = 20 * time.Second
	skewPeers  = 3
	// watchInterval is how often proxies and the clock are looked at.
	watchInterval = 30 * time.Second
	// proxyTimeout is how long a proxy on this machine may take to answer.
	proxyTimeout = 5 * time.Second
)

// notes are the troubles that a person should hear of, by what they are about.
type notes struct {
	mu   sync.Mutex
	text map[string]string
}

// set notes a trouble, or that it is over (text "").
func (n *notes) set(about, text string) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.text[about] == text {
		return false
	}
	if n.text == nil {
		n.text = map[string]string{}
	}
	if text == "" {
		delete(n.text, about)
	} else {
		n.text[about] = text
	}
	return true
}

// has tells whether there is a trouble about something.
func (n *notes) has(about string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text[about] != ""
}

// list is what troubles there are now.
func (n *notes) list() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []string
	for _, about := range sortedKeys(n.text) {
		out = append(out, n.text[about])
	}
	return out
}

// watch looks at what nobody else would tell: a proxy that does not answer, a clock
// that is off. It runs until ctx ends.
func (d *daemon) watch(ctx context.Context) error {
	proxies := neededProxies(d.cfg.Net)
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		for _, p := range proxies {
			d.lookAtProxy(ctx, p)
		}
		d.lookAtClock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// lookAtProxy connects to a proxy and hangs up, as long as there is no peer or the
// proxy is known to be a trouble: who has peers needs no such knocking.
func (d *daemon) lookAtProxy(ctx context.Context, p proxy) {
	if len(d.node.Peers()) > 0 && !d.notes.has("proxy "+p.address) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, proxyTimeout)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
	text := ""
	switch {
	case err == nil:
		_ = nc.Close()
	case errors.Is(ctx.Err(), context.Canceled):
		return
	default:
		text = fmt.Sprintf("the %s proxy at %s does not answer, so no peer can be reached through it; trying on", p.name, p.address)
	}
	if d.notes.set("proxy "+p.address, text) {
		if text != "" {
			d.log.Warn("a proxy does not answer, is it running?", "kind", p.name)
		} else {
			d.log.Info("the proxy answers again", "kind", p.name)
		}
	}
}

// skew is the median of the peers' clocks minus ours; ok is false below skewPeers
// peers, when it says nothing.
func (d *daemon) skew() (skew time.Duration, ok bool) {
	ms, peers := d.node.ClockSkew()
	if peers < skewPeers {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

func (d *daemon) lookAtClock() {
	skew, ok := d.skew()
	text := skewText(skew, ok)
	if d.notes.set("clock", text) {
		if text != "" {
			d.log.Warn("the clock is off", "seconds", int(skew.Seconds()))
		} else {
			d.log.Info("the clock is fine again")
		}
	}
}

func skewText(skew time.Duration, ok bool) string {
	if !ok || skew.Abs() <= skewNotice {
		return ""
	}
	way := "behind"
	if skew < 0 {
		way = "ahead of"
	}
	return fmt.Sprintf("this machine's clock is %s %s that of its peers; messages may be late, doubled or refused until it is set", skew.Abs().Round(time.Second), way)
}

// A proxy is one that an active profile cannot do without.
type proxy struct {
	name    string
	address string // host:port
}

// neededProxies lists the proxies through which the active profiles dial.
func neededProxies(n config.Net) []proxy {
	var out []proxy
	add := func(name, text string) {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return
		}
		p := proxy{name, u.Host}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	for _, scheme := range n.Active {
		switch scheme {
		case "tor", "tor+tls":
			add("Tor", n.TorProxy)
		case "i2p", "i2p+tls":
			add("I2P", n.I2PProxy)
		case "socks5", "socks5+tls":
			for _, text := range slices.Concat(n.Peers, n.Seeds) {
				if u, err := url.Parse(text); err == nil && u.Scheme == scheme {
					add("SOCKS5", text)
				}
			}
			if len(n.Mixed) > 0 {
				add("Tor", n.TorProxy)
			}
		}
	}
	return out
}
