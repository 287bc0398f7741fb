package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/term"
)

const (
	// bcryptCost is darkirc's.
	bcryptCost = 12
	// maxPassword is where bcrypt stops looking, in bytes.
	maxPassword = 72
)

func newPassword() *cobra.Command {
	return &cobra.Command{
		Use:   "password",
		Short: "hash a password for the configuration",
		Long: "Reads a password, from the terminal without showing it or else one line of standard input, and prints\n" +
			"its bcrypt hash for the key \"password\". IRC clients then need the password as their server password.\n\n" +
			"The hash has a salt of its own. hearsay also accepts the hashes that darkirc makes, all of which have the same\n" +
			"salt; darkirc does not accept this one.",
		Example: "  hearsay password\n  hearsay password < password.txt",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			password, err := readPassword(cmd.InOrStdin(), cmd.ErrOrStderr(), true)
			if err != nil {
				return err
			}
			switch {
			case password == "":
				return errors.New("the password is empty")
			case len(password) > maxPassword:
				return fmt.Errorf("a password has at most %d bytes", maxPassword)
			case strings.ContainsAny(password, "\x00\r\n"):
				return errors.New("a password cannot hold line ends or zero bytes")
			}
			hash, err := bcrypt.GenerateFromPassword([]byte(password), bcryptCost)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s\n", hash)
			return err
		},
	}
}

// readPassword asks on a terminal, twice for a password that is new; anything else
// gives one line.
func readPassword(stdin io.Reader, prompt io.Writer, fresh bool) (string, error) {
	f, ok := stdin.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		line, err := bufio.NewReader(io.LimitReader(stdin, 4096)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r"), nil
	}
	ask := func(text string) (string, error) {
		printf(prompt, "%s", text)
		b, err := term.ReadPassword(int(f.Fd()))
		printf(prompt, "\n")
		return string(b), err
	}
	first, err := ask("Password: ")
	if err != nil || !fresh {
		return first, err
	}
	second, err := ask("Again: ")
	if err != nil {
		return "", err
	}
	if first != second {
		return "", errors.New("the passwords differ")
	}
	return first, nil
}
