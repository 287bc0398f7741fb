package box

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/mr-tron/base58"
	"golang.org/x/crypto/curve25519"
)

// KeySize is the number of bytes of a secret and of a public key.
const KeySize = 32

// maxKeyText bounds the base58 text of a key before it is decoded: 32 bytes are
// at most 44 characters.
const maxKeyText = 44

var (
	// ErrKeyText: a key is not the base58 form of exactly 32 bytes.
	ErrKeyText = errors.New("box: key is not base58 of 32 bytes")
	// ErrBadKey: the two keys have the all-zero shared secret, which only a
	// hostile or broken public key gives.
	ErrBadKey = errors.New("box: public key is not usable")
)

// A SecretKey is a channel's secret or one's own half of a direct conversation:
// 32 random bytes, stored unclamped. It never prints itself; see Base58.
type SecretKey struct{ b [KeySize]byte }

// A PublicKey is an X25519 u-coordinate. It names a person to everybody who
// holds it, so it never prints itself either; see Base58.
type PublicKey struct{ b [KeySize]byte }

// GenerateSecret makes a new random secret.
func GenerateSecret() SecretKey {
	var k SecretKey
	rand.Read(k.b[:]) // never fails (crypto/rand)
	return k
}

// ParseSecret reads the base58 form of a secret. Errors are [ErrKeyText] and do
// not repeat the text.
func ParseSecret(text string) (SecretKey, error) {
	b, err := parseKey(text)
	return SecretKey{b}, err
}

// ParsePublic reads the base58 form of a public key. Errors are [ErrKeyText] and
// do not repeat the text.
func ParsePublic(text string) (PublicKey, error) {
	b, err := parseKey(text)
	return PublicKey{b}, err
}

func parseKey(text string) (key [KeySize]byte, err error) {
	if len(text) > maxKeyText {
		return key, ErrKeyText
	}
	b, err := base58.Decode(text)
	if err != nil || len(b) != KeySize {
		return key, ErrKeyText // without err: it quotes a part of the key
	}
	return [KeySize]byte(b), nil
}

// Public is the public key that belongs to k.
func (k SecretKey) Public() PublicKey {
	p, err := curve25519.X25519(k.b[:], curve25519.Basepoint)
	if err != nil {
		panic("box: X25519 with the base point cannot fail: " + err.Error())
	}
	return PublicKey{[KeySize]byte(p)}
}

// IsZero tells whether k was never set.
func (k SecretKey) IsZero() bool { return k == SecretKey{} }

// IsZero tells whether k was never set.
func (k PublicKey) IsZero() bool { return k == PublicKey{} }

// Base58 is the form in which configuration files hold the key: the only way to
// get at its bytes.
func (k SecretKey) Base58() string { return base58.Encode(k.b[:]) }

// Base58 is the form in which configuration files hold the key.
func (k PublicKey) Base58() string { return base58.Encode(k.b[:]) }

const (
	secretWord = "[secret key]"
	publicWord = "[public key]"
	boxWord    = "[box]"
)

// Format writes a fixed word for every verb.
func (SecretKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, secretWord) }

// MarshalText gives the same word to JSON and its kin.
func (SecretKey) MarshalText() ([]byte, error) { return []byte(secretWord), nil }

// LogValue gives the same word to slog.
func (SecretKey) LogValue() slog.Value { return slog.StringValue(secretWord) }

// Format writes a fixed word for every verb.
func (PublicKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, publicWord) }

// MarshalText gives the same word to JSON and its kin.
func (PublicKey) MarshalText() ([]byte, error) { return []byte(publicWord), nil }

// LogValue gives the same word to slog.
func (PublicKey) LogValue() slog.Value { return slog.StringValue(publicWord) }
