package endpoint

import (
	"cmp"
	"slices"
	"time"

	"hearsay/internal/kv"
)

var opPrune = kv.Op{Name: "endpoint/prune", Class: kv.ClassRelease}

// pruneBatch bounds the rows that one transaction of PruneInbox removes.
const pruneBatch = 256

// PruneInbox removes messages that a mailbox brought before a time, oldest first, while
// more than keep are there: at most 256. removed is called for each, in the same
// transaction, so that the application forgets it too. It tells how many went; where
// nothing is due, nothing is written.
func (e *Endpoint) PruneInbox(before time.Time, keep int, removed func(tx kv.Txn, id MessageID) error) (n int, err error) {
	due, err := e.oldMail(before, keep)
	if err != nil || len(due) == 0 {
		return 0, err
	}
	err = e.store.Update(opPrune, func(tx kv.Txn) error {
		for _, id := range due {
			if err := removed(tx, id); err != nil {
				return err
			}
			if err := e.RemoveInbox(tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	return len(due), err
}

// oldMail lists what PruneInbox removes. The inbox is bounded and looked at rarely, so
// that it needs no index by age.
func (e *Endpoint) oldMail(before time.Time, keep int) (due []MessageID, err error) {
	c, err := e.Counts()
	if err != nil || c.Inbox <= uint64(max(keep, 0)) {
		return nil, err
	}
	spare := int(c.Inbox) - max(keep, 0)
	ages := map[MessageID]int64{}
	err = e.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{Prefix: key(tableInbox)}, func(k, v []byte) error {
			var row inboxRow
			if err := row.decode(v); err != nil {
				return err
			}
			if row.at < before.UnixMilli() {
				due = append(due, MessageID(k[2:]))
				ages[MessageID(k[2:])] = row.at
			}
			return nil
		})
	})
	slices.SortFunc(due, func(a, b MessageID) int { return cmp.Compare(ages[a], ages[b]) })
	return due[:min(len(due), spare, pruneBatch)], err
}

// Pending is how many envelopes wait for their end-to-end receipt, receipts of our own
// not among them.
func (e *Endpoint) Pending() (n int, err error) {
	err = e.store.View(func(r kv.Reader) error {
		n = 0
		return r.Scan(kv.Scan{Prefix: key(tableMessage), KeysOnly: true}, func(_, _ []byte) error {
			n++
			return nil
		})
	})
	return n, err
}
