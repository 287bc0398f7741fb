package ircd

import (
	"fmt"
	"strings"
	"testing"
)

// TestConformanceAway: AWAY and away-notify.
func TestConformanceAway(t *testing.T) {
	conform(t, []behaviour{
		{"Modern AWAY", "305, 306 and 301", nil, func(h *harness) {
			c := h.inRoom("a", "b")
			want(h.t, c[0].do("AWAY :not here"), ":irc.hearsay 306 a :You have been marked as being away")
			want(h.t, c[1].do("PRIVMSG a :x"), ":irc.hearsay 301 b a :not here")
			want(h.t, c[1].do("NOTICE a :x"))
			want(h.t, c[1].do("USERHOST a b"), ":irc.hearsay 302 b :a=-~a@hearsay b=+~b@hearsay")
			want(h.t, c[0].do("AWAY :")[0:1], ":b!~b@hearsay PRIVMSG a :x")
			want(h.t, c[0].do("AWAY"), ":irc.hearsay 305 a :You are no longer marked as being away")
			want(h.t, c[1].do("PRIVMSG a :x"))
		}},
		{"IRCv3 away-notify", "who shares a channel and asked is told", nil, func(h *harness) {
			a := h.join("a", "#chan", "away-notify")
			b, c := h.join("b", "#chan", "away-notify"), h.join("c", "#chan")
			stranger := h.register("d", "away-notify")
			a.got()
			b.got()
			wantPart(h.t, a.do("AWAY :gone"), " 306 a ")
			want(h.t, b.got(), ":a!~a@hearsay AWAY :gone")
			a.do("AWAY")
			want(h.t, b.got(), ":a!~a@hearsay AWAY")
			want(h.t, c.got())
			want(h.t, stranger.got())
			stranger.do("AWAY :elsewhere", "JOIN #chan")
			want(h.t, b.got(), ":d!~d@hearsay JOIN #chan", ":d!~d@hearsay AWAY :elsewhere")
			want(h.t, c.got(), ":d!~d@hearsay JOIN #chan")
		}},
	})
}

// TestConformanceSetname: IRCv3 setname.
func TestConformanceSetname(t *testing.T) {
	conform(t, []behaviour{
		{"IRCv3 setname", "it is told to who asked, and shown", nil, func(h *harness) {
			a, b, c := h.join("a", "#chan", "setname"), h.join("b", "#chan", "setname"), h.join("c", "#chan")
			a.got()
			b.got()
			want(h.t, a.do("SETNAME :new name"), ":a!~a@hearsay SETNAME :new name")
			want(h.t, b.got(), ":a!~a@hearsay SETNAME :new name")
			want(h.t, c.got())
			wantPart(h.t, c.do("WHOIS a"), " 311 c a ~a hearsay * :new name")
			want(h.t, c.do("SETNAME :me too"))
			wantPart(h.t, b.got(), ":c!~c@hearsay SETNAME :me too")
		}},
		{"IRCv3 setname", "what is no name is refused", nil, func(h *harness) {
			a := h.register("a", "setname", "standard-replies")
			want(h.t, a.do("SETNAME :  "), ":irc.hearsay FAIL SETNAME INVALID_REALNAME :Realname is not valid")
			want(h.t, a.do("SETNAME :"+strings.Repeat("x", maxReason+1)), ":irc.hearsay FAIL SETNAME INVALID_REALNAME :Realname is not valid")
			wantPart(h.t, a.do("SETNAME :"+strings.Repeat("x", maxReason)), " SETNAME ")
			want(h.t, a.do("SETNAME"), ":irc.hearsay 461 a SETNAME :Not enough parameters")
			b, c := h.register("b", "setname"), h.register("c")
			want(h.t, b.do("SETNAME :"), ":irc.hearsay FAIL SETNAME INVALID_REALNAME :Realname is not valid")
			want(h.t, c.do("SETNAME :"), ":irc.hearsay NOTICE c :Realname is not valid")
			wantPart(h.t, a.do("WHOIS a"), ":"+strings.Repeat("x", maxReason))
		}},
	})
}

// TestConformanceBot: IRCv3 bot-mode.
func TestConformanceBot(t *testing.T) {
	conform(t, []behaviour{
		{"IRCv3 bot-mode", "messages of a bot are marked", nil, func(h *harness) {
			b := h.join("bot", "#chan", "message-tags")
			want(h.t, b.do("MODE bot +B"), ":bot!~bot@hearsay MODE bot +B")
			want(h.t, b.do("MODE bot +B"))
			want(h.t, b.do("MODE bot"), ":irc.hearsay 221 bot +B")
			want(h.t, b.do("MODE bot +i-B"), ":bot!~bot@hearsay MODE bot +i-B")
			b.do("MODE bot +B")
			u := h.join("user", "#chan", "message-tags")
			old := h.join("old", "#chan")
			u.got()
			b.do("PRIVMSG #chan :beep", "PRIVMSG user :boop", "@+a=b TAGMSG user")
			lines := u.got()
			if len(lines) != 3 || count(lines, "bot;")+count(lines, ";bot ") != 3 {
				h.t.Errorf("%q", lines)
			}
			want(h.t, old.got(), ":bot!~bot@hearsay PRIVMSG #chan :beep")
			if h.outbox.n != 1 {
				h.t.Errorf("%d accepted", h.outbox.n)
			}
		}},
	})
}

