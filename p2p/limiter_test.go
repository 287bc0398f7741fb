package p2p

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A limited handler takes as much of "toy::reply" as it has asked for.
type limited struct {
	echoHandler
	bound int
}

func (l *limited) MaxPayload(string) int { return l.bound }

// A Limiter's bound counts at the moment of the message; meters of applications delay
// Send and refuse TrySend, and their excess costs a sender its address.
func TestLimiterAndMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &echo{}
		var l *limited
		n := newMemNet()
		node := n.start(t, "5.0.0.1", func(c *Config) {
			c.Protocols = []Protocol{{
				Name: "limited", Mask: SessionDefault,
				Commands: []Command{
					{Name: "toy::reply", MaxPayload: 1000},
					{Name: "toy::metered", MaxPayload: 10, Meter: Meter{Threshold: 2, StepMS: 1000, ExpiryMS: 10_000}},
				},
				Attach: func(p *Peer) Handler {
					l = &limited{echoHandler: echoHandler{e, p}, bound: 20}
					return l
				},
			}}
		})
		p := n.dialRaw(t, "5.0.0.2", node.url)
		p.answerPings()
		p.shake()
		peer := node.Peers()[0]
		p.send(frame("toy::reply", make([]byte, 20)))
		p.wantClosed(false)
		for i := range 3 {
			want := error(nil)
			if i == 2 {
				want = ErrPaced
			}
			if err := peer.TrySend(Message{Command: "toy::metered"}); !errors.Is(err, want) {
				t.Errorf("TrySend %d: %v", i+1, err)
			}
		}
		start := time.Now()
		if err := peer.Send(t.Context(), Message{Command: "toy::metered"}); err != nil || time.Since(start) != 2*time.Second {
			t.Errorf("Send: %v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := peer.Send(ctx, Message{Command: "toy::metered"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Send that gives up: %v", err)
		}
		if err := peer.SendLazy(t.Context(), "toy::reply", 10, func(int) ([]byte, error) { return make([]byte, 11), nil }); !errors.Is(err, ErrTooLarge) {
			t.Errorf("SendLazy past its own bound: %v", err)
		}
		if err := peer.SendLazy(t.Context(), "toy::reply", 10, func(int) ([]byte, error) { return []byte("ten bytes."), nil }); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if got := p.got("toy::reply"); len(got) != 1 || string(got[0]) != "ten bytes." {
			t.Errorf("replies %q", got)
		}
		if peer.queue.bytes != 0 || peer.queue.frames != 0 {
			t.Errorf("%d bytes in %d frames left in the queue", peer.queue.bytes, peer.queue.frames)
		}
		l.bound = 19
		p.send(frame("toy::reply", make([]byte, 20)))
		p.wantClosed(true)
		if node.hosts.counts()[black] != 0 {
			t.Error("banned")
		}
	})
}
