package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
)

// relayProcess is a relay in a process of its own, which is killed again and again.
type relayProcess struct {
	t    *testing.T
	file string
	cmd  *exec.Cmd
}

func (p *relayProcess) start() {
	p.cmd = exec.Command("hearsay", "mailbox", "relay", "--config", p.file)
	p.cmd.Stderr = os.Stderr
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
}

func (p *relayProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed: its error says so
}

// relayFile writes the configuration of a relay, makes its keys, and returns its address.
func relayFile(t *testing.T, dir, listen, more string) (file string, address mailbox.Address) {
	t.Helper()
	file = filepath.Join(dir, "relay.toml")
	text := fmt.Sprintf("datastore = %q\n[net]\nactive_profiles = []\nmagic_bytes = [1, 2, 3, 4]\n[mailbox.relay]\nlisten = \"quic://%s\"\n%s", filepath.Join(dir, "data"), listen, more)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := cli(t, "", "mailbox", "address", "--config", file)
	if code != 0 {
		t.Fatal(errs)
	}
	address, err := mailbox.ParseAddress(strings.TrimSpace(out))
	if err != nil {
		t.Fatal(err)
	}
	return file, address
}

// mailLedger is what the clients saw: the checker's only knowledge.
type mailLedger struct {
	mu       sync.Mutex
	accepted map[string]bool // a deposit was answered so
	durable  map[string]bool // the collector had it
	named    map[string]bool // in some acknowledgement, answered or not
	finished map[string]bool // in one that was accepted
	problems []string
}

func (l *mailLedger) problem(format string, args ...any) {
	l.problems = append(l.problems, fmt.Sprintf(format, args...))
}

// offered checks a page against what was said before.
func (l *mailLedger) offered(text string) {
	if l.finished[text] {
		l.problem("%s was offered after its acknowledgement was accepted", text)
	}
	l.durable[text] = true
}

// TestRelayKillLoop (MB-03, MB-13, MB-15, MB-30, MB-60): a relay on a disk is killed with SIGKILL
// at random moments while clients deposit, lease and acknowledge over QUIC. What was accepted
// arrives; what an accepted acknowledgement named never comes again; the rest is not
// deleted. HEARSAY_MAILBOX_KILLS sets how often, 10 by default.
func TestRelayKillLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	kills := 10
	if text := os.Getenv("HEARSAY_MAILBOX_KILLS"); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	listen := fixedPort(t)
	file, address := relayFile(t, dir, listen, "[mailbox.relay.limits]\nlease_ttl = \"2s\"\npage_rows = 16\nclient_requests = 1000000\nrelay_requests = 1000000\n")
	relay := &relayProcess{t: t, file: file}
	relay.start()
	defer relay.kill()

	book := &mailLedger{accepted: map[string]bool{}, durable: map[string]bool{}, named: map[string]bool{}, finished: map[string]bool{}}
	token := mailbox.TokenOf([32]byte{1})
	tokens := []mailbox.Token{token, mailbox.TokenOf([32]byte{2})}
	newClient := func(n byte) *endpoint.Client {
		c, err := endpoint.NewClient(address, ed25519.NewKeyFromSeed(append(make([]byte, 31), n)), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	ask := func(ctx context.Context, c *endpoint.Client, req mailbox.Request) (mailbox.Response, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return c.Do(ctx, req)
	}
	collect := func(ctx context.Context, c *endpoint.Client, rnd *rand.Rand) (n int, err error) {
		resp, err := ask(ctx, c, mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens}})
		if err != nil || len(resp.Lease.Rows) == 0 {
			return 0, err
		}
		var ids []mailbox.RowID
		var texts []string
		book.mu.Lock()
		for _, row := range resp.Lease.Rows {
			e, err := mailbox.ParseEnvelope(row.Envelope)
			if err != nil {
				book.problem("an envelope came back damaged")
				continue
			}
			text := string(e.Body[:8])
			book.offered(text)
			if rnd == nil || rnd.IntN(4) > 0 { // some are left for the next lease
				ids, texts = append(ids, row.RowID), append(texts, text)
				book.named[text] = true
			}
		}
		book.mu.Unlock()
		resp, err = ask(ctx, c, mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: resp.Lease.LeaseID, RowIDs: ids}})
		if err != nil || !resp.AckLease.Accepted {
			return 0, err
		}
		book.mu.Lock()
		defer book.mu.Unlock()
		for _, text := range texts {
			book.finished[text] = true
		}
		return len(ids), nil
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for i := range byte(3) {
		wg.Go(func() {
			c := newClient(10 + i)
			for n := uint32(0); ctx.Err() == nil; n++ {
				body := make([]byte, 1024)
				copy(body, fmt.Sprintf("%d%07d", i, n))
				env := (&mailbox.Envelope{Kind: mailbox.KindSealed, Token: token, Body: body}).AppendTo(nil)
				for ctx.Err() == nil { // the same envelope until it is accepted
					resp, err := ask(ctx, c, mailbox.Request{Deposit: &mailbox.Deposit{Envelope: env}})
					if err == nil && resp.Deposit.Accepted {
						book.mu.Lock()
						book.accepted[string(body[:8])] = true
						book.mu.Unlock()
						break
					}
					time.Sleep(20 * time.Millisecond)
				}
			}
		})
	}
	wg.Go(func() {
		c, rnd := newClient(1), rand.New(rand.NewPCG(1, 2))
		for ctx.Err() == nil {
			if n, err := collect(ctx, c, rnd); err != nil || n == 0 {
				time.Sleep(20 * time.Millisecond)
			}
		}
	})
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for range kills {
		time.Sleep(300*time.Millisecond + time.Duration(rnd.IntN(400))*time.Millisecond)
		relay.kill()
		relay.start()
	}
	time.Sleep(500 * time.Millisecond)
	cancel()
	wg.Wait()

	// Everything that is left is collected, once its leases are over.
	c := newClient(1)
	deadline := time.Now().Add(scriptTimeout)
	left := func() (n uint64) {
		resp, err := ask(t.Context(), c, mailbox.Request{Info: &mailbox.Info{}})
		if err != nil {
			return 1
		}
		return resp.Info.UsedItems
	}
	for left() > 0 && time.Now().Before(deadline) {
		if n, err := collect(t.Context(), c, nil); err != nil || n == 0 {
			time.Sleep(100 * time.Millisecond)
		}
	}
	if n := left(); n > 0 {
		t.Errorf("%d envelopes cannot be collected", n)
	}
	book.mu.Lock()
	defer book.mu.Unlock()
	for text := range book.accepted {
		if !book.durable[text] {
			book.problem("%s was accepted and never arrived", text)
		}
	}
	t.Logf("%d kills, %d accepted, %d arrived, %d finished", kills, len(book.accepted), len(book.durable), len(book.finished))
	if len(book.accepted) < kills || len(book.finished) == 0 {
		t.Errorf("only %d envelopes were accepted", len(book.accepted))
	}
	for _, p := range book.problems {
		t.Error(p)
	}
}

// TestMailLedger plants what the checker must find.
func TestMailLedger(t *testing.T) {
	l := &mailLedger{durable: map[string]bool{}, finished: map[string]bool{"a": true}}
	l.offered("b")
	if len(l.problems) != 0 {
		t.Error(l.problems)
	}
	l.offered("a")
	if len(l.problems) != 1 {
		t.Error("an envelope that came again was not found")
	}
}
