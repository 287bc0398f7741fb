package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"hearsay/internal/arrival"
	"hearsay/internal/box"
	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
	"hearsay/mailbox/relay"
)

// A crashLedger is what journals tell: the checker's only knowledge besides the stores.
// An envelope goes by its content id.
type crashLedger struct {
	pair      *box.Box
	envelopes map[mailbox.ContentID]endpoint.Record // those that the pair can open
	asked     map[mailbox.ContentID]bool            // somebody tried to deposit it
	accepted  map[mailbox.ContentID]bool            // the relay said so
	rows      map[mailbox.RowID]mailbox.ContentID   // as offered
	named     map[string]map[mailbox.RowID]bool     // in acknowledgements that were going to be sent, by who
	finished  map[mailbox.RowID]bool                // in one that the relay accepted
	receipts  map[string]map[endpoint.MessageID]bool
	offered   map[endpoint.MessageID]bool // receipts in pages
	problems  []string
}

// newCrashLedger reads the relay's journal and those of its clients.
func newCrashLedger(pair *box.Box, journals map[string][]entry) *crashLedger {
	l := &crashLedger{
		pair: pair, envelopes: map[mailbox.ContentID]endpoint.Record{},
		asked: map[mailbox.ContentID]bool{}, accepted: map[mailbox.ContentID]bool{}, rows: map[mailbox.RowID]mailbox.ContentID{},
		named: map[string]map[mailbox.RowID]bool{}, finished: map[mailbox.RowID]bool{},
		receipts: map[string]map[endpoint.MessageID]bool{}, offered: map[endpoint.MessageID]bool{},
	}
	for _, e := range journals["relay"] {
		if e.Said != nil {
			l.said(&e)
		}
	}
	for who, list := range journals {
		l.named[who], l.receipts[who] = map[mailbox.RowID]bool{}, map[endpoint.MessageID]bool{}
		for _, e := range list {
			if e.Ask != nil {
				l.ask(who, e.Ask)
			}
		}
	}
	return l
}

func (l *crashLedger) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

func (l *crashLedger) envelope(raw []byte) mailbox.ContentID {
	id := mailbox.ContentIDOf(raw)
	if env, err := mailbox.ParseEnvelope(raw); err == nil {
		if rec, err := endpoint.Open(l.pair, env); err == nil {
			l.envelopes[id] = rec
		}
	}
	return id
}

// said takes what the relay was going to answer.
func (l *crashLedger) said(e *entry) {
	req, err1 := mailbox.DecodeRequest(e.To)
	resp, err2 := mailbox.DecodeResponse(e.Said)
	if err := errors.Join(err1, err2); err != nil {
		l.problem("journal: %v", err)
		return
	}
	switch {
	case resp.Deposit != nil && resp.Deposit.Accepted:
		l.accepted[l.envelope(req.Deposit.Envelope)] = true
	case resp.Lease != nil:
		for _, row := range resp.Lease.Rows {
			if l.finished[row.RowID] {
				l.problem("a row was offered after its acknowledgement was accepted")
			}
			id := l.envelope(row.Envelope)
			l.rows[row.RowID] = id
			for _, m := range l.envelopes[id].Receipt {
				l.offered[m] = true
			}
		}
	case resp.AckLease != nil && resp.AckLease.Accepted:
		for _, id := range req.AckLease.RowIDs {
			l.finished[id] = true
		}
	}
}

func (l *crashLedger) ask(who string, b []byte) {
	req, err := mailbox.DecodeRequest(b)
	switch {
	case err != nil:
		l.problem("journal: %v", err)
	case req.Deposit != nil:
		id := l.envelope(req.Deposit.Envelope)
		l.asked[id] = true
		for _, m := range l.envelopes[id].Receipt {
			l.receipts[who][m] = true
		}
	case req.AckLease != nil:
		for _, id := range req.AckLease.RowIDs {
			l.named[who][id] = true
		}
	}
}

// kept is how many rows a relay must have, and how many it may have.
func (l *crashLedger) kept() (least, most int) {
	named, finished := map[mailbox.ContentID]bool{}, map[mailbox.ContentID]bool{}
	for _, rows := range l.named {
		for id := range rows {
			named[l.rows[id]] = true
		}
	}
	for id := range l.finished {
		finished[l.rows[id]] = true
	}
	for id := range l.accepted {
		if !named[id] {
			least++
		}
	}
	for id := range l.asked {
		if !finished[id] {
			most++
		}
	}
	return least, most
}

