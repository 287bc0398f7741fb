// Package config is hearsay's one TOML schema: darkirc's keys, unchanged, and
// the keys that hearsay adds.
//
// It knows keys, units, defaults and what contradicts what. It does not know the
// packages that are configured: cmd/hearsay turns a [Config] into theirs. It
// opens no file but the one it was asked to load, resolves no name and keeps
// no state.
//
// Invariants:
//   - Every problem carries the key and the line that it is about.
//   - A darkirc key that has no meaning here is exactly one warning; a key that
//     neither program knows is an error. A misspelt "secret" must never turn an
//     encrypted channel into a public one.
//   - A Config is returned only if there was no error.
//   - Secrets are box types, which do not print.
package config
