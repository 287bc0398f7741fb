package ircd

import (
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// TestRegistrationEitherOrder: NICK and USER in any order (RFC 2812 3.1).
func TestRegistrationEitherOrder(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.dial(), h.dial()
		want(t, a.do("NICK alice"))
		lines := a.do("USER alice 0 * :Alice")
		for _, n := range []string{"001", "002", "003", "004", "005", "251", "252", "254", "255", "422"} {
			wantPart(t, lines, ":irc.hearsay "+n+" alice ")
		}
		want(t, b.do("USER bob 0 * :Bob"))
		wantPart(t, b.do("NICK bob"), " 001 bob :Welcome to the darkirc network, bob!~bob@hearsay")
		wantPart(t, b.do("USER x 0 * :x"), " 462 bob ")
		wantPart(t, b.do("PASS x"), " 462 bob ")
	})
}

// TestISupportIsTrue: each token of 005 is what the server does (issue: ISUPPORT complete and
// true; failure-cases IRC 9).
func TestISupportIsTrue(t *testing.T) {
	serve(t, nil, func(h *harness) {
		c := h.dial()
		lines := c.do("NICK a", "USER a 0 * :a")
		tokens := map[string]string{}
		for _, l := range lines {
			if !strings.Contains(l, " 005 ") {
				continue
			}
			words := strings.Fields(strings.TrimSuffix(l, " :are supported by this server"))
			if len(words)-3 > 13 {
				t.Errorf("%d tokens in one line", len(words)-3)
			}
			for _, w := range words[3:] {
				k, v, _ := strings.Cut(w, "=")
				tokens[k] = v
			}
		}
		for k, v := range map[string]string{
			"CASEMAPPING": "ascii", "CHANTYPES": "#", "NICKLEN": "24", "CHANNELLEN": "24", "NETWORK": "darkirc", "UTF8ONLY": "",
		} {
			if got, ok := tokens[k]; !ok || got != v {
				t.Errorf("%s=%s, want %s", k, got, v)
			}
		}
		wantPart(t, c.do("NICK "+strings.Repeat("n", 24)), " NICK :"+strings.Repeat("n", 24))
		wantPart(t, c.do("NICK "+strings.Repeat("n", 25)), " 432 ")
		wantPart(t, c.do("JOIN #"+strings.Repeat("c", 23)), " JOIN #ccc")
		wantPart(t, c.do("JOIN #"+strings.Repeat("c", 24)), " 403 ")
		long := strings.Repeat("t", 391)
		wantPart(t, c.do("TOPIC #"+strings.Repeat("c", 23)+" :"+long), " :"+long[:390])
	})
}

// TestNothingBeforeRegistration proves T6: neither messages nor commands.
func TestNothingBeforeRegistration(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, g *fakeGraph) {
		c.Settings = ours
		c.Settings.Autojoin = []string{"#dev"}
		g.hear(seal(t, bobs, "us", "", "old secret"))
	}, func(h *harness) {
		c, d := h.dial(), h.dial()
		c.send("NICK alice")
		h.graph.hear(seal(t, bobs, "us", "", "live secret"))
		h.graph.say("#dev", "x", "live")
		want(t, c.got())
		want(t, d.got())
		for name, cmd := range commands {
			if cmd.anytime {
				continue
			}
			lines := c.do(name + " #dev a b :c")
			want(t, lines, ":irc.hearsay 451 alice :You have not registered")
		}
		want(t, c.do("NOSUCH"), ":irc.hearsay 451 alice :You have not registered")
		want(t, c.do("JOIN :"), ":irc.hearsay 451 alice :You have not registered") // irssi (failure-cases IRC 6)
		if c.isClosed() {
			t.Error("closed for it")
		}
	})
}

// darkircHash is the facts page's vector for "password", with darkirc's fixed salt (3.1, T21).
const darkircHash = "$2b$12$GgN9OTbFQN5cwfxPjM9Koed.Cc3mCKzt8xgtNyVkxz7NF5Zvo39wW"

func TestPasswordDarkircHash(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, g *fakeGraph) {
		c.PasswordHash = darkircHash
		c.Settings = ours
		g.hear(seal(t, bobs, "us", "", "secret"))
	}, func(h *harness) {
		c := h.dial()
		lines := c.do("PASS password", "NICK alice", "USER a 0 * :a")
		wantPart(t, lines, " 001 alice ")
		for _, pass := range []string{"PASS :password ", ""} {
			c := h.dial()
			if pass != "" {
				c.send(pass)
			}
			c.send("NICK bob", "USER b 0 * :b")
			time.Sleep(time.Minute) // the throttle's longest wait
			lines := c.got()
			wantPart(t, lines, " 464 bob :Password incorrect", "ERROR :Closing link: Password incorrect")
			wantNone(t, lines, " 001 ")
			wantNone(t, lines, "secret")
			if !c.isClosed() {
				t.Errorf("%q: not closed", pass)
			}
		}
	})
}

