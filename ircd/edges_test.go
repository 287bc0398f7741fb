package ircd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/box"
	"hearsay/internal/privmsg"
	"hearsay/internal/readstate"
	"hearsay/outbound"
)

// TestClientTagsAreNotKept: client-only tags are for those who are there; history has none.
func TestClientTagsAreNotKept(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.join("alice", "#dev", "message-tags"), h.join("bob", "#dev", "message-tags")
		a.got()
		a.do("@+reply=1 PRIVMSG #dev :x")
		wantPart(t, b.got(), "+reply=1")
		lines := h.register("carol", "message-tags").do("JOIN #dev")
		wantPart(t, lines, "PRIVMSG #dev :x")
		wantNone(t, lines, "+reply")
	})
}

// gatedLog holds reads of single messages up while closed is not nil.
type gatedLog struct {
	Log
	closed *chan struct{}
}

func (g gatedLog) Get(at arrival.Seq) (Arrival, bool, error) {
	if c := *g.closed; c != nil {
		<-c
	}
	return g.Log.Get(at)
}

// TestKeyGoesWhileHistoryIsRead: what was being read with a key that is gone is not shown, by
// CHATHISTORY or HISTORY (T22).
func TestKeyGoesWhileHistoryIsRead(t *testing.T) {
	ours, bobs := people(t)
	without := ours
	without.Channels = ours.Channels[1:]
	for _, c := range []struct{ ask, answer string }{
		{"CHATHISTORY LATEST #secret * 5", "FAIL CHATHISTORY MESSAGE_ERROR LATEST #secret :The configuration has just changed"},
		{"PRIVMSG *status :HISTORY #secret", ":The configuration has just changed: please ask again"},
	} {
		var closed chan struct{}
		serve(t, func(cfg *Config, g *fakeGraph) {
			cfg.Settings = ours
			g.hear(seal(t, bobs, "#secret", "rob", "sealed"))
			cfg.Log = gatedLog{cfg.Log, &closed}
		}, func(h *harness) {
			a := h.register("alice", chCaps...)
			wantPart(t, a.do(c.ask), "PRIVMSG #secret :sealed")
			closed = make(chan struct{})
			want(t, a.do(c.ask))
			h.apply(without)
			close(closed)
			closed = nil
			lines := a.got()
			wantPart(t, lines, c.answer)
			wantNone(t, lines, "sealed")
		})
	}
}

// TestCursorBeforeWhatIsHeld: an arrival that waits for an accept under way was not read, though what came after it was.
func TestCursorBeforeWhatIsHeld(t *testing.T) {
	reads := readstate.OpenMemory(nil)
	serve(t, func(c *Config, _ *fakeGraph) { c.ReadState = reads }, func(h *harness) {
		h.outbox.delay = time.Minute
		a, _ := h.on("phone")
		b, _ := h.on("desk")
		h.graph.say("#dev", "rob", "one")
		a.got()
		b.send("PRIVMSG #dev :slow")
		synctest.Wait()
		h.graph.insert((&privmsg.Message{Channel: "#dev", Nick: "tool", Text: "made here"}).AppendTo(nil), eventgraph.SourceLocal, time.Now())
		h.graph.say("#dev", "rob", "three")
		want(t, texts(a.got(), "PRIVMSG"), "three")
		a.proves()
		a.do("QUIT")
		if got := reads.Cursors("me@phone")[h.server.readKey("#dev")]; got != 1 {
			t.Errorf("the cursor is at %d", got)
		}
		time.Sleep(2 * time.Minute)
		_, lines := h.on("phone")
		want(t, texts(lines, "PRIVMSG"), "slow", "made here")
	})
}

// TestHeldAndThenPrivate: what was said in clear and waited for an accept is not shown in a channel that has
// become a private one meanwhile.
func TestHeldAndThenPrivate(t *testing.T) {
	ours, _ := people(t)
	serve(t, nil, func(h *harness) {
		h.outbox.delay = time.Minute
		a, b := h.join("alice", "#secret"), h.join("bob", "#secret,#dev")
		a.got()
		b.send("PRIVMSG #dev :slow")
		synctest.Wait()
		h.graph.insert((&privmsg.Message{Channel: "#secret", Nick: "tool", Text: "in clear"}).AppendTo(nil), eventgraph.SourceLocal, time.Now())
		want(t, a.got())
		h.apply(ours)
		time.Sleep(2 * time.Minute)
		wantNone(t, a.got(), "in clear")
	})
}

