package p2p_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"hearsay/p2p"
)

// A sink keeps what it is sent and, where it dialed, sends a burst of its own.
type sink struct {
	peer  *p2p.Peer
	burst int
	got   chan int
}

func (s *sink) Handle(_ string, payload []byte) error {
	s.got <- len(payload)
	return nil
}

func (s *sink) Run(ctx context.Context) error {
	for range s.burst {
		if err := s.peer.Send(ctx, p2p.Message{Command: "sink::Put", Payload: make([]byte, 100_000)}); err != nil {
			return err
		}
	}
	return nil
}

// Two nodes over the kernel's sockets, by every transport that needs no proxy: both
// ways arrive whole, and the end is orderly (ST-07).
func TestOverRealTransports(t *testing.T) {
	for _, listen := range []string{
		"tcp://127.0.0.1:0", "tcp+tls://127.0.0.1:0", "quic://127.0.0.1:0", "unix://" + filepath.Join(t.TempDir(), "s"),
	} {
		u := p2p.MustParseURL(listen)
		t.Run(u.Scheme(), func(t *testing.T) {
			const burst = 20
			start := func(cfg p2p.Config, burst int) (*p2p.Node, chan int, func() error) {
				got := make(chan int, 2*burst+100)
				cfg.ActiveProfiles, cfg.Localnet, cfg.OutboundConnections = []string{u.Scheme()}, true, -1
				cfg.Protocols = []p2p.Protocol{{
					Name: "sink", Mask: p2p.SessionDefault,
					Commands: []p2p.Command{{Name: "sink::Put", MaxPayload: 100_000}},
					Attach:   func(p *p2p.Peer) p2p.Handler { return &sink{p, burst, got} },
				}}
				n, err := p2p.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- n.Run(ctx) }()
				select {
				case <-n.Listening():
				case err := <-done:
					t.Fatal(err)
				}
				return n, got, func() error {
					cancel()
					return <-done
				}
			}
			a, gotA, stopA := start(p2p.Config{Inbound: []p2p.URL{u}}, burst)
			b, gotB, stopB := start(p2p.Config{Peers: a.ListenAddrs()}, burst)
			for name, got := range map[string]chan int{"listener": gotA, "dialer": gotB} {
				for i := range burst {
					select {
					case n := <-got:
						if n != 100_000 {
							t.Errorf("%s: message %d has %d bytes", name, i, n)
						}
					case <-time.After(time.Minute):
						t.Fatalf("%s: %d messages of %d arrived", name, i, burst)
					}
				}
			}
			if len(a.Peers()) != 1 || len(b.Peers()) != 1 {
				t.Fatalf("%d and %d peers", len(a.Peers()), len(b.Peers()))
			}
			// What is queued when a node stops arrives all the same.
			for i := range 5 {
				m := p2p.Message{Command: "sink::Put", Payload: make([]byte, 50_000+i)}
				if err := b.Peers()[0].TrySend(m); err != nil {
					t.Fatal(err)
				}
			}
			p := a.Peers()[0]
			if err := stopB(); !errors.Is(err, context.Canceled) {
				t.Errorf("dialer: %v", err)
			}
			<-p.Context().Done()
			if cause := context.Cause(p.Context()); !errors.Is(cause, p2p.ErrDisconnected) {
				t.Errorf("the listener saw %v", cause)
			}
			for i := range 5 {
				select {
				case n := <-gotA:
					if n != 50_000+i {
						t.Errorf("last message %d has %d bytes", i, n)
					}
				case <-time.After(10 * time.Second):
					t.Fatalf("%d last messages of 5 arrived", i)
				}
			}
			if err := stopA(); !errors.Is(err, context.Canceled) {
				t.Errorf("listener: %v", err)
			}
			if s := fmt.Sprint(a.Stats().Faults, a.Stats().Bans, b.Stats().Faults, b.Stats().Bans); s != "0 0 0 0" {
				t.Errorf("faults and bans %s", s)
			}
		})
	}
}
