package kv

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// formatFile names the format record in a store's directory.
const formatFile = "format"

// maxFormatSize bounds the record that is read: a damaged one must not fill memory.
const maxFormatSize = 512

// A format is the record that says what a store is and freezes the sizes that
// Badger cannot change later. It is read before Badger opens (ST-01). Its bytes
// are in spec/storage.md.
type format struct {
	Kind       string
	Schema     uint32
	Generation uint32 // which gen-NNNNNN directory is the store
	Memtable   int64
	Table      int64
	Threshold  int64 // Badger's value threshold
}

const formatLayout = "hearsay-store 1\nkind %s\nschema %d\ngeneration %d\nmemtable %d\ntable %d\nthreshold %d\n"

// encode returns the record's only valid encoding.
func (f format) encode() []byte {
	b := fmt.Appendf(nil, formatLayout, f.Kind, f.Schema, f.Generation, f.Memtable, f.Table, f.Threshold)
	sum := sha256.Sum256(b)
	return fmt.Appendf(b, "sha256 %s\n", hex.EncodeToString(sum[:]))
}

// decodeFormat parses a record. A record of another version is ErrSchema,
// anything else that encode does not produce is ErrCorrupt.
func decodeFormat(b []byte) (format, error) {
	var f format
	magic, _, ok := bytes.Cut(b, []byte("\n"))
	if !ok || !bytes.HasPrefix(magic, []byte("hearsay-store ")) {
		return f, fmt.Errorf("%w: not a format record", ErrCorrupt)
	}
	if i := bytes.LastIndex(b, []byte("sha256 ")); i < 0 {
		return f, fmt.Errorf("%w: format record without checksum", ErrCorrupt)
	} else if sum := sha256.Sum256(b[:i]); string(b[i:]) != "sha256 "+hex.EncodeToString(sum[:])+"\n" {
		return f, fmt.Errorf("%w: format record checksum", ErrCorrupt)
	}
	if string(magic) != "hearsay-store 1" {
		return f, fmt.Errorf("%w: format record of another version", ErrSchema)
	}
	_, err := fmt.Sscanf(string(b), formatLayout, &f.Kind, &f.Schema, &f.Generation, &f.Memtable, &f.Table, &f.Threshold)
	// The encoding is canonical: what does not come out again was never written by us.
	if err != nil || !bytes.Equal(f.encode(), b) {
		return format{}, fmt.Errorf("%w: format record fields", ErrCorrupt)
	}
	if f.Memtable < minMemtable || f.Memtable > maxMemtable || f.Table < minMemtable || f.Table > maxMemtable ||
		f.Threshold <= 0 || f.Threshold > f.Memtable || f.Generation == 0 {
		return format{}, fmt.Errorf("%w: format record sizes", ErrCorrupt)
	}
	return f, nil
}

// readFormat returns the record of the store in dir, or fs.ErrNotExist.
func readFormat(dir string) (format, error) {
	f, err := os.Open(filepath.Join(dir, formatFile))
	if err != nil {
		return format{}, err
	}
	defer f.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(f, maxFormatSize+1))
	if err != nil {
		return format{}, fmt.Errorf("%w: format record: %w", ErrCorrupt, err)
	}
	if len(b) > maxFormatSize {
		return format{}, fmt.Errorf("%w: format record too long", ErrCorrupt)
	}
	return decodeFormat(b)
}

// writeFormat replaces the record: after it returns the new one is durable, and
// at any earlier moment there is the old one, whole.
func writeFormat(dir string, f format) error {
	return writeFileDurably(dir, formatFile, f.encode())
}

// writeFileDurably replaces dir/name with data, owner only.
func writeFileDurably(dir, name string, data []byte) (err error) {
	tmp := filepath.Join(dir, name+".tmp")
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := createOwnerOnly(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	return syncDir(dir)
}

// createOwnerOnly creates a file with mode 0600 whatever the umask.
func createOwnerOnly(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(0o600); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
