package arrival

import (
	"errors"
	"slices"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// AppendMail adds a message from a mailbox in the transaction that stages it, unless it
// is known: by its origin, or because an event with its content came by the graph (hash is
// that of the content). added tells which.
func (l *Log) AppendMail(tx kv.Txn, o Origin, hash [32]byte, place Place) (added bool, err error) {
	m, err := readMeta(tx)
	if err != nil {
		return false, err
	}
	w := writes{tx: tx}
	known, err := l.note(&w, &m, o.key())
	if err != nil {
		return false, err
	}
	if !known {
		if known, err = l.hasMail(tx, o.ID, hash); err != nil {
			return false, err
		}
	}
	if !known {
		row := Row{Kind: Mail, At: l.now().UnixMilli(), ID: o.ID, Hash: hash, Place: place}
		row.Place.Time = min(place.Time, row.At) // whatever its author's clock said
		w.append(&m, &row)
		w.set(key(tableHash, hash[:]), be(uint64(row.Seq)))
	}
	w.set(key(tableMeta), m.encode())
	return !known, w.err
}

// hasMail tells whether a message is here under its id, or its content by the graph.
func (l *Log) hasMail(tx kv.Txn, id ID, hash [32]byte) (known bool, err error) {
	if s, err := readSeq(tx, key(tableInbox, id[:])); err != nil || s != 0 {
		return s != 0, err
	}
	if s, err := readSeq(tx, key(tableHash, hash[:])); err != nil {
		return false, err
	} else if s != 0 {
		row, err := readRow(tx, s)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
		if err == nil && row.carries(hash) {
			// Known by the graph: from now on by its id too, so that what an alias names is.
			return true, nameRow(tx, s, id)
		}
	}
	return has(tx, key(tableDirect, hash[:]))
}

// nameRow makes the row of a foreign event findable under a message id, for as long as
// it is there. A row has one: a second id for the same words needs none.
func nameRow(tx kv.Txn, s Seq, id ID) error {
	row, err := readRow(tx, s)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil || row.Kind != Foreign || row.ID != (ID{}) {
		return err
	}
	row.ID = id
	w := writes{tx: tx}
	w.set(key(tableRow, be(uint64(s))), row.encode())
	w.set(key(tableInbox, id[:]), be(uint64(s)))
	return w.err
}

// AliasMail says that a later generation of a mailbox message has other content; the
// event that has it will be recognised. Where the graph brought that event already, the
// message is known. Otherwise an unknown message id changes nothing. o is the message and
// who says so: of what somebody else wrote nothing is taken (decision 0225).
func (l *Log) AliasMail(tx kv.Txn, o Origin, hash [32]byte) error {
	id, named := o.ID, true
	s, err := readSeq(tx, key(tableInbox, id[:]))
	if err != nil {
		return err
	}
	if s == 0 {
		// The graph may have brought the later generation before the mailbox the first.
		if s, err = readSeq(tx, key(tableHash, hash[:])); err != nil || s == 0 {
			return err
		}
		named = false
	}
	row, err := readRow(tx, s)
	if errors.Is(err, ErrNotFound) {
		return nil // the graph brought it, and has forgotten it
	}
	if err != nil {
		return err
	}
	if row.Kind == Own {
		return nil
	}
	if mine, err := l.wrote(tx, &row, o.From); err != nil || !mine {
		return err
	}
	if !named {
		return nameRow(tx, s, id)
	}
	if row.Hash == hash || len(row.generations) >= maxGenerations ||
		slices.ContainsFunc(row.generations, func(g generation) bool { return g.hash == hash }) {
		return nil
	}
	row.generations = append(row.generations, generation{hash: hash})
	w := writes{tx: tx}
	w.set(key(tableRow, be(uint64(s))), row.encode())
	if other, err := readSeq(tx, key(tableHash, hash[:])); err != nil || other != 0 {
		return errors.Join(err, w.err) // it is here already, as a message of its own
	}
	w.set(key(tableHash, hash[:]), be(uint64(s)))
	return w.err
}

// wrote tells whether a row is of a message that from wrote. Where there are no mailboxes
// nobody else's is ever named.
func (l *Log) wrote(r kv.Reader, row *Row, from [16]byte) (bool, error) {
	if l.mail == nil {
		return true, nil
	}
	author, ok, err := l.mail.Author(r, row)
	return ok && author == from, err
}

// RemoveMail takes a mailbox message out, when it has been kept for long enough.
func (l *Log) RemoveMail(tx kv.Txn, id ID) error {
	s, err := readSeq(tx, key(tableInbox, id[:]))
	if err != nil || s == 0 {
		return err
	}
	row, err := readRow(tx, s)
	if errors.Is(err, ErrNotFound) {
		return tx.Delete(key(tableInbox, id[:]))
	}
	if err != nil {
		return err
	}
	if row.Kind != Mail {
		return tx.Delete(key(tableInbox, id[:])) // the graph brought it; the row goes with its slot
	}
	return removeRow(tx, &row)
}

// mailed recognises an event whose content a mailbox brought first.
func (l *Log) mailed(w *writes, ev *eventgraph.Event, id eventgraph.ID) (bool, error) {
	s, err := readSeq(w.tx, key(tableHash, ev.ContentHash[:]))
	if err != nil || s == 0 {
		return false, err
	}
	row, err := readRow(w.tx, s)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	alias := func(g generation) bool { return g.hash == ev.ContentHash }
	if row.Kind == Own || row.Kind == Foreign && !slices.ContainsFunc(row.generations, alias) {
		return false, nil // the same words said twice are two messages
	}
	if !row.carries(ev.ContentHash) && l.mail != nil {
		o, direct := l.mail.Direct(ev)
		if !direct {
			return false, nil
		}
		if same, err := l.wrote(w.tx, &row, o.From); err != nil || !same {
			return false, err // nobody can pass off what somebody else says as known
		}
	}
	if len(row.generations) < maxGenerations {
		row.generations = append(row.generations, generation{id, ev.ContentHash}) // so that it goes with the row
		w.set(key(tableEvent, id[:]), be(uint64(s)))
		w.set(key(tableRow, be(uint64(s))), row.encode())
	}
	return true, w.err
}
