package endpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

var (
	opDeposited = kv.Op{Name: "endpoint/deposited", Class: kv.ClassRelease}
	opReceipts  = kv.Op{Name: "endpoint/receipts", Class: kv.ClassGeneration}
)

// depositBatch bounds the parcels of one round, parallelRelays the relays served side
// by side: one that hangs delays nobody else's mail for longer than a request.
const (
	depositBatch   = 256
	parallelRelays = 8
)

// deposits is the loop that brings parcels to their relays.
func (e *Endpoint) deposits(ctx context.Context) error {
	for {
		if err := e.sendReceipts(); err != nil {
			return err
		}
		next, err := e.depositDue(ctx)
		if err != nil {
			return err
		}
		wait := e.cfg.Interval
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(e.now()), time.Second))
		}
		if err := e.sleep(ctx, wait, e.wake); err != nil {
			return err
		}
	}
}

// depositDue attempts every parcel whose time has come and returns when the next one
// is due.
func (e *Endpoint) depositDue(ctx context.Context) (next time.Time, err error) {
	byRelay := map[RelayID][]uint64{}
	now := e.now()
	err = e.store.View(func(r kv.Reader) error {
		n := 0
		// A clock that ran ahead and was set back must not postpone anything for longer
		// than the longest wait: what is further away is due now.
		far := be(uint64(now.Add(Redeposit).UnixMilli()) + 1)
		for _, start := range [][]byte{nil, key(tableDue, far)} {
			err := r.Scan(kv.Scan{Prefix: key(tableDue), Start: start, KeysOnly: true}, func(k, _ []byte) error {
				due := int64(binary.BigEndian.Uint64(k[2:]))
				if start == nil && due > now.UnixMilli() {
					if due <= now.Add(Redeposit).UnixMilli() {
						next = time.UnixMilli(due)
					}
					return kv.ErrStop
				}
				if n == depositBatch {
					next = now
					return kv.ErrStop
				}
				n++
				seq := binary.BigEndian.Uint64(k[10:])
				p, err := readParcel(r, seq)
				if err != nil {
					return err
				}
				byRelay[p.relay] = append(byRelay[p.relay], seq)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return next, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelRelays)
	for relay, seqs := range byRelay {
		g.Go(func() error { return e.depositAt(ctx, relay, seqs) })
	}
	return next, g.Wait()
}

// depositAt attempts parcels of one relay in order. After one that the relay did not
// answer, the others wait as well.
func (e *Endpoint) depositAt(ctx context.Context, relay RelayID, seqs []uint64) error {
	who := e.cfg.Relay(relay, RoleDeposit)
	for _, seq := range seqs {
		var p parcel
		err := e.store.View(func(r kv.Reader) (err error) { p, err = readParcel(r, seq); return err })
		if errors.Is(err, kv.ErrNotFound) {
			continue // receipted meanwhile
		}
		if err != nil {
			return err
		}
		out := unreachable
		if _, ok := e.moved(&p); ok {
			if err := e.settle(seq, elsewhere); err != nil {
				return err
			}
			e.Wake() // it is due there
			continue
		}
		if who != nil {
			resp, err := who.Do(ctx, mailbox.Request{Deposit: &mailbox.Deposit{Envelope: p.envelope}})
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err != nil:
			case resp.Deposit.Accepted:
				out = accepted
			default:
				out = refused
			}
		}
		if out == unreachable {
			who = nil
		}
		if err := e.settle(seq, out); err != nil {
			return err
		}
	}
	return nil
}

// attempt is what became of one.
type attempt uint8

const (
	unreachable attempt = iota
	accepted
	refused
	elsewhere // not attempted: the contact collects at other relays now
)

// settle writes down what became of an attempt, and when the next one is.
func (e *Endpoint) settle(seq uint64, out attempt) error {
	now := e.now()
	var notices []func()
	err := e.store.Update(opDeposited, func(tx kv.Txn) error {
		notices = nil
		t, err := begin(tx)
		if err != nil {
			return err
		}
		old, err := readParcel(t, seq)
		if errors.Is(err, kv.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if out == elsewhere {
			if relays, ok := e.moved(&old); ok {
				if err := t.follow(seq, &old, relays, now.UnixMilli()); err != nil {
					return err
				}
			}
			return t.end()
		}
		p := old
		p.created = min(p.created, now.UnixMilli()) // a clock that ran ahead postpones nothing
		tell := func(kind NoticeKind) {
			if e.cfg.Notify != nil {
				notices = append(notices, func() { e.cfg.Notify(kind, p.contact) })
			}
		}
		switch out {
		case elsewhere: // settled above
		case accepted:
			if p.kind == parcelReceipt {
				t.dropParcel(seq, &old)                        // done; a receipt is never itself receipted
				notices = append(notices, func() { e.Wake() }) // more may be owed
				return t.end()
			}
			p.accepted, p.refused, p.attempts, p.told = now.UnixMilli(), 0, 0, false
			p.due = now.Add(Redeposit).UnixMilli()
		case refused:
			if p.refused == 0 {
				p.refused = now.UnixMilli()
			}
			if !p.told && p.kind == parcelMessage && now.UnixMilli()-p.refused >= UnknownAfter.Milliseconds() {
				p.told = true
				tell(NoticeUnknown)
			}
			fallthrough
		case unreachable:
			p.attempts++
			p.due = now.Add(e.around(e.backoff(p.attempts))).UnixMilli()
		}
		if now.UnixMilli()-p.created >= Readdress.Milliseconds() {
			switch again, ok := e.readdress(&p, now); {
			case p.kind == parcelReceipt:
				t.dropParcel(seq, &old) // the message will come again, and its receipt with it
				return t.end()
			case !e.known(p.contact):
				t.dropParcel(seq, &old) // nobody can receipt it any more
				return t.end()
			case ok:
				p.envelope, p.created, p.accepted, p.refused, p.due = again, now.UnixMilli(), 0, 0, now.UnixMilli()
				tell(NoticeUnread)
			}
		}
		t.changeParcel(seq, &old, &p)
		return t.end()
	})
	for _, fn := range notices {
		fn()
	}
	return err
}

func (e *Endpoint) known(id ContactID) bool {
	_, ok := e.contact(id)
	return ok
}

// readdress seals the record of a parcel anew, under the token of this week.
func (e *Endpoint) readdress(p *parcel, now time.Time) ([]byte, bool) {
	c, ok := e.contact(p.contact)
	if !ok || p.kind == parcelReceipt {
		return nil, false
	}
	env, err := mailbox.ParseEnvelope(p.envelope)
	if err != nil {
		return nil, false
	}
	r, err := Open(c.Pair, env) // the pair's box is the same in both directions
	if err != nil {
		return nil, false
	}
	r.Created = now
	again, err := Seal(c.Pair, TokenAt(c.Pair, c.Theirs, now), r)
	return again, err == nil
}

// backoff doubles from the first wait up to retryCap.
func (e *Endpoint) backoff(attempts uint64) time.Duration {
	d := e.cfg.Retry
	for range min(attempts, 16) - 1 {
		if d >= retryCap {
			break
		}
		d *= 2
	}
	return min(d, retryCap*2/3) // with jitter never above the cap
}

// owed are the receipts that are owed to a contact at a relay.
type owed struct {
	contact ContactID
	relay   RelayID
	ids     []MessageID
}

// owedReceipts reads, of each contact and relay without an envelope of receipts on its way,
// what fits one; and what is owed beyond maxOwed to the others.
func (e *Endpoint) owedReceipts() (groups []owed, excess [][]byte, err error) {
	var last []byte // contact and relay
	n, waits := 0, false
	err = e.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{Prefix: key(tableReceipt), KeysOnly: true}, func(k, _ []byte) error {
			if !bytes.Equal(k[2:34], last) {
				switch _, err := r.Get(key(tableOnWay, k[2:34])); {
				case err == nil:
					waits = true
				case !errors.Is(err, kv.ErrNotFound):
					return err
				case len(groups) == depositBatch:
					return kv.ErrStop
				default:
					waits = false
					groups = append(groups, owed{contact: ContactID(k[2:18]), relay: RelayID(k[18:34])})
				}
				last, n = bytes.Clone(k[2:34]), 0
			}
			switch n++; {
			case !waits && n <= MaxReceiptIDs:
				g := &groups[len(groups)-1]
				g.ids = append(g.ids, MessageID(k[34:50]))
			case n > maxOwed && len(excess) < maxOwed:
				excess = append(excess, bytes.Clone(k))
			}
			return nil
		})
	})
	return groups, excess, err
}

// sendReceipts turns owed receipts into parcels: one envelope at a time for each contact
// and relay, with as many message ids as it takes.
func (e *Endpoint) sendReceipts() error {
	groups, excess, err := e.owedReceipts()
	if err != nil || len(groups)+len(excess) == 0 {
		return err
	}
	return e.store.Update(opReceipts, func(tx kv.Txn) error {
		t, err := begin(tx)
		if err != nil {
			return err
		}
		for _, k := range excess {
			t.del(k)
		}
		now := e.now()
		for _, g := range groups {
			for _, id := range g.ids {
				t.del(key(tableReceipt, g.contact[:], g.relay[:], id[:]))
			}
			c, ok := e.contact(g.contact)
			if !ok {
				continue // the contact was removed: nobody to tell
			}
			env, err := Seal(c.Pair, TokenAt(c.Pair, c.Theirs, now), Record{Created: now, Receipt: g.ids})
			if err != nil {
				return err
			}
			p := parcel{
				kind: parcelReceipt, relay: g.relay, contact: g.contact, envelope: env,
				created: now.UnixMilli(), first: now.UnixMilli(), due: now.UnixMilli(),
			}
			if err := t.addParcel(&p); err != nil {
				return err
			}
		}
		return t.end()
	})
}
