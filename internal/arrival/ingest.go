package arrival

import (
	"errors"
	"fmt"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

var opIngest = kv.Op{Name: "arrival/ingest", Class: kv.ClassGossip}

// MaxIngest bounds the arrivals of one Ingest.
const MaxIngest = 512

// errNothing rolls back a transaction that turned out to have nothing to write.
var errNothing = errors.New("arrival: nothing to commit")

// Ingest adds arrivals of the graph, in their order, each once however often it is
// given, and moves the graph's cursor past them in the same transaction. Generations of
// own messages, later ones of direct messages and events that a mailbox brought first are
// recognised and add nothing.
// shown decides whether an event is a message at all, and where it belongs: what is not is
// passed over, and can be given again when it is. Where nothing is new, nothing is written.
func (l *Log) Ingest(arrivals []eventgraph.Arrival, shown func(*eventgraph.Arrival) (Place, bool)) error {
	if len(arrivals) > MaxIngest {
		return fmt.Errorf("arrival: %d arrivals at once, at most %d", len(arrivals), MaxIngest)
	}
	type message struct {
		*eventgraph.Arrival
		place Place
	}
	fresh := make([]message, 0, len(arrivals))
	var last eventgraph.Seq
	for i := range arrivals {
		last = max(last, arrivals[i].Seq)
		if place, ok := shown(&arrivals[i]); ok {
			fresh = append(fresh, message{&arrivals[i], place})
		}
	}
	err := l.store.Update(opIngest, func(tx kv.Txn) error {
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		before := m
		m.graph = max(m.graph, last)
		w := writes{tx: tx}
		for _, a := range fresh {
			id := a.Event.Header.ID()
			known, err := readSeq(tx, key(tableEvent, id[:]))
			if err != nil {
				return err
			}
			if known != 0 {
				if m.keys == ([16]byte{}) {
					if err := w.placeOld(&m, known, a.place); err != nil {
						return err
					}
				}
				continue
			}
			if again, err := l.met(&w, &m, &a.Event); err != nil {
				return err
			} else if again {
				continue
			}
			if mailed, err := l.mailed(&w, &a.Event, id); err != nil {
				return err
			} else if mailed {
				continue
			}
			w.append(&m, &Row{Kind: Foreign, At: a.Time.UnixMilli(), Slot: a.Slot, Event: id, Hash: a.Event.ContentHash, Place: a.place})
		}
		if w.n == 0 && m == before && w.err == nil {
			return errNothing
		}
		w.set(key(tableMeta), m.encode())
		return w.err
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	l.Notify()
	return err
}
