package relay

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/mailbox"
)

// silentStream is a request that never comes, until its deadline.
type silentStream struct {
	once  sync.Once
	ended chan struct{}
}

func (s *silentStream) Read([]byte) (int, error)    { <-s.ended; return 0, io.ErrUnexpectedEOF }
func (s *silentStream) Write(b []byte) (int, error) { return len(b), nil }
func (s *silentStream) CloseWrite() error           { return nil }
func (s *silentStream) SetReadDeadline(at time.Time) error {
	time.AfterFunc(time.Until(at), func() { s.once.Do(func() { close(s.ended) }) })
	return nil
}
func (s *silentStream) SetWriteDeadline(time.Time) error { return nil }

// TestPending (MB-21): silent requests from many addresses: as many as the bound are waited for,
// one more is refused at once, and after the time for reading there is room again. One address
// gets its own bound only.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Config{Store: newMapStore()})
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewServer(r, ed25519.NewKeyFromSeed(make([]byte, 32)))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		results := make(chan error, 2*maxPending)
		// Streams that wait for memory count too; what matters is how many are under way.
		begin := func(ip byte) {
			go func() {
				results <- s.serveStream(ctx, &silentStream{ended: make(chan struct{})}, &net.UDPAddr{IP: net.IPv4(192, 0, 2, ip)}, make([]byte, 32), mailbox.ProtocolBase)
			}()
			synctest.Wait()
		}
		for range maxPendingPerAddress {
			begin(1)
		}
		begin(1)
		if err := <-results; !errors.Is(err, errRefused) {
			t.Fatalf("one past the bound of an address: %v", err)
		}
		for i := range maxPending - maxPendingPerAddress {
			begin(byte(2 + i/maxPendingPerAddress))
		}
		if len(results) != 0 {
			t.Fatalf("refused within the bound: %v", <-results)
		}
		begin(200)
		if err := <-results; !errors.Is(err, errRefused) {
			t.Fatalf("one past the bound of all: %v", err)
		}
		time.Sleep(2*requestTimeout + time.Second)
		synctest.Wait()
		if len(results) != maxPending {
			t.Errorf("%d of %d ended", len(results), maxPending)
		}
		begin(200)
		if !s.pending.TryAcquire(maxPending - 1) {
			t.Error("places were not given back")
		}
		cancel()
		time.Sleep(requestTimeout + time.Second)
	})
}

// TestProfile pins the numbers of MB-50, MB-07 and MB-28, which the record gives.
func TestProfile(t *testing.T) {
	want := Limits{
		EnvelopeTTL: 2_592_000 * time.Second, TokenTTL: 5_184_000 * time.Second, LeaseTTL: 120 * time.Second, DedupTTL: 3600 * time.Second,
		PageRows: 128, PageBytes: 1_048_576, RequestTokens: 4096,
		ClientTokens: 4096, ClientRows: 4096, ClientBytes: 33_554_432, ClientLeases: 4, ClientRequests: 2048,
		TokenRows: 256, TokenBytes: 16_777_216, TokenLeases: 2,
		RelayRows: 65_536, RelayBytes: 67_108_864, RelayLeases: 4096, RelayRequests: 8192,
		Registrations: 262_144, RateRows: 16_384, DedupRows: 65_536, AckedLeases: 16_384, PenaltyRows: 128,
	}
	if got := Profile(); got != want {
		t.Errorf("the profile is %+v", got)
	}
	if maxStreams != 8 || windowSeconds != 60 {
		t.Error("streams of a connection, or the window of requests")
	}
	for name, bad := range map[string]Limits{"rate": {ClientRequests: maxRate + 1}, "rows": {ClientRows: 4097}, "below zero": {RelayRequests: -1}} {
		if _, err := bad.withDefaults(); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if l, err := (Limits{ClientRequests: maxRate, RelayRequests: maxRate}).withDefaults(); err != nil || l.RelayRequests != maxRate {
		t.Errorf("raised rates: %v", err)
	}
}
