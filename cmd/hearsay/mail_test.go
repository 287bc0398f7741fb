package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/box"
	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/privmsg"
	"hearsay/internal/serial"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
	"hearsay/outbound"
)

const (
	mailRelay1 = "quic://127.0.0.1:9?key=6x8MB28qE9sJmS26FVpSvvoFW9PsXLoDQZXXsut4tWiN"
	mailRelay2 = "quic://127.0.0.1:9?key=WpSggvhoqoVW4XJvfjsB52dvVunYSQWrz6XiuMQVsCf"
)

// post is a mail over a memory store, with contacts of which the test has both sides.
type post struct {
	testing.TB
	*mail
	store *kv.Mem
	keys  map[string]privmsg.ContactKey // ours
	rings map[string]*privmsg.Keyring   // theirs, who call us "me"
}

// newPost makes contacts who collect at so many relays.
func newPost(t testing.TB, contacts map[string]int) *post {
	p := &post{TB: t, store: kv.OpenMemory(), keys: map[string]privmsg.ContactKey{}, rings: map[string]*privmsg.Keyring{}}
	t.Cleanup(func() { p.store.Close() })
	cfg := &config.Config{Mailbox: config.Mailbox{Relays: []string{mailRelay1}}}
	for _, label := range sortedKeys(contacts) {
		mine, theirs := box.GenerateSecret(), box.GenerateSecret()
		p.keys[label] = privmsg.ContactKey{Label: label, Public: theirs.Public(), Secret: mine}
		var err error
		p.rings[label], err = privmsg.NewKeyring(nil, []privmsg.ContactKey{{Label: "me", Public: mine.Public(), Secret: theirs}})
		p.must(err)
		cfg.Chat.Contacts = append(cfg.Chat.Contacts, config.Contact{
			Label: label, Public: theirs.Public(), Secret: mine, Mailbox: []string{mailRelay1, mailRelay2}[:contacts[label]],
		})
	}
	log, err := arrival.Open(p.store, nil)
	p.must(err)
	p.mail, err = newMail(p.store, log, cfg, noLog)
	p.must(err)
	return p
}

func (p *post) must(err error) {
	p.Helper()
	if err != nil {
		p.Fatal(err)
	}
}

func (p *post) tx(fn func(tx kv.Txn) error) {
	p.Helper()
	p.must(p.store.Update(kv.Op{Name: "test"}, fn))
}

// ring is our own keys.
func (p *post) ring() *privmsg.Keyring {
	k, err := privmsg.NewKeyring(nil, []privmsg.ContactKey{p.keys["bob"], p.keys["carol"]})
	p.must(err)
	return k
}

// entry is a record of the queue: what ircd stores (spec/chat.md, section 3).
func (p *post) entry(id byte, to, text string) outbound.Entry {
	kind, name, print, _ := p.ring().Lookup(to)
	b := append([]byte{1, byte(kind)}, print[:]...)
	for _, field := range []string{name, "alice", text} {
		b = serial.AppendString(b, field)
	}
	return outbound.Entry{ID: outbound.LogicalID{id}, Payload: b}
}

// content is what from writes to to.
func content(t testing.TB, from *privmsg.Keyring, to, text string) []byte {
	kind, name, print, _ := from.Lookup(to)
	m, err := from.Seal(privmsg.Sealed{Kind: kind, Name: name, Fingerprint: print}, "nick", text)
	if err != nil {
		t.Fatal(err)
	}
	return m.AppendTo(nil)
}

func (p *post) generation(e outbound.Entry, text string) {
	p.Helper()
	c := content(p.TB, p.ring(), "bob", text)
	g := &outbound.Generation{Event: eventgraph.Event{Header: eventgraph.Header{Timestamp: 7, ContentHash: eventgraph.HashContent(c)}, Content: c}}
	p.tx(func(tx kv.Txn) error { return p.generated(tx, e, g) })
}

func (p *post) pending() int {
	n, err := p.endpoint.Pending()
	p.must(err)
	return n
}

