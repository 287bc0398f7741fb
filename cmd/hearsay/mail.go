package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/box"
	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/privmsg"
	"hearsay/ircd"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
	"hearsay/outbound"
)

// What the inbox keeps (decision 0182): everything for mailAge, as long as records are
// taken at all; of more than mailKeep messages not those that are older than mailLeast.
const (
	mailAge   = endpoint.MaxAge
	mailKeep  = endpoint.MaxInbox * 7 / 8
	mailLeast = 7 * 24 * time.Hour
)

// heldPoll is how often a held queue is looked at.
const heldPoll = time.Second

// mailRetry is the wait for a disk that is too full.
const mailRetry = 5 * time.Second

// mail is this node's use of mailbox relays: what is said to a contact is deposited
// where the contact collects, in the transaction that makes its event durable, and what
// is collected enters the order of arrival in the one that stages it (spec/mailbox.md,
// use by the node).
type mail struct {
	arrivals *arrival.Log
	endpoint *endpoint.Endpoint
	graph    interface { // set before the log is used; nil where nothing arrives
		Arrival(id eventgraph.ID) (eventgraph.Arrival, error)
	}
	held    func() (bool, error) // the queue's flag; set before run
	own     []mailbox.Address
	reach   endpoint.Reach
	log     *slog.Logger
	notices mailNotices

	mu      sync.Mutex
	book    *mailBook
	seed    *endpoint.Seed // nil: not open; no relay is asked
	clients map[mailClient]*endpoint.Client
}

// mailClient is one identity at one relay, at one of its addresses.
type mailClient struct {
	address string
	role    endpoint.Role
}

// newMail reads the configuration and touches nothing.
func newMail(store kv.Store, arrivals *arrival.Log, cfg *config.Config, log *slog.Logger) (*mail, error) {
	m := &mail{arrivals: arrivals, log: log, clients: map[mailClient]*endpoint.Client{}}
	var err error
	if m.own, err = relayAddresses(cfg.Mailbox.Relays); err != nil {
		return nil, err
	}
	if m.reach, err = reachOf(cfg); err != nil {
		return nil, err
	}
	if m.book, err = newMailBook(m.own, cfg.Chat.Contacts); err != nil {
		return nil, err
	}
	var own []endpoint.RelayID
	for _, a := range m.own {
		if id := endpoint.RelayIDOf(a); !slices.Contains(own, id) {
			own = append(own, id)
		}
	}
	ec := endpoint.Config{
		Store: store, Own: own, Interval: cfg.Mailbox.Interval, Logger: log,
		Contacts: func() []endpoint.Contact { return m.contacts().list },
		Relay:    m.relay, Stage: m.stage, Alias: m.alias,
		Staged: func() { m.arrivals.Notify() }, Notify: m.notify,
		Registered: func(relay endpoint.RelayID, have, want int) { m.notices.registered(relay, have >= want) },
	}
	if seams.endpoint != nil {
		seams.endpoint(&ec)
	}
	m.endpoint, err = endpoint.New(ec)
	return m, err
}

// open reads the seed of the identities at relays, or makes it where there is a relay to
// ask at all. After it relays can be asked.
func (m *mail) open(store kv.Store) error {
	if len(m.contacts().relays) == 0 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seed != nil {
		return nil
	}
	seed, err := endpoint.OpenSeed(store)
	if err == nil {
		m.seed = &seed
	}
	return err
}

// run deposits, collects and prunes until ctx ends or the store fails.
func (m *mail) run(ctx context.Context) error {
	defer m.close()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return m.exchange(ctx) })
	g.Go(func() error { return m.prune(ctx) })
	return g.Wait()
}

// exchange runs the endpoint. A disk that is too full ends it for a moment; what it owes
// is in the store.
// Nothing is exchanged while a restored queue is held: deposits that were receipted since
// the backup are in it again (ST-06).
func (m *mail) exchange(ctx context.Context) error {
	for {
		if held, err := m.held(); err != nil {
			return err
		} else if held {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(heldPoll):
			}
			continue
		}
		err := m.endpoint.Run(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !errors.Is(err, kv.ErrDiskFull) {
			return err
		}
		m.log.Warn("the disk is too full for mail")
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(mailRetry):
		}
	}
}

// prune forgets mail that was kept for long enough.
func (m *mail) prune(ctx context.Context) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		for _, rule := range []struct {
			age  time.Duration
			keep int
		}{{mailAge, 0}, {mailLeast, mailKeep}} {
			for n := 1; n > 0 && ctx.Err() == nil; {
				var err error
				n, err = m.endpoint.PruneInbox(time.Now().Add(-rule.age), rule.keep, func(tx kv.Txn, id endpoint.MessageID) error {
					return m.arrivals.RemoveMail(tx, arrival.ID(id))
				})
				if err != nil {
					return err
				}
			}
		}
		for n := 1; n > 0 && ctx.Err() == nil; {
			var err error
			if n, err = m.arrivals.PruneDirect(time.Now().Add(-mailAge)); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (m *mail) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range m.clients {
		c.Close()
	}
	clear(m.clients)
}

