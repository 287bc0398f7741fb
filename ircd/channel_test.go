package ircd

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestJoin: JOIN, topic, names, in that order, and history after them (failure-cases IRC 18).
func TestJoinOrder(t *testing.T) {
	ours, _ := people(t)
	serve(t, func(c *Config, g *fakeGraph) {
		c.Settings = ours
		g.say("#dev", "rob", "earlier")
	}, func(h *harness) {
		a := h.register("alice")
		want(t, a.do("JOIN #dev"),
			":alice!~alice@hearsay JOIN #Dev",
			":irc.hearsay 332 alice #Dev :about dev",
			":irc.hearsay 333 alice #Dev irc.hearsay 946684800",
			":irc.hearsay 353 alice = #Dev :alice rob",
			":irc.hearsay 366 alice #Dev :End of /NAMES list",
			":rob!~net@darkirc PRIVMSG #Dev :earlier")
		want(t, a.do("JOIN #DEV"))
		b := h.register("bobby", "userhost-in-names", "multi-prefix")
		wantPart(t, b.do("JOIN #dev"), ":irc.hearsay 353 bobby = #Dev :alice!~alice@hearsay bobby!~bobby@hearsay rob!~net@darkirc")
		want(t, a.got(), ":bobby!~bobby@hearsay JOIN #Dev")
	})
}

// TestJoinForms: keys, lists, empty items, colons and bad names (facts 3.9; failure-cases IRC 5, 6).
func TestJoinForms(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.register("alice")
		for _, c := range []struct {
			line string
			want []string
		}{
			{"JOIN #a key", []string{" JOIN #a"}},
			{"JOIN :#b", []string{" JOIN #b"}},
			{"JOIN #c,#d k1,k2", []string{" JOIN #c", " JOIN #d"}},
			{"JOIN #e,", []string{" JOIN #e"}},
			{"JOIN ,,#f,,", []string{" JOIN #f"}},
			{"JOIN   #g  ", []string{" JOIN #g"}},
			{"  JOIN #h", []string{" JOIN #h"}},
			{":alice JOIN #i", []string{" JOIN #i"}},
			{"join #j", []string{" JOIN #j"}},
			{"JOIN #k:l", []string{" JOIN #k:l"}},
			{"JOIN nochan,#m", []string{" 403 alice nochan ", " JOIN #m"}},
			{"JOIN ##", []string{" 403 alice ## "}},
			{"JOIN :a b", []string{" 403 alice a_b "}},
			{"JOIN", []string{" 461 alice JOIN "}},
		} {
			lines := a.do(c.line)
			wantPart(t, lines, c.want...)
			if n := count(lines, "JOIN #"); n != count(c.want, "JOIN #") {
				t.Errorf("%q: joined %d in %q", c.line, n, lines)
			}
		}
		want(t, a.do("JOIN :"))
		want(t, a.do("JOIN ,"))
		want(t, a.do("PRIVMSG   #k:l   :x"))
		if got := h.outbox.queue[0].m; got.to.Name != "#k:l" || got.text != "x" { // T3, L10
			t.Errorf("%s %q", got.to.Name, got.text)
		}
		lines := a.do("JOIN 0")
		if n := count(lines, " PART #"); n != 12 {
			t.Errorf("left %d channels", n)
		}
		for i := range maxJoined {
			a.send(fmt.Sprintf("JOIN #n%d", i))
			a.got()
		}
		wantPart(t, a.do("JOIN #more"), " 405 alice #more ")
	})
}

func TestPart(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.join("alice", "#a,#b,#c"), h.join("bob", "#a,#b,#c")
		a.got()
		want(t, a.do("PART #A,#b :see you"), ":alice!~alice@hearsay PART #a :see you", ":alice!~alice@hearsay PART #b :see you")
		want(t, b.got(), ":alice!~alice@hearsay PART #a :see you", ":alice!~alice@hearsay PART #b :see you")
		want(t, a.do("PART #a"), ":irc.hearsay 442 alice #a :You're not on that channel")
		want(t, a.do("PART #nosuch"), ":irc.hearsay 403 alice #nosuch :No such channel")
		want(t, a.do("PART #c"), ":alice!~alice@hearsay PART #c")
		b.do("PRIVMSG #a :x")
		want(t, a.got())
		want(t, a.do("NAMES"), ":irc.hearsay 353 alice = #a :bob", ":irc.hearsay 353 alice = #b :bob", ":irc.hearsay 353 alice = #c :bob", ":irc.hearsay 366 alice * :End of /NAMES list")
		wantPart(t, b.do("NAMES"), "353 bob = #a :bob", "353 bob = #b :bob", "353 bob = #c :bob", "366 bob *")
	})
}

