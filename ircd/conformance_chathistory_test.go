package ircd

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/privmsg"
)

// chCaps are what clients with history of their own ask for.
var chCaps = []string{"batch", "server-time", "message-tags", "draft/chathistory"}

// withPast fills #dev with the messages 0 to 9, one each minute up to now.
func withPast(_ *Config, g *fakeGraph) {
	for i := range 10 {
		g.insert((&privmsg.Message{Channel: "#dev", Nick: "rob", Text: fmt.Sprint(i)}).AppendTo(nil), eventgraph.SourceSync,
			time.Now().Add(time.Duration(i-9)*time.Minute))
	}
}

// at is the timestamp of message i of withPast. Fake time begins at 2000-01-01.
func at(i int) string {
	return "timestamp=" + time.Date(2000, 1, 1, 0, i-9, 0, 0, time.UTC).Format(timeFormat)
}

// id is the msgid reference of arrival i.
func (h *harness) id(i int) string { return "msgid=" + h.graph.arrivals[i].Event.ID().String() }

// batched are the texts of an answer, which must be one batch.
func batched(t testing.TB, lines []string) string {
	t.Helper()
	start, end := find(lines, " BATCH +"), find(lines, " BATCH -")
	if len(lines) == 0 || start != 0 || end != len(lines)-1 {
		t.Errorf("no batch: %q", lines)
	}
	return strings.Join(texts(lines, "PRIVMSG"), " ")
}

