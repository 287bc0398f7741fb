package ircd

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/privmsg"
)

// TestMessageToLocalClients: an accepted message is shown at once to the other clients, and
// its event does not show it again (contract; DS-85, T29).
func TestMessageToLocalClients(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.join("alice", "#dev"), h.join("bob", "#dev", "message-tags", "server-time")
		e := h.join("erin", "#dev", "echo-message", "message-tags", "server-time")
		a.got()
		b.got()
		want(t, a.do("PRIVMSG #dev :hello"))
		const tags = "time=2000-01-01T00:00:00.000Z"
		for _, c := range []*testClient{b, e} {
			lines := c.got()
			if len(lines) != 1 || !strings.Contains(lines[0], tags) || !strings.Contains(lines[0], "msgid=logical1") ||
				!strings.HasSuffix(lines[0], " :alice!~alice@hearsay PRIVMSG #dev :hello") {
				t.Errorf("%s got %q", c.name, lines)
			}
		}
		time.Sleep(time.Second)
		h.outbox.materialise(t)
		time.Sleep(time.Second)
		h.outbox.materialise(t) // a second generation
		if n := len(h.graph.contents(t)); n != 2 {
			t.Fatalf("%d events", n)
		}
		for _, c := range []*testClient{a, b, e} {
			wantNone(t, c.got(), "hello")
		}
		lines := e.do("PRIVMSG #dev :echo")
		if len(lines) != 1 || !strings.Contains(lines[0], "msgid=logical2") || !strings.HasSuffix(lines[0], " :erin!~erin@hearsay PRIVMSG #dev :echo") {
			t.Errorf("echo: %q", lines)
		}
	})
}

// TestOwnEventMayArriveFirst: the event can be committed before the outbox has answered, and
// the message is still shown once, and echoed (DS-85).
func TestOwnEventMayArriveFirst(t *testing.T) {
	serve(t, nil, func(h *harness) {
		h.outbox.eager, h.outbox.delay = true, time.Second
		a, b := h.join("alice", "#dev", "echo-message"), h.join("bob", "#dev")
		a.got()
		a.send("PRIVMSG #dev :hello")
		want(t, b.got())
		time.Sleep(2 * time.Second)
		want(t, a.got(), ":alice!~alice@hearsay PRIVMSG #dev :hello")
		want(t, b.got(), ":alice!~alice@hearsay PRIVMSG #dev :hello")
		c := h.register("carol")
		if got := texts(c.do("JOIN #dev"), "PRIVMSG"); len(got) != 1 {
			t.Errorf("history has it %d times", len(got))
		}
	})
}

// TestForeignLocalEvent: an event that another part of this node made is shown once it is
// clear that no accept under way will show it.
func TestForeignLocalEvent(t *testing.T) {
	serve(t, nil, func(h *harness) {
		h.outbox.delay = time.Second
		a, b := h.join("alice", "#dev"), h.join("bob", "#dev")
		a.got()
		a.send("PRIVMSG #dev :mine")
		time.Sleep(100 * time.Millisecond)
		h.graph.insert((&privmsg.Message{Channel: "#dev", Nick: "tool", Text: "made here"}).AppendTo(nil), eventgraph.SourceLocal, time.Now())
		want(t, b.got())
		b.send("PRIVMSG #dev :later") // began after the event: it does not wait for this one
		time.Sleep(950 * time.Millisecond)
		want(t, b.got(), ":alice!~alice@hearsay PRIVMSG #dev :mine", ":tool!~user@hearsay PRIVMSG #dev :made here")
		time.Sleep(time.Second)
		want(t, a.got(), ":tool!~user@hearsay PRIVMSG #dev :made here", ":bob!~bob@hearsay PRIVMSG #dev :later")
		h.graph.insert((&privmsg.Message{Channel: "#dev", Nick: "tool", Text: "again"}).AppendTo(nil), eventgraph.SourceLocal, time.Now())
		want(t, b.got(), ":tool!~user@hearsay PRIVMSG #dev :again")
	})
}

