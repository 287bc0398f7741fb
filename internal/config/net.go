package config

import (
	"slices"
	"strings"
	"time"
)

// Bounds of darkirc's network keys. darkirc has none of its own; these are far
// above every use and keep sums from overflowing.
const (
	maxConnections = 10_000
	maxSeconds     = 24 * 3600
)

// DefaultTorProxy serves tor profiles without a proxy key.
const DefaultTorProxy = "socks5://127.0.0.1:9050"

// Net is how the node meets others: [net] and the active profiles in one.
type Net struct {
	Magic    [4]byte
	NodeID   string
	Localnet bool

	// Addresses as they stand in the file, those of active profiles included.
	Inbound  []string
	External []string
	Peers    []string
	Seeds    []string

	// Active are the schemes this node dials; Mixed are schemes of others that it
	// reaches through an active one.
	Active   []string
	Mixed    []string
	Profiles map[string]Timeouts // of every active, unmixed scheme

	TorProxy string // socks5://host:port
	NymProxy string // "" = none
	I2PProxy string

	OutboundConnections int
	InboundConnections  int
	DiscoveryCooloff    time.Duration
	DiscoveryAttempt    time.Duration
	GetAddrsMax         int // 0: as many as OutboundConnections
	Hostlist            string
	RefineryInterval    time.Duration
	KnownPeerPercent    int
	DisableGreys        bool
	NoConnectionsTime   time.Duration
	Blacklist           []BlacklistEntry
	BanRelaxed          bool
}

// Timeouts are those of one profile.
type Timeouts struct {
	Connect   time.Duration
	Handshake time.Duration
	Heartbeat time.Duration
}

// A BlacklistEntry bars a host: all of its ports if Ports is empty, tcp+tls
// alone if Schemes is.
type BlacklistEntry struct {
	Host    string
	Schemes []string
	Ports   []uint16
}

// DefaultTimeouts are those of a profile that says nothing of its own.
func DefaultTimeouts(scheme string) Timeouts {
	if clearnet[scheme] {
		return Timeouts{15 * time.Second, 10 * time.Second, 30 * time.Second}
	}
	return Timeouts{65 * time.Second, 55 * time.Second, 90 * time.Second}
}

// libraryMagic is what darkirc uses where its file names no magic bytes. It is
// not the public network's.
var libraryMagic = [4]byte{217, 239, 182, 125}

func (d *decoder) readNet(s *section, n *Net) {
	*n = Net{
		Magic: libraryMagic, Profiles: map[string]Timeouts{},
		TorProxy: DefaultTorProxy, I2PProxy: "socks5://127.0.0.1:4447",
		OutboundConnections: 8, InboundConnections: 8,
		DiscoveryCooloff: 30 * time.Second, DiscoveryAttempt: 5 * time.Second,
		RefineryInterval: 15 * time.Second, KnownPeerPercent: 70, NoConnectionsTime: 30 * time.Second,
	}
	s.flag("localnet", &n.Localnet)
	d.readMagic(s, n)
	if s.str("node_id", &n.NodeID) && len(n.NodeID) > 255 {
		s.errorf(s.line("node_id"), "node_id", "must have at most 255 bytes")
	}
	d.addresses(s, n)
	d.readProxies(s, n)
	s.num("outbound_connections", &n.OutboundConnections, 0, maxConnections)
	s.num("inbound_connections", &n.InboundConnections, 0, maxConnections)
	s.seconds("outbound_peer_discovery_cooloff_time", &n.DiscoveryCooloff, 0)
	s.seconds("outbound_peer_discovery_attempt_time", &n.DiscoveryAttempt, 0)
	s.num("getaddrs_max", &n.GetAddrsMax, 0, 1<<32-1)
	s.filePath("hostlist", &n.Hostlist)
	s.seconds("greylist_refinery_interval", &n.RefineryInterval, 1)
	if s.num("known_peer_percent", &n.KnownPeerPercent, 0, 100) {
		n.KnownPeerPercent = min(n.KnownPeerPercent, 80) // as darkirc caps it
	}
	s.flag("disable_greys", &n.DisableGreys)
	s.seconds("time_with_no_connections", &n.NoConnectionsTime, 0)
	d.readBlacklist(s, n)
	policy := "strict"
	if s.str("ban_policy", &policy); policy != "strict" && policy != "relaxed" {
		s.errorf(s.line("ban_policy"), "ban_policy", "must be \"strict\" or \"relaxed\"")
	}
	n.BanRelaxed = policy == "relaxed"

	s.inert("p2p_datastore", "darkirc keeps the state of its built-in Tor there; hearsay uses a Tor proxy")
	for _, name := range []string{"outbound_connect_timeout", "channel_handshake_timeout", "channel_heartbeat_interval"} {
		s.inert(name, "timeouts count in [net.profiles] only, as in darkirc")
	}
	s.inert("gold_connect_count", "known_peer_percent has replaced it, in darkirc too")
	s.inert("white_connect_percent", "known_peer_percent has replaced it, in darkirc too")
	d.readProfiles(s, n)
	s.finish()
}