// TestMailFollowsTheQueue (MB-34): a generation of a direct message is deposited at every relay of
// its recipient, what becomes of it in the queue leaves it there, and a person's cancel does
// not. Nothing else is deposited.
func TestMailFollowsTheQueue(t *testing.T) {
	p := newPost(t, map[string]int{"bob": 2, "carol": 0})
	for _, to := range []string{"carol", "#dev"} {
		if p.generation(p.entry(1, to, "x"), "x"); p.pending() != 0 {
			t.Errorf("a message to %s was deposited", to)
		}
	}
	e := p.entry(2, "bob", "x")
	for i := range 2 {
		if p.generation(e, "x"); p.pending() != 2*(i+1) {
			t.Errorf("generation %d: %d deposits", i, p.pending())
		}
	}
	other := p.entry(3, "bob", "y")
	p.generation(other, "y")
	p.tx(func(tx kv.Txn) error { return p.dequeued(tx, other.ID) })
	if p.pending() != 6 {
		t.Error("evidence from the graph dropped a deposit")
	}
	p.tx(func(tx kv.Txn) error { return p.cancelled(tx, e.ID) })
	if p.pending() != 2 {
		t.Errorf("%d deposits after a cancel, want those of the other message", p.pending())
	}
	p.must(p.store.View(func(r kv.Reader) error {
		return r.Scan(kv.Scan{Prefix: []byte("x"), KeysOnly: true}, func(_, _ []byte) error {
			t.Error("a mark is left")
			return nil
		})
	}))
}

