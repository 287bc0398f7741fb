package ircd

import (
	"strings"
	"testing"
	"time"
)

// play plays a transcript: "> " is sent, "< " has to be in a line that came after the
// one before, "! " must not be in any line that has come since the last "> ". Time
// passes at "~".
func (h *harness) play(script string) *testClient {
	h.t.Helper()
	c := h.dial()
	var lines, recent []string
	at := 0
	for l := range strings.Lines(script) {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		kind, rest, _ := strings.Cut(l, " ")
		switch kind {
		case ">":
			recent = c.do(rest)
			lines = append(lines, recent...)
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
			> CAP LS 302
			< CAP * LS :
			> NICK alice
			> USER alice 0 * :alice
			> CAP REQ :away-notify batch cap-notify echo-message message-tags multi-prefix server-time setname userhost-in-names
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
			> WHO #dev %chtsunfra,152
			< 354 alice 152 #dev ~alice hearsay irc.hearsay alice H 0 :alice
			< 315 alice #dev
			> PING irc.hearsay
			< PONG irc.hearsay :irc.hearsay`,
		"HexChat": `
			> CAP LS 302
			< CAP * LS :
			> NICK alice
			> USER alice 0 * :realname
			> CAP REQ :multi-prefix server-time userhost-in-names away-notify setname echo-message sasl
			< CAP alice ACK :
			> AUTHENTICATE PLAIN
			< AUTHENTICATE +
			> AUTHENTICATE YWxpY2UAYWxpY2UAcHc=
			< 900 alice alice!alice@hearsay alice
			< 903 alice
			> CAP END
			< 001 alice
			< 005 alice
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
		"Halloy": `
			> CAP LS 302
			< CAP * LS :
			> NICK alice
			> USER alice 0 * :alice
			> CAP REQ :away-notify batch echo-message labeled-response message-tags multi-prefix server-time setname userhost-in-names
			< CAP alice ACK :
			> CAP END
			< 001 alice
			< MONITOR=100
			> MONITOR + bob,carol
			< 731 alice :bob,carol
			> @label=1 JOIN #dev
			< 366 alice #dev
			> WHO #dev %tcnf,9
			< 354 alice 9 #dev alice H
			< 315 alice #dev
			> @label=2;+draft/reply=x PRIVMSG #dev :hello
			< label=2
			> @+typing=active TAGMSG #dev
			< TAGMSG #dev
			! 421`,
		"senpai": `
			# one at a time, and no LS
			> CAP REQ message-tags
			< CAP * ACK :message-tags
			> CAP REQ server-time
			< CAP * ACK :server-time
			> CAP REQ extended-monitor
			< CAP * NAK :extended-monitor
			> CAP REQ echo-message
			< CAP * ACK :echo-message
			> NICK alice
			> USER alice 0 * :alice
			! 001
			> CAP END
			< 001 alice
			> MONITOR + bob
			< 731 alice :bob
			> JOIN #dev
			< 366 alice #dev
			> WHO #dev %uhsnfr
			< 354 alice ~alice hearsay irc.hearsay alice H :alice
			< 315 alice #dev
			> PRIVMSG #dev :hello
			< PRIVMSG #dev :hello`,
		"goguma": `
			> CAP LS 302
			< sasl=PLAIN
			> NICK alice
			> USER alice 0 * :alice
			> CAP REQ :away-notify batch echo-message message-tags multi-prefix sasl server-time setname
			< CAP alice ACK :
			> AUTHENTICATE PLAIN
			< AUTHENTICATE +
			> AUTHENTICATE AGFsaWNlQHBob25lAHB3
			< 900 alice alice!alice@hearsay alice
			< 903 alice
			> CAP END
			< 001 alice
			> MONITOR + bob
			< 731 alice :bob
			> JOIN #dev
			< 366 alice #dev
			> WHO bob %tcuhnfar,2
			< 315 alice bob
			> PRIVMSG *status :clients
			< device phone`,
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
				if c.isClosed() {
					t.Error("closed")
				}
			})
		})
	}
}
