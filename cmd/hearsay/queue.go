package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/rpc"
	"hearsay/outbound"
)

// A queuePage is a part of what the queue retains: never text (DS-83).
type queuePage struct {
	Held    bool          `json:"held"` // restored from a backup and not confirmed (ST-06)
	Depth   int           `json:"depth"`
	Bytes   int64         `json:"bytes"`
	Records []queueRecord `json:"records"`
	Next    uint64        `json:"next,omitempty"` // where the next page begins; 0: that was all
}

type queueRecord struct {
	Position    uint64 `json:"position"`
	Enqueued    string `json:"enqueued"` // RFC 3339; empty for a cancelled one
	AgeS        int64  `json:"age_s"`
	Size        int    `json:"size"`  // bytes on disk
	State       string `json:"state"` // waiting, sent, parked (the head), queued, cancelled
	Reason      string `json:"reason"`
	Generations int    `json:"generations"`
	Words       string `json:"words,omitempty"` // of the head of a running daemon: how far it has got
}

// queuePageSize is how many records one reply of the control socket holds.
const queuePageSize = 1000

// pageOf reads a page of a queue; head describes the head where a worker runs.
func pageOf(q *outbound.Queue, from uint64, now time.Time, head func() (outbound.HeadStatus, bool)) (queuePage, error) {
	p := queuePage{Records: []queueRecord{}}
	sum, err := q.Summary()
	if err != nil {
		return p, err
	}
	p.Held, p.Depth, p.Bytes = sum.Held, sum.Depth, sum.Bytes
	items, err := q.List(outbound.Position(from), queuePageSize)
	if err != nil {
		return p, err
	}
	for _, it := range items {
		r := queueRecord{
			Position: uint64(it.Position), Size: it.Size, State: it.State, Generations: it.Generations,
		}
		if !it.Enqueued.IsZero() {
			r.Enqueued = it.Enqueued.UTC().Format(time.RFC3339)
			r.AgeS = int64(now.Sub(it.Enqueued) / time.Second)
		}
		if r.State == "head" {
			r.State = "waiting"
			if r.Generations > 0 {
				r.State = "sent"
			}
			if h, ok := head(); ok && h.Position == it.Position {
				r.State, r.Reason = h.State, h.Reason
			}
		}
		p.Records = append(p.Records, r)
	}
	if len(items) == queuePageSize {
		p.Next = uint64(items[len(items)-1].Position) + 1
	}
	return p, nil
}

// queuePage is pageOf in a daemon that runs, where it is known why the head waits.
func (d *daemon) queuePage(from uint64) (queuePage, error) {
	p, err := pageOf(d.custody.queue, from, time.Now(), d.worker.Head)
	for i, r := range p.Records {
		if r.State != "queued" && r.State != "cancelled" {
			p.Records[i].Words = headWords(r.State, r.Reason, d.State())
		}
	}
	return p, err
}

// stateWords are a record's state for a person.
func (r queueRecord) stateWords() string {
	switch {
	case r.Words != "":
		return r.Words
	case r.Reason != "":
		return r.State + " (" + r.Reason + ")"
	}
	return r.State
}

// queueMethods are what the control socket offers about the queue.
func (d *daemon) queueMethods(all map[string]rpc.Method) {
	number := func(params json.RawMessage) (uint64, error) {
		var list []uint64
		if json.Unmarshal(params, &list) != nil || len(list) != 1 {
			return 0, rpc.ErrParams
		}
		return list[0], nil
	}
	all["hearsay.queue_list"] = rpc.Method{Call: func(_ context.Context, params json.RawMessage) (any, error) {
		from, err := number(params)
		if err != nil {
			return nil, err
		}
		return d.queuePage(from)
	}}
	all["hearsay.queue_cancel"] = rpc.Method{Call: func(ctx context.Context, params json.RawMessage) (any, error) {
		position, err := number(params)
		if err != nil {
			return nil, err
		}
		return true, told(d.custody.cancel(ctx, position))
	}}
	all["hearsay.queue_release"] = rpc.Method{Call: func(ctx context.Context, _ json.RawMessage) (any, error) {
		return true, told(d.custody.queue.Release(ctx))
	}}
}

