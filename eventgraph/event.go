package eventgraph

import (
	"bytes"
	"encoding/hex"

	"lukechampine.com/blake3"

	"hearsay/internal/serial"
)

// Sizes of the fixed parts of an event (spec/wire.md).
const (
	// NumParents is the number of parent positions in a header.
	NumParents = 5
	// HeaderSize is the number of bytes of an encoded header.
	HeaderSize = 8 + NumParents*32 + 8 + 32
)

// An ID names an event: the BLAKE3-256 hash of its encoded header. It covers the
// content's hash, not the content, so content must be checked against the header
// before anything is remembered under its ID.
type ID [32]byte

// NullID fills unused parent positions.
var NullID ID

// String is the ID in lower-case hex.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// IsNull tells whether id is the filler of unused parent positions.
func (id ID) IsNull() bool { return id == NullID }

// A Header is the hashed part of an event.
type Header struct {
	Timestamp   uint64 // ms since the UNIX epoch, by the author's clock
	Parents     [NumParents]ID
	Layer       uint64 // 1 + the highest layer among the parents; 0 for a genesis
	ContentHash [32]byte
}

// An Event is a header and the content that it commits to.
type Event struct {
	Header
	Content []byte
}

// AppendTo appends the header's 208 bytes.
func (h *Header) AppendTo(b []byte) []byte {
	b = serial.AppendUint64(b, h.Timestamp)
	for i := range h.Parents {
		b = append(b, h.Parents[i][:]...)
	}
	b = serial.AppendUint64(b, h.Layer)
	return append(b, h.ContentHash[:]...)
}

// ID hashes the header.
func (h *Header) ID() ID {
	var buf [HeaderSize]byte
	return blake3.Sum256(h.AppendTo(buf[:0]))
}

// GenesisShaped tells whether every parent position is null.
func (h *Header) GenesisShaped() bool { return h.Parents == [NumParents]ID{} }

// ReadHeader reads a header; errors stay in r.
func ReadHeader(r *serial.Reader) (h Header) {
	h.Timestamp = r.Uint64()
	for i := range h.Parents {
		copy(h.Parents[i][:], r.Take(32))
	}
	h.Layer = r.Uint64()
	copy(h.ContentHash[:], r.Take(32))
	return h
}

// AppendTo appends header, content length and content.
func (e *Event) AppendTo(b []byte) []byte {
	return serial.AppendBytes(e.Header.AppendTo(b), e.Content)
}

// Size is the number of bytes that AppendTo appends.
func (e *Event) Size() int { return int(eventSize(len(e.Content))) }

// eventSize is the encoded size of an event with n bytes of content.
func eventSize(n int) uint64 {
	return HeaderSize + uint64(serial.VarIntSize(uint64(n))) + uint64(n)
}

// ReadEvent reads an event whose content has at most limit bytes; the content is
// copied. Errors stay in r.
func ReadEvent(r *serial.Reader, limit int) (e Event) {
	e.Header = ReadHeader(r)
	e.Content = bytes.Clone(r.Bytes(limit))
	return e
}

// HashContent is the content hash of a header.
func HashContent(content []byte) [32]byte { return blake3.Sum256(content) }
