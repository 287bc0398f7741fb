package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"hearsay/internal/config"
	"hearsay/p2p"
)

var testEnv = config.Env{Home: "/home/u", ConfigHome: "/home/u/.config", DataHome: "/home/u/.local/share"}

func parse(t testing.TB, text string) *config.Config {
	t.Helper()
	cfg, problems := config.Parse([]byte(text), testEnv)
	if cfg == nil {
		t.Fatal(problems)
	}
	return cfg
}

// Every sample of a darkirc user becomes a node: "passes config check and runs".
func TestSamplesMakeNodes(t *testing.T) {
	files, err := filepath.Glob("../../internal/config/testdata/darkirc/*.toml")
	if err != nil || len(files) < 10 {
		t.Fatal(len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if problems := checkWiring(parse(t, string(text))); len(problems) > 0 {
			t.Error(file, problems)
		}
	}
	if problems := checkWiring(parse(t, config.DefaultText())); len(problems) > 0 {
		t.Error(problems)
	}
}

func TestNodeConfig(t *testing.T) {
	cfg := parse(t, `
[net]
magic_bytes = [1, 2, 3, 4]
active_profiles = ["quic"]
mixed_profiles = ["tcp"]
inbound_connections = 0
outbound_connections = 3
known_peer_percent = 0
ban_policy = "relaxed"
tor_socks5_proxy = "socks5://127.0.0.1:9150"
peers = ["quic://192.0.2.1:1", "quic://192.0.2.1:01"]
blacklist = [["192.0.2.2", ["quic"], [7]]]
[net.profiles."quic"]
inbound = ["quic://0.0.0.0:0"]
outbound_connect_timeout = 20
`)
	pc, err := nodeConfig(cfg, nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if pc.Magic != (p2p.Magic{1, 2, 3, 4}) || pc.InboundConnections >= 0 || pc.OutboundConnections != 3 || pc.KnownPeerPercent >= 0 {
		t.Errorf("%+v", pc)
	}
	if len(pc.Peers) != 1 || pc.Peers[0].String() != "quic://192.0.2.1:1/" {
		t.Error("one peer in two spellings is one:", pc.Peers)
	}
	if pc.BanPolicy != p2p.BanRelaxed || pc.TorProxy.String() != "socks5://127.0.0.1:9150/" || !pc.NymProxy.IsZero() {
		t.Error(pc.BanPolicy, pc.TorProxy, pc.NymProxy)
	}
	if pc.Profiles["quic"] != (p2p.Profile{ConnectTimeout: 20 * time.Second, HandshakeTimeout: 10 * time.Second, Heartbeat: 30 * time.Second}) {
		t.Error(pc.Profiles)
	}
	if !reflect.DeepEqual(pc.Blacklist, []p2p.BlockRule{{Host: "192.0.2.2", Schemes: []string{"quic"}, Ports: []uint16{7}}}) {
		t.Error(pc.Blacklist)
	}
	if pc.HostsFile != "/home/u/.local/share/hearsay/hearsay/hosts.tsv" || pc.AppVersion != "0.5.1" {
		t.Error(pc.HostsFile, pc.AppVersion)
	}
	if pc.Features[putStatusFeature] != 1 { // DS-80
		t.Error(pc.Features)
	}
	// Without active profiles nothing is dialled, which is not p2p's default.
	pc, err = nodeConfig(parse(t, ""), nil, nil, nil)
	if err != nil || pc.ActiveProfiles == nil || len(pc.ActiveProfiles) != 0 {
		t.Error(pc.ActiveProfiles, err)
	}
}

func TestRequestTimeout(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 15 * time.Second,
		"[net]\nactive_profiles = [\"tor\", \"quic\"]\n[net.profiles.tor]\n[net.profiles.quic]":                                     65 * time.Second,
		"[net]\nactive_profiles = [\"quic\"]\n[net.profiles.tor]\n[net.profiles.quic]\noutbound_connect_timeout = 7":                7 * time.Second,
		"[net]\nactive_profiles = [\"tcp\", \"tor\"]\nmixed_profiles = [\"tcp\"]\n[net.profiles.tor]\noutbound_connect_timeout = 9": 9 * time.Second,
	} {
		if got := requestTimeout(parse(t, text).Net); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestNeededProxies(t *testing.T) {
	for text, want := range map[string][]proxy{
		"": nil,
		"[net]\nactive_profiles = [\"tcp\"]\n[net.profiles.tcp]": nil,
		config.DefaultText(): {{"Tor", "127.0.0.1:9050"}},
		"[net]\nactive_profiles = [\"tor\", \"tor+tls\"]\n[net.profiles.tor]\n[net.profiles.\"tor+tls\"]":                                    {{"Tor", "127.0.0.1:9050"}},
		"[net]\nactive_profiles = [\"i2p\"]\ni2p_socks5_proxy = \"socks5://127.0.0.1:1\"\n[net.profiles.i2p]":                                {{"I2P", "127.0.0.1:1"}},
		"[net]\nactive_profiles = [\"socks5\"]\n[net.profiles.socks5]\nseeds = [\"socks5://127.0.0.1:2/a:1\", \"socks5://127.0.0.1:2/b:1\"]": {{"SOCKS5", "127.0.0.1:2"}},
	} {
		if got := neededProxies(parse(t, text).Net); !slices.Equal(got, want) {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestChangedSections(t *testing.T) {
	before := parse(t, config.DefaultText())
	if got := changedSections(before, parse(t, config.DefaultText()+"[channel.\"#new\"]\n")); len(got) != 0 {
		t.Error("a new channel needs no restart:", got)
	}
	if got := changedSections(before, parse(t, strings.Replace(config.DefaultText(), "min_connections = 2", "min_connections = 1", 1))); !slices.Equal(got, []string{"[outbound]"}) {
		t.Error(got)
	}
}

func TestMOTD(t *testing.T) {
	path := filepath.Join(t.TempDir(), "motd")
	if err := os.WriteFile(path, []byte("one\r\n\ntwo \xff\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, err := readMOTD(path)
	if err != nil || !slices.Equal(lines, []string{"one", "", "two \uFFFD"}) {
		t.Errorf("%q, %v", lines, err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x\n", 100_000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if lines, err := readMOTD(path); err != nil || len(lines) != maxMOTDLines {
		t.Error(len(lines), err)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if lines, err := readMOTD(path); err != nil || len(lines) != 1 || len(lines[0]) != maxMOTD {
		t.Error(len(lines), err)
	}
	if _, err := readMOTD(path + "none"); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestNetEvents(t *testing.T) {
	u := p2p.MustParseURL("tcp://192.0.2.1:1")
	for _, c := range []struct {
		e    p2p.Event
		want string
	}{
		{p2p.Event{Kind: p2p.EventSend, Peer: 3, URL: u, Command: "ping", Time: time.Unix(0, 42)}, `{"event":"send","info":{"chan":{"addr":"tcp://192.0.2.1:1/","id":3},"cmd":"ping","time":"42"}}`},
		{p2p.Event{Kind: p2p.EventInboundConnected, Peer: 3, URL: u}, `{"event":"inbound_connected","info":{"addr":"tcp://192.0.2.1:1/","channel_id":3}}`},
		{p2p.Event{Kind: p2p.EventSlotSleeping}, `{"event":"outbound_slot_sleeping","info":{"slot":0}}`},
		{p2p.Event{Kind: p2p.EventSlotConnecting, Slot: 1, URL: u}, `{"event":"outbound_slot_connecting","info":{"addr":"tcp://192.0.2.1:1/","slot":1}}`},
		{p2p.Event{Kind: p2p.EventSlotConnected, Slot: 1, URL: u, Peer: 2}, `{"event":"outbound_slot_connected","info":{"addr":"tcp://192.0.2.1:1/","channel_id":2,"slot":1}}`},
		{p2p.Event{Kind: p2p.EventSlotDisconnected, Slot: 1, Reason: "x"}, `{"event":"outbound_slot_disconnected","info":{"err":"x","slot":1}}`},
		{p2p.Event{Kind: p2p.EventPeerDiscovery, Attempt: 1, State: "s"}, `{"event":"outbound_peer_discovery","info":{"attempt":1,"state":"s"}}`},
		{p2p.Event{Kind: p2p.EventDirectConnected, URL: u, Peer: 4}, `{"event":"direct_connected","info":{"addr":"tcp://192.0.2.1:1/","channel_id":4,"connect_addr":"tcp://192.0.2.1:1/"}}`},
	} {
		if got := mustJSON(t, netEvent(c.e)); got != c.want {
			t.Errorf("\n got %s\nwant %s", got, c.want)
		}
	}
}

// The contract: no address at info level, and nothing prints what must not print.
func TestLogger(t *testing.T) {
	var b strings.Builder
	log := newLogger(&b, zerolog.InfoLevel)
	log.Debug("hidden")
	log.Info("shown", "peer", p2p.MustParseURL("tcp://192.0.2.1:1"), "conn", p2p.ConnID(77), slog.Group("g", "n", 1))
	got := b.String()
	if strings.Contains(got, "hidden") || strings.Contains(got, "192.0.2.1") || strings.Contains(got, "77") || !strings.Contains(got, `"message":"shown"`) {
		t.Error(got)
	}
}
