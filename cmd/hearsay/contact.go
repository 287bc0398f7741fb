package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hearsay/internal/box"
	"hearsay/internal/config"
	"hearsay/internal/rpc"
	"hearsay/ircd"
)

// An editRequest is a change of the configuration file that hearsay.edit is asked for. It
// goes from the owner to the owner's own daemon.
type editRequest struct {
	Kind string `json:"kind"` // contact, channel
	Verb string `json:"verb"` // add, remove
	Name string `json:"name"`
	Key  string `json:"key,omitempty"` // theirs, or the channel's secret; "": not known yet, or a new one
}

// An editReply says what was done.
type editReply struct {
	Key          string   `json:"key,omitempty"` // what others need: ours, or the channel's secret
	Changed      []string `json:"changed"`
	NeedsRestart []string `json:"needs_restart"`
}

// do does what is asked for.
func (f fileEditor) do(ctx context.Context, r editRequest) (reply editReply, err error) {
	var sum ircd.Summary
	switch r.Kind + " " + r.Verb {
	case "contact add":
		var theirs, ours box.PublicKey
		if r.Key != "" {
			if theirs, err = box.ParsePublic(r.Key); err != nil {
				return reply, errors.New("their key is 32 bytes in base58, as their card has it")
			}
		}
		ours, sum, err = f.AddContact(ctx, r.Name, theirs)
		reply.Key = ours.Base58()
	case "contact remove":
		sum, err = f.RemoveContact(ctx, r.Name)
	case "channel add":
		secret := box.GenerateSecret()
		if r.Key != "" {
			if secret, err = box.ParseSecret(r.Key); err != nil {
				return reply, errors.New("a secret is 32 bytes in base58")
			}
		}
		sum, err = f.AddChannel(ctx, r.Name, secret)
		reply.Key = secret.Base58()
	case "channel remove":
		sum, err = f.RemoveChannel(ctx, r.Name)
	default:
		return reply, rpc.ErrParams
	}
	reply.Changed, reply.NeedsRestart = sum.Changed, sum.NeedsRestart
	return reply, err
}

// edit answers hearsay.edit.
func (d *daemon) edit(ctx context.Context, params json.RawMessage) (any, error) {
	var list []editRequest
	if json.Unmarshal(params, &list) != nil || len(list) != 1 {
		return nil, rpc.ErrParams
	}
	reply, err := d.editor().do(ctx, list[0])
	if errors.Is(err, rpc.ErrParams) {
		return nil, err
	}
	return reply, told(err)
}

// editFile has the running daemon change the file that it runs on or, where none runs,
// changes the one that it would.
func editFile(ctx context.Context, w where, r editRequest) (reply editReply, running bool, err error) {
	running = true
	err = askOr(ctx, w, func(ctx context.Context, c *rpc.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return c.Call(ctx, "hearsay.edit", []editRequest{r}, &reply)
	}, func(_ *config.Config, path string) (err error) {
		running = false
		d := &daemon{file: path}
		if path == "" {
			d.defaultFile = config.OSEnv().ConfigFile()
		}
		reply, err = fileEditor{file: d.editable}.do(ctx, r)
		return err
	})
	return reply, running, err
}

// printEdit says what an edit did.
func printEdit(out io.Writer, r editReply, running bool) {
	for _, l := range r.Changed {
		printf(out, "%s\n", l)
	}
	for _, l := range r.NeedsRestart {
		printf(out, "needs a restart: %s\n", l)
	}
	if !running {
		printf(out, "No daemon runs; this is in force when one starts.\n")
	}
}

func printCard(out io.Writer, label, ours string) {
	printf(out, "Your card for %s, to be given to them over a channel that you trust; your-name is what they call you:\n"+
		"  /msg *status CONTACTS ADD your-name %s\n"+
		"which is in a shell: hearsay contact add your-name %[2]s\n"+
		"and in darkirc's configuration: dm_chacha_public = %[2]q\n", label, ours)
}

func printChannelCard(out io.Writer, name, secret string) {
	printf(out, "For everybody who may read %s, and nobody else:\n  /msg *status CHANNELS ADD %[1]s %s\n"+
		"which is in darkirc's configuration, below [channel.%[1]q]: secret = %[2]q\n", name, secret)
}

// editCommand is a command that edits; tell prints what there is to say beside what
// changed.
func editCommand(cmd *cobra.Command, request func(cmd *cobra.Command, list []string) (editRequest, error), tell func(out io.Writer, r editRequest, reply editReply)) *cobra.Command {
	var w where
	cmd.RunE = func(cmd *cobra.Command, list []string) error {
		r, err := request(cmd, list)
		if err != nil {
			return err
		}
		reply, running, err := editFile(cmd.Context(), w, r)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(cmd.OutOrStdout())
		if tell != nil {
			tell(out, r, reply)
		}
		printEdit(out, reply, running)
		return out.Flush()
	}
	w.flags(cmd)
	return cmd
}

// asked is a request made of the arguments alone.
func asked(kind, verb string) func(*cobra.Command, []string) (editRequest, error) {
	return func(cmd *cobra.Command, list []string) (editRequest, error) {
		r := editRequest{Kind: kind, Verb: verb, Name: list[0]}
		if len(list) > 1 {
			if r.Key = list[1]; r.Key == "-" {
				line, err := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 4096)).ReadString('\n')
				if err != nil && !errors.Is(err, io.EOF) {
					return r, err
				}
				r.Key = strings.TrimSpace(line)
			}
		}
		return r, nil
	}
}

