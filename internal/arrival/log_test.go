package arrival

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

// rig is a log over a memory store.
type rig struct {
	testing.TB
	*Log
	store kv.Store
	graph eventgraph.Seq
}

func newRig(t testing.TB) *rig {
	r := &rig{TB: t, store: kv.OpenMemory()}
	t.Cleanup(func() { r.store.Close() })
	r.reopen()
	return r
}

func (r *rig) reopen() {
	l, err := Open(r.store, func() time.Time { return time.UnixMilli(5000) })
	if err != nil {
		r.Fatal(err)
	}
	r.Log = l
}

func (r *rig) tx(fn func(tx kv.Txn) error) {
	r.Helper()
	if err := r.store.Update(kv.Op{Name: "test"}, fn); err != nil {
		r.Fatal(err)
	}
	r.check()
}

func event(slot eventgraph.Slot, text string) eventgraph.Event {
	return eventgraph.Event{Header: eventgraph.Header{Timestamp: uint64(slot) + 1, Layer: 1, ContentHash: eventgraph.HashContent([]byte(text))}, Content: []byte(text)}
}

func always(*eventgraph.Arrival) (Place, bool) { return Place{}, true }

func (r *rig) arrive(slot eventgraph.Slot, texts ...string) (ids []eventgraph.ID) {
	r.Helper()
	var as []eventgraph.Arrival
	for _, text := range texts {
		r.graph++
		ev := event(slot, text)
		ids = append(ids, ev.Header.ID())
		as = append(as, eventgraph.Arrival{Seq: r.graph, Slot: slot, Source: eventgraph.SourcePut, Time: time.UnixMilli(int64(r.graph)), Event: ev})
	}
	if err := r.Ingest(as, always); err != nil {
		r.Fatal(err)
	}
	r.check()
	return ids
}

func (r *rig) rows() []Row {
	r.Helper()
	rows, err := r.Read(0, false, 1000)
	if err != nil {
		r.Fatal(err)
	}
	return rows
}

// check recounts: every index leads to a row that knows it, every row is found, the
// counter is right.
func (r *rig) check() {
	r.Helper()
	err := r.store.View(func(rd kv.Reader) error {
		m, err := readMeta(rd)
		if err != nil {
			return err
		}
		rows := map[Seq]Row{}
		if err := rd.Scan(kv.Scan{Prefix: key(tableRow)}, func(k, v []byte) error {
			row := Row{Seq: Seq(binary.BigEndian.Uint64(k[2:]))}
			rows[row.Seq] = row
			err := row.decode(v)
			rows[row.Seq] = row
			return err
		}); err != nil {
			return err
		}
		if uint64(len(rows)) != m.rows {
			return fmt.Errorf("%d rows, %d counted", len(rows), m.rows)
		}
		if err := r.checkPlaces(rd, m, rows); err != nil {
			return err
		}
		slots := 0
		return rd.Scan(kv.Scan{Prefix: []byte{space}}, func(k, v []byte) error {
			var s Seq
			switch k[1] {
			case tableMeta, tableRow, tableDirect, tableDirectAge, tableTag, tableTime:
				return nil
			case tableSlot:
				slots++
				s = Seq(binary.BigEndian.Uint64(k[10:]))
			default:
				s = Seq(binary.BigEndian.Uint64(v))
			}
			row, ok := rows[s]
			if !ok {
				return fmt.Errorf("index %q leads to no row", k[:2])
			}
			ok = false
			switch rest := k[2:]; k[1] {
			case tableSlot:
				ok = binary.BigEndian.Uint64(k[2:]) == uint64(row.Slot)
			case tableEvent:
				ok = bytes.Equal(rest, row.Event[:]) || slices.ContainsFunc(row.generations, func(g generation) bool { return bytes.Equal(rest, g.event[:]) })
			case tableHash:
				ok = bytes.Equal(rest, row.Hash[:]) || slices.ContainsFunc(row.generations, func(g generation) bool { return bytes.Equal(rest, g.hash[:]) })
			case tableOwn, tableInbox:
				ok = bytes.Equal(rest, row.ID[:]) || row.Kind == Foreign
			}
			if !ok {
				return fmt.Errorf("index %q leads to a row that does not know it", k[:2])
			}
			return nil
		})
	})
	if err != nil {
		r.Fatal(err)
	}
}