// TestConformanceChathistory: IRCv3 draft/chathistory.
func TestConformanceChathistory(t *testing.T) {
	page := func(name, want string, ask func(h *harness) string) behaviour {
		return behaviour{"IRCv3 chathistory", name, withPast, func(h *harness) {
			a := h.join("a", "#dev", chCaps...)
			a.got()
			if got := batched(h.t, a.do("CHATHISTORY "+ask(h))); got != want {
				h.t.Errorf("got %q, want %q", got, want)
			}
		}}
	}
	refused := func(name, line, want string) behaviour {
		return behaviour{"IRCv3 chathistory", name, withPast, func(h *harness) {
			a := h.register("a", chCaps...)
			a.got()
			lines := a.do(line)
			if len(lines) != 1 || !strings.Contains(lines[0], " FAIL CHATHISTORY "+want+" :") {
				h.t.Errorf("%q", lines)
			}
		}}
	}
	lit := func(s string) func(*harness) string { return func(*harness) string { return s } }
	conform(t, []behaviour{
		page("LATEST * gives the newest", "7 8 9", lit("LATEST #dev * 3")),
		page("the subcommand and the target in any case", "8 9", lit("latest #DEV * 2")),
		page("LATEST with a msgid stops there", "8 9", func(h *harness) string { return "LATEST #dev " + h.id(7) + " 5" }),
		page("LATEST with a timestamp stops there", "8 9", lit("LATEST #dev "+at(7)+" 5")),
		page("LATEST gives the newest of what is after the reference", "8 9", lit("LATEST #dev "+at(2)+" 2")),
		page("BEFORE a msgid", "3 4", func(h *harness) string { return "BEFORE #dev " + h.id(5) + " 2" }),
		page("BEFORE a timestamp", "3 4", lit("BEFORE #dev "+at(5)+" 2")),
		page("BEFORE the first is an empty batch", "", func(h *harness) string { return "BEFORE #dev " + h.id(0) + " 2" }),
		page("AFTER a msgid", "6 7", func(h *harness) string { return "AFTER #dev " + h.id(5) + " 2" }),
		page("AFTER a timestamp", "6 7", lit("AFTER #dev "+at(5)+" 2")),
		page("AROUND a msgid has it in the middle", "3 4 5", func(h *harness) string { return "AROUND #dev " + h.id(4) + " 3" }),
		page("AROUND a timestamp", "3 4 5", lit("AROUND #dev "+at(4)+" 3")),
		page("AROUND a moment without a message", "3 4 5 6", lit("AROUND #dev timestamp=1999-12-31T23:55:30.000Z 4")),
		page("AROUND, only itself", "4", lit("AROUND #dev "+at(4)+" 1")),
		page("BETWEEN excludes both ends", "3 4", lit("BETWEEN #dev "+at(2)+" "+at(5)+" 10")),
		page("BETWEEN takes from its first end", "3", lit("BETWEEN #dev "+at(2)+" "+at(5)+" 1")),
		page("BETWEEN backwards takes the newest, oldest first", "3 4", func(h *harness) string { return "BETWEEN #dev " + h.id(5) + " " + h.id(0) + " 2" }),
		page("BETWEEN of both kinds of reference", "3 4", func(h *harness) string { return "BETWEEN #dev " + h.id(2) + " " + at(5) + " 10" }),

		refused("no subcommand", "CHATHISTORY", "INVALID_PARAMS *"),
		refused("an unknown subcommand", "CHATHISTORY NOW #dev * 5", "INVALID_PARAMS NOW"),
		refused("too few parameters", "CHATHISTORY BEFORE #dev "+at(1), "INVALID_PARAMS BEFORE"),
		refused("an unknown kind of reference", "CHATHISTORY BEFORE #dev foo=1 5", "INVALID_MSGREFTYPE BEFORE foo=1"),
		refused("a reference that is none", "CHATHISTORY BEFORE #dev * 5", "INVALID_PARAMS BEFORE *"),
		refused("a bad timestamp", "CHATHISTORY BEFORE #dev timestamp=today 5", "INVALID_PARAMS BEFORE timestamp=today"),
		refused("a bad limit", "CHATHISTORY LATEST #dev * many", "INVALID_PARAMS LATEST many"),
		refused("an unknown target", "CHATHISTORY LATEST #nowhere * 5", "INVALID_TARGET LATEST #nowhere"),
		refused("an unknown msgid", "CHATHISTORY BEFORE #dev msgid=00 5", "MESSAGE_ERROR BEFORE #dev 00"),
		refused("targets by msgid", "CHATHISTORY TARGETS msgid=00 msgid=01 5", "INVALID_PARAMS TARGETS msgid=00"),

		{"IRCv3 chathistory", "a channel where nothing was said is a target for who is in it, and for nobody else", nil, func(h *harness) {
			a, b := h.join("a", "#quiet", chCaps...), h.register("b", chCaps...)
			if lines := a.do("CHATHISTORY LATEST #quiet * 5"); len(lines) != 2 || count(lines, " BATCH ") != 2 {
				h.t.Errorf("%q", lines)
			}
			wantPart(h.t, b.do("CHATHISTORY LATEST #quiet * 5"), " FAIL CHATHISTORY INVALID_TARGET LATEST #quiet :")
			h.graph.say("#quiet", "net", "x")
			wantPart(h.t, b.do("CHATHISTORY LATEST #quiet * 5"), " PRIVMSG #quiet :x") // who is not in it may look
		}},
		{"IRCv3 chathistory", "batch of the type chathistory; time and msgid as live", nil, func(h *harness) {
			a := h.join("a", "#dev", chCaps...)
			a.got()
			h.graph.say("#dev", "rob", "hi")
			live := a.got()
			time.Sleep(time.Minute)
			lines := a.do("CHATHISTORY LATEST #dev * 1")
			if !strings.HasSuffix(lines[0], " chathistory #dev") || len(lines) != 3 {
				h.t.Fatalf("%q", lines)
			}
			ref := strings.Fields(lines[0])[3][1:]
			sorted := func(l string) []string {
				tags, rest, _ := strings.Cut(strings.TrimPrefix(l, "@"), " ")
				return append(slices.Sorted(slices.Values(strings.Split(tags, ";"))), rest)
			}
			want(h.t, sorted(lines[1]), append([]string{"batch=" + ref}, sorted(live[0])...)...)
		}},
		{"IRCv3 chathistory", "no history unasked, also of contacts", func(c *Config, g *fakeGraph) {
			withPast(c, g)
			ours, bobs := people(t)
			c.Settings = ours
			g.hear(seal(t, bobs, "us", "bob", "psst"))
		}, func(h *harness) {
			a := h.register("a", chCaps...)
			want(h.t, texts(a.do("JOIN #dev"), "PRIVMSG"))
			h.graph.say("#dev", "rob", "live")
			want(h.t, texts(a.got(), "PRIVMSG"), "live")
			if got := batched(h.t, a.do("CHATHISTORY LATEST Bob * 5")); got != "psst" {
				h.t.Errorf("%q", got)
			}
		}},
		{"IRCv3 chathistory", "encrypted channels, and both sides of a conversation", func(c *Config, g *fakeGraph) {
			ours, bobs := people(t)
			c.Settings = ours
			g.hear(seal(t, bobs, "#secret", "bob", "shh"))
			g.hear(seal(t, bobs, "us", "bob", "ping"))
			g.say("#secret", "mallory", "in clear")
		}, func(h *harness) {
			a := h.register("a", chCaps...)
			a.do("PRIVMSG Bob :pong")
			h.outbox.materialise(h.t)
			if got := batched(h.t, a.do("CHATHISTORY LATEST #secret * 5")); got != "shh" {
				h.t.Errorf("%q", got)
			}
			lines := a.do("CHATHISTORY LATEST Bob * 5")
			if got := batched(h.t, lines); got != "ping pong" {
				h.t.Errorf("%q", got)
			}
			wantPart(h.t, lines, " :Bob!~net@darkirc PRIVMSG a :ping", " :a!~a@hearsay PRIVMSG Bob :pong", "msgid=logical1")
		}},
		{"IRCv3 chathistory", "TARGETS by their newest messages", func(c *Config, g *fakeGraph) {
			withPast(c, g)
			ours, bobs := people(t)
			c.Settings = ours
			time.Sleep(time.Hour)
			g.hear(seal(t, bobs, "us", "bob", "psst"))
			g.say("#nobody-asked", "n", "x")
		}, func(h *harness) {
			a := h.register("a", chCaps...)
			a.got()
			lines := a.do("CHATHISTORY TARGETS timestamp=1999-01-01T00:00:00.000Z timestamp=2001-01-01T00:00:00.000Z 10")
			wantOrder(h.t, lines, " draft/chathistory-targets", " CHATHISTORY TARGETS #Dev 2000-01-01T00:00:00.000Z", " CHATHISTORY TARGETS Bob 2000-01-01T01:00:00.000Z", " BATCH -")
			if len(lines) != 4 {
				h.t.Errorf("%q", lines)
			}
			lines = a.do("CHATHISTORY TARGETS timestamp=2000-01-01T00:30:00.000Z timestamp=2001-01-01T00:00:00.000Z 10")
			wantNone(h.t, lines, "#Dev")
		}},
		{"IRCv3 chathistory", "limit 0 and more than ISUPPORT says are the maximum", func(_ *Config, g *fakeGraph) {
			for i := range maxChathistory + 1 {
				g.say("#dev", "rob", fmt.Sprint(i))
			}
		}, func(h *harness) {
			a := h.register("a", chCaps...)
			a.got()
			for _, limit := range []int{0, maxChathistory, maxChathistory + 1} {
				if got := texts(a.do(fmt.Sprint("CHATHISTORY LATEST #dev * ", limit)), "PRIVMSG"); len(got) != maxChathistory || got[0] != "1" {
					h.t.Errorf("%d: %d messages", limit, len(got))
				}
			}
		}},
		{"IRCv3 chathistory", "without batch the lines come bare", withPast, func(h *harness) {
			a := h.register("a", "draft/chathistory")
			a.got()
			want(h.t, a.do("CHATHISTORY LATEST #dev * 1"), ":rob!~net@darkirc PRIVMSG #dev :9")
		}},
		{"IRCv3 chathistory", "the label is the batch's", withPast, func(h *harness) {
			a := h.register("a", append([]string{"labeled-response"}, chCaps...)...)
			a.got()
			lines := a.do("@label=x CHATHISTORY LATEST #dev * 2")
			batched(h.t, lines)
			if !strings.Contains(lines[0], "label=x") || count(lines, "label=") != 1 {
				h.t.Errorf("%q", lines)
			}
		}},
	})
}

