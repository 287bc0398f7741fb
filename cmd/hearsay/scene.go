package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/config"
)

// stepTimeout is how long each step of the scene may take. Everything is on one
// machine, so only a loaded one needs more than a second.
const stepTimeout = 30 * time.Second

// A scene is the demo played by itself. Each act says what it saw, or fails.
type scene struct {
	out   io.Writer
	stage *stage

	alice, bob, carol *ircClient // at node1, node3 and, late, node2

	mu       sync.Mutex
	receipts map[eventgraph.ID]eventgraph.Result // at node1; guarded by mu
	said     []string                            // what nobody without the key may read
}

func runScene(ctx context.Context, out io.Writer, port int, log *slog.Logger) (err error) {
	s := &scene{out: out, receipts: map[eventgraph.ID]eventgraph.Result{}}
	if s.stage, err = openStage(ctx, port, log); err != nil {
		return err
	}
	defer func() {
		for _, c := range []*ircClient{s.alice, s.bob, s.carol} {
			if c != nil {
				c.close()
			}
		}
		began := time.Now()
		if cerr := s.stage.close(); cerr != nil {
			err = errors.Join(err, cerr)
		} else if err == nil {
			s.say("the nodes stopped cleanly in %s", time.Since(began).Round(10*time.Millisecond))
		}
	}()
	defer s.stage.nodes[0].graph.ObserveReceipts(func(r eventgraph.Receipt) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.receipts[r.ID] = r.Result
	})()
	for _, act := range []struct {
		title string
		play  func(context.Context) error
	}{
		{"three nodes in a line find each other and are in step", s.meet},
		{"alice (node1) and bob (node3) connect with IRC", s.connect},
		{"gossip: what alice says in " + demoPublic + " reaches bob through node2", s.gossip},
		{"status: node2 gives node1 a receipt for it", s.receipt},
		{"an encrypted channel: bob reads it, the graph does not show it", s.encrypted},
		{"a direct message from alice to bob", s.private},
		{"the queue: alice speaks while no peer is there; node1 is restarted; node2 comes back; bob hears her", s.queue},
		{"mailbox: node3 is off and alice writes to bob; the relay is restarted; node3 comes back without peers and has it from a relay; then from node2 too, shown once", s.mailbox},
		{"history: carol (node2) comes late and reads what was said", s.history},
		{"all nodes hold the same events", s.same},
	} {
		step, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("not within %s", stepTimeout))
		err := act.play(step)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", act.title, err)
		}
		s.say("%s", act.title)
	}
	return nil
}

func (s *scene) say(format string, args ...any) { printf(s.out, "ok  "+format+"\n", args...) }

// until polls: for states that nobody announces.
func until(ctx context.Context, what string, ok func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

func (s *scene) meet(ctx context.Context) error {
	return until(ctx, "nodes are not synced", func() bool {
		for i, d := range s.stage.nodes {
			want := 1 // the ends of the line
			if i > 0 && i < len(s.stage.nodes)-1 {
				want = 2
			}
			if !d.gossip.Synced() || d.gossip.PutTargets() < want {
				return false
			}
		}
		return true
	})
}

func (s *scene) connect(ctx context.Context) (err error) {
	if s.alice, err = dialIRC(ctx, s.stage.nodes[0].ircAddr().String(), "alice", ""); err != nil {
		return err
	}
	if s.bob, err = dialIRC(ctx, s.stage.nodes[2].ircAddr().String(), "bob", ""); err != nil {
		return err
	}
	for _, c := range []*ircClient{s.alice, s.bob} {
		for _, channel := range []string{demoPublic, demoSecret} {
			if err := c.join(ctx, channel); err != nil {
				return fmt.Errorf("cannot join %s: %w", channel, err)
			}
		}
	}
	return nil
}

func (s *scene) gossip(ctx context.Context) error {
	s.alice.send("PRIVMSG " + demoPublic + " :hello from node1")
	if _, err := s.bob.waitMessage(ctx, "alice", demoPublic, "hello from node1"); err != nil {
		return err
	}
	s.bob.send("PRIVMSG " + demoPublic + " :hello back from node3")
	_, err := s.alice.waitMessage(ctx, "bob", demoPublic, "hello back from node3")
	return err
}

// receipt wants a Has for an event that node1 made itself.
func (s *scene) receipt(ctx context.Context) error {
	graph := s.stage.nodes[0].graph
	return until(ctx, "no receipt", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for id, result := range s.receipts {
			if a, err := graph.Arrival(id); err == nil && a.Source == eventgraph.SourceLocal && result.Has() {
				return true
			}
		}
		return false
	})
}

