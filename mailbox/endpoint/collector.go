package endpoint

import (
	"context"
	"errors"
	"slices"
	"time"

	"hearsay/internal/kv"
	"hearsay/mailbox"
)

var (
	opStage  = kv.Op{Name: "endpoint/stage", Class: kv.ClassGeneration}
	opForget = kv.Op{Name: "endpoint/forget", Class: kv.ClassRelease}
)

// collects is the loop of passes: each interval at most MaxMailboxes relays, one page
// each, whatever they say (MB-27, MB-53).
func (e *Endpoint) collects(ctx context.Context) error {
	for {
		for _, relay := range e.turn() {
			if err := e.visit(ctx, relay); err != nil {
				return err
			}
		}
		if err := e.forget(); err != nil {
			return err
		}
		if err := e.sleep(ctx, e.around(e.cfg.Interval), nil); err != nil {
			return err
		}
	}
}

// turn selects the relays of this interval: the own ones and, for receipts, those that
// are deposited at; rotating where there are more than MaxMailboxes.
func (e *Endpoint) turn() (out []RelayID) {
	all := slices.Clone(e.cfg.Own)
	for _, c := range e.cfg.Contacts() {
		for _, r := range c.Relays {
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	for range min(len(all), MaxMailboxes) {
		e.nextMailbox %= len(all)
		if r := all[e.nextMailbox]; !time.Now().Before(e.notBefore[r]) {
			out = append(out, r)
		}
		e.nextMailbox++
	}
	return out
}

// visit does one pass and sets the backoff of a relay that fails. Only a failure of
// the store is an error.
func (e *Endpoint) visit(ctx context.Context, relay RelayID) error {
	who := e.cfg.Relay(relay, RoleCollect)
	if who == nil {
		return nil
	}
	pctx, cancel := context.WithTimeout(ctx, PassBudget)
	defer cancel()
	err := e.pass(pctx, relay, who)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errStore):
		return err
	case err != nil:
		e.failures[relay]++
		e.notBefore[relay] = time.Now().Add(e.around(e.backoff(uint64(e.failures[relay]))))
	default:
		delete(e.failures, relay)
		delete(e.notBefore, relay)
	}
	return nil
}

// errStore marks failures of our own store among those of relays.
var errStore = errors.New("endpoint: store")

// mailboxes are the tokens of one check-in and whose they are.
func (e *Endpoint) mailboxes(relay RelayID) (tokens []mailbox.Token, owner map[mailbox.Token]Contact) {
	owner = map[mailbox.Token]Contact{}
	now := e.now()
	own := slices.Contains(e.cfg.Own, relay)
	var all []mailbox.Token
	for _, c := range e.cfg.Contacts() {
		if !own && !slices.Contains(c.Relays, relay) {
			continue // nobody of this pair comes to this relay
		}
		for _, t := range e.bag(c, now).tokens {
			owner[t] = c
			all = append(all, t)
		}
	}
	if len(all) <= mailbox.MaxTokens {
		return all, owner
	}
	from := e.cursor[relay] % len(all)
	e.cursor[relay] = from + mailbox.MaxTokens
	for i := range mailbox.MaxTokens {
		tokens = append(tokens, all[(from+i)%len(all)])
	}
	return tokens, owner
}

// pass leases one page, stages what is in it, and acknowledges exactly what is then
// durable here (MB-12).
func (e *Endpoint) pass(ctx context.Context, relay RelayID, who Requester) error {
	tokens, owner := e.mailboxes(relay)
	if len(tokens) == 0 {
		return nil
	}
	if err := e.claim(ctx, relay, who); err != nil {
		return err
	}
	resp, err := who.Do(ctx, mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens}})
	if err != nil {
		return err
	}
	page := resp.Lease
	if err := e.askRegistered(ctx, relay, who, len(owner)); err != nil {
		return err
	}
	if !page.Serving {
		return nil
	}
	var durable []mailbox.RowID
	refused := map[mailbox.RefuseReason][]mailbox.RowID{}
	// What the graph has brought of a later generation is recognised by its alias.
	aliases, stop := stageUntil(ctx)
	for _, row := range page.Rows {
		if time.Now().After(aliases) {
			break
		}
		if err := e.stageAlias(owner, row.Envelope); errors.Is(err, kv.ErrDiskFull) {
			break
		} else if err != nil {
			return errors.Join(errStore, err)
		}
	}
	for i, row := range page.Rows {
		if ctx.Err() != nil || i > 0 && time.Now().After(stop) {
			break // the rest comes again when the lease has expired
		}
		reason, err := e.stage(relay, owner, row.Envelope)
		switch {
		case errors.Is(err, errInboxFull), errors.Is(err, kv.ErrDiskFull):
			refused[mailbox.RefuseOverQuota] = append(refused[mailbox.RefuseOverQuota], row.RowID)
		case err != nil:
			return errors.Join(errStore, err)
		case reason != 0:
			refused[reason] = append(refused[reason], row.RowID)
		default:
			durable = append(durable, row.RowID)
		}
	}
	if e.cfg.Staged != nil && len(durable) > 0 {
		e.cfg.Staged()
	}
	e.Wake() // receipts are owed
	if len(durable) > 0 {
		// Refused or lost: the rows come again and are recognised.
		if _, err := who.Do(ctx, mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: page.LeaseID, RowIDs: durable}}); err != nil {
			return err
		}
	}
	for reason, ids := range refused {
		// An extension: a relay without it answers nothing, and the rows come last anyway.
		if _, err := who.Do(ctx, mailbox.Request{RefuseRows: &mailbox.RefuseRows{LeaseID: page.LeaseID, RowIDs: ids, Reason: reason}}); err != nil {
			break
		}
	}
	return nil
}

