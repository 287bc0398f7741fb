package relay

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Names of the relay's files beside its store (MB-51).
const (
	StoreName        = "mailbox-v2.db"
	KeyName          = "mailbox-v2.key"
	TransportKeyName = "mailbox-v2.transport.key"
)

// ErrKeyFile: a key file that is unsafe or damaged. It is never replaced by a new
// one: rows sealed under the old key would be lost, and clients know the old
// identity.
var ErrKeyFile = errors.New("relay: key file")

// Keys are the relay's two keys. Neither serves anything else (MB-51).
type Keys struct {
	Master    [KeySize]byte
	Transport ed25519.PrivateKey
}

// OpenKeys reads the two keys in dir, making each that is missing, unless storeExists:
// a store without its key is refused, not given another one.
func OpenKeys(dir string, storeExists bool) (Keys, error) {
	var k Keys
	master, err := openKey(filepath.Join(dir, KeyName), KeySize, !storeExists)
	if err != nil {
		return Keys{}, err
	}
	copy(k.Master[:], master)
	seed, err := openKey(filepath.Join(dir, TransportKeyName), ed25519.SeedSize, !storeExists)
	if err != nil {
		return Keys{}, err
	}
	k.Transport = ed25519.NewKeyFromSeed(seed)
	return k, nil
}

// backupHead is the first line of a backup of the keys.
const backupHead = "hearsay-mailbox-keys 1"

// Backup is both keys as text, for a file that RestoreKeys reads: a line that says what
// it is, then a line for each key with the name of its file and its bytes in hexadecimal.
func (k Keys) Backup() []byte {
	return fmt.Appendf(nil, "%s\n%s %x\n%s %x\n", backupHead, KeyName, k.Master[:], TransportKeyName, k.Transport.Seed())
}

// RestoreKeys makes the key files in dir of a backup. A file that exists is refused,
// unless it holds the very key.
func RestoreKeys(dir, backup string) error {
	size := len(Keys{Transport: make(ed25519.PrivateKey, ed25519.PrivateKeySize)}.Backup())
	text, err := openKey(backup, size, false)
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 4 || lines[0] != backupHead || lines[3] != "" {
		return fmt.Errorf("%w: %s is no backup of keys", ErrKeyFile, filepath.Base(backup))
	}
	var keys [2][]byte
	for i, name := range []string{KeyName, TransportKeyName} {
		digits, ok := strings.CutPrefix(lines[i+1], name+" ")
		if keys[i], err = hex.DecodeString(digits); !ok || err != nil || len(keys[i]) != KeySize {
			return fmt.Errorf("%w: %s is damaged", ErrKeyFile, filepath.Base(backup))
		}
	}
	for i, name := range []string{KeyName, TransportKeyName} {
		path := filepath.Join(dir, name)
		if old, err := openKey(path, KeySize, false); err == nil && bytes.Equal(old, keys[i]) {
			continue
		}
		if err := WriteOwnerOnly(path, keys[i]); err != nil {
			return err
		}
	}
	return nil
}

// openKey reads a file of exactly size bytes that nobody else can read, or makes
// one. A symlink as last component is refused (MB-52).
func openKey(path string, size int, create bool) ([]byte, error) {
	name := filepath.Base(path)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0) // a FIFO must not block
	if errors.Is(err, fs.ErrNotExist) {
		if !create {
			return nil, fmt.Errorf("%w: %s is missing; put it back from its backup", ErrKeyFile, name)
		}
		return makeKey(path, size)
	}
	if errors.Is(err, syscall.ELOOP) {
		return nil, fmt.Errorf("%w: %s is a symlink", ErrKeyFile, name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s cannot be opened: %w", ErrKeyFile, name, errors.Unwrap(err))
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrKeyFile, name, err)
	}
	switch {
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrKeyFile, name)
	case info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%w: %s can be read by others; chmod 600 it", ErrKeyFile, name)
	case info.Size() != int64(size):
		return nil, fmt.Errorf("%w: %s has %d bytes, not %d", ErrKeyFile, name, info.Size(), size)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrKeyFile, name, err)
	}
	return b, nil
}

// makeKey writes a new key so that after a crash there is either no file or a whole
// one.
func makeKey(path string, size int) (_ []byte, err error) {
	b := make([]byte, size)
	if _, err := rand.Read(b); err != nil {
		return nil, fmt.Errorf("relay: new key: %w", err)
	}
	return b, WriteOwnerOnly(path, b)
}

// WriteOwnerOnly writes a new file that only its owner can read, durably; an
// existing one is refused.
func WriteOwnerOnly(path string, b []byte) (err error) {
	fail := func(err error) error { return fmt.Errorf("%w: %s: %w", ErrKeyFile, filepath.Base(path), err) }
	if _, err := os.Lstat(path); err == nil {
		return fail(fs.ErrExist)
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return fail(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name()) // best effort: it holds a key that nobody uses
		}
	}()
	if _, err = tmp.Write(b); err == nil {
		err = tmp.Sync()
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fail(err)
	}
	// A link, unlike a rename, does not replace a file that came meanwhile.
	if err = os.Link(tmp.Name(), path); err != nil {
		return fail(err)
	}
	if err = os.Remove(tmp.Name()); err != nil {
		return fail(err)
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fail(err)
	}
	defer func() { _ = dir.Close() }() // synced below
	if err = dir.Sync(); err != nil {
		return fail(err)
	}
	return nil
}
