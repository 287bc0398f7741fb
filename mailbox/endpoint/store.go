package endpoint

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// ErrFull: the bound on kept envelopes is reached. The message goes to the graph all
// the same, and the user is told.
var ErrFull = errors.New("endpoint: too many deposits wait for their receipt")

// errInboxFull: the inbox has no room: the rows stay at the relay (MB-26).
var errInboxFull = errors.New("endpoint: inbox is full")

// txn is one transaction over the endpoint's tables.
type txn struct {
	kv.Txn
	meta meta
	err  error
}

func begin(tx kv.Txn) (*txn, error) {
	t := &txn{Txn: tx}
	v, err := tx.Get(key(tableMeta))
	if errors.Is(err, kv.ErrNotFound) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	return t, t.meta.decode(v)
}

func (t *txn) end() error {
	t.set(key(tableMeta), t.meta.encode())
	return t.err
}

func (t *txn) set(k, v []byte) {
	if t.err == nil {
		t.err = t.Set(k, v)
	}
}

func (t *txn) del(k []byte) {
	if t.err == nil {
		t.err = t.Delete(k)
	}
}

func (t *txn) has(k []byte) bool {
	if t.err != nil {
		return false
	}
	_, err := t.Get(k)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		t.err = err
	}
	return err == nil
}

// addParcel stores a new parcel. A receipt is not refused: it is owed, and there is one
// at most for each contact and relay.
func (t *txn) addParcel(p *parcel) error {
	if p.kind != parcelReceipt && (t.meta.parcels >= MaxDeposits || t.meta.parcelBytes+uint64(len(p.envelope)) > MaxDepositBytes) {
		return ErrFull
	}
	t.meta.lastSeq++
	t.meta.parcels++
	t.meta.parcelBytes += uint64(len(p.envelope))
	t.putParcel(t.meta.lastSeq, p)
	if p.kind == parcelReceipt {
		t.set(key(tableOnWay, p.contact[:], p.relay[:]), nil)
	} else {
		t.set(key(tableMessage, p.message[:], be(t.meta.lastSeq)), nil)
	}
	return t.err
}

func (t *txn) putParcel(seq uint64, p *parcel) {
	t.set(key(tableParcel, be(seq)), p.encode())
	t.set(key(tableDue, be(uint64(p.due)), be(seq)), nil)
}

// changeParcel replaces a parcel that was read as old.
func (t *txn) changeParcel(seq uint64, old, p *parcel) {
	t.del(key(tableDue, be(uint64(old.due)), be(seq)))
	t.meta.parcelBytes += uint64(len(p.envelope))
	t.meta.parcelBytes -= uint64(len(old.envelope))
	t.putParcel(seq, p)
}

func (t *txn) dropParcel(seq uint64, p *parcel) {
	t.del(key(tableParcel, be(seq)))
	t.del(key(tableDue, be(uint64(p.due)), be(seq)))
	if p.kind == parcelReceipt {
		t.del(key(tableOnWay, p.contact[:], p.relay[:]))
	} else {
		t.del(key(tableMessage, p.message[:], be(seq)))
	}
	t.meta.parcels--
	t.meta.parcelBytes -= uint64(len(p.envelope))
}

// readParcel is kv.ErrNotFound where there is none.
func readParcel(r kv.Reader, seq uint64) (p parcel, err error) {
	v, err := r.Get(key(tableParcel, be(seq)))
	if err != nil {
		return p, err
	}
	return p, p.decode(v)
}

// AddMessage keeps the envelopes of a message, one for each relay that its recipient
// collects from, in the transaction that makes its generation durable (DS-40). alias says
// that this is a later generation. ErrFull leaves the transaction as it was.
func (e *Endpoint) AddMessage(tx kv.Txn, c Contact, id MessageID, alias bool, r Record) error {
	t, err := begin(tx)
	if err != nil {
		return err
	}
	now := e.now()
	if n := uint64(len(c.Relays)); t.meta.parcels+n > MaxDeposits {
		return ErrFull
	}
	env, err := Seal(c.Pair, TokenAt(c.Pair, c.Theirs, now), r)
	if err != nil {
		return err
	}
	if t.meta.parcelBytes+uint64(len(env)*len(c.Relays)) > MaxDepositBytes {
		return ErrFull
	}
	kind := uint8(parcelMessage)
	if alias {
		kind = parcelAlias
	}
	for _, relay := range c.Relays {
		p := parcel{
			kind: kind, relay: relay, contact: c.ID, message: id, envelope: env,
			created: now.UnixMilli(), first: now.UnixMilli(), due: now.UnixMilli(),
		}
		if err := t.addParcel(&p); err != nil {
			return err
		}
	}
	return t.end()
}