// TestNames: local clients and who spoke in the last 24 hours, each once; the list is split and
// bounded (contract; failure-cases IRC 9, 19).
func TestNames(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.join("alice", "#dev")
		h.graph.say("#dev", "rob", "x")
		h.graph.say("#dev", "Rob", "x")
		h.graph.say("#dev", "alice", "an impostor")
		a.do("PRIVMSG #dev :x")
		wantPart(t, a.do("NAMES #dev"), ":irc.hearsay 353 alice = #dev :Rob alice alice|net")
		h.graph.say("#dev", "alice|net", "another one, who is shown in the same way")
		a.got()
		want(t, a.do("NAMES #dev")[:1], ":irc.hearsay 353 alice = #dev :Rob alice alice|net")
		for range 25 * 60 {
			time.Sleep(time.Minute)
			a.send("PONG x")
		}
		wantPart(t, a.do("NAMES #dev"), ":irc.hearsay 353 alice = #dev :alice")
		want(t, a.do("NAMES #nosuch"), ":irc.hearsay 366 alice #nosuch :End of /NAMES list")
		for i := range 5000 {
			h.graph.say("#dev", fmt.Sprintf("remote-nick-%d", i), "x")
		}
		a.got()
		lines := a.do("NAMES #dev")
		n := 0
		for _, l := range texts(lines, "353") {
			n += len(strings.Fields(l))
		}
		if n != maxSpeakers+1 || len(lines) < 10 {
			t.Errorf("%d names in %d lines", n, len(lines))
		}
	})
}

// TestFormerNicks: a nick that a client of ours spoke with and gave up, by NICK, PART or QUIT, is
// not taken for somebody on the network (decision 0231).
func TestFormerNicks(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.join("alice", "#dev")
		b := h.join("bob", "#dev")
		b.do("PRIVMSG #dev :x", "NICK rob", "PRIVMSG #dev :y")
		wantPart(t, a.do("NAMES #dev"), "353 alice = #dev :alice rob")
		wantNone(t, a.do("WHO #dev"), " bob ")
		wantPart(t, a.do("WHOIS bob"), " 401 alice bob ")
		b.do("PART #dev")
		wantPart(t, a.do("NAMES #dev"), "353 alice = #dev :alice")
		b.do("JOIN #dev", "PRIVMSG #dev :z", "QUIT")
		lines := a.do("NAMES #dev", "WHO #dev", "WHOIS rob", "WHOWAS bob", "WHOWAS rob")
		wantPart(t, lines, "353 alice = #dev :alice", " 401 alice rob ", " 314 alice bob ", " 314 alice rob ")
		wantNone(t, lines, "~net")
		wantNone(t, a.do("LIST", "CHATHISTORY LATEST #dev * 3"), "~net") // nor in what they said
		h.graph.say("#dev", "bob", "somebody else")
		a.got()
		wantPart(t, a.do("NAMES #dev"), "353 alice = #dev :alice bob")
	})
}

// TestSuffixedNickIsFound: WHOIS and WHO find somebody on the network as they are shown.
func TestSuffixedNickIsFound(t *testing.T) {
	ours, _ := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		a := h.join("alice", "#dev")
		long := strings.Repeat("n", 24)
		h.join(long, "#dev")
		for _, nick := range []string{"Alice", "bob", long, "NickServ", "*status"} {
			h.graph.say("#dev", nick, "x")
		}
		a.got()
		for _, shown := range []string{"Alice|net", "bob|net", strings.Repeat("n", 20) + "|net", "NickServ|net", "_status|net"} {
			wantPart(t, a.do("WHOIS "+shown), " 311 alice "+shown+" ~net darkirc ")
			wantPart(t, a.do("WHO "+shown), " 352 alice * ~net darkirc irc.hearsay "+shown+" ")
		}
		wantPart(t, a.do("WHOIS carol|net"), " 401 ")
		wantPart(t, a.do("WHOIS alice|net2"), " 401 ")
	})
}

