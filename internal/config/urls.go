package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// clearnet are the schemes with the short default timeouts.
var clearnet = map[string]bool{"tcp": true, "tcp+tls": true, "quic": true}

// spoken are the schemes that hearsay can dial.
var spoken = map[string]bool{
	"tcp": true, "tcp+tls": true, "quic": true, "tor": true, "tor+tls": true,
	"socks5": true, "socks5+tls": true, "i2p": true, "i2p+tls": true, "unix": true,
}

// unspoken are the schemes that only darkirc's files name.
var unspoken = map[string]bool{"nym": true, "nym+tls": true}

// proxied are the schemes that are reached through a SOCKS5 proxy, so that
// listening on them is the proxy's business.
var proxied = map[string]bool{"tor": true, "tor+tls": true, "socks5": true, "socks5+tls": true, "i2p": true, "i2p+tls": true}

// splitURL takes an address apart. What the network's own parser makes of it is
// p2p's business; this finds what a person got wrong.
func splitURL(text string) (scheme, host, port, path, problem string) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme == "" || u.Opaque != "" {
		return "", "", "", "", "is no address such as \"tcp://127.0.0.1:6667\""
	}
	return u.Scheme, u.Hostname(), u.Port(), u.Path, ""
}

func checkHostPort(host, port string) string {
	switch {
	case host == "":
		return "has no host"
	case port == "":
		return "has no port"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n > 65535 {
		return "has a port that is none"
	}
	return ""
}

// checkSpoken is "" for an address of the network, else what is wrong.
func checkSpoken(scheme, host, port, path string) string {
	switch {
	case unspoken[scheme]:
		return "" // a warning, given elsewhere
	case !spoken[scheme]:
		return "has the unknown scheme " + strconv.Quote(scheme)
	case scheme == "unix":
		if host != "" || port != "" || !strings.HasPrefix(path, "/") {
			return "must be unix:///absolute/path"
		}
		return ""
	}
	return checkHostPort(host, port)
}

// checkDial is "" for the address of a peer or a seed, else what is wrong.
func checkDial(text string) string {
	scheme, host, port, path, problem := splitURL(text)
	if problem == "" {
		problem = checkSpoken(scheme, host, port, path)
	}
	if problem == "" && strings.HasPrefix(scheme, "socks5") {
		dest, destPort, err := net.SplitHostPort(strings.TrimPrefix(path, "/"))
		if err != nil || checkHostPort(dest, destPort) != "" {
			return "must be " + scheme + "://proxy:port/host:port"
		}
	}
	return problem
}

// checkListen is "" for an address to listen on, else what is wrong.
func checkListen(text string) string {
	scheme, host, port, path, problem := splitURL(text)
	switch {
	case problem != "":
		return problem
	case proxied[scheme] && scheme != "tor":
		return "" // a warning, given elsewhere
	}
	return checkSpoken(scheme, host, port, path)
}

// checkServer is "" for a host and port under one of the schemes, else what is wrong.
func checkServer(text string, schemes ...string) string {
	scheme, host, port, path, problem := splitURL(text)
	switch {
	case problem != "":
		return problem
	case !slices.Contains(schemes, scheme):
		return "must begin with " + strings.Join(schemes, ":// or ") + "://"
	case path != "" && path != "/":
		return "must end after the port"
	}
	return checkHostPort(host, port)
}

func checkIRCListen(text string) string { return checkServer(text, "tcp", "tcp+tls") }

// checkProxy is "" for a SOCKS5 proxy, else what is wrong.
func checkProxy(text string) string { return checkServer(text, "socks5") }

func checkRPCListen(text string) string {
	scheme, host, port, path, problem := splitURL(text)
	switch {
	case problem != "":
		return problem
	case scheme == "unix":
		if port != "" || (host != "" && host != "~") || path == "" {
			return "must be unix:///absolute/path"
		}
		return ""
	case scheme != "tcp" && scheme != "http+tcp":
		return "must begin with unix://, tcp:// or http+tcp://"
	case path != "" && path != "/":
		return "must end after the port"
	}
	return checkHostPort(host, port)
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
