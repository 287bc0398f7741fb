package ircd

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/arrival"
	"hearsay/internal/kv"
	"hearsay/internal/privmsg"
	"hearsay/internal/readstate"
)

// ask is what "*status" answers, as far as it says something itself.
func ask(c *testClient, text string) string {
	var all []string
	for _, l := range c.do("PRIVMSG *status :" + text) {
		if _, said, ok := strings.Cut(l, ":*status!status@hearsay NOTICE "+c.name+" :"); ok {
			all = append(all, said)
		}
	}
	return strings.Join(all, "\n")
}

// TestStatusHistory: HISTORY of "*status" says how much there is, and shows the newest messages, with
// their times in the text where the client is told none (issue 5).
func TestStatusHistory(t *testing.T) {
	serve(t, func(c *Config, g *fakeGraph) {
		withPast(c, g)
		c.Keeps = "for a test"
		g.say("#dev", "rob", "\x01ACTION waves\x01")
		ours, bobs := people(t)
		c.Settings.Contacts = ours.Contacts
		g.hear(seal(t, bobs, "us", "bob", "psst"))
	}, func(h *harness) {
		old, able := h.register("old"), h.register("able", "server-time", "batch")
		wantPart(t, strings.Split(ask(old, "HISTORY"), "\n"),
			"12 messages of all conversations, ", "the oldest here since 2000-01-01 00:00:00 UTC; messages stay for a test",
			"At a JOIN you get what you have not seen, at most 500 messages of the last 24 hours: HISTORY OFF changes that")
		want(t, texts(old.do("PRIVMSG *status :history #DEV 3"), "PRIVMSG"),
			"[1999-12-31 23:59:00] 8", "[2000-01-01 00:00:00] 9", "\x01ACTION [2000-01-01 00:00:00] waves\x01")
		lines := able.do("PRIVMSG *status :HISTORY #dev 2")
		want(t, texts(lines, "PRIVMSG"), "9", "\x01ACTION waves\x01")
		wantOrder(t, lines, " NOTICE able :The last 2 messages of #dev:", " BATCH +", "time=2000-01-01T00:00:00.000Z", " BATCH -")
		want(t, texts(old.do("PRIVMSG *status :HISTORY bob"), "PRIVMSG"), "[2000-01-01 00:00:00] psst")
		if n := len(texts(old.do("PRIVMSG *status :HISTORY #dev"), "PRIVMSG")); n != 11 {
			t.Errorf("%d lines", n)
		}
		for text, answer := range map[string]string{
			"HISTORY nobody": "There is no conversation nobody here", "HISTORY #empty": "No message of #empty is kept",
			"HISTORY #dev 0": usageText(historyCommand), "HISTORY #dev x": usageText(historyCommand), "HISTORY #dev 1 1": usageText(historyCommand),
		} {
			if got := ask(old, text); got != answer {
				t.Errorf("%s: %q", text, got)
			}
		}
	})
}

// TestStatusHistoryIsBounded: at the bound and one past it, paced by the client.
func TestStatusHistoryIsBounded(t *testing.T) {
	serve(t, func(c *Config, g *fakeGraph) {
		c.SendQueue = 2 * lowWater
		for i := range maxChathistory + 1 {
			g.say("#dev", "rob", fmt.Sprint(i, strings.Repeat("x", 300)))
		}
	}, func(h *harness) {
		a := h.register("alice")
		for _, n := range []int{maxChathistory, maxChathistory + 1} {
			lines := a.do(fmt.Sprint("PRIVMSG *status :HISTORY #dev ", n))
			if got := texts(lines, "PRIVMSG"); len(got) != maxChathistory || !strings.Contains(got[0], "] 1x") {
				t.Errorf("%d: %d lines", n, len(got))
			}
		}
	})
}