func (s *scene) encrypted(ctx context.Context) error {
	const text = "nobody else reads this"
	s.said = append(s.said, text)
	s.alice.send("PRIVMSG " + demoSecret + " :" + text)
	if _, err := s.bob.waitMessage(ctx, "alice", demoSecret, text); err != nil {
		return err
	}
	return s.hidden(ctx)
}

func (s *scene) private(ctx context.Context) error {
	const text = "only for bob"
	s.said = append(s.said, text)
	s.alice.send("PRIVMSG " + demoName(2) + " :" + text)
	if _, err := s.bob.waitMessage(ctx, demoName(0), "bob", text); err != nil {
		return err
	}
	return s.hidden(ctx)
}

// queue takes the middle of the line away, and the first node down, between a line
// that was accepted and its arrival.
func (s *scene) queue(ctx context.Context) error {
	const text = "said to nobody, heard all the same"
	node := s.stage.nodes[0]
	// What was said before has arrived, but its receipt may be on its way.
	if err := until(ctx, "earlier messages find no evidence", func() bool { return node.outboundStatus().Depth == 0 }); err != nil {
		return err
	}
	before := node.outboundStatus()
	middle, err := s.stage.halt(1)
	if err != nil {
		return err
	}
	if err := until(ctx, "node1 keeps a peer that is gone", func() bool { return node.gossip.PutTargets() == 0 }); err != nil {
		return err
	}
	s.alice.send("PRIVMSG " + demoPublic + " :" + text)
	if err := until(ctx, "not accepted", func() bool { return node.outboundStatus().Depth == 1 }); err != nil {
		return err
	}
	events := node.graph.Stats().Events
	s.alice.close()
	first, err := s.stage.halt(0)
	if err != nil {
		return err
	}
	if err := s.stage.start(ctx, 0, first); err != nil {
		return err
	}
	node = s.stage.nodes[0]
	if now := node.outboundStatus(); now.Depth != 1 || now.Head.State != "waiting" || node.graph.Stats().Events != events {
		return errors.New("the message did not wait")
	}
	if s.alice, err = dialIRC(ctx, node.ircAddr().String(), "alice", ""); err != nil {
		return err
	}
	if err := s.stage.start(ctx, 1, middle); err != nil {
		return err
	}
	if _, err := s.bob.waitMessage(ctx, "alice", demoPublic, text); err != nil {
		return err
	}
	return until(ctx, "no evidence", func() bool {
		now := node.outboundStatus()
		return now.Depth == 0 && now.AckedTotal == before.AckedTotal+1
	})
}