// TestOwnMessageOfAnEarlierRun: after a restart an own event is history under its logical id
// and enqueue time, and its generations count as one.
func TestOwnMessageOfAnEarlierRun(t *testing.T) {
	var o *fakeOutbox
	serve(t, func(c *Config, g *fakeGraph) {
		o = c.Outbox.(*fakeOutbox)
		o.queue = []queued{{
			Message{privmsg.Sealed{Kind: privmsg.Public, Name: "#dev"}, "alice", "before", false},
			Accepted{"old1", time.Now().Add(-time.Hour)},
		}}
		o.materialise(t)
		o.materialise(t)
	}, func(h *harness) {
		b := h.register("alice", "message-tags", "server-time")
		lines := b.do("JOIN #dev")
		if got := texts(lines, "PRIVMSG"); len(got) != 1 {
			t.Fatalf("history: %q", got)
		}
		wantPart(t, lines, ":alice!~alice@hearsay PRIVMSG #dev :before") // ours: no suffix
		wantPart(t, lines, "msgid=old1", "time=1999-12-31T23:00:00.000Z")
		h.outbox.materialise(t)
		wantNone(t, b.got(), "before")
	})
}

// TestRemoteMessage: prefix, msgid and time of somebody on the network; time is never later
// than the arrival (contract).
func TestRemoteMessage(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, old := h.join("alice", "#dev", "message-tags", "server-time"), h.join("old", "#dev")
		a.got()
		e := h.graph.insert((&privmsg.Message{Channel: "#dev", Nick: "rob", Text: "hi"}).AppendTo(nil), eventgraph.SourcePut, time.Now().Add(-30*time.Second))
		lines := a.got()
		if len(lines) != 1 || !strings.HasSuffix(lines[0], " :rob!~net@darkirc PRIVMSG #dev :hi") ||
			!strings.Contains(lines[0], "msgid="+e.ID().String()) || !strings.Contains(lines[0], "time=1999-12-31T23:59:30.000Z") {
			t.Errorf("%q", lines)
		}
		want(t, old.got(), ":rob!~net@darkirc PRIVMSG #dev :hi") // bots split at spaces: no tags
		h.graph.insert((&privmsg.Message{Channel: "#dev", Nick: "rob", Text: "early"}).AppendTo(nil), eventgraph.SourcePut, time.Now().Add(30*time.Second))
		wantPart(t, a.got(), "time=2000-01-01T00:00:00.000Z")
	})
}

