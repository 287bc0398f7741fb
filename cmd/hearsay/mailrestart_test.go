package main

import (
	"context"
	"crypto/ed25519"
	"net"
	"testing"
	"time"

	"hearsay/internal/config"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
)

// TestRestartedRelay (decision 0184): the connection of a client to a relay that was killed and
// started again is replaced within one request, long before it would time out.
func TestRestartedRelay(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	l.Close()
	file, address := relayFile(t, dir, listen, "")
	c, err := endpoint.NewClient(address, ed25519.NewKeyFromSeed(make([]byte, 32)), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ask := func(within time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		_, err := c.Do(ctx, mailbox.Request{Info: &mailbox.Info{}})
		return err
	}
	relay := &relayProcess{t: t, file: file}
	up := func() {
		t.Helper()
		relay.start()
		if err := until(withTime(t), "the relay does not listen", func() bool {
			nc, err := net.Dial("tcp", address.Host)
			if err == nil {
				_ = nc.Close()
			}
			return err == nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	up()
	defer func() { relay.kill() }()
	if err := ask(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	relay.kill()
	up()
	if err := ask(15 * time.Second); err != nil { // half of the idle timeout
		t.Error(err)
	}
}

// TestContactsAreReloaded: where a contact collects is in force after a reload.
func TestContactsAreReloaded(t *testing.T) {
	p := newPost(t, map[string]int{"bob": 0, "carol": 0})
	e := p.entry(1, "bob", "x")
	if p.generation(e, "x"); p.pending() != 0 {
		t.Fatal("deposited nowhere")
	}
	k := p.keys["bob"]
	p.must(p.setContacts(p.store, []config.Contact{{Label: "robert", Public: k.Public, Secret: k.Secret, Mailbox: []string{mailRelay2}}}))
	if p.generation(e, "x"); p.pending() != 1 {
		t.Errorf("%d deposits", p.pending())
	}
	lines, err := p.command(nil)
	if err != nil || len(lines) != 2 || lines[1] != "robert: 1 deposit without a receipt" {
		t.Errorf("%q, %v", lines, err)
	}
	if lines, err = p.command([]string{"drop", "Robert"}); err != nil || p.pending() != 0 {
		t.Errorf("%q, %v", lines, err)
	}
	if _, err := p.command([]string{"x"}); err == nil {
		t.Error("nonsense was taken")
	}
}
