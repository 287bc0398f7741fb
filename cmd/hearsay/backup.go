package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"hearsay/eventgraph"
	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/rpc"
)

// A backupRequest is what the control socket's hearsay.backup is asked for. It goes
// from the owner to the owner's own daemon.
type backupRequest struct {
	File       string   `json:"file"` // absolute; it must not exist
	Plaintext  bool     `json:"plaintext"`
	Passphrase string   `json:"passphrase,omitempty"`
	Recipients []string `json:"recipients,omitempty"` // age1...
}

// encrypt is what the backup is written through.
func (b *backupRequest) encrypt(w io.Writer) (io.WriteCloser, error) {
	var to []age.Recipient
	for _, text := range b.Recipients {
		r, err := age.ParseX25519Recipient(text)
		if err != nil {
			return nil, fmt.Errorf("recipient: %w", err)
		}
		to = append(to, r)
	}
	if b.Passphrase != "" {
		r, err := age.NewScryptRecipient(b.Passphrase)
		if err != nil {
			return nil, err
		}
		to = append(to, r)
	}
	switch {
	case b.Plaintext && len(to) == 0:
		return struct {
			io.Writer
			io.Closer
		}{w, io.NopCloser(nil)}, nil
	case b.Plaintext || len(to) == 0:
		return nil, errors.New("a backup needs a passphrase or recipients, or else --plaintext")
	}
	return age.Encrypt(w, to...)
}

// write makes the file, whole or not at all.
func (b *backupRequest) write(stores ...kv.Store) (err error) {
	f, err := os.OpenFile(b.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already and is left as it is", b.File)
	}
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(b.File))
		}
	}()
	closed := false
	defer func() {
		if !closed {
			err = errors.Join(err, f.Close())
		}
	}()
	out, err := b.encrypt(f)
	if err != nil {
		return err
	}
	h := snapshotHeader{
		Version: release, Created: time.Now().UTC().Format(time.RFC3339),
		Stores: []snapshotStore{{custodyKind, custodySchema}, {eventgraph.Kind, eventgraph.Schema}},
	}
	if err := writeSnapshot(out, h, stores...); err != nil {
		return err
	}
	if err := errors.Join(out.Close(), f.Sync()); err != nil {
		return err
	}
	closed = true
	return f.Close()
}

// backup is hearsay.backup: the custody store first, so that the graph's picture is
// the younger one and has every event that the arrival log knows.
func (d *daemon) backup(_ context.Context, params json.RawMessage) (any, error) {
	var list []backupRequest
	if json.Unmarshal(params, &list) != nil || len(list) != 1 || !filepath.IsAbs(list[0].File) {
		return nil, rpc.ErrParams
	}
	return true, told(list[0].write(d.custody.store, d.graphStore))
}

func newBackup() *cobra.Command {
	var w where
	var req backupRequest
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "write this node's own stores into one encrypted file",
		Long: "Writes the custody store (messages that wait, and the order in which messages came) and the event graph into one\n" +
			"file, encrypted with age: for a passphrase, which is asked for or else read from standard input, or for the\n" +
			"recipients that are named. It works while the daemon runs. The file is never overwritten.\n\n" +
			"Not in it: the configuration with its keys, the host list, a mailbox relay's stores and keys.",
		Example: "  hearsay backup ~/hearsay.age\n  hearsay backup --recipient age1qqnete0p2... /mnt/hearsay.age",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) (err error) {
			if req.Plaintext && len(req.Recipients) > 0 {
				return &usageError{cmd.CommandPath(), errors.New("--plaintext and --recipient exclude each other")}
			}
			if req.File, err = filepath.Abs(list[0]); err != nil {
				return err
			}
			if _, err := os.Lstat(req.File); err == nil {
				return fmt.Errorf("%s exists already and is left as it is", req.File)
			}
			if !req.Plaintext && len(req.Recipients) == 0 {
				if req.Passphrase, err = readPassword(cmd.InOrStdin(), cmd.ErrOrStderr(), true); err != nil {
					return err
				}
				if req.Passphrase == "" {
					return errors.New("the passphrase is empty; --plaintext makes a backup that everybody can read")
				}
			}
			err = askOr(cmd.Context(), w, func(ctx context.Context, c *rpc.Client) error {
				return c.Call(ctx, "hearsay.backup", []backupRequest{req}, nil)
			}, func(cfg *config.Config, _ string) error { return backupStopped(cfg, req) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\n", req.File)
			return err
		},
	}
	w.flags(cmd)
	cmd.Flags().BoolVar(&req.Plaintext, "plaintext", false, "do not encrypt: whoever has the file reads what waits in it")
	cmd.Flags().StringSliceVar(&req.Recipients, "recipient", nil, "encrypt for this age `RECIPIENT` (age1...) instead of a passphrase; may be repeated")
	return cmd
}

