package bench

import (
	"context"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"hearsay/internal/kv"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
	"hearsay/mailbox/relay"
)

// Sixteen clients deposit envelopes of 1 KiB side by side; a collector takes them out as they
// come. JetStream does the same with a work queue, its file store synced at every write.
const (
	mailClients  = 16
	mailEnvelope = 1024
)

func openMailRelay(b testing.TB, dir string) (*relay.Relay, *kv.DB) {
	store, err := kv.Open(kv.Options{Dir: dir, Kind: "relay", Schema: relay.Schema, Sync: true})
	if err != nil {
		b.Fatal(err)
	}
	r, err := relay.New(relay.Config{Store: store, Key: [32]byte{1}, Limits: relay.Limits{ClientRequests: 1_000_000, RelayRequests: 1_000_000}})
	if err != nil {
		b.Fatal(err)
	}
	return r, store
}

func mailTokens(n int) []mailbox.Token {
	out := make([]mailbox.Token, n)
	for i := range out {
		binary.BigEndian.PutUint32(out[i][:], uint32(i)+1)
	}
	return out
}

func ask(b testing.TB, r *relay.Relay, who string, req mailbox.Request) mailbox.Response {
	resp, err := r.Handle([]byte(who), req)
	if err != nil {
		b.Fatal(err)
	}
	return resp
}

func mail(token mailbox.Token, n uint64) mailbox.Request {
	body := make([]byte, mailEnvelope-mailbox.EnvelopeHeader)
	binary.BigEndian.PutUint64(body, n)
	return mailbox.Request{Deposit: &mailbox.Deposit{Envelope: (&mailbox.Envelope{Kind: mailbox.KindSealed, Token: token, Body: body}).AppendTo(nil)}}
}

// fillMail puts rows into a relay that nobody collects: 200 for each of many tokens.
func fillMail(b testing.TB, r *relay.Relay, rows int) {
	tokens := mailTokens(rows/200 + 1)
	ask(b, r, "sleeper", mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens}})
	var wg sync.WaitGroup
	var next atomic.Int64
	for c := range mailClients + 4 {
		wg.Go(func() {
			for {
				n := int(next.Add(1)) - 1
				if n >= rows {
					return
				}
				if !ask(b, r, fmt.Sprint("filler", c), mail(tokens[n/200], uint64(n)|1<<62)).Deposit.Accepted {
					b.Error("a filler was refused")
					return
				}
			}
		})
	}
	wg.Wait()
}