// TestHistoryOff: nothing comes unasked, for a device also after it comes back, as with no-history;
// what it did not see comes when it wants history again.
func TestHistoryOff(t *testing.T) {
	var reads *readstate.Store
	serve(t, func(c *Config, g *fakeGraph) {
		withPast(c, g)
		reads = readstate.OpenMemory(nil)
		c.ReadState = reads
	}, func(h *harness) {
		a := h.register("alice")
		wantPart(t, []string{ask(a, "HISTORY OFF")}, "for this connection")
		want(t, texts(a.do("JOIN #dev"), "PRIVMSG"))
		wantPart(t, []string{ask(a, "HISTORY on")}, "History comes at a JOIN")
		want(t, texts(a.do("PART #dev", "JOIN #dev"), "PRIVMSG"), strings.Fields("0 1 2 3 4 5 6 7 8 9")...)

		p, _ := h.on("phone")
		p.proves()
		wantPart(t, []string{ask(p, "HISTORY")}, "what this device has not read, at most 500 messages: HISTORY OFF")
		wantPart(t, []string{ask(p, "HISTORY OFF")}, "for device phone")
		h.graph.say("#dev", "rob", "live")
		want(t, texts(p.got(), "PRIVMSG"), "live")
		time.Sleep(2 * probeInterval)
		wantNone(t, p.got(), "PING")
		p.do("QUIT")
		h.graph.say("#dev", "rob", "away")
		p, lines := h.on("phone")
		want(t, texts(lines, "PRIVMSG"))
		wantPart(t, []string{ask(p, "HISTORY")}, "At a JOIN nothing comes unasked")
		ask(p, "HISTORY ON")
		p.do("QUIT")
		_, lines = h.on("phone")
		want(t, texts(lines, "PRIVMSG"), "live", "away") // it proved neither
		b := h.register("bob", chCaps...)
		wantPart(t, []string{ask(b, "HISTORY")}, "fetches history by itself")
		c := h.register("carol", "no-history")
		wantPart(t, []string{ask(c, "HISTORY")}, "nothing comes unasked")
	})
}

// TestNoticeStaysANotice: one message is the same command for everybody here, live, as an echo, unasked,
// and in CHATHISTORY, before and after its event exists, and after a restart (decision 0202). The network gets a message.
func TestNoticeStaysANotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph, custody := testGraph(t), kv.OpenMemory()
		defer graph.Close()
		n := startNode(t, graph, custody, Settings{}, nil)
		a := n.join("alice", "#dev", "echo-message", "message-tags")
		b := n.join("bob", "#dev", "message-tags")
		b.got()
		a.got()
		echo := a.do("NOTICE #dev :hey")
		live := b.got()
		for _, lines := range [][]string{echo, live} {
			want(t, texts(lines, "NOTICE"), "hey")
		}
		if id := tag(live[0], "msgid"); id == "" || id != tag(echo[0], "msgid") {
			t.Errorf("%q %q", echo, live)
		}
		check := func() {
			t.Helper()
			want(t, texts(n.register("carol", "message-tags").do("JOIN #dev"), "NOTICE"), "hey")
			d := n.register("dave", chCaps...)
			d.got()
			lines := d.do("CHATHISTORY LATEST #dev * 5")
			want(t, texts(lines, "NOTICE"), "hey")
			if tag(lines[1], "msgid") != tag(live[0], "msgid") {
				t.Errorf("%q", lines)
			}
			n.end()
		}
		check()
		n = startNode(t, graph, custody, Settings{}, nil)
		n.reach(2, true)
		time.Sleep(time.Minute)
		check()
		n = startNode(t, graph, custody, Settings{}, nil)
		time.Sleep(time.Second)
		if items, err := n.queue.List(0, 10); len(items) != 0 || err != nil {
			t.Error(len(items), err)
		}
		check()
	})
}

// TestLateMail: a direct message that a mailbox brings a month late comes to a client that was away, is
// in pages by place at the end, in pages by time at its time, and its conversation is among the TARGETS
// of the time since (contract IRC, issue 5).
func TestLateMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, bobs := people(t)
		graph, custody := testGraph(t), kv.OpenMemory()
		defer graph.Close()
		n := startNode(t, graph, custody, ours, nil)
		p, _ := n.on("phone")
		for i := range 3 {
			m := seal(t, bobs, "us", "bob", fmt.Sprint(i))
			e, err := graph.NewEvent(m.AppendTo(nil))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := graph.Insert(t.Context(), graph.Current(), []eventgraph.Event{e}, eventgraph.SourcePut); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		p.proves()
		p.do("QUIT")
		gone := time.Now()
		time.Sleep(time.Minute)
		n.mail(9, seal(t, bobs, "us", "bob", "a-month-late"), time.Now().Add(-30*24*time.Hour))
		time.Sleep(time.Minute)

		_, lines := n.on("phone", "message-tags")
		want(t, texts(lines, "PRIVMSG"), "a-month-late")
		wantPart(t, lines, "time=1999-12-02T00:0")
		a := n.register("a", chCaps...)
		a.got()
		stamp := func(at time.Time) string { return "timestamp=" + at.UTC().Format(timeFormat) }
		for ask, answer := range map[string]string{
			"LATEST Bob * 2":                                     "2 a-month-late",
			"BEFORE Bob " + stamp(time.Now()) + " 2":             "1 2",
			"BEFORE Bob " + stamp(gone.Add(-time.Hour)) + " 2":   "a-month-late",
			"AFTER Bob " + stamp(gone) + " 2":                    "",
			"AROUND Bob " + stamp(gone.AddDate(0, -1, 0)) + " 2": "0 a-month-late",
		} {
			if got := batched(t, a.do("CHATHISTORY "+ask)); got != answer {
				t.Errorf("%s: %q", ask, got)
			}
		}
		wantPart(t, a.do("CHATHISTORY TARGETS "+stamp(gone)+" "+stamp(time.Now())+" 5"), " CHATHISTORY TARGETS Bob ")
		lines = a.do("CHATHISTORY LATEST Bob * 1")
		id := tag(lines[1], "msgid")
		if got := batched(t, a.do("CHATHISTORY BEFORE Bob msgid="+id+" 5")); got != "0 1 2" {
			t.Error(got)
		}
		time.Sleep(48 * time.Hour) // longer than the graph: mail stays
		a = n.register("b", chCaps...)
		a.got()
		if got := batched(t, a.do("CHATHISTORY LATEST Bob * 5")); got != "a-month-late" {
			t.Error(got)
		}
		n.end()
	})
}

