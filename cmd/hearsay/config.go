package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"hearsay/internal/config"
)

func newConfigCheck() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "tell what is wrong with a configuration file",
		Long: "Prints a line for each problem, with its line and key. Files of darkirc pass: what has no meaning here is a\n" +
			"warning. The exit code is 1 if there is an error, 0 if there are warnings at most.",
		Example: "  hearsay config check --config ~/.config/darkfi/darkirc_config.toml",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			w := where{file: file}
			cfg, path, problems, err := w.load()
			if err != nil && len(problems) == 0 {
				return err
			}
			if path == "" {
				return fmt.Errorf("there is no %s; hearsay config init writes one", shortPath(config.OSEnv().ConfigFile()))
			}
			if cfg != nil {
				problems = append(problems, checkWiring(cfg)...)
			}
			for _, p := range problems {
				printf(cmd.OutOrStdout(), "%s: %s\n", path, p)
			}
			if n := len(problems.Errors()); n > 0 {
				return fmt.Errorf("%s cannot be used: %s", path, count(n, "error"))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` (default "+shortPath(config.OSEnv().ConfigFile())+")")
	return cmd
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func newConfigInit() *cobra.Command {
	var file string
	var withTLS bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "write a commented configuration file",
		Long: "Writes the default configuration, every key with a comment. Nothing is ever overwritten.\n\n" +
			"With --tls a self-signed certificate for the IRC port is made as well, in irc.crt and irc.key beside the file,\n" +
			"and its fingerprint printed, for the client to pin. If the file is there already, only the certificate is made.",
		Example: "  hearsay config init\n  hearsay config init --config ./hearsay.toml --tls",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return initConfig(cmd, file, withTLS)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "configuration `FILE` (default "+shortPath(config.OSEnv().ConfigFile())+")")
	cmd.Flags().BoolVar(&withTLS, "tls", false, "make a certificate for the IRC port")
	return cmd
}

func initConfig(cmd *cobra.Command, file string, withTLS bool) error {
	if file == "" {
		file = config.OSEnv().ConfigFile()
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	_, err = os.Lstat(file)
	exists := err == nil
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	case exists && !withTLS:
		return fmt.Errorf("%s exists already and is left as it is", file)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	text := config.DefaultText()
	if withTLS {
		cert, key := filepath.Join(filepath.Dir(file), "irc.crt"), filepath.Join(filepath.Dir(file), "irc.key")
		fingerprint, err := writeCertificate(cert, key)
		if err != nil {
			return err
		}
		printf(out, "wrote %s and %s\nfingerprint (SHA-256): %s\nthe same for irssi: %s\n", cert, key, fingerprint, colons(fingerprint))
		lines := tlsLines(cert, key)
		if exists {
			printf(out, "%s exists already and is left as it is; it needs:\n%s", file, lines)
			return nil
		}
		text = strings.Replace(text, defaultListen, lines, 1)
	}
	if err := writeNew(file, []byte(text), 0o600); err != nil {
		return err
	}
	printf(out, "wrote %s\n", file)
	return nil
}

// defaultListen is the line of the default file that --tls replaces.
const defaultListen = "irc_listen = \"tcp://127.0.0.1:6667\"\n"

func tlsLines(cert, key string) string {
	return fmt.Sprintf("irc_listen = \"tcp+tls://127.0.0.1:6697\"\nirc_tls_cert = %q\nirc_tls_secret = %q\n", cert, key)
}

// writeNew writes a file that must not be there yet.
func writeNew(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s exists already and is left as it is", path)
		}
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
