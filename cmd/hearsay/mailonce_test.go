package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mr-tron/base58"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/kv"
	"hearsay/internal/privmsg"
	"hearsay/ircd"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
)

// A pageRelay hands out rows until they are acknowledged, and counts what is deposited.
type pageRelay struct {
	rows     []mailbox.Row
	deposits int
}

func (r *pageRelay) Do(_ context.Context, req mailbox.Request) (mailbox.Response, error) {
	yes := &mailbox.Accepted{Accepted: true}
	switch {
	case req.Lease != nil:
		return mailbox.Response{Lease: &mailbox.Page{Serving: true, LeaseID: mailbox.LeaseID{1}, Rows: r.rows}}, nil
	case req.AckLease != nil:
		r.rows = slices.DeleteFunc(r.rows, func(row mailbox.Row) bool { return slices.Contains(req.AckLease.RowIDs, row.RowID) })
		return mailbox.Response{AckLease: yes}, nil
	case req.Deposit != nil:
		r.deposits++
		return mailbox.Response{Deposit: yes}, nil
	}
	return mailbox.Response{RefuseRows: yes}, nil
}

// A returned is a node of ours to which a message of a contact comes, by the graph in
// several generations and by a mailbox.
type returned struct {
	*post
	relay *pageRelay
	graph eventgraph.Seq
	kept  keptEvents
	rowID byte
}

// keptEvents is what a graph has.
type keptEvents map[eventgraph.ID]eventgraph.Event

func (k keptEvents) Arrival(id eventgraph.ID) (eventgraph.Arrival, error) {
	ev, ok := k[id]
	if !ok {
		return eventgraph.Arrival{}, kv.ErrNotFound
	}
	return eventgraph.Arrival{Event: ev}, nil
}

func (r *returned) contact(label string) endpoint.Contact {
	b := r.contacts()
	return b.list[slices.IndexFunc(b.list, func(c endpoint.Contact) bool { return b.labels[c.ID] == label })]
}

// said is a generation of a message: its content.
func (p *post) said(by string, id endpoint.MessageID, text string) []byte {
	p.Helper()
	ring := p.rings[by]
	kind, name, print, _ := ring.Lookup("me")
	m, err := ring.SealAs(id, privmsg.Sealed{Kind: kind, Name: name, Fingerprint: print}, "nick", text)
	p.must(err)
	return m.AppendTo(nil)
}

// gossip brings an event.
func (r *returned) gossip(content []byte) {
	r.Helper()
	r.graph++
	slot := eventgraph.Slot(1000 * uint64(r.graph))
	ev := eventgraph.Event{Header: eventgraph.Header{Timestamp: uint64(slot) + 1, Layer: 1, ContentHash: eventgraph.HashContent(content)}, Content: content}
	if r.kept == nil {
		r.kept = keptEvents{}
	}
	r.kept[ev.Header.ID()], r.mail.graph = ev, r.kept
	r.must(r.arrivals.Ingest([]eventgraph.Arrival{{Seq: r.graph, Slot: slot, Source: eventgraph.SourcePut, Time: time.Now(), Event: ev}},
		func(*eventgraph.Arrival) (arrival.Place, bool) { return arrival.Place{}, true }))
}

// page brings records in a page of their own, which is acknowledged.
func (r *returned) page(from string, records ...endpoint.Record) {
	r.Helper()
	c := r.contact(from)
	for _, rec := range records {
		rec.Created = time.Now()
		env, err := endpoint.Seal(c.Pair, endpoint.TokenAt(c.Pair, c.Mine, rec.Created), rec)
		r.must(err)
		r.rowID++
		r.relay.rows = append(r.relay.rows, mailbox.Row{RowID: mailbox.RowID{r.rowID}, Envelope: env})
	}
	e, err := endpoint.New(endpoint.Config{
		Store: r.store, Own: []endpoint.RelayID{endpoint.RelayIDOf(r.own[0])},
		Contacts: func() []endpoint.Contact { return r.contacts().list },
		Relay:    func(endpoint.RelayID, endpoint.Role) endpoint.Requester { return r.relay },
		Stage:    r.stage, Alias: r.alias,
	})
	r.must(err)
	ctx, stop := context.WithCancel(r.Context())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	synctest.Wait()
	stop()
	<-done
	if len(r.relay.rows) > 0 {
		r.Errorf("%d rows were not taken", len(r.relay.rows))
	}
}

// restart is a new process over the same store.
func (r *returned) restart() {
	r.Helper()
	log, err := arrival.Open(r.store, nil)
	r.must(err)
	again := &mail{arrivals: log, graph: r.kept, endpoint: r.mail.endpoint, own: r.own, book: r.book, log: noLog}
	r.mail = again
	log.SetCorrespondence(again)
}