// codeFailed is the JSON-RPC code of a failure whose text the owner may read.
const codeFailed = -32000

// told passes the text of an error on to the owner of the control socket.
func told(err error) error {
	if err == nil {
		return nil
	}
	return &rpc.Error{Code: codeFailed, Message: err.Error()}
}

// untold is the text of told, on the other side.
func untold(err error) error {
	if re := (*rpc.Error)(nil); errors.As(err, &re) && re.Code == codeFailed {
		return errors.New(re.Message)
	}
	return err
}

// cancel removes a record for a person (DS-84).
func (c *custody) cancel(ctx context.Context, position uint64) error {
	err := c.queue.Cancel(ctx, outbound.Position(position))
	if errors.Is(err, outbound.ErrNotFound) {
		return fmt.Errorf("there is no message at position %d", position)
	}
	return err
}

// onQueue does something to the queue of the running daemon, or else to that of a
// datastore whose daemon is stopped.
func onQueue(ctx context.Context, w where, online func(ctx context.Context, c *rpc.Client) error, offline func(ctx context.Context, c *custody) error) error {
	return askOr(ctx, w, func(ctx context.Context, c *rpc.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return online(ctx, c)
	}, func(cfg *config.Config, _ string) error {
		return withStopped(cfg, false, func(c *custody) error { return offline(ctx, c) })
	})
}

// withStopped opens the custody store of a datastore whose daemon is stopped.
func withStopped(cfg *config.Config, rewrite bool, fn func(c *custody) error) (err error) {
	if _, err := os.Lstat(custodyDir(cfg)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s holds no queue", cfg.Datastore)
	}
	opts := custodyOptions(cfg, nil)
	opts.Rewrite = rewrite
	c, err := openCustody(opts, cfg, slog.New(slog.DiscardHandler))
	if errors.Is(err, kv.ErrLocked) {
		return fmt.Errorf("stop the daemon first: %w", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.store.Close()) }()
	return fn(c)
}

func newQueueList() *cobra.Command {
	var w where
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "list the messages that wait to be sent or acknowledged",
		Long: "Lists the outbound records that this node retains: position, age, size and state, never their text. It asks the\n" +
			"running daemon, or else reads the datastore of a stopped one.\n\n" +
			"The oldest says why it waits. With --json, and without a daemon, its state is waiting (not sent yet), sent (out and\n" +
			"without evidence so far) or parked (held up by what the reason says). Those behind it are queued; cancelled is what\n" +
			"you have dropped, its text is gone.",
		Example: "  hearsay queue list\n  hearsay queue list --json | jq '.records | length'",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var all queuePage
			collect := func(read func(from uint64) (queuePage, error)) error {
				for from := uint64(0); ; from = all.Next {
					p, err := read(from)
					if err != nil {
						return err
					}
					p.Records = append(all.Records, p.Records...)
					if all = p; p.Next == 0 {
						return nil
					}
				}
			}
			err := onQueue(cmd.Context(), w, func(ctx context.Context, c *rpc.Client) error {
				return collect(func(from uint64) (p queuePage, err error) {
					return p, c.Call(ctx, "hearsay.queue_list", []uint64{from}, &p)
				})
			}, func(_ context.Context, c *custody) error {
				return collect(func(from uint64) (queuePage, error) {
					return pageOf(c.queue, from, time.Now(), func() (h outbound.HeadStatus, ok bool) { return h, false })
				})
			})
			if err != nil {
				return err
			}
			return report(cmd.OutOrStdout(), asJSON, all, printQueuePage)
		},
	}
	w.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func printQueuePage(out io.Writer, p queuePage) {
	if p.Held {
		printf(out, "held: this queue was restored from a backup; \"hearsay queue release\" sends it, \"hearsay queue purge\" drops it\n")
	}
	if len(p.Records) > 0 {
		printf(out, "%10s %12s %8s  %s\n", "position", "age", "bytes", "state")
	}
	oldest := int64(0)
	for _, r := range p.Records {
		age := "-"
		if r.Enqueued != "" {
			age = (time.Duration(r.AgeS) * time.Second).String()
			oldest = max(oldest, r.AgeS)
		}
		printf(out, "%10d %12s %8d  %s\n", r.Position, age, r.Size, r.stateWords())
	}
	printf(out, "%s retained, %d bytes", count(p.Depth, "message"), p.Bytes)
	if p.Depth > 0 {
		printf(out, ", the oldest %s old", time.Duration(oldest)*time.Second)
	}
	printf(out, "\n")
}

