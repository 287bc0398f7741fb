package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hearsay/internal/box"
)

var testEnv = Env{Home: "/home/u", ConfigHome: "/home/u/.config", DataHome: "/home/u/.local/share"}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func samples(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.toml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d sample files, %v", len(files), err)
	}
	return files
}

// The contract: a darkirc file works unchanged, and each of its keys without
// meaning here is exactly one warning.
func TestSamples(t *testing.T) {
	for _, path := range samples(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			data := read(t, path)
			head, _, _ := strings.Cut(string(data), "\n")
			text, _ := strings.CutPrefix(head, "# warnings: ")
			text, _, _ = strings.Cut(text, " ")
			want, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("first line %q", head)
			}
			cfg, problems := Parse(data, testEnv)
			if cfg == nil || len(problems) != want {
				t.Errorf("want %d warnings, got:", want)
				for _, p := range problems {
					t.Error(p)
				}
			}
		})
	}
}

func TestDefaultFile(t *testing.T) {
	cfg, problems := Parse([]byte(DefaultText()), testEnv)
	if cfg == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	if !cmp.Equal(cfg.Net.Active, []string{"tor"}) || len(cfg.Net.Seeds) != 2 {
		t.Errorf("the default is Tor only: %v %v", cfg.Net.Active, cfg.Net.Seeds)
	}
	if cfg.Net.Magic != [4]byte{251, 229, 199, 181} || cfg.Net.TorProxy != "socks5://127.0.0.1:9050" {
		t.Error(cfg.Net.Magic, cfg.Net.TorProxy)
	}
	if len(cfg.Chat.Autojoin) != 9 || cfg.Datastore != "/home/u/.local/share/hearsay" || cfg.RPC.Listen != "" {
		t.Error(cfg.Chat.Autojoin, cfg.Datastore, cfg.RPC.Listen)
	}
	// Clearnet stays commented out, with its price beside it.
	text := DefaultText()
	i := strings.Index(text, "\n#active_profiles = [\"tcp+tls\"]")
	if i < 0 || !strings.Contains(text[max(0, i-400):i], "price") {
		t.Error("no commented clearnet profile with its price")
	}
	// What is commented out is a setting's default or an example, so it must parse:
	// a default that has drifted from the code would mislead.
	var b strings.Builder
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, "#"); ok && !strings.HasPrefix(line, "# ") &&
			strings.Contains(line, " = ") && !strings.Contains(line, "...") &&
			!strings.Contains(line, "active_profiles") && !strings.Contains(line, "key\"") &&
			!strings.Contains(line, "seeds") && !strings.Contains(line, "inbound") &&
			!strings.Contains(line, "external_addrs") && !strings.Contains(line, "topic") && !strings.Contains(line, "peers") {
			line = rest
		} else if strings.HasPrefix(line, "#[graph]") || strings.HasPrefix(line, "#[network]") || strings.HasPrefix(line, "#[mailbox") {
			line = line[1:]
		}
		b.WriteString(line)
	}
	all, problems := Parse([]byte(b.String()), testEnv)
	if all == nil {
		t.Fatal(problems)
	}
	if diff := cmp.Diff(cfg.Graph, all.Graph); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(cfg.Outbound, all.Outbound); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(cfg.Network, all.Network); diff != "" {
		t.Error(diff)
	}
	want := &MailboxRelay{
		Listen: "0.0.0.0:9610", External: "relay.example.org:9610", Contact: "mailto:operator@example.org", Claims: true,
		Policy: "no warranty; best effort", Limits: RelayLimits{RelayRows: 65536, RelayBytes: 64 << 20, ClientRequests: 2048, RelayRequests: 8192},
	}
	if diff := cmp.Diff(want, all.Mailbox.Relay); diff != "" {
		t.Error(diff)
	}
}

