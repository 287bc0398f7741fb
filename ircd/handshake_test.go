package ircd

import (
	"strings"
	"testing"
	"time"
)

// play plays a transcript: "> " is sent, and ">> " with the next "> ", without waiting for
// an answer. "< " has to be in a line that came after the one before, "! " must not be in
// any line that has come since the last "> ". Time passes at "~", and "@ nick text" is said
// in #dev by somebody far away.
func (h *harness) play(script string) *testClient {
	h.t.Helper()
	c := h.dial()
	var lines, recent, unsent []string
	at := 0
	for l := range strings.Lines(script) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		kind, rest, _ := strings.Cut(l, " ")
		switch kind {
		case ">>":
			unsent = append(unsent, rest)
		case ">":
			recent = c.do(append(unsent, rest)...)
			lines, unsent = append(lines, recent...), nil
		case "@":
			nick, text, _ := strings.Cut(rest, " ")
			h.graph.say("#dev", nick, text)
			lines = append(lines, c.got()...)
		case "<":
			i := find(lines[at:], rest)
			if i < 0 {
				h.t.Fatalf("no line with %q in %q", rest, lines[at:])
			}
			at += i + 1
		case "!":
			wantNone(h.t, recent, rest)
		case "~":
			time.Sleep(2 * time.Second)
			lines = append(lines, c.got()...)
		default:
			h.t.Fatalf("what is %q?", l)
		}
	}
	return c
}