// owed is how many accepted envelopes of messages and aliases have no receipt yet: so many
// the sender keeps, at least.
func (l *crashLedger) owed(later *crashLedger) (n int) {
	for id := range l.accepted {
		switch rec := l.envelopes[id]; {
		case rec.Message != nil && !later.offered[rec.Message.ID], rec.Alias != nil && !later.offered[rec.Alias.ID]:
			n++
		}
	}
	return n
}

// checkRelay compares a relay's store with what was said (MB-03, MB-13, MB-39).
func (l *crashLedger) checkRelay(store kv.Store) {
	if err := relay.Recount(store); err != nil {
		l.problem("relay: %v", err)
	}
	r, err := relay.New(relay.Config{Store: store})
	if err != nil {
		l.problem("relay: %v", err)
		return
	}
	st, err := r.Stats()
	if least, most := l.kept(); err != nil || int(st.Rows) < least || int(st.Rows) > most {
		l.problem("the relay has %d rows: at least %d are accepted and not named, at most %d were deposited and are not acknowledged; %v", st.Rows, least, most, err)
	}
}

// checkRecipient: what who acknowledged or receipted is durable there (MB-12), and in the
// order of arrival once.
func (l *crashLedger) checkRecipient(who string, c *custody) {
	rows, err := c.arrivals.Read(0, false, 1000)
	if err != nil {
		l.problem("%s: %v", who, err)
	}
	has := map[endpoint.MessageID]int{}
	for _, row := range rows {
		if row.Kind == arrival.Mail {
			has[endpoint.MessageID(row.ID)]++
		}
	}
	for id, n := range has {
		if _, _, err := c.mail.endpoint.Message(id); n != 1 || err != nil {
			l.problem("%s has a message %d times; its text: %v", who, n, err)
		}
	}
	for row := range l.named[who] {
		if m := l.envelopes[l.rows[row]].Message; m != nil && has[m.ID] == 0 {
			l.problem("%s acknowledged a message that is not durable there", who)
		}
	}
	for id := range l.receipts[who] {
		if has[id] == 0 {
			l.problem("%s receipted a message that is not durable there", who)
		}
	}
}

// checkSender: what was accepted for the recipient stays with its sender until a receipt
// was offered (MB-34).
func (l *crashLedger) checkSender(who string, c *custody) {
	n, err := c.mail.endpoint.Pending()
	if want := l.owed(l); err != nil || n < want {
		l.problem("%s keeps %d deposits; %d were accepted and have no receipt; %v", who, n, want, err)
	}
}

// withCopy opens a copy of a dead process's store. Opening the store itself would tidy
// what the crash left for the next start.
func withCopy(t testing.TB, opts kv.Options, fn func(*kv.DB) error) error {
	dir := filepath.Join(t.TempDir(), "copy")
	if err := copySparse(opts.Dir, dir); err != nil {
		return err
	}
	opts.Dir, opts.Ballast = dir, -1
	store, err := kv.Open(opts)
	if err != nil {
		return err
	}
	return errors.Join(fn(store), store.Close(), os.RemoveAll(dir))
}

// copySparse copies a store's directory without its ballast, and leaves holes where there
// are zeros.
func copySparse(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range list {
		a, b := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case e.IsDir():
			err = copySparse(a, b)
		case e.Name() != "ballast":
			err = copyHoles(a, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyHoles(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var zero, buf [64 << 10]byte
	size := int64(0)
	for {
		n, err := io.ReadFull(in, buf[:])
		if n > 0 && !bytes.Equal(buf[:n], zero[:n]) {
			if _, err := out.WriteAt(buf[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out.Truncate(size)
		}
		if err != nil {
			return err
		}
	}
}

// withCustody opens a copy of a dead daemon's custody store.
func withCustody(t testing.TB, cfg *config.Config, fn func(*custody)) error {
	return withCopy(t, custodyOptions(cfg, noLog), func(store *kv.DB) error {
		c, err := newCustody(store, cfg, noLog)
		if err == nil {
			fn(c)
		}
		return err
	})
}