// TestHistoryAge: without a device, what is older than HistoryAge is not shown at a JOIN, though it is in memory
// still.
func TestHistoryAge(t *testing.T) {
	serve(t, func(c *Config, _ *fakeGraph) { c.HistoryAge = time.Hour }, func(h *harness) {
		h.graph.say("#dev", "rob", "old")
		synctest.Wait()
		time.Sleep(time.Hour)
		h.graph.say("#dev", "rob", "new")
		synctest.Wait()
		want(t, texts(h.register("alice").do("JOIN #dev"), "PRIVMSG"), "old", "new") // at the age
		time.Sleep(time.Second)
		want(t, texts(h.register("bob").do("JOIN #dev"), "PRIVMSG"), "new") // past it
	})
}

// TestProofThatNeverComes: a client that does not answer one question is asked another, later.
func TestProofThatNeverComes(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, _ := h.on("phone")
		h.graph.say("#dev", "rob", "one")
		time.Sleep(2 * tick)
		wantPart(t, a.got(), " PING :read-1")
		time.Sleep(probeTimeout - 3*tick)
		wantNone(t, a.do("PONG :something"), "PING :read")
		time.Sleep(3 * tick)
		wantPart(t, a.got(), " PING :read-2")
	})
}

// shortOutbox answers for fewer parts than it was given.
type shortOutbox struct{ Outbox }

func (o shortOutbox) Accept(ctx context.Context, parts []Message) ([]Accepted, error) {
	all, err := o.Outbox.Accept(ctx, parts)
	return all[1:], err
}

// TestOutboxThatLosesCount: what became of a message of which not every part was answered for is
// not known, and said so once.
func TestOutboxThatLosesCount(t *testing.T) {
	serve(t, func(c *Config, _ *fakeGraph) { c.Outbox = shortOutbox{c.Outbox} }, func(h *harness) {
		a, b := h.join("alice", "#dev", "echo-message"), h.join("bob", "#dev")
		a.got()
		lines := a.do("PRIVMSG #dev :x")
		if len(lines) != 1 {
			t.Errorf("%q", lines)
		}
		wantPart(t, lines, " 404 alice #dev :[STORAGE_UNKNOWN] ")
		want(t, b.got())
	})
}

// TestSaidBeforeTheLogIsComplete: what is said meanwhile waits, in order, and not without bound: who
// said it sees it at once, and the rest is in CHATHISTORY.
func TestSaidBeforeTheLogIsComplete(t *testing.T) {
	const over = 3
	var slow chan struct{}
	serve(t, func(c *Config, g *fakeGraph) {
		slow = make(chan struct{})
		g.say("#dev", "rob", "before")
		c.Log = stall{c.Log, slow}
	}, func(h *harness) {
		a, b := h.join("alice", "#dev", "echo-message"), h.join("bob", "#dev", "no-history")
		a.got()
		for i := range maxEntries + over {
			if got := texts(a.do(fmt.Sprintf("PRIVMSG #dev :%d", i)), "PRIVMSG"); len(got) != 1 {
				t.Fatalf("%d: %q", i, got)
			}
		}
		want(t, texts(b.got(), "PRIVMSG"))
		close(slow)
		time.Sleep(time.Second)
		got := texts(b.got(), "PRIVMSG")
		if len(got) != maxEntries || got[0] != "0" || got[len(got)-1] != fmt.Sprint(maxEntries-1) {
			t.Errorf("%d, from %q", len(got), got[:min(len(got), 3)])
		}
	})
}

// TestReloadChangesContactKey: with another key a contact is somebody else. What was said under the old
// one is not shown as theirs, and what the new one opens is.
func TestReloadChangesContactKey(t *testing.T) {
	ours, bobs := people(t)
	fresh := box.GenerateSecret()
	newOurs, newBobs := ours, bobs
	newOurs.Contacts = []Contact{{Label: "Bob", Public: bobs.Contacts[0].Secret.Public(), Secret: fresh}}
	newBobs.Contacts = []Contact{{Label: "us", Public: fresh.Public(), Secret: bobs.Contacts[0].Secret}}
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		h.graph.hear(seal(t, bobs, "us", "", "old"))
		h.graph.hear(seal(t, newBobs, "us", "", "new"))
		synctest.Wait()
		wantPart(t, h.apply(newOurs), "contact Bob has another key")
		c := h.dial()
		want(t, texts(c.do("NICK carol", "USER c 0 * :c"), "PRIVMSG"), "new")
	})
}

// TestClearArrivalOfAPrivateChannel: the loop does not take the feed's word for it: what was opened in clear
// is not shown in a channel that is private by now (T4).
func TestClearArrivalOfAPrivateChannel(t *testing.T) {
	ours, _ := people(t)
	s, _ := newLoop(t, func(c *Config) { c.Settings = ours })
	s.catchUp()
	a := connect(s, t, "alice", 0)
	s.input(t, a, "JOIN #secret")
	output(t, a)
	s.handle(t.Context(), evArrival{0, incoming{
		seq: 1, kind: privmsg.Public, name: "#Secret", nick: "rob", lines: []string{"in clear"}, logical: "x", arrived: time.Now(),
	}})
	if lines := output(t, a); len(lines) != 0 {
		t.Errorf("%q", lines)
	}
	s.handle(t.Context(), evArrival{0, incoming{
		seq: 2, kind: privmsg.Channel, name: "#secret", nick: "rob", lines: []string{"opened"}, logical: "y", arrived: time.Now(),
	}})
	wantPart(t, output(t, a), "PRIVMSG #secret :opened")
}

