package ircd

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// inRoom registers clients in #chan and forgets what they were told.
func (h *harness) inRoom(nicks ...string) []*testClient {
	h.t.Helper()
	var all []*testClient
	for _, n := range nicks {
		all = append(all, h.join(n, "#chan"))
	}
	for _, c := range all {
		c.got()
	}
	return all
}

// contacts configures Bob.
func contacts(t testing.TB) func(*Config, *fakeGraph) {
	return func(c *Config, _ *fakeGraph) { c.Settings, _ = people(t) }
}

// TestConformanceWho: WHO (Modern) and WHOX.
func TestConformanceWho(t *testing.T) {
	const end = " :End of WHO list"
	conform(t, []behaviour{
		{"Modern WHO", "a channel, whatever the case, with the flags", nil, func(h *harness) {
			c := h.inRoom("coolNick", "other")
			c[0].do("AWAY :brb", "MODE coolNick +B")
			want(h.t, c[1].do("WHO #CHAN"),
				":irc.hearsay 352 other #chan ~coolNick hearsay irc.hearsay coolNick GB :0 Real coolNick",
				":irc.hearsay 352 other #chan ~other hearsay irc.hearsay other H :0 Real other",
				":irc.hearsay 315 other #CHAN"+end)
		}},
		{"Modern WHO", "a nick or a mask", nil, func(h *harness) {
			c := h.inRoom("coolNick", "other")
			for _, mask := range []string{"coolNick", "COOLNICK", "cooln?c*"} {
				want(h.t, c[1].do("WHO "+mask),
					":irc.hearsay 352 other * ~coolNick hearsay irc.hearsay coolNick H :0 Real coolNick", ":irc.hearsay 315 other "+mask+end)
			}
			want(h.t, c[1].do("WHO nobody"), ":irc.hearsay 315 other nobody"+end)
			want(h.t, c[1].do("WHO #nowhere"), ":irc.hearsay 315 other #nowhere"+end)
			want(h.t, c[1].do("WHO * o"), ":irc.hearsay 315 other *"+end) // there are no operators
			if n := count(c[1].do("WHO 0"), " 352 "); n != 2 {
				h.t.Errorf("%d", n)
			}
		}},
		{"RFC1459 4.5.1", "a mask is held against all that is shown", nil, func(h *harness) {
			c := h.inRoom("coolNick", "other")
			for _, mask := range []string{"*oolnick", "~cool*", "*REAL?cool*"} {
				lines := c[1].do("WHO :" + mask)
				if len(lines) != 2 || !strings.Contains(lines[0], " coolNick H :0 Real coolNick") {
					h.t.Errorf("%s: %q", mask, lines)
				}
			}
			for _, mask := range []string{"hearsay", "irc.hears*", "real*"} {
				if n := count(c[1].do("WHO "+mask), " 352 "); n != 2 {
					h.t.Errorf("%s: %d", mask, n)
				}
			}
		}},
		{"Modern WHO", "+i hides from masks, but not from a shared channel", nil, func(h *harness) {
			h.register("hidden").do("MODE hidden +i")
			c := h.inRoom("seen", "other")
			c[0].do("MODE seen +i")
			wantNone(h.t, c[1].do("WHO *"), "hidden")
			wantPart(h.t, c[1].do("WHO *"), " seen ")
			wantPart(h.t, c[1].do("WHO hidden"), " hidden H ")
		}},
		{"contract", "a contact, and who spoke on the network", contacts(t), func(h *harness) {
			c := h.inRoom("alice")
			h.graph.say("#chan", "rob", "x")
			c[0].got()
			want(h.t, c[0].do("WHO bob"), ":irc.hearsay 352 alice * ~net darkirc irc.hearsay Bob H :0 on the network", ":irc.hearsay 315 alice bob"+end)
			want(h.t, c[0].do("WHO rob"), ":irc.hearsay 352 alice * ~net darkirc irc.hearsay rob H :0 on the network", ":irc.hearsay 315 alice rob"+end)
		}},
		{"IRCv3 WHOX", "all fields, in their order, whatever was asked", nil, func(h *harness) {
			c := h.inRoom("coolNick", "other")
			time.Sleep(3 * time.Second)
			for _, fields := range []string{"tcuihsnfdlaor", "roaldfnshiuct"} {
				want(h.t, c[1].do("WHO coolNick %"+fields+",123"),
					":irc.hearsay 354 other 123 * ~coolNick 255.255.255.255 hearsay irc.hearsay coolNick H 0 3 0 n/a :Real coolNick",
					":irc.hearsay 315 other coolNick"+end)
			}
		}},
		{"IRCv3 WHOX", "the token, and what is not one", nil, func(h *harness) {
			c := h.inRoom("a")[0]
			want(h.t, c.do("WHO a %tn,321"), ":irc.hearsay 354 a 321 a", ":irc.hearsay 315 a a"+end)
			want(h.t, c.do("WHO #chan %ctnf"), ":irc.hearsay 354 a 0 #chan a H", ":irc.hearsay 315 a #chan"+end)
			want(h.t, c.do("WHO a %tn,1234"), ":irc.hearsay 354 a 0 a", ":irc.hearsay 315 a a"+end)
			want(h.t, c.do("WHO a o%tn,5"), ":irc.hearsay 354 a 5 a", ":irc.hearsay 315 a a"+end)
			want(h.t, c.do("WHO a %"), ":irc.hearsay 354 a", ":irc.hearsay 315 a a"+end)
		}},
	})
}

