package config

import _ "embed"

//go:embed default.toml
var defaultText string

// DefaultText is the commented file that "hearsay config init" writes. It is also
// what a daemon without a file runs on.
func DefaultText() string { return defaultText }
