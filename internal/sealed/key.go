package sealed

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// A Key seals a store. It never prints itself.
type Key [32]byte

const keyWord = "[key]"

// Format writes a fixed word for every verb.
func (Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, keyWord) }

// MarshalText gives the same word to JSON and its kin.
func (Key) MarshalText() ([]byte, error) { return []byte(keyWord), nil }

// LogValue gives the same word to slog.
func (Key) LogValue() slog.Value { return slog.StringValue(keyWord) }

// ErrKeyFile: a file that is no key, or that others can read.
var ErrKeyFile = errors.New("sealed: unusable key file")

// maxKeyFile bounds what is read of a key file: a key is 64 digits and a line end.
const maxKeyFile = 256

// ReadKey reads a key file: 64 hexadecimal digits. It must be a regular file, or lead to
// one, that only its owner may read.
func ReadKey(path string) (k Key, err error) {
	f, err := os.Open(path)
	if err != nil {
		return k, fmt.Errorf("%w: %w", ErrKeyFile, err)
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	switch {
	case err != nil:
		return k, fmt.Errorf("%w: %w", ErrKeyFile, err)
	case !info.Mode().IsRegular():
		return k, fmt.Errorf("%w: %s is no file", ErrKeyFile, path)
	case info.Mode().Perm()&0o077 != 0:
		return k, fmt.Errorf("%w: %s can be read by others; chmod 600 it", ErrKeyFile, path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return k, fmt.Errorf("%w: %w", ErrKeyFile, err)
	}
	b, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(b) != len(k) {
		return k, fmt.Errorf("%w: %s does not hold 64 hexadecimal digits", ErrKeyFile, path)
	}
	return Key(b), nil
}

// NewKeyFile makes a key file, which must not be there yet.
func NewKeyFile(path string) error {
	var k Key
	rand.Read(k[:]) // never fails
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKeyFile, err)
	}
	_, err = io.WriteString(f, hex.EncodeToString(k[:])+"\n")
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