// TestNicksAreNotToldBeforeThePassword: neither who is connected nor who is a contact (T6).
func TestNicksAreNotToldBeforeThePassword(t *testing.T) {
	ours, _ := people(t)
	hash, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, func(c *Config, _ *fakeGraph) {
		c.PasswordHash, c.Settings = string(hash), ours
	}, func(h *harness) {
		a := h.dial()
		wantPart(t, a.do("PASS right", "NICK alice", "USER a 0 * :a"), " 001 alice ")
		b := h.dial()
		want(t, b.do("NICK alice", "NICK Bob"))
		wantPart(t, b.do("USER b 0 * :b"), " 464 ")
		c := h.dial()
		c.send("PASS right", "NICK Bob", "USER c 0 * :c")
		time.Sleep(time.Minute / 2)
		want(t, c.got(), ":irc.hearsay 433 Bob Bob :Nickname is reserved for a contact or a service")
		want(t, c.do("NICK ALICE"), ":irc.hearsay 433 * ALICE :Nickname is already in use")
		wantPart(t, c.do("NICK carol"), " 001 carol ") // the password counts
	})
}

// TestPasswordThrottle: each failure from a host makes the next try wait longer.
func TestPasswordThrottle(t *testing.T) {
	h, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, func(c *Config, _ *fakeGraph) { c.PasswordHash = string(h) }, func(h *harness) {
		for i, wait := range []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 16 * time.Second} {
			c := h.dial()
			start := time.Now()
			c.send("PASS wrong", "NICK a", "USER a 0 * :a")
			for !c.isClosed() {
				time.Sleep(100 * time.Millisecond)
			}
			if got := time.Since(start); got != wait {
				t.Errorf("try %d took %v, want %v", i+1, got, wait)
			}
		}
		time.Sleep(throttleForget + time.Second)
		c := h.dial()
		wantPart(t, c.do("PASS right", "NICK a", "USER a 0 * :a"), " 001 a ")
	})
}

