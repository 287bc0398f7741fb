package relay

import (
	"errors"
	"fmt"
	"slices"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

// idKeys are the bytes of the keys that name one thing, after their prefix.
var idKeys = map[byte]int{prefixToken: 32, prefixClient: 32, prefixRow: 16, prefixLease: 16}

// Recount compares every counter and index of a relay's store with the rows, leases and
// registrations that are there (MB-39), and names the first difference. It reads the whole
// store: for tests, and for whoever doubts one. No request does that.
func Recount(store kv.Store) error {
	return store.View(func(rd kv.Reader) error {
		var want totals
		var have totals
		tokens, accounts := map[index]token{}, map[client]account{}
		rows, leases := map[mailbox.RowID]row{}, map[mailbox.LeaseID]lease{}
		queue, rowExp, leaseExp, tokenExp, dedupExp := map[mailbox.RowID]string{}, 0, 0, 0, uint64(0)
		bodies, windows, ages := 0, uint64(0), uint64(0)
		err := rd.Scan(kv.Scan{}, func(k, v []byte) error {
			if n, ok := idKeys[k[0]]; ok && len(k) != 1+n {
				return corrupt("key")
			}
			switch k[0] {
			case prefixTotals:
				return have.decode(v)
			case prefixToken:
				var t token
				err := t.decode(v)
				tokens[index(k[1:])] = t
				return err
			case prefixClient:
				var a account
				err := a.decode(v)
				accounts[client(k[1:])] = a
				return err
			case prefixRow:
				var w row
				err := w.decode(v)
				rows[mailbox.RowID(k[1:])] = w
				return err
			case prefixLease:
				var l lease
				err := l.decode(v)
				leases[mailbox.LeaseID(k[1:])] = l
				return err
			case prefixQueue:
				if len(k) < 16 {
					return corrupt("key")
				}
				id := mailbox.RowID(k[len(k)-16:])
				if queue[id] != "" {
					return errors.New("a row is queued twice")
				}
				queue[id] = string(k)
			case prefixBody:
				bodies++
			case prefixRowExpiry:
				rowExp++
			case prefixLeaseExp:
				leaseExp++
			case prefixTokenExp:
				tokenExp++
			case prefixDedupExp:
				dedupExp++
			case prefixWindow:
				windows++
			case prefixWindowAge:
				ages++
			case prefixKeyCheck:
				if len(v) != KeySize {
					return corrupt("key check")
				}
			case prefixLeaseSet, prefixDedup: // found again by what leads to them
			default:
				return fmt.Errorf("unknown key %x", k)
			}
			return nil
		})
		if err != nil {
			return err
		}
		tr, tb, cr, cb := map[index]uint64{}, map[index]uint64{}, map[client]uint64{}, map[client]uint64{}
		boxed := map[index]uint64{}
		for id, w := range rows {
			want.Rows++
			want.Bytes += w.Size
			tr[w.Index]++
			tb[w.Index] += w.Size
			if w.Pass == passBoxed {
				boxed[w.Index]++
			}
			cr[w.Owner]++
			cb[w.Owner] += w.Size
			if queue[id] != string(queueKey(id, &w)) {
				return errors.New("a row is not where its queue key says")
			}
			if !w.Lease.IsZero() {
				l, ok := leases[w.Lease]
				if !ok || !slices.Contains(l.Rows, id) {
					return errors.New("a row is held by no lease")
				}
			}
		}
		if len(queue) != len(rows) || bodies != len(rows) || rowExp != len(rows) || leaseExp != len(leases) {
			return fmt.Errorf("%d rows, %d queued, %d bodies, %d expiries; %d leases, %d expiries", len(rows), len(queue), bodies, rowExp, len(leases), leaseExp)
		}
		ct, tl, cl := map[client]uint64{}, map[index]int{}, map[client]int{}
		for _, l := range leases {
			if l.Done {
				want.Acked++
				continue
			}
			want.Leases++
			cl[l.Client]++
			for _, ix := range l.Tokens {
				tl[ix]++
			}
		}
		for ix := range tr {
			if _, ok := tokens[ix]; !ok {
				return errors.New("a row is under a token that is not there")
			}
		}
		for c := range cr {
			if _, ok := accounts[c]; !ok {
				return errors.New("a row is of a client that is not there")
			}
		}
		for ix, t := range tokens {
			if t.Expires != 0 {
				want.Tokens++
				ct[t.Client]++
			}
			if t.Rows != tr[ix] || t.Bytes != tb[ix] || len(t.Leases) != tl[ix] || t.Boxed != boxed[ix] {
				return fmt.Errorf("a token counts %d rows, %d bytes, %d leases; there are %d, %d, %d", t.Rows, t.Bytes, len(t.Leases), tr[ix], tb[ix], tl[ix])
			}
		}
		for c, a := range accounts {
			if a.Rows != cr[c] || a.Bytes != cb[c] || a.Tokens != ct[c] || len(a.Leases) != cl[c] {
				return fmt.Errorf("a client counts %+v; there are %d rows, %d bytes, %d tokens, %d leases", a, cr[c], cb[c], ct[c], cl[c])
			}
		}
		if tokenExp != int(want.Tokens) || ages != windows {
			return fmt.Errorf("%d registrations, %d expiries; %d windows, %d ages", want.Tokens, tokenExp, windows, ages)
		}
		if have.Rows != want.Rows || have.Bytes != want.Bytes || have.Leases != want.Leases || have.Acked != want.Acked || have.Tokens != want.Tokens ||
			have.Windows != windows || have.Dedups != dedupExp {
			return fmt.Errorf("totals are %+v, recounted %+v, %d windows, %d marks", have, want, windows, dedupExp)
		}
		return nil
	})
}
