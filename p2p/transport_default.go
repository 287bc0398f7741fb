package p2p

import (
	"context"
	"crypto/rand"
	"net"
)

// TransportConfig configures [DefaultTransports].
type TransportConfig struct {
	// TorSOCKS5 is the SOCKS5 port of a local Tor, through which tor and tor+tls
	// dial; default socks5://127.0.0.1:9050. Every dial asks for a circuit of its own.
	TorSOCKS5 URL
	// I2PSOCKS5 is the SOCKS5 port of a local I2P router; default
	// socks5://127.0.0.1:4447.
	I2PSOCKS5 URL
	// ListenPacket opens QUIC's UDP sockets; default as net.ListenConfig does.
	// network is "udp4", "udp6" (only IPv6) or "udp" (both).
	ListenPacket func(ctx context.Context, network, address string) (net.PacketConn, error)
	// Resolve looks a host up for QUIC; default net.DefaultResolver.
	Resolve func(ctx context.Context, host string) ([]net.IP, error)
}

func (c TransportConfig) withDefaults() TransportConfig {
	if c.TorSOCKS5.IsZero() {
		c.TorSOCKS5 = MustParseURL("socks5://127.0.0.1:9050")
	}
	if c.I2PSOCKS5.IsZero() {
		c.I2PSOCKS5 = MustParseURL("socks5://127.0.0.1:4447")
	}
	if c.ListenPacket == nil {
		c.ListenPacket = func(ctx context.Context, network, address string) (net.PacketConn, error) {
			var lc net.ListenConfig
			return lc.ListenPacket(ctx, network, address)
		}
	}
	if c.Resolve == nil {
		c.Resolve = func(ctx context.Context, host string) ([]net.IP, error) {
			return net.DefaultResolver.LookupIP(ctx, "ip", host)
		}
	}
	return c
}

// DefaultTransports makes a transport for every scheme that this node can speak,
// by scheme (spec/wire.md, transports):
//
//	tcp, tcp+tls, quic, unix   dial and listen
//	tor                        dial through TorSOCKS5; listen on a local TCP port that a
//	                           Tor daemon's onion service forwards to
//	tor+tls                    dial
//	i2p, i2p+tls               dial through I2PSOCKS5 (to listen: tcp on localhost, and
//	                           a server tunnel of the router)
//	socks5, socks5+tls         dial: socks5://proxy:port/host:port
//
// No goroutine is started and no socket opened before the first use.
func DefaultTransports(cfg TransportConfig) map[string]Transport {
	cfg = cfg.withDefaults()
	tor := socksRoute(cfg.TorSOCKS5, rand.Text)
	i2p := socksRoute(cfg.I2PSOCKS5, nil)
	return map[string]Transport{
		"tcp":        &tcpTransport{},
		"tcp+tls":    &tcpTransport{tls: true},
		"quic":       newQUIC(cfg),
		"unix":       unixTransport{},
		"tor":        &socksTransport{route: tor, listenLocal: true},
		"tor+tls":    &socksTransport{route: tor, tls: true},
		"i2p":        &socksTransport{route: i2p},
		"i2p+tls":    &socksTransport{route: i2p, tls: true},
		"socks5":     &socksTransport{route: proxyInURL},
		"socks5+tls": &socksTransport{route: proxyInURL, tls: true},
	}
}
