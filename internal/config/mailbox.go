package config

import (
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/mr-tron/base58"

	"hearsay/internal/box"
)

// maxMailboxes is the number of relays that a node collects from (MB-53).
const maxMailboxes = 8

// Mailbox is this node as a recipient of mail and as a relay.
type Mailbox struct {
	Relays      []string // addresses of the own relays, each with its key
	Interval    time.Duration
	AllowDirect bool          // MB-47
	Relay       *MailboxRelay // nil: not a relay
}

// A MailboxRelay is the relay role.
type MailboxRelay struct {
	Listen    string // host:port, of UDP for QUIC and of TCP for TLS
	External  string // host:port as others reach it; "" = Listen
	Datastore string // directory; "" = beside the node's own store
	Contact   string // published
	Policy    string // published
	Allow     [][32]byte
	Drain     bool
	Claims    bool // registrations can be claimed by proof (MB-29)
	Limits    RelayLimits
}

// RelayLimits are the numbers of MB-50 and their kin; zero is the relay's default.
type RelayLimits struct {
	EnvelopeTTL, TokenTTL, LeaseTTL, DedupTTL           time.Duration
	PageRows, PageBytes, RequestTokens                  int
	ClientTokens, ClientRows, ClientBytes, ClientLeases int
	ClientRequests, TokenRows, TokenBytes, TokenLeases  int
	RelayRows, RelayBytes, RelayLeases, RelayRequests   int
	Registrations, RateRows, DedupRows                  int
	AckedLeases, PenaltyRows                            int
}

// readMailbox reads the mailbox keys of the schema.
func (d *decoder) readMailbox(s *section, m *Mailbox) {
	*m = Mailbox{Interval: time.Minute}
	m.Relays = d.readMailboxURLs(s, "relays")
	s.duration("interval", &m.Interval, time.Second, 24*time.Hour)
	s.flag("allow_direct", &m.AllowDirect)
	if s.has("relay") {
		m.Relay = &MailboxRelay{}
		d.readMailboxRelay(s.sub("relay"), m.Relay)
	}
	s.finish()
}

// A check-in names at most maxTokens tokens, and a relay registers no more for one client;
// each contact takes tokensPerContact.
const (
	maxTokens        = 4096
	tokensPerContact = 14
	maxMailContacts  = maxTokens / tokensPerContact
)

// checkMailContacts warns of more contacts than one check-in covers: at an own relay all of
// them, for their mail; at one where contacts collect these, for their receipts.
func (d *decoder) checkMailContacts(s *section, cfg *Config) {
	const text = "%d contacts take %d tokens; a relay registers %d for one client and may refuse mail for the rest; in its check-ins more than %d contacts take turns"
	warn := func(line int, key string, n int) {
		if n > maxMailContacts {
			d.warnf(line, key, text, n, n*tokensPerContact, maxTokens, maxMailContacts)
		}
	}
	if len(cfg.Mailbox.Relays) > 0 {
		warn(s.line("mailbox"), "mailbox.relays", len(cfg.Chat.Contacts))
		return // more than these are nowhere
	}
	at := map[string]int{}
	for _, c := range cfg.Chat.Contacts {
		keys := map[string]bool{} // one relay may have two addresses
		for _, address := range c.Mailbox {
			if u, err := url.Parse(address); err == nil {
				keys[u.Query().Get("key")] = true
			}
		}
		for key := range keys {
			at[key]++
		}
	}
	most := 0
	for _, n := range at {
		most = max(most, n)
	}
	warn(s.line("contact"), "contact.mailbox", most)
}

// maxPublished bounds the texts that a relay publishes, in bytes.
const maxPublished = 256

func (d *decoder) readMailboxRelay(s *section, r *MailboxRelay) {
	*r = MailboxRelay{Listen: "0.0.0.0:9610", Claims: true}
	var text string
	if s.str("listen", &text) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "quic" || !hostPort(u.Host) || (u.Path != "" && u.Path != "/") || u.RawQuery != "" {
			s.errorf(s.line("listen"), "listen", "must be quic://host:port")
		} else {
			r.Listen = u.Host
		}
	}
	if s.str("external", &r.External) && r.External != "" && (!hostPort(r.External) || strings.HasPrefix(r.External, ":") || strings.Contains(r.External, "%")) {
		s.errorf(s.line("external"), "external", "must be host:port, such as \"relay.example.org:9610\"")
	}
	s.str("datastore", &r.Datastore)
	r.Datastore = d.env.Expand(r.Datastore)
	for name, dst := range map[string]*string{"contact": &r.Contact, "policy": &r.Policy} {
		if s.str(name, dst) && len(*dst) > maxPublished {
			s.errorf(s.line(name), name, "must have at most %d bytes", maxPublished)
		}
	}
	for _, it := range s.items("allow") {
		key, err := base58.Decode(it.text)
		if err != nil || len(key) != 32 {
			s.errorf(it.line, "allow", "must hold client keys: 32 bytes in base58")
			continue
		}
		r.Allow = append(r.Allow, [32]byte(key))
	}
	s.flag("drain", &r.Drain)
	s.flag("claims", &r.Claims)
	readRelayLimits(s.sub("limits"), &r.Limits)
	s.finish()
}