// TestHostileEvents: nothing that a peer puts into nick, channel or text can make a second
// line or another source (T1; failure-cases IRC 1, 7).
func TestHostileEvents(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.join("alice", "#dev")
		for _, c := range []struct {
			channel, nick, text string
			want                []string
		}{
			{"#dev", "x\r\nQUIT", "t", []string{":x__QUIT!~net@darkirc PRIVMSG #dev :t"}},
			{"#dev", "a b", "t", []string{":a_b!~net@darkirc PRIVMSG #dev :t"}},
			{"#dev", "a!b@c", "t", []string{":a_b_c!~net@darkirc PRIVMSG #dev :t"}},
			{"#dev", ":a", "t", []string{":_a!~net@darkirc PRIVMSG #dev :t"}},
			{"#dev", "\x00", "t", []string{":_!~net@darkirc PRIVMSG #dev :t"}},
			{"#dev", "", "t", []string{":_!~net@darkirc PRIVMSG #dev :t"}},
			{"#dev", "irc.hearsay", "t", []string{":irc_hearsay!~net@darkirc PRIVMSG #dev :t"}},
			{"#dev", "n", "hi \r:x PRIVMSG #dev :forged", []string{":n!~net@darkirc PRIVMSG #dev :hi ", ":n!~net@darkirc PRIVMSG #dev ::x PRIVMSG #dev :forged"}},
			{"#dev", "n", "a\n\nb\r\nc", []string{":n!~net@darkirc PRIVMSG #dev :a", ":n!~net@darkirc PRIVMSG #dev :b", ":n!~net@darkirc PRIVMSG #dev :c"}},
			{"#dev", "n", "a\x00b", []string{":n!~net@darkirc PRIVMSG #dev :ab"}},
			{"#dev", "n", "", nil},
			{"#dev", "n", "\n", nil},
			{"#dev", "n", "\r\n\r\n", nil},
			{"#dev", "n", ":x", []string{":n!~net@darkirc PRIVMSG #dev ::x"}},
			{"#dev", "n", "\x01VERSION\x01", nil},
			{"#dev", "n", "\x01ACTION waves\x01", []string{":n!~net@darkirc PRIVMSG #dev :\x01ACTION waves\x01"}},
			{"#dev", "NickServ", "identify!", []string{":NickServ|net!~net@darkirc PRIVMSG #dev :identify!"}},
			{"#dev", "chanserv", "x", []string{":chanserv|net!~net@darkirc PRIVMSG #dev :x"}},
			{"#dev", "*status", "x", []string{":_status|net!~net@darkirc PRIVMSG #dev :x"}},
			{"#dev\r\nQUIT", "n", "t", nil},
			{"#dev ", "n", "t", nil},
			{"alice", "n", "t", nil},
			{"", "n", "t", nil},
			{"#other", "n", "t", nil},
			{"#DEV", "n", "folds", []string{":n!~net@darkirc PRIVMSG #dev :folds"}},
		} {
			h.graph.say(c.channel, c.nick, c.text)
			if got := a.got(); len(got) != len(c.want) || strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%q %q %q: got %q", c.channel, c.nick, c.text, got)
			}
		}
		h.graph.insert([]byte{1, 2, 3}, eventgraph.SourcePut, time.Now())
		want(t, a.got())
	})
}

// TestRemoteNickSuffix: nobody on the network looks like a local client, a contact or a
// service (contract).
func TestRemoteNickSuffix(t *testing.T) {
	ours, _ := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		a := h.join("alice", "#dev")
		long := h.join(strings.Repeat("n", 24), "#dev")
		h.join("carol|net", "#dev")
		h.join("carol", "#dev")
		a.got()
		for nick, shown := range map[string]string{
			"alice": "alice|net", "ALICE": "ALICE|net", "Bob": "Bob|net", "bob": "bob|net", "dave": "dave",
			strings.Repeat("n", 24): strings.Repeat("n", 20) + "|net", "carol": "carol|net2",
		} {
			h.graph.say("#dev", nick, "x")
			want(t, a.got(), ":"+shown+"!~net@darkirc PRIVMSG #Dev :x")
		}
		long.do("QUIT")
		a.got()
		h.graph.say("#dev", strings.Repeat("n", 24), "x")
		want(t, a.got(), ":"+strings.Repeat("n", 24)+"!~net@darkirc PRIVMSG #Dev :x")
	})
}

// TestForgedPrivateMessage proves T4: plain events that name an encrypted channel or a
// contact show nothing.
func TestForgedPrivateMessage(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		a := h.join("alice", "#secret")
		a.got()
		for _, name := range []string{"#secret", "#SECRET", "Bob", "bob"} {
			h.graph.say(name, "Bob", "forged")
		}
		want(t, a.got())
		m := seal(t, bobs, "#secret", "bobby", "genuine")
		h.graph.hear(m)
		want(t, a.got(), ":bobby!~net@darkirc PRIVMSG #secret :genuine")
		h.graph.hear(m) // T24: a replay
		m2 := seal(t, bobs, "#secret", "mallory", "x")
		h.graph.hear(privmsg.Message{Channel: m.Channel, Nick: m2.Nick, Text: m.Text})
		want(t, a.got())
	})
}