// TestThrottleLocksNobodyOut: while somebody on the owner's own host tries passwords on as many connections as may
// wait, the right one gets in after the longest wait, and others of the server wait for nothing.
func TestThrottleLocksNobodyOut(t *testing.T) {
	h, err := bcrypt.GenerateFromPassword([]byte("right"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, func(c *Config, _ *fakeGraph) { c.PasswordHash = string(h) }, func(h *harness) {
		inside := h.dial()
		wantPart(t, inside.do("PASS right", "NICK in", "USER in 0 * :in"), " 001 in ")
		for range 3 {
			for range maxUnregistered / 2 {
				h.dial().send("PASS wrong", "NICK a", "USER a 0 * :a")
			}
			time.Sleep(2 * throttleStep) // some have failed, the last ones wait
		}
		owner, start := h.dial(), time.Now()
		owner.send("PASS right", "NICK owner", "USER o 0 * :o")
		for !has(owner.got(), " 001 owner ") {
			if time.Since(start) > throttleMax+time.Second {
				t.Fatal("locked out")
			}
			wantPart(t, inside.do("PING x"), "PONG")
			time.Sleep(100 * time.Millisecond)
		}
	})
}

func TestThrottleIsBounded(t *testing.T) {
	var th throttle
	now := time.Now()
	for i := range 2 * maxThrottled {
		th.failed(itoa(uint64(i)), now.Add(time.Duration(i)))
	}
	if n := len(th.hosts); n > maxThrottled {
		t.Errorf("%d hosts", n)
	}
	if th.wait(itoa(2*maxThrottled-1), now) == 0 {
		t.Error("the newest failure is forgotten")
	}
	for range 100 {
		th.failed("x", now)
	}
	if w := th.wait("x", now); w != throttleMax {
		t.Errorf("waits %v", w)
	}
}

func TestHashPassword(t *testing.T) {
	for _, p := range []string{"", "password", strings.Repeat("x", 100)} {
		h, err := hashPassword(p, bcrypt.MinCost)
		if err != nil || bcrypt.CompareHashAndPassword([]byte(h), cutPassword(p)) != nil {
			t.Errorf("%d bytes: %v", len(p), err)
		}
	}
	h, err := HashPassword("x")
	if cost, cerr := bcrypt.Cost([]byte(h)); err != nil || cerr != nil || cost != 12 {
		t.Errorf("cost %d, %v, %v", cost, err, cerr)
	}
}

// TestRegistrationTimeout: CAP LS without END, and silence (failure-cases IRC 8).
func TestRegistrationTimeout(t *testing.T) {
	serve(t, nil, func(h *harness) {
		silent, stalled := h.dial(), h.dial()
		stalled.send("CAP LS 302", "NICK a", "USER a 0 * :a")
		wantNone(t, stalled.got(), " 001 ")
		time.Sleep(registerTimeout - time.Second)
		if silent.isClosed() || stalled.isClosed() {
			t.Error("closed too early")
		}
		time.Sleep(2 * time.Second)
		for _, c := range []*testClient{silent, stalled} {
			want(t, c.got(), "ERROR :Closing link: Registration timed out")
			if !c.isClosed() {
				t.Error("not closed")
			}
		}
	})
}

// TestPingTimeout: a server that never pings keeps dead clients (facts 3.9).
func TestPingTimeout(t *testing.T) {
	serve(t, nil, func(h *harness) {
		alive, dead := h.register("alive"), h.register("dead")
		time.Sleep(pingAfter + time.Second)
		want(t, alive.got(), "PING :irc.hearsay")
		want(t, dead.got(), "PING :irc.hearsay")
		want(t, alive.do("PONG irc.hearsay"))
		time.Sleep(pingTimeout)
		wantPart(t, dead.got(), "ERROR :Closing link: Ping timeout")
		if alive.isClosed() {
			t.Error("a living client was closed")
		}
	})
}

func TestNick(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.join("alice", "#c"), h.join("bob", "#c")
		a.got()
		want(t, a.do("NICK"), ":irc.hearsay 431 alice :No nickname given")
		want(t, a.do("NICK :a b"), ":irc.hearsay 432 alice a_b :Erroneous nickname")
		want(t, a.do("NICK BOB"), ":irc.hearsay 433 alice BOB :Nickname is already in use")
		want(t, a.do("NICK nickserv"), ":irc.hearsay 433 alice nickserv :Nickname is reserved for a contact or a service")
		want(t, b.got())
		want(t, a.do("NICK Alice"), ":alice!~alice@hearsay NICK :Alice")
		want(t, b.got(), ":alice!~alice@hearsay NICK :Alice")
		want(t, a.do("NICK Alice"))
		want(t, a.do("NICK carol"), ":Alice!~alice@hearsay NICK :carol")
		c := h.dial()
		wantPart(t, c.do("NICK alice", "USER a 0 * :a"), " 001 alice ")
		// A nick is nobody's before registration.
		d, e := h.dial(), h.dial()
		want(t, d.do("NICK dave"))
		wantPart(t, e.do("NICK dave", "USER e 0 * :e"), " 001 dave ")
		wantPart(t, d.do("USER d 0 * :d"), " 433 dave dave ")
		wantPart(t, d.do("NICK dave2"), " 001 dave2 ")
	})
}

// TestUserIsNotRefused: names with a dot, tilde, plus or of any length register (facts 3.9).
func TestUserIsNotRefused(t *testing.T) {
	serve(t, nil, func(h *harness) {
		for in, out := range map[string]string{"a.b": "a.b", "~x": "x", "a+b": "ab", strings.Repeat("u", 40): strings.Repeat("u", 16), "é!@": "user"} {
			c := h.dial()
			wantPart(t, c.do("NICK n", "USER "+in+" 0 * :r"), "n!~"+out+"@hearsay")
			c.do("QUIT")
		}
		c := h.dial()
		wantPart(t, c.do("NICK n", "USER a b"), " 461 n USER ")
	})
}

func TestCapNegotiation(t *testing.T) {
	all := "away-notify batch cap-notify draft/chathistory draft/read-marker echo-message labeled-response message-tags multi-prefix no-autojoin no-history sasl server-time setname standard-replies userhost-in-names znc.in/self-message"
	serve(t, nil, func(h *harness) {
		c := h.dial()
		want(t, c.do("CAP LS"), ":irc.hearsay CAP * LS :"+all)
		want(t, c.do("NICK a", "USER a 0 * :a"))
		want(t, c.do("CAP REQ :server-time nosuch"), ":irc.hearsay CAP a NAK :server-time nosuch") // atomic (failure-cases IRC 8)
		want(t, c.do("CAP LIST"), ":irc.hearsay CAP a LIST :")
		want(t, c.do("CAP REQ :server-time batch"), "@time=2000-01-01T00:00:00.000Z :irc.hearsay CAP a ACK :server-time batch")
		want(t, c.do("CAP REQ -batch"), "@time=2000-01-01T00:00:00.000Z :irc.hearsay CAP a ACK :-batch")
		want(t, c.do("CAP LIST"), "@time=2000-01-01T00:00:00.000Z :irc.hearsay CAP a LIST :server-time")
		want(t, c.do("CAP REQ :batch -batch multi-prefix -batch"), "@time=2000-01-01T00:00:00.000Z :irc.hearsay CAP a ACK :batch -batch multi-prefix -batch")
		want(t, c.do("CAP LIST"), "@time=2000-01-01T00:00:00.000Z :irc.hearsay CAP a LIST :multi-prefix server-time")
		want(t, c.do("CAP REQ :-multi-prefix -batch batch"), "@time=2000-01-01T00:00:00.000Z :irc.hearsay CAP a ACK :-multi-prefix -batch batch")
		want(t, c.do("CAP LIST"), "@time=2000-01-01T00:00:00.000Z :irc.hearsay CAP a LIST :batch server-time")
		want(t, c.do("CAP REQ :-batch"), "@time=2000-01-01T00:00:00.000Z :irc.hearsay CAP a ACK :-batch")
		want(t, c.do("CAP NOSUCH"), ":irc.hearsay 410 a NOSUCH :Invalid CAP subcommand")
		wantPart(t, c.do("CAP"), " 461 ")
		wantPart(t, c.do("CAP END"), " 001 a ")
		wantNone(t, c.do("CAP END"), " 001 ") // not the burst again (facts 3.1.7)

		// senpai: REQs one at a time, no LS.
		c = h.dial()
		want(t, c.do("CAP REQ server-time", "NICK b", "USER b 0 * :b"), "@time=2000-01-01T00:00:00.000Z :irc.hearsay CAP * ACK :server-time")
		wantPart(t, c.do("CAP REQ :batch", "CAP END"), " CAP b ACK :batch", " 001 b ")

		c = h.dial()
		c.do("CAP LS 302")
		want(t, c.do("CAP LIST"), ":irc.hearsay CAP * LIST :cap-notify")
		want(t, c.do("CAP REQ :-cap-notify"), ":irc.hearsay CAP * NAK :-cap-notify")
	})
}

func TestQuitAndErrors(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.join("alice", "#c"), h.join("bob", "#c")
		a.got()
		want(t, b.do("QUIT :bye now"), "ERROR :Closing link: Quit: bye now")
		if !b.isClosed() {
			t.Error("not closed")
		}
		want(t, a.got(), ":bob!~bob@hearsay QUIT :Quit: bye now")
		d := h.register("dave")
		d.conn.Write([]byte("QUIT\r\nPRIVMSG #c :after the end\r\nJOIN #c\r\n"))
		d.got()
		want(t, a.got())
		c := h.join("carol", "#c")
		a.got()
		c.conn.Close()
		want(t, a.got(), ":carol!~carol@hearsay QUIT :Connection closed")
		h.cancel()
		want(t, a.got(), "ERROR :Closing link: Server shutting down")
	})
}

// TestNickServ answers that rate limiting is off, and is echoed like any message
// (failure-cases IRC 11).
func TestNickServ(t *testing.T) {
	serve(t, nil, func(h *harness) {
		c := h.register("alice", "echo-message")
		lines := c.do("PRIVMSG NickServ :INFO")
		if len(lines) != 2 || lines[0] != ":alice!~alice@hearsay PRIVMSG NickServ :INFO" {
			t.Errorf("%q", lines)
		}
		wantPart(t, lines, "NOTICE alice :Rate limiting (RLN) is off")
		if n := len(h.graph.contents(t)); n != 0 {
			t.Errorf("%d events", n)
		}
	})
}

// TestNetworkNotices: whether anybody is there, at the welcome and when it changes.
func TestNetworkNotices(t *testing.T) {
	n := &fakeNetwork{}
	serve(t, func(c *Config, _ *fakeGraph) { c.Network = n }, func(h *harness) {
		c := h.dial()
		lines := c.do("NICK a", "USER a 0 * :a")
		wantPart(t, lines, "NOTICE a :No peer is connected: what")
		std := h.register("std", "standard-replies")
		time.Sleep(noticeInterval)
		for _, st := range []struct {
			st   NetworkState
			text string
		}{
			{NetworkState{1, 2, false, 1}, "Connected to 1 peer, getting the recent history: what you say is kept and sent after that"},
			{NetworkState{1, 2, true, 1}, "Connected to 1 of 2 peers: what you say is kept and sent when there are more"},
			{NetworkState{3, 2, true, 3}, "Connected to 3 peers"},
		} {
			n.set(st.st)
			time.Sleep(noticeInterval + tick)
			want(t, c.got(), ":irc.hearsay NOTICE a :"+st.text)
			want(t, std.got(), ":irc.hearsay NOTE * NETWORK :"+st.text)
		}
		n.set(NetworkState{4, 2, true, 4})
		time.Sleep(20 * time.Second)
		want(t, c.got())
	})
}