func TestTopic(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.join("alice", "#dev"), h.join("bob", "#dev")
		a.got()
		want(t, a.do("TOPIC #dev"), ":irc.hearsay 331 alice #dev :No topic is set")
		want(t, a.do("TOPIC #DEV :new topic"), ":alice!~alice@hearsay TOPIC #dev :new topic")
		want(t, b.got(), ":alice!~alice@hearsay TOPIC #dev :new topic")
		want(t, b.do("TOPIC #dev"), ":irc.hearsay 332 bob #dev :new topic", ":irc.hearsay 333 bob #dev alice 946684800")
		want(t, b.do("TOPIC #dev :"), ":bob!~bob@hearsay TOPIC #dev :")
		want(t, b.do("TOPIC #nosuch"), ":irc.hearsay 403 bob #nosuch :No such channel")
		b.do("PART #dev")
		want(t, b.do("TOPIC #dev :x"), ":irc.hearsay 442 bob #dev :You're not on that channel")
		long := strings.Repeat("😃", 120) // 480 bytes: cut, but not inside a character
		wantPart(t, a.do("TOPIC #dev :"+long), "TOPIC #dev :"+strings.Repeat("😃", 97))
	})
}

func TestList(t *testing.T) {
	ours, _ := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		a := h.join("alice", "#mine")
		h.graph.say("#heard", "rob", "x")
		a.got()
		want(t, a.do("LIST"),
			":irc.hearsay 321 alice Channel :Users  Name",
			":irc.hearsay 322 alice #Dev 0 :about dev",
			":irc.hearsay 322 alice #heard 1 :",
			":irc.hearsay 322 alice #mine 1 :",
			":irc.hearsay 322 alice #secret 0 :",
			":irc.hearsay 323 alice :End of /LIST")
		lines := a.do("LIST #dev,#nosuch")
		if len(lines) != 3 || !strings.Contains(lines[1], " #Dev ") {
			t.Errorf("%q", lines)
		}
	})
}

// TestMode: what irssi and others ask on join gets its end (facts 3.9).
func TestMode(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.join("alice", "#dev")
		h.register("bob")
		want(t, a.do("MODE #dev"), ":irc.hearsay 324 alice #dev +", ":irc.hearsay 329 alice #dev 946684800")
		want(t, a.do("MODE #dev b"), ":irc.hearsay 368 alice #dev :End of channel ban list")
		want(t, a.do("MODE #dev +b"), ":irc.hearsay 368 alice #dev :End of channel ban list")
		wantPart(t, a.do("MODE #dev +b x!*@*"), " 482 alice #dev ")
		wantPart(t, a.do("MODE #dev +o alice"), " 482 alice #dev ")
		wantPart(t, a.do("MODE #nosuch"), " 403 alice #nosuch ")
		want(t, a.do("MODE alice"), ":irc.hearsay 221 alice +")
		want(t, a.do("MODE alice +i"), ":alice!~alice@hearsay MODE alice +i")
		want(t, a.do("MODE alice +i"))
		want(t, a.do("MODE alice"), ":irc.hearsay 221 alice +i")
		want(t, a.do("MODE alice -i+w"), ":alice!~alice@hearsay MODE alice -i", ":irc.hearsay 501 alice :Unknown user mode flag")
		wantPart(t, a.do("MODE bob"), " 502 alice ")
		wantPart(t, a.do("MODE nobody"), " 401 alice nobody ")
	})
}

