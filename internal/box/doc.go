// Package box is the authenticated encryption of DarkIRC's private channels and
// direct messages (spec/chat.md, section 2).
//
// It is libsodium's crypto_box_curve25519xchacha20poly1305 with the nonce in
// front: tag before ciphertext, keystream for the text from byte 32 of block 0,
// MAC over the ciphertext alone. It is not the IETF AEAD of
// x/crypto/chacha20poly1305; the two do not interoperate.
//
// The package knows keys and bytes. It does not know what a channel or a contact
// is, which field of a message holds what, or when a nonce was seen before.
//
// Invariants: a key type prints as a fixed word with every fmt verb, as JSON and
// in slog, and gives its text only through Base58; no Box exists for an all-zero
// shared secret; Open returns text only after the tag was verified; every Seal
// draws a fresh random nonce.
//
// All values are immutable after creation and safe for concurrent use. There are
// no goroutines.
package box
