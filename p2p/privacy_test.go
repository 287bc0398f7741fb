package p2p

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// DS-51: a ConnID and a Peer print as nothing that helps anybody.
func TestNothingPrints(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	id := ConnID(987654321)
	p := &Peer{id: id, url: MustParseURL("tcp://5.6.7.8:9600")}
	holder := struct {
		ID   ConnID
		Peer *Peer
	}{id, p}
	var out strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%d", "%x", "%s", "%q", "%T"} {
		for _, v := range []any{id, p, holder, &holder, []ConnID{id}, map[ConnID]int{id: 1}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	text, err := json.Marshal(map[string]any{"id": id, "ids": []ConnID{id}, "map": map[ConnID]int{id: 1}})
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("x", "id", id, "peer", p, "holder", holder)
	for _, s := range []string{out.String(), string(text), log.String(), id.String()} {
		for _, secret := range []string{"987654321", "3ade68b1", "5.6.7.8", "9600"} {
			if strings.Contains(s, secret) {
				t.Errorf("%q is in %q", secret, s)
			}
		}
	}
}

// A syncBuffer is a log that several goroutines write.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

// Whatever happens, no address is logged, at any level; nor is one in a connection's
// cause. The observer, which is for viewers, gets it all.
func TestLogsHoldNoAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log syncBuffer
		var mu sync.Mutex
		kinds := make(map[EventKind]bool)
		n := newMemNet()
		seed, seeds := n.listenRaw(t, "5.0.0.8")
		slot, slots := n.listenRaw(t, "5.0.0.7")
		e := &echo{handle: func(*Peer, []byte) error { return errors.New("boom") }}
		node := n.start(t, "5.0.0.1", func(c *Config) {
			withEcho(e)(c)
			c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			c.OutboundConnections = 2
			c.Seeds, c.Peers = []URL{seed}, []URL{seed, MustParseURL("tcp://5.0.0.6:9600")}
			c.Observer = func(e Event) {
				mu.Lock()
				defer mu.Unlock()
				kinds[e.Kind] = true
			}
		})
		node.know(white, slot, 1)
		node.wakeSlots()
		taken(t, seeds).shake()
		s := taken(t, slots)
		s.shake()
		for i, b := range [][]byte{frame("toy::msg", nil), frame("foo", nil), []byte("garbage"), frame(cmdPing, []byte{1})[:3]} {
			p := n.dialRaw(t, fmt.Sprintf("5.0.1.%d", i), node.url)
			p.shake()
			p.send(b)
			p.conn.Close()
		}
		if _, release, err := node.Direct(t.Context(), MustParseURL("tcp://5.0.0.5:1")); err == nil {
			release()
		}
		s.conn.Close()
		settle(time.Minute)
		for _, p := range e.attached {
			if cause := context.Cause(p.Context()); cause == nil || strings.Contains(cause.Error(), "5.0.") {
				t.Errorf("cause %v", cause)
			}
		}
		node.stop(t)
		log.mu.Lock()
		text := log.b.String()
		log.mu.Unlock()
		if !strings.Contains(text, "peer disconnected") || !strings.Contains(text, "unknown command") {
			t.Errorf("log without events:\n%s", text)
		}
		if strings.Contains(text, "5.0.") || strings.Contains(text, "9600") || strings.Contains(text, "boom") {
			t.Errorf("an address or a handler's error is in the log:\n%s", text)
		}
		for _, k := range []EventKind{
			EventSend, EventRecv, EventInboundConnected, EventInboundDisconnected, EventSlotSleeping, EventSlotConnecting,
			EventSlotConnected, EventSlotDisconnected, EventPeerDiscovery, EventDirectConnecting, EventDirectDisconnected,
		} {
			if !kinds[k] {
				t.Errorf("no event %s", k)
			}
		}
	})
}

// The IPv6 address that most peers see stands in for a wildcard.
func TestExternalIPv6(t *testing.T) {
	n, err := New(Config{ExternalAddrs: []URL{
		MustParseURL("tcp+tls://[::]:9600"), MustParseURL("quic://[::]:9600"), MustParseURL("tcp://1.2.3.4:1"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	first := func() string { return n.externalAddrs()[0].String() }
	if got := first(); got != "tcp+tls://[::]:9600/" {
		t.Errorf("without peers: %s", got)
	}
	n.noteIPv6(MustParseURL("tcp://5.5.5.5:1"))
	n.noteIPv6(MustParseURL("tcp://[2606::2]:1"))
	for range 2 {
		n.noteIPv6(MustParseURL("tcp://[2606::1]:1"))
	}
	if got := first(); got != "tcp+tls://[2606::1]:9600/" {
		t.Errorf("%s", got)
	}
	if got := n.externalAddrs()[1].String(); got != "quic://[::]:9600/" {
		t.Errorf("quic: %s", got)
	}
	for range ipv6Ring {
		n.noteIPv6(MustParseURL("tcp://[2606::3]:1"))
	}
	if got := first(); got != "tcp+tls://[2606::3]:9600/" || len(n.seenAs) != ipv6Ring {
		t.Errorf("%s, %d noted", got, len(n.seenAs))
	}
}
