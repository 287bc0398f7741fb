package relay

import (
	"crypto/cipher"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/chacha20poly1305"
	"lukechampine.com/blake3"

	"hearsay/mailbox"
)

// sealOverhead is the bytes that sealing adds: nonce and tag.
const sealOverhead = chacha20poly1305.NonceSizeX + chacha20poly1305.Overhead

// Contexts of the keys that the relay's first key is split into. They serve
// nothing else (MB-51).
const (
	contextIndex  = "hearsay mailbox relay v2 token index"
	contextClient = "hearsay mailbox relay v2 client index"
	contextSeal   = "hearsay mailbox relay v2 row seal"
	// contextContent: who gets the store must not find an envelope in it that they have.
	contextContent = "hearsay mailbox relay v2 content index"
	// contextCheck: what a store knows its key by.
	contextCheck = "hearsay mailbox relay v2 key check"
)

// KeySize is the number of bytes of mailbox-v2.key.
const KeySize = 32

var errSeal = errors.New("relay: sealed row does not open")

// A sealer turns tokens and clients into opaque indexes, and envelopes into rows
// that open only in their own place (MB-06).
type sealer struct {
	indexKey, clientKey, contentKey []byte
	aead                            cipher.AEAD
}

func newSealer(master [KeySize]byte) (*sealer, error) {
	derive := func(context string) []byte {
		out := make([]byte, 32)
		blake3.DeriveKey(out, context, master[:])
		return out
	}
	aead, err := chacha20poly1305.NewX(derive(contextSeal))
	if err != nil {
		return nil, fmt.Errorf("relay: seal key: %w", err)
	}
	return &sealer{derive(contextIndex), derive(contextClient), derive(contextContent), aead}, nil
}

func keyed(k, b []byte) (out [32]byte) {
	h := blake3.New(32, k)
	_, _ = h.Write(b) // a hash never fails to write
	h.Sum(out[:0])
	return out
}

func (s *sealer) index(t mailbox.Token) index    { return keyed(s.indexKey, t[:]) }
func (s *sealer) client(transport []byte) client { return keyed(s.clientKey, transport) }

// content is the opaque form of an envelope's content id.
func (s *sealer) content(envelope []byte) content {
	id := mailbox.ContentIDOf(envelope)
	sum := keyed(s.contentKey, id[:])
	return content(sum[:16])
}

// associated binds a ciphertext to its row id and token index.
func associated(id mailbox.RowID, ix index) []byte {
	return append(append([]byte{Schema}, id[:]...), ix[:]...)
}

// seal encrypts an envelope for its row.
func (s *sealer) seal(random io.Reader, id mailbox.RowID, ix index, envelope []byte) ([]byte, error) {
	out := make([]byte, chacha20poly1305.NonceSizeX, len(envelope)+sealOverhead)
	if _, err := io.ReadFull(random, out); err != nil {
		return nil, fmt.Errorf("relay: nonce: %w", err)
	}
	return s.aead.Seal(out, out, envelope, associated(id, ix)), nil
}

// open undoes seal, in place: what it returns is in sealed. A row that was swapped with
// another or altered fails.
func (s *sealer) open(id mailbox.RowID, ix index, sealed []byte) ([]byte, error) {
	if len(sealed) < sealOverhead {
		return nil, errSeal
	}
	nonce, text := sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:]
	out, err := s.aead.Open(text[:0], nonce, text, associated(id, ix))
	if err != nil {
		return nil, errSeal
	}
	return out, nil
}