// mailbox turns node3 off while alice writes to bob, and on again where nobody but the
// relay can give it the message. Alice's deposit stays until bob's receipt.
func (s *scene) mailbox(ctx context.Context) error {
	const text, next = "kept for bob", "and now live"
	s.said = append(s.said, text, next)
	node, relay := s.stage.nodes[0], s.stage.relay
	pending := func() int { return node.custody.mail.status().DepositsPending }
	nothing := func() bool { return pending() == 0 && relay.status().Rows == 0 }
	if err := until(ctx, "an earlier deposit has no receipt", nothing); err != nil {
		return err
	}
	last, err := s.stage.halt(2)
	if err != nil {
		return err
	}
	s.bob.close()
	s.alice.send("PRIVMSG " + demoName(2) + " :" + text)
	if err := until(ctx, "nothing was deposited", func() bool { return relay.status().Rows == 1 && node.outboundStatus().Depth == 0 }); err != nil {
		return err
	}
	// The relay goes and comes back: what it accepted is there.
	if err := s.stage.again(); err != nil {
		return err
	}
	if relay = s.stage.relay; relay.status().Rows != 1 {
		return errors.New("the relay has lost what it accepted")
	}
	alone := *last
	alone.Net.Peers = nil
	back := func(cfg *config.Config) (err error) {
		if err := s.stage.start(ctx, 2, cfg); err != nil {
			return err
		}
		if s.bob, err = dialIRC(ctx, s.stage.nodes[2].ircAddr().String(), "bob", ""); err != nil {
			return err
		}
		_, err = s.bob.waitMessage(ctx, demoName(0), "bob", text)
		return err
	}
	if pending() != 1 {
		return errors.New("the deposit is gone before its receipt")
	}
	if err := back(&alone); err != nil {
		return err
	}
	if s.stage.nodes[2].graph.Stats().Events >= node.graph.Stats().Events {
		return errors.New("node3 has it from the graph")
	}
	if err := until(ctx, "no receipt", nothing); err != nil {
		return err
	}
	s.bob.close()
	if _, err := s.stage.halt(2); err != nil {
		return err
	}
	if err := back(last); err != nil {
		return err
	}
	if err := until(ctx, "node3 does not catch up", func() bool { return s.stage.nodes[2].graph.Stats().Events == node.graph.Stats().Events }); err != nil {
		return err
	}
	s.alice.send("PRIVMSG " + demoName(2) + " :" + next)
	if _, err := s.bob.waitMessage(ctx, demoName(0), "bob", next); err != nil {
		return err
	}
	if n := s.bob.count(" :" + text); n != 1 {
		return fmt.Errorf("it was shown %d times", n)
	}
	return s.hidden(ctx)
}

// hidden looks for secrets in what every node stores for everybody.
func (s *scene) hidden(ctx context.Context) error {
	for i, d := range s.stage.nodes {
		for e, err := range graphEvents(ctx, d.graph) {
			if err != nil {
				return err
			}
			for _, text := range append(s.said, demoSecret) {
				if bytes.Contains(e.Content, []byte(text)) {
					return fmt.Errorf("%s stores a secret in clear", demoName(i))
				}
			}
		}
	}
	return nil
}

func (s *scene) history(ctx context.Context) (err error) {
	if s.carol, err = dialIRC(ctx, s.stage.nodes[1].ircAddr().String(), "carol", ""); err != nil {
		return err
	}
	s.carol.send("JOIN " + demoPublic)
	for _, m := range [][2]string{{"alice", "hello from node1"}, {"bob", "hello back from node3"}} {
		line, err := s.carol.waitMessage(ctx, m[0], demoPublic, m[1])
		if err != nil {
			return err
		}
		if !strings.Contains(strings.SplitN(line, " ", 2)[0], "time=") {
			return errors.New("a line of the history does not say when it was said")
		}
	}
	return nil
}

func (s *scene) same(ctx context.Context) error {
	return until(ctx, "graphs differ", func() bool {
		var first map[eventgraph.ID]bool
		for _, d := range s.stage.nodes {
			ids := map[eventgraph.ID]bool{}
			for e, err := range graphEvents(ctx, d.graph) {
				if err != nil {
					return false
				}
				ids[e.ID()] = true
			}
			if first == nil {
				first = ids
			}
			if len(ids) != len(first) {
				return false
			}
			for id := range ids {
				if !first[id] {
					return false
				}
			}
		}
		return true
	})
}
