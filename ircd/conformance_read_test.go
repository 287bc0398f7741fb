package ircd

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/kv"
	"hearsay/internal/privmsg"
	"hearsay/internal/readstate"
)

// on connects a client as me@device and joins #dev.
func (h *harness) on(device string, caps ...string) (c *testClient, lines []string) {
	h.t.Helper()
	c = h.dial()
	c.name = device
	c.send("CAP REQ :" + strings.Join(append(caps, "server-time"), " "))
	c.send("NICK "+device, "USER me@"+device+" 0 * :me", "CAP END", "JOIN #dev")
	return c, c.got()
}

// proves answers the question whether lines were read, and fails where none comes.
func (c *testClient) proves() {
	c.t.Helper()
	time.Sleep(probeInterval + tick)
	for _, l := range c.got() {
		if _, token, ok := strings.Cut(l, " PING :read-"); ok {
			c.do("PONG :read-" + token)
			return
		}
	}
	c.t.Error("no token came")
}

// TestConformanceDevices: several clients, one person (issue 5).
func TestConformanceDevices(t *testing.T) {
	dev := func(lines []string) string { return strings.Join(texts(lines, "PRIVMSG"), " ") }
	conform(t, []behaviour{
		{"issue 5", "a device goes on where it has read to", withPast, func(h *harness) {
			a, lines := h.on("phone")
			if got := dev(lines); got != "0 1 2 3 4 5 6 7 8 9" {
				h.t.Error(got)
			}
			a.proves()
			a.do("QUIT")
			h.graph.say("#dev", "rob", "away")
			a, lines = h.on("phone")
			if got := dev(lines); got != "away" {
				h.t.Error(got)
			}
			a.do("QUIT")
			if _, lines = h.on("desk"); dev(lines) != "0 1 2 3 4 5 6 7 8 9 away" {
				h.t.Error(dev(lines))
			}
		}},
		{"issue 5", "without the proof nothing counts as read", withPast, func(h *harness) {
			a, _ := h.on("phone")
			a.do("PONG :read-1", "PONG read-1", "PONG")
			time.Sleep(probeInterval)
			wantPart(h.t, a.do("PONG :read-2"), " PING :read-1")
			a.do("QUIT")
			if _, lines := h.on("phone"); dev(lines) != "0 1 2 3 4 5 6 7 8 9" {
				h.t.Error(dev(lines))
			}
		}},
		{"issue 5", "live lines are proven too, and only those before the token", withPast, func(h *harness) {
			a, _ := h.on("phone")
			a.proves()
			h.graph.say("#dev", "rob", "live")
			time.Sleep(probeInterval + tick)
			lines := a.got()
			h.graph.say("#dev", "rob", "after-the-token")
			wantOrder(h.t, lines, " :live", " PING :read-2")
			a.do("PONG irc.hearsay :read-2", "QUIT")
			if _, lines := h.on("phone"); dev(lines) != "after-the-token" {
				h.t.Error(dev(lines))
			}
		}},
		{"contract IRC", "a late event with an old timestamp is not skipped", withPast, func(h *harness) {
			a, _ := h.on("phone")
			a.proves()
			a.do("QUIT")
			h.graph.insert((&privmsg.Message{Channel: "#dev", Nick: "rob", Text: "late"}).AppendTo(nil), eventgraph.SourceSync, time.Now().Add(-time.Hour))
			_, lines := h.on("phone")
			if dev(lines) != "late" {
				h.t.Error(dev(lines))
			}
			wantPart(h.t, lines, "time=1999-12-31T23:00:0")
		}},
		{"failure-cases IRC 24", "what one client says the others see, once", withPast, func(h *harness) {
			phone, _ := h.on("phone")
			desk, _ := h.on("desk")
			phone.proves()
			desk.proves()
			phone.got()
			desk.got()
			phone.do("PRIVMSG #dev :from-phone")
			if got := dev(desk.got()); got != "from-phone" {
				h.t.Error(got)
			}
			desk.do("QUIT")
			phone.do("PRIVMSG #dev :more")
			h.outbox.materialise(h.t)
			phone.do("QUIT")
			if _, lines := h.on("phone"); dev(lines) != "" { // its own words, typed there
				h.t.Error(dev(lines))
			}
			if _, lines := h.on("desk"); dev(lines) != "from-phone more" { // it proved neither
				h.t.Error(dev(lines))
			}
		}},
		{"issue 5", "a client that names no device, or fetches its history, is not asked", withPast, func(h *harness) {
			a := h.join("alice", "#dev")
			b, _ := h.on("phone", "draft/chathistory")
			time.Sleep(2 * probeInterval)
			wantNone(h.t, a.got(), "PING")
			wantNone(h.t, b.got(), "PING")
		}},
		{"issue 5", "each conversation has its own cursor; direct messages too", func(c *Config, g *fakeGraph) {
			withPast(c, g)
			ours, bobs := people(t)
			c.Settings = ours
			g.hear(seal(t, bobs, "us", "bob", "psst"))
			g.say("#other", "rob", "elsewhere")
		}, func(h *harness) {
			a, lines := h.on("phone")
			if got := dev(lines); got != "0 1 2 3 4 5 6 7 8 9 psst" && got != "psst 0 1 2 3 4 5 6 7 8 9" {
				h.t.Error(got)
			}
			a.proves()
			a.do("QUIT")
			a, lines = h.on("phone")
			if got := dev(lines); got != "" {
				h.t.Error(got)
			}
			if got := dev(a.do("JOIN #other")); got != "elsewhere" {
				h.t.Error(got)
			}
		}},
	})
}