// A mailBook is the contacts of one configuration.
type mailBook struct {
	list   []endpoint.Contact
	labels map[endpoint.ContactID]string
	relays map[endpoint.RelayID][]mailbox.Address
	ring   *privmsg.Keyring
}

func newMailBook(own []mailbox.Address, contacts []config.Contact) (*mailBook, error) {
	b := &mailBook{labels: map[endpoint.ContactID]string{}, relays: map[endpoint.RelayID][]mailbox.Address{}}
	add := func(a mailbox.Address) endpoint.RelayID {
		id := endpoint.RelayIDOf(a)
		b.relays[id] = append(b.relays[id], a)
		return id
	}
	for _, a := range own {
		add(a)
	}
	var keys []privmsg.ContactKey
	for _, c := range contacts {
		pair, err := box.New(c.Secret, c.Public)
		if err != nil {
			return nil, fmt.Errorf("contact: %w", err)
		}
		addresses, err := relayAddresses(c.Mailbox)
		if err != nil {
			return nil, err
		}
		to := endpoint.Contact{ID: endpoint.ContactID(pair.Fingerprint()), Pair: pair, Mine: c.Secret.Public(), Theirs: c.Public}
		for _, a := range addresses {
			if id := add(a); !slices.Contains(to.Relays, id) {
				to.Relays = append(to.Relays, id)
			}
		}
		if _, again := b.labels[to.ID]; again {
			continue // the same keys under another label
		}
		b.labels[to.ID] = c.Label
		b.list = append(b.list, to)
		keys = append(keys, privmsg.ContactKey{Label: c.Label, Public: c.Public, Secret: c.Secret})
	}
	var err error
	b.ring, err = privmsg.NewKeyring(nil, keys)
	return b, err
}

