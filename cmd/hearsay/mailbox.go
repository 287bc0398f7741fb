package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	socks "golang.org/x/net/proxy"

	"hearsay/internal/config"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
	"hearsay/mailbox/relay"
)

func newMailbox() *cobra.Command {
	return group(&cobra.Command{
		Use: "mailbox", Short: "the relay that keeps mail for those who are away",
		Example: "  hearsay mailbox relay\n  hearsay mailbox address\n  hearsay mailbox client-keys",
	}, newMailboxRelay(), newMailboxAddress(), newMailboxInfo(), newMailboxClientKeys(), newMailboxBackupKey(), newMailboxRestoreKey())
}

func newMailboxRelay() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "the mailbox relay by itself, without chat",
		Long: "Runs the relay of [mailbox.relay], or one with its defaults where the file has none, until SIGINT or SIGTERM.\n" +
			"It keeps sealed envelopes for others and hands them out under leases. What it learns of its users and what\n" +
			"an operator should know is in spec/mailbox-operator.md.",
		Example: "  hearsay mailbox relay\n  hearsay mailbox relay --config /etc/hearsay/relay.toml",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			cfg, _, problems, err := w.load()
			if err != nil {
				return err
			}
			log, done, err := openLog(cfg.Log, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, done()) }()
			if n := len(problems.Warnings()); n > 0 {
				log.Warn("the configuration has warnings; hearsay config check shows them", "count", n)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // the second signal gets its default action
			return runRelay(ctx, cfg, log)
		},
	}
	w.flags(cmd)
	return cmd
}

func newMailboxAddress() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "address",
		Short: "print this relay's address with its key",
		Long: "Prints what the relay's users put into their configuration, making the relay's keys if there are none. The host\n" +
			"is that of external in [mailbox.relay], else of listen. Users behind a proxy write tcp+tls:// instead of quic://.",
		Example: "  hearsay mailbox address",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, _, _, err := w.load()
			if err != nil {
				return err
			}
			a, err := relayAddress(cfg)
			if err != nil {
				return err
			}
			if host, _, err := net.SplitHostPort(a.Host); err == nil {
				if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
					printf(cmd.ErrOrStderr(), "hearsay: set external in [mailbox.relay] to the host and port that others reach\n")
				}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), a)
			return err
		},
	}
	w.flags(cmd)
	return cmd
}

func newMailboxInfo() *cobra.Command {
	var w where
	var asJSON, direct bool
	cmd := &cobra.Command{
		Use:   "info ADDRESS",
		Short: "a relay's published limits, capacity, version and policy",
		Long: "Asks a relay under a key made for this one question. Where a configuration file hides this machine behind a\n" +
			"proxy, only a tcp+tls:// address is asked, through that proxy; --direct asks anyway.",
		Example: "  hearsay mailbox info 'quic://relay.example.org:9610?key=6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN'",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			a, err := mailbox.ParseAddress(list[0])
			if err != nil {
				return err
			}
			cfg, path, _, err := w.load()
			if err != nil {
				return err
			}
			var reach endpoint.Reach
			if path != "" { // the built-in default says nothing of what the user wants hidden
				if reach, err = reachOf(cfg); err != nil {
					return err
				}
				reach.AllowDirect = reach.AllowDirect || direct
			}
			info, err := askInfo(cmd.Context(), reach, a)
			if errors.Is(err, endpoint.ErrDirect) {
				return errors.New("the configuration hides this machine's address: name a tcp+tls:// address, or say --direct")
			}
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(newInfoReport(info))
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			printInfo(out, info)
			return out.Flush()
		},
	}
	w.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&direct, "direct", false, "even where the relay then learns this machine's address")
	return cmd
}

// infoTimeout bounds one question to a relay.
const infoTimeout = 15 * time.Second

func askInfo(ctx context.Context, reach endpoint.Reach, a mailbox.Address) (*mailbox.RelayInfo, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return nil, err
	}
	c, err := reach.Client(a, key)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	resp, err := c.Do(ctx, mailbox.Request{Info: &mailbox.Info{}})
	if err != nil {
		return nil, err
	}
	return resp.Info, nil
}

