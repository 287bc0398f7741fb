package sealed

import (
	"bytes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"

	"golang.org/x/crypto/chacha20poly1305"

	"hearsay/internal/kv"
)

// Errors that callers branch on.
var (
	// ErrKey: the store is sealed with another key.
	ErrKey = errors.New("sealed: the key is not that of this store")
	// ErrSealed: the store is sealed, and there is no key.
	ErrSealed = errors.New("sealed: the store is sealed, and no key is given")
	// ErrPlain: there is a key, and the store has rows that are not sealed.
	ErrPlain = errors.New("sealed: the store is not sealed, although a key is given")
)

// markerKey is the row that says that a store is sealed. Users of the store do not
// see it, and cannot have a row of this name.
var markerKey = []byte("\x00sealed")

var opMark = kv.Op{Name: "sealed/mark", Class: kv.ClassEnqueue}

// Overhead is what sealing adds to a value, in bytes.
const Overhead = chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead

// A Store seals the values of the store below it.
type Store struct {
	kv.Store
	aead cipher.AEAD
}

// Wrap seals what is written to s from now on, and opens what is read. An empty store
// becomes a sealed one. Errors: ErrKey, ErrPlain, the store's own.
func Wrap(s kv.Store, k Key) (*Store, error) {
	aead, err := chacha20poly1305.NewX(k[:])
	if err != nil {
		return nil, fmt.Errorf("sealed: %w", err)
	}
	w := &Store{s, aead}
	marked, empty, err := look(s)
	if err != nil {
		return nil, err
	}
	switch {
	case marked != nil:
		if _, err := w.open(markerKey, marked); err != nil {
			return nil, ErrKey
		}
	case !empty:
		return nil, ErrPlain
	default:
		if err := s.Update(opMark, func(tx kv.Txn) error { return tx.Set(markerKey, w.seal(markerKey, nil)) }); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// CheckPlain returns ErrSealed for a store that only Wrap can read.
func CheckPlain(s kv.Store) error {
	marked, _, err := look(s)
	if err == nil && marked != nil {
		err = ErrSealed
	}
	return err
}

// look reads the marker, and tells whether there is no row at all.
func look(s kv.Store) (marked []byte, empty bool, err error) {
	err = s.View(func(r kv.Reader) error {
		empty = true
		marked, err = r.Get(markerKey)
		if !errors.Is(err, kv.ErrNotFound) {
			return err
		}
		return r.Scan(kv.Scan{KeysOnly: true}, func(_, _ []byte) error {
			empty = false
			return kv.ErrStop
		})
	})
	return marked, empty, err
}

func (s *Store) seal(key, value []byte) []byte {
	nonce := make([]byte, chacha20poly1305.NonceSizeX, len(value)+Overhead)
	rand.Read(nonce) // never fails
	return s.aead.Seal(nonce, nonce, value, key)
}

func (s *Store) open(key, sealed []byte) ([]byte, error) {
	if len(sealed) < chacha20poly1305.NonceSizeX {
		return nil, fmt.Errorf("sealed: %w: value of %d bytes", kv.ErrCorrupt, len(sealed))
	}
	nonce, rest := sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:]
	v, err := s.aead.Open(make([]byte, 0, len(rest)), nonce, rest, key)
	if err != nil {
		return nil, fmt.Errorf("sealed: %w: value does not open", kv.ErrCorrupt)
	}
	return v, nil
}

// View implements kv.Store.
func (s *Store) View(fn func(kv.Reader) error) error {
	return s.Store.View(func(r kv.Reader) error { return fn(reader{r, s}) })
}

// Update implements kv.Store.
func (s *Store) Update(op kv.Op, fn func(tx kv.Txn) error) error {
	return s.Store.Update(op, func(tx kv.Txn) error { return fn(txn{reader{tx, s}, tx}) })
}

type reader struct {
	below kv.Reader
	s     *Store
}

func (r reader) Get(key []byte) ([]byte, error) {
	if bytes.Equal(key, markerKey) {
		return nil, kv.ErrNotFound
	}
	v, err := r.below.Get(key)
	if err != nil {
		return nil, err
	}
	return r.s.open(key, v)
}

func (r reader) Scan(sc kv.Scan, fn func(key, value []byte) error) error {
	return r.below.Scan(sc, func(key, value []byte) error {
		if bytes.Equal(key, markerKey) {
			return nil
		}
		if sc.KeysOnly {
			return fn(key, nil)
		}
		v, err := r.s.open(key, value)
		if err != nil {
			return err
		}
		return fn(key, v)
	})
}

type txn struct {
	reader
	tx kv.Txn
}

func (t txn) Set(key, value []byte) error {
	if bytes.Equal(key, markerKey) {
		return kv.ErrKey
	}
	return t.tx.Set(key, t.s.seal(key, value))
}

func (t txn) Delete(key []byte) error {
	if bytes.Equal(key, markerKey) {
		return kv.ErrKey
	}
	return t.tx.Delete(key)
}