// TestCursorOfWhatWasSaidAhead: own messages are shown before their place in the order of arrival is
// known. What was proven then is shown neither again nor left out: while the daemon runs, whether the
// place is known when the client comes back or not; and after a restart, once it is known.
func TestCursorOfWhatWasSaidAhead(t *testing.T) {
	reads := readstate.OpenMemory(nil)
	serve(t, func(c *Config, _ *fakeGraph) { c.ReadState = reads }, func(h *harness) {
		a, _ := h.on("phone")
		b, _ := h.on("desk")
		h.graph.say("#dev", "rob", "one")
		want(t, texts(b.got(), "PRIVMSG"), "one")
		b.do("PRIVMSG #dev :ahead")
		h.graph.say("#dev", "rob", "two") // has a place before that of "ahead"
		a.proves()
		a.do("QUIT")
		key := h.server.readKey("#dev")
		if got := reads.Cursors("me@phone")[key]; got != 2 {
			t.Errorf("the cursor is at %d", got)
		}
		a, lines := h.on("phone")
		want(t, texts(lines, "PRIVMSG"))
		a.do("QUIT")
		h.outbox.materialise(h.t)
		synctest.Wait()
		if got := reads.Cursors("me@phone")[key]; got != 3 {
			t.Errorf("the cursor is at %d", got)
		}
		h.graph.say("#dev", "rob", "three")
		_, lines = h.on("phone")
		want(t, texts(lines, "PRIVMSG"), "three")
	})
}

// TestCursorBeforeWhatCameFirst: an own message that was read, with a place after one that was not, keeps the
// cursor before both; in this run it is not shown again.
func TestCursorBeforeWhatCameFirst(t *testing.T) {
	reads := readstate.OpenMemory(nil)
	serve(t, func(c *Config, _ *fakeGraph) { c.ReadState = reads }, func(h *harness) {
		a, _ := h.on("phone")
		b, _ := h.on("desk")
		h.graph.say("#dev", "rob", "one")
		want(t, texts(b.got(), "PRIVMSG"), "one")
		b.do("PRIVMSG #dev :ahead")
		a.proves()
		a.do("QUIT")
		h.graph.say("#dev", "rob", "two") // has a place before that of "ahead"
		h.outbox.materialise(h.t)
		synctest.Wait()
		if got := reads.Cursors("me@phone")[h.server.readKey("#dev")]; got != 1 {
			t.Errorf("the cursor is at %d: a restart would leave \"two\" out", got)
		}
		_, lines := h.on("phone")
		want(t, texts(lines, "PRIVMSG"), "two")
	})
}