// TestArchive: on a node that keeps everything, pages lead from now to the first message of days ago, each
// once, over restarts and over what memory and replay hold; ids of old messages are references; without an
// archive what the graph keeps is reachable, and no more.
func TestArchive(t *testing.T) {
	for _, archive := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			graph, custody := graphOf(t, archive), kv.OpenMemory()
			defer graph.Close()
			n := startNode(t, graph, custody, Settings{}, nil)
			n.reach(2, true)
			var a *testClient
			const days = 5
			kept := []string{}
			for day := range days {
				if day == 3 { // a restart on the way
					n.end()
					n = startNode(t, graph, custody, Settings{}, nil)
					n.reach(2, true)
				}
				a = n.register("alice")
				for i := range 8 {
					text := fmt.Sprintf("%d.%d", day, i)
					if i%2 == 0 {
						hear(t, graph, "#dev", "rob", text)
					} else {
						a.do("PRIVMSG #dev :" + text)
					}
					time.Sleep(2 * time.Second)
					if archive || day == days-1 {
						kept = append(kept, text)
					}
				}
				a.do("QUIT")
				if day < days-1 {
					time.Sleep(24 * time.Hour)
				}
			}
			n.end()
			n = startNode(t, graph, custody, Settings{}, nil)
			time.Sleep(time.Second)
			if !archive {
				if _, err := n.rows.Prune(graph.Slots()[0], func(kv.Reader, *arrival.Row) (bool, error) { return false, nil }); err != nil {
					t.Fatal(err)
				}
			}
			want(t, texts(n.register("old").do("JOIN #dev"), "PRIVMSG"), kept[len(kept)-8:]...)
			c := n.register("carol", chCaps...)
			c.got()
			for _, key := range []string{"msgid", "time"} {
				for _, limit := range []int{1, 3, 8, 500} {
					var all []string
					for ref, pages := "*", 0; ; pages++ {
						ask := fmt.Sprintf("CHATHISTORY BEFORE #dev %s %d", ref, limit)
						if ref == "*" {
							ask = fmt.Sprintf("CHATHISTORY LATEST #dev * %d", limit)
						}
						lines := c.do(ask)
						batched(t, lines)
						if len(lines) == 2 {
							break
						}
						if pages > 50 {
							t.Fatal("paging does not end")
						}
						all = append(texts(lines, "PRIVMSG"), all...)
						ref = strings.Replace(key, "time", "timestamp", 1) + "=" + tag(lines[1], key)
					}
					if got := strings.Join(all, " "); got != strings.Join(kept, " ") {
						t.Errorf("archive %t, %s, limit %d: %s", archive, key, limit, got)
					}
				}
			}
			if archive {
				lines := c.do("CHATHISTORY AFTER #dev timestamp=1999-01-01T00:00:00.000Z 3")
				if got := batched(t, lines); got != "0.0 0.1 0.2" {
					t.Error(got)
				}
				first, third := "msgid="+tag(lines[1], "msgid"), "msgid="+tag(lines[3], "msgid")
				last := "msgid=" + tag(c.do("CHATHISTORY LATEST #dev * 1")[1], "msgid")
				for ask, answer := range map[string]string{
					"AFTER #dev " + third + " 2":                 "0.3 0.4",
					"AROUND #dev " + third + " 3":                "0.1 0.2 0.3",
					"BETWEEN #dev " + first + " " + last + " 2":  "0.1 0.2",
					"BETWEEN #dev " + last + " " + first + " 2":  "4.5 4.6",
					"BETWEEN #dev " + first + " " + third + " 9": "0.1",
					"LATEST #dev " + third + " 2":                "4.6 4.7",
					"BEFORE #dev " + first + " 2":                "",
				} {
					if got := batched(t, c.do("CHATHISTORY "+ask)); got != answer {
						t.Errorf("%s: %q", ask, got)
					}
				}
			}
			n.end()
		})
	}
}