// TestManyContacts (MB-22; spec/mailbox.md, tokens): more contacts than fit a check-in are a warning,
// at an own relay and at one where they collect.
func TestManyContacts(t *testing.T) {
	const key, other = "6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN", "WpSggvhoqoVW4XJvfjsB52dvVunYSQWrz6XiuMQVsCf"
	one := "mailbox = [\"quic://h:1?key=" + key + "\", \"tcp+tls://h:1?key=" + key + "\"]\n"
	for _, c := range []struct {
		contacts      int
		own           bool
		mailbox, rest string // of the first and of the others
		want          string
	}{
		{292, true, "", "", ""},
		{293, true, "", "", "line 1: warning: mailbox.relays: 293 contacts take 4102 tokens; a relay registers 4096 "},
		{293, true, one, one, "line 1: warning: mailbox.relays: 293 contacts "},
		{293, false, "", "", ""},
		{292, false, one, one, ""},
		{293, false, one, one, "contact.mailbox: 293 contacts take 4102 tokens"},
		{293, false, strings.ReplaceAll(one, key, other), one, ""}, // 292 at one relay, one at the other
	} {
		var b strings.Builder
		if c.own {
			b.WriteString("[mailbox]\nrelays = [\"quic://h:1?key=" + key + "\"]\n")
		}
		for i := range c.contacts {
			fmt.Fprintf(&b, "[contact.\"c%d\"]\ndm_chacha_public = %q\nmy_dm_chacha_secret = \"4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw\"\n", i, box.GenerateSecret().Public().Base58())
			if i == 0 {
				b.WriteString(c.mailbox)
			} else {
				b.WriteString(c.rest)
			}
		}
		cfg, problems := Parse([]byte(b.String()), testEnv)
		warned := ""
		for _, p := range problems {
			if text := p.String(); strings.Contains(text, "take turns") && p.Warning {
				warned = text
			}
		}
		if cfg == nil || (c.want == "") != (warned == "") || !strings.Contains(warned, c.want) {
			t.Errorf("%d contacts, own %t: %q, want %q", c.contacts, c.own, warned, c.want)
		}
	}
}

// TestRelayLimits (MB-50): each number at its bound, one past it, and too small.
func TestRelayLimits(t *testing.T) {
	for key, bound := range map[string][3]string{
		"envelope_ttl":     {`"720h"`, `"721h"`, `"0s"`},
		"registration_ttl": {`"1440h"`, `"1441h"`, `"0s"`},
		"lease_ttl":        {`"120s"`, `"121s"`, `"0s"`},
		"dedup_ttl":        {`"1h"`, `"61m"`, `"0s"`},
		"page_rows":        {"128", "129", "0"},
		"page_bytes":       {`"1MiB"`, `"1048577B"`, `"127KiB"`},
		"request_tokens":   {"4096", "4097", "0"},
		"client_tokens":    {"4096", "4097", "0"},
		"client_rows":      {"4096", "4097", "0"},
		"client_bytes":     {`"32MiB"`, `"33MiB"`, `"127KiB"`},
		"client_leases":    {"4", "5", "0"},
		"client_requests":  {"1000000", "1000001", "0"},
		"token_rows":       {"256", "257", "0"},
		"token_bytes":      {`"16MiB"`, `"17MiB"`, `"127KiB"`},
		"token_leases":     {"2", "3", "0"},
		"relay_rows":       {"65536", "65537", "0"},
		"relay_bytes":      {`"64MiB"`, `"65MiB"`, `"127KiB"`},
		"relay_leases":     {"4096", "4097", "0"},
		"relay_requests":   {"1000000", "1000001", "0"},
		"registrations":    {"262144", "262145", "0"},
		"rate_rows":        {"16384", "16385", "0"},
		"dedup_rows":       {"65536", "65537", "0"},
		"acked_leases":     {"16384", "16385", "0"},
		"penalty_rows":     {"128", "129", "0"},
	} {
		for i, v := range bound {
			cfg, problems := Parse([]byte("[mailbox.relay.limits]\n"+key+" = "+v), testEnv)
			if ok := cfg != nil; ok != (i == 0) {
				t.Errorf("%s = %s: %v", key, v, problems)
			}
		}
	}
}