func newContactAdd() *cobra.Command {
	return editCommand(&cobra.Command{
		Use:   "add NAME [THEIR-KEY]",
		Short: "make a contact, or take the key from their card",
		Long: "Without a key it makes one of yours for a new contact and prints your card for them. With the key from their card\n" +
			"the contact is complete, and the running daemon uses it at once. The configuration file keeps all else that is in it.",
		Example: "  hearsay contact add alice\n  hearsay contact add alice 6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN",
		Args:    args(cobra.RangeArgs(1, 2)),
	}, asked("contact", "add"), func(out io.Writer, r editRequest, reply editReply) {
		printCard(out, r.Name, reply.Key)
		if r.Key == "" {
			printf(out, "When you have theirs: hearsay contact add %s THEIR-KEY\n", r.Name)
		}
	})
}

func newContactRemove() *cobra.Command {
	return editCommand(&cobra.Command{
		Use: "remove NAME", Short: "forget a contact, with your key for them",
		Example: "  hearsay contact remove alice", Args: args(cobra.ExactArgs(1)),
	}, asked("contact", "remove"), nil)
}

func newChannelAdd() *cobra.Command {
	return editCommand(&cobra.Command{
		Use:   "add #NAME [SECRET]",
		Short: "make an encrypted channel, or take the secret from a card",
		Long:  "Without a secret it makes one and prints the channel's card. With - as SECRET it is read from standard input, where\nother users of this machine cannot see it.",
		Example: "  hearsay channel add '#friends'\n" +
			"  hearsay channel add '#friends' - < secret.txt",
		Args: args(cobra.RangeArgs(1, 2)),
	}, asked("channel", "add"), func(out io.Writer, r editRequest, reply editReply) {
		if r.Key == "" {
			printChannelCard(out, r.Name, reply.Key)
		}
	})
}

func newChannelRemove() *cobra.Command {
	return editCommand(&cobra.Command{
		Use: "remove #NAME", Short: "forget a channel and its secret",
		Example: "  hearsay channel remove '#friends'", Args: args(cobra.ExactArgs(1)),
	}, asked("channel", "remove"), nil)
}

func newContactList() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use: "list", Short: "list the contacts of the configuration, with the keys that they and you gave",
		Example: "  hearsay contact list", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, path, _, err := w.load()
			if err != nil {
				return err
			}
			out := bufio.NewWriter(cmd.OutOrStdout())
			for _, c := range cfg.Chat.Contacts {
				printf(out, "%s: their key %s, yours for them %s\n", c.Label, c.Public.Base58(), c.Secret.Public().Base58())
			}
			pending, err := fileEditor{file: func(bool) (string, error) { return path, nil }}.Pending(cmd.Context())
			if err != nil {
				return err
			}
			for _, p := range pending {
				printf(out, "%s: waits for their key, yours for them %s\n", p.Label, p.Ours.Base58())
			}
			if len(cfg.Chat.Contacts)+len(pending) == 0 {
				printf(out, "no contacts; hearsay contact add NAME makes one\n")
			}
			return out.Flush()
		},
	}
	w.flags(cmd)
	return cmd
}

// newCard is "card", of a contact or of a channel.
func newCard(kind, short, example string) *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use: "card NAME", Short: short, Example: example, Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			cfg, path, _, err := w.load()
			if err != nil {
				return err
			}
			out, name := cmd.OutOrStdout(), list[0]
			if kind == "channel" {
				for _, c := range cfg.Chat.Channels {
					if strings.EqualFold(c.Name, name) && !c.Secret.IsZero() {
						printChannelCard(out, c.Name, c.Secret.Base58())
						return nil
					}
				}
				return fmt.Errorf("there is no encrypted channel %s; hearsay channel add makes one", name)
			}
			for _, c := range cfg.Chat.Contacts {
				if strings.EqualFold(c.Label, name) {
					printCard(out, c.Label, c.Secret.Public().Base58())
					return nil
				}
			}
			pending, err := fileEditor{file: func(bool) (string, error) { return path, nil }}.Pending(cmd.Context())
			if err != nil {
				return err
			}
			for _, p := range pending {
				if strings.EqualFold(p.Label, name) {
					printCard(out, p.Label, p.Ours.Base58())
					return nil
				}
			}
			return fmt.Errorf("there is no contact %s; hearsay contact add makes one", name)
		},
	}
	w.flags(cmd)
	return cmd
}

func newContact() *cobra.Command {
	return group(&cobra.Command{
		Use: "contact", Short: "whom you exchange direct messages with: list, add, card, remove",
		Example: "  hearsay contact add alice",
	}, newContactList(), newContactAdd(), newCard("contact", "print your card for a contact again", "  hearsay contact card alice"), newContactRemove())
}

func newChannel() *cobra.Command {
	return group(&cobra.Command{
		Use: "channel", Short: "encrypted channels: add, card, remove",
		Example: "  hearsay channel add '#friends'",
	}, newChannelAdd(), newCard("channel", "print what others need to read an encrypted channel", "  hearsay channel card '#friends'"), newChannelRemove())
}