// TestIntakeGoesOn: what the graph of an archive took in and the order of arrival did not, is entered whenever the
// node starts again, however old it is then; what was looked at with the same keys is not opened again.
func TestIntakeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph, custody := graphOf(t, true), kv.OpenMemory()
		defer graph.Close()
		hear(t, graph, "#dev", "rob", "one")
		n := startNode(t, graph, custody, Settings{}, nil)
		time.Sleep(time.Second)
		n.end()
		hear(t, graph, "#dev", "rob", "two")
		time.Sleep(48 * time.Hour)
		n = startNode(t, graph, custody, Settings{}, nil)
		time.Sleep(time.Second)
		a := n.register("a", chCaps...)
		a.got()
		if got := batched(t, a.do("CHATHISTORY LATEST #dev * 5")); got != "one two" {
			t.Error(got)
		}
		n.end()
		in := intake{ring: noKeys, seen: 1}
		for seq, want := range map[eventgraph.Seq]bool{1: false, 2: true} {
			ev := eventgraph.Event{Content: (&privmsg.Message{Channel: "#dev", Nick: "n", Text: "x"}).AppendTo(nil)}
			if _, ok := in.look(&eventgraph.Arrival{Seq: seq, Time: time.Now().Add(-time.Hour), Event: ev}, time.Now()); ok != want {
				t.Errorf("%d: %t", seq, ok)
			}
		}
	})
}

// TestUnheardOf: a public channel that is not in memory is found in history, joined or not; one that nobody
// ever spoke in is none.
func TestUnheardOf(t *testing.T) {
	serve(t, func(c *Config, g *fakeGraph) {
		g.say("#old", "rob", "long ago")
		time.Sleep(48 * time.Hour)
	}, func(h *harness) {
		a := h.register("a", chCaps...)
		a.got()
		if h.server.convs["#old"] != nil {
			t.Error("in memory")
		}
		if got := batched(t, a.do("CHATHISTORY LATEST #OLD * 5")); got != "long ago" {
			t.Error(got)
		}
		wantPart(t, a.do("CHATHISTORY LATEST #older * 5"), "INVALID_TARGET")
		wantPart(t, a.do("CHATHISTORY LATEST ## * 5"), "INVALID_TARGET")
	})
}

// TestSecretsAndReads: with a contact's key its history, its marker and its cursors are out of use at once,
// and another person of that name inherits none of them (T22).
func TestSecretsAndReads(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, g *fakeGraph) {
		c.Settings = ours
		g.hear(seal(t, bobs, "us", "bob", "psst"))
	}, func(h *harness) {
		const stamp = "timestamp=2000-01-01T00:00:00.000Z"
		a := h.register("a", append([]string{"draft/read-marker"}, chCaps...)...)
		a.do("MARKREAD Bob " + stamp)
		p, lines := h.on("phone")
		want(t, texts(lines, "PRIVMSG"), "psst")
		p.proves()
		without := ours
		without.Contacts = nil
		if _, err := h.server.Apply(h.t.Context(), without); err != nil {
			t.Fatal(err)
		}
		a.got()
		wantPart(t, a.do("CHATHISTORY LATEST Bob * 5"), "INVALID_TARGET")
		wantPart(t, a.do("MARKREAD Bob"), " MARKREAD Bob *")
		other := ours
		other.Contacts = []Contact{{Label: "Bob", Public: ours.Channels[0].Secret.Public(), Secret: ours.Contacts[0].Secret}}
		if _, err := h.server.Apply(h.t.Context(), other); err != nil {
			t.Fatal(err)
		}
		wantPart(t, a.do("MARKREAD Bob"), " MARKREAD Bob *")
		if got := batched(t, a.do("CHATHISTORY LATEST Bob * 5")); got != "" {
			t.Error(got)
		}
		if _, err := h.server.Apply(h.t.Context(), ours); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		a.got()
		wantPart(t, a.do("MARKREAD Bob"), " MARKREAD Bob "+stamp)
		if got := batched(t, a.do("CHATHISTORY LATEST Bob * 5")); got != "psst" {
			t.Error(got)
		}
		p.do("QUIT")
		if _, lines = h.on("phone"); len(texts(lines, "PRIVMSG")) != 0 {
			t.Errorf("%q", lines)
		}
	})
}

