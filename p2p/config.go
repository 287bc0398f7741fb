package p2p

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"hearsay/internal/serial"
)

// ErrConfig is the class of every error of [New].
var ErrConfig = errors.New("p2p: configuration")

// A Config says how a [Node] behaves. The zero value of a field is its default; the
// names are those of upstream's settings (spec/wire.md, section 7).
type Config struct {
	// Magic starts every frame; it must be that of the network. Default
	// [DarkIRCMagic].
	Magic Magic
	// NodeID goes into the version message, for debugging; better left empty.
	NodeID string
	// AppName and AppVersion are compared by peers: equal name, equal major and minor
	// version, or no connection. Defaults "darkirc" and "0.5.1".
	AppName    string
	AppVersion string
	// Features are announced in the version message, on connections that may carry
	// application protocols only: not when dialing as seed or refine. At most 10.
	Features map[string]uint32

	// Inbound are the addresses to listen on. One that fails makes Run fail.
	Inbound []URL
	// ExternalAddrs are the addresses under which others reach this node. They are
	// announced, and recognised as our own. At most 10.
	ExternalAddrs []URL
	// Peers are kept connected (manual sessions).
	Peers []URL
	// Seeds are asked for addresses while too few are known.
	Seeds []URL

	// Profiles holds timeouts by scheme; missing schemes and zero fields get defaults.
	Profiles map[string]Profile
	// ActiveProfiles are the schemes that this node dials. Default: all of Transports
	// where those are given, else none.
	ActiveProfiles []string
	// MixedProfiles are the schemes of peers that are reached through another active
	// profile.
	MixedProfiles []string
	// TorProxy and NymProxy (socks5://host:port) are what mixed routes through SOCKS5
	// use. TorProxy and I2PProxy are also those of the default transports.
	TorProxy, NymProxy, I2PProxy URL

	// OutboundConnections is the number of outbound slots, InboundConnections that of
	// live inbound connections per listener. Default 8; negative: none.
	OutboundConnections int
	InboundConnections  int
	// Localnet accepts addresses of private networks, bans them too, and recognises
	// own addresses by port instead of host.
	Localnet bool
	// GetaddrsMax is how many addresses are asked for at once, at most 255. Default
	// OutboundConnections.
	GetaddrsMax int
	// HostsFile keeps the host lists between runs; empty: nothing does. "~/" is the
	// home directory.
	HostsFile string
	// GreylistRefineryInterval is the pause between two probes of a heard-of address.
	// Default 15 s.
	GreylistRefineryInterval time.Duration
	// KnownPeerPercent is the share of the slots that prefers addresses known to work.
	// Default 70, at most 80; negative: 0.
	KnownPeerPercent int
	// DisableGreys: slots never dial addresses that are only heard of.
	DisableGreys bool
	// TimeWithNoConnections: without a peer for so long, the refinery pauses, so that an
	// offline hour does not empty the lists. Default 30 s.
	TimeWithNoConnections time.Duration
	// Blacklist is refused in both directions.
	Blacklist []BlockRule
	// BanPolicy is BanStrict unless set.
	BanPolicy BanPolicy
	// DiscoveryAttempt is how long a round of peer discovery waits for addresses, and
	// the first pause between two visits to a seed. Default 5 s.
	DiscoveryAttempt time.Duration
	// DiscoveryCooloff bounds the growing pause between visits to a seed: ten times it.
	// Default 30 s.
	DiscoveryCooloff time.Duration

	// Transports dial and listen, by scheme. Default: [DefaultTransports].
	Transports map[string]Transport
	// Protocols are what the application speaks, attached in this order.
	Protocols []Protocol

	// Now is the wall clock: timestamps in messages and host lists. Default time.Now.
	Now func() time.Time
	// Rand is the source of jitter and random picks; nil: a seeded one. The node
	// serialises its use.
	Rand *rand.Rand
	// Logger gets one line per lifecycle change, none with an address. nil: discard.
	Logger *slog.Logger
	// Observer is called for what upstream's viewers show, addresses included. It must
	// not block and may be called from several goroutines at once.
	Observer func(Event)
}