// TestLateEventIsNotSkipped: a late event with an old timestamp comes after what was there, for
// a client that goes on from a msgid; and paging by time leaves nothing out (DS-85, contract IRC).
func TestLateEventIsNotSkipped(t *testing.T) {
	serve(t, withPast, func(h *harness) {
		a := h.register("a", chCaps...)
		h.graph.insert((&privmsg.Message{Channel: "#dev", Nick: "rob", Text: "late"}).AppendTo(nil), eventgraph.SourceSync,
			time.Now().Add(-210*time.Second)) // between 5 and 6
		a.got()
		if got := batched(t, a.do("CHATHISTORY AFTER #dev "+h.id(9)+" 5")); got != "late" {
			t.Errorf("%q", got)
		}
		if got := batched(t, a.do("CHATHISTORY LATEST #dev * 2")); got != "9 late" {
			t.Errorf("%q", got)
		}
		if got := batched(t, a.do("CHATHISTORY BETWEEN #dev "+at(4)+" "+at(7)+" 5")); got != "5 6 late" {
			t.Errorf("%q", got)
		}
		for _, limit := range []int{1, 2, 3} {
			seen := map[string]bool{}
			for ref, pages := "timestamp=2000-01-01T00:00:01.000Z", 0; ; pages++ {
				lines := a.do(fmt.Sprintf("CHATHISTORY BEFORE #dev %s %d", ref, limit))
				batched(t, lines)
				if len(lines) == 2 {
					break
				}
				if pages > 11 {
					t.Fatal("paging does not end")
				}
				for _, text := range texts(lines, "PRIVMSG") {
					seen[text] = true
				}
				_, rest, _ := strings.Cut(lines[1], "time=")
				ref = "timestamp=" + rest[:len("2000-01-01T00:00:00.000Z")]
			}
			if len(seen) != 11 {
				t.Errorf("limit %d: %d messages", limit, len(seen))
			}
		}
	})
}

