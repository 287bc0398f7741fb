package ircd

import (
	"strings"
	"testing"
	"time"
)

// TestConformanceNick: NICK.
func TestConformanceNick(t *testing.T) {
	conform(t, []behaviour{
		{"RFC2812 3.1.2", "a change is told once to who shares channels", nil, func(h *harness) {
			a, b, c := h.join("a", "#x,#y"), h.join("b", "#x,#y"), h.register("c")
			a.got()
			want(h.t, a.do("NICK new"), ":a!~a@hearsay NICK :new")
			want(h.t, b.got(), ":a!~a@hearsay NICK :new")
			want(h.t, c.got())
			wantPart(h.t, c.do("WHOIS new"), " 319 c new :#x #y")
		}},
		{"RFC2812 3.1.2", "a nick in use is refused, and the old one stays", nil, func(h *harness) {
			a, b := h.register("alice"), h.register("bob")
			want(h.t, b.do("NICK ALICE"), ":irc.hearsay 433 bob ALICE :Nickname is already in use")
			want(h.t, a.do("PRIVMSG bob hi"))
			want(h.t, b.got(), ":alice!~alice@hearsay PRIVMSG bob :hi")
		}},
		{"issue 5", "a change of case is one, none is silent", nil, func(h *harness) {
			c := h.inRoom("alice", "bob")
			want(h.t, c[0].do("NICK Alice"), ":alice!~alice@hearsay NICK :Alice")
			want(h.t, c[1].got(), ":alice!~alice@hearsay NICK :Alice")
			want(h.t, c[0].do("NICK Alice"))
			want(h.t, c[1].got())
		}},
		{"RFC2812 3.1.2", "a nick is free again after NICK and QUIT", nil, func(h *harness) {
			a := h.register("alice")
			a.do("NICK malice")
			b := h.register("ALICE")
			b.do("QUIT")
			h.register("alice").do("QUIT")
			waiting := h.dial()
			waiting.do("NICK alice", "QUIT")
			h.register("alice")
		}},
		{"RFC2812 3.1.2", "of two that register with one nick, one gets it", nil, func(h *harness) {
			a, b := h.dial(), h.dial()
			a.do("NICK foo")
			b.do("NICK foo")
			wantPart(h.t, a.do("USER a 0 * :a"), " 001 foo ")
			want(h.t, b.do("USER b 0 * :b"), ":irc.hearsay 433 foo foo :Nickname is already in use")
			wantPart(h.t, b.do("NICK bar"), " 001 bar ")
		}},
		{"RFC2812 2.3.1", "what is no nick is 432, before and after the welcome", nil, func(h *harness) {
			a := h.dial()
			for _, bad := range []string{"*", "a!b", "a@b", "#a", "Işıl", "a.b"} {
				want(h.t, a.do("NICK "+bad), ":irc.hearsay 432 * "+bad+" :Erroneous nickname")
			}
			want(h.t, a.do("USER a 0 * :a"))
			wantPart(h.t, a.do("NICK valid"), " 001 valid ")
			want(h.t, a.do("NICK a!b"), ":irc.hearsay 432 valid a!b :Erroneous nickname")
		}},
		{"Modern NICKLEN", "24 bytes pass, 25 do not", nil, func(h *harness) {
			a := h.register("a")
			wantPart(h.t, a.do("NICK "+strings.Repeat("a", 24)), " NICK :"+strings.Repeat("a", 24))
			wantPart(h.t, a.do("NICK "+strings.Repeat("b", 25)), " 432 "+strings.Repeat("a", 24)+" "+strings.Repeat("b", 25)+" :")
		}},
		{"issue 5", "a user name that cannot be shown does not keep anybody out", nil, func(h *harness) {
			a := h.dial()
			wantPart(h.t, a.do("NICK a", "USER 😊😊 * * :real"), " 001 a ")
			wantPart(h.t, a.do("WHOIS a"), " 311 a a ~user hearsay * :real")
		}},
	})
}

// TestConformancePing: PING and PONG.
func TestConformancePing(t *testing.T) {
	conform(t, []behaviour{
		{"Modern PING", "the token comes back behind the server's name", nil, func(h *harness) {
			a := h.register("a")
			want(h.t, a.do("PING abcdef"), ":irc.hearsay PONG irc.hearsay :abcdef")
			want(h.t, a.do("PING :two words"), ":irc.hearsay PONG irc.hearsay :two words")
			want(h.t, a.do("PONG whatever"))
		}},
		{"Modern PING", "no token and an empty one are 409", nil, func(h *harness) {
			a := h.register("a")
			for _, l := range []string{"PING", "PING :"} {
				want(h.t, a.do(l), ":irc.hearsay 409 a :No origin specified")
			}
		}},
		{"Modern PING", "it is answered before registration", nil, func(h *harness) {
			want(h.t, h.dial().do("PING x"), ":irc.hearsay PONG irc.hearsay :x")
		}},
		{"RFC2812 3.7.2", "who is silent is asked, and dropped after it", nil, func(h *harness) {
			a := h.register("a")
			time.Sleep(pingAfter + tick)
			want(h.t, a.got(), "PING :irc.hearsay")
			a.do("PONG :irc.hearsay")
			time.Sleep(pingAfter + tick)
			want(h.t, a.got(), "PING :irc.hearsay")
			time.Sleep(pingTimeout + tick)
			want(h.t, a.got(), "ERROR :Closing link: Ping timeout")
		}},
	})
}