// FuzzChathistory: whatever a client asks for, it gets a batch or one FAIL.
func FuzzChathistory(f *testing.F) {
	for _, seed := range []string{
		"LATEST #dev * 5", "BEFORE #dev msgid=00-2 0", "BETWEEN #dev timestamp=2000-01-01T00:00:00.000Z msgid=ff 500",
		"AROUND #dev timestamp=9999-12-31T23:59:59.999999999Z 1", "TARGETS timestamp=1969-01-01T00:00:00Z timestamp=2020-01-01T00:00:00Z 1",
		"AFTER #dev timestamp=0000-01-01T00:00:00Z 2",
	} {
		f.Add(seed)
	}
	s, g := newLoop(f, nil)
	for i := range 5 {
		g.say("#dev", "rob", fmt.Sprint(i))
	}
	s.feedAt = 5
	c := connect(s, f, "a", capBatch|capChathistory|capMessageTags)
	output(f, c)
	f.Fuzz(func(t *testing.T, args string) {
		if !privmsgFits(args) {
			return
		}
		s.input(t, c, "CHATHISTORY "+args)
		lines := output(t, c)
		if n := count(lines, " FAIL CHATHISTORY "); n > 1 || n == 1 && len(lines) != 1 || n == 0 && count(lines, "BATCH ") != 2 {
			t.Fatalf("%q: %q", args, lines)
		}
	})
}

// privmsgFits tells whether a line is taken for one at all.
func privmsgFits(s string) bool {
	return len(s) < 400 && strings.ToValidUTF8(s, "") == s && !strings.ContainsAny(s, "\r\n\x00") && strings.TrimSpace(s) != "" && s[0] != ' ' &&
		privmsg.Fold(s) != ""
}

// TestAwayForDays: a device goes on where it has read to, though memory does not reach back as far: in order,
// once, bounded, paced, and only as far as it proved; a device that is not known gets a day.
func TestAwayForDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		graph, custody := graphOf(t, true), kv.OpenMemory()
		defer graph.Close()
		var n *testNode
		start := func() {
			n = startNode(t, graph, custody, Settings{}, func(c *Config) {
				c.HistoryLines = 100
				var err error
				if c.ReadState, err = readstate.Open(custody, nil); err != nil {
					t.Fatal(err)
				}
			})
			time.Sleep(time.Second)
		}
		start()
		p, _ := n.on("phone", "batch")
		hear(t, graph, "#dev", "rob", "read")
		want(t, texts(p.got(), "PRIVMSG"), "read")
		p.proves()
		p.do("QUIT")
		var missed []string
		say := func(count int) {
			for range count {
				missed = append(missed, fmt.Sprint(len(missed)))
				hear(t, graph, "#dev", "rob", missed[len(missed)-1])
			}
		}
		check := func(lines, want []string) {
			t.Helper()
			if got := texts(lines, "PRIVMSG"); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		say(50)
		time.Sleep(72 * time.Hour)
		n.end()
		start()
		p, lines := n.on("phone", "batch") // nothing is in memory
		check(lines, missed)
		p.do("QUIT") // without a proof
		say(10)
		p, lines = n.on("phone")
		check(lines, missed) // some from the Log, some from memory
		p.proves()
		p.do("QUIT")
		p, lines = n.on("phone")
		check(lines, nil)
		say(1)
		check(p.got(), missed[60:])
		p.proves()
		p.do("QUIT")
		q, lines := n.on("tablet")
		check(lines, missed[50:])
		q.do("QUIT")

		say(101)
		time.Sleep(72 * time.Hour)
		say(2)
		n.end()
		start()
		p, lines = n.on("phone")
		check(lines, missed[len(missed)-100:])
		say(1) // while nothing was proven
		check(p.got(), missed[len(missed)-1:])
		p.proves()
		n.end()
		start()
		p, lines = n.on("phone")
		check(lines, nil)
		p.do("QUIT")
		say(3)
		time.Sleep(72 * time.Hour)
		n.end()
		start()
		p, lines = n.on("phone")
		check(lines, missed[len(missed)-3:])
		p.proves() // of what came from the Log alone
		p.do("QUIT")
		_, lines = n.on("phone")
		check(lines, nil)
		n.end()
	})
}