// TestDirectMessages: encrypted both ways; the target of an incoming one is the own nick
// (facts 3.9, T30); own ones are for clients that expect them.
func TestDirectMessages(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		a, z := h.register("alice"), h.register("zoe", "znc.in/self-message")
		e := h.register("erin", "echo-message")
		h.graph.hear(seal(t, bobs, "us", "", "hi"))
		want(t, a.got(), ":Bob!~net@darkirc PRIVMSG alice :hi")
		want(t, z.got(), ":Bob!~net@darkirc PRIVMSG zoe :hi")
		want(t, e.got(), ":Bob!~net@darkirc PRIVMSG erin :hi")

		want(t, a.do("PRIVMSG bob :yo")) // labels fold, the configured spelling goes out
		want(t, z.got(), ":zoe!~zoe@hearsay PRIVMSG Bob :yo")
		want(t, e.got(), ":erin!~erin@hearsay PRIVMSG Bob :yo")
		want(t, e.do("PRIVMSG Bob :from erin"), ":erin!~erin@hearsay PRIVMSG Bob :from erin")
		h.outbox.materialise(t)
		wantNone(t, z.got(), ":yo")
		ring, err := bobs.keyring()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range h.graph.contents(t)[1:] {
			if strings.Contains(m.Channel+m.Nick+m.Text, "yo") && len(m.Text) < 10 {
				t.Error("sent in clear")
			}
			o, err := ring.Open(m)
			if err != nil || o.Kind != privmsg.Contact {
				t.Fatalf("Bob cannot open it: %v", err)
			}
			got = append(got, o.Text)
		}
		if strings.Join(got, "|") != "yo|from erin" {
			t.Errorf("Bob got %q", got)
		}
		// Own message from another device that shares the secret.
		h.graph.hear(seal(t, ours, "Bob", "", "from my phone"))
		want(t, a.got())
		wantPart(t, z.got(), ":zoe!~zoe@hearsay PRIVMSG Bob :from my phone")
	})
}

// TestEncryptedChannel: sealed with the channel's key under the sender's nick.
func TestEncryptedChannel(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		a := h.join("alice", "#secret")
		want(t, a.do("PRIVMSG #SECRET :psst"))
		h.outbox.materialise(t)
		ring, _ := bobs.keyring()
		all := h.graph.contents(t)
		o, err := ring.Open(all[0])
		if err != nil || o.Kind != privmsg.Channel || o.Nick != "alice" || o.Text != "psst" || len(all) != 1 {
			t.Errorf("%d events, opened as %d, %v", len(all), o.Kind, err)
		}
	})
}

// TestUnknownNick: 401, and never an event (facts 3.4; contract).
func TestUnknownNick(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.register("alice", "echo-message", "labeled-response", "batch")
		want(t, a.do("PRIVMSG nobody :x"), ":irc.hearsay 401 alice nobody :No such nick/channel; to write to somebody in private, /msg *status CONTACTS")
		want(t, a.do("@label=7 PRIVMSG nobody :x"), "@label=7 :irc.hearsay 401 alice nobody :No such nick/channel; to write to somebody in private, /msg *status CONTACTS")
		want(t, a.do("PRIVMSG #a\x7f :x"), ":irc.hearsay 401 alice #a\x7f :No such nick/channel")
		want(t, a.do("PRIVMSG ##a :x"), ":irc.hearsay 401 alice ##a :No such nick/channel")
		lines := a.do("NOTICE nobody :x")
		if len(lines) != 1 || !strings.HasPrefix(lines[0], ":irc.hearsay NOTICE alice :nobody: No such nick") {
			t.Errorf("%q", lines)
		}
		want(t, a.do("PRIVMSG"), ":irc.hearsay 411 alice :No recipient given (PRIVMSG)")
		want(t, a.do("PRIVMSG #a"), ":irc.hearsay 412 alice :No text to send")
		want(t, a.do("PRIVMSG #a :"), ":irc.hearsay 412 alice :No text to send")
		want(t, a.do("NOTICE #a"))
		want(t, a.do("PRIVMSG a,b,c,d,e :x"), ":irc.hearsay 407 alice a,b,c,d,e :Too many targets")
		if h.outbox.n != 0 {
			t.Errorf("%d messages accepted", h.outbox.n)
		}
	})
}

