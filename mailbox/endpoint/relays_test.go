package endpoint

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/internal/box"
	"hearsay/internal/kv"
	"hearsay/mailbox"
	"hearsay/mailbox/relay"
)

// TestTwoRelays (MB-34): a message goes to both relays of its recipient, is shown once, and the
// sender drops both envelopes after one receipt; the relays know it under different clients.
func TestTwoRelays(t *testing.T) {
	w := newWorld(t)
	second := RelayID{2}
	store := kv.OpenMemory()
	defer store.Close()
	other, err := relay.New(relay.Config{Store: store, Now: w.clock.now})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*side{w.alice, w.bob} {
		two := &wire{relay: other, who: s.wire.who}
		s.contact.Relays = []RelayID{theRelay, second}
		s.cfg.Relay = func(id RelayID, _ Role) Requester {
			if id == second {
				return two
			}
			return s.wire
		}
	}
	at := func(s *side, id RelayID) { w.must(s.pass(t.Context(), id, s.cfg.Relay(id, RoleCollect))) }
	at(w.bob, theRelay)
	at(w.bob, second)
	at(w.alice, theRelay)
	at(w.alice, second)
	w.send(w.alice, 1, "hello")
	w.must(w.deposit(w.alice))
	if c := w.counts(w.alice); c.Deposits != 2 {
		t.Fatalf("%d envelopes are kept for two relays", c.Deposits)
	}
	for _, r := range []*relay.Relay{w.relay, other} {
		if st, _ := r.Stats(); st.Rows != 1 {
			t.Errorf("a relay has %d rows", st.Rows)
		}
	}
	at(w.bob, theRelay)
	at(w.bob, second)
	if got := w.bob.log(t); len(got) != 1 {
		t.Errorf("shown: %q", got)
	}
	w.must(w.deposit(w.bob)) // a receipt to each
	at(w.alice, second)
	if c := w.counts(w.alice); c.Deposits != 0 {
		t.Errorf("%d envelopes are kept after the receipt", c.Deposits)
	}
	at(w.alice, theRelay)
	for _, r := range []*relay.Relay{w.relay, other} {
		if st, _ := r.Stats(); st.Rows != 0 {
			t.Errorf("a relay still has %d rows", st.Rows)
		}
	}
}

// TestDrip (MB-27): a relay that never finishes an answer costs a pass its budget and no more,
// and is then left alone for a while.
func TestDrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := kv.OpenMemory()
		defer store.Close()
		pair, err := box.New(box.GenerateSecret(), box.GenerateSecret().Public())
		if err != nil {
			t.Fatal(err)
		}
		asked := 0
		e, err := New(Config{
			Store: store, Contacts: func() []Contact { return []Contact{{Pair: pair}} }, Own: []RelayID{theRelay},
			Relay: func(RelayID, Role) Requester {
				return requester(func(ctx context.Context, _ mailbox.Request) (mailbox.Response, error) {
					asked++
					<-ctx.Done()
					return mailbox.Response{}, ErrUnavailable
				})
			},
			Stage: func(kv.Txn, Contact, Message) (bool, error) { return true, nil }, Rand: rand.New(rand.NewPCG(1, 2)),
		})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := e.visit(t.Context(), theRelay); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took != PassBudget {
			t.Errorf("a pass took %v", took)
		}
		if len(e.turn()) != 0 || asked != 1 {
			t.Error("the relay is asked again at once")
		}
		time.Sleep(time.Minute)
		if len(e.turn()) != 1 {
			t.Error("the relay is given up")
		}
	})
}

type requester func(context.Context, mailbox.Request) (mailbox.Response, error)

func (r requester) Do(ctx context.Context, req mailbox.Request) (mailbox.Response, error) {
	return r(ctx, req)
}

