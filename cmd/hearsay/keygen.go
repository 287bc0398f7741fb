package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hearsay/internal/box"
	"hearsay/internal/sealed"
)

func newKeygenContact() *cobra.Command {
	return &cobra.Command{
		Use:   "contact",
		Short: "make a key pair for direct messages",
		Long: "Makes a key pair and prints it as a piece of configuration. Your contact needs the public key, in the\n" +
			"commented line, and does the same for you: until both have the other's key nothing can be read. A configuration\n" +
			"in which the placeholder for their key is left is refused; \"hearsay contact add\" does all of it.",
		Example: "  hearsay keygen contact",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			secret := box.GenerateSecret()
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "# Put this into your configuration, with a name and the public key of your contact; give them the key in the last line:\n\n"+
				"[contact.\"satoshi\"]\ndm_chacha_public = \"YOUR_CONTACT_PUBLIC_KEY\"\nmy_dm_chacha_secret = %q\n#my_dm_chacha_public = %q\n",
				secret.Base58(), secret.Public().Base58())
			return err
		},
	}
}

func newKeygenChannel() *cobra.Command {
	return &cobra.Command{
		Use:     "channel",
		Short:   "make a secret for an encrypted channel",
		Long:    "Makes a secret and prints it as a piece of configuration. Everybody who may read the channel needs the same secret.",
		Example: "  hearsay keygen channel",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "# Put this into your configuration, with the name of your channel:\n\n"+
				"[channel.\"#yourchannelname\"]\nsecret = %q\n", box.GenerateSecret().Base58())
			return err
		},
	}
}

func newKeygenPubkey() *cobra.Command {
	return &cobra.Command{
		Use:   "pubkey SECRET",
		Short: "print the public key of a secret",
		Long: "Prints the public key that belongs to a secret. With - as SECRET it is read from standard input, where other users\n" +
			"of this machine cannot see it.",
		Example: "  hearsay keygen pubkey Bwdhe48rKsqFwGUquQSSGZZS5NQP1szrdJUhyDE77Br6\n" +
			"  hearsay keygen pubkey - < secret.txt",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			text := list[0]
			if text == "-" {
				line, err := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 4096)).ReadString('\n')
				if err != nil && !errors.Is(err, io.EOF) {
					return err
				}
				text = strings.TrimSpace(line)
			}
			secret, err := box.ParseSecret(text)
			if err != nil {
				return errors.New("the secret must be 32 bytes in base58")
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), secret.Public().Base58())
			return err
		},
	}
}

func newKeygenCustody() *cobra.Command {
	return &cobra.Command{
		Use:   "custody FILE",
		Short: "make a key file that seals the custody store",
		Long: "Makes a key and writes it into a file that only you can read, for outbound.key_file. With it, what waits in the\n" +
			"queue is encrypted on the disk. The file belongs on another disk than the datastore (a removable one, or one in\n" +
			"memory): who has both has everything. Without it the queue cannot be read again, by nobody.",
		Example: "  hearsay keygen custody /media/stick/hearsay.key",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			file, err := filepath.Abs(list[0])
			if err != nil {
				return err
			}
			if err := sealed.NewKeyFile(file); err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s; in your configuration:\n\n[outbound]\nkey_file = %q\n", file, file)
			return err
		},
	}
}
