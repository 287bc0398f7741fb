package p2p

import (
	"crypto/sha3"
	"encoding/base32"
	"net/netip"
	"strings"
)

// localPrefixes are the addresses that are not reachable from everywhere
// (spec/wire.md, section 6).
var localPrefixes = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "240.0.0.0/4",
	"::/128", "::1/128", "::ffff:0:0/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
	"2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10",
)

// globalExceptions are global all the same.
var globalExceptions = prefixes(
	"192.0.0.9/32", "192.0.0.10/32",
	"2001:1::1/128", "2001:1::2/128", "2001:3::/32", "2001:4:112::/48", "2001:20::/28", "2001:30::/28",
)

func prefixes(texts ...string) []netip.Prefix {
	ps := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		ps[i] = netip.MustParsePrefix(t)
	}
	return ps
}

// isLocal tells whether u's host is an address or name of this machine or a private
// network. Other names are never local.
func isLocal(u URL) bool {
	switch u.HostKind() {
	case HostIPv4, HostIPv6:
		return isLocalIP(u.IP())
	case HostName:
		h := u.Host()
		return h == "localhost" || h == "localhost.localdomain"
	default:
		return false
	}
}

func isLocalIP(a netip.Addr) bool {
	in := func(ps []netip.Prefix) bool {
		for _, p := range ps {
			if p.Contains(a) {
				return true
			}
		}
		return false
	}
	if a.Is4In6() { // netip matches no IPv6 prefix with these
		return true
	}
	return in(localPrefixes) && !in(globalExceptions)
}

// validOnion tells whether host is a version 3 onion name: key, checksum and version
// in base32.
func validOnion(host string) bool {
	name, ok := strings.CutSuffix(host, ".onion")
	if !ok {
		return false
	}
	b, err := base32.StdEncoding.DecodeString(strings.ToUpper(name))
	if err != nil || len(b) != 35 || b[34] != 3 {
		return false
	}
	h := sha3.Sum256(append(append([]byte(".onion checksum"), b[:32]...), 3))
	return h[0] == b[32] && h[1] == b[33]
}

// validI2P tells whether host is a name of the I2P network.
func validI2P(host string) bool {
	name, ok := strings.CutSuffix(host, ".i2p")
	if !ok || name == "" {
		return false
	}
	if key, ok := strings.CutSuffix(name, ".b32"); ok {
		b, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(key))
		return err == nil && len(b) == 32
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '.'
	})
}