// readRelayLimits reads limits: each at most its default, but for the request rates
// (decision 0153).
func readRelayLimits(s *section, l *RelayLimits) {
	const day = 24 * time.Hour
	s.duration("envelope_ttl", &l.EnvelopeTTL, time.Second, 30*day)
	s.duration("registration_ttl", &l.TokenTTL, time.Second, 60*day)
	s.duration("lease_ttl", &l.LeaseTTL, time.Second, 2*time.Minute)
	s.duration("dedup_ttl", &l.DedupTTL, time.Second, time.Hour)
	for _, n := range []struct {
		name string
		dst  *int
		most int64
	}{
		{"page_rows", &l.PageRows, 128},
		{"request_tokens", &l.RequestTokens, 4096},
		{"client_tokens", &l.ClientTokens, 4096},
		{"client_rows", &l.ClientRows, 4096},
		{"client_leases", &l.ClientLeases, 4},
		{"client_requests", &l.ClientRequests, 1_000_000},
		{"token_rows", &l.TokenRows, 256},
		{"token_leases", &l.TokenLeases, 2},
		{"relay_rows", &l.RelayRows, 65536},
		{"relay_leases", &l.RelayLeases, 4096},
		{"relay_requests", &l.RelayRequests, 1_000_000},
		{"registrations", &l.Registrations, 262144},
		{"rate_rows", &l.RateRows, 16384},
		{"dedup_rows", &l.DedupRows, 65536},
		{"acked_leases", &l.AckedLeases, 16384},
		{"penalty_rows", &l.PenaltyRows, 128},
	} {
		s.num(n.name, n.dst, 1, n.most)
	}
	// Below an envelope's largest size, mail of that size would be accepted by nobody.
	for _, n := range []struct {
		name string
		dst  *int
		most int64
	}{
		{"page_bytes", &l.PageBytes, 1 << 20},
		{"client_bytes", &l.ClientBytes, 32 << 20},
		{"token_bytes", &l.TokenBytes, 16 << 20},
		{"relay_bytes", &l.RelayBytes, 64 << 20},
	} {
		var v int64
		if s.bytes(n.name, &v, 128<<10, n.most) {
			*n.dst = int(v)
		}
	}
	s.finish()
}

func hostPort(text string) bool {
	host, port, err := net.SplitHostPort(text)
	n, perr := strconv.ParseUint(port, 10, 16)
	return err == nil && perr == nil && n > 0 && !strings.ContainsAny(host, " /?#@")
}

// readMailboxURLs checks addresses of relays, each with the relay's key.
func (d *decoder) readMailboxURLs(s *section, name string) (out []string) {
	items := s.items(name)
	if len(items) > maxMailboxes {
		s.errorf(s.line(name), name, "must hold at most %d relays", maxMailboxes)
	}
	for _, it := range items {
		u, err := url.Parse(it.text)
		if err != nil || (u.Scheme != "quic" && u.Scheme != "tcp+tls") || u.Hostname() == "" || u.Port() == "" {
			s.errorf(it.line, name, "must be quic://host:port?key=KEY or tcp+tls://host:port?key=KEY")
			continue
		}
		if !hostPort(u.Host) || strings.Contains(u.Host, "%") {
			s.errorf(it.line, name, "needs a host that others can reach and a port from 1 to 65535")
			continue
		}
		q, err := url.ParseQuery(u.RawQuery)
		if _, kerr := box.ParsePublic(q.Get("key")); err != nil || kerr != nil {
			s.errorf(it.line, name, "needs the relay's key: ?key= and 32 bytes in base58")
			continue
		}
		if len(q) != 1 || len(q["key"]) != 1 || (u.Path != "" && u.Path != "/") || u.Fragment != "" || u.User != nil {
			s.errorf(it.line, name, "must hold scheme, host, port and key, and nothing else")
			continue
		}
		out = append(out, it.text)
	}
	return out
}
