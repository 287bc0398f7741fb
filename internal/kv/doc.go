// Package kv is the ordered, durable map under every store of hearsay: Badger
// on disk ([Open]), or memory for tests, simulations and embedders
// ([OpenMemory]).
//
// It owns what is the same for all stores (requirements ST-01 to ST-04,
// spec/storage.md): owner-only files, refusal of symlinks and of a second
// process, the format record that is checked before Badger opens, named commits,
// group commit, the order in which a filling disk refuses work, and what a
// failed sync means. It does not know any key.
//
// # Invariants
//
//   - A commit is durable before anybody sees it: a View reads at the number of
//     the last commit whose sync returned (Options.Sync), not at the last write.
//   - Commits are numbered without gaps. The number is written with the commit and,
//     after the sync, into a witness file beside it. Files that do not lead up to
//     the witnessed number are ErrCorrupt before Badger may tidy them away.
//   - Badger's own checks end the process or skip a table with a warning; so every
//     byte it is going to trust is read and verified first (check.go).
//   - Values live in the LSM tree. The value log stays empty, so none of its ways to
//     lose data exist (spec/decisions/0010).
//
// # Goroutines
//
// Open starts none of its own (Badger starts its own and Close ends them). A
// caller of Update may run other callers' functions while it leads a group
// commit. [DB.Run] is the maintenance loop and runs in its caller's goroutine.
package kv