// TestCursorWithOwnWordsAfterIt: the place of an own message that was read becomes known before that of the next
// one, which was not.
func TestCursorWithOwnWordsAfterIt(t *testing.T) {
	reads := readstate.OpenMemory(nil)
	serve(t, func(c *Config, _ *fakeGraph) { c.ReadState = reads }, func(h *harness) {
		a, _ := h.on("phone")
		b, _ := h.on("desk")
		h.graph.say("#dev", "rob", "one")
		want(t, texts(b.got(), "PRIVMSG"), "one")
		b.do("PRIVMSG #dev :ahead")
		a.proves()
		a.do("QUIT")
		b.do("PRIVMSG #dev :further")
		h.outbox.materialise(h.t)
		synctest.Wait()
		if got := reads.Cursors("me@phone")[h.server.readKey("#dev")]; got != 2 {
			t.Errorf("the cursor is at %d", got)
		}
		_, lines := h.on("phone")
		want(t, texts(lines, "PRIVMSG"), "further")
	})
}

// TestUnprovenIsBounded: proofs ahead of their cursors, and proven devices, at the bound and one past it.
func TestUnprovenIsBounded(t *testing.T) {
	s, _ := newLoop(t, nil)
	cv := s.conversation("#dev", true)
	cv.log = []entry{{id: "x"}}
	for i := range maxUnproven + 1 {
		if i == maxUnproven && (len(s.unproven) != maxUnproven || s.unproven[0].device != "0") {
			t.Errorf("%d proofs", len(s.unproven))
		}
		s.proveLater(unproven{itoa(uint64(i)), cv, 1, 0})
	}
	if len(s.unproven) != maxUnproven || s.unproven[0].device != "1" {
		t.Errorf("%d proofs", len(s.unproven))
	}
	for i := range readstate.MaxDevices + 1 {
		if i == readstate.MaxDevices && len(cv.proven) != i {
			t.Errorf("%d devices", len(cv.proven))
		}
		cv.prove(itoa(uint64(i)), 1)
	}
	if len(cv.proven) > readstate.MaxDevices || cv.proven[itoa(readstate.MaxDevices)] != 1 {
		t.Errorf("%d devices", len(cv.proven))
	}
}