func TestEmptyFile(t *testing.T) {
	cfg, problems := Parse(nil, testEnv)
	if cfg == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	want := &Config{
		Datastore: "/home/u/.local/share/hearsay",
		Slots:     Slots{Sync: 24, Retain: 24},
		IRC:       IRC{Listen: "tcp://127.0.0.1:6667"},
		Graph:     Graph{Genesis: 1740787200000, Contents: "darkirc-v1", Rotation: time.Hour, TimeDrift: time.Minute},
		Network:   Network{AppName: "darkirc", AppVersion: [3]uint64{0, 5, 1}},
		Net: Net{
			Magic: [4]byte{217, 239, 182, 125}, Profiles: map[string]Timeouts{},
			TorProxy: "socks5://127.0.0.1:9050", I2PProxy: "socks5://127.0.0.1:4447",
			OutboundConnections: 8, InboundConnections: 8,
			DiscoveryCooloff: 30 * time.Second, DiscoveryAttempt: 5 * time.Second,
			RefineryInterval: 15 * time.Second, KnownPeerPercent: 70, NoConnectionsTime: 30 * time.Second,
		},
		Outbound: Outbound{
			MinConnections: 2, Wakeup: 30 * time.Second, RetryInitial: 30 * time.Second,
			RetryRounds: 5, MaxMessages: 4096, MaxBytes: 16 << 20, TipEvidence: true,
		},
		Mailbox: Mailbox{Interval: time.Minute},
	}
	if diff := cmp.Diff(want, cfg); diff != "" {
		t.Error(diff)
	}
}

func TestAllKeys(t *testing.T) {
	cfg, _ := Parse(read(t, "testdata/hearsay/all-keys.toml"), testEnv)
	if cfg == nil {
		t.Fatal("not parsed")
	}
	if cfg.IRC.TLSCert != "/home/u/irc.crt" || cfg.IRC.TLSKey != "/etc/hearsay/irc.key" || cfg.Chat.MOTD != "/home/u/motd" {
		t.Error("paths", cfg.IRC, cfg.Chat.MOTD)
	}
	if want := (Graph{1704067200000, "mine", 10 * time.Minute, 20 * time.Second}); cfg.Graph != want {
		t.Error(cfg.Graph)
	}
	if want := (Outbound{1, 5 * time.Second, 10 * time.Second, 3, 100, 4 << 20, false, "/etc/hearsay/custody.key"}); cfg.Outbound != want {
		t.Error(cfg.Outbound)
	}
	if cfg.Network != (Network{"mine", [3]uint64{1, 2, 3}}) || cfg.Metrics.Listen != "127.0.0.1:9606" {
		t.Error(cfg.Network, cfg.Metrics)
	}
	if cfg.RPC.Listen != "unix:///run/hearsay.sock" || cfg.Log != (Log{"/home/u/log", 2}) || !cfg.Slots.Archive {
		t.Error(cfg.RPC, cfg.Log, cfg.Slots)
	}
	if len(cfg.Chat.Contacts) != 1 || cfg.Chat.Contacts[0].Secret.Base58() != "4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw" {
		t.Error("contact")
	}
}

func TestRelaySample(t *testing.T) {
	cfg, _ := Parse(read(t, "testdata/darkirc/relay.toml"), testEnv)
	if cfg == nil {
		t.Fatal("not parsed")
	}
	n := cfg.Net
	wantBlack := []BlacklistEntry{
		{Host: "198.51.100.9"},
		{Host: "bad.example.org", Schemes: []string{"tcp+tls", "quic"}, Ports: []uint16{9600, 9601}},
		{Host: "198.51.100.10"},
	}
	if diff := cmp.Diff(wantBlack, n.Blacklist); diff != "" {
		t.Error(diff)
	}
	wantIn := []string{"tcp+tls://0.0.0.0:9600", "tcp+tls://[::]:9600", "quic://0.0.0.0:9603?upnp_igd=true"}
	if diff := cmp.Diff(wantIn, n.Inbound); diff != "" {
		t.Error(diff)
	}
	if !n.BanRelaxed || n.GetAddrsMax != 20 || n.NodeID != "relay-1" || n.DiscoveryCooloff != time.Minute {
		t.Error(n)
	}
	want := map[string]Timeouts{"tcp+tls": DefaultTimeouts("tcp+tls"), "quic": DefaultTimeouts("quic"), "tcp": DefaultTimeouts("tcp")}
	if diff := cmp.Diff(want, n.Profiles); diff != "" {
		t.Error(diff)
	}
}