// TestRefusals: each refused PRIVMSG gets one 404 with its code and label, a NOTICE one server
// NOTICE; nothing is echoed or becomes an event (contract; DS-33; failure-cases IRC 10, 25).
func TestRefusals(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.join("alice", "#dev", "echo-message", "labeled-response", "batch"), h.join("bob", "#dev")
		a.got()
		for err, code := range map[error]string{
			ErrQueueFull:      "QUEUE_FULL",
			ErrStorage:        "STORAGE_ERROR",
			ErrStorageUnknown: "STORAGE_UNKNOWN",
			ErrNoKey:          "NO_KEY",
			fmt.Errorf("x"):   "STORAGE_ERROR",
		} {
			h.outbox.err = err
			for prefix, label := range map[string]string{"": "", "@label=abc ": "@label=abc "} {
				lines := a.do(prefix + "PRIVMSG #dev :x")
				if len(lines) != 1 || !strings.HasPrefix(lines[0], label+":irc.hearsay 404 alice #dev :["+code+"] ") {
					t.Errorf("%v: %q", err, lines)
				}
			}
			lines := a.do("NOTICE #dev :x")
			if len(lines) != 1 || !strings.HasPrefix(lines[0], ":irc.hearsay NOTICE alice :#dev: ["+code+"] ") {
				t.Errorf("%v: %q", err, lines)
			}
		}
		h.outbox.err = nil
		lines := a.do("PRIVMSG #dev :" + strings.Repeat("x", maxText+1))
		if len(lines) != 1 || !strings.HasPrefix(lines[0], ":irc.hearsay 404 alice #dev :[MESSAGE_TOO_LONG] ") {
			t.Errorf("%q", lines)
		}
		lines = a.do("NOTICE #dev :" + strings.Repeat("x", maxText+1))
		if len(lines) != 1 || !strings.HasPrefix(lines[0], ":irc.hearsay NOTICE alice :#dev: [MESSAGE_TOO_LONG] ") {
			t.Errorf("%q", lines)
		}
		want(t, b.got())
		if h.outbox.n != 0 {
			t.Error("something was accepted")
		}
	})
}

// TestLongMessage: up to 8 KiB goes out in pieces of at most 512 bytes and is shown in lines of
// at most 512; both, joined, are what was typed (L5, L6; failure-cases IRC 2, 3).
func TestLongMessage(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.join("alice", "#dev", "echo-message"), h.join("bob", "#dev")
		a.got()
		for _, text := range []string{
			strings.Repeat("x", 512), strings.Repeat("x", 513), strings.Repeat("word and ", 200) + "end",
			strings.Repeat("x", maxText), strings.Repeat("x", 510) + "😃", strings.Repeat("😃", 1000), strings.Repeat("é", maxText/2),
		} {
			before := len(h.outbox.queue)
			lines := a.do("PRIVMSG #dev :" + text)
			if got := strings.Join(texts(lines, "PRIVMSG"), ""); got != text {
				t.Errorf("echo of %d bytes differs", len(text))
			}
			if got := strings.Join(texts(b.got(), "PRIVMSG"), ""); got != text {
				t.Errorf("shown of %d bytes differs", len(text))
			}
			var sent strings.Builder
			for _, q := range h.outbox.queue[before:] {
				if len(q.m.text) > privmsg.MaxText {
					t.Errorf("a part of %d bytes", len(q.m.text))
				}
				sent.WriteString(q.m.text)
			}
			if sent.String() != text {
				t.Errorf("sent of %d bytes differs", len(text))
			}
		}
		h.graph.say("#dev", strings.Repeat("n", 24), strings.Repeat("😃", 128))
		lines := b.got()
		if got := strings.Join(texts(lines, "PRIVMSG"), ""); got != strings.Repeat("😃", 128) || len(lines) < 2 {
			t.Errorf("incoming: %q", lines)
		}
		a.got()
		action := "\x01ACTION " + strings.Repeat("waves ", 150) + "\x01"
		var body strings.Builder
		for _, piece := range texts(a.do("PRIVMSG #dev :"+action), "PRIVMSG") {
			body.WriteString(strings.TrimSuffix(strings.TrimPrefix(piece, "\x01ACTION "), "\x01"))
		}
		if body.String() != strings.Repeat("waves ", 150) {
			t.Errorf("action: %q", body.String())
		}
	})
}