// stageUntil divides what is left of a pass: until when aliases are looked at and until when
// envelopes are staged. The last third is for the acknowledgement, so that a slow disk's
// page is not staged again and again and never acknowledged.
func stageUntil(ctx context.Context) (aliases, envelopes time.Time) {
	now := time.Now()
	end, ok := ctx.Deadline()
	if !ok {
		end = now.Add(PassBudget)
	}
	left := end.Sub(now)
	return now.Add(left / 3), now.Add(left * 2 / 3)
}

// stage takes one envelope into custody. reason says why it is none of ours; an error
// is the store's.
func (e *Endpoint) stage(relay RelayID, owner map[mailbox.Token]Contact, raw []byte) (reason mailbox.RefuseReason, err error) {
	env, err := mailbox.ParseEnvelope(raw)
	if err != nil {
		return mailbox.RefuseMalformed, nil
	}
	c, ok := owner[env.Token]
	if !ok {
		return mailbox.RefuseMalformed, nil
	}
	rec, err := Open(c.Pair, env)
	if err != nil {
		return mailbox.RefuseUnopened, nil
	}
	now := e.now()
	if now.Sub(rec.Created) > MaxAge {
		return 0, nil // acknowledged and dropped
	}
	return 0, e.store.Update(opStage, func(tx kv.Txn) error {
		t, err := begin(tx)
		if err != nil {
			return err
		}
		switch {
		case rec.Receipt != nil:
			for _, id := range rec.Receipt {
				if err := t.dropMessage(id, &c.ID); err != nil {
					return err
				}
			}
		case rec.Alias != nil:
			if e.cfg.Alias != nil {
				if err := e.cfg.Alias(tx, c, *rec.Alias); err != nil {
					return err
				}
			}
			if t.has(key(tableSeen, rec.Alias.ID[:])) {
				t.owe(c.ID, relay, rec.Alias.ID) // only what is held is receipted
			}
		default:
			m := rec.Message
			until := now
			if rec.Created.After(now) {
				until = rec.Created
			}
			if t.firstSeen(m.ID, until) {
				keep, err := e.cfg.Stage(tx, c, *m)
				if err != nil {
					return err
				}
				if keep {
					if t.meta.inbox >= MaxInbox {
						return errInboxFull
					}
					row := inboxRow{contact: c.ID, at: now.UnixMilli(), message: *m}
					t.set(key(tableInbox, m.ID[:]), row.encode())
					t.meta.inbox++
				}
			}
			t.owe(c.ID, relay, m.ID) // a repeat means that the receipt did not arrive
		}
		return t.end()
	})
}

// stageAlias tells the application of an alias ahead of its turn, since it is of use to
// the message that stands before it. Anything else is passed over.
func (e *Endpoint) stageAlias(owner map[mailbox.Token]Contact, raw []byte) error {
	env, err := mailbox.ParseEnvelope(raw)
	if err != nil || e.cfg.Alias == nil {
		return nil //nolint:nilerr // judged when its turn comes
	}
	c, ok := owner[env.Token]
	if !ok {
		return nil
	}
	rec, err := Open(c.Pair, env)
	if err != nil || rec.Alias == nil || e.now().Sub(rec.Created) > MaxAge {
		return nil //nolint:nilerr // as above
	}
	return e.store.Update(opStage, func(tx kv.Txn) error { return e.cfg.Alias(tx, c, *rec.Alias) })
}

// RemoveInbox takes a message out of the inbox, in the transaction in which the
// application forgets it.
func (e *Endpoint) RemoveInbox(tx kv.Txn, id MessageID) error {
	t, err := begin(tx)
	if err != nil {
		return err
	}
	k := key(tableInbox, id[:])
	if !t.has(k) {
		return t.err
	}
	t.del(k)
	t.meta.inbox--
	return t.end()
}

// forget drops seen ids that are older than any record that is still taken.
func (e *Endpoint) forget() error {
	before := e.now().Add(-MaxAge - 24*time.Hour).UnixMilli()
	due := false
	if err := e.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{Prefix: key(tableSeenAge), KeysOnly: true}, func(k, _ []byte) error {
			due = int64(be64(k[2:10])) <= before
			return kv.ErrStop
		})
	}); err != nil || !due {
		return err
	}
	return e.store.Update(opForget, func(tx kv.Txn) error {
		t, err := begin(tx)
		if err != nil {
			return err
		}
		t.forgetSeen(depositBatch, before)
		return t.end()
	})
}

func be64(b []byte) (v uint64) {
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}
