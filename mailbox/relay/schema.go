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

// Keys of the relay's store (spec/mailbox.md). Integers in keys are big-endian, times
// are seconds, so that an index is in order of expiry.
//
//	g                        totals
//	k                        whose store it is: derived from the key
//	t | index                registration of a token
//	p | index                which rows of a token came back, and how often
//	c | client               a client's quota counters and live leases
//	w | client               a client's request window
//	W | start | client       the same, by age
//	q | index | seq | expiry | size | row id   a row, in the order of deposit: all of it
//	d | index | content      the mark of a deposit that waits or was acknowledged
//	l | lease id             a lease, with its rows
//	s | client | set         lease id of a client's live lease for a set of tokens
//	X | due | index          tokens by a lower bound of their rows' expiry
//	L | expiry | lease id    leases by expiry
//	T | expiry | index       registrations by expiry
//	D | expiry | number      the deposits of an acknowledgement, by when they are forgotten
//
// A row is one entry and a mark, and nothing of it is written again until it goes: that it
// is held says its lease, that it came back the record of its token. What a page costs is the
// number of entries that it writes (decision 0235).
const (
	prefixTotals    = 'g'
	prefixKeyCheck  = 'k'
	prefixToken     = 't'
	prefixPasses    = 'p'
	prefixClient    = 'c'
	prefixWindow    = 'w'
	prefixWindowAge = 'W'
	prefixRow       = 'q'
	prefixDedup     = 'd'
	prefixLease     = 'l'
	prefixLeaseSet  = 's'
	prefixRowExpiry = 'X'
	prefixLeaseExp  = 'L'
	prefixTokenExp  = 'T'
	prefixDedupExp  = 'D'
)

// Schema is the version of the layout above. Version 1 had five entries for a row; a store
// of it is refused (decision 0235).
const Schema = 2

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
	NextSeq                                      uint64 // order of deposits, and of acknowledgements
	Latest                                       uint64 // s; no row expires later
}

func (v *totals) fields() []*uint64 {
	return []*uint64{&v.Rows, &v.Bytes, &v.Leases, &v.Tokens, &v.Windows, &v.Dedups, &v.Acked, &v.WindowStart, &v.WindowCount, &v.NextSeq, &v.Latest}
}

// token is a registration with its quota counters. It outlives the registration
// while rows wait under it.
type token struct {
	Client    client
	Expires   uint64 // s; 0: not registered
	Refreshed uint64 // s
	Rows      uint64
	Bytes     uint64
	Due       uint64            // s; none of its rows expires before; 0: it has none
	Passed    uint64            // of its rows, those that came back
	Boxed     uint64            // of these, those in the penalty box
	Leases    []mailbox.LeaseID // live leases that hold a row of it
}

func (v *token) fields() []*uint64 {
	return []*uint64{&v.Expires, &v.Refreshed, &v.Rows, &v.Bytes, &v.Due, &v.Passed, &v.Boxed}
}

// account is a client's quota counters.
type account struct {
	Tokens, Rows, Bytes uint64
	Leases              []mailbox.LeaseID
}

// window counts a client's requests in the minute that began at Start.
type window struct{ Start, Count uint64 }

// row is a deposit, all but its ciphertext: what a lease says of it, and what key and
// value of its entry do.
type row struct {
	Index   index
	Seq     uint64 // its place: the order of deposits
	Expires uint64 // s
	Size    uint64 // bytes of the plain envelope
	ID      mailbox.RowID
	Owner   client // the depositor, whose quota it uses
	Content content
	Gone    bool // in a lease: it was acknowledged, or has expired and was swept
}

// Passes of a row: later ones are offered later (MB-36).
const (
	passMost  = 0xfe
	passBoxed = 0xff
)

// passes are the rows of a token that came back: how often each came back unacknowledged,
// at most passMost, or passBoxed in the penalty box. They are in order of their numbers.
// What is not in it was not offered yet, or is for the first time.
type passes []pass

type pass struct {
	Seq  uint64
	Pass uint8
}

// lease is a page held for a client.
type lease struct {
	Client  client
	Set     setID
	Expires uint64 // s
	Acked   bool   // no longer returned for its set
	Done    bool   // holds no row any more: remembered for repeats, not live
	Tokens  []index
	Rows    []row // of a Done one only the ids
}

// mark is what a deposit is recognised by: with index and size it names the key of its
// row. If that is gone the deposit was acknowledged, and is remembered until the batch
// that it is in is over.
type mark struct {
	Seq     uint64
	Expires uint64 // s; of the row
	ID      mailbox.RowID
}

// batch is the deposits of one acknowledgement.
type batch []named

type named struct {
	Index   index
	Content content
	Seq     uint64
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
	for _, f := range v.fields() {
		b = serial.AppendVarInt(b, *f)
	}
	return appendIDs(b, v.Leases)
}

func (v *token) decode(b []byte) error {
	r := serial.NewReader(b)
	copy(v.Client[:], r.Take(32))
	for _, f := range v.fields() {
		*f = r.VarInt()
	}
	v.Leases = readIDs[mailbox.LeaseID](r, 1<<16)
	return r.Done()
}

