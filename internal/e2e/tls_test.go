package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
)

// TestTLSClients: catgirl, HexChat, WeeChat and irssi on one daemon over TLS, each
// trusting its certificate in its own way, and somebody far away: all show the same
// conversation with the same times, nothing twice. What cannot go is told in the window
// it was typed in. Another certificate is served after a SIGHUP (issue 5).
func TestTLSClients(t *testing.T) {
	need(t, "catgirl", "hexchat", hexchatLua, "Xvfb", "weechat-headless", "irssi", "tmux")
	t.Parallel()
	bin := build(t)
	n := startNodeWith(t, bin, "quic", nil, nodeOptions{tls: true, maxMessages: 4})
	far := startNode(t, bin, "quic", n)
	far.waitStatus(t, func(s status) bool { return s.Synced && s.P2P.Connected == 1 })
	n.waitStatus(t, func(s status) bool { return s.P2P.Connected == 1 })

	hex := startHexChat(t, login{port: n.irc, nick: "hexa", user: "me@hexchat", cert: n.cert})
	cat := startCatgirl(t, login{port: n.irc, nick: "carla", user: "me@catgirl", cert: n.cert})
	cat.joined(t)
	iri := startIrssi(t, login{port: n.irc, nick: "iris", user: "me@irssi", cert: n.cert})
	wee := startWeeChat(t, t.TempDir(), login{port: n.irc, nick: "wanda", user: "me@weechat", cert: n.cert}, "")
	clients := []client{hex, cat, iri, wee}
	rob := connect(t, far, "rob")

	// One after the other, so that the short queue has room for it.
	rob.send("PRIVMSG #dev :from far away")
	for _, c := range clients {
		shows(t, c, "#dev", `rob\b.*from far away`)
	}
	for _, c := range clients {
		c.say(t, "#dev", "this is "+c.name())
		rob.waits(t, "PRIVMSG #dev :this is "+c.name())
		for _, o := range clients {
			shows(t, o, "#dev", "this is "+c.name()+"$")
		}
	}
	n.waitStatus(t, func(s status) bool { return s.Outbound.Depth == 0 })
	sameConversation := func(text string, except client) {
		t.Helper()
		var at, by string
		for _, c := range clients {
			all := lines(t, c, "#dev", text+"$")
			if len(all) != 1 {
				t.Errorf("%s shows %q", c.name(), all)
				continue
			}
			if c == except { // its own words have the time of its own clock
				continue
			}
			if now := clock(t, all[0]); at == "" {
				at, by = now, c.name()
			} else if now != at {
				t.Errorf("%s has %q at %s, %s at %s", by, text, at, c.name(), now)
			}
		}
	}
	sameConversation("from far away", nil)
	for _, c := range clients {
		sameConversation("this is "+c.name(), c)
	}

	// In private, both ways.
	rob.send("PRIVMSG alice :for your eyes")
	for _, c := range clients {
		shows(t, c, "bob", `bob\b.*for your eyes`)
	}
	cat.say(t, "bob", "likewise")
	rob.waits(t, "PRIVMSG rob :likewise")
	shows(t, iri, "bob", `iris\b.*likewise`) // it knows znc.in/self-message, as what I said elsewhere
	n.waitStatus(t, func(s status) bool { return s.Outbound.Depth == 0 })

	// Without peers the queue fills, and what does not fit is refused, in its window.
	far.stop(t)
	me := connect(t, n, "me")
	for i := range 4 {
		me.send(fmt.Sprint("PRIVMSG #dev :waits ", i))
	}
	n.waitStatus(t, func(s status) bool { return s.Outbound.Depth == 4 })
	for _, c := range clients {
		for _, window := range []string{"#dev", "bob"} {
			c.say(t, window, "does not fit")
			shows(t, c, refusals(c, window), `\[QUEUE_FULL\] Your message was not accepted`)
		}
		c.query(t, "nemo")
		c.say(t, "nemo", "who is that")
		shows(t, c, refusals(c, "nemo"), `No such nick`)
	}

	// Nobody was told of a command that is not known, or of anything else but what
	// went wrong above.
	for name, wire := range map[string]string{"HexChat": hex.read("wire"), "catgirl": readFile(t, cat.wire)} {
		if !strings.Contains(wire, " 001 ") {
			t.Errorf("nothing of %s was written down", name)
		}
		for l := range strings.Lines(wire) {
			if isError(strings.TrimPrefix(l, ">> "), "401", "404", "422") {
				t.Errorf("%s got %s", name, l)
			}
		}
	}
	for _, l := range lines(t, wee, "server.h", `(?i)unknown|not supported|cannot|=!=`) {
		t.Errorf("WeeChat shows %s", l)
	}

	// Another certificate: who is connected stays, who trusts the old one goes away, who
	// trusts the new one comes in and sees what was said, once, at its time.
	old := readFile(t, n.cert)
	said := clock(t, shows(t, cat, "#dev", "from far away"))
	cat.enter(t, "/quit")
	if status := cat.ended(t); status != "0" {
		t.Errorf("catgirl ended with %s", status)
	}
	n.newCertificate(t)
	if err := n.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new certificate", func() error {
		if got := serves(t, n); got != fingerprint(t, n.cert) {
			return fmt.Errorf("it is %s", got)
		}
		return nil
	})
	wary := startCatgirl(t, login{port: n.irc, nick: "carla", cert: writeFile(t, old)})
	if status := wary.ended(t); status == "0" || strings.Contains(readFile(t, wary.wire), " 001 ") {
		t.Errorf("catgirl took another certificate: ended with %s", status)
	}
	cat = startCatgirl(t, login{port: n.irc, nick: "carla", cert: n.cert})
	cat.joined(t)
	if again := clock(t, shows(t, cat, "#dev", "from far away")); again != said {
		t.Errorf("it was said at %s, and later at %s", said, again)
	}
	shows(t, wee, "#dev", "carla.* has joined")
	n.stop(t)
	for _, text := range []string{"this is", "for your eyes", "does not fit"} {
		if strings.Contains(n.log.String(), text) {
			t.Errorf("message text %q in a log (DS-44)", text)
		}
	}
}

// refusals is the window in which a client shows that what was typed in another one was
// refused. catgirl has one for all errors, and names the other one there.
func refusals(c client, window string) string {
	if c.name() == "catgirl" {
		return "<network>"
	}
	return window
}
