// Package sealed encrypts what a kv.Store holds, with a key from a file.
//
// It wraps a store: values are sealed with XChaCha20-Poly1305 under a fresh nonce and
// bound to their keys, so that a value that was changed or moved does not open. Keys,
// and so the number and the size of rows, stay as they are; so does what the process
// has in memory. The key file protects a disk that is lost or a backup of the files, as
// long as it is not on the same disk; it does not protect from somebody who is on the
// running machine.
//
// A store is sealed from its first row on or not at all: a marker row says so, and
// opening it the other way, or with another key, is an error. The package knows
// nothing of what it seals. It starts no goroutine.
package sealed