// A profile that is not active, or mixed, contributes nothing.
func TestInactiveProfiles(t *testing.T) {
	cfg, problems := Parse([]byte(`
[net]
magic_bytes = [1, 2, 3, 4]
active_profiles = ["tor", "tcp"]
mixed_profiles = ["tcp"]
[net.profiles."tor"]
peers = ["tor://a.onion:1"]
outbound_connect_timeout = 5
[net.profiles."tcp"]
peers = ["tcp://192.0.2.1:1"]
[net.profiles."quic"]
inbound = ["quic://0.0.0.0:1"]
`), testEnv)
	if cfg == nil || len(problems) > 0 {
		t.Fatal(problems)
	}
	if !cmp.Equal(cfg.Net.Peers, []string{"tor://a.onion:1"}) || len(cfg.Net.Inbound) != 0 {
		t.Error(cfg.Net.Peers, cfg.Net.Inbound)
	}
	want := map[string]Timeouts{"tor": {5 * time.Second, 55 * time.Second, 90 * time.Second}}
	if diff := cmp.Diff(want, cfg.Net.Profiles); diff != "" {
		t.Error(diff)
	}
}

// Every mistake is told with its key and its line.
func TestErrors(t *testing.T) {
	const (
		public = `"6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN"`
		secret = `"4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw"`
	)
	for _, c := range []struct {
		text string // the fault is in its last line, unless want says another
		want string
	}{
		{"a = ", "line 1: expected value"},
		{"\n\na = 1\na = 2", "line 4: a"},
		{"\x00", "line 1:"},
		{"[net]\n[net]", "line 2: "},
		{"\nirc_listne = 1", `line 2: irc_listne: unknown key; did you mean "irc_listen"?`},
		{"zzz = 1", "line 1: zzz: unknown key"},
		{"[net]\nmagic_bytes=[1,2,3,4]\nbogus = 1", "line 3: net.bogus: unknown key"},
		{"[nte]\na = 1", `line 1: nte: unknown key; did you mean "net"?`},
		{"[channel.\"#a\"]\nsecrit = \"x\"", `line 2: channel."#a".secrit: unknown key; did you mean "secret"?`},
		{"[outbound]\nmin_conections = 1", "line 2: outbound.min_conections: unknown key; did you mean"},
		{"irc_listen = 1", "line 1: irc_listen: must be a string, not a whole number"},
		{"dags_count = \"1\"", "line 1: dags_count: must be a whole number, not a string"},
		{"dags_count = 1.5", "line 1: dags_count: must be a whole number, not a number or a date"},
		{"archive_mode = 1", "line 1: archive_mode: must be true or false"},
		{"autojoin = \"#a\"", "line 1: autojoin: must be an array"},
		{"autojoin = [\n\"#a\",\n1]", "line 3: autojoin: must hold strings only"},
		{"net = 1", "line 1: net: must be a table"},
		{"[channel]\na = 1", "line 2: channel.a: must be a table"},
		{"[[contact]]\na = 1", "line 1: contact: must be a table, not an array"},
		{"dags_count = 0", "line 1: dags_count: must be from 1"},
		{"history_retention_dags = 0", "line 1: history_retention_dags: must be from 1"},
		{"history_retention_dags = 12", "line 1: history_retention_dags: dags_count (24) must not exceed"},
		{"history_retention_dags = 12\ndags_count = 13", "line 2: dags_count: dags_count (13) must not exceed"},
		{"dags_count = 99999999999999999999", "line 1:"},
		{"autojoin = [\"#a\",\n\"#a\"]", "line 2: autojoin: #a is listed twice"},
		{"autojoin = [\"#a\",\n\"#A\"]", "line 2: autojoin: #A is listed twice"},
		{"[graph]\ngenesis_contents = \"\"", "line 2: graph.genesis_contents: must have 1 to 1024"},
		{"password = \"$2b$17$GgN9OTbFQN5cwfxPjM9Koed.Cc3mCKzt8xgtNyVkxz7NF5Zvo39wW\"", "line 1: password: has cost 17"},
		{"autojoin = [\"a\"]", "line 1: autojoin: a channel's name starts with #"},
		{"[channel.\"dev\"]", `line 1: channel.dev: a channel's name starts with #`},
		{"[channel.\"##dev\"]", "line 1: channel.\"##dev\": a channel's name has one #"},
		{"[channel.\"#\"]", "a channel's name has 2 to 24 bytes"},
		{"[channel.\"#aaaaaaaaaaaaaaaaaaaaaaaa\"]", "a channel's name has 2 to 24 bytes"},
		{"[channel.\"#a b\"]", "a channel's name is printable ASCII"},
		{"[channel.\"#a,b\"]", "a channel's name is printable ASCII"},
		{"[channel.\"#\u00fc\"]", "a channel's name is printable ASCII"},
		{"[channel.\"#a\"]\n[channel.\"#A\"]", "line 2: channel.\"#A\": differs from #a in case only"},
		{"[channel.\"#a\"]\nsecret = \"0OIl\"", `line 2: channel."#a".secret: must be 32 bytes in base58`},
		{"[channel.\"#a\"]\nsecret = \"" + strings.Repeat("1", 32) + "\"", `line 2: channel."#a".secret: is no secret`},
		{"[channel.\"#a\"]\nsecret = \"\"", `line 2: channel."#a".secret: must be 32 bytes in base58`},
		{"[channel.\"#a\"]\nsecret = \"" + strings.Repeat("z", 100_000) + "\"", "must be 32 bytes in base58"},
		{"[channel.\"#a\"]\ntopic = \"a\\nb\"", `line 2: channel."#a".topic: must be one line`},
		{"[contact.\"a\"]\nmy_dm_chacha_secret = " + secret, "line 1: contact.a.dm_chacha_public: is required"},
		{"[contact.\"a\"]\ndm_chacha_public = " + public, "line 1: contact.a.my_dm_chacha_secret: is required"},
		{"[contact.\"a\"]\nmy_dm_chacha_secret = " + secret + "\ndm_chacha_public = \"x\"", "line 3: contact.a.dm_chacha_public: must be 32 bytes"},
		{"[contact.\"a\"]\nmy_dm_chacha_secret = " + secret + "\ndm_chacha_public = \"" + strings.Repeat("1", 32) + "\"", "line 3: contact.a.dm_chacha_public: cannot be anybody"},
		{"[contact.\"a b\"]\nmy_dm_chacha_secret = " + secret + "\ndm_chacha_public = " + public, `line 1: contact."a b": a contact's label is a nick`},
		{"[contact.\"NickServ\"]\nmy_dm_chacha_secret = " + secret + "\ndm_chacha_public = " + public, "line 1: contact.NickServ: a contact cannot be called like a service"},
		{"[contact.\"" + strings.Repeat("a", 25) + "\"]", "a contact's label has 1 to 24 bytes"},
		{"rln_enabled = true", "line 1: rln_enabled: rate-limiting proofs are refused"},
		{"password = \"hunter2\"", "line 1: password: must be the hash"},
		{"irc_listen = \"127.0.0.1:6667\"", "line 1: irc_listen: is no address"},
		{"irc_listen = \"udp://127.0.0.1:6667\"", "line 1: irc_listen: must begin with tcp:// or tcp+tls://"},
		{"irc_listen = \"tcp://127.0.0.1\"", "line 1: irc_listen: has no port"},
		{"irc_listen = \"tcp://127.0.0.1:99999\"", "line 1: irc_listen: "},
		{"irc_listen = \"tcp+tls://127.0.0.1:6697\"", "line 1: irc_listen: tcp+tls needs irc_tls_cert"},
		{"datastore = \"\"", "line 1: datastore: must be a path"},
		{"[graph]\nrotation = \"1m\"", "line 2: graph.rotation: rotation (1m0s) must be"},
		{"[graph]\nrotation = \"120500ms\"", "line 2: graph.rotation: must be whole seconds"},
		{"[graph]\ntime_drift = \"1h\"", "line 2: graph.time_drift: rotation (1h0m0s) must be"},
		{"[graph]\ntime_drift = \"0s\"", "line 2: graph.time_drift: must be from"},
		{"[graph]\nrotation = 60", "line 2: graph.rotation: must be a string"},
		{"[graph]\nrotation = \"soon\"", `line 2: graph.rotation: "soon" is no duration`},
		{"[graph]\ngenesis = -1", "line 2: graph.genesis: must be milliseconds"},
		{"[network]\napp_version = \"1.2\"", "line 2: network.app_version: must be three numbers"},
		{"[network]\napp_name = \"\"", "line 2: network.app_name: must have 1 to 64 bytes"},
		{"[outbound]\nmin_connections = 0", "line 2: outbound.min_connections: must be from 1"},
		{"[outbound]\nretry_initial = \"1h\"\nretry_rounds = 16", "line 3: outbound.retry_rounds: retry_initial doubled 16 times"},
		{"[outbound]\nretry_initial = \"2h\"", "line 2: outbound.retry_initial: must be from 1s"},
		{"[outbound]\nretry_rounds = 17", "line 2: outbound.retry_rounds: "},
		{"[outbound]\nmax_messages = 1048577", "line 2: outbound.max_messages: "},
		{"[outbound]\nmax_bytes = \"17GiB\"", "line 2: outbound.max_bytes: "},
		{"[outbound]\nwakeup = \"0s\"", "line 2: outbound.wakeup: must be from 1s"},
		{"[outbound]\nmax_bytes = \"1MiB\"", "line 2: outbound.max_bytes: must be from 2MiB"},
		{"[outbound]\nmax_bytes = \"9223372036854775807GiB\"", "line 2: outbound.max_bytes: "},
		{"[metrics]\nlisten = \"9606\"", "line 2: metrics.listen: must be host:port"},
		{"[rpc]\nrpc_listen = \"udp://127.0.0.1:1\"", "line 2: rpc.rpc_listen: must begin with unix://"},
		{"[rpc]\nrpc_content_methods = [\"ping\"]", "line 2: rpc.rpc_content_methods: only"},
		{"[net]\nmagic_bytes = [1,2,3]", "line 2: net.magic_bytes: must be four numbers"},
		{"[net]\nmagic_bytes = [1,2,3,256]", "line 2: net.magic_bytes: must be numbers from 0 to 255"},
		{"[net]\nlocalnet = true\nactive_profiles = [\"tor\"]", `line 3: net.active_profiles: "tor" needs a table [net.profiles."tor"]`},
		{"[net]\nlocalnet = true\nactive_profiles = [\"carrier-pigeon\"]", `line 3: net.active_profiles: "carrier-pigeon" is unknown`},
		{"[net]\nlocalnet = true\n[net.profiles.\"tcp\"]\npeers = [\"tcp://a:1\",\n\"ftp://a:1\"]", `line 5: net.profiles.tcp.peers: ftp://a:1 has the unknown scheme "ftp"`},
		{"[net]\nlocalnet = true\n[net.profiles.\"tcp\"]\nseeds = [\"tcp://a\"]", "line 4: net.profiles.tcp.seeds: tcp://a has no port"},
		{"[net]\nlocalnet = true\n[net.profiles.\"tcp\"]\nwhat = 1", "line 4: net.profiles.tcp.what: unknown key"},
		{"[net]\nlocalnet = true\n[net.profiles.\"ftp\"]", "line 3: net.profiles.ftp: unknown profile"},
		{"[net]\nlocalnet = true\n[net.profiles.\"tcp+tls\"]\noutbound_connect_timeout = 0", `line 4: net.profiles."tcp+tls".outbound_connect_timeout: must be from 1`},
		{"[net]\nlocalnet = true\npeers = [\"socks5://127.0.0.1:9050\"]", "line 3: net.peers: socks5://127.0.0.1:9050 must be socks5://proxy:port/host:port"},
		{"[net]\nlocalnet = true\npeers = [\"unix://h/p\"]", "line 3: net.peers: unix://h/p must be unix:///"},
		{"[net]\nlocalnet = true\ninbound = [\"tcp://1.2.3.4\"]", "line 3: net.inbound: tcp://1.2.3.4 has no port"},
		{"[net]\nlocalnet = true\nban_policy = \"lax\"", "line 3: net.ban_policy: must be"},
		{"[net]\nlocalnet = true\nblacklist = [[\"h\", \"tcp\"]]", "line 3: net.blacklist: must hold entries"},
		{"[net]\nlocalnet = true\nblacklist = [[\"h\", [], [70000]]]", "line 3: net.blacklist: must hold entries"},
		{"[net]\nlocalnet = true\nknown_peer_percent = 101", "line 3: net.known_peer_percent: must be from 0 to 100"},
		{"[net]\nlocalnet = true\ntor_socks5_proxy = \"http://127.0.0.1:9050\"", "line 3: net.tor_socks5_proxy: must begin with socks5://"},
		{"[mailbox]\nrelays = [\"quic://h:1\"]", "line 2: mailbox.relays: needs the relay's key"},
		{"[mailbox]\nrelays = [\"http://h:1\"]", "line 2: mailbox.relays: must be quic://"},
		{"[mailbox]\nrelays = [\n\"quic://h:0?key=6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN\"]", "line 3: mailbox.relays: needs a host"},
		{"[mailbox]\nrelays = [\"quic://[fe80::1%25eth0]:1?key=6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN\"]", "line 2: mailbox.relays: needs a host"},
		{"[mailbox]\nrelays = [\"quic://h:1/x?key=6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN\"]", "line 2: mailbox.relays: must hold scheme"},
		{"[mailbox]\nrelays = [\"quic://h:1?key=6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN&key=6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN\"]", "line 2: mailbox.relays: must hold scheme"},
		{"[mailbox.relay]\nexternal = \":9610\"", "line 2: mailbox.relay.external: must be host:port"},
		{"a.b.c = 1", "line 1: a: unknown key"},
		{"x = {y = 1, z = [{}]}", "line 1: x: unknown key"},
		{strings.Repeat("#", maxFile+1), "larger than"},
	} {
		cfg, problems := Parse([]byte(c.text), testEnv)
		errs := problems.Errors()
		if cfg != nil || len(errs) == 0 {
			t.Errorf("%.80q: accepted, want %q", c.text, c.want)
			continue
		}
		if !strings.Contains(errs[0].String(), c.want) {
			t.Errorf("%.80q:\n got %v\nwant %s", c.text, errs[0], c.want)
		}
		if len(errs) != 1 && !strings.Contains(c.want, "label has") {
			t.Errorf("%.80q: more than one error: %v", c.text, errs)
		}
	}
}