// deposits runs b.N deposits by sixteen clients while a collector empties their mailboxes.
func deposits(b *testing.B, r *relay.Relay) {
	tokens := make([]mailbox.Token, mailClients)
	for i := range tokens {
		tokens[i] = mailbox.Token{0xff, byte(i)}
	}
	lease := mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens}}
	ask(b, r, "bob", lease)
	ctx, cancel := context.WithCancel(context.Background())
	var collector, wg sync.WaitGroup
	var waiting, next atomic.Int64
	collector.Go(func() {
		for ctx.Err() == nil {
			p := ask(b, r, "bob", lease).Lease
			if len(p.Rows) == 0 {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			ids := make([]mailbox.RowID, len(p.Rows))
			for i, row := range p.Rows {
				ids[i] = row.RowID
			}
			if !ask(b, r, "bob", mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: p.LeaseID, RowIDs: ids}}).AckLease.Accepted {
				b.Error("an acknowledgement was refused")
				return
			}
			waiting.Add(-int64(len(ids)))
		}
	})
	b.ResetTimer()
	for c := range mailClients {
		wg.Go(func() {
			for {
				n := next.Add(1)
				if n > int64(b.N) {
					return
				}
				for !ask(b, r, fmt.Sprint("alice", c), mail(tokens[c], uint64(n))).Deposit.Accepted {
					time.Sleep(time.Millisecond) // the token is full: the collector is behind
				}
				waiting.Add(1)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deposits/s")
	cancel()
	collector.Wait()
}

// short is a number of rows, or few where it is only asked whether this runs.
func short(rows int) int {
	if testing.Short() {
		return min(rows, 1000)
	}
	return rows
}

func BenchmarkMailDeposits(b *testing.B) {
	for _, rows := range []int{100, 60_000} {
		b.Run(fmt.Sprintf("relay/%d-rows", rows), func(b *testing.B) {
			r, store := openMailRelay(b, b.TempDir())
			defer store.Close()
			fillMail(b, r, short(rows))
			deposits(b, r)
		})
	}
	b.Run("jetstream", func(b *testing.B) {
		js := jetStream(b)
		var wg sync.WaitGroup
		var next atomic.Int64
		body := make([]byte, mailEnvelope)
		b.ResetTimer()
		for range mailClients {
			wg.Go(func() {
				for next.Add(1) <= int64(b.N) {
					if _, err := js.Publish(context.Background(), "mail.x", body); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		b.StopTimer()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deposits/s")
	})
}

// jetStream is a server in this process with a synced file store, and a work queue that a
// consumer empties.
func jetStream(b *testing.B) jetstream.JetStream {
	s, err := server.NewServer(&server.Options{JetStream: true, StoreDir: b.TempDir(), SyncAlways: true, DontListen: true, NoLog: true, NoSigs: true})
	if err != nil {
		b.Fatal(err)
	}
	s.Start()
	b.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		b.Fatal("JetStream does not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	st, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "mail", Subjects: []string{"mail.*"}, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy})
	if err != nil {
		b.Fatal(err)
	}
	c, err := st.CreateConsumer(ctx, jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		b.Fatal(err)
	}
	cc, err := c.Consume(func(m jetstream.Msg) { _ = m.Ack() })
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cc.Stop)
	return js
}

// BenchmarkMailPage compares a full page's lease and acknowledgement with the least that they
// must do: read those rows, and commit twice. It reports the ratio of the two, and how long
// a page takes in the store and, beside it, over QUIC on loopback: two requests on one
// connection, encoded, sent, handled by the same store, and decoded.
func BenchmarkMailPage(b *testing.B) {
	r, store := openMailRelay(b, b.TempDir())
	defer store.Close()
	raw, err := kv.Open(kv.Options{Dir: b.TempDir(), Kind: "raw", Schema: 1, Sync: true})
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	overWire, stop := mailWire(b, r)
	defer stop()
	tokens := mailTokens(2)
	inStore := func(req mailbox.Request) mailbox.Response { return ask(b, r, "bob", req) }
	inStore(mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens[:1]}})
	overWire(mailbox.Request{Lease: &mailbox.Lease{Tokens: tokens[1:]}})
	op := kv.Op{Name: "raw", Class: kv.ClassRelease}
	row := make([]byte, mailEnvelope+40)
	if err := raw.Update(op, func(tx kv.Txn) error {
		for i := range mailbox.MaxPageRows {
			if err := tx.Set([]byte{1, byte(i)}, row); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	n := uint64(0)
	// page fills the mailbox of a token and takes a page of it: lease and acknowledgement.
	page := func(token mailbox.Token, do func(mailbox.Request) mailbox.Response) (lease, ack time.Duration) {
		for range mailbox.MaxPageRows {
			n++
			if !ask(b, r, "alice", mail(token, n)).Deposit.Accepted {
				b.Fatal("refused")
			}
		}
		begin := time.Now()
		p := do(mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{token}}}).Lease
		lease = time.Since(begin)
		ids := make([]mailbox.RowID, len(p.Rows))
		for i, row := range p.Rows {
			ids[i] = row.RowID
		}
		if len(ids) != mailbox.MaxPageRows || !do(mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: p.LeaseID, RowIDs: ids}}).AckLease.Accepted {
			b.Fatalf("a page of %d rows", len(ids))
		}
		return lease, time.Since(begin) - lease
	}
	var least, leases, acks, wire time.Duration
	for b.Loop() {
		lease, ack := page(tokens[0], inStore)
		leases, acks = leases+lease, acks+ack
		lease, ack = page(tokens[1], overWire)
		wire += lease + ack
		begin := time.Now()
		err := raw.View(func(rd kv.Reader) error {
			return rd.Scan(kv.Scan{Prefix: []byte{1}}, func(_, v []byte) error {
				if len(v) != len(row) {
					return errors.New("a row is missing")
				}
				return nil
			})
		})
		for range 2 {
			err = errors.Join(err, raw.Update(op, func(tx kv.Txn) error { return tx.Set([]byte{2}, row[:64]) }))
		}
		if err != nil {
			b.Fatal(err)
		}
		least += time.Since(begin)
	}
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 / float64(b.N) }
	b.ReportMetric((leases+acks).Seconds()/least.Seconds(), "times-raw")
	b.ReportMetric(ms(leases+acks), "store-ms/page")
	b.ReportMetric(ms(leases), "lease-ms")
	b.ReportMetric(ms(acks), "ack-ms")
	b.ReportMetric(ms(wire), "wire-ms/page")
	b.ReportMetric(0, "ns/op") // with the deposits it says nothing
}

// mailWire serves a relay on loopback and returns a client of it.
func mailWire(b *testing.B, r *relay.Relay) (do func(mailbox.Request) mailbox.Response, stop func()) {
	_, relayKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	_, clientKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := relay.NewServer(r, relayKey)
	if err != nil {
		b.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { _ = s.ServeQUIC(ctx, udp) })
	address := mailbox.Address{Scheme: "quic", Host: udp.LocalAddr().String(), Key: relayKey.Public().(ed25519.PublicKey)}
	c, err := endpoint.NewClient(address, clientKey, nil)
	if err != nil {
		b.Fatal(err)
	}
	do = func(req mailbox.Request) mailbox.Response {
		resp, err := c.Do(ctx, req)
		if err != nil {
			b.Fatal(err)
		}
		return resp
	}
	return do, func() { c.Close(); cancel(); served.Wait() }
}

// mailRest is how long the store's pool of compaction buffers takes to empty itself.
const mailRest = 20 * time.Second

// BenchmarkMailMemory fills a relay and reports by how much resident anonymous memory grew, at
// once and after a rest.
func BenchmarkMailMemory(b *testing.B) {
	rss := func() float64 {
		debug.FreeOSMemory()
		text, err := os.ReadFile("/proc/self/status")
		if err != nil {
			b.Skip("needs Linux")
		}
		_, after, _ := strings.Cut(string(text), "RssAnon:")
		kb, err := strconv.ParseFloat(strings.Fields(after)[0], 64)
		if err != nil {
			b.Fatal(err)
		}
		return kb / 1024
	}
	for b.Loop() {
		r, store := openMailRelay(b, b.TempDir())
		empty := rss()
		fillMail(b, r, short(65_000))
		b.ReportMetric(rss()-empty, "MiB-at-once")
		if !testing.Short() {
			time.Sleep(mailRest)
		}
		b.ReportMetric(rss()-empty, "MiB-above-empty")
		if err := store.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