// TestArrivalOfAnEarlierFeed: what was opened with keys that have been replaced since is not shown.
func TestArrivalOfAnEarlierFeed(t *testing.T) {
	s, _ := newLoop(t, nil)
	a := connect(s, t, "alice", 0)
	s.input(t, a, "JOIN #dev")
	output(t, a)
	s.feed = 2
	for wanted, feed := range []int{1, 2} {
		s.handle(t.Context(), evArrival{feed, incoming{
			seq: arrival.Seq(feed), kind: privmsg.Public, name: "#dev", nick: "rob", lines: []string{"x"}, logical: fmt.Sprint(feed), arrived: time.Now(),
		}})
		if lines := output(t, a); len(lines) != wanted {
			t.Errorf("feed %d: %q", feed, lines)
		}
	}
}

// TestContactsGoFirst: a nick that is connected here and became the name of a contact is that (contract).
func TestContactsGoFirst(t *testing.T) {
	ours, _ := people(t)
	serve(t, nil, func(h *harness) {
		a, b := h.register("alice"), h.register("bob")
		a.do("PRIVMSG bob :stays here")
		wantPart(t, b.got(), ":alice!~alice@hearsay PRIVMSG bob :stays here")
		h.apply(ours)
		wantPart(t, b.got(), "Your nick is now the name of a contact")
		want(t, a.do("PRIVMSG bob :goes out", "NOTICE BOB :too"))
		want(t, b.got())
		if n := h.outbox.n; n != 2 {
			t.Errorf("%d accepted", n)
		}
	})
}

// TestOwnIDsAreBounded: at the bound, and one past it.
func TestOwnIDsAreBounded(t *testing.T) {
	s, _ := newLoop(t, nil)
	for i := range maxOwn {
		s.remember(fmt.Sprint(i))
	}
	if len(s.own) != maxOwn || !s.own["0"] {
		t.Errorf("%d", len(s.own))
	}
	s.remember("one more")
	if len(s.own) != maxOwn || s.own["0"] || !s.own["1"] || !s.own["one more"] {
		t.Errorf("%d", len(s.own))
	}
}

// TestMonitorFolds: a watched nick is given up in any case of letters.
func TestMonitorFolds(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.register("alice")
		a.do("MONITOR + Bob,carol", "MONITOR - bOB")
		want(t, a.do("MONITOR L"), ":irc.hearsay 732 alice :carol", ":irc.hearsay 733 alice :End of MONITOR list")
		h.register("bob")
		want(t, a.got())
	})
}

// TestLocalIDsAreNotUsedAgain: after a restart, what stays here has new ids.
func TestLocalIDsAreNotUsedAgain(t *testing.T) {
	seen := map[string]bool{}
	synctest.Test(t, func(t *testing.T) {
		for range 2 {
			time.Sleep(time.Second)
			s, _ := newLoop(t, nil)
			a := connect(s, t, "alice", capMessageTags)
			output(t, a)
			for range 3 {
				s.input(t, a, "PRIVMSG alice :x")
				s.input(t, a, "@+x TAGMSG alice")
			}
			for _, l := range output(t, a) {
				id := tag(l, "msgid")
				if id == "" || seen[id] {
					t.Errorf("%q", l)
				}
				seen[id] = true
			}
		}
	})
	if len(seen) != 12 {
		t.Errorf("%d ids", len(seen))
	}
}

// TestLabelBound: a label at the bound of labeled-response is answered with, one past it is none.
func TestLabelBound(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.register("alice", "labeled-response", "batch")
		label := strings.Repeat("l", maxLabel)
		want(t, a.do("@label="+label+" PING x"), "@label="+label+" :irc.hearsay PONG irc.hearsay :x")
		want(t, a.do("@label="+label+"l PING x"), ":irc.hearsay PONG irc.hearsay :x")
	})
}

// TestNoticesAreBounded: of many notices between two looks the newest are told.
func TestNoticesAreBounded(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.register("alice")
		for i := range maxNotices + 1 {
			h.server.Notify(outbound.Notice{Reason: outbound.ReasonConnections, Have: i, Want: 99})
		}
		time.Sleep(tick)
		lines := texts(a.got(), "NOTICE")
		if len(lines) != maxNotices || !has(lines[:1], "connected to 1 of 99") {
			t.Errorf("%d: %q", len(lines), lines)
		}
	})
}