// TestChathistoryWaits: what came or was accepted before the question is in the answer.
func TestChathistoryWaits(t *testing.T) {
	var slow chan struct{}
	serve(t, func(c *Config, g *fakeGraph) {
		slow = make(chan struct{})
		withPast(c, g)
		c.Log = stall{c.Log, slow}
		c.Settings.Channels = []Channel{{Name: "#dev"}}
	}, func(h *harness) {
		a := h.register("a", chCaps...)
		want(t, a.do("CHATHISTORY LATEST #dev * 2"))
		close(slow)
		if got := batched(t, a.got()); got != "8 9" {
			t.Errorf("%q", got)
		}
	})
}

// TestChathistoryBeyondMemory: pages that the memory of conversations does not hold (LogBytes,
// maxEntries) come from the Log, in bounded memory, and are paced by the client (failure-cases 19).
func TestChathistoryBeyondMemory(t *testing.T) {
	serve(t, func(c *Config, g *fakeGraph) {
		c.SendQueue = 2 * lowWater
		text := strings.Repeat("x\n", privmsg.MaxText/2-8) // many lines each
		for i := range 3000 {
			g.say("#dev", "rob", fmt.Sprint(i, "\n", text))
		}
	}, func(h *harness) {
		a := h.register("a", chCaps...)
		a.got()
		lines := a.do("CHATHISTORY BEFORE #dev " + h.id(500) + " 500")
		batched(t, lines)
		wantNone(t, lines, "ERROR")
		if all := slices.DeleteFunc(texts(lines, "PRIVMSG"), func(l string) bool { return l == "x" || l == "[…]" }); len(all) != 500 {
			t.Errorf("%d messages", len(all))
		}
		for _, n := range []string{"0", "499"} {
			if !slices.Contains(texts(lines, "PRIVMSG"), n) {
				t.Errorf("no message %s", n)
			}
		}
	})
}