// TestConformanceWhois: WHOIS and WHOWAS (Modern).
func TestConformanceWhois(t *testing.T) {
	conform(t, []behaviour{
		{"Modern WHOIS", "everything that is known of a client", nil, func(h *harness) {
			c := h.inRoom("nick2", "nick1")
			c[0].do("JOIN #other", "AWAY :on a break", "MODE nick2 +B")
			time.Sleep(7 * time.Second)
			want(h.t, c[1].do("WHOIS NICK2 nick2"),
				":irc.hearsay 311 nick1 nick2 ~nick2 hearsay * :Real nick2",
				":irc.hearsay 319 nick1 nick2 :#chan #other",
				":irc.hearsay 312 nick1 nick2 irc.hearsay :connected to this node",
				":irc.hearsay 301 nick1 nick2 :on a break",
				":irc.hearsay 335 nick1 nick2 :is a bot",
				":irc.hearsay 317 nick1 nick2 7 946684800 :seconds idle, signon time",
				":irc.hearsay 318 nick1 nick2 :End of /WHOIS list")
		}},
		{"Modern WHOIS", "of somebody with +i only shared channels", nil, func(h *harness) {
			c := h.inRoom("nick2", "nick1")
			c[0].do("JOIN #other", "MODE nick2 +i")
			wantPart(h.t, c[1].do("WHOIS nick2"), " 319 nick1 nick2 :#chan")
			wantPart(h.t, c[0].do("WHOIS nick2"), " 319 nick2 nick2 :#chan #other")
			c[1].do("PART #chan")
			wantNone(h.t, c[1].do("WHOIS nick2"), " 319 ")
		}},
		{"Modern WHOIS", "errors end too", contacts(t), func(h *harness) {
			c := h.register("a")
			want(h.t, c.do("WHOIS nobody"), ":irc.hearsay 401 a nobody :No such nick/channel", ":irc.hearsay 318 a nobody :End of /WHOIS list")
			want(h.t, c.do("WHOIS nosuch.server a"), ":irc.hearsay 402 a nosuch.server :No such server")
			want(h.t, c.do("WHOIS"), ":irc.hearsay 431 a :No nickname given")
			want(h.t, c.do("WHOIS *STATUS"), ":irc.hearsay 311 a *status status hearsay * :a service of this node",
				":irc.hearsay 312 a *status irc.hearsay :part of this node", ":irc.hearsay 318 a *status :End of /WHOIS list")
			wantPart(h.t, c.do("WHOIS BOB"), " 311 a Bob ~net darkirc * :a configured contact", " 318 a Bob ")
		}},
		{"RFC2812 3.6.3", "WHOWAS tells the latest first, as many as were asked", nil, func(h *harness) {
			for _, user := range []string{"ident2", "ident3"} {
				c := h.dial()
				c.do("NICK nick2", "USER "+user+" 0 * :Realname", "QUIT :bye")
			}
			c := h.register("nick1")
			latest := []string{":irc.hearsay 314 nick1 nick2 ~ident3 hearsay * :Realname", ":irc.hearsay 312 nick1 nick2 irc.hearsay :Sat, 01 Jan 2000 00:00:00 UTC"}
			earlier := []string{":irc.hearsay 314 nick1 nick2 ~ident2 hearsay * :Realname", ":irc.hearsay 312 nick1 nick2 irc.hearsay :Sat, 01 Jan 2000 00:00:00 UTC"}
			all := append(append([]string{}, latest...), earlier...)
			for cmd, lines := range map[string][]string{
				"WHOWAS nick2": all, "WHOWAS NICK2 1": latest, "WHOWAS nick2 2": all, "WHOWAS nick2 -1": all, "WHOWAS nick2 0": all, "WHOWAS *ck2": all,
			} {
				mask := strings.Fields(cmd)[1]
				want(h.t, c.do(cmd), append(append([]string{}, lines...), ":irc.hearsay 369 nick1 "+mask+" :End of WHOWAS")...)
			}
			want(h.t, c.do("WHOWAS nobody"), ":irc.hearsay 406 nick1 nobody :There was no such nickname", ":irc.hearsay 369 nick1 nobody :End of WHOWAS")
			want(h.t, c.do("WHOWAS"), ":irc.hearsay 431 nick1 :No nickname given")
			c.do("NICK other")
			wantPart(h.t, c.do("WHOWAS nick1"), " 314 other nick1 ~nick1 hearsay * :Real nick1")
		}},
		{"failure-cases IRC 19", "what WHOWAS remembers is bounded", nil, func(h *harness) {
			c := h.register("a")
			for i := range maxWhowas + 1 {
				c.do(fmt.Sprintf("NICK n%d", i))
			}
			if n := count(c.do("WHOWAS *"), " 314 "); n != maxWhowas {
				h.t.Errorf("%d", n)
			}
			wantPart(h.t, c.do("WHOWAS a"), " 406 ") // the oldest
		}},
	})
}

