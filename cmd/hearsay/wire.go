package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/ircd"
	"hearsay/mailbox/relay"
	"hearsay/p2p"
)

// putStatusFeature is the capability of DS-80.
const putStatusFeature = gossip.FeatureStatus

// schemas are the versions of what this build stores (MB-46).
func schemas() map[string]int {
	return map[string]int{"graph": eventgraph.Schema, custodyKind: custodySchema, relayKind: relay.Schema}
}

func graphDir(cfg *config.Config) string {
	return filepath.Join(config.StoreDir(cfg.Datastore), "graph")
}

func graphOptions(cfg *config.Config, log *slog.Logger) kv.Options {
	return kv.Options{Dir: graphDir(cfg), Kind: eventgraph.Kind, Schema: eventgraph.Schema, Sync: true, Logger: log}
}

func graphConfig(cfg *config.Config, log *slog.Logger) eventgraph.Config {
	return eventgraph.Config{
		Params: eventgraph.Params{
			Genesis:  eventgraph.Slot(cfg.Graph.Genesis),
			Contents: []byte(cfg.Graph.Contents),
			Rotation: cfg.Graph.Rotation,
			Drift:    cfg.Graph.TimeDrift,
		},
		// In archive mode the retention says nothing, but what is synced must be taken in.
		Window:  max(cfg.Slots.Retain, cfg.Slots.Sync),
		Archive: cfg.Slots.Archive,
		Logger:  log,
	}
}

func gossipConfig(cfg *config.Config, graph *eventgraph.Graph, log *slog.Logger) gossip.Config {
	return gossip.Config{
		Graph:          graph,
		SkipSync:       cfg.Slots.SkipSync,
		ManualPut:      true, // the queue's worker sends, after it can recognise an answer
		SyncSlots:      cfg.Slots.Sync,
		RequestTimeout: requestTimeout(cfg.Net),
		Logger:         log,
	}
}

// requestTimeout is the longest connect timeout of the active profiles, as on the
// network (eventgraph facts, section 2).
func requestTimeout(n config.Net) time.Duration {
	longest := time.Duration(0)
	for _, t := range n.Profiles {
		longest = max(longest, t.Connect)
	}
	if longest == 0 {
		return 15 * time.Second
	}
	return longest
}

// nodeConfig turns the network's part into p2p's. An error names the address that
// p2p does not take.
func nodeConfig(cfg *config.Config, protocols []p2p.Protocol, observer func(p2p.Event), log *slog.Logger) (p2p.Config, error) {
	n := cfg.Net
	var errs []error
	urls := func(key string, texts ...string) []p2p.URL {
		var out []p2p.URL
		for _, text := range texts {
			u, err := p2p.ParseURL(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("net.%s: %s: %w", key, text, err))
				continue
			}
			if !slices.Contains(out, u) {
				out = append(out, u)
			}
		}
		return out
	}
	one := func(key, text string) p2p.URL {
		if us := urls(key, text); text != "" && len(us) == 1 {
			return us[0]
		}
		return p2p.URL{}
	}
	none := func(n int) int { // zero means "none" in the file, "default" in the package
		if n == 0 {
			return -1
		}
		return n
	}
	v := cfg.Network.AppVersion
	pc := p2p.Config{
		Magic:      p2p.Magic(n.Magic),
		NodeID:     n.NodeID,
		AppName:    cfg.Network.AppName,
		AppVersion: fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]),
		Features:   map[string]uint32{gossip.FeatureStatus: gossip.FeatureStatusVersion},

		Inbound:       urls("inbound", n.Inbound...),
		ExternalAddrs: urls("external_addrs", n.External...),
		Peers:         urls("peers", n.Peers...),
		Seeds:         urls("seeds", n.Seeds...),

		Profiles:       map[string]p2p.Profile{},
		ActiveProfiles: append([]string{}, n.Active...), // not nil: that would mean all
		MixedProfiles:  n.Mixed,
		TorProxy:       one("tor_socks5_proxy", n.TorProxy),

		OutboundConnections:      none(n.OutboundConnections),
		InboundConnections:       none(n.InboundConnections),
		Localnet:                 n.Localnet,
		GetaddrsMax:              n.GetAddrsMax,
		HostsFile:                n.Hostlist,
		GreylistRefineryInterval: n.RefineryInterval,
		KnownPeerPercent:         none(n.KnownPeerPercent),
		DisableGreys:             n.DisableGreys,
		TimeWithNoConnections:    n.NoConnectionsTime,
		DiscoveryAttempt:         n.DiscoveryAttempt,
		DiscoveryCooloff:         n.DiscoveryCooloff,

		Protocols: protocols,
		Observer:  observer,
		Logger:    log,
	}
	if n.NymProxy != "" {
		pc.NymProxy = one("nym_socks5_proxy", n.NymProxy)
	}
	if pc.HostsFile == "" {
		pc.HostsFile = filepath.Join(config.StoreDir(cfg.Datastore), "hosts.tsv")
	}
	if n.BanRelaxed {
		pc.BanPolicy = p2p.BanRelaxed
	}
	for scheme, t := range n.Profiles {
		pc.Profiles[scheme] = p2p.Profile{ConnectTimeout: t.Connect, HandshakeTimeout: t.Handshake, Heartbeat: t.Heartbeat}
	}
	for _, b := range n.Blacklist {
		pc.Blacklist = append(pc.Blacklist, p2p.BlockRule{Host: b.Host, Schemes: b.Schemes, Ports: b.Ports})
	}
	pc.Transports = p2p.DefaultTransports(p2p.TransportConfig{
		TorSOCKS5: pc.TorProxy, I2PSOCKS5: one("i2p_socks5_proxy", n.I2PProxy),
	})
	return pc, errors.Join(errs...)
}

