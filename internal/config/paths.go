package config

import (
	"os"
	"path/filepath"
	"strings"
)

// Env is what the paths of a configuration depend on.
type Env struct {
	Home       string // what "~" stands for
	ConfigHome string // $XDG_CONFIG_HOME
	DataHome   string // $XDG_DATA_HOME
}

// OSEnv reads the process's environment. XDG variables that are unset, or not
// absolute, fall back to the specification's defaults below the home directory.
func OSEnv() Env {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "."
	}
	return Env{
		Home:       home,
		ConfigHome: absoluteOr(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(home, ".config")),
		DataHome:   absoluteOr(os.Getenv("XDG_DATA_HOME"), filepath.Join(home, ".local", "share")),
	}
}

func absoluteOr(path, fallback string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return fallback
}

// ConfigFile is the default configuration file.
func (e Env) ConfigFile() string { return filepath.Join(e.ConfigHome, "hearsay", "hearsay.toml") }

// Datastore is the default datastore.
func (e Env) Datastore() string { return filepath.Join(e.DataHome, "hearsay") }

// Expand replaces a leading "~".
func (e Env) Expand(path string) string {
	if path == "~" {
		return e.Home
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(e.Home, rest)
	}
	return path
}

// StoreDir is where a datastore's own files live: below it, so that a path from
// a darkirc configuration does no harm.
func StoreDir(datastore string) string { return filepath.Join(datastore, "hearsay") }

// ControlSocket is the socket that always exists.
func ControlSocket(datastore string) string { return filepath.Join(datastore, "hearsay.sock") }