// Each key of darkirc without meaning here: one warning, with its line.
func TestWarnings(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"\nfast_mode = true", "line 2: warning: fast_mode: has no meaning here"},
		{"sled_cache_mb = 1", "line 1: warning: sled_cache_mb: has no meaning here"},
		{"[net]\nlocalnet = true\ngold_connect_count = 1", "line 3: warning: net.gold_connect_count: has no meaning here"},
		{"[net]\nlocalnet = true\nactive_profiles = [\"nym\"]", `line 3: warning: net.active_profiles: "nym" is not spoken here`},
		{"[net]\nactive_profiles = []", "line 1: warning: net.magic_bytes: is not set"},
		{"[net]\nlocalnet = true\nactive_profiles = [\"quic\"]\n[net.profiles.\"quic\"]\npeers = [\"quic://a:1\", \"tcp://a:1\"]", `line 3: warning: net.active_profiles: does not hold "tcp", so the peer tcp://a:1 will not be dialed`},
		{"irc_listen = \"tcp://0.0.0.0:6667\"", "line 1: warning: irc_listen: everybody who can reach"},
		{"history_retention_dags = 10001", "line 1: warning: history_retention_dags: is taken as 10000"},
		{"[channel.\"#a\"]\ntopic = \"" + strings.Repeat("\u00fc", 196) + "\"", `line 2: warning: channel."#a".topic: is cut after 390`},
		{"[metrics]\nlisten = \":9606\"", "line 2: warning: metrics.listen: everybody"},
		{"[contact.\"a\"]\ndm_chacha_public = \"6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN\"\nmy_dm_chacha_secret = \"4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw\"\n" +
			"[contact.\"b\"]\ndm_chacha_public = \"6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN\"\nmy_dm_chacha_secret = \"4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw\"\n", "line 4: warning: contact.b: has the same keys as a"},
	} {
		cfg, problems := Parse([]byte(c.text), testEnv)
		if cfg == nil || len(problems) != 1 || !strings.Contains(problems[0].String(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text, problems, c.want)
		}
	}
}

