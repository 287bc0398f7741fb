package box

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/mr-tron/base58"
	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/curve25519"
	"golang.org/x/crypto/poly1305" //nolint:staticcheck // deprecated as a primitive, but crypto_box is made of it
	"lukechampine.com/blake3"
)

// Sizes of a sealed text.
const (
	NonceSize = chacha20.NonceSizeX // 24
	TagSize   = poly1305.TagSize    // 16
	Overhead  = NonceSize + TagSize // what Seal adds to the text
)

// ErrOpen: the bytes were not sealed with this key, or were altered.
var ErrOpen = errors.New("box: cannot open")

// A Nonce is the random number of one sealed text. Two sealed texts with the
// same nonce are the same text, replayed.
type Nonce [NonceSize]byte

// A Fingerprint names the key of a Box without giving it away: equal
// fingerprints mean equal keys (DS-79).
type Fingerprint [16]byte

// fingerprintContext separates fingerprints from every other use of the key.
const fingerprintContext = "hearsay 2025-11-30 box key fingerprint v1"

// A Box seals and opens texts between two keys. Both sides derive the same Box.
type Box struct {
	k           [32]byte // HChaCha20(X25519(secret, public), 0), kept so that a message costs no X25519
	fingerprint Fingerprint
}

// New derives the Box between one's own secret and another's public key. It
// returns [ErrBadKey] for an all-zero shared secret.
func New(secret SecretKey, public PublicKey) (*Box, error) {
	shared, err := curve25519.X25519(secret.b[:], public.b[:])
	if err != nil {
		return nil, ErrBadKey
	}
	k, err := chacha20.HChaCha20(shared, make([]byte, 16))
	if err != nil {
		panic("box: HChaCha20 with fixed sizes cannot fail: " + err.Error())
	}
	b := &Box{k: [32]byte(k)}
	blake3.DeriveKey(b.fingerprint[:], fingerprintContext, b.k[:])
	return b, nil
}

// NewShared derives the Box of a secret with its own public key: a channel's, and
// the one in which a sender marks direct messages as its own.
func NewShared(secret SecretKey) (*Box, error) { return New(secret, secret.Public()) }

// Fingerprint names the key.
func (b *Box) Fingerprint() Fingerprint { return b.fingerprint }

// Seal encrypts text under a fresh nonce: nonce, tag, ciphertext.
func (b *Box) Seal(text []byte) []byte {
	var nonce Nonce
	rand.Read(nonce[:]) // never fails (crypto/rand)
	return b.seal(nonce, text)
}

func (b *Box) seal(nonce Nonce, text []byte) []byte {
	out := make([]byte, Overhead+len(text))
	copy(out, nonce[:])
	stream, macKey := b.start(nonce)
	stream.XORKeyStream(out[Overhead:], text)
	var tag [TagSize]byte
	poly1305.Sum(&tag, out[Overhead:], &macKey)
	copy(out[NonceSize:], tag[:])
	return out
}

// start begins the keystream of nonce: its first 32 bytes are the MAC's key, the
// text continues in the same block.
func (b *Box) start(nonce Nonce) (stream *chacha20.Cipher, macKey [32]byte) {
	// A 24-byte nonce makes the cipher derive K1 by itself and count from block 0.
	stream, err := chacha20.NewUnauthenticatedCipher(b.k[:], nonce[:])
	if err != nil {
		panic("box: cipher with fixed sizes cannot fail: " + err.Error())
	}
	stream.XORKeyStream(macKey[:], macKey[:])
	return stream, macKey
}

// Open verifies and decrypts what Seal made. Every failure is [ErrOpen], and
// nothing is decrypted before the tag fits.
func (b *Box) Open(sealed []byte) (text []byte, nonce Nonce, err error) {
	if len(sealed) < Overhead {
		return nil, Nonce{}, ErrOpen
	}
	nonce = Nonce(sealed[:NonceSize])
	tag := [TagSize]byte(sealed[NonceSize:Overhead])
	stream, macKey := b.start(nonce)
	if !poly1305.Verify(&tag, sealed[Overhead:], &macKey) {
		return nil, Nonce{}, ErrOpen
	}
	text = make([]byte, len(sealed)-Overhead)
	stream.XORKeyStream(text, sealed[Overhead:])
	return text, nonce, nil
}

// SealText is Seal in base58, the form of a message's fields.
func (b *Box) SealText(text []byte) string { return base58.Encode(b.Seal(text)) }

// SealTextTagged is SealTagged in base58.
func (b *Box) SealTextTagged(text []byte, tag Tag) string {
	return base58.Encode(b.SealTagged(text, tag))
}

// DecodeText takes the base58 off a field. The work grows with the square of its
// length, so callers bound the length first. Every failure is [ErrOpen].
func DecodeText(field string) ([]byte, error) {
	sealed, err := base58.Decode(field)
	if err != nil {
		return nil, ErrOpen
	}
	return sealed, nil
}

// OpenText is DecodeText and Open.
func (b *Box) OpenText(field string) ([]byte, Nonce, error) {
	sealed, err := DecodeText(field)
	if err != nil {
		return nil, Nonce{}, err
	}
	return b.Open(sealed)
}

// Format writes a fixed word for every verb.
func (*Box) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, boxWord) }

// MarshalText gives the same word to JSON and its kin.
func (*Box) MarshalText() ([]byte, error) { return []byte(boxWord), nil }

// LogValue gives the same word to slog.
func (*Box) LogValue() slog.Value { return slog.StringValue(boxWord) }
