package arrival

import (
	"encoding/binary"
	"errors"
	"fmt"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
)

var opPrune = kv.Op{Name: "arrival/prune", Class: kv.ClassRelease}

// pruneBatch bounds one transaction of Prune.
const pruneBatch = 256

// Prune removes at most a batch of rows whose newest event lies in a slot before
// oldest, and tells whether more may be left. An own message that is still queued stays:
// keep says so. Where nothing is due, nothing is written.
func (l *Log) Prune(oldest eventgraph.Slot, keep func(tx kv.Reader, row *Row) (bool, error)) (more bool, err error) {
	err = l.store.Update(opPrune, func(tx kv.Txn) error {
		more = false
		var due []Seq
		if err := tx.Scan(kv.Scan{Prefix: key(tableSlot), KeysOnly: true}, func(k, _ []byte) error {
			if len(k) != 18 {
				return fmt.Errorf("arrival: %w: slot key of %d bytes", kv.ErrCorrupt, len(k))
			}
			if eventgraph.Slot(binary.BigEndian.Uint64(k[2:])) >= oldest {
				return kv.ErrStop
			}
			if len(due) == pruneBatch {
				more = true
				return kv.ErrStop
			}
			due = append(due, Seq(binary.BigEndian.Uint64(k[10:])))
			return nil
		}); err != nil {
			return err
		}
		m, err := readMeta(tx)
		if err != nil {
			return err
		}
		w, removed := writes{tx: tx}, 0
		for _, s := range due {
			row, err := readRow(tx, s)
			if err != nil {
				return err
			}
			if row.Kind == Own {
				stay, err := keep(tx, &row)
				if err != nil {
					return err
				}
				if stay {
					continue
				}
			}
			w.remove(&m, &row)
			removed++
		}
		more = more && removed > 0
		if removed == 0 {
			return errNothing
		}
		w.set(key(tableMeta), m.encode())
		return w.err
	})
	if errors.Is(err, errNothing) {
		err = nil
	}
	return more, err
}
