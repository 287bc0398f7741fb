package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/rpc"
)

// Exit codes.
const (
	exitOK    = 0
	exitFail  = 1 // told in one line on stderr
	exitUsage = 2
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	text := plain(err)
	if usage := (*usageError)(nil); errors.As(err, &usage) {
		printf(stderr, "hearsay: %s; see %q\n", text, usage.help+" --help")
		return exitUsage
	}
	printf(stderr, "hearsay: %s%s\n", text, hint(err))
	return exitFail
}

// inner are the names of packages that errors begin with, for who reads code and logs.
var inner = regexp.MustCompile(`(^|: )(?:arrival|box|endpoint|eventgraph|gossip|ircd|kv|outbound|p2p|privmsg|readstate|rpc|sealed|serial): `)

// plain is an error as one line for people.
func plain(err error) string {
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	for old := ""; old != text; {
		old, text = text, inner.ReplaceAllString(text, "$1")
	}
	return text
}

// hint says what to do about the errors that a first evening meets.
func hint(err error) string {
	switch {
	case errors.Is(err, rpc.ErrNotRunning):
		return "; \"hearsay run\" starts one"
	case errors.Is(err, kv.ErrLocked):
		return "; \"hearsay status\" asks what runs there"
	case errors.Is(err, syscall.EADDRINUSE):
		return "; stop what listens there, or choose another port in the configuration"
	}
	return ""
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "hearsay",
		Short: "a DarkIRC node that remembers what it owes you",
		Long: "hearsay is a node of DarkIRC's event-graph network. Connect an IRC client to it and chat.\n" +
			"Without a configuration file it runs on the commented default that \"hearsay config init\" writes.",
		Example: "  hearsay demo                 three nodes on this machine, to look around\n" +
			"  hearsay config init          write a configuration file, then edit it\n" +
			"  hearsay run                  the daemon, in the foreground",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &usageError{cmd.CommandPath(), err}
	})
	group(root,
		newRun(), newDemo(),
		group(&cobra.Command{
			Use: "config", Short: "check or write a configuration file",
			Example: "  hearsay config check --config ~/.config/darkfi/darkirc_config.toml",
		}, newConfigCheck(), newConfigInit()),
		group(&cobra.Command{
			Use: "keygen", Short: "make keys for contacts and channels",
			Example: "  hearsay keygen contact",
		}, newKeygenContact(), newKeygenChannel(), newKeygenPubkey(), newKeygenCustody()),
		newContact(), newChannel(),
		newPassword(), newStatus(),
		group(&cobra.Command{
			Use: "queue", Short: "what waits to be sent: list, cancel, release, purge",
			Example: "  hearsay queue list",
		}, newQueueList(), newQueueCancel(), newQueueRelease(), newQueuePurge()),
		newBackup(), newRestore(), newMailbox(),
		group(&cobra.Command{
			Use: "dag", Short: "look at the event graph of the running daemon",
			Example: "  hearsay dag show",
		}, newDagShow(), newDagExport()),
		newVersion(),
	)
	return root
}

// A usageError is a command line that makes no sense: exit code 2.
type usageError struct {
	help string // the command whose help explains
	err  error
}

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

// args makes a check of positional arguments a usageError.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, list []string) error {
		if err := check(cmd, list); err != nil {
			if _, what, ok := strings.Cut(cmd.Use, " "); ok && len(list) == 0 {
				err = fmt.Errorf("%s is missing", what)
			}
			return &usageError{cmd.CommandPath(), err}
		}
		return nil
	}
}

// group makes cmd a command that only has subcommands.
func group(cmd *cobra.Command, subs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(subs...)
	cmd.Args = cobra.ArbitraryArgs // else cobra reports unknown commands in its own way
	cmd.RunE = func(cmd *cobra.Command, list []string) error {
		if len(list) > 0 {
			return &usageError{cmd.CommandPath(), fmt.Errorf("unknown command %q", strings.Join(append(strings.Fields(cmd.CommandPath())[1:], list[0]), " "))}
		}
		return &usageError{cmd.CommandPath(), errors.New("a command is missing")}
	}
	return cmd
}

// where are the flags that say which daemon is meant.
type where struct {
	file      string
	datastore string
}

func (w *where) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&w.file, "config", "", "configuration `FILE` (default "+shortPath(config.OSEnv().ConfigFile())+")")
	cmd.Flags().StringVar(&w.datastore, "datastore", "", "data `DIR`ectory, instead of the file's")
}

// load reads the configuration that the flags name. It returns the file's path,
// "" for the built-in default.
func (w *where) load() (cfg *config.Config, path string, problems config.Problems, err error) {
	env := config.OSEnv()
	if w.file != "" {
		path = w.file
		cfg, problems, err = config.Load(path, env)
	} else {
		cfg, path, problems, err = config.LoadDefault(env)
	}
	if err != nil {
		if cfg == nil && len(problems) > 0 {
			err = fmt.Errorf("%s: %w", path, err)
		}
		return nil, path, problems, err
	}
	if w.datastore != "" {
		cfg.Datastore = w.datastore
	}
	return cfg, path, problems, nil
}

// shortPath writes a path below the home directory as people do.
func shortPath(path string) string {
	if home := config.OSEnv().Home; strings.HasPrefix(path, home+"/") {
		return "~" + path[len(home):]
	}
	return path
}