func (d *decoder) readMagic(s *section, n *Net) {
	v, ok := s.get("magic_bytes", kindArray)
	if !ok {
		if !n.Localnet && s.tab != nil && !s.has("magic_bytes") {
			s.warnf(s.tab.line, "magic_bytes", "is not set; darkirc's public network needs [251, 229, 199, 181]")
		}
		return
	}
	if len(v.list) != len(n.Magic) {
		s.errorf(v.line, "magic_bytes", "must be four numbers, not %d", len(v.list))
		return
	}
	for i, e := range v.list {
		if e.kind != kindInt || e.num < 0 || e.num > 255 {
			s.errorf(e.line, "magic_bytes", "must be numbers from 0 to 255")
			return
		}
		n.Magic[i] = byte(e.num)
	}
}

// addresses reads the four lists that [net] and its profiles share, and adds
// them to n.
func (d *decoder) addresses(s *section, n *Net) {
	for _, it := range s.items("inbound") {
		scheme, _, _, _, _ := splitURL(it.text)
		switch problem := checkListen(it.text); {
		case problem != "":
			s.errorf(it.line, "inbound", "%s %s", it.text, problem)
		case unspoken[scheme]:
			s.warnf(it.line, "inbound", "%s is not spoken here and left out", scheme)
		case proxied[scheme] && scheme != "tor": // a Tor service forwards to a local port
			s.warnf(it.line, "inbound", "hearsay does not listen on %s by itself: listen on tcp://127.0.0.1:PORT and let the router forward to it", scheme)
		default:
			n.Inbound = append(n.Inbound, it.text)
		}
	}
	for _, l := range []struct {
		name string
		dst  *[]string
	}{{"external_addrs", &n.External}, {"peers", &n.Peers}, {"seeds", &n.Seeds}} {
		for _, it := range s.items(l.name) {
			scheme, _, _, _, _ := splitURL(it.text)
			switch problem := checkDial(it.text); {
			case problem != "":
				s.errorf(it.line, l.name, "%s %s", it.text, problem)
			case unspoken[scheme]:
				s.warnf(it.line, l.name, "%s is not spoken here and left out", scheme)
			default:
				*l.dst = append(*l.dst, it.text)
			}
		}
	}
}

func (d *decoder) readProxies(s *section, n *Net) {
	for _, p := range []struct {
		name string
		dst  *string
	}{{"tor_socks5_proxy", &n.TorProxy}, {"nym_socks5_proxy", &n.NymProxy}, {"i2p_socks5_proxy", &n.I2PProxy}} {
		if s.str(p.name, p.dst) {
			if problem := checkProxy(*p.dst); problem != "" {
				s.errorf(s.line(p.name), p.name, "%s", problem)
			}
		}
	}
}