// backupStopped backs up the datastore of a stopped daemon.
func backupStopped(cfg *config.Config, req backupRequest) error {
	return withStopped(cfg, false, func(c *custody) error {
		graph, err := kv.Open(graphOptions(cfg, nil))
		if err != nil {
			return err
		}
		return errors.Join(req.write(c.store, graph), graph.Close())
	})
}

func newRestore() *cobra.Command {
	var w where
	var identity string
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "make stores from a backup, with the queue held",
		Long: "Makes the stores of a datastore that has none yet from a backup. The passphrase is asked for, or else read from\n" +
			"standard input.\n\n" +
			"The queue is held until you confirm it: what was acknowledged after the backup was made is in it again and would go\n" +
			"out twice. See \"hearsay queue list\", then \"hearsay queue release\" or \"hearsay queue purge\".",
		Example: "  hearsay restore ~/hearsay.age\n  hearsay restore --identity key.txt --datastore /tmp/trial /mnt/hearsay.age",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) (err error) {
			cfg, _, _, err := w.load()
			if err != nil {
				return err
			}
			f, err := os.Open(list[0])
			if err != nil {
				return err
			}
			defer f.Close() //nolint:errcheck // read only
			in, err := decryptBackup(f, identity, func() (string, error) { return readPassword(cmd.InOrStdin(), cmd.ErrOrStderr(), false) })
			if err != nil {
				return err
			}
			depth, err := restore(cmd.Context(), cfg, in)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "restored; %s in the queue, which is held until \"hearsay queue release\"\n", count(depth, "message"))
			return err
		},
	}
	w.flags(cmd)
	cmd.Flags().StringVar(&identity, "identity", "", "age identity `FILE`, for a backup that was made for a recipient")
	return cmd
}

// ageStart is how a file of age begins, as far as snapshotMagic is long.
const ageStart = "age-encryption.o"

// decryptBackup finds out what kind of file it is.
func decryptBackup(f io.Reader, identity string, passphrase func() (string, error)) (io.Reader, error) {
	in := bufio.NewReader(f)
	if start, _ := in.Peek(len(snapshotMagic)); string(start) == snapshotMagic {
		return in, nil
	} else if !strings.HasPrefix(string(start), ageStart) {
		return nil, errSnapshot
	}
	var ids []age.Identity
	if identity != "" {
		k, err := os.Open(identity)
		if err != nil {
			return nil, err
		}
		defer k.Close() //nolint:errcheck // read only
		if ids, err = age.ParseIdentities(k); err != nil {
			return nil, fmt.Errorf("identity: %w", err)
		}
	} else {
		text, err := passphrase()
		if err != nil {
			return nil, err
		}
		id, err := age.NewScryptIdentity(text)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	out, err := age.Decrypt(in, ids...)
	if no := (*age.NoIdentityMatchError)(nil); errors.As(err, &no) {
		return nil, errors.New("the passphrase or identity is not that of this backup")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSnapshot, err)
	}
	return out, nil
}

// restoreBatch is how many bytes one commit of a restore writes.
const restoreBatch = 256 << 10

