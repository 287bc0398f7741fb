package ircd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/bcrypt"

	"hearsay/internal/box"
	"hearsay/internal/privmsg"
	"hearsay/internal/readstate"
)

// ErrConfig: a Config or Settings cannot be used. It wraps the reasons, each a
// [*SettingError] where it is about an entry.
var ErrConfig = errors.New("ircd: invalid configuration")

// Config configures a Server. Zero values mean the default that is named.
type Config struct {
	// Listen are the addresses to serve. None is allowed: see [Server.AddListener].
	Listen []Listen
	// ServerName is the source of the server's own lines; default "irc.hearsay".
	ServerName string
	// NetworkName is what ISUPPORT calls the network; default "darkirc".
	NetworkName string
	// Version is what VERSION and 002 say; default "hearsay".
	Version string
	// PasswordHash is a bcrypt hash; empty: no password. darkirc's fixed-salt strings
	// are such hashes (T21). See [HashPassword].
	PasswordHash string
	// MaxClients bounds the connections, registered or not; default 512.
	MaxClients int
	// SendQueue bounds the bytes that wait for one client; default 512 KiB. A client
	// that falls further behind is cut off.
	SendQueue int
	// HistoryLines bounds the messages of one conversation that are replayed to a
	// client; default 500, at most 1000. Negative: none.
	HistoryLines int
	// HistoryAge bounds the age of what is replayed; default 24 hours.
	HistoryAge time.Duration
	// LogBytes bounds the memory of all conversations' logs; default 16 MiB.
	LogBytes int

	// Settings are what Apply can replace later.
	Settings Settings

	// Keeps says for how long this node keeps texts, for HISTORY of "*status": a phrase that
	// ends a sentence. Default "as long as this node keeps texts".
	Keeps string

	// Log is where messages arrive. Required.
	Log Log
	// Outbox takes accepted messages. Required.
	Outbox Outbox
	// Keys is where the Server keeps the Settings' keys, shared with what it is that
	// materialises; default: its own.
	Keys *Keys
	// ReadState keeps what the person's devices have read; default: in memory.
	ReadState *readstate.Store
	// Network is asked for the state that clients are told about; nil: nothing is told.
	Network Network
	// Reload re-reads the configuration on REHASH: it ends up calling
	// [Server.Apply]. nil: REHASH is refused.
	Reload func(ctx context.Context) (Summary, error)

	// Editor writes contacts and channels into the configuration; nil: nobody does.
	Editor Editor

	// StatusCommands are what "*status" can do beside its own.
	StatusCommands []StatusCommand

	// Now is the wall clock of times that are shown; default time.Now.
	Now func() time.Time
	// Logger: default discards.
	Logger *slog.Logger
}

// A Listen is one address to serve.
type Listen struct {
	Address  string // host:port of a TCP listener
	CertFile string // with KeyFile: serve TLS; PEM, the whole chain; re-read by Apply
	KeyFile  string // PKCS#1, PKCS#8 or EC
}

func (l Listen) tls() bool { return l.CertFile != "" || l.KeyFile != "" }

// Settings are the part of the configuration that can change while the server runs.
type Settings struct {
	Channels []Channel
	Contacts []Contact
	Autojoin []string
	MOTD     []string // lines; a longer one is wrapped
}

// A Channel is a configured channel.
type Channel struct {
	Name   string
	Topic  string
	Secret box.SecretKey // zero: a public channel
}

// A Contact is somebody to exchange direct messages with.
type Contact struct {
	Label  string
	Public box.PublicKey // theirs
	Secret box.SecretKey // ours
}

// A Summary says what a reload did, for the person who asked for it.
type Summary struct {
	Changed      []string // one line each
	NeedsRestart []string // settings that changed without effect
}

// A SettingError is a fault of one entry.
type SettingError struct {
	Table string // "channel", "contact", "autojoin", "listen"
	Name  string // of the entry
	Err   error
}

// Error names the entry and what is wrong with it.
func (e *SettingError) Error() string { return fmt.Sprintf("%s %q: %v", e.Table, e.Name, e.Err) }

// Unwrap is the fault.
func (e *SettingError) Unwrap() error { return e.Err }