// A Profile holds the timeouts of a scheme. The defaults are 15 s, 10 s and 30 s for
// tcp, tcp+tls and quic, and 65 s, 55 s and 90 s for all others.
type Profile struct {
	ConnectTimeout   time.Duration // of dialing; also the wait for a pong and the pause of a manual peer
	HandshakeTimeout time.Duration // of version and verack
	Heartbeat        time.Duration // between a pong and the next ping; also the least time for a frame
}

// A BlockRule is an entry of the configured black list. No schemes: tcp+tls. No
// ports: all.
type BlockRule struct {
	Host    string
	Schemes []string
	Ports   []uint16
}

// matches tells whether u falls under the rule.
func (r BlockRule) matches(u URL) bool {
	schemes := r.Schemes
	if len(schemes) == 0 {
		schemes = []string{"tcp+tls"}
	}
	if !strings.EqualFold(r.Host, u.Host()) || !slices.Contains(schemes, u.Scheme()) {
		return false
	}
	return len(r.Ports) == 0 || slices.ContainsFunc(r.Ports, func(p uint16) bool {
		return fmt.Sprint(p) == u.Port()
	})
}

// defaultProfile is what a scheme without a profile gets when it is active.
func defaultProfile(scheme string) Profile {
	switch scheme {
	case "tcp", "tcp+tls", "quic":
		return clearnetProfile
	default:
		return Profile{ConnectTimeout: 65 * time.Second, HandshakeTimeout: 55 * time.Second, Heartbeat: 90 * time.Second}
	}
}

var clearnetProfile = Profile{ConnectTimeout: 15 * time.Second, HandshakeTimeout: 10 * time.Second, Heartbeat: 30 * time.Second}

// settings is a Config made complete, and what follows from it.
type settings struct {
	Config
	version  semver
	features []feature
}

// profile is that of a scheme: one that is not active, so a mixed one or a listener's,
// has the clearnet defaults (network rule).
func (s *settings) profile(scheme string) Profile {
	if p, ok := s.Profiles[scheme]; ok {
		return p
	}
	return clearnetProfile
}

// complete validates c and fills in defaults.
func (c Config) complete() (*settings, error) {
	fail := func(format string, args ...any) (*settings, error) {
		return nil, fmt.Errorf("%w: "+format, append([]any{ErrConfig}, args...)...)
	}
	defaultTo(&c.Magic, DarkIRCMagic)
	defaultTo(&c.AppName, "darkirc")
	defaultTo(&c.AppVersion, "0.5.1")
	defaultTo(&c.OutboundConnections, 8)
	defaultTo(&c.InboundConnections, 8)
	c.OutboundConnections, c.InboundConnections = max(c.OutboundConnections, 0), max(c.InboundConnections, 0)
	defaultTo(&c.GetaddrsMax, c.OutboundConnections)
	c.GetaddrsMax = min(max(c.GetaddrsMax, 1), maxGetaddr)
	defaultTo(&c.GreylistRefineryInterval, 15*time.Second)
	defaultTo(&c.KnownPeerPercent, 70)
	c.KnownPeerPercent = min(max(c.KnownPeerPercent, 0), 80)
	defaultTo(&c.TimeWithNoConnections, 30*time.Second)
	defaultTo(&c.DiscoveryAttempt, 5*time.Second)
	defaultTo(&c.DiscoveryCooloff, 30*time.Second)
	if c.GreylistRefineryInterval < 0 || c.TimeWithNoConnections < 0 || c.DiscoveryAttempt < 0 || c.DiscoveryCooloff < 0 {
		return fail("negative duration")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		c.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Observer == nil {
		c.Observer = func(Event) {}
	}
	if rest, ok := strings.CutPrefix(c.HostsFile, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return fail("HostsFile: %w", err)
		}
		c.HostsFile = filepath.Join(home, rest)
	}
	s := &settings{Config: c}
	var err error
	if s.version, err = parseSemver(c.AppVersion); err != nil {
		return fail("AppVersion: %w", err)
	}
	if err := s.completeProfiles(); err != nil {
		return fail("%w", err)
	}
	if err := s.completeAddrs(); err != nil {
		return fail("%w", err)
	}
	if err := s.checkProtocols(); err != nil {
		return fail("%w", err)
	}
	if err := s.checkVersionSize(); err != nil {
		return fail("%w", err)
	}
	return s, nil
}

func defaultTo[T comparable](field *T, v T) {
	var zero T
	if *field == zero {
		*field = v
	}
}