func relayAddresses(texts []string) (out []mailbox.Address, err error) {
	for _, text := range texts {
		a, err := mailbox.ParseAddress(text)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

func (m *mail) contacts() *mailBook {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.book
}

// setContacts takes the contacts of a reloaded configuration.
func (m *mail) setContacts(store kv.Store, contacts []config.Contact) error {
	b, err := newMailBook(m.own, contacts)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.book = b
	m.mu.Unlock()
	m.notices.configured(b.relays)
	return m.open(store)
}

// relay implements endpoint.Config.Relay.
func (m *mail) relay(id endpoint.RelayID, role endpoint.Role) endpoint.Requester {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seed == nil {
		return nil
	}
	for _, a := range m.book.relays[id] {
		if _, err := m.reach.Check(a); err != nil {
			continue
		}
		k := mailClient{a.String(), role}
		if c := m.clients[k]; c != nil {
			return c
		}
		c, err := m.reach.Client(a, m.seed.ClientKey(a.Key, role))
		if err != nil {
			continue
		}
		m.clients[k] = c
		return c
	}
	return nil
}

// refused counts the relays that must not be reached (MB-47).
func (m *mail) refused() int { return m.contacts().refused(m.reach) }

func (b *mailBook) refused(reach endpoint.Reach) (n int) {
	for _, addresses := range b.relays {
		if !slices.ContainsFunc(addresses, func(a mailbox.Address) bool { _, err := reach.Check(a); return err == nil }) {
			n++
		}
	}
	return n
}

// refusedRelays is refused of a configuration.
func refusedRelays(cfg *config.Config) (int, error) {
	own, err := relayAddresses(cfg.Mailbox.Relays)
	if err != nil {
		return 0, err
	}
	reach, err := reachOf(cfg)
	if err != nil {
		return 0, err
	}
	book, err := newMailBook(own, cfg.Chat.Contacts)
	if err != nil {
		return 0, err
	}
	return book.refused(reach), nil
}

// deposited marks a message of which the recipient gets to know the text by mail: its
// later generations are aliases (DS-40).
func deposited(id outbound.LogicalID) []byte { return append([]byte("xd"), id[:]...) }

// generated deposits a message with its first generation, and tells of its later ones, in
// the transaction that makes the generation durable. Only the store's own failure fails
// it: a deposit never holds the queue up.
func (m *mail) generated(tx kv.Txn, e outbound.Entry, g *outbound.Generation) error {
	msg, err := ircd.DecodeMessage(e.Payload)
	if err != nil {
		return nil //nolint:nilerr // not from an IRC client: nothing to deposit
	}
	pair, ok := msg.Contact()
	if !ok {
		return nil
	}
	book := m.contacts()
	i := slices.IndexFunc(book.list, func(c endpoint.Contact) bool { return c.ID == endpoint.ContactID(pair) })
	if i < 0 || len(book.list[i].Relays) == 0 {
		return nil
	}
	to, id := book.list[i], endpoint.MessageID(e.ID)
	r := endpoint.Record{Created: time.Now()}
	_, err = tx.Get(deposited(e.ID))
	alias := err == nil
	switch {
	case alias:
		r.Alias = &endpoint.Alias{ID: id, ContentHash: g.Event.ContentHash}
	case errors.Is(err, kv.ErrNotFound):
		r.Message = &endpoint.Message{ID: id, Timestamp: g.Event.Timestamp, Content: g.Event.Content}
	default:
		return err
	}
	switch err := m.endpoint.AddMessage(tx, to, id, alias, r); {
	case errors.Is(err, endpoint.ErrFull), errors.Is(err, mailbox.ErrTooLarge):
		m.notices.full(true)
		return nil
	case err != nil:
		return err
	}
	m.notices.full(false)
	if alias {
		return nil
	}
	return tx.Set(deposited(e.ID), nil)
}

// dequeued forgets what only a message in the queue needs. Its deposits stay until their
// receipt.
func (m *mail) dequeued(tx kv.Txn, id outbound.LogicalID) error { return tx.Delete(deposited(id)) }

// cancelled drops the deposits of a message that a person drops (MB-34).
func (m *mail) cancelled(tx kv.Txn, id outbound.LogicalID) error {
	return errors.Join(tx.Delete(deposited(id)), m.endpoint.DropMessage(tx, endpoint.MessageID(id)))
}

// stage enters a message into the order of arrival if it is what a contact's mail must
// be: a direct message from that very contact. Anything else is taken and dropped, or it
// would come again for 30 days. The content is kept unless the graph has it.
func (m *mail) stage(tx kv.Txn, from endpoint.Contact, msg endpoint.Message) (keep bool, err error) {
	book := m.contacts()
	if !book.wrote(from.ID, msg.Content) {
		return false, nil
	}
	o := arrival.Origin{From: from.ID, ID: arrival.ID(msg.ID)}
	place := ircd.PlaceOfMail(book.ring, msg.Content, eventgraph.Slot(msg.Timestamp).Time())
	return m.arrivals.AppendMail(tx, o, eventgraph.HashContent(msg.Content), place)
}

func (m *mail) alias(tx kv.Txn, from endpoint.Contact, a endpoint.Alias) error {
	return m.arrivals.AliasMail(tx, arrival.Origin{From: from.ID, ID: arrival.ID(a.ID)}, a.ContentHash)
}

// wrote tells whether content is a direct message that a contact wrote to us.
func (b *mailBook) wrote(from endpoint.ContactID, content []byte) bool {
	o, ok := b.origin(content)
	return ok && o.From == from
}

// origin tells which contact wrote content to us, and which message it is.
func (b *mailBook) origin(content []byte) (o arrival.Origin, ok bool) {
	msg, err := privmsg.Decode(content)
	if err != nil {
		return o, false
	}
	opened, err := b.ring.Open(msg)
	if err != nil || opened.Kind != privmsg.Contact || opened.Mine {
		return o, false
	}
	_, _, pair, ok := b.ring.Lookup(opened.Name)
	return arrival.Origin{From: pair, ID: opened.ID}, ok
}

// Direct implements arrival.Correspondence.
func (m *mail) Direct(ev *eventgraph.Event) (arrival.Origin, bool) {
	return m.contacts().origin(ev.Content)
}

// Author implements arrival.Correspondence.
func (m *mail) Author(r kv.Reader, row *arrival.Row) (from [16]byte, ok bool, err error) {
	if row.Kind == arrival.Mail {
		_, wrote, err := endpoint.MessageIn(r, endpoint.MessageID(row.ID))
		if errors.Is(err, kv.ErrNotFound) {
			return from, false, nil
		}
		return wrote, err == nil, err
	}
	if m.graph == nil {
		return from, false, nil
	}
	for _, id := range row.Events() {
		if a, err := m.graph.Arrival(id); err == nil {
			o, ok := m.contacts().origin(a.Event.Content)
			return o.From, ok, nil
		}
	}
	return from, false, nil
}

// message reads what a mailbox brought, for the order of arrival.
func (m *mail) message(id arrival.ID) (content []byte, written time.Time, ok bool) {
	msg, _, err := m.endpoint.Message(endpoint.MessageID(id))
	if err != nil {
		return nil, time.Time{}, false
	}
	return msg.Content, eventgraph.Slot(msg.Timestamp).Time().UTC(), true
}

// mailNetwork wakes the deposits when a generation is durable: before it is shown to the
// graph.
type mailNetwork struct {
	network
	mail *mail
}

// Insert implements outbound.Network.
func (n mailNetwork) Insert(ctx context.Context, ev eventgraph.Event) error {
	n.mail.endpoint.Wake()
	return n.network.Insert(ctx, ev)
}