// TestHandshakes are the openings of clients that people use, as their transcripts show
// them: what they send of their own accord gets its answer and the end that they wait for.
func TestHandshakes(t *testing.T) {
	for name, script := range map[string]string{
		"irssi": `
			> CAP LS 302
			< CAP * LS :
			> JOIN :
			< 451 * :You have not registered
			> CAP REQ :multi-prefix setname away-notify znc.in/self-message server-time
			< CAP * ACK :multi-prefix setname away-notify znc.in/self-message server-time
			> CAP END
			> NICK alice
			> USER root root 127.0.0.1 :root
			< 001 alice
			< 005 alice
			> MODE alice +i
			< MODE alice +i
			> JOIN #dev
			< JOIN #dev
			< 366 alice #dev
			> MODE #dev
			< 324 alice #dev +
			< 329 alice #dev
			> WHO #dev %tcuhnfdar,743
			< 354 alice 743 #dev ~root hearsay alice H 0 0 :root
			< 315 alice #dev
			> MODE #dev b
			< 368 alice #dev
			> ISON bob
			< 303 alice :
			> WHOIS alice
			< 311 alice alice
			< 318 alice alice
			> USERHOST alice
			< 302 alice :alice=+~root@hearsay
			> PING irc.hearsay
			< PONG irc.hearsay :irc.hearsay`,
		"WeeChat": `
			>> CAP LS 302
			>> NICK alice
			> USER alice 0 * :alice
			< CAP * LS :
			> CAP REQ :away-notify cap-notify message-tags multi-prefix server-time setname userhost-in-names
			< CAP alice ACK :
			> CAP END
			< 001 alice
			< 005 alice
			> MODE alice +R
			< 501 alice
			> JOIN #dev
			< 353 alice = #dev :alice!~alice@hearsay
			< 366 alice #dev
			> MODE #dev
			< 324 alice #dev +
			> WHO #dev %cuhsnfdar
			< 354 alice #dev ~alice hearsay irc.hearsay alice H 0 0 :alice
			< 315 alice #dev
			> PING irc.hearsay
			< PONG irc.hearsay :irc.hearsay`,
		"HexChat": `
			>> CAP LS 302
			>> NICK alice
			> USER alice 0 * :realname
			< CAP * LS :
			# the space at the end is its own
			> CAP REQ :away-notify cap-notify multi-prefix sasl server-time setname userhost-in-names 
			< CAP alice ACK :away-notify cap-notify multi-prefix sasl server-time setname userhost-in-names
			> AUTHENTICATE PLAIN
			< AUTHENTICATE +
			> AUTHENTICATE YWxpY2UAYWxpY2UAcHc=
			< 900 alice alice!alice@hearsay alice
			< 903 alice
			> CAP END
			< 001 alice
			< 005 alice
			< 422 alice
			> JOIN #dev
			< 366 alice #dev
			> MODE #dev
			< 324 alice #dev +
			< 329 alice #dev
			> WHO #dev %chtsunfra,152
			< 354 alice 152 #dev
			< 315 alice #dev
			> PING LAG123456
			< PONG irc.hearsay :LAG123456`,
		"catgirl": `
			>> CAP LS
			>> NICK :alice
			> USER alice 0 * :alice
			< CAP * LS :
			> CAP REQ :message-tags multi-prefix server-time setname userhost-in-names znc.in/self-message
			< CAP alice ACK :message-tags multi-prefix server-time setname userhost-in-names znc.in/self-message
			> CAP END
			< 001 alice
			# it ends where the token is there with an empty value (decision 0205)
			! PREFIX
			> JOIN #dev
			< 353 alice = #dev :alice!~alice@hearsay
			< 366 alice #dev
			> WHO #dev
			< 352 alice #dev ~alice hearsay irc.hearsay alice H :0 alice
			< 315 alice #dev
			> NICK :alicia
			< NICK :alicia
			> SETNAME :Alice
			< SETNAME :Alice
			> QUIT :bye
			< ERROR :`,
		"Halloy": `
			> CAP LS 302
			< CAP * LS :
			>> NICK alice
			>> USER alice 0 * :alice
			> CAP REQ :userhost-in-names away-notify message-tags server-time batch draft/chathistory labeled-response echo-message multi-prefix draft/read-marker setname sasl
			< CAP alice ACK :
			> CAP END
			< 001 alice
			< MONITOR=100
			> MONITOR + bob,carol
			< 731 alice :bob,carol
			@ bob before
			> @label=1 JOIN #dev
			< MARKREAD #dev *
			< 366 alice #dev
			> CHATHISTORY LATEST #dev * 500
			< chathistory #dev
			< :before
			< BATCH -
			# when it joins, and while it polls
			> WHO #dev %tcuhnf,10
			< 354 alice 10 #dev ~alice hearsay alice H
			< 315 alice #dev
			> WHO #dev %tcnf,9
			< 354 alice 9 #dev alice H
			< 315 alice #dev
			> MARKREAD #dev timestamp=2000-01-01T00:00:00.000Z
			< MARKREAD #dev timestamp=2000-01-01T00:00:00.000Z
			> @label=2;+draft/reply=x PRIVMSG #dev :hello
			< label=2
			> @+typing=active TAGMSG #dev
			< TAGMSG #dev
			! 421`,
		"senpai": `
			# all at once, each capability alone, in any order, and no look at the list
			>> CAP LS 302
			>> CAP REQ draft/chathistory
			>> CAP REQ soju.im/bouncer-networks
			>> CAP REQ message-tags
			>> CAP REQ draft/event-playback
			>> CAP REQ sasl
			>> CAP REQ away-notify
			>> CAP REQ soju.im/search
			>> CAP REQ batch
			>> CAP REQ echo-message
			>> CAP REQ server-time
			>> CAP REQ draft/read-marker
			>> CAP REQ invite-notify
			>> CAP REQ setname
			>> NICK alice
			>> USER alice 0 * :alice
			>> AUTHENTICATE PLAIN
			>> AUTHENTICATE YWxpY2UAYWxpY2UAcHc=
			> CAP END
			< CAP * ACK :draft/chathistory
			< CAP * NAK :soju.im/bouncer-networks
			< CAP * ACK :message-tags
			< CAP * NAK :draft/event-playback
			< CAP * ACK :sasl
			< 900 alice alice!alice@hearsay alice
			< 903 alice
			< 001 alice
			< 422 alice
			@ bob before
			> JOIN #dev
			< MARKREAD #dev *
			< 366 alice #dev
			> WHO #dev
			< 352 alice #dev ~alice hearsay irc.hearsay alice H :0 alice
			< 315 alice #dev
			> CHATHISTORY LATEST #dev * 500
			< chathistory #dev
			< :before
			< BATCH -
			> CHATHISTORY TARGETS timestamp=1999-01-01T00:00:00.000Z timestamp=2100-01-01T00:00:00.000Z 500
			< draft/chathistory-targets
			< CHATHISTORY TARGETS #dev
			< BATCH -
			> MONITOR + bob
			< 731 alice :bob
			> PRIVMSG #dev :hello
			< PRIVMSG #dev :hello
			> MARKREAD #dev timestamp=2000-01-01T00:00:00.000Z
			< MARKREAD #dev timestamp=2000-01-01T00:00:00.000Z
			> @+typing=done TAGMSG #dev
			< TAGMSG #dev
			! 421`,
		"senpai, the older": `
			# without CAP LS, and without a password
			>> CAP REQ message-tags
			>> CAP REQ extended-monitor
			>> CAP REQ echo-message
			>> NICK alice
			>> USER alice 0 * :alice
			> CAP END
			< CAP * ACK :message-tags
			< CAP * NAK :extended-monitor
			< 001 alice
			> WHO alice
			< 352 alice * ~alice hearsay irc.hearsay alice H :0 alice
			< 315 alice alice
			> JOIN #dev
			< 366 alice #dev`,
		"goguma": `
			# all at once, so that a phone waits for one answer only
			>> CAP LS 302
			>> NICK alice
			>> USER alice 0 * :alice
			>> CAP REQ away-notify
			>> CAP REQ batch
			>> CAP REQ echo-message
			>> CAP REQ message-tags
			>> CAP REQ multi-prefix
			>> CAP REQ sasl
			>> CAP REQ server-time
			>> CAP REQ setname
			>> CAP REQ draft/chathistory
			>> CAP REQ draft/extended-monitor
			>> CAP REQ draft/read-marker
			>> CAP REQ soju.im/bouncer-networks
			>> CAP REQ soju.im/no-implicit-names
			>> AUTHENTICATE PLAIN
			>> AUTHENTICATE AGFsaWNlQHBob25lAHB3
			> CAP END
			< sasl=PLAIN
			< CAP alice NAK :soju.im/bouncer-networks
			< 900 alice alice!alice@hearsay alice
			< 903 alice
			< 001 alice
			# here the list of 005 is over for it
			< 422 alice
			! FAIL
			! 421
			> WHO bob %tnfr
			< 315 alice bob
			> MONITOR + bob
			< 731 alice :bob
			> MARKREAD bob
			< MARKREAD bob *
			> JOIN #dev
			< MARKREAD #dev *
			< 353 alice = #dev :alice
			< 366 alice #dev
			> MODE #dev
			< 324 alice #dev +
			@ bob before
			> CHATHISTORY TARGETS timestamp=1999-01-01T00:00:00.000Z timestamp=2100-01-01T00:00:00.000Z 100
			< draft/chathistory-targets
			< CHATHISTORY TARGETS #dev
			< BATCH -
			# it reads the limit from a place where there is none, and then asks for 1,000
			> CHATHISTORY BETWEEN #dev timestamp=1999-01-01T00:00:00.000Z timestamp=2100-01-01T00:00:00.000Z 1000
			< chathistory #dev
			< :before
			< BATCH -
			> CHATHISTORY BEFORE #dev timestamp=2100-01-01T00:00:00.000Z 100
			< chathistory #dev
			> PING goguma-0
			< PONG irc.hearsay :goguma-0
			> PRIVMSG *status :clients
			< device phone`,
		"soju": `
			# a bouncer
			>> CAP LS 302
			>> NICK alice
			> USER alice 0 * :alice
			< CAP * LS :
			> CAP REQ :away-notify batch echo-message labeled-response message-tags multi-prefix server-time setname
			< CAP alice ACK :
			> CAP END
			< 004 alice irc.hearsay
			< MONITOR=100
			< 422 alice
			>> JOIN #dev
			> AWAY :Auto away
			< JOIN #dev
			< 366 alice #dev
			< 306 alice
			> MODE #dev
			< 324 alice #dev +
			> @label=sd-1-1 WHO #dev %tcuhnfr,7
			< label=sd-1-1
			< 354 alice 7 #dev ~alice hearsay alice G :alice
			< 315 alice #dev
			< BATCH -
			> @label=sd-1-2 PRIVMSG #dev :hello
			< label=sd-1-2
			! ACK
			> @label=sd-1-3 LIST
			< 323 alice
			> MONITOR + bob
			< 731 alice :bob
			> AWAY
			< 305 alice`,
		"ZNC": `
			# a bouncer
			>> CAP LS
			>> NICK alice
			> USER me@znc "me@znc" "me@znc" :alice
			< CAP * LS :
			>> CAP REQ :away-notify
			>> CAP REQ :multi-prefix
			>> CAP REQ :server-time
			>> CAP REQ :userhost-in-names
			> CAP END
			< CAP alice ACK :away-notify
			< CAP alice ACK :userhost-in-names
			< 001 alice
			> WHO alice
			< 352 alice * ~me hearsay irc.hearsay alice H :0 alice
			< 315 alice alice
			> JOIN #dev
			< JOIN #dev
			< 366 alice #dev
			> MODE #dev
			< 324 alice #dev +
			< 329 alice #dev
			@ bob hello
			~
			~
			~
			< PING :read-1
			> PONG read-1`,
		"mIRC": `
			> CAP LS 302
			< CAP * LS :
			>> NICK alice
			> USER alice 0 * :alice
			> CAP REQ :multi-prefix userhost-in-names away-notify batch message-tags server-time labeled-response setname
			< CAP alice ACK :
			> CAP END
			< 001 alice
			> USERHOST alice
			< 302 alice :alice=+~alice@hearsay
			> MODE alice +ix
			< 501 alice
			> JOIN #dev
			< 366 alice #dev
			> MODE #dev
			< 324 alice #dev +
			> WHO #dev
			< 315 alice #dev`,
		"The Lounge": `
			> CAP LS 302
			< CAP * LS :
			>> NICK alice
			> USER alice 0 * :The Lounge User
			> CAP REQ :batch multi-prefix away-notify setname message-tags server-time userhost-in-names echo-message cap-notify
			< CAP alice ACK :
			> CAP END
			< 001 alice
			> JOIN #dev
			< 366 alice #dev
			> MODE #dev
			< 324 alice #dev +
			> WHOIS alice alice
			< 311 alice alice
			< 318 alice alice
			> PING 1767225600000
			< PONG irc.hearsay :1767225600000`,
		"darkirc bot": `
			> CAP LS 302
			< no-autojoin no-history
			> CAP REQ :no-history
			< ACK :no-history
			> NICK alice
			> USER alice 0 * :alice
			> CAP END
			< 001 alice
			> JOIN #dev
			< 366 alice #dev
			! @time`,
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, nil, func(h *harness) {
				c := h.play(script)
				if quit := strings.Contains(script, "> QUIT"); c.isClosed() != quit {
					t.Errorf("closed: %t", !quit)
				}
			})
		})
	}
}