// reachOf is how the configuration lets relays be reached (MB-47).
func reachOf(cfg *config.Config) (endpoint.Reach, error) {
	r := endpoint.Reach{Proxied: len(cfg.Net.Active) > 0, AllowDirect: cfg.Mailbox.AllowDirect}
	server := ""
	for _, scheme := range cfg.Net.Active {
		switch strings.TrimSuffix(scheme, "+tls") {
		case "tor":
			server = cfg.Net.TorProxy
		case "socks5":
			if server == "" {
				server = cfg.Net.TorProxy
			}
		case "i2p": // hidden, but no way to a relay
		default:
			r.Proxied = false
		}
	}
	if server == "" {
		return r, nil
	}
	u, err := url.Parse(server)
	if err != nil {
		return r, errors.New("the proxy's address is no URL")
	}
	var auth *socks.Auth
	if u.User != nil {
		password, _ := u.User.Password()
		auth = &socks.Auth{User: u.User.Username(), Password: password}
	}
	d, err := socks.SOCKS5("tcp", u.Host, auth, nil)
	if err != nil {
		return r, err
	}
	if cd, ok := d.(socks.ContextDialer); ok {
		r.Proxy = cd.DialContext
	}
	return r, nil
}

// infoReport is "hearsay mailbox info --json".
type infoReport struct {
	Version              string `json:"version"`
	Contact              string `json:"contact"`
	Policy               string `json:"policy"`
	EnvelopeSeconds      uint64 `json:"envelope_seconds"`
	RegistrationSeconds  uint64 `json:"registration_seconds"`
	LeaseSeconds         uint64 `json:"lease_seconds"`
	CapacityRows         uint64 `json:"capacity_rows"`
	CapacityBytes        uint64 `json:"capacity_bytes"`
	UsedRows             uint64 `json:"used_rows"`
	UsedBytes            uint64 `json:"used_bytes"`
	RegistrationsAClient uint64 `json:"registrations_per_client"`
	RequestsAMinute      uint64 `json:"requests_per_minute"`
	Draining             bool   `json:"draining"`
	Claims               bool   `json:"claims"`
}

func newInfoReport(i *mailbox.RelayInfo) infoReport {
	return infoReport{
		i.Version, i.Contact, i.Policy, i.EnvelopeSeconds, i.TokenSeconds, i.LeaseSeconds,
		i.CapacityItems, i.CapacityBytes, i.UsedItems, i.UsedBytes, i.MaxClientTokens, i.RequestsAMinute, i.Draining, i.Claims,
	}
}

func printInfo(out io.Writer, i *mailbox.RelayInfo) {
	or := func(text string) string {
		if text == "" {
			return "none given"
		}
		return fmt.Sprintf("%q", text) // written by somebody else: no control characters
	}
	printf(out, "version: %s\ncontact: %s\npolicy: %s\n", or(i.Version), or(i.Contact), or(i.Policy))
	span := func(seconds uint64) string {
		if seconds%86400 == 0 && seconds > 0 {
			return count(int(seconds/86400), "day")
		}
		return fmt.Sprintf("%d s", seconds)
	}
	printf(out, "retention: envelopes %s, registrations %s, leases %s\n", span(i.EnvelopeSeconds), span(i.TokenSeconds), span(i.LeaseSeconds))
	printf(out, "capacity: %d of %d envelopes, %d of %d bytes\n", i.UsedItems, i.CapacityItems, i.UsedBytes, i.CapacityBytes)
	printf(out, "a client: %d registrations, %d requests a minute\n", i.MaxClientTokens, i.RequestsAMinute)
	if i.Draining {
		printf(out, "draining: no new deposits\n")
	}
}

func newMailboxBackupKey() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "backup-key FILE",
		Short: "copy the relay's two keys into a file",
		Long: "Writes both keys of the relay into a new file that only its owner can read. Without the first the stored envelopes\n" +
			"cannot be opened into pages; without the second the relay's address changes. hearsay mailbox restore-key undoes it.",
		Example: "  hearsay mailbox backup-key /media/safe/relay.keys",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			cfg, _, _, err := w.load()
			if err != nil {
				return err
			}
			keys, err := relay.OpenKeys(relayDir(cfg), true) // there is nothing to back up that is not there
			if err != nil {
				return err
			}
			if err := relay.WriteOwnerOnly(list[0], keys.Backup()); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s: keep it offline, and apart from other backups\n", list[0])
			return err
		},
	}
	w.flags(cmd)
	return cmd
}

func newMailboxRestoreKey() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:     "restore-key FILE",
		Short:   "put the relay's two keys back",
		Long:    "Reads what backup-key wrote and makes the relay's key files of it. Existing ones are never replaced.",
		Example: "  hearsay mailbox restore-key /media/safe/relay.keys",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			cfg, _, _, err := w.load()
			if err != nil {
				return err
			}
			dir, err := makeRelayDir(cfg)
			if err != nil {
				return err
			}
			if err := relay.RestoreKeys(dir, list[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the relay's keys are in place")
			return err
		},
	}
	w.flags(cmd)
	return cmd
}
