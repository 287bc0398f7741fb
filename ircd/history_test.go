package ircd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/privmsg"
)

// TestHistory: in order of arrival, with times and ids, as a batch; the same id as live
// (failure-cases IRC 16, 18).
func TestHistory(t *testing.T) {
	var live eventgraph.Event
	serve(t, func(c *Config, g *fakeGraph) {
		g.insert((&privmsg.Message{Channel: "#dev", Nick: "rob", Text: "first to arrive"}).AppendTo(nil), eventgraph.SourceSync, time.Now().Add(-time.Minute))
		g.insert((&privmsg.Message{Channel: "#dev", Nick: "rob", Text: "older, but later here"}).AppendTo(nil), eventgraph.SourceSync, time.Now().Add(-time.Hour))
	}, func(h *harness) {
		a := h.join("alice", "#dev", "batch", "server-time", "message-tags")
		a.got()
		live = h.graph.say("#dev", "rob", "live")
		want(t, texts(a.got(), "PRIVMSG"), "live")
		a.do("PRIVMSG #dev :mine")
		time.Sleep(time.Second)

		b := h.register("bob", "batch", "server-time", "message-tags")
		lines := b.do("JOIN #dev")
		want(t, texts(lines, "PRIVMSG"), "first to arrive", "older, but later here", "live", "mine")
		start, end := find(lines, "BATCH +"), find(lines, "BATCH -")
		if start < find(lines, " 366 ") || !strings.HasSuffix(lines[start], " chathistory #dev") || end != start+5 {
			t.Errorf("batch at %d..%d of %q", start, end, lines)
		}
		ref := lines[start][strings.Index(lines[start], "+")+1:]
		ref, _, _ = strings.Cut(ref, " ")
		for _, l := range lines[start+1 : end] {
			if !strings.Contains(l, "batch="+ref) || !strings.Contains(l, "time=") {
				t.Errorf("%q", l)
			}
		}
		wantPart(t, lines, "time=1999-12-31T23:59:00.000Z", "time=1999-12-31T23:00:00.000Z", "msgid="+live.ID().String(), "msgid=logical1")
		h.graph.say("#dev", "rob", "after")
		lines = b.got()
		wantNone(t, lines, "batch=")
		want(t, texts(lines, "PRIVMSG"), "after")

		old := h.register("old")
		want(t, texts(old.do("JOIN #dev"), "PRIVMSG"), "first to arrive", "older, but later here", "live", "mine", "after")
		none := h.register("none", "no-history")
		want(t, texts(none.do("JOIN #dev"), "PRIVMSG"))
		h.graph.say("#dev", "rob", "now")
		want(t, texts(none.got(), "PRIVMSG"), "now")
	})
}

// TestHistoryBounds: by number, by age, and in memory (T28; failure-cases IRC 19).
func TestHistoryBounds(t *testing.T) {
	serve(t, func(c *Config, g *fakeGraph) {
		c.HistoryLines = 50
		g.say("#dev", "rob", "too old")
		time.Sleep(25 * time.Hour)
		g.say("#dev", "rob", "just old enough")
		time.Sleep(time.Hour)
	}, func(h *harness) {
		a := h.register("alice")
		want(t, texts(a.do("JOIN #dev"), "PRIVMSG"), "just old enough")
		for i := range 120 {
			h.graph.say("#big", "rob", fmt.Sprint(i))
		}
		a.got()
		got := texts(a.do("JOIN #big"), "PRIVMSG")
		if len(got) != 50 || got[0] != "70" || got[49] != "119" {
			t.Errorf("%d lines, %q", len(got), got)
		}
		for i := range maxEntries + 10 {
			h.graph.say("#big", "rob", fmt.Sprint(i))
		}
		a.got()
		if n := len(h.server.convs["#big"].log); n != maxEntries { // nothing moves: the loop is idle
			t.Errorf("%d entries", n)
		}
	})
}

// TestLogBytes: invented channels, large texts and many nicks stay within LogBytes, and the
// channels that somebody is in are not the first to go.
func TestLogBytes(t *testing.T) {
	const limit = 256 << 10
	serve(t, func(c *Config, _ *fakeGraph) { c.LogBytes = limit }, func(h *harness) {
		a := h.join("alice", "#mine")
		h.graph.say("#mine", "rob", "keep me")
		for i := range 3000 {
			h.graph.say(fmt.Sprintf("#invented%d", i), fmt.Sprintf("n%d", i), strings.Repeat("x", 1000))
		}
		a.got()
		if s := h.server; s.logBytes > limit || len(s.convs) > maxConversations {
			t.Errorf("%d bytes, %d conversations", s.logBytes, len(s.convs))
		}
		if b := h.register("bob"); !has(b.do("JOIN #mine"), "keep me") {
			t.Error("a joined channel was forgotten first")
		}
		a.got()
		for i := range 2000 {
			h.graph.say("#mine", fmt.Sprintf("n%d", i), strings.Repeat("y", 1000))
		}
		a.got()
		sum := 0
		for _, cv := range h.server.convs {
			n := len(cv.speakers) * speakerSize
			for i := range cv.log {
				n += cv.log[i].size()
			}
			if n != cv.bytes {
				t.Errorf("%s counts %d bytes, has %d", cv.name, cv.bytes, n)
			}
			sum += n
		}
		if s := h.server; s.logBytes > limit || sum != s.logBytes {
			t.Errorf("%d bytes counted, %d there", s.logBytes, sum)
		}
	})
}