func newQueueCancel() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "cancel POSITION",
		Short: "drop one message for good",
		Long: "Drops the message at a position that \"hearsay queue list\" shows: nothing of it is sent any more. What is out\n" +
			"already cannot be called back. The others keep their order.",
		Example: "  hearsay queue cancel 17",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			position, err := strconv.ParseUint(list[0], 10, 64)
			if err != nil || position == 0 {
				return &usageError{cmd.CommandPath(), fmt.Errorf("%q is no position", list[0])}
			}
			err = onQueue(cmd.Context(), w, func(ctx context.Context, c *rpc.Client) error {
				return c.Call(ctx, "hearsay.queue_cancel", []uint64{position}, nil)
			}, func(ctx context.Context, c *custody) error { return c.cancel(ctx, position) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "cancelled the message at position %d\n", position)
			return err
		},
	}
	w.flags(cmd)
	return cmd
}

func newQueueRelease() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "release",
		Short: "confirm a queue that was restored from a backup",
		Long: "A restored queue is held: messages that were acknowledged after the backup was made are in it again and would go\n" +
			"out twice. Look at \"hearsay queue list\", cancel what is known to be out, then release the rest.",
		Example: "  hearsay queue release",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := onQueue(cmd.Context(), w, func(ctx context.Context, c *rpc.Client) error {
				return c.Call(ctx, "hearsay.queue_release", nil, nil)
			}, func(ctx context.Context, c *custody) error { return c.queue.Release(ctx) })
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "the queue is released; its messages go out in order")
			return err
		},
	}
	w.flags(cmd)
	return cmd
}

func newQueuePurge() *cobra.Command {
	var w where
	var yes bool
	cmd := &cobra.Command{
		Use:   "purge",
		Short: "drop all waiting messages and erase their text",
		Long: "Drops everything that waits in the datastore of a stopped daemon, deposits for mailbox relays too, and writes its\n" +
			"custody store anew, so that the text is in none of its files any more. Before going back to darkirc, or after\n" +
			"restoring an old backup, this is how nothing readable stays behind.\n\n" +
			"It cannot reach what was sent (that is in the event graph, here and at everybody's, until its slot is dropped), nor\n" +
			"what the file system or the disk itself keeps of freed blocks.",
		Example: "  hearsay queue purge --yes",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !yes {
				return &usageError{cmd.CommandPath(), errors.New("this cannot be undone; say --yes")}
			}
			cfg, _, _, err := w.load()
			if err != nil {
				return err
			}
			n, err := purge(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "erased %s\n", count(n, "message"))
			return err
		},
	}
	w.flags(cmd)
	cmd.Flags().BoolVar(&yes, "yes", false, "really do it")
	return cmd
}

// purge drops all records, then rewrites the store: what is deleted is still in its
// files before that (DS-83).
func purge(ctx context.Context, cfg *config.Config) (n int, err error) {
	err = withStopped(cfg, false, func(c *custody) error {
		if n, err = c.queue.Purge(ctx); err != nil {
			return err
		}
		if _, err := c.mail.endpoint.Drop(nil); err != nil {
			return err
		}
		return c.queue.Release(ctx) // an empty queue has nothing to be confirmed
	})
	if err != nil {
		return 0, err
	}
	return n, withStopped(cfg, true, func(*custody) error { return nil })
}