func TestManyProblemsInOrder(t *testing.T) {
	_, problems := Parse([]byte("dags_count = 0\nfoo = 1\nfast_mode = true\n[net]\nlocalnet = 3\nmagic_bytes = 3\n"), testEnv)
	var got []int
	for _, p := range problems {
		got = append(got, p.Line)
	}
	if !cmp.Equal(got, []int{1, 2, 3, 5, 6}) {
		t.Error(problems)
	}
	if text := problems.Error(); !strings.Contains(text, "line 1: dags_count") || !strings.Contains(text, "3 more") {
		t.Error(text)
	}
}

func TestBoundsOfNames(t *testing.T) {
	for _, name := range []string{"#a", "#:", "#" + strings.Repeat("a", 23)} {
		if text := checkChannel(name); text != "" {
			t.Error(name, text)
		}
	}
	for _, label := range []string{"a", "1", "-", "[]{}\\`^|_-", strings.Repeat("a", 24)} {
		if text := checkLabel(label); text != "" {
			t.Error(label, text)
		}
	}
}

func TestPaths(t *testing.T) {
	for in, want := range map[string]string{"~": "/home/u", "~/a/b": "/home/u/a/b", "/a": "/a", "a": "a", "~b": "~b"} {
		if got := testEnv.Expand(in); got != want {
			t.Error(in, got)
		}
	}
	if testEnv.ConfigFile() != "/home/u/.config/hearsay/hearsay.toml" || ControlSocket("/d") != "/d/hearsay.sock" || StoreDir("/d") != "/d/hearsay" {
		t.Error("paths of the contract")
	}
	t.Setenv("HOME", "/h")
	t.Setenv("XDG_CONFIG_HOME", "/c")
	t.Setenv("XDG_DATA_HOME", "relative")
	if got, want := OSEnv(), (Env{Home: "/h", ConfigHome: "/c", DataHome: "/h/.local/share"}); got != want {
		t.Error(got)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	env := Env{Home: dir, ConfigHome: dir, DataHome: dir}
	if _, path, problems, err := LoadDefault(env); err != nil || path != "" || len(problems) > 0 {
		t.Error("without a file the default holds:", path, problems, err)
	}
	if _, _, err := Load(filepath.Join(dir, "none"), env); err == nil {
		t.Error("a named file must exist")
	}
	if err := os.MkdirAll(filepath.Dir(env.ConfigFile()), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(env.ConfigFile(), []byte("foo = 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, path, problems, err := LoadDefault(env)
	if cfg != nil || path != env.ConfigFile() || len(problems) != 1 || err == nil {
		t.Error(path, problems, err)
	}
}

// DS-44, failure case 63: no way of printing a configuration shows a key.
func TestSecretsDoNotPrint(t *testing.T) {
	cfg, _ := Parse(read(t, "testdata/darkirc/localnet-node1.toml"), testEnv)
	if cfg == nil || len(cfg.Chat.Contacts) == 0 || cfg.Chat.Channels[0].Secret.IsZero() {
		t.Fatal("no secrets to hide")
	}
	var b strings.Builder
	log := slog.New(slog.NewJSONHandler(&b, nil))
	for _, v := range []any{*cfg, cfg, cfg.Chat, cfg.Chat.Channels[0], cfg.Chat.Channels[0].Secret, cfg.Chat.Contacts, cfg.Chat.Contacts[0].Secret, cfg.Chat.Contacts[0].Public} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%x", "%s", "%q"} {
			fmt.Fprintf(&b, verb+"\n", v)
		}
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(j)
		log.Info("x", "v", v)
	}
	for _, key := range []string{"01020304", "1 2 3 4", "1, 2, 3, 4", "0x1, 0x2", "AQIDBA", "4wBqpZM9", `\x01\x02`, "5885b5", "[88 133"} {
		if strings.Contains(b.String(), key) {
			t.Errorf("%q printed", key)
		}
	}
}

// Every field of Config is set by some key of the sample with all of them, or by
// the relay's: a field that no key reaches would be dead.
func TestEveryFieldIsReached(t *testing.T) {
	reached := map[string]bool{}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				walk(path+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		}
		reached[path] = reached[path] || !v.IsZero()
	}
	for _, path := range samples(t) {
		if cfg, _ := Parse(read(t, path), testEnv); cfg != nil {
			walk("", reflect.ValueOf(*cfg))
		}
	}
	// Booleans that no sample sets.
	delete(reached, ".Net.DisableGreys")
	for path, ok := range reached {
		if !ok {
			t.Error(path)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, path := range samples(f) {
		f.Add(read(f, path))
	}
	f.Add([]byte(DefaultText()))
	f.Add([]byte("[[a]]\n[a.b]\nc.d=1\n[[a.b.e]]\n"))
	f.Add([]byte("a = [1, [2, {b = 3}]]\n'' = 1979-05-27"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, problems := Parse(data, testEnv)
		if (cfg == nil) != (len(problems.Errors()) > 0) {
			t.Fatal("a Config comes exactly without errors")
		}
		lines := 1 + strings.Count(string(data), "\n")
		for _, p := range problems {
			if p.Line < 0 || p.Line > lines {
				t.Fatalf("line %d of %d: %s", p.Line, lines, p)
			}
			if p.Text == "" {
				t.Fatal("a problem without text")
			}
		}
	})
}