// TestConformanceServerQueries: questions about the server.
func TestConformanceServerQueries(t *testing.T) {
	conform(t, []behaviour{
		{"Modern 4.5", "a question for another server is 402", nil, func(h *harness) {
			c := h.register("a")
			for _, cmd := range []string{"ADMIN", "INFO", "MOTD", "TIME", "VERSION", "LUSERS *", "STATS u"} {
				want(h.t, c.do(cmd+" nosuch.server"), ":irc.hearsay 402 a nosuch.server :No such server")
				wantNone(h.t, c.do(cmd+" irc.hearsay"), " 402 ")
				wantNone(h.t, c.do(cmd+" *.hearsay"), " 402 ")
				wantNone(h.t, c.do(cmd+" a"), " 402 ")
			}
		}},
		{"Modern LUSERS", "counts are of this node", nil, func(h *harness) {
			c := h.inRoom("a", "b")
			c[1].do("MODE b +i")
			h.dial()
			want(h.t, c[0].do("LUSERS"),
				":irc.hearsay 251 a :There are 1 users and 1 invisible on 1 servers",
				":irc.hearsay 252 a 0 :operator(s) online",
				":irc.hearsay 253 a 1 :unknown connection(s)",
				":irc.hearsay 254 a 1 :channels formed",
				":irc.hearsay 255 a :I have 2 clients and 0 servers",
				":irc.hearsay 265 a 2 2 :Current local users 2, max 2",
				":irc.hearsay 266 a 2 2 :Current users of this node 2, max 2")
		}},
		{"Modern STATS", "u is the uptime, everything ends", nil, func(h *harness) {
			h.register("a")
			time.Sleep(26*time.Hour + 3*time.Minute + 4*time.Second)
			c := h.register("b")
			want(h.t, c.do("STATS u"), ":irc.hearsay 242 b :Server Up 1 days 2:03:04", ":irc.hearsay 219 b u :End of STATS report")
			want(h.t, c.do("STATS l"), ":irc.hearsay 219 b l :End of STATS report")
			want(h.t, c.do("STATS"), ":irc.hearsay 219 b * :End of STATS report")
		}},
		{"RFC2812 3.4", "LINKS and MAP know one server", nil, func(h *harness) {
			c := h.register("a")
			want(h.t, c.do("LINKS"), ":irc.hearsay 364 a irc.hearsay irc.hearsay :0 peers are not servers, and not listed", ":irc.hearsay 365 a * :End of LINKS list")
			want(h.t, c.do("LINKS *.hearsay"), ":irc.hearsay 364 a irc.hearsay irc.hearsay :0 peers are not servers, and not listed", ":irc.hearsay 365 a *.hearsay :End of LINKS list")
			want(h.t, c.do("LINKS *.net"), ":irc.hearsay 365 a *.net :End of LINKS list")
			want(h.t, c.do("LINKS nosuch.server *"), ":irc.hearsay 402 a nosuch.server :No such server")
			want(h.t, c.do("MAP"), ":irc.hearsay 015 a :irc.hearsay: peers are not servers, and not listed", ":irc.hearsay 017 a :End of MAP")
		}},
		{"Modern HELP", "there is a topic for every command", nil, func(h *harness) {
			c := h.register("a")
			for name := range commands {
				lines := c.do("HELP " + strings.ToLower(name))
				wantOrder(h.t, lines, ":irc.hearsay 704 a "+name+" :", ":irc.hearsay 705 a "+name+" :", ":irc.hearsay 706 a "+name+" :")
				if len(lines) < 3 {
					h.t.Errorf("%s: %q", name, lines)
				}
			}
			lines := c.do("HELPOP")
			wantOrder(h.t, lines, " 704 a * :", " 705 a * :Subjects: ADMIN ", " 706 a * :")
			wantPart(h.t, lines, " PRIVMSG ")
			wantPart(h.t, c.do("HELP nosuch"), ":irc.hearsay 524 a nosuch :")
		}},
		{"RFC2812 5.1", "what needs operators is refused", nil, func(h *harness) {
			c := h.inRoom("a", "b")[0]
			for _, cmd := range []string{"KILL b :x", "CONNECT x 6667", "SQUIT x :y", "WALLOPS :x", "DIE", "RESTART"} {
				want(h.t, c.do(cmd), ":irc.hearsay 481 a :Permission Denied- there are no operators here")
			}
			want(h.t, c.do("OPER a b"), ":irc.hearsay 491 a :There are no operators here")
			want(h.t, c.do("KILL b"), ":irc.hearsay 461 a KILL :Not enough parameters")
			want(h.t, c.do("USERS"), ":irc.hearsay 446 a :USERS has been disabled")
			want(h.t, c.do("SUMMON b"), ":irc.hearsay 445 a :SUMMON has been disabled")
			want(h.t, c.do("KICK #chan b"), ":irc.hearsay 482 a #chan :Nobody can be kicked: there are no channel operators")
			want(h.t, c.do("KICK #nowhere b"), ":irc.hearsay 403 a #nowhere :No such channel")
			want(h.t, c.do("KICK #chan"), ":irc.hearsay 461 a KICK :Not enough parameters")
			h.join("x", "#x")
			want(h.t, c.do("KICK #x x"), ":irc.hearsay 442 a #x :You're not on that channel")
		}},
		{"Modern LIST", "masks, numbers of users and ages of topics (ELIST=MNTU)", nil, func(h *harness) {
			c := h.inRoom("a", "b")[0]
			c.do("JOIN #small", "TOPIC #small :t", "JOIN #chat")
			time.Sleep(90 * time.Second)
			c.do("PING x", "TOPIC #chat :fresh")
			for cmd, names := range map[string]string{
				"LIST": "#chan #chat #small", "LIST #chan": "#chan", "LIST #CHAN,#small": "#chan #small", "LIST #ch*": "#chan #chat", "LIST *": "#chan #chat #small",
				"LIST !#ch*": "#small", "LIST >1": "#chan", "LIST <2": "#chat #small", "LIST >0,!#small": "#chan #chat",
				"LIST T>1": "#small", "LIST T<1": "#chat", "LIST T<5": "#chat #small", "LIST #ch*,>1": "#chan", "LIST >5": "",
			} {
				var got []string
				for _, l := range c.do(cmd) {
					if w := strings.Fields(l); w[1] == "322" {
						got = append(got, w[3])
					}
				}
				if strings.Join(got, " ") != names {
					h.t.Errorf("%s: %q, want %s", cmd, got, names)
				}
			}
		}},
		{"RFC2812 3.2.5", "NAMES is split, and not too many are asked for at once", nil, func(h *harness) {
			c := h.inRoom("a")[0]
			for i := range 100 {
				h.graph.say("#chan", fmt.Sprintf("someone-with-a-name-%d", i), "x")
			}
			c.got()
			lines := c.do("NAMES #chan")
			names := 0
			for _, l := range texts(lines, "353") {
				names += len(strings.Fields(l))
			}
			if n := count(lines, " 353 "); n < 4 || names != 101 {
				h.t.Errorf("%d names in %d lines", names, n)
			}
			wantPart(h.t, lines[len(lines)-1:], " 366 a #chan ")
			if n := count(c.do("NAMES #1,#2,#3,#4,#5"), " 366 "); n != maxTargets {
				h.t.Errorf("%d", n)
			}
		}},
	})
}