// TestLabelledLongEcho: several lines of answer come as one batch with one label.
func TestLabelledLongEcho(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.join("alice", "#dev", "echo-message", "labeled-response", "batch", "message-tags")
		lines := a.do("@label=L PRIVMSG #dev :" + strings.Repeat("x", 1000))
		if count(lines, "label=L") != 1 || !strings.Contains(lines[0], "BATCH +") || !strings.Contains(lines[0], " labeled-response") {
			t.Errorf("%q", lines)
		}
		ids := map[string]bool{}
		for _, l := range lines[1 : len(lines)-1] {
			tags, _, _ := strings.Cut(l, " ")
			if !strings.Contains(tags, "batch=") {
				t.Errorf("outside the batch: %q", l)
			}
			for tag := range strings.SplitSeq(strings.TrimPrefix(tags, "@"), ";") {
				if strings.HasPrefix(tag, "msgid=") {
					ids[tag] = true
				}
			}
		}
		if len(ids) != len(lines)-2 {
			t.Errorf("%d ids for %d lines", len(ids), len(lines)-2)
		}
		want(t, h.register("x", "labeled-response", "batch").do("@label=1 PONG x"), "@label=1 :irc.hearsay ACK")
		wantPart(t, a.do("@label=2 PING tok"), "@label=2 :irc.hearsay PONG irc.hearsay :tok")
		b := h.join("bob", "#dev", "labeled-response", "batch")
		a.got()
		want(t, b.do("@label=3 PRIVMSG #dev :no echo"), "@label=3 :irc.hearsay ACK")
	})
}

// TestNoticeTravelsAsMessage: and a CTCP reply does not travel (contract).
func TestNoticeTravelsAsMessage(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.join("alice", "#dev"), h.join("bob", "#dev")
		a.got()
		want(t, a.do("NOTICE #dev :n", "NOTICE #dev :\x01VERSION x\x01"))
		want(t, b.got(), ":alice!~alice@hearsay NOTICE #dev :n")
		h.outbox.materialise(t)
		all := h.graph.contents(t)
		if len(all) != 1 || all[0] != (privmsg.Message{Channel: "#dev", Nick: "alice", Text: "n"}) {
			t.Errorf("%d events", len(all))
		}
		want(t, a.do("NOTICE bob :\x01PING 1\x01"))
		want(t, b.got(), ":alice!~alice@hearsay NOTICE bob :\x01PING 1\x01")
	})
}

// TestLocalNick: a nick of this daemon can be messaged, that stays here, and contacts come first
// (contract).
func TestLocalNick(t *testing.T) {
	ours, _ := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		a, b := h.register("alice", "echo-message"), h.register("robert")
		want(t, a.do("PRIVMSG ROBERT :psst"), ":alice!~alice@hearsay PRIVMSG robert :psst")
		want(t, b.got(), ":alice!~alice@hearsay PRIVMSG robert :psst")
		b.do("AWAY :lunch")
		wantPart(t, a.do("PRIVMSG robert :x"), ":irc.hearsay 301 alice robert :lunch")
		want(t, b.do("PRIVMSG robert :note to self, in full"), ":alice!~alice@hearsay PRIVMSG robert :x", ":robert!~robert@hearsay PRIVMSG robert :note to self, in full")
		if h.outbox.n != 0 {
			t.Error("a local message was accepted for the network")
		}
		want(t, b.do("PRIVMSG robert,Bob :both"), ":robert!~robert@hearsay PRIVMSG robert :both")
		if h.outbox.n != 1 {
			t.Errorf("%d accepted", h.outbox.n)
		}
	})
}

