package outbound

import (
	"bytes"
	"errors"
	"testing"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
	"hearsay/internal/serial"
)

// rowKinds are all stored values: a reader, and a writer of what it read.
var rowKinds = []struct {
	name   string
	again  func(body []byte) ([]byte, error)
	sample []byte
}{
	{"meta", again(readMeta, (*meta).appendTo), (&meta{next: 9, head: 7, depth: 2, bytes: 100, held: true}).appendTo(nil)},
	{"entry", again(readEntry, (*entryRow).appendTo), (&entryRow{id: LogicalID{1}, enqueued: 5, payload: Payload("text")}).appendTo(nil)},
	{"retry", again(readRetry, (*retryRow).appendTo), (&retryRow{generations: 1, rounds: 3, due: 9, park: ReasonKey}).appendTo(nil)},
	{"generation", again(readGeneration, (*generationRow).appendTo), (&generationRow{id: eventgraph.ID{1}, slot: 4, end: 8, made: 5}).appendTo(nil)},
	{"active", again(readActive, (*activeRow).appendTo), (&activeRow{event: testEvent(1, 2, 3), blob: []byte{1}}).appendTo(nil)},
	{"owner", again(readOwner, (*ownerRow).appendTo), (&ownerRow{id: LogicalID{2}, slot: 7}).appendTo(nil)},
}

func again[T any](read func(*serial.Reader) T, write func(*T, []byte) []byte) func([]byte) ([]byte, error) {
	return func(body []byte) ([]byte, error) {
		r := serial.NewReader(body)
		v := read(r)
		if err := r.Done(); err != nil {
			return nil, err
		}
		return write(&v, nil), nil
	}
}

// TestRowsRoundTrip: what is written is read, and nothing shorter or longer is.
func TestRowsRoundTrip(t *testing.T) {
	for _, k := range rowKinds {
		if got, err := k.again(k.sample); err != nil || !bytes.Equal(got, k.sample) {
			t.Errorf("%s: %v", k.name, err)
		}
		for n := range k.sample {
			if _, err := k.again(k.sample[:n]); err == nil {
				t.Errorf("%s: %d bytes of %d were enough", k.name, n, len(k.sample))
			}
		}
		if _, err := k.again(append(bytes.Clone(k.sample), 0)); !errors.Is(err, serial.ErrTrailing) {
			t.Errorf("%s: a trailing byte: %v", k.name, err)
		}
	}
}

// FuzzRows: each decoder takes any bytes without a panic, and what it takes has one form
// only (not malleable).
func FuzzRows(f *testing.F) {
	for i, k := range rowKinds {
		f.Add(byte(i), k.sample)
	}
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		k := rowKinds[int(kind)%len(rowKinds)]
		got, err := k.again(body)
		if err == nil && !bytes.Equal(got, body) {
			t.Errorf("%s: %x reads as %x", k.name, body, got)
		}
	})
}

// FuzzUnseal: a value that opens is one that seal made for this very key.
func FuzzUnseal(f *testing.F) {
	key := positionKey(tableEntry, 7)
	f.Add(key, seal(key, []byte("body")))
	f.Add(key, []byte{valueVersion})
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		if len(key) < 2 {
			return
		}
		var body []byte
		err := unseal(key, value, func(r *serial.Reader) { body = bytes.Clone(r.Take(r.Len())) })
		if err == nil && !bytes.Equal(seal(key, body), value) {
			t.Errorf("%x opens under %x", value, key)
		}
		if err != nil && !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%v", err)
		}
	})
}

// FuzzKeys: parsing a key takes any bytes.
func FuzzKeys(f *testing.F) {
	f.Add(ageKey(5, eventgraph.ID{1}))
	f.Add(positionKey(tableEntry, 9))
	f.Fuzz(func(t *testing.T, key []byte) {
		if s, id, err := parseAgeKey(key); err == nil && !bytes.Equal(ageKey(s, id)[2:], key[2:]) {
			t.Errorf("%x", key)
		}
		if p, err := keyPosition(key); err == nil && !bytes.HasPrefix(key[2:], positionKey(tableEntry, p)[2:]) {
			t.Errorf("%x", key)
		}
	})
}

// FuzzOpen: a store with arbitrary rows under our keys opens, or is an error, without a
// panic; what opens is consistent.
func FuzzOpen(f *testing.F) {
	m := (&meta{next: 2, head: 1, depth: 1, bytes: 40}).appendTo(nil)
	e := (&entryRow{id: LogicalID{1}}).appendTo(nil)
	f.Add(m, e, []byte{}, byte('z'), byte(1)) // opens
	f.Add(m, e, []byte{}, byte(tableRetry), byte(1))
	f.Add(m, []byte{}, []byte{}, byte(tableTombstone), byte(1))
	f.Fuzz(func(t *testing.T, m, e, x []byte, tab, pos byte) {
		mem := kv.OpenMemory()
		err := mem.Update(kv.Op{Name: "fill"}, func(tx kv.Txn) error {
			set := func(key, body []byte) error { return tx.Set(key, seal(key, body)) }
			return errors.Join(
				set(metaKey(), m),
				set(positionKey(tableEntry, 1), e),
				set(positionKey(tab, Position(pos)), x),
			)
		})
		if err != nil {
			t.Skip()
		}
		q, err := Open(mem, Config{})
		if err != nil {
			return
		}
		if _, _, err := q.store.head(); err != nil {
			t.Errorf("opened, and then %v", err)
		}
	})
}
