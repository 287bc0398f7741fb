package endpoint

import (
	"encoding/binary"
	"fmt"

	"hearsay/internal/kv"
	"hearsay/internal/serial"
	"hearsay/mailbox"
)

// Keys, all under 'm' in the custody store (spec/storage.md, custody):
//
//	mm                          meta: counters
//	md seq                      parcel: an envelope on its way to one relay
//	mn due seq                  parcels by their next attempt
//	mp message id seq           parcels of a message
//	mi message id               inbox row: what a mailbox brought and the graph did not
//	ms message id               seen: when
//	mt when message id          seen ids by age
//	mr contact relay message id receipts that are owed
//	mo contact relay            an envelope of receipts is on its way
//	mk                          seed of the transport identities
const (
	space        = 'm'
	tableMeta    = 'm'
	tableParcel  = 'd'
	tableDue     = 'n'
	tableMessage = 'p'
	tableInbox   = 'i'
	tableSeen    = 's'
	tableSeenAge = 't'
	tableReceipt = 'r'
	tableOnWay   = 'o'
	tableSeed    = 'k'
)

type reader = serial.Reader

func key(table byte, parts ...[]byte) []byte {
	k := []byte{space, table}
	for _, p := range parts {
		k = append(k, p...)
	}
	return k
}

func be(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// A ContactID names a contact by the fingerprint of the pair's key, so that a record
// outlives a change of label.
type ContactID [16]byte

// A RelayID names a relay by the hash of its key.
type RelayID [16]byte

// meta is the counters of the tables.
type meta struct {
	lastSeq, parcels, parcelBytes, inbox, seen uint64
}

// What a parcel carries.
const (
	parcelMessage = 1
	parcelAlias   = 2
	parcelReceipt = 3
)

// parcel is an envelope on its way to one relay.
type parcel struct {
	kind     uint8
	relay    RelayID
	contact  ContactID
	message  MessageID // zero for a receipt
	created  int64     // ms, of the envelope: it is readdressed 30 days later
	first    int64     // ms: when the message was first handed over
	accepted int64     // ms: the last acceptance; 0 = never
	refused  int64     // ms: since when it has been refused; 0 = it was not
	due      int64     // ms
	attempts uint64    // since the last acceptance
	told     bool      // the user knows that the relay does not know the contact
	envelope []byte
}

// inboxRow is a message that a mailbox brought.
type inboxRow struct {
	contact ContactID
	at      int64 // ms
	message Message
}

func (m *meta) encode() []byte {
	var b []byte
	for _, v := range []uint64{m.lastSeq, m.parcels, m.parcelBytes, m.inbox, m.seen} {
		b = serial.AppendUint64(b, v)
	}
	return seal(b)
}

func (m *meta) decode(v []byte) error {
	return unseal(v, "meta", func(r *serial.Reader) {
		for _, p := range []*uint64{&m.lastSeq, &m.parcels, &m.parcelBytes, &m.inbox, &m.seen} {
			*p = r.Uint64()
		}
	})
}

func (p *parcel) encode() []byte {
	b := []byte{p.kind}
	b = append(b, p.relay[:]...)
	b = append(b, p.contact[:]...)
	b = append(b, p.message[:]...)
	for _, v := range []int64{p.created, p.first, p.accepted, p.refused, p.due} {
		b = serial.AppendUint64(b, uint64(v))
	}
	b = serial.AppendUint64(b, p.attempts)
	b = serial.AppendBool(b, p.told)
	return seal(serial.AppendBytes(b, p.envelope))
}

func (p *parcel) decode(v []byte) error {
	return unseal(v, "parcel", func(r *serial.Reader) {
		p.kind = r.Uint8()
		copy(p.relay[:], r.Take(16))
		copy(p.contact[:], r.Take(16))
		copy(p.message[:], r.Take(16))
		for _, f := range []*int64{&p.created, &p.first, &p.accepted, &p.refused, &p.due} {
			*f = int64(r.Uint64())
		}
		p.attempts = r.Uint64()
		p.told = r.Uint8() == 1
		p.envelope = append([]byte(nil), r.Bytes(mailbox.MaxEnvelope)...)
	})
}

func (i *inboxRow) encode() []byte {
	b := append([]byte(nil), i.contact[:]...)
	b = serial.AppendUint64(b, uint64(i.at))
	b = append(b, i.message.ID[:]...)
	b = serial.AppendUint64(b, i.message.Timestamp)
	return seal(serial.AppendBytes(b, i.message.Content))
}

func (i *inboxRow) decode(v []byte) error {
	return unseal(v, "inbox row", func(r *serial.Reader) {
		copy(i.contact[:], r.Take(16))
		i.at = int64(r.Uint64())
		copy(i.message.ID[:], r.Take(16))
		i.message.Timestamp = r.Uint64()
		i.message.Content = append([]byte{}, r.Bytes(MaxContent)...)
	})
}

func seal(body []byte) []byte { return kv.SealRecord(body) }

func unseal(v []byte, what string, read func(*serial.Reader)) error {
	body, err := kv.OpenRecord(v)
	if err == nil {
		r := serial.NewReader(body)
		read(r)
		err = r.Done()
	}
	if err != nil {
		return fmt.Errorf("endpoint: %w: %s: %w", kv.ErrCorrupt, what, err)
	}
	return nil
}