// TestMailIsFull (MB-26's other side): at the bound of deposits a message goes to the graph all the
// same, the user is told, and its next generation is deposited as the whole message.
func TestMailIsFull(t *testing.T) {
	p := newPost(t, map[string]int{"bob": 1, "carol": 0})
	to := p.contacts().list[slices.IndexFunc(p.contacts().list, func(c endpoint.Contact) bool { return len(c.Relays) > 0 })]
	for first := 0; first < endpoint.MaxDeposits; first += 512 {
		p.tx(func(tx kv.Txn) error {
			for i := range 512 {
				id := endpoint.MessageID{1, byte(i), byte(i >> 8), byte(first >> 8)}
				if err := p.endpoint.AddMessage(tx, to, id, false, endpoint.Record{Created: time.Now(), Message: &endpoint.Message{ID: id}}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	e := p.entry(2, "bob", "x")
	p.generation(e, "x")
	if p.pending() != endpoint.MaxDeposits || !slices.Contains(p.troubles(), mailFullText) {
		t.Errorf("%d deposits, %q", p.pending(), p.troubles())
	}
	p.tx(func(tx kv.Txn) error { return p.endpoint.DropMessage(tx, endpoint.MessageID{1}) })
	p.generation(e, "x")
	p.tx(func(tx kv.Txn) error {
		_, err := tx.Get(deposited(e.ID))
		return err
	})
	if slices.Contains(p.troubles(), mailFullText) {
		t.Error("the user is still told so")
	}
}

// TestStage (MB-12, T4): only a direct message from the very contact enters the order of
// arrival, once, and is kept unless the graph has it.
func TestStage(t *testing.T) {
	p := newPost(t, map[string]int{"bob": 1, "carol": 1})
	from := func(label string) endpoint.Contact {
		b := p.contacts()
		return b.list[slices.IndexFunc(b.list, func(c endpoint.Contact) bool { return b.labels[c.ID] == label })]
	}
	good := content(t, p.rings["bob"], "me", "hello")
	for i, c := range []struct {
		name    string
		from    string
		content []byte
		keep    bool
	}{
		{"not a message", "bob", []byte("x"), false},
		{"a channel", "bob", content(t, p.rings["bob"], "#dev", "x"), false},
		{"somebody else's", "carol", good, false},
		{"our own", "bob", content(t, p.ring(), "bob", "x"), false},
		{"a direct message", "bob", good, true},
		{"the same under another id", "bob", good, false},
	} {
		p.tx(func(tx kv.Txn) error {
			keep, err := p.stage(tx, from(c.from), endpoint.Message{ID: endpoint.MessageID{byte(i + 1)}, Content: c.content})
			if keep != c.keep {
				t.Errorf("%s: keep %t", c.name, keep)
			}
			return err
		})
	}
	rows, err := p.arrivals.Read(0, false, 9)
	if err != nil || len(rows) != 1 || rows[0].Kind != arrival.Mail || rows[0].Place.Tag != arrival.Tag(from("bob").ID) || rows[0].Place.Size == 0 {
		t.Errorf("rows %v, %v", rows, err)
	}
}

// TestAuthor: who wrote the message of a row, whether the mailbox or the graph brought it, and
// what is no direct message to us.
func TestAuthor(t *testing.T) {
	p := newPost(t, map[string]int{"bob": 1, "carol": 1})
	event := func(label string) *eventgraph.Event {
		return &eventgraph.Event{Content: content(t, p.rings[label], "me", "x")}
	}
	if _, direct := p.Direct(event("bob")); !direct {
		t.Error("a direct message is none")
	}
	for _, c := range [][]byte{content(t, p.rings["bob"], "#dev", "x"), content(t, p.ring(), "bob", "our own"), []byte("x")} {
		if _, direct := p.Direct(&eventgraph.Event{Content: c}); direct {
			t.Error("what is no direct message to us is one")
		}
	}
	for _, label := range []string{"bob", "carol"} {
		wrote, _ := p.Direct(event(label))
		p.graph = oneEvent{*event(label)}
		p.tx(func(tx kv.Txn) error {
			from, ok, err := p.Author(tx, &arrival.Row{Kind: arrival.Foreign, Event: eventgraph.ID{1}})
			if !ok || from != wrote.From {
				t.Errorf("%s wrote it: %t", label, ok)
			}
			return err
		})
	}
	p.tx(func(tx kv.Txn) error {
		_, ok, err := p.Author(tx, &arrival.Row{Kind: arrival.Mail, ID: arrival.ID{1}})
		if ok {
			t.Error("somebody wrote mail that is not there")
		}
		return err
	})
}

// oneEvent is a graph with one event under every id.
type oneEvent struct{ eventgraph.Event }

func (e oneEvent) Arrival(eventgraph.ID) (eventgraph.Arrival, error) {
	return eventgraph.Arrival{Event: e.Event}, nil
}

// TestMailNotices: what happened once is told for a day, to so many at most.
func TestMailNotices(t *testing.T) {
	p := newPost(t, map[string]int{"bob": 1, "carol": 0})
	for id, label := range p.contacts().labels {
		if label == "bob" {
			p.notify(endpoint.NoticeUnknown, id)
			p.notify(endpoint.NoticeUnread, id)
		}
	}
	p.notify(endpoint.NoticeUnread, endpoint.ContactID{9}) // not a contact any more
	got := p.troubles()
	if len(got) != 2 || !strings.Contains(got[0], "does not know bob yet") && !strings.Contains(got[1], "does not know bob yet") {
		t.Errorf("%q", got)
	}
	now := time.Now()
	if got := p.notices.list(now.Add(noticeAge + time.Minute)); len(got) != 0 {
		t.Errorf("%q", got)
	}
	for i := range maxMailNotices + 1 {
		p.notices.add(fmt.Sprint(i), now.Add(time.Duration(i)*time.Second))
	}
	if got := p.notices.list(now); len(got) != maxMailNotices || slices.Contains(got, "0") {
		t.Errorf("%d notices", len(got))
	}
}

// TestMailContacts (MB-22): the number of contacts from which config check warns.
func TestMailContacts(t *testing.T) {
	if n := mailbox.MaxTokens / endpoint.TokensPerContact; n != 292 {
		t.Errorf("%d contacts fit a check-in; internal/config warns above 292", n)
	}
}

// TestMailShort: a relay that registered only some of the tokens is told of until it has
// them all, or is not configured any more.
func TestMailShort(t *testing.T) {
	p := newPost(t, map[string]int{"bob": 2, "carol": 0})
	ids := sortedRelays(p)
	for i, want := range []string{"1 mailbox relay has registered only some", "2 mailbox relays have registered only some"} {
		p.notices.registered(ids[i], false)
		if got := p.troubles(); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	p.notices.registered(ids[0], true)
	if got := p.troubles(); len(got) != 1 || !strings.HasPrefix(got[0], "1 ") {
		t.Errorf("%q", got)
	}
	p.notices.registered(endpoint.RelayID{9}, false)
	p.notices.registered(ids[1], true)
	p.must(p.setContacts(p.store, nil))
	if got := p.troubles(); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func sortedRelays(p *post) []endpoint.RelayID {
	return slices.SortedFunc(maps.Keys(p.book.relays), func(a, b endpoint.RelayID) int { return bytes.Compare(a[:], b[:]) })
}
