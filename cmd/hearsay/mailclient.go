package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/mr-tron/base58"
	"github.com/spf13/cobra"

	"hearsay/internal/kv"
	"hearsay/internal/rpc"
	"hearsay/mailbox/endpoint"
)

// A clientKeys is under which public keys this node asks one relay: what its operator
// puts into allow.
type clientKeys struct {
	Relay    []string `json:"relay"`    // its addresses here
	Own      bool     `json:"own"`      // this node collects its mail there
	Contacts []string `json:"contacts"` // labels of those who collect there
	Collect  string   `json:"collect"`  // base58
	Deposit  string   `json:"deposit"`
}

func newMailboxClientKeys() *cobra.Command {
	var w where
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "client-keys",
		Short: "the keys by which relays know this node, for an operator's allow list",
		Long: "Prints, for each relay of the configuration, the node's own ones and those of its contacts, the two public keys\n" +
			"under which this node asks it: one collects mail and receipts, one deposits mail and receipts. Each relay sees\n" +
			"other keys. A relay that has allow in [mailbox.relay] serves this node if both are there. It asks the running\n" +
			"daemon, or else reads the datastore of a stopped one, making the keys if there are none.",
		Example: "  hearsay mailbox client-keys\n  hearsay mailbox client-keys --json | jq -r '.[].deposit'",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := askClientKeys(cmd.Context(), w)
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), asJSON, all, printClientKeys)
		},
	}
	w.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// askClientKeys asks the running daemon, whose store is locked, or reads that of a
// stopped one.
func askClientKeys(ctx context.Context, w where) (all []clientKeys, err error) {
	err = withDaemon(ctx, w, func(ctx context.Context, c *rpc.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return untold(c.Call(ctx, "hearsay.mailbox_client_keys", nil, &all))
	})
	if re := (*rpc.Error)(nil); errors.As(err, &re) && re.Code == rpc.CodeMethodNotFound {
		return nil, errors.New("a relay by itself runs there, which asks no other relay; name the configuration of a node")
	}
	if !errors.Is(err, rpc.ErrNotRunning) {
		return all, err
	}
	cfg, _, _, err := w.load()
	if err != nil {
		return nil, err
	}
	// A node that never ran is asked for its keys too: before its first start is when its
	// relay's operator wants them.
	if err := makeStoreDir(cfg.Datastore); err != nil {
		return nil, err
	}
	c, err := openCustody(custodyOptions(cfg, nil), cfg, slog.New(slog.DiscardHandler))
	if errors.Is(err, kv.ErrLocked) {
		return nil, fmt.Errorf("the datastore is in use by something that does not answer: %w", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.store.Close()) }()
	if err := c.mail.open(c.store); err != nil {
		return nil, err
	}
	return c.mail.clientKeys(), nil
}

// clientKeys lists the relays of the configuration in the order of their addresses.
func (m *mail) clientKeys() []clientKeys {
	m.mu.Lock()
	book, seed := m.book, m.seed
	m.mu.Unlock()
	out := []clientKeys{}
	if seed == nil {
		return out // not one relay
	}
	for id, addresses := range book.relays {
		k := clientKeys{Contacts: []string{}}
		for _, a := range addresses {
			if !slices.Contains(k.Relay, a.String()) {
				k.Relay = append(k.Relay, a.String())
			}
		}
		slices.Sort(k.Relay)
		key := addresses[0].Key // the others' as well
		for _, a := range m.own {
			k.Own = k.Own || bytes.Equal(a.Key, key)
		}
		for _, c := range book.list {
			if slices.Contains(c.Relays, id) {
				k.Contacts = append(k.Contacts, book.labels[c.ID])
			}
		}
		slices.Sort(k.Contacts)
		public := func(role endpoint.Role) string {
			return base58.Encode(seed.ClientKey(key, role).Public().(ed25519.PublicKey))
		}
		k.Collect, k.Deposit = public(endpoint.RoleCollect), public(endpoint.RoleDeposit)
		out = append(out, k)
	}
	slices.SortFunc(out, func(a, b clientKeys) int { return strings.Compare(a.Relay[0], b.Relay[0]) })
	return out
}

func printClientKeys(out io.Writer, all []clientKeys) {
	if len(all) == 0 {
		printf(out, "no mailbox relay is configured: neither in [mailbox] nor for a contact (a running daemon takes those of contacts\n"+
			"from the file at a /rehash, its own at its next start)\n")
	}
	for _, k := range all {
		who := slices.Clone(k.Contacts)
		if k.Own {
			who = append([]string{"you"}, who...)
		}
		for _, a := range k.Relay {
			printf(out, "%s\n", a)
		}
		printf(out, "  collecting there: %s\n  collect %s\n  deposit %s\n  allow = [%q, %q]\n", strings.Join(who, ", "), k.Collect, k.Deposit, k.Collect, k.Deposit)
	}
}

// mailMethods are what the control socket offers about mail.
func (d *daemon) mailMethods(all map[string]rpc.Method) {
	all["hearsay.mailbox_client_keys"] = rpc.Method{Call: func(context.Context, json.RawMessage) (any, error) {
		return d.custody.mail.clientKeys(), nil
	}}
}