// TestCursors (MB-53): more relays than fit a pass, and more tokens than fit a check-in, all have
// their turn.
func TestCursors(t *testing.T) {
	secret := box.GenerateSecret()
	var contacts []Contact
	for i := range 300 {
		pair, err := box.New(secret, box.GenerateSecret().Public())
		if err != nil {
			t.Fatal(err)
		}
		contacts = append(contacts, Contact{ID: ContactID(pair.Fingerprint()), Pair: pair, Mine: secret.Public(), Relays: []RelayID{{byte(i % 12), 1}}})
	}
	store := kv.OpenMemory()
	defer store.Close()
	own := RelayID{99}
	e, err := New(Config{
		Store: store, Contacts: func() []Contact { return contacts }, Own: []RelayID{own}, Relay: func(RelayID, Role) Requester { return nil },
		Stage: func(kv.Txn, Contact, Message) (bool, error) { return true, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	visited := map[RelayID]int{}
	for range 13 {
		list := e.turn()
		if len(list) != MaxMailboxes {
			t.Fatalf("%d relays in a pass", len(list))
		}
		for _, r := range list {
			visited[r]++
		}
	}
	if len(visited) != 13 {
		t.Errorf("%d of 13 relays had their turn", len(visited))
	}
	for r, n := range visited {
		if n != MaxMailboxes {
			t.Errorf("relay %d had %d turns", r[0], n)
		}
	}
	all := map[mailbox.Token]bool{}
	for range 2 {
		tokens, owner := e.mailboxes(own)
		if len(tokens) != mailbox.MaxTokens {
			t.Fatalf("%d tokens in a check-in", len(tokens))
		}
		for _, tok := range tokens {
			all[tok] = true
			if _, ok := owner[tok]; !ok {
				t.Fatal("a token of nobody")
			}
		}
	}
	want := 0
	for _, c := range contacts {
		want += len(TokensAround(c.Pair, c.Mine, e.now()))
	}
	if want <= mailbox.MaxTokens || len(all) != want {
		t.Errorf("%d of %d tokens had their turn", len(all), want)
	}
}

// rawRelay answers every request with the same bytes, for ever if endless.
func rawRelay(t *testing.T, answer []byte, endless bool) mailbox.Address {
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{5}, 32))
	conf, err := mailbox.ServerTLS(key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func(c net.Conn) {
				defer c.Close()
				_, _ = io.ReadAll(c)
				for {
					if _, err := c.Write(answer); err != nil || !endless {
						return
					}
				}
			}(c)
		}
	}()
	return mailbox.Address{Scheme: "tcp+tls", Host: l.Addr().String(), Key: key.Public().(ed25519.PublicKey)}
}

// TestOversizedAnswers (MB-20, MB-25): an answer without end, one past the bound of a response,
// pages past their rows and bytes, an answer to another request: none reaches the caller.
func TestOversizedAnswers(t *testing.T) {
	page := func(rows, size int) []byte {
		// The encoder refuses to make these, so they are made of one that it makes.
		one := mailbox.Response{Lease: &mailbox.Page{Serving: true, LeaseID: mailbox.LeaseID{1}, Rows: []mailbox.Row{}}}
		b, err := one.Encode()
		if err != nil {
			t.Fatal(err)
		}
		b = append(b[:len(b)-1], 0x98, byte(rows)) // an array of rows instead of the empty one
		for i := range rows {
			r := mailbox.Response{Lease: &mailbox.Page{Serving: true, LeaseID: mailbox.LeaseID{1}, Rows: []mailbox.Row{{RowID: mailbox.RowID{1, byte(i)}, Envelope: make([]byte, size)}}}}
			row, err := r.Encode()
			if err != nil {
				t.Fatal(err)
			}
			head := bytes.Index(row, []byte("rows"))
			b = append(b, row[head+len("rows")+1:]...)
		}
		return b
	}
	if _, err := mailbox.DecodeResponse(page(64, 1024)); err != nil {
		t.Fatalf("a page that fits: %v", err)
	}
	deposit := mailbox.Response{Deposit: &mailbox.Accepted{Accepted: true}}
	other, err := deposit.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		answer  []byte
		endless bool
	}{
		"without end":        {make([]byte, 64<<10), true},
		"too many bytes":     {make([]byte, mailbox.MaxResponse+1), false},
		"too many rows":      {page(129, 100), false},
		"too large a page":   {page(65, 16<<10+1), false},
		"of another request": {other, false},
		"nothing":            {nil, false},
	} {
		client, err := NewClient(rawRelay(t, c.answer, c.endless), ed25519.NewKeyFromSeed(make([]byte, 32)), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Do(t.Context(), mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{{1}}}})
		if !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, fmt.Sprint(err))
		}
		client.Close()
	}
}