// TestConformanceISupport: 005 is complete, well-formed, and says nothing untrue.
func TestConformanceISupport(t *testing.T) {
	conform(t, []behaviour{
		{"Modern 005", "every token, once, at most thirteen in a line", nil, func(h *harness) {
			lines := h.dial().do("NICK a", "USER a 0 * :a")
			var tokens []string
			for _, l := range lines {
				head, tail, _ := strings.Cut(l, " :")
				words := strings.Fields(head)
				if words[1] != "005" {
					continue
				}
				if len(words) > 3+13 || tail != "are supported by this server" {
					h.t.Errorf("%q", l)
				}
				tokens = append(tokens, words[3:]...)
			}
			want(h.t, tokens, "AWAYLEN=256", "BOT=B", "CASEMAPPING=ascii", "CHANLIMIT=#:256", "CHANMODES=b,,,", "CHANNELLEN=24", "CHANTYPES=#",
				"CHATHISTORY=500", "ELIST=MNTU", "LINELEN=512", "MAXTARGETS=4", "MODES=1", "MONITOR=100", "MSGREFTYPES=msgid,timestamp", "NAMELEN=256", "NETWORK=darkirc", "NICKLEN=24",
				"SAFELIST", "TARGMAX=JOIN:,LIST:,MONITOR:,NAMES:1,NOTICE:4,PART:,PRIVMSG:4,TAGMSG:4,WHOIS:1,WHOWAS:1", "TOPICLEN=390", "USERLEN=16",
				"UTF8ONLY", "WHOX")
		}},
		{"Modern 005", "limits are where they are said to be", nil, func(h *harness) {
			a := h.join("a", "#1,#2,#3,#4,#5", "message-tags")
			b := h.join("b", "#1,#2,#3,#4,#5", "message-tags")
			a.got()
			a.do("AWAY :" + strings.Repeat("x", 257))
			want(h.t, b.do("PRIVMSG a :x"), ":irc.hearsay 301 b a :"+strings.Repeat("x", 256))
			wantPart(h.t, b.do("PRIVMSG #1,#2,#3,#4,#5 :x"), " 407 b #1,#2,#3,#4,#5 :Too many targets")
			want(h.t, b.do("PRIVMSG #1,#2,#3,#4 :x"))
			a.got()
			b.do("@+x=y TAGMSG #1,#2,#3,#4,#5")
			if n := count(a.got(), " TAGMSG "); n != 4 {
				h.t.Errorf("%d", n)
			}
			wantPart(h.t, b.do("PART #1,#2,#3,#4,#5"), " PART #5")
			c := h.dial()
			wantPart(h.t, c.do("NICK c", "USER "+strings.Repeat("u", 17)+" 0 * :"+strings.Repeat("r", 257)), " 001 c ")
			want(h.t, c.do("WHOIS c")[:1], ":irc.hearsay 311 c c ~"+strings.Repeat("u", 16)+" hearsay * :"+strings.Repeat("r", 256))
		}},
		{"issue 5", "case is folded in ASCII only", nil, func(h *harness) {
			a := h.register(`a[]\`)
			wantPart(h.t, a.do(`WHOIS A[]\`), " 311 ")
			wantPart(h.t, a.do("WHOIS a{}|"), " 401 ") // not rfc1459
		}},
	})
}
