package endpoint

import (
	"encoding/binary"
	"slices"

	"hearsay/internal/kv"
)

// moved tells where the contact of a parcel collects now, if that is not at the parcel's
// relay any more. A contact without any relay has not moved: what waits for them stays
// where it is.
func (e *Endpoint) moved(p *parcel) (now []RelayID, ok bool) {
	c, known := e.contact(p.contact)
	if p.kind == parcelReceipt || !known || len(c.Relays) == 0 || slices.Contains(c.Relays, p.relay) {
		return nil, false
	}
	return c.Relays, true
}

// follow sends a parcel after a contact who has moved to other relays: to the first that
// has none of its kind of the same message. Where all have one it is dropped, since they
// carry the message.
func (t *txn) follow(seq uint64, p *parcel, relays []RelayID, now int64) error {
	taken := map[RelayID]bool{}
	err := t.Scan(kv.Scan{Prefix: key(tableMessage, p.message[:]), KeysOnly: true}, func(k, _ []byte) error {
		other, err := readParcel(t, binary.BigEndian.Uint64(k[2+16:]))
		if other.kind == p.kind && other.contact == p.contact {
			taken[other.relay] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	i := slices.IndexFunc(relays, func(r RelayID) bool { return !taken[r] })
	if i < 0 {
		t.dropParcel(seq, p)
		return t.err
	}
	next := *p
	next.relay, next.accepted, next.refused, next.attempts, next.told, next.due = relays[i], 0, 0, 0, false, now
	t.changeParcel(seq, p, &next)
	return t.err
}