func (v *passes) encode() []byte {
	b, last := serial.AppendVarInt(nil, uint64(len(*v))), uint64(0)
	for _, p := range *v {
		b = serial.AppendUint8(serial.AppendVarInt(b, p.Seq-last), p.Pass)
		last = p.Seq
	}
	return b
}

func (v *passes) decode(b []byte) error {
	r, last := serial.NewReader(b), uint64(0)
	n := r.Count(1<<16, 2)
	*v = make(passes, n)
	for i := range *v {
		last += r.VarInt()
		(*v)[i] = pass{last, r.Uint8()}
	}
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

// rowKeySize is the bytes of a row's key: its token's prefix, number, expiry, size, id.
const rowKeySize = 1 + 32 + 8 + 8 + 4 + 16

func (v *row) key() []byte {
	k := append(make([]byte, 0, rowKeySize), prefixRow)
	k = append(k, v.Index[:]...)
	k = binary.BigEndian.AppendUint64(k, v.Seq)
	k = binary.BigEndian.AppendUint64(k, v.Expires)
	k = binary.BigEndian.AppendUint32(k, uint32(v.Size))
	return append(k, v.ID[:]...)
}

// setKey reads a row's key.
func (v *row) setKey(k []byte) error {
	if len(k) != rowKeySize || k[0] != prefixRow {
		return errRecord
	}
	v.Index = index(k[1:33])
	v.Seq = binary.BigEndian.Uint64(k[33:])
	v.Expires = binary.BigEndian.Uint64(k[41:])
	v.Size = uint64(binary.BigEndian.Uint32(k[49:]))
	v.ID = mailbox.RowID(k[53:])
	return nil
}

// value is the rest of a row with its ciphertext; setValue reads it and returns the latter.
func (v *row) value(sealed []byte) []byte {
	b := append(make([]byte, 0, len(v.Owner)+len(v.Content)+len(sealed)), v.Owner[:]...)
	return append(append(b, v.Content[:]...), sealed...)
}

func (v *row) setValue(b []byte) (sealed []byte, err error) {
	if len(b) < len(v.Owner)+len(v.Content) {
		return nil, errRecord
	}
	b = b[copy(v.Owner[:], b):]
	return b[copy(v.Content[:], b):], nil
}

func (v *lease) encode() []byte {
	b := make([]byte, 0, 80+32*len(v.Tokens)+96*len(v.Rows))
	b = append(b, v.Client[:]...)
	b = append(b, v.Set[:]...)
	b = serial.AppendUint64(b, v.Expires)
	b = serial.AppendBool(b, v.Acked)
	b = serial.AppendBool(b, v.Done)
	b = serial.AppendVarInt(b, uint64(len(v.Tokens)))
	place := make(map[index]uint8, len(v.Tokens))
	for i, t := range v.Tokens {
		b = append(b, t[:]...)
		place[t] = uint8(i)
	}
	b = serial.AppendVarInt(b, uint64(len(v.Rows)))
	for i := range v.Rows {
		w := &v.Rows[i]
		if b = append(b, w.ID[:]...); v.Done {
			continue
		}
		b = serial.AppendUint8(b, place[w.Index])
		b = serial.AppendVarInt(serial.AppendVarInt(serial.AppendVarInt(b, w.Seq), w.Expires), w.Size)
		b = append(append(b, w.Owner[:]...), w.Content[:]...)
		b = serial.AppendBool(b, w.Gone)
	}
	return b
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
	n = r.Count(mailbox.MaxPageRows, 16)
	v.Rows = make([]row, n)
	for i := range v.Rows {
		w := &v.Rows[i]
		if copy(w.ID[:], r.Take(16)); v.Done {
			w.Gone = true
			continue
		}
		if at := int(r.Uint8()); at < len(v.Tokens) {
			w.Index = v.Tokens[at]
		} else {
			r.Fail(errRecord)
		}
		w.Seq, w.Expires, w.Size = r.VarInt(), r.VarInt(), r.VarInt()
		copy(w.Owner[:], r.Take(32))
		copy(w.Content[:], r.Take(16))
		w.Gone = r.Bool()
	}
	return r.Done()
}

func (v *mark) encode() []byte {
	b := serial.AppendVarInt(make([]byte, 0, 34), v.Seq)
	return append(serial.AppendVarInt(b, v.Expires), v.ID[:]...)
}

func (v *mark) decode(b []byte) error {
	r := serial.NewReader(b)
	v.Seq, v.Expires = r.VarInt(), r.VarInt()
	copy(v.ID[:], r.Take(16))
	return r.Done()
}

func (v *batch) encode() []byte {
	b := serial.AppendVarInt(make([]byte, 0, 3+57*len(*v)), uint64(len(*v)))
	for _, n := range *v {
		b = append(append(b, n.Index[:]...), n.Content[:]...)
		b = serial.AppendVarInt(b, n.Seq)
	}
	return b
}

func (v *batch) decode(b []byte) error {
	r := serial.NewReader(b)
	*v = make(batch, r.Count(mailbox.MaxPageRows, 49))
	for i := range *v {
		copy((*v)[i].Index[:], r.Take(32))
		copy((*v)[i].Content[:], r.Take(16))
		(*v)[i].Seq = r.VarInt()
	}
	return r.Done()
}

// seconds is how the store and the wire count time.
func seconds(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }
