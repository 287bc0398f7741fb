package relay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"hearsay/internal/kv"
	"hearsay/internal/serial"
	"hearsay/mailbox"
)

// Keys of the relay's store (spec/storage.md, relay). Times in keys are big-endian
// seconds, so that an index is in order of expiry.
//
//	g                          totals
//	k                          whose store it is: derived from the key
//	t | index                  registration of a token
//	c | client                 a client's quota counters and live leases
//	w | client                 a client's request window
//	W | start | client         the same, by age
//	r | row id                 a row, all but its ciphertext
//	b | row id                 its sealed ciphertext
//	q | index | pass | seq | row id   rows of a token in the order of offering
//	d | index | content     row id of a live deposit, or the mark of an acknowledged one
//	l | lease id               a lease
//	s | client | set           lease id of a client's live lease for a set of tokens
//	E | expiry | row id        rows by expiry
//	L | expiry | lease id      leases by expiry
//	T | expiry | index         registrations by expiry
//	D | expiry | index | content   marks of acknowledged deposits by expiry
const (
	prefixTotals    = 'g'
	prefixKeyCheck  = 'k'
	prefixToken     = 't'
	prefixClient    = 'c'
	prefixWindow    = 'w'
	prefixWindowAge = 'W'
	prefixRow       = 'r'
	prefixBody      = 'b'
	prefixQueue     = 'q'
	prefixDedup     = 'd'
	prefixLease     = 'l'
	prefixLeaseSet  = 's'
	prefixRowExpiry = 'E'
	prefixLeaseExp  = 'L'
	prefixTokenExp  = 'T'
	prefixDedupExp  = 'D'
)

// Schema is the version of the layout above.
const Schema = 1

type (
	// index is the keyed hash of a token: what the store knows of it (MB-06).
	index [32]byte
	// client is the keyed hash of a transport key.
	client [32]byte
	// content is the keyed hash of a content id, shortened.
	content [16]byte
	// setID names a set of tokens, in whatever order they were asked for (MB-11).
	setID [32]byte
)

func key(prefix byte, parts ...[]byte) []byte {
	k := []byte{prefix}
	for _, p := range parts {
		k = append(k, p...)
	}
	return k
}