// TestReadStateFails: a cursor that cannot be stored costs nothing but lines that come twice; a marker
// that cannot be stored is refused.
func TestReadStateFails(t *testing.T) {
	serve(t, func(c *Config, g *fakeGraph) {
		withPast(c, g)
		store, err := readstate.Open(fullStore{kv.OpenMemory()}, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.ReadState = store
	}, func(h *harness) {
		a, _ := h.on("phone", "draft/read-marker")
		a.proves()
		wantPart(t, a.do("MARKREAD #dev timestamp=2000-01-01T00:00:00.000Z"), " FAIL MARKREAD INTERNAL_ERROR #dev :")
		wantPart(t, a.do("MARKREAD #dev"), " MARKREAD #dev *")
	})
}

type fullStore struct{ kv.Store }

func (fullStore) Update(kv.Op, func(kv.Txn) error) error { return kv.ErrDiskFull }

// TestConformanceReadMarker: IRCv3 draft/read-marker.
func TestConformanceReadMarker(t *testing.T) {
	const stamp = "timestamp=2000-01-01T00:00:00.000Z"
	refused := func(name, line, want string) behaviour {
		return behaviour{"IRCv3 read-marker", name, nil, func(h *harness) {
			a := h.register("a", "draft/read-marker")
			a.got()
			lines := a.do(line)
			if len(lines) != 1 || !strings.Contains(lines[0], " FAIL MARKREAD "+want+" :") {
				h.t.Errorf("%q", lines)
			}
		}}
	}
	conform(t, []behaviour{
		{"IRCv3 read-marker", "MARKREAD comes between JOIN and 366", nil, func(h *harness) {
			a := h.register("a", "draft/read-marker")
			wantOrder(h.t, a.do("JOIN #dev"), " JOIN #dev", ":irc.hearsay MARKREAD #dev *", " 366 ")
			a.do("MARKREAD #DEV " + stamp)
			b := h.register("b", "draft/read-marker")
			wantOrder(h.t, b.do("JOIN #dev"), " JOIN #dev", ":irc.hearsay MARKREAD #dev "+stamp, " 366 ")
			wantNone(h.t, h.register("c").do("JOIN #dev"), "MARKREAD")
		}},
		{"IRCv3 read-marker", "set, asked for, and told to the other clients", nil, func(h *harness) {
			a, b, c := h.register("a", "draft/read-marker"), h.register("b", "draft/read-marker"), h.register("c")
			a.got()
			b.got()
			c.got()
			want(h.t, a.do("MARKREAD #dev "+stamp), ":irc.hearsay MARKREAD #dev "+stamp)
			want(h.t, b.got(), ":irc.hearsay MARKREAD #dev "+stamp)
			want(h.t, c.got())
			want(h.t, b.do("MARKREAD #dev"), ":irc.hearsay MARKREAD #dev "+stamp)
			want(h.t, b.do("MARKREAD somebody"), ":irc.hearsay MARKREAD somebody *")
		}},
		{"IRCv3 read-marker", "a marker does not go back", nil, func(h *harness) {
			a, b := h.register("a", "draft/read-marker"), h.register("b", "draft/read-marker")
			a.do("MARKREAD #dev " + stamp)
			a.got()
			b.got()
			want(h.t, a.do("MARKREAD #dev timestamp=1999-01-01T00:00:00.000Z"), ":irc.hearsay MARKREAD #dev "+stamp)
			want(h.t, b.got())
		}},
		{"decision 0232", "a marker of the future becomes now", nil, func(h *harness) {
			a, b := h.register("a", "draft/read-marker"), h.register("b", "draft/read-marker")
			a.got()
			b.got()
			time.Sleep(time.Second)
			now := ":irc.hearsay MARKREAD #dev timestamp=2000-01-01T00:00:01.000Z"
			want(h.t, a.do("MARKREAD #dev timestamp=9999-12-31T23:59:59.999Z"), now)
			want(h.t, b.got(), now)
			want(h.t, a.do("MARKREAD #dev timestamp=2000-01-01T00:00:01.001Z"), now)
			want(h.t, b.got(), now)
		}},
		refused("no target", "MARKREAD", "NEED_MORE_PARAMS"),
		refused("a target that cannot be", "MARKREAD #a,b", "INVALID_PARAMS #a,b"),
		refused("a bad timestamp", "MARKREAD #a timestamp=now", "INVALID_PARAMS #a"),
		refused("no timestamp", "MARKREAD #a *", "INVALID_PARAMS #a"),
	})
}

// TestReadStateSurvivesRestart: cursors and markers, on the real order of arrival; CHATHISTORY by the ids
// of own and foreign messages, before and after their events exist, is the same (DS-85).
func TestReadStateSurvivesRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph, custody := testGraph(t), kv.OpenMemory()
		defer graph.Close()
		withReads := func(c *Config) {
			var err error
			if c.ReadState, err = readstate.Open(custody, nil); err != nil {
				t.Fatal(err)
			}
		}
		n := startNode(t, graph, custody, Settings{}, withReads)
		a, _ := n.on("phone", "echo-message", "message-tags", "draft/read-marker")
		for i := range 3 {
			a.do(fmt.Sprint("PRIVMSG #dev :", i))
		}
		a.got()
		a.proves()
		a.do("MARKREAD #dev timestamp=2000-01-01T00:00:00.000Z")
		b := n.join("bob", "#dev", chCaps...)
		b.got()
		first := b.do("CHATHISTORY LATEST #dev * 10")
		if got := batched(t, first); got != "0 1 2" {
			t.Errorf("%q", got)
		}
		b.do("PRIVMSG #dev :3")
		n.reach(2, true)
		time.Sleep(time.Minute)
		n.end()

		n = startNode(t, graph, custody, Settings{}, withReads)
		_, lines := n.on("phone", "draft/read-marker")
		want(t, texts(lines, "PRIVMSG"), "3")
		wantPart(t, lines, " MARKREAD #dev timestamp=2000-01-01T00:00:00.000Z")
		b = n.join("bob", "#dev", chCaps...)
		b.got()
		again := b.do("CHATHISTORY LATEST #dev * 10")
		if got := batched(t, again); got != "0 1 2 3" {
			t.Errorf("%q", got)
		}
		for i, key := range []string{"msgid", "time"} {
			for j := 1; j <= 3; j++ {
				if x, y := tag(first[j], key), tag(again[j], key); x != y || x == "" {
					t.Error(i, j, x, y)
				}
			}
		}
		if got := batched(t, b.do("CHATHISTORY AFTER #dev msgid="+tag(first[2], "msgid")+" 1")); got != "2" {
			t.Errorf("%q", got)
		}
		n.end()
	})
}