// restore makes the stores beside their places, checks them, holds the queue, and only
// then moves them there: custody first, since a graph can be fetched again.
func restore(ctx context.Context, cfg *config.Config, in io.Reader) (depth int, err error) {
	if err := makeStoreDir(cfg.Datastore); err != nil {
		return 0, err
	}
	quiet := slog.New(slog.DiscardHandler)
	known := []kv.Options{custodyOptions(cfg, quiet), graphOptions(cfg, quiet)}
	for _, o := range known {
		if _, err := os.Lstat(o.Dir); !errors.Is(err, fs.ErrNotExist) {
			return 0, fmt.Errorf("%s is there already; a restore overwrites nothing: move it away first", o.Dir)
		}
	}
	var made []*restoring
	defer func() {
		for _, r := range made {
			err = errors.Join(err, r.close())
			if err != nil {
				err = errors.Join(err, os.RemoveAll(r.opts.Dir))
			}
		}
	}()
	err = readSnapshot(in, func(h snapshotHeader) error {
		if len(h.Stores) != len(known) {
			return errSnapshot
		}
		for i, s := range h.Stores {
			o := known[i]
			if s.Kind != o.Kind {
				return fmt.Errorf("%w: it holds a store of kind %q", errSnapshot, s.Kind)
			}
			if s.Schema != o.Schema {
				return fmt.Errorf("the backup is of version %s, whose store %q has schema %d; this build has %d", h.Version, s.Kind, s.Schema, o.Schema)
			}
			o.Dir += ".restoring"
			if err := os.RemoveAll(o.Dir); err != nil {
				return err
			}
			o.Sync = false // closing syncs
			store, err := kv.Open(o)
			if err != nil {
				return err
			}
			r := &restoring{opts: o, store: store, to: known[i].Dir}
			made = append(made, r)
			if s.Kind == custodyKind {
				if r.store, err = protect(store, cfg); err != nil {
					r.store = store // to be closed
					return err
				}
			}
		}
		return nil
	}, func(store int, key, value []byte) error { return made[store].add(key, value) })
	if err != nil {
		return 0, err
	}
	for _, r := range made {
		if err := r.close(); err != nil {
			return 0, err
		}
	}
	// What was read back opens as what it claims to be, and is held.
	opts := made[0].opts
	opts.Sync = true
	c, err := openCustody(opts, cfg, quiet)
	if err != nil {
		return 0, err
	}
	sum, err := c.queue.Summary()
	if err := errors.Join(err, c.queue.Hold(ctx), c.store.Close()); err != nil {
		return 0, err
	}
	g, err := kv.Open(made[1].opts)
	if err != nil {
		return 0, err
	}
	graph, err := eventgraph.OpenStore(g, graphConfig(cfg, quiet))
	if err != nil {
		return 0, errors.Join(err, g.Close())
	}
	if err := graph.Close(); err != nil {
		return 0, err
	}
	for _, r := range made {
		if err := os.Rename(r.opts.Dir, r.to); err != nil {
			return 0, err
		}
	}
	dir, err := os.Open(config.StoreDir(cfg.Datastore))
	if err != nil {
		return 0, err
	}
	return sum.Depth, errors.Join(dir.Sync(), dir.Close())
}

// A restoring store collects records for its next commit.
type restoring struct {
	opts  kv.Options
	store kv.Store // nil: closed
	to    string
	batch [][2][]byte
	size  int
}

var opRestore = kv.Op{Name: "restore", Class: kv.ClassEnqueue}

func (r *restoring) add(key, value []byte) error {
	r.batch = append(r.batch, [2][]byte{key, value})
	if r.size += len(key) + len(value); r.size < restoreBatch && len(r.batch) < 1024 {
		return nil
	}
	return r.flush()
}

func (r *restoring) flush() error {
	batch := r.batch
	r.batch, r.size = nil, 0
	return r.store.Update(opRestore, func(tx kv.Txn) error {
		for _, p := range batch {
			if err := tx.Set(p[0], p[1]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *restoring) close() error {
	if r.store == nil {
		return nil
	}
	err := r.flush()
	err = errors.Join(err, r.store.Close())
	r.store = nil
	return err
}