func (s *settings) completeProfiles() error {
	if s.ActiveProfiles == nil {
		for scheme := range s.Transports {
			s.ActiveProfiles = append(s.ActiveProfiles, scheme)
		}
		slices.Sort(s.ActiveProfiles)
	}
	if s.Transports == nil {
		s.Transports = DefaultTransports(TransportConfig{TorSOCKS5: s.TorProxy, I2PSOCKS5: s.I2PProxy})
	}
	profiles := make(map[string]Profile)
	for _, scheme := range s.ActiveProfiles {
		if slices.Contains(s.MixedProfiles, scheme) {
			continue
		}
		p, d := s.Profiles[scheme], defaultProfile(scheme)
		if p.ConnectTimeout < 0 || p.HandshakeTimeout < 0 || p.Heartbeat < 0 {
			return fmt.Errorf("profile %s: negative duration", scheme)
		}
		defaultTo(&p.ConnectTimeout, d.ConnectTimeout)
		defaultTo(&p.HandshakeTimeout, d.HandshakeTimeout)
		defaultTo(&p.Heartbeat, d.Heartbeat)
		profiles[scheme] = p
	}
	s.Profiles = profiles
	return nil
}

func (s *settings) completeAddrs() error {
	for _, u := range s.Inbound {
		if s.Transports[u.Scheme()] == nil {
			return fmt.Errorf("Inbound: no transport for scheme %q", u.Scheme())
		}
	}
	if len(s.ExternalAddrs) > maxExternalAddrs {
		return fmt.Errorf("ExternalAddrs: %d addresses, at most %d", len(s.ExternalAddrs), maxExternalAddrs)
	}
	for name, urls := range map[string][]URL{"ExternalAddrs": s.ExternalAddrs, "Peers": s.Peers, "Seeds": s.Seeds} {
		if slices.ContainsFunc(urls, URL.IsZero) {
			return fmt.Errorf("%s: empty address", name)
		}
	}
	return nil
}

func (s *settings) checkProtocols() error {
	seen := make(map[string]bool)
	for _, c := range baseCommands {
		seen[c.Name] = true
	}
	for _, p := range s.Protocols {
		if p.Attach == nil {
			return fmt.Errorf("protocol %q: no Attach", p.Name)
		}
		if p.Mask&^SessionDefault != 0 {
			return fmt.Errorf("protocol %q: application protocols run on default sessions only", p.Name)
		}
		for _, c := range p.Commands {
			switch {
			case c.Name == "" || len(c.Name) > maxCommand:
				return fmt.Errorf("protocol %q: command of %d bytes", p.Name, len(c.Name))
			case seen[c.Name]:
				return fmt.Errorf("protocol %q: command %q is taken", p.Name, c.Name)
			case c.MaxPayload < 0 || c.Skip < 0 || c.Meter.Threshold < 0 || c.Meter.StepMS < 0 || c.Meter.ExpiryMS < 0:
				return fmt.Errorf("protocol %q: command %q: negative bound", p.Name, c.Name)
			}
			seen[c.Name] = true
		}
	}
	return nil
}

// checkVersionSize refuses what would not fit a version message: peers ban for that.
func (s *settings) checkVersionSize() error {
	if len(s.Features) > maxFeatures {
		return fmt.Errorf("Features: %d, at most %d", len(s.Features), maxFeatures)
	}
	for name, v := range s.Features {
		s.features = append(s.features, feature{name, v})
	}
	slices.SortFunc(s.features, func(a, b feature) int { return strings.Compare(a.name, b.name) })
	m := versionMsg{nodeID: s.NodeID, appName: s.AppName, version: s.version, extSend: s.ExternalAddrs, features: s.features}
	// Two addresses of the peer come on top: leave what a long onion address takes.
	if n := len(m.encode()) + 2*(serial.VarIntSize(maxDialedURL)+maxDialedURL); n > maxVersionPayload {
		return fmt.Errorf("ExternalAddrs, Features and NodeID take %d bytes too many for a version message", n-maxVersionPayload)
	}
	verack := verackMsg{version: s.version, appName: s.AppName}
	if n := len(verack.encode()); n > maxVerackPayload {
		return fmt.Errorf("AppName and AppVersion take %d bytes too many for a verack message", n-maxVerackPayload)
	}
	return nil
}
