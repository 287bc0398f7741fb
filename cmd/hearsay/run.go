package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"hearsay/internal/config"
)

// gcPercent is how much garbage there may be for what lives. A node computes little,
// and most of what lives are two memtables: Go's default of 100 would only double what
// hostile peers can make it hold.
const gcPercent = 15

func newRun() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "run",
		Short: "the daemon, in the foreground",
		Long: "Runs the node until SIGINT or SIGTERM, which end it cleanly; a second one ends it at once.\n" +
			"SIGHUP reloads channels, contacts, autojoin, the message of the day and the TLS certificate.\n\n" +
			"The default configuration goes through Tor alone: have one at 127.0.0.1:9050, or see \"hearsay config init\".",
		Example: "  hearsay run\n  hearsay run --config ~/.config/darkfi/darkirc_config.toml --datastore /tmp/trial",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if os.Getenv("GOGC") == "" {
				debug.SetGCPercent(gcPercent)
			}
			cfg, path, problems, err := w.load()
			if err != nil {
				return err
			}
			log, done, err := openLog(cfg.Log, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, done()) }()
			if n := len(problems.Warnings()); n > 0 { // not their text: it names channels and contacts
				log.Warn("the configuration has warnings; hearsay config check shows them", "count", n)
			}
			if len(cfg.Net.Active) == 0 && len(cfg.Net.Inbound) == 0 {
				log.Warn("no profile is active and nothing listens, so this node meets nobody; see active_profiles")
			}
			if path == "" {
				log.Info("no configuration file; running on the built-in default")
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			// The second signal gets its default action.
			context.AfterFunc(ctx, stop)
			hup := make(chan os.Signal, 1)
			signal.Notify(hup, syscall.SIGHUP) // early: its default action ends the process
			defer signal.Stop(hup)
			d, err := openDaemon(ctx, cfg, log, func() (*config.Config, error) {
				again, _, _, err := w.load()
				return again, err
			})
			if errors.Is(err, context.Canceled) {
				return nil // asked to end before it had begun
			}
			if err != nil {
				return err
			}
			if d.file = path; path == "" {
				d.defaultFile = config.OSEnv().ConfigFile()
			}
			go reloadOn(ctx, hup, d, log)
			return d.run(ctx)
		},
	}
	w.flags(cmd)
	return cmd
}

// reloadOn reloads at each signal until ctx ends.
func reloadOn(ctx context.Context, hup <-chan os.Signal, d *daemon, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			sum, err := d.reload(ctx)
			if err != nil {
				// The text of a configuration's error may name a channel or a peer.
				log.Error("the configuration was not reloaded; hearsay config check shows why")
			}
			d.irc.Reloaded(sum, err)
		}
	}
}

// changedSections names what differs between two configurations and is not
// reloaded.
func changedSections(before, after *config.Config) []string {
	var out []string
	for _, s := range []struct {
		name string
		a, b any
	}{
		{"datastore", before.Datastore, after.Datastore},
		{"dags_count, history_retention_dags, archive_mode, skip_dag_sync", before.Slots, after.Slots},
		{"irc_listen, password", before.IRC, after.IRC},
		{"[graph]", before.Graph, after.Graph},
		{"[network]", before.Network, after.Network},
		{"[net]", before.Net, after.Net},
		{"[rpc]", before.RPC, after.RPC},
		{"[outbound]", before.Outbound, after.Outbound},
		{"[metrics]", before.Metrics, after.Metrics},
		{"[mailbox]", before.Mailbox, after.Mailbox},
		{"log, verbose", before.Log, after.Log},
	} {
		if !reflect.DeepEqual(s.a, s.b) {
			out = append(out, s.name)
		}
	}
	return out
}