// Validate checks names, keys and doubles (T23). The error wraps ErrConfig and, with
// errors.Join, one SettingError per fault.
func (st *Settings) Validate() error {
	var faults []error
	fault := func(table, name string, format string, args ...any) {
		faults = append(faults, &SettingError{table, name, fmt.Errorf(format, args...)})
	}
	const channelRule = "a channel is # and 1 to 23 printable ASCII characters without space and comma, and not ##"
	seen := map[string]bool{}
	for _, c := range st.Channels {
		if !privmsg.ValidChannel(c.Name) {
			fault("channel", c.Name, channelRule)
			continue
		}
		if seen[privmsg.Fold(c.Name)] {
			fault("channel", c.Name, "configured twice (clients do not tell upper from lower case)")
		}
		seen[privmsg.Fold(c.Name)] = true
		if len(c.Topic) > maxTopic || !utf8.ValidString(c.Topic) || strings.ContainsAny(c.Topic, "\r\n\x00") {
			fault("channel", c.Name, "a topic is one line of at most %d bytes", maxTopic)
		}
		if !c.Secret.IsZero() {
			if _, err := box.NewShared(c.Secret); err != nil {
				fault("channel", c.Name, "%w", err)
			}
		}
	}
	seen = map[string]bool{}
	for _, c := range st.Contacts {
		switch folded := privmsg.Fold(c.Label); {
		case !privmsg.ValidNick(c.Label):
			fault("contact", c.Label, "a contact's name is 1 to 24 of letters, digits and -_[]{}\\`^|")
			continue
		case services[folded] != "" || disguises[folded]:
			fault("contact", c.Label, "the name is reserved")
		case seen[folded]:
			fault("contact", c.Label, "configured twice (clients do not tell upper from lower case)")
		}
		seen[privmsg.Fold(c.Label)] = true
		if c.Secret.IsZero() || c.Public.IsZero() {
			fault("contact", c.Label, "needs the contact's public key and a secret of ours")
		} else if _, err := box.New(c.Secret, c.Public); err != nil {
			fault("contact", c.Label, "%w", err)
		}
	}
	seen = map[string]bool{}
	for _, name := range st.Autojoin {
		if !privmsg.ValidChannel(name) {
			fault("autojoin", name, channelRule)
		} else if seen[privmsg.Fold(name)] {
			fault("autojoin", name, "listed twice")
		}
		seen[privmsg.Fold(name)] = true
	}
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrConfig, errors.Join(faults...))
}

// keyring derives the boxes of validated settings.
func (st *Settings) keyring() (*privmsg.Keyring, error) {
	var channels []privmsg.ChannelKey
	for _, c := range st.Channels {
		if !c.Secret.IsZero() {
			channels = append(channels, privmsg.ChannelKey{Name: c.Name, Secret: c.Secret})
		}
	}
	var contacts []privmsg.ContactKey
	for _, c := range st.Contacts {
		contacts = append(contacts, privmsg.ContactKey{Label: c.Label, Public: c.Public, Secret: c.Secret})
	}
	return privmsg.NewKeyring(channels, contacts)
}

// validate checks c and fills in the defaults.
func (c *Config) validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %w", ErrConfig, fmt.Errorf(format, args...))
	}
	if c.Log == nil || c.Outbox == nil {
		return fail("Log and Outbox are required")
	}
	if err := validateStatusCommands(c.StatusCommands); err != nil {
		return fail("%w", err)
	}
	def := func(s *string, v string) {
		if *s == "" {
			*s = v
		}
	}
	def(&c.ServerName, "irc.hearsay")
	def(&c.NetworkName, "darkirc")
	def(&c.Version, "hearsay")
	def(&c.Keeps, "as long as this node keeps texts")
	if !isHostname(c.ServerName) {
		return fail("server name %q is not a host name with a dot", c.ServerName)
	}
	if strings.ContainsAny(c.NetworkName, " \r\n\x00=") || len(c.NetworkName) > 64 {
		return fail("network name %q has a space or is too long", c.NetworkName)
	}
	if strings.ContainsAny(c.Version, " \r\n\x00") || len(c.Version) > 100 {
		return fail("version %q has a space or is too long", c.Version)
	}
	if c.PasswordHash != "" {
		cost, err := bcrypt.Cost([]byte(c.PasswordHash))
		if err != nil {
			return fail("the password is not a bcrypt hash (make one with the password command)")
		}
		if cost > maxBcryptCost {
			return fail("the password hash has cost %d, at most %d", cost, maxBcryptCost)
		}
	}
	num := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	num(&c.MaxClients, 512)
	num(&c.SendQueue, 512<<10)
	num(&c.HistoryLines, 500)
	num(&c.LogBytes, 16<<20)
	c.HistoryLines = max(0, min(c.HistoryLines, maxEntries))
	if c.MaxClients < 0 || c.SendQueue < 2*lowWater || c.LogBytes < 0 || c.HistoryAge < 0 {
		return fail("a limit is negative or too small")
	}
	if c.HistoryAge == 0 {
		c.HistoryAge = 24 * time.Hour
	}
	if c.Keys == nil {
		c.Keys = new(Keys)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.ReadState == nil {
		c.ReadState = readstate.OpenMemory(c.Now)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	for _, l := range c.Listen {
		if l.tls() {
			if _, err := tls.LoadX509KeyPair(l.CertFile, l.KeyFile); err != nil {
				return fmt.Errorf("%w: %w", ErrConfig, &SettingError{"listen", l.Address, err})
			}
		}
	}
	return c.Settings.Validate()
}

func isHostname(s string) bool {
	if !strings.Contains(s, ".") || len(s) > 63 || s[0] == '.' || s[0] == '-' {
		return false
	}
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' {
			return false
		}
	}
	return true
}