// checkWiring finds what only the packages that are configured can know.
func checkWiring(cfg *config.Config) config.Problems {
	var problems config.Problems
	bad := func(key string, err error) {
		problems = append(problems, config.Problem{Key: key, Text: strings.ReplaceAll(err.Error(), "\n", "; ")})
	}
	pc, err := nodeConfig(cfg, nil, nil, nil)
	if err == nil {
		_, err = p2p.New(pc)
	}
	if err != nil {
		bad("net", err)
	}
	settings, err := ircSettings(cfg.Chat)
	if err != nil {
		problems = append(problems, config.Problem{Key: "motd", Text: err.Error(), Warning: true})
	}
	if err := settings.Validate(); err != nil {
		bad("channel, contact, autojoin", err)
	}
	if n, err := refusedRelays(cfg); err != nil {
		bad("mailbox, contact", err)
	} else if n > 0 {
		problems = append(problems, config.Problem{Key: "mailbox.relays", Text: fmt.Sprintf(mailRefused, are(n, "mailbox relay")), Warning: true})
	}
	for _, file := range []struct{ key, path string }{{"irc_tls_cert", cfg.IRC.TLSCert}, {"irc_tls_secret", cfg.IRC.TLSKey}} {
		if file.path == "" || !strings.HasPrefix(cfg.IRC.Listen, "tcp+tls:") {
			continue
		}
		if f, err := os.Open(file.path); err != nil {
			bad(file.key, err)
		} else {
			_ = f.Close()
		}
	}
	return problems
}

// ircSettings is what a REHASH reloads. An error is about the MOTD alone; the rest
// holds.
func ircSettings(chat config.Chat) (ircd.Settings, error) {
	st := ircd.Settings{Autojoin: chat.Autojoin}
	for _, c := range chat.Channels {
		st.Channels = append(st.Channels, ircd.Channel{Name: c.Name, Topic: c.Topic, Secret: c.Secret})
	}
	for _, c := range chat.Contacts {
		st.Contacts = append(st.Contacts, ircd.Contact{Label: c.Label, Public: c.Public, Secret: c.Secret})
	}
	lines, err := readMOTD(chat.MOTD)
	st.MOTD = lines
	return st, err
}

// Bounds of the MOTD, which every client gets when it connects.
const (
	maxMOTD      = 64 << 10
	maxMOTDLines = 500
)

func readMOTD(path string) ([]string, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("motd: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	var lines []string
	scan := bufio.NewScanner(io.LimitReader(f, maxMOTD))
	scan.Buffer(nil, maxMOTD+1)
	for scan.Scan() && len(lines) < maxMOTDLines {
		lines = append(lines, strings.ToValidUTF8(strings.TrimRight(scan.Text(), "\r"), "\uFFFD"))
	}
	if err := scan.Err(); err != nil {
		return nil, fmt.Errorf("motd: %w", err)
	}
	return lines, nil
}

// ircListen is the listener of the configuration.
func ircListen(cfg config.IRC) (ircd.Listen, error) {
	u, err := url.Parse(cfg.Listen)
	if err != nil {
		return ircd.Listen{}, fmt.Errorf("irc_listen: %w", err)
	}
	l := ircd.Listen{Address: u.Host}
	if u.Scheme == "tcp+tls" {
		l.CertFile, l.KeyFile = cfg.TLSCert, cfg.TLSKey
	}
	return l, nil
}

// connID is a connection's name in the status: of this process, never an address.
func connID(id p2p.ConnID) string { return strconv.FormatUint(uint64(id), 10) }