// TestConversationsAreBounded: at the bound and one past it.
func TestConversationsAreBounded(t *testing.T) {
	serve(t, nil, func(h *harness) {
		for i := range maxConversations + 1 {
			h.graph.say(fmt.Sprintf("#c%d", i), "n", "x")
			if i == maxConversations-1 {
				h.register("a").do("QUIT")
				if n := len(h.server.convs); n != maxConversations {
					t.Errorf("%d conversations", n)
				}
			}
		}
		a := h.register("b")
		if n := len(h.server.convs); n != maxConversations {
			t.Errorf("%d conversations", n)
		}
		wantPart(t, a.do("JOIN #c"+fmt.Sprint(maxConversations)), " :x")
	})
}

// TestJoinBeforeTheLogIsComplete: a client that comes while the stored events are still read
// gets all of them, once, and then what is new.
func TestJoinBeforeTheLogIsComplete(t *testing.T) {
	var slow chan struct{}
	serve(t, func(c *Config, g *fakeGraph) {
		slow = make(chan struct{})
		for i := range 10 {
			g.say("#dev", "rob", fmt.Sprint(i))
		}
		c.Log = stall{c.Log, slow}
	}, func(h *harness) {
		time.Sleep(100 * time.Millisecond)
		a, b := h.register("alice", "batch"), h.register("bob", "no-history", "echo-message")
		want(t, texts(a.do("JOIN #dev"), "PRIVMSG"))
		b.do("JOIN #dev")
		time.Sleep(100 * time.Millisecond)
		want(t, texts(b.do("PRIVMSG #dev :hello"), "PRIVMSG"), "hello")
		h.outbox.materialise(t)
		h.graph.say("#dev", "rob", "new")
		close(slow)
		time.Sleep(10 * time.Millisecond)
		lines := a.got()
		var all []string
		for i := range 10 {
			all = append(all, fmt.Sprint(i))
		}
		want(t, texts(lines, "PRIVMSG"), append(all, "hello", "new")...)
		if end := find(lines, "BATCH -"); !strings.HasSuffix(lines[end-1], ":9") {
			t.Errorf("%q", lines)
		}
		want(t, texts(b.got(), "PRIVMSG"), "new")
	})
}

// stall makes the feed wait.
type stall struct {
	Log
	slow chan struct{}
}

func (s stall) Read(from arrival.Seq, _ int) ([]Arrival, arrival.Seq, error) {
	page, next, err := s.Log.Read(from, 1)
	if len(page) > 0 {
		<-s.slow
	}
	return page, next, err
}

// TestPrunedPast: the newest arrivals that the store counts may be gone; history works all the
// same.
func TestPrunedPast(t *testing.T) {
	serve(t, func(c *Config, g *fakeGraph) {
		for range 10 {
			g.say("#dev", "rob", "x")
		}
		g.pruned = 10
	}, func(h *harness) {
		time.Sleep(3 * time.Second)
		a, b := h.join("alice", "#dev"), h.join("bob", "#dev")
		a.got()
		b.do("PRIVMSG #dev :hello")
		want(t, a.got(), ":bob!~bob@hearsay PRIVMSG #dev :hello")
		h.graph.say("#dev", "rob", "live")
		want(t, texts(a.got(), "PRIVMSG"), "live")
	})
}

// TestHistoryIsPaced: history waits for the reading client instead of overflowing its queue
// (T28).
func TestHistoryIsPaced(t *testing.T) {
	serve(t, func(c *Config, g *fakeGraph) {
		c.HistoryLines, c.SendQueue = 1000, 2*lowWater
		for i := range 1000 {
			g.say("#dev", "rob", fmt.Sprintf("%d %s", i, strings.Repeat("x", 400)))
		}
	}, func(h *harness) {
		a := h.register("alice")
		got := texts(a.do("JOIN #dev"), "PRIVMSG") // 440 KB through a queue of 64 KiB
		if len(got) != 1000 {
			t.Errorf("%d lines", len(got))
		}
		for i, l := range got {
			if !strings.HasPrefix(l, fmt.Sprint(i)+" ") {
				t.Fatalf("line %d is %.10q", i, l)
			}
		}
	})
}