// TestConformanceInvite: INVITE works between clients of this daemon, and nowhere else.
func TestConformanceInvite(t *testing.T) {
	conform(t, []behaviour{
		{"Modern INVITE", "who is here is told, who is not cannot be", contacts(t), func(h *harness) {
			a := h.inRoom("a", "b")[0]
			c := h.register("c")
			want(h.t, a.do("INVITE C #CHAN"), ":irc.hearsay 341 a c #chan")
			want(h.t, c.got(), ":a!~a@hearsay INVITE c #chan")
			want(h.t, a.do("INVITE b #chan"), ":irc.hearsay 443 a b #chan :is already on channel")
			want(h.t, a.do("INVITE nobody #chan"), ":irc.hearsay 401 a nobody :No such nick/channel")
			want(h.t, a.do("INVITE c #nowhere"), ":irc.hearsay 403 a #nowhere :No such channel")
			want(h.t, c.do("INVITE a #chan"), ":irc.hearsay 442 c #chan :You're not on that channel")
			wantPart(h.t, a.do("INVITE Bob #chan"), ":irc.hearsay 482 a #chan :Only who is connected")
			want(h.t, a.do("INVITE c"), ":irc.hearsay 461 a INVITE :Not enough parameters")
		}},
	})
}

// TestConformanceMonitor: IRCv3 monitor, for clients of this daemon and contacts.
func TestConformanceMonitor(t *testing.T) {
	const spec = "IRCv3 monitor"
	conform(t, []behaviour{
		{spec, "who comes, goes and is renamed", nil, func(h *harness) {
			a := h.register("a")
			want(h.t, a.do("MONITOR + BOB,carol"), ":irc.hearsay 731 a :BOB,carol")
			b := h.register("bob")
			want(h.t, a.got(), ":irc.hearsay 730 a :bob!~bob@hearsay")
			b.do("NICK Bob") // the same nick
			want(h.t, a.got())
			b.do("NICK carol")
			want(h.t, a.got(), ":irc.hearsay 731 a :Bob", ":irc.hearsay 730 a :carol!~bob@hearsay")
			b.do("QUIT")
			want(h.t, a.got(), ":irc.hearsay 731 a :carol")
			a.do("MONITOR - bob")
			h.register("bob")
			want(h.t, a.got())
		}},
		{spec, "L, S and C", nil, func(h *harness) {
			h.register("bob")
			a := h.register("a")
			want(h.t, a.do("MONITOR + bob,carol"), ":irc.hearsay 730 a :bob!~bob@hearsay", ":irc.hearsay 731 a :carol")
			want(h.t, a.do("MONITOR S"), ":irc.hearsay 730 a :bob!~bob@hearsay", ":irc.hearsay 731 a :carol")
			want(h.t, a.do("MONITOR l"), ":irc.hearsay 732 a :bob,carol", ":irc.hearsay 733 a :End of MONITOR list")
			want(h.t, a.do("MONITOR C"))
			want(h.t, a.do("MONITOR L"), ":irc.hearsay 733 a :End of MONITOR list")
			want(h.t, a.do("MONITOR S"))
			wantPart(h.t, a.do("MONITOR x"), " 400 a MONITOR ")
		}},
		{spec, "masks and other names that nobody has are not kept", nil, func(h *harness) {
			a := h.register("a")
			want(h.t, a.do("MONITOR + *!user@host,,b?b,"+strings.Repeat("n", 25)), ":irc.hearsay 731 a :*!user@host,b?b,"+strings.Repeat("n", 25))
			want(h.t, a.do("MONITOR L"), ":irc.hearsay 733 a :End of MONITOR list")
		}},
		{spec, "the list is bounded, lines are split", nil, func(h *harness) {
			a := h.register("a")
			var all []string
			for i := range maxMonitored {
				all = append(all, fmt.Sprintf("a-nick-of-twenty-%03d", i))
			}
			for i := 0; i < len(all); i += 20 {
				a.do("MONITOR + " + strings.Join(all[i:i+20], ","))
			}
			want(h.t, a.do("MONITOR + one,two"), ":irc.hearsay 734 a 100 one,two :Monitor list is full")
			wantPart(h.t, a.do("MONITOR + "+all[0]), " 731 a :"+all[0]) // known already
			lines := a.do("MONITOR L")
			names := 0
			for _, l := range texts(lines, "732") {
				names += len(strings.Split(l, ","))
			}
			if names != maxMonitored || count(lines, " 732 ") < 4 {
				h.t.Errorf("%d names in %d lines", names, len(lines))
			}
		}},
		{"issue 5", "contacts and services are always there", contacts(t), func(h *harness) {
			a := h.register("a")
			want(h.t, a.do("MONITOR + bob,*status"), ":irc.hearsay 730 a :Bob!~net@darkirc,*status!status@hearsay")
			want(h.t, a.do("ISON bob nobody a *status"), ":irc.hearsay 303 a :Bob a *status")
			ours, _ := people(h.t)
			ours.Contacts[0].Label = "Robert"
			a.do("MONITOR + robert")
			if _, err := h.server.Apply(h.t.Context(), ours); err != nil {
				h.t.Fatal(err)
			}
			want(h.t, a.got(), ":irc.hearsay 731 a :Bob", ":irc.hearsay 730 a :Robert!~net@darkirc")
		}},
	})
}