// TestOrder: rows come in the order of arrival, whatever the events' times, over a
// reopening too; a repeated batch adds nothing.
func TestOrder(t *testing.T) {
	r := newRig(t)
	ids := r.arrive(2000, "b", "a")
	r.tx(func(tx kv.Txn) error { return r.AppendOwn(tx, ID{1}, 1, time.UnixMilli(77), Place{}) })
	ids = append(ids, r.arrive(1000, "late, of an older slot")...)
	r.reopen()
	if c, err := r.Cursor(); c != 3 || err != nil {
		t.Errorf("cursor %d, %v", c, err)
	}
	r.graph = 0
	r.arrive(2000, "b", "a") // the graph is read again from an earlier place
	rows := r.rows()
	var kinds []Kind
	for i, row := range rows {
		kinds = append(kinds, row.Kind)
		if row.Seq != Seq(i+1) {
			t.Errorf("row %d has number %d", i, row.Seq)
		}
	}
	if !slices.Equal(kinds, []Kind{Foreign, Foreign, Own, Foreign}) {
		t.Fatalf("kinds %v", kinds)
	}
	if rows[3].Event != ids[2] || rows[2].At != 77 || rows[2].ID != (ID{1}) {
		t.Error("rows do not hold what arrived")
	}
	back, err := r.Read(4, true, 2)
	if err != nil || len(back) != 2 || back[0].Seq != 3 || back[1].Seq != 2 {
		t.Errorf("backward: %v, %v", back, err)
	}
	if last, err := r.Read(0, true, 1); err != nil || last[0].Seq != 4 {
		t.Errorf("newest: %v, %v", last, err)
	}
	if none, err := r.Read(1, true, 9); err != nil || len(none) != 0 {
		t.Errorf("before the first: %v, %v", none, err)
	}
}

// TestOwn (DS-85): an own message has one row over all generations, keeps its id and
// time, and is recognised when any generation comes back.
func TestOwn(t *testing.T) {
	r := newRig(t)
	id := ID{7}
	r.tx(func(tx kv.Txn) error { return r.AppendOwn(tx, id, 1, time.UnixMilli(42), Place{}) })
	one, two := event(1000, "sealed once"), event(2000, "sealed twice")
	r.tx(func(tx kv.Txn) error { return r.OwnGeneration(tx, id, 1000, &one) })
	r.arrive(1000, "sealed once")
	r.tx(func(tx kv.Txn) error { return r.OwnGeneration(tx, id, 2000, &two) })
	r.arrive(2000, "sealed twice", "sealed once")
	rows := r.rows()
	if len(rows) != 2 { // the last one is another event with the same words
		t.Fatalf("%d rows", len(rows))
	}
	if rows[0].ID != id || rows[0].At != 42 || rows[0].Event != two.Header.ID() || rows[0].Slot != 2000 {
		t.Errorf("own row %+v", rows[0])
	}
	for _, ev := range []eventgraph.Event{one, two} {
		if row, err := r.ByEvent(ev.Header.ID()); err != nil || row.Seq != rows[0].Seq {
			t.Errorf("a generation leads to %d, %v", row.Seq, err)
		}
	}
	if row, err := r.ByID(id); err != nil || row.Seq != rows[0].Seq {
		t.Errorf("the logical id leads to %d, %v", row.Seq, err)
	}
}

// TestCancel: a cancelled message leaves, unless it was exposed.
func TestCancel(t *testing.T) {
	r := newRig(t)
	r.tx(func(tx kv.Txn) error {
		return errors.Join(r.AppendOwn(tx, ID{1}, 1, time.Now(), Place{}), r.AppendOwn(tx, ID{2}, 1, time.Now(), Place{}))
	})
	ev := event(1000, "out")
	r.tx(func(tx kv.Txn) error { return r.OwnGeneration(tx, ID{2}, 1000, &ev) })
	r.tx(func(tx kv.Txn) error {
		return errors.Join(r.RemoveOwn(tx, ID{1}), r.RemoveOwn(tx, ID{2}), r.RemoveOwn(tx, ID{3}))
	})
	if rows := r.rows(); len(rows) != 1 || rows[0].ID != (ID{2}) {
		t.Errorf("rows %v", rows)
	}
	r.tx(func(tx kv.Txn) error { return r.AppendOwn(tx, ID{3}, 1, time.Now(), Place{}) })
	if last, _ := r.Last(); last != 3 {
		t.Errorf("number %d was used again", last)
	}
}

