package p2p

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestConfigDefaults(t *testing.T) {
	n, err := New(Config{ActiveProfiles: []string{"tcp", "tor", "nym"}, MixedProfiles: []string{"tcp+tls"}})
	if err != nil {
		t.Fatal(err)
	}
	c := n.cfg
	if c.Magic != DarkIRCMagic || c.AppName != "darkirc" || c.version != (semver{minor: 5, patch: 1}) ||
		c.OutboundConnections != 8 || c.InboundConnections != 8 || c.GetaddrsMax != 8 || c.KnownPeerPercent != 70 ||
		c.GreylistRefineryInterval != 15*time.Second || c.TimeWithNoConnections != 30*time.Second ||
		c.DiscoveryAttempt != 5*time.Second || c.DiscoveryCooloff != 30*time.Second || c.BanPolicy != BanStrict {
		t.Errorf("%+v", c.Config)
	}
	slow := Profile{65 * time.Second, 55 * time.Second, 90 * time.Second}
	for scheme, want := range map[string]Profile{
		"tcp": clearnetProfile, "tor": slow, "nym": slow, // active
		"tcp+tls": clearnetProfile, "i2p": clearnetProfile, // mixed, or not active
	} {
		if got := c.profile(scheme); got != want {
			t.Errorf("%s: %+v", scheme, got)
		}
	}
	n, err = New(Config{
		OutboundConnections: -1, InboundConnections: -1, KnownPeerPercent: -5, ActiveProfiles: []string{"tor"},
		Profiles: map[string]Profile{"tor": {Heartbeat: time.Minute}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c := n.cfg; c.OutboundConnections != 0 || c.InboundConnections != 0 || c.KnownPeerPercent != 0 || c.GetaddrsMax != 1 ||
		c.profile("tor") != (Profile{65 * time.Second, 55 * time.Second, time.Minute}) {
		t.Errorf("%+v", c.Config)
	}
	for in, want := range map[int]int{1: 1, 255: 255, 256: 255} {
		if n, err := New(Config{GetaddrsMax: in}); err != nil || n.cfg.GetaddrsMax != want {
			t.Errorf("GetaddrsMax %d: %v", in, err)
		}
	}
	if n, err := New(Config{KnownPeerPercent: 100}); err != nil || n.cfg.KnownPeerPercent != 80 {
		t.Error("KnownPeerPercent above 80")
	}
}

func TestConfigRefuses(t *testing.T) {
	attach := func(*Peer) Handler { return nil }
	protocol := func(cs ...Command) Config {
		return Config{Protocols: []Protocol{{Name: "p", Mask: SessionDefault, Commands: cs, Attach: attach}}}
	}
	urls := func(n, size int) (us []URL) {
		for i := range n {
			host := fmt.Sprintf("%d.", i) + strings.Repeat("a", size-len(fmt.Sprintf("tcp://%d.:1/", i)))
			us = append(us, MustParseURL("tcp://"+host+":1"))
		}
		return us
	}
	features := func(n, size int) map[string]uint32 {
		m := make(map[string]uint32)
		for i := range n {
			m[fmt.Sprintf("%0*d", size, i)] = 1
		}
		return m
	}
	for name, c := range map[string]struct {
		cfg Config
		ok  bool
	}{
		"bad version":                 {Config{AppVersion: "1"}, false},
		"negative duration":           {Config{DiscoveryAttempt: -1}, false},
		"negative profile":            {Config{ActiveProfiles: []string{"tcp"}, Profiles: map[string]Profile{"tcp": {Heartbeat: -1}}}, false},
		"no transport to listen":      {Config{Inbound: []URL{MustParseURL("nym://h:1")}}, false},
		"ten external addresses":      {Config{ExternalAddrs: urls(10, 100)}, true},
		"eleven external addresses":   {Config{ExternalAddrs: urls(11, 30)}, false},
		"long external addresses":     {Config{ExternalAddrs: urls(10, 160)}, false},
		"empty peer":                  {Config{Peers: []URL{{}}}, false},
		"empty seed":                  {Config{Seeds: []URL{{}}}, false},
		"ten features":                {Config{Features: features(10, 20)}, true},
		"eleven features":             {Config{Features: features(11, 20)}, false},
		"long features":               {Config{Features: features(10, 160)}, false},
		"app name at the bound":       {Config{AppName: strings.Repeat("a", maxVerackPayload-27)}, true},
		"app name past the bound":     {Config{AppName: strings.Repeat("a", maxVerackPayload-26)}, false},
		"command of 255 bytes":        {protocol(Command{Name: strings.Repeat("a", 255)}), true},
		"command of 256 bytes":        {protocol(Command{Name: strings.Repeat("a", 256)}), false},
		"empty command":               {protocol(Command{}), false},
		"command of the network":      {protocol(Command{Name: cmdPing}), false},
		"command twice":               {protocol(Command{Name: "a"}, Command{Name: "a"}), false},
		"negative bound":              {protocol(Command{Name: "a", MaxPayload: -1}), false},
		"no Attach":                   {Config{Protocols: []Protocol{{Mask: SessionDefault}}}, false},
		"protocol on seed sessions":   {Config{Protocols: []Protocol{{Mask: SessionSeed, Attach: attach}}}, false},
		"protocol on refine sessions": {Config{Protocols: []Protocol{{Mask: SessionRefine, Attach: attach}}}, false},
	} {
		_, err := New(c.cfg)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What New accepts fits a version message with the longest addresses that are dialed.
func TestVersionAlwaysFits(t *testing.T) {
	long := MustParseURL("tcp://" + strings.Repeat("a", maxDialedURL-len("tcp://:1/")) + ":1")
	if len(long.String()) != maxDialedURL {
		t.Fatal(len(long.String()))
	}
	cfg := Config{Features: map[string]uint32{}}
	for i := range 10 {
		cfg.Features[fmt.Sprintf("%0*d", 60, i)] = 1
		cfg.ExternalAddrs = append(cfg.ExternalAddrs, MustParseURL(fmt.Sprintf("tcp://%d.%s:1", i, strings.Repeat("a", 70))))
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	p := &Peer{node: n, session: SessionOutbound, url: long, route: long}
	if got := len(n.versionFor(p).encode()); got > maxVersionPayload {
		t.Errorf("%d bytes", got)
	}
}

// Every field of Config is looked at here when it is added: how does its zero value
// behave, and is it validated?
func TestConfigFieldsAreAccountedFor(t *testing.T) {
	const known = 34
	if got := reflect.TypeFor[Config]().NumField(); got != known {
		t.Errorf("Config has %d fields: adapt complete, its tests and this number", got)
	}
}

func TestBlockRule(t *testing.T) {
	for _, c := range []struct {
		rule BlockRule
		url  string
		want bool
	}{
		{BlockRule{Host: "1.2.3.4"}, "tcp+tls://1.2.3.4:5", true},
		{BlockRule{Host: "1.2.3.4"}, "tcp://1.2.3.4:5", false},
		{BlockRule{Host: "1.2.3.4", Schemes: []string{"tcp", "quic"}}, "quic://1.2.3.4:5", true},
		{BlockRule{Host: "1.2.3.4", Ports: []uint16{5, 6}}, "tcp+tls://1.2.3.4:6", true},
		{BlockRule{Host: "1.2.3.4", Ports: []uint16{5, 6}}, "tcp+tls://1.2.3.4:7", false},
		{BlockRule{Host: "Example.org"}, "tcp+tls://example.org:7", true},
		{BlockRule{Host: "example.org"}, "tcp+tls://www.example.org:7", false},
	} {
		if got := c.rule.matches(MustParseURL(c.url)); got != c.want {
			t.Errorf("%+v %s: %v", c.rule, c.url, got)
		}
	}
}