func be64(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// totals are the relay-wide counters.
type totals struct {
	Rows, Bytes, Leases, Tokens, Windows, Dedups uint64
	Acked                                        uint64 // remembered leases
	WindowStart, WindowCount                     uint64 // requests of the current minute
	NextSeq                                      uint64 // order of deposits
}

func (v *totals) fields() []*uint64 {
	return []*uint64{&v.Rows, &v.Bytes, &v.Leases, &v.Tokens, &v.Windows, &v.Dedups, &v.Acked, &v.WindowStart, &v.WindowCount, &v.NextSeq}
}

// token is a registration with its quota counters. It outlives the registration
// while rows wait under it.
type token struct {
	Client    client
	Expires   uint64 // s; 0: not registered
	Refreshed uint64 // s
	Rows      uint64
	Bytes     uint64
	Boxed     uint64            // of its rows, those in the penalty box
	Leases    []mailbox.LeaseID // live leases that hold a row of it
}

// account is a client's quota counters.
type account struct {
	Tokens, Rows, Bytes uint64
	Leases              []mailbox.LeaseID
}

// window counts a client's requests in the minute that began at Start.
type window struct{ Start, Count uint64 }

// row is a deposit. Its sealed ciphertext is a value of its own, so that leasing a
// page does not write it again.
type row struct {
	Index   index
	Owner   client // the depositor, whose quota it uses
	Content content
	Expires uint64
	Size    uint64 // bytes of the plain envelope
	Pass    uint8  // how often it came back unacknowledged, at most passMost; passBoxed in the penalty box
	Seq     uint64
	Lease   mailbox.LeaseID // zero: not held
}

// Passes of a row: later ones are offered later (MB-36).
const (
	passMost  = 0xfe
	passBoxed = 0xff
)

// lease is a page held for a client.
type lease struct {
	Client  client
	Set     setID
	Expires uint64 // s
	Acked   bool   // no longer returned for its set
	Done    bool   // holds no row any more: remembered for repeats, not live
	Tokens  []index
	Rows    []mailbox.RowID
}

var errRecord = errors.New("record does not decode")

func corrupt(what string) error {
	return fmt.Errorf("%w: relay %s: %w", kv.ErrCorrupt, what, errRecord)
}

func appendU64s(b []byte, vs ...*uint64) []byte {
	for _, v := range vs {
		b = serial.AppendUint64(b, *v)
	}
	return b
}

func readU64s(r *serial.Reader, vs ...*uint64) {
	for _, v := range vs {
		*v = r.Uint64()
	}
}

func appendIDs[T ~[16]byte](b []byte, ids []T) []byte {
	b = serial.AppendVarInt(b, uint64(len(ids)))
	for _, id := range ids {
		a := [16]byte(id)
		b = append(b, a[:]...)
	}
	return b
}

func readIDs[T ~[16]byte](r *serial.Reader, limit int) []T {
	n := r.Count(limit, 16)
	if n == 0 {
		return nil
	}
	ids := make([]T, n)
	for i := range ids {
		var a [16]byte
		copy(a[:], r.Take(16))
		ids[i] = T(a)
	}
	return ids
}

func (v *totals) encode() []byte { return appendU64s(nil, v.fields()...) }

func (v *totals) decode(b []byte) error {
	r := serial.NewReader(b)
	readU64s(r, v.fields()...)
	return r.Done()
}

func (v *token) encode() []byte {
	b := append([]byte(nil), v.Client[:]...)
	b = appendU64s(b, &v.Expires, &v.Refreshed, &v.Rows, &v.Bytes, &v.Boxed)
	return appendIDs(b, v.Leases)
}

func (v *token) decode(b []byte) error {
	r := serial.NewReader(b)
	copy(v.Client[:], r.Take(32))
	readU64s(r, &v.Expires, &v.Refreshed, &v.Rows, &v.Bytes, &v.Boxed)
	v.Leases = readIDs[mailbox.LeaseID](r, 1<<16)
	return r.Done()
}

func (v *account) encode() []byte {
	return appendIDs(appendU64s(nil, &v.Tokens, &v.Rows, &v.Bytes), v.Leases)
}

func (v *account) decode(b []byte) error {
	r := serial.NewReader(b)
	readU64s(r, &v.Tokens, &v.Rows, &v.Bytes)
	v.Leases = readIDs[mailbox.LeaseID](r, 1<<16)
	return r.Done()
}

func (v *window) encode() []byte { return appendU64s(nil, &v.Start, &v.Count) }

func (v *window) decode(b []byte) error {
	r := serial.NewReader(b)
	readU64s(r, &v.Start, &v.Count)
	return r.Done()
}

func (v *row) encode() []byte {
	b := append([]byte(nil), v.Index[:]...)
	b = append(b, v.Owner[:]...)
	b = append(b, v.Content[:]...)
	b = appendU64s(b, &v.Expires, &v.Size, &v.Seq)
	b = append(b, v.Pass)
	return append(b, v.Lease[:]...)
}

func (v *row) decode(b []byte) error {
	r := serial.NewReader(b)
	copy(v.Index[:], r.Take(32))
	copy(v.Owner[:], r.Take(32))
	copy(v.Content[:], r.Take(16))
	readU64s(r, &v.Expires, &v.Size, &v.Seq)
	v.Pass = r.Uint8()
	copy(v.Lease[:], r.Take(16))
	return r.Done()
}

func (v *lease) encode() []byte {
	b := append([]byte(nil), v.Client[:]...)
	b = append(b, v.Set[:]...)
	b = serial.AppendUint64(b, v.Expires)
	b = serial.AppendBool(b, v.Acked)
	b = serial.AppendBool(b, v.Done)
	b = serial.AppendVarInt(b, uint64(len(v.Tokens)))
	for _, t := range v.Tokens {
		b = append(b, t[:]...)
	}
	return appendIDs(b, v.Rows)
}

func (v *lease) decode(b []byte) error {
	r := serial.NewReader(b)
	copy(v.Client[:], r.Take(32))
	copy(v.Set[:], r.Take(32))
	v.Expires = r.Uint64()
	v.Acked = r.Bool()
	v.Done = r.Bool()
	n := r.Count(mailbox.MaxPageRows, 32)
	for range n {
		var t index
		copy(t[:], r.Take(32))
		v.Tokens = append(v.Tokens, t)
	}
	v.Rows = readIDs[mailbox.RowID](r, mailbox.MaxPageRows)
	return r.Done()
}

// seconds is how the store and the wire count time.
func seconds(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }
