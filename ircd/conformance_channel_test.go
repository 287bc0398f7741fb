package ircd

import (
	"strings"
	"testing"
)

// endOfNames is the end of NAMES of one channel.
func endOfNames(nick, channel string) string {
	return ":irc.hearsay 366 " + nick + " " + channel + " :End of /NAMES list"
}

// TestConformanceJoin: JOIN, PART and QUIT.
func TestConformanceJoin(t *testing.T) {
	conform(t, []behaviour{
		{"RFC2812 3.2.1", "JOIN, the names, their end, and nothing else", nil, func(h *harness) {
			a := h.register("a")
			want(h.t, a.do("JOIN #chan"), ":a!~a@hearsay JOIN #chan", ":irc.hearsay 353 a = #chan :a", endOfNames("a", "#chan"))
			b := h.register("b")
			want(h.t, b.do("JOIN #chan"), ":b!~b@hearsay JOIN #chan", ":irc.hearsay 353 b = #chan :a b", endOfNames("b", "#chan"))
			want(h.t, a.got(), ":b!~b@hearsay JOIN #chan")
		}},
		{"RFC2812 3.2.1", "who is in a channel joins it in silence", nil, func(h *harness) {
			a, b := h.join("a", "#chan"), h.join("b", "#chan")
			a.got()
			want(h.t, a.do("JOIN #chan", "JOIN #CHAN"))
			want(h.t, b.got())
		}},
		{"RFC2812 3.2.1", "several channels, one of them impossible", nil, func(h *harness) {
			a := h.register("a")
			want(h.t, a.do("JOIN #x,inv@lid,#y"),
				":a!~a@hearsay JOIN #x", ":irc.hearsay 353 a = #x :a", endOfNames("a", "#x"),
				":irc.hearsay 403 a inv@lid :No such channel",
				":a!~a@hearsay JOIN #y", ":irc.hearsay 353 a = #y :a", endOfNames("a", "#y"))
		}},
		{"Modern JOIN", "keys are accepted, and not needed", nil, func(h *harness) {
			a := h.register("a")
			wantOrder(h.t, a.do("JOIN #x,#y key"), " JOIN #x", " 366 a #x ", " JOIN #y", " 366 a #y ")
		}},
		{"IRCv3 labeled-response", "a JOIN of several channels is one batch", nil, func(h *harness) {
			a := h.register("a", "batch", "labeled-response")
			lines := a.do("@label=L JOIN #x,inv@lid")
			if len(lines) != 6 || lines[0] != "@label=L :irc.hearsay BATCH +1 labeled-response" || lines[5] != ":irc.hearsay BATCH -1" {
				h.t.Fatalf("%q", lines)
			}
			for _, l := range lines[1:5] {
				if !strings.HasPrefix(l, "@batch=1 ") {
					h.t.Errorf("%q", l)
				}
			}
		}},
		{"RFC2812 3.2.1", "JOIN 0 leaves everything", nil, func(h *harness) {
			a, b := h.join("a", "#x,#y"), h.join("b", "#x")
			a.got()
			lines := a.do("JOIN 0")
			wantPart(h.t, lines, ":a!~a@hearsay PART #x", ":a!~a@hearsay PART #y")
			want(h.t, b.got(), ":a!~a@hearsay PART #x")
		}},
		{"Modern CHANLIMIT", "the last channel is let in, one more is 405", nil, func(h *harness) {
			a := h.register("a")
			for i := range maxJoined {
				a.send("JOIN #" + itoa(uint64(i)))
			}
			wantNone(h.t, a.got(), " 405 ")
			want(h.t, a.do("JOIN #more"), ":irc.hearsay 405 a #more :You have joined too many channels")
			a.do("PART #0")
			wantPart(h.t, a.do("JOIN #more"), " JOIN #more")
		}},
		{"RFC2812 3.2.2", "PART with and without a reason is told to everybody in it", nil, func(h *harness) {
			c := h.inRoom("a", "b", "c")
			for i, reason := range []string{"", " :bye everyone"} {
				want(h.t, c[i].do("PART #chan"+reason), ":"+c[i].name+"!~"+c[i].name+"@hearsay PART #chan"+reason)
				want(h.t, c[2].got(), ":"+c[i].name+"!~"+c[i].name+"@hearsay PART #chan"+reason)
				c[1].got()
			}
			want(h.t, c[0].got())
		}},
		{"RFC2812 5.2", "403 and 442 after PART have their forms", nil, func(h *harness) {
			h.inRoom("a")
			b := h.register("b")
			want(h.t, b.do("PART #chan"), ":irc.hearsay 442 b #chan :You're not on that channel")
			want(h.t, b.do("PART #nowhere"), ":irc.hearsay 403 b #nowhere :No such channel")
			want(h.t, b.do("PART"), ":irc.hearsay 461 b PART :Not enough parameters")
		}},
		{"RFC2812 3.1.7", "QUIT is told once to who shares channels, and answered with ERROR", nil, func(h *harness) {
			a, b, c := h.join("a", "#x,#y"), h.join("b", "#x,#y"), h.join("c", "#z")
			a.got()
			want(h.t, b.do("QUIT :b is out"), "ERROR :Closing link: Quit: b is out")
			if !b.isClosed() {
				h.t.Error("still connected")
			}
			want(h.t, a.got(), ":b!~b@hearsay QUIT :Quit: b is out")
			want(h.t, c.got())
			wantPart(h.t, a.do("NAMES #x"), " 353 a = #x :a")
		}},
		{"issue 5", "channels whose names differ in ASCII case are one", nil, func(h *harness) {
			a, b := h.join("a", "#Foo[]"), h.register("b")
			wantPart(h.t, b.do("JOIN #fOO[]"), ":b!~b@hearsay JOIN #Foo[]")
			want(h.t, a.got(), ":b!~b@hearsay JOIN #Foo[]")
			b.do("JOIN #foo{}") // not rfc1459
			want(h.t, a.got())
		}},
	})
}

// TestConformanceNames: NAMES and what +i hides in it.
func TestConformanceNames(t *testing.T) {
	conform(t, []behaviour{
		{"RFC2812 3.2.5", "one channel", nil, func(h *harness) {
			c := h.inRoom("a", "b")
			want(h.t, c[0].do("NAMES #CHAN"), ":irc.hearsay 353 a = #chan :a b", endOfNames("a", "#chan"))
		}},
		{"RFC2812 3.2.5", "a channel that does not or cannot exist has an end", nil, func(h *harness) {
			a := h.register("a")
			want(h.t, a.do("NAMES #nowhere"), endOfNames("a", "#nowhere"))
			want(h.t, a.do("NAMES invalid"), endOfNames("a", "invalid"))
		}},
		{"RFC2812 3.2.5", "without a channel it is all of them, and one end", nil, func(h *harness) {
			a := h.join("a", "#y")
			h.join("b", "#x")
			h.graph.say("#z", "net", "x")
			a.got()
			want(h.t, a.do("NAMES"), ":irc.hearsay 353 a = #y :a", ":irc.hearsay 353 a = #x :b", ":irc.hearsay 353 a = #z :net", endOfNames("a", "*"))
		}},
		{"failure-cases IRC 19", "without a channel it is bounded, and its own come first", nil, func(h *harness) {
			for i := range maxListed + 10 {
				h.graph.say("#"+itoa(uint64(i)), "net", "x")
			}
			a := h.join("a", "#zzz")
			lines := a.do("NAMES")
			if n := count(lines, " 353 "); n != maxListed || !strings.Contains(lines[0], " #zzz ") {
				h.t.Errorf("%d names, first %q", n, lines[0])
			}
		}},
		{"IRCv3 userhost-in-names", "who asked sees prefixes", nil, func(h *harness) {
			a := h.join("a", "#chan", "userhost-in-names")
			h.join("b", "#chan")
			h.graph.say("#chan", "net", "x")
			a.got()
			want(h.t, a.do("NAMES #chan"), ":irc.hearsay 353 a = #chan :a!~a@hearsay b!~b@hearsay net!~net@darkirc", endOfNames("a", "#chan"))
		}},
		{"Modern +i", "hides in NAMES and WHO of channels that are not shared", nil, func(h *harness) {
			c := h.inRoom("hidden", "seen")
			c[0].do("MODE hidden +i")
			out := h.register("out")
			want(h.t, out.do("NAMES #chan"), ":irc.hearsay 353 out = #chan :seen", endOfNames("out", "#chan"))
			wantNone(h.t, out.do("WHO #chan"), "hidden")
			wantPart(h.t, c[1].do("NAMES #chan"), ":hidden seen")
			wantPart(h.t, c[1].do("WHO #chan"), " hidden H ")
			out.do("JOIN #chan")
			wantPart(h.t, out.do("NAMES #chan"), ":hidden out seen")
		}},
	})
}

// TestConformanceTopic: TOPIC, which is local.
func TestConformanceTopic(t *testing.T) {
	conform(t, []behaviour{
		{"RFC2812 3.2.4", "everybody in the channel is told, also that it is empty", nil, func(h *harness) {
			c := h.inRoom("a", "b")
			for _, text := range []string{"T0P1C", "a new one", ""} {
				want(h.t, c[0].do("TOPIC #chan :"+text), ":a!~a@hearsay TOPIC #chan :"+text)
				want(h.t, c[1].got(), ":a!~a@hearsay TOPIC #chan :"+text)
			}
			want(h.t, c[1].do("TOPIC #chan"), ":irc.hearsay 331 b #chan :No topic is set")
		}},
		{"RFC2812 3.2.4", "332 and 333 come with a JOIN, 331 does not", nil, func(h *harness) {
			a := h.inRoom("a")[0]
			b := h.register("b")
			wantNone(h.t, b.do("JOIN #chan"), " 331 ")
			a.do("NICK author", "TOPIC #chan :news")
			c := h.register("c")
			wantOrder(h.t, c.do("JOIN #chan"), " JOIN #chan", ":irc.hearsay 332 c #chan :news", ":irc.hearsay 333 c #chan author 946684800", " 353 c ")
		}},
		{"RFC2812 3.2.4", "403 and 442 after TOPIC have their forms", nil, func(h *harness) {
			h.inRoom("a")
			b := h.register("b")
			want(h.t, b.do("TOPIC #nowhere"), ":irc.hearsay 403 b #nowhere :No such channel")
			want(h.t, b.do("TOPIC #chan :x"), ":irc.hearsay 442 b #chan :You're not on that channel")
		}},
	})
}

// TestConformanceMode: MODE, for clients alone: channels have no modes.
func TestConformanceMode(t *testing.T) {
	conform(t, []behaviour{
		{"Modern MODE", "a channel's modes are none, 324 and 329", nil, func(h *harness) {
			a := h.inRoom("a")[0]
			want(h.t, a.do("MODE #chan"), ":irc.hearsay 324 a #chan +", ":irc.hearsay 329 a #chan 946684800")
		}},
		{"Modern MODE", "the list of bans is empty", nil, func(h *harness) {
			a := h.inRoom("a")[0]
			for _, q := range []string{"b", "+b"} {
				want(h.t, a.do("MODE #chan "+q), ":irc.hearsay 368 a #chan :End of channel ban list")
			}
		}},
		{"Modern MODE", "nobody can change a channel, in it or not", nil, func(h *harness) {
			c := h.inRoom("a", "b")
			out := h.register("out")
			for _, change := range []string{"+o a", "+v b", "+i", "-t", "+k key", "+b x!*@*"} {
				wantPart(h.t, c[0].do("MODE #chan "+change), ":irc.hearsay 482 a #chan :")
				wantPart(h.t, out.do("MODE #chan "+change), ":irc.hearsay 482 out #chan :")
			}
			want(h.t, c[1].got())
			wantPart(h.t, out.do("MODE #chan +o nobody"), ":irc.hearsay 482 out #chan :") // who is not in it learns no more
			want(h.t, c[0].do("MODE #nowhere +o a"), ":irc.hearsay 403 a #nowhere :No such channel")
		}},
		{"Modern MODE", "a nick that is not there is told first", nil, func(h *harness) {
			a := h.inRoom("a")[0]
			h.register("Out")
			h.graph.say("#else", "Net", "x")
			h.graph.say("#chan", "rob", "x")
			a.got()
			for _, cmd := range []string{"MODE #chan +o ", "MODE #chan -v ", "KICK #chan "} {
				want(h.t, a.do(cmd+"nobody"), ":irc.hearsay 401 a nobody :No such nick/channel")
				want(h.t, a.do(cmd+"out"), ":irc.hearsay 441 a Out #chan :They aren't on that channel")
				want(h.t, a.do(cmd+"Net"), ":irc.hearsay 441 a Net #chan :They aren't on that channel")
				wantPart(h.t, a.do(cmd+"A"), ":irc.hearsay 482 a #chan :")
				wantPart(h.t, a.do(cmd+"rob"), ":irc.hearsay 482 a #chan :")
			}
			want(h.t, a.do("MODE #nowhere +o nobody"), ":irc.hearsay 403 a #nowhere :No such channel")
			want(h.t, a.do("KICK #nowhere nobody"), ":irc.hearsay 403 a #nowhere :No such channel")
		}},
		{"Modern MODE", "a client's own", nil, func(h *harness) {
			a := h.register("a")
			h.register("b")
			want(h.t, a.do("MODE a"), ":irc.hearsay 221 a +")
			want(h.t, a.do("MODE A +iB"), ":a!~a@hearsay MODE a +Bi")
			want(h.t, a.do("MODE a +i"))
			want(h.t, a.do("MODE a"), ":irc.hearsay 221 a +Bi")
			want(h.t, a.do("MODE a -B+x"), ":a!~a@hearsay MODE a -B", ":irc.hearsay 501 a :Unknown user mode flag")
			want(h.t, a.do("MODE b +i"), ":irc.hearsay 502 a :Can't change mode for other users")
			want(h.t, a.do("MODE nobody"), ":irc.hearsay 401 a nobody :No such nick/channel")
		}},
		{"RFC2812 3.2.8", "KICK is refused, and nobody is told", nil, func(h *harness) {
			c := h.inRoom("a", "b")
			want(h.t, c[0].do("KICK #chan b :bye"), ":irc.hearsay 482 a #chan :Nobody can be kicked: there are no channel operators")
			want(h.t, c[0].do("KICK #chan b,a"), ":irc.hearsay 482 a #chan :Nobody can be kicked: there are no channel operators")
			want(h.t, c[0].do("KICK #chan b,x,y"), ":irc.hearsay 401 a x :No such nick/channel")
			want(h.t, c[1].got())
		}},
	})
}