// TestMail: a message is there once, whichever of graph and mailbox was first, over its
// later generations too.
func TestMail(t *testing.T) {
	for name, order := range map[string][]string{"mailbox first": {"mail", "graph"}, "graph first": {"graph", "mail"}} {
		r := newRig(t)
		for _, from := range order {
			if from == "graph" {
				r.arrive(1000, "sealed once")
				continue
			}
			r.tx(func(tx kv.Txn) error {
				added, err := r.AppendMail(tx, Origin{ID: ID{9}}, eventgraph.HashContent([]byte("sealed once")), Place{})
				if added != (order[0] == "mail") {
					t.Errorf("%s: added %t", name, added)
				}
				return err
			})
		}
		r.tx(func(tx kv.Txn) error {
			added, err := r.AppendMail(tx, Origin{ID: ID{9}}, eventgraph.HashContent([]byte("sealed once")), Place{})
			if added {
				t.Errorf("%s: added twice", name)
			}
			return errors.Join(err, r.AliasMail(tx, Origin{ID: ID{9}}, eventgraph.HashContent([]byte("sealed twice"))),
				r.AliasMail(tx, Origin{ID: ID{9}}, eventgraph.HashContent([]byte("sealed twice"))), r.AliasMail(tx, Origin{ID: ID{8}}, [32]byte{1}))
		})
		r.arrive(2000, "sealed twice")
		if rows := r.rows(); len(rows) != 1 {
			t.Errorf("%s: %d rows, want 1", name, len(rows))
		}
		r.tx(func(tx kv.Txn) error { return errors.Join(r.RemoveMail(tx, ID{9}), r.RemoveMail(tx, ID{9})) })
	}
}

// TestPrune: rows go with their slot; queued messages and mail stay.
func TestPrune(t *testing.T) {
	r := newRig(t)
	r.arrive(1000, "old", "older")
	r.arrive(2000, "new")
	for i := range 3 {
		id := ID{byte(i + 1)}
		r.tx(func(tx kv.Txn) error { return r.AppendOwn(tx, id, 1, time.Now(), Place{}) })
		if i < 2 {
			ev := event(1000, fmt.Sprint("own", i))
			r.tx(func(tx kv.Txn) error { return r.OwnGeneration(tx, id, 1000, &ev) })
		}
	}
	r.tx(func(tx kv.Txn) error { _, err := r.AppendMail(tx, Origin{ID: ID{9}}, [32]byte{1}, Place{}); return err })
	more, err := r.Prune(2000, func(_ kv.Reader, row *Row) (bool, error) { return row.ID == ID{2}, nil })
	if err != nil || more {
		t.Fatalf("more %t, %v", more, err)
	}
	r.check()
	var left []string
	for _, row := range r.rows() {
		left = append(left, fmt.Sprint(row.Kind, row.ID[0]))
	}
	if want := []string{"1 0", "2 2", "2 3", "3 9"}; !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
}

// TestGenerationsAreBounded: an own row remembers at most so many.
func TestGenerationsAreBounded(t *testing.T) {
	r := newRig(t)
	r.tx(func(tx kv.Txn) error { return r.AppendOwn(tx, ID{1}, 1, time.Now(), Place{}) })
	var first, last eventgraph.Event
	for i := range maxGenerations + 2 {
		ev := event(eventgraph.Slot(1000*(i+1)), fmt.Sprint(i))
		if err := r.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error { return r.OwnGeneration(tx, ID{1}, eventgraph.Slot(1000*(i+1)), &ev) }); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = ev
		}
		last = ev
	}
	r.check()
	if _, err := r.ByEvent(first.Header.ID()); !errors.Is(err, ErrNotFound) {
		t.Errorf("the oldest of %d generations is still known: %v", maxGenerations+2, err)
	}
	if _, err := r.ByEvent(last.Header.ID()); err != nil {
		t.Error(err)
	}
}

// TestCorrupt (ST-04): a damaged row is an error, not another row.
func TestCorrupt(t *testing.T) {
	r := newRig(t)
	r.arrive(1000, "x")
	if err := r.store.Update(kv.Op{Name: "test"}, func(tx kv.Txn) error {
		k := key(tableRow, be(1))
		v, err := tx.Get(k)
		if err != nil {
			return err
		}
		v[5] ^= 1
		return tx.Set(k, v)
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(0, false, 9); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("%v", err)
	}
}

// FuzzRow: what decodes encodes to the same bytes.
func FuzzRow(f *testing.F) {
	row := Row{Kind: Own, At: 1, Slot: 2, Event: eventgraph.ID{3}, ID: ID{4}, generations: []generation{{eventgraph.ID{5}, [32]byte{6}}}}
	body := row.encode()
	f.Add(body[1 : len(body)-4])
	row.Place = Place{Tag: Tag{1}, Time: 2, Size: 3, Notice: true}
	body = row.encode()
	f.Add(body[1 : len(body)-4])
	f.Fuzz(func(t *testing.T, body []byte) {
		v := seal(body)
		var row Row
		if row.decode(v) != nil {
			return
		}
		if again := row.encode(); !bytes.Equal(again, v) {
			t.Fatalf("%x encodes as %x", v, again)
		}
	})
}