// TestQueries: whatever a client sends of its own accord gets its standard answer.
func TestQueries(t *testing.T) {
	ours, _ := people(t)
	serve(t, func(c *Config, _ *fakeGraph) {
		c.Settings = ours
		c.Settings.MOTD = []string{"line one", strings.Repeat("long ", 200)}
	}, func(h *harness) {
		a, b := h.join("alice", "#dev,#x"), h.join("robert", "#dev")
		h.graph.say("#dev", "rob", "x")
		b.do("AWAY :at lunch")
		a.got()
		want(t, a.do("WHO #dev"),
			":irc.hearsay 352 alice #Dev ~alice hearsay irc.hearsay alice H :0 Real alice",
			":irc.hearsay 352 alice #Dev ~net darkirc irc.hearsay rob H :0 on the network",
			":irc.hearsay 352 alice #Dev ~robert hearsay irc.hearsay robert G :0 Real robert",
			":irc.hearsay 315 alice #dev :End of WHO list")
		want(t, a.do("WHO rob*"), ":irc.hearsay 352 alice * ~robert hearsay irc.hearsay robert G :0 Real robert", ":irc.hearsay 315 alice rob* :End of WHO list")
		want(t, a.do("WHO #nosuch"), ":irc.hearsay 315 alice #nosuch :End of WHO list")
		want(t, a.do("WHO"), ":irc.hearsay 352 alice * ~alice hearsay irc.hearsay alice H :0 Real alice",
			":irc.hearsay 352 alice * ~robert hearsay irc.hearsay robert G :0 Real robert", ":irc.hearsay 315 alice * :End of WHO list")
		time.Sleep(5 * time.Second)
		want(t, a.do("WHOIS ROBERT"),
			":irc.hearsay 311 alice robert ~robert hearsay * :Real robert",
			":irc.hearsay 319 alice robert :#Dev",
			":irc.hearsay 312 alice robert irc.hearsay :connected to this node",
			":irc.hearsay 301 alice robert :at lunch",
			":irc.hearsay 317 alice robert 5 946684800 :seconds idle, signon time",
			":irc.hearsay 318 alice robert :End of /WHOIS list")
		wantPart(t, a.do("WHOIS rob"), " 311 alice rob ~net darkirc ", " 318 alice rob ")
		wantPart(t, a.do("WHOIS bob"), " 311 alice Bob ~net darkirc ", " 318 alice Bob ")
		want(t, a.do("WHOIS nobody"), ":irc.hearsay 401 alice nobody :No such nick/channel", ":irc.hearsay 318 alice nobody :End of /WHOIS list")
		wantPart(t, a.do("WHOIS irc.hearsay alice"), " 311 alice alice ")
		wantPart(t, a.do("WHOIS"), " 431 ")
		want(t, a.do("WHOWAS x"), ":irc.hearsay 406 alice x :There was no such nickname", ":irc.hearsay 369 alice x :End of WHOWAS")
		want(t, a.do("USERHOST alice nobody robert"), ":irc.hearsay 302 alice :alice=+~alice@hearsay robert=-~robert@hearsay")
		want(t, a.do("ISON nobody ROBERT alice"), ":irc.hearsay 303 alice :robert alice")
		want(t, a.do("ISON nobody"), ":irc.hearsay 303 alice :")
		wantPart(t, b.do("AWAY"), " 305 robert ")
		wantPart(t, a.do("VERSION"), " 351 alice hearsay irc.hearsay ", " 005 alice ")
		wantPart(t, a.do("INFO"), " 371 alice ", " 374 alice ")
		wantPart(t, a.do("ADMIN"), " 256 ", " 257 ", " 258 ", " 259 ")
		wantPart(t, a.do("LUSERS"), " 251 alice :There are 2 users", " 255 alice ")
		want(t, a.do("TIME"), ":irc.hearsay 391 alice irc.hearsay :Sat, 01 Jan 2000 00:00:05 UTC")
		lines := a.do("MOTD")
		wantPart(t, lines, " 375 ", " 372 alice :- line one", " 376 ")
		if n := count(lines, " 372 "); n != 4 {
			t.Errorf("MOTD of %d lines", n)
		}
		wantPart(t, a.do("LINKS"), " 364 ", " 365 ")
		wantPart(t, a.do("OPER a b"), " 491 ")
		wantPart(t, a.do("INVITE Bob #dev"), " 482 alice #Dev ")
		wantPart(t, a.do("KICK #dev alice"), " 482 alice #Dev ")
		want(t, a.do("PING :to ken"), ":irc.hearsay PONG irc.hearsay :to ken")
		want(t, a.do("PING"), ":irc.hearsay 409 alice :No origin specified")
		want(t, a.do("NOSUCH a b"), ":irc.hearsay 421 alice NOSUCH :Unknown command")
		want(t, a.do("REHASH"), ":irc.hearsay 481 alice :This server cannot re-read its configuration")
	})
}

func TestAutojoin(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, g *fakeGraph) {
		c.Settings = ours
		c.Settings.Autojoin = []string{"#dev", "#New"}
		g.say("#dev", "rob", "public")
		g.hear(seal(t, bobs, "us", "", "direct"))
	}, func(h *harness) {
		a := h.dial()
		lines := a.do("NICK alice", "USER a 0 * :a")
		order := []string{" 001 ", " 422 ", " JOIN #Dev", " 353 alice = #Dev", " 366 alice #Dev", " JOIN #New", " 366 alice #New", "PRIVMSG #Dev :public", "Bob!~net@darkirc PRIVMSG alice :direct"}
		last := -1
		for _, part := range order {
			i := find(lines, part)
			if i <= last {
				t.Errorf("%q at %d, after %d", part, i, last)
			}
			last = i
		}
		b := h.dial()
		lines = b.do("CAP REQ :no-autojoin", "NICK bobby", "USER b 0 * :b", "CAP END")
		wantNone(t, lines, " JOIN ")
		wantPart(t, lines, "PRIVMSG bobby :direct") // facts 3.2
		c := h.dial()
		lines = c.do("CAP REQ :no-history", "NICK carol", "USER c 0 * :c", "CAP END")
		wantPart(t, lines, " JOIN #Dev", " JOIN #New")
		wantNone(t, lines, " PRIVMSG ")
	})
}