// TestShownOnce (MB-34, decision 0195): a direct message enters the order of arrival once, in whatever
// order the graph brings its generations and the mailbox its envelope and alias, over a
// restart, the graph's forgetting, and a page that comes again. Its receipt is sent. What
// another contact says, or the same one says next, has a row of its own.
func TestShownOnce(t *testing.T) {
	id := endpoint.MessageID{7, 7}
	names := []string{"graph1", "graph2", "message", "alias", "restart", "forget"}
	n := 0
	for order := range permutations(names) {
		if n++; testing.Short() && n%7 > 0 {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			p := newPost(t, map[string]int{"bob": 1, "carol": 1})
			r := &returned{post: p, relay: &pageRelay{}}
			p.arrivals.SetCorrespondence(p.mail)
			gen1, gen2 := p.said("bob", id, "hello"), p.said("bob", id, "hello")
			if bytes.Equal(gen1, gen2) {
				t.Fatal("generations are the same")
			}
			message := endpoint.Record{Message: &endpoint.Message{ID: id, Timestamp: uint64(time.Now().Add(-72 * time.Hour).UnixMilli()), Content: gen1}}
			alias := endpoint.Record{Alias: &endpoint.Alias{ID: id, ContentHash: eventgraph.HashContent(gen2)}}
			do := map[string]func(){
				"graph1":  func() { r.gossip(gen1) },
				"graph2":  func() { r.gossip(gen2) },
				"message": func() { r.page("bob", message) },
				"alias":   func() { r.page("bob", alias) },
				"restart": r.restart,
				"forget": func() {
					_, err := r.arrivals.Prune(eventgraph.Slot(1000*uint64(r.graph)+1), nil)
					r.must(err)
				},
			}
			for _, step := range order {
				do[step]()
			}
			r.page("bob", message, alias) // the acknowledgement was lost
			if last, err := r.arrivals.Last(); last != 1 || err != nil {
				t.Errorf("%v: shown %d times, %v", order, last, err)
			}
			if r.relay.deposits < 2 { // each time
				t.Errorf("%v: %d receipts", order, r.relay.deposits)
			}
			if first := slices.IndexFunc(order, func(s string) bool { return s == "graph1" || s == "graph2" || s == "message" }); order[first] == "message" {
				content, written, ok := r.message(arrival.ID(id))
				if !ok || !bytes.Equal(content, gen1) || !written.Equal(eventgraph.Slot(message.Message.Timestamp).Time()) {
					t.Errorf("%v: the mailbox's copy is not kept as it was sent", order)
				}
			}
			r.gossip(p.said("carol", id, "hello")) // who has heard of bob's id
			r.gossip(p.said("bob", endpoint.MessageID{8}, "hello"))
			if last, _ := r.arrivals.Last(); last != 3 {
				t.Errorf("%v: other messages are taken for it", order)
			}
		})
		if t.Failed() {
			break
		}
	}
	if n != 720 && !t.Failed() {
		t.Errorf("%d orders", n)
	}
}

// TestAliasOfMail (decision 0181): of an author whose nonces name nothing, a later generation is
// recognised by its alias when the row came by mail, and only if that very contact wrote it.
func TestAliasOfMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, map[string]int{"bob": 1, "carol": 1})
		r := &returned{post: p, relay: &pageRelay{}}
		p.arrivals.SetCorrespondence(p.mail)
		gen := func(by string) []byte { return content(t, p.rings[by], "me", "hello") }
		id, gen1, gen2, carols := endpoint.MessageID{7}, gen("bob"), gen("bob"), gen("carol")
		r.page("bob", endpoint.Record{Message: &endpoint.Message{ID: id, Timestamp: 1, Content: gen1}})
		for _, c := range [][]byte{gen2, carols} {
			r.page("bob", endpoint.Record{Alias: &endpoint.Alias{ID: id, ContentHash: eventgraph.HashContent(c)}})
		}
		r.restart()
		for i, step := range []struct {
			content []byte
			rows    arrival.Seq
		}{{gen1, 1}, {gen2, 1}, {carols, 2}, {gen("bob"), 3}} {
			r.gossip(step.content)
			if last, _ := r.arrivals.Last(); last != step.rows {
				t.Errorf("event %d: %d rows, want %d", i, last, step.rows)
			}
		}
	})
}

// TestAliasByStranger (decision 0225): carol cannot hide what bob says to us by an alias that
// makes it a later generation of something else of his, when her mail comes before the graph
// brings his.
func TestAliasByStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, map[string]int{"bob": 1, "carol": 1})
		r := &returned{post: p, relay: &pageRelay{}}
		p.arrivals.SetCorrespondence(p.mail)
		first, second := content(t, p.rings["bob"], "me", "yes"), content(t, p.rings["bob"], "me", "I mean no")
		r.gossip(first)
		for _, c := range [][]byte{first, second} {
			r.page("carol", endpoint.Record{Alias: &endpoint.Alias{ID: endpoint.MessageID{9}, ContentHash: eventgraph.HashContent(c)}})
		}
		r.gossip(second)
		if last, _ := r.arrivals.Last(); last != 2 {
			t.Errorf("%d rows, want two", last)
		}
	})
}