// TestClientOnlyTags pass between local clients and are not gossiped.
func TestClientOnlyTags(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b, c := h.join("alice", "#dev", "message-tags", "echo-message"), h.join("bob", "#dev", "message-tags"), h.join("carol", "#dev")
		a.got()
		b.got()
		lines := a.do("@+reply=1;foo=2 PRIVMSG #dev :x")
		for _, l := range [][]string{lines, b.got()} {
			if len(l) != 1 || !strings.Contains(l[0], "+reply=1") || strings.Contains(l[0], "foo") {
				t.Errorf("%q", l)
			}
		}
		want(t, c.got(), ":alice!~alice@hearsay PRIVMSG #dev :x")
		a.do("@+typing=active TAGMSG #dev")
		if l := b.got(); len(l) != 1 || !strings.Contains(l[0], "+typing=active") || !strings.HasSuffix(l[0], ":alice!~alice@hearsay TAGMSG #dev") {
			t.Errorf("%q", l)
		}
		want(t, c.got())
		if h.outbox.n != 1 {
			t.Errorf("%d accepted", h.outbox.n)
		}
		want(t, h.register("dan", "message-tags").do("TAGMSG"), ":irc.hearsay 461 dan TAGMSG :Not enough parameters")
	})
}

// TestChannelSpelling: the first local spelling wins, the configured one goes out (T19).
func TestChannelSpelling(t *testing.T) {
	ours, _ := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		h.graph.say("#CHAT", "rob", "early")
		a := h.register("alice")
		wantPart(t, a.do("JOIN #Chat"), ":alice!~alice@hearsay JOIN #Chat", ":rob!~net@darkirc PRIVMSG #Chat :early")
		b := h.register("bobby")
		wantPart(t, b.do("JOIN #chat"), ":bobby!~bobby@hearsay JOIN #Chat")
		wantPart(t, a.got(), ":bobby!~bobby@hearsay JOIN #Chat")
		h.graph.say("#cHAT", "rob", "x")
		want(t, a.got(), ":rob!~net@darkirc PRIVMSG #Chat :x")
		b.do("PRIVMSG #CHAT :one", "PRIVMSG #DEV :two")
		if h.outbox.queue[0].m.to.Name != "#Chat" || h.outbox.queue[1].m.to.Name != "#Dev" {
			t.Errorf("went out as %q and %q", h.outbox.queue[0].m.to.Name, h.outbox.queue[1].m.to.Name)
		}
	})
}

// TestOneSenderKeepsOrder: the reader takes the next line when the last was accepted (DS-31).
func TestOneSenderKeepsOrder(t *testing.T) {
	serve(t, nil, func(h *harness) {
		h.outbox.delay = 10 * time.Millisecond
		a, b := h.join("alice", "#dev"), h.join("bob", "#dev")
		a.got()
		var want []string
		go func() {
			for i := range 50 {
				a.send(fmt.Sprintf("PRIVMSG #dev :%d", i))
			}
		}()
		for i := range 50 {
			want = append(want, fmt.Sprint(i))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := texts(b.got(), "PRIVMSG"); strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q", got)
		}
	})
}

// TestStalledOutboxStallsNobodyElse: one client's commit is no other client's wait.
func TestStalledOutboxStallsNobodyElse(t *testing.T) {
	serve(t, nil, func(h *harness) {
		h.outbox.delay = time.Hour
		a, b := h.join("alice", "#dev"), h.join("bob", "#dev")
		a.got()
		a.send("PRIVMSG #dev :x")
		wantPart(t, b.do("PING 1"), "PONG")
		h.graph.say("#dev", "rob", "hi")
		wantPart(t, b.got(), "rob!")
		wantPart(t, a.got(), "rob!")
	})
}