func (d *decoder) readProfiles(s *section, n *Net) {
	active := d.schemes(s, "active_profiles")
	n.Mixed = d.schemes(s, "mixed_profiles")
	tables := map[string]bool{}
	profiles := s.sub("profiles")
	profiles.each(func(scheme string, line int, t *section) {
		tables[scheme] = true
		// A profile that is not active contributes nothing, but its text is checked.
		used := slices.Contains(active, scheme) && !slices.Contains(n.Mixed, scheme)
		target := &Net{}
		if used {
			target = n
		}
		timeouts := DefaultTimeouts(scheme)
		t.seconds("outbound_connect_timeout", &timeouts.Connect, 1)
		t.seconds("channel_handshake_timeout", &timeouts.Handshake, 1)
		t.seconds("channel_heartbeat_interval", &timeouts.Heartbeat, 1)
		switch {
		case unspoken[scheme]:
			// The keys are darkirc's, so they are right; the one warning is about the
			// profile, given by schemes if it is active.
			for _, name := range []string{"inbound", "external_addrs", "peers", "seeds"} {
				t.items(name)
			}
		case !spoken[scheme]:
			d.errorf(line, t.path, "unknown profile; known are %s", strings.Join(profileNames(), ", "))
			return
		default:
			d.addresses(t, target)
		}
		t.finish()
		if used && spoken[scheme] {
			n.Profiles[scheme] = timeouts
		}
	})
	for _, scheme := range active {
		if unspoken[scheme] {
			continue
		}
		if !tables[scheme] && !slices.Contains(n.Mixed, scheme) {
			s.errorf(s.line("active_profiles"), "active_profiles", "%q needs a table [net.profiles.%q]", scheme, scheme)
		}
		n.Active = append(n.Active, scheme)
	}
	n.Mixed = slices.DeleteFunc(n.Mixed, func(scheme string) bool { return unspoken[scheme] })
	for _, text := range n.Peers {
		if scheme, _, _, _, _ := splitURL(text); !slices.Contains(n.Active, scheme) && !slices.Contains(n.Mixed, scheme) {
			s.warnf(s.line("active_profiles"), "active_profiles", "does not hold %q, so the peer %s will not be dialed", scheme, text)
		}
	}
}

// schemes reads a list of profile names.
func (d *decoder) schemes(s *section, name string) []string {
	var out []string
	for _, it := range s.items(name) {
		switch {
		case unspoken[it.text]:
			s.warnf(it.line, name, "%q is not spoken here and left out", it.text)
		case !spoken[it.text]:
			s.errorf(it.line, name, "%q is unknown; known are %s", it.text, strings.Join(profileNames(), ", "))
			continue
		case slices.Contains(out, it.text):
			continue
		}
		out = append(out, it.text)
	}
	return out
}

func profileNames() []string {
	var out []string
	for scheme := range spoken {
		out = append(out, scheme)
	}
	slices.Sort(out)
	return out
}

// readBlacklist reads entries [host, [schemes], [ports]].
func (d *decoder) readBlacklist(s *section, n *Net) {
	v, ok := s.get("blacklist", kindArray)
	if !ok {
		return
	}
	const form = `must hold entries such as ["host", ["tcp+tls"], [9600]]`
	for _, e := range v.list {
		if e.kind != kindArray || len(e.list) == 0 || len(e.list) > 3 || e.list[0].kind != kindString || e.list[0].str == "" {
			s.errorf(e.line, "blacklist", form)
			continue
		}
		entry := BlacklistEntry{Host: e.list[0].str}
		good := true
		for i, part := range e.list[1:] {
			if part.kind != kindArray {
				good = false
				break
			}
			for _, p := range part.list {
				switch {
				case i == 0 && p.kind == kindString:
					entry.Schemes = append(entry.Schemes, p.str)
				case i == 1 && p.kind == kindInt && p.num >= 0 && p.num <= 65535:
					entry.Ports = append(entry.Ports, uint16(p.num))
				default:
					good = false
				}
			}
		}
		if !good {
			s.errorf(e.line, "blacklist", form)
			continue
		}
		n.Blacklist = append(n.Blacklist, entry)
	}
}
