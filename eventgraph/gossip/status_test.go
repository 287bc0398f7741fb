package gossip

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"hearsay/eventgraph"
	"hearsay/p2p"
)

// A lineLog is a logger's lines.
type lineLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lineLog) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// DS-06: statuses are metered as the other messages of the event graph are: not at all.
// A meter of their own would make a burst of answers cost us the connection.
func TestStatusMeter_DS06(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		meters := map[string]p2p.Meter{}
		for _, c := range n.gossip.Protocol().Commands {
			meters[c.Name] = c.Meter
		}
		put, ok1 := meters[CmdEventPut]
		status, ok2 := meters[CmdEventPutStatus]
		if !ok1 || !ok2 || put != status || status.Threshold != 0 {
			t.Errorf("EventPut has %+v, EventPutStatus %+v", put, status)
		}
		if len(meters) != 12 {
			t.Errorf("%d commands", len(meters))
		}
	})
}

// DS-04, DS-05: an answer is 34 bytes, id and outcome, on the connection of the put; a
// status that came is told the application and no other peer.
func TestStatusIsUnicast_DS04_DS05(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := newNode(t, synced)
		p := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		q := newPuppet(t, n, p2p.SessionOutbound, true, inStep)
		e := n.child("one")
		p.put(e)
		p.say(CmdEventPutStatus, AppendStatus(nil, eventgraph.Status{ID: e.ID(), Result: eventgraph.HasAlready}))
		p.say(CmdEventPutStatus, AppendStatus(nil, eventgraph.Status{ID: numbered(3), Result: eventgraph.NackTooOld}))
		rest(readyAfter)
		id, statuses := e.ID(), 0
		for _, m := range p.got {
			if m.Command != CmdEventPutStatus {
				continue
			}
			statuses++
			if want := append(bytes.Clone(id[:]), 0, 1); !bytes.Equal(m.Payload, want) {
				t.Errorf("told %x, want %x", m.Payload, want)
			}
		}
		if statuses != 1 {
			t.Errorf("%d statuses for one put", statuses)
		}
		if got := heard[eventgraph.Status](q, CmdEventPutStatus); len(got) > 0 {
			t.Errorf("a bystander is told %v", got)
		}
		if len(n.statuses(numbered(3))) != 1 {
			t.Error("the application is not told")
		}
	})
}

// DS-03: the first bad status of a connection is warned of, and no other; no strike.
func TestBadStatusIsWarnedOnce_DS03(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var log lineLog
		n := newNode(t, func(c *Config, _ *node) {
			c.SkipSync, c.Logger = true, slog.New(slog.NewTextHandler(&log, nil))
		})
		for want := 1; want <= 2; want++ {
			p := newPuppet(t, n, p2p.SessionOutbound, true, nil)
			for _, bad := range [][]byte{nil, make([]byte, 33), make([]byte, 35), append(make([]byte, 32), 9, 0), append(make([]byte, 32), 1, 4)} {
				for range 20 {
					p.say(CmdEventPutStatus, bad)
				}
			}
			if got := log.count("level=WARN"); got != want {
				t.Errorf("%d warnings after %d connections", got, want)
			}
			if p.ctx.Err() != nil {
				t.Errorf("closed: %v", context.Cause(p.ctx))
			}
		}
		n.wantStrikes(0)
	})
}