// DropMessage forgets the envelopes of a message: its receipt came, or a person
// cancelled it (MB-34).
func (e *Endpoint) DropMessage(tx kv.Txn, id MessageID) error {
	t, err := begin(tx)
	if err != nil {
		return err
	}
	if err := t.dropMessage(id, nil); err != nil {
		return err
	}
	return t.end()
}

// dropMessage drops the parcels of a message; where from is set, only those to that
// contact: nobody can receipt what was sent to somebody else.
func (t *txn) dropMessage(id MessageID, from *ContactID) error {
	var seqs []uint64
	if err := t.Scan(kv.Scan{Prefix: key(tableMessage, id[:]), KeysOnly: true}, func(k, _ []byte) error {
		seqs = append(seqs, binary.BigEndian.Uint64(k[2+16:]))
		return nil
	}); err != nil {
		return err
	}
	for _, seq := range seqs {
		p, err := readParcel(t, seq)
		if err != nil {
			return fmt.Errorf("endpoint: %w: message index: %w", kv.ErrCorrupt, err)
		}
		if from == nil || p.contact == *from {
			t.dropParcel(seq, &p)
		}
	}
	return t.err
}

// firstSeen remembers a message id and tells whether it is new. The oldest is forgotten
// when there are too many. The time is now or that of the record, whichever is later: a
// record is taken until MaxAge after it says it was made, and must be recognised for as
// long.
func (t *txn) firstSeen(id MessageID, until time.Time) bool {
	if t.has(key(tableSeen, id[:])) || t.err != nil {
		return false
	}
	if t.meta.seen >= MaxSeen {
		t.forgetSeen(1, math.MaxInt64)
	}
	when := be(uint64(max(until.UnixMilli(), 0)))
	t.set(key(tableSeen, id[:]), when)
	t.set(key(tableSeenAge, when, id[:]), nil)
	t.meta.seen++
	return true
}

// forgetSeen removes at most limit ids that were seen before a time.
func (t *txn) forgetSeen(limit int, before int64) {
	var keys [][]byte
	err := t.Scan(kv.Scan{Prefix: key(tableSeenAge), KeysOnly: true}, func(k, _ []byte) error {
		if len(keys) == limit || int64(binary.BigEndian.Uint64(k[2:])) > before {
			return kv.ErrStop
		}
		keys = append(keys, append([]byte(nil), k...))
		return nil
	})
	if err != nil && t.err == nil {
		t.err = err
	}
	for _, k := range keys {
		t.del(k)
		t.del(key(tableSeen, k[10:]))
		t.meta.seen--
	}
}

// owe remembers that a receipt is owed; it is sent to the relay that the message came
// from.
func (t *txn) owe(contact ContactID, relay RelayID, id MessageID) {
	t.set(key(tableReceipt, contact[:], relay[:], id[:]), nil)
}

// Message returns what a mailbox brought: kv.ErrNotFound where there is nothing.
func (e *Endpoint) Message(id MessageID) (m Message, from ContactID, err error) {
	err = e.store.View(func(r kv.Reader) (err error) { m, from, err = MessageIn(r, id); return err })
	return m, from, err
}

// MessageIn is Message within a transaction.
func MessageIn(r kv.Reader, id MessageID) (m Message, from ContactID, err error) {
	v, err := r.Get(key(tableInbox, id[:]))
	if err != nil {
		return m, from, err
	}
	var row inboxRow
	err = row.decode(v)
	return row.message, row.contact, err
}

// Counts are the sizes of the tables, for status output.
type Counts struct {
	Deposits     uint64 // envelopes kept for relays
	DepositBytes uint64 // of these
	Inbox        uint64 // messages that a relay brought, kept for the application
	Seen         uint64 // message ids that are remembered
}

// Counts reads the counters.
func (e *Endpoint) Counts() (c Counts, err error) {
	err = e.store.View(func(r kv.Reader) error {
		v, err := r.Get(key(tableMeta))
		if errors.Is(err, kv.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		var m meta
		if err := m.decode(v); err != nil {
			return err
		}
		c = Counts{m.parcels, m.parcelBytes, m.inbox, m.seen}
		return nil
	})
	return c, err
}

// RelayIDOf names the relay of an address.
func RelayIDOf(a mailbox.Address) RelayID { return RelayID(mailbox.ContentIDOf(a.Key)) }