// TestHeldMail (ST-06): while a restored queue is held no relay is asked anything, neither to deposit
// nor to collect; once it is released both go on.
func TestHeldMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPost(t, map[string]int{"bob": 1, "carol": 0})
		p.generation(p.entry(1, "bob", "x"), "x")
		relay, asked := &pageRelay{}, map[endpoint.Role]int{}
		e, err := endpoint.New(endpoint.Config{
			Store: p.store, Own: []endpoint.RelayID{{1}}, Stage: p.stage, Alias: p.alias,
			Contacts: func() []endpoint.Contact { return p.contacts().list },
			Relay:    func(_ endpoint.RelayID, role endpoint.Role) endpoint.Requester { asked[role]++; return relay },
		})
		p.must(err)
		var released atomic.Bool
		p.endpoint, p.mail.held = e, func() (bool, error) { return !released.Load(), nil }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.exchange(ctx) }()
		time.Sleep(time.Hour)
		if synctest.Wait(); len(asked) > 0 {
			t.Errorf("relays were asked while the queue is held: %v", asked)
		}
		released.Store(true)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		stop()
		if <-done; asked[endpoint.RoleDeposit] == 0 || asked[endpoint.RoleCollect] == 0 || relay.deposits != 1 {
			t.Errorf("after the release: %v, %d deposits", asked, relay.deposits)
		}
	})
}

// permutations yields every order of names.
func permutations(names []string) func(yield func([]string) bool) {
	return func(yield func([]string) bool) {
		var rec func(done, left []string) bool
		rec = func(done, left []string) bool {
			if len(left) == 0 {
				return yield(done)
			}
			for i := range left {
				if !rec(append(slices.Clip(done), left[i]), slices.Concat(left[:i], left[i+1:])) {
					return false
				}
			}
			return true
		}
		rec(nil, names)
	}
}

// TestClientKeysAreNoSecrets: what is printed for operators holds neither the seed nor a
// private key, and names each relay once.
func TestClientKeysAreNoSecrets(t *testing.T) {
	p := newPost(t, map[string]int{"bob": 2, "carol": 1})
	p.must(p.open(p.store))
	all := p.clientKeys()
	if len(all) != 2 || !all[1].Own && !all[0].Own {
		t.Fatalf("%+v", all)
	}
	var out strings.Builder
	printClientKeys(&out, all)
	b, err := json.Marshal(all)
	p.must(err)
	text := out.String() + string(b)
	seen := map[string]bool{}
	for _, k := range all {
		if seen[k.Collect] || seen[k.Deposit] || k.Collect == k.Deposit {
			t.Error("a key serves twice")
		}
		seen[k.Collect], seen[k.Deposit] = true, true
	}
	secrets := [][]byte{p.seed[:]}
	for _, addresses := range p.book.relays {
		for _, role := range []endpoint.Role{endpoint.RoleCollect, endpoint.RoleDeposit} {
			key := p.seed.ClientKey(addresses[0].Key, role)
			secrets = append(secrets, key.Seed(), key)
		}
	}
	for _, s := range secrets {
		for _, form := range []string{base58.Encode(s), fmt.Sprintf("%x", s)} {
			if strings.Contains(text, form) {
				t.Error("a secret is printed")
			}
		}
	}
}

// TestGenerationsNameTheirMessage (DS-70, DS-74, decision 0195): what the queue makes of a direct
// message carries its logical id for the recipient, in every generation, under another nonce.
func TestGenerationsNameTheirMessage(t *testing.T) {
	p := newPost(t, map[string]int{"bob": 1, "carol": 1})
	sender := ircd.Sender{Keys: &ircd.Keys{}, Graph: eventMaker{}}
	bob := p.keys["bob"]
	p.must(sender.Keys.Set(ircd.Settings{Contacts: []ircd.Contact{{Label: "bob", Public: bob.Public, Secret: bob.Secret}}}))
	e := p.entry(7, "bob", "hello")
	nonces := map[string]bool{}
	for range 3 {
		ev, err := sender.Materialise(t.Context(), e)
		p.must(err)
		m, err := privmsg.Decode(ev.Content)
		p.must(err)
		o, err := p.rings["bob"].Open(m)
		if err != nil || o.ID != e.ID || o.Text != "hello" || nonces[string(o.Nonce[:])] {
			t.Errorf("id %x, %v", o.ID, err)
		}
		nonces[string(o.Nonce[:])] = true
	}
}

// eventMaker makes events without a graph.
type eventMaker struct{}

func (eventMaker) NewEvent(content []byte) (eventgraph.Event, error) {
	return eventgraph.Event{Content: content}, nil
}
