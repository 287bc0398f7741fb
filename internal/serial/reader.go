package serial

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"
)

// The ways in which bytes can fail to be what a caller asked for.
var (
	// ErrShort: the buffer ended inside a value.
	ErrShort = errors.New("serial: unexpected end of data")
	// ErrNonMinimal: a VarInt used a longer form than it needs.
	ErrNonMinimal = errors.New("serial: VarInt is not minimal")
	// ErrUTF8: a string is not valid UTF-8.
	ErrUTF8 = errors.New("serial: string is not UTF-8")
	// ErrLimit: a length or count is above what the caller allows.
	ErrLimit = errors.New("serial: length above limit")
	// ErrTrailing: bytes were left after the last value.
	ErrTrailing = errors.New("serial: trailing bytes")
)

// A Reader takes values off the front of a byte slice. The first error sticks:
// every later call returns a zero value, so a decoder reads all of its fields
// and asks [Reader.Err] or [Reader.Done] once. A Reader allocates nothing but
// the strings it returns.
type Reader struct {
	buf []byte
	off int
	err error
}

// NewReader reads from b, which must not change while the Reader or any slice
// that it returned is in use.
func NewReader(b []byte) *Reader { return &Reader{buf: b} }

// Err is the first error met, or nil.
func (r *Reader) Err() error { return r.err }

// Done is Err, or [ErrTrailing] where bytes are left: the check for formats
// that must be consumed exactly.
func (r *Reader) Done() error {
	if r.err == nil && r.off != len(r.buf) {
		r.err = fmt.Errorf("%w: %d", ErrTrailing, len(r.buf)-r.off)
	}
	return r.err
}

// Len is the number of bytes not yet read.
func (r *Reader) Len() int { return len(r.buf) - r.off }

// Offset is the number of bytes read so far.
func (r *Reader) Offset() int { return r.off }

// Fail makes err the Reader's error unless it has one already. Decoders use it
// for rules of their own.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// Take returns the next n bytes as a view, or nil.
func (r *Reader) Take(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > len(r.buf)-r.off {
		r.err = ErrShort
		return nil
	}
	v := r.buf[r.off : r.off+n : r.off+n]
	r.off += n
	return v
}

// Uint8 reads one byte.
func (r *Reader) Uint8() uint8 {
	if b := r.Take(1); b != nil {
		return b[0]
	}
	return 0
}

// Bool reads one byte; any value but zero is true, as on the network.
func (r *Reader) Bool() bool { return r.Uint8() != 0 }

// Uint16 reads 2 bytes, little endian.
func (r *Reader) Uint16() uint16 {
	if b := r.Take(2); b != nil {
		return binary.LittleEndian.Uint16(b)
	}
	return 0
}

// Uint32 reads 4 bytes, little endian.
func (r *Reader) Uint32() uint32 {
	if b := r.Take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

// Uint64 reads 8 bytes, little endian.
func (r *Reader) Uint64() uint64 {
	if b := r.Take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// VarInt reads a length or count. Longer forms than needed are [ErrNonMinimal].
func (r *Reader) VarInt() uint64 {
	var v, least uint64
	switch tag := r.Uint8(); tag {
	case 0xfd:
		v, least = uint64(r.Uint16()), 0xfd
	case 0xfe:
		v, least = uint64(r.Uint32()), 0x10000
	case 0xff:
		v, least = r.Uint64(), 0x100000000
	default:
		v = uint64(tag)
	}
	if r.err != nil {
		return 0
	}
	if v < least {
		r.err = ErrNonMinimal
		return 0
	}
	return v
}

// Count reads the VarInt count of a list whose elements take at least size
// bytes each (size ≥ 1), and refuses a count above limit, or above what the
// bytes left could hold. So it is safe to allocate for the result.
func (r *Reader) Count(limit, size int) int {
	n := r.VarInt()
	switch {
	case r.err != nil:
		return 0
	case n > uint64(limit):
		r.err = fmt.Errorf("%w: %d elements, at most %d", ErrLimit, n, limit)
		return 0
	case n > uint64(r.Len()/size):
		r.err = ErrShort
		return 0
	}
	return int(n)
}

// Bytes reads a length-prefixed byte string of at most limit bytes as a view.
func (r *Reader) Bytes(limit int) []byte {
	n := r.VarInt()
	if r.err != nil {
		return nil
	}
	if n > uint64(limit) {
		r.err = fmt.Errorf("%w: %d bytes, at most %d", ErrLimit, n, limit)
		return nil
	}
	return r.Take(int(n))
}

// String reads a length-prefixed UTF-8 string of at most limit bytes.
func (r *Reader) String(limit int) string {
	b := r.Bytes(limit)
	if r.err != nil {
		return ""
	}
	if !utf8.Valid(b) {
		r.err = ErrUTF8
		return ""
	}
	return string(b)
}
