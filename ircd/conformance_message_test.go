package ircd

import (
	"regexp"
	"strings"
	"testing"
)

// untagged is a line without its tags.
func untagged(l string) string {
	if strings.HasPrefix(l, "@") {
		_, l, _ = strings.Cut(l, " ")
	}
	return l
}

// tagOfLine is the value of a line's tag; ok is false where it has none.
func tagOfLine(l, name string) (value string, ok bool) {
	tags, _, _ := strings.Cut(strings.TrimPrefix(l, "@"), " ")
	if !strings.HasPrefix(l, "@") {
		return "", false
	}
	for tag := range strings.SplitSeq(tags, ";") {
		if k, v, _ := strings.Cut(tag, "="); k == name {
			return v, true
		}
	}
	return "", false
}

// TestConformanceMessages: PRIVMSG and NOTICE.
func TestConformanceMessages(t *testing.T) {
	conform(t, []behaviour{
		{"RFC2812 3.3.1", "to a channel: the others get it, the sender does not", nil, func(h *harness) {
			c := h.inRoom("a", "b", "c")
			for _, cmd := range []string{"PRIVMSG", "NOTICE"} {
				want(h.t, c[0].do(cmd+" #CHAN :hello there"))
				for _, o := range c[1:] {
					want(h.t, o.got(), ":a!~a@hearsay "+cmd+" #chan :hello there")
				}
			}
		}},
		{"RFC2812 3.3.1", "to a nick, whatever its case", nil, func(h *harness) {
			a, b := h.register("a"), h.register("bob")
			want(h.t, a.do("PRIVMSG BOB :hey there!", "NOTICE bob hey"))
			want(h.t, b.got(), ":a!~a@hearsay PRIVMSG bob :hey there!", ":a!~a@hearsay NOTICE bob :hey")
		}},
		{"RFC2812 3.3.1", "several recipients, one of them nobody", nil, func(h *harness) {
			a, b, c := h.register("a"), h.register("b"), h.register("c")
			lines := a.do("PRIVMSG b,nobody,c :hi")
			if len(lines) != 1 || !strings.HasPrefix(lines[0], ":irc.hearsay 401 a nobody :") {
				h.t.Errorf("%q", lines)
			}
			want(h.t, b.got(), ":a!~a@hearsay PRIVMSG b :hi")
			want(h.t, c.got(), ":a!~a@hearsay PRIVMSG c :hi")
		}},
		{"RFC2812 3.3.1", "an empty text reaches nobody", nil, func(h *harness) {
			c := h.inRoom("a", "b")
			want(h.t, c[0].do("PRIVMSG #chan :"), ":irc.hearsay 412 a :No text to send")
			want(h.t, c[1].got())
			if h.outbox.n != 0 {
				h.t.Error("accepted")
			}
		}},
		{"RFC2812 3.3.1", "a CTCP question reaches a client of this daemon", nil, func(h *harness) {
			a, b := h.register("a"), h.register("b")
			want(h.t, a.do("PRIVMSG b :\x01VERSION\x01"))
			want(h.t, b.got(), ":a!~a@hearsay PRIVMSG b :\x01VERSION\x01")
		}},
		{"decision 0076", "every channel exists: who is not in it can write to it", nil, func(h *harness) {
			a := h.register("a")
			want(h.t, a.do("PRIVMSG #nobody-here :hello", "NOTICE #nobody-here :hello"))
			if h.outbox.n != 2 {
				h.t.Errorf("%d accepted", h.outbox.n)
			}
		}},
		{"RFC2812 2.3", "a line may be in lower case, with spaces, with a source, and end with LF", nil, func(h *harness) {
			c := h.inRoom("a", "b")
			for _, l := range []string{"privmsg #chan :hi", "  PRIVMSG   #chan   :hi", ":a PRIVMSG #chan hi", ":nobody!x@y PRIVMSG #chan :hi"} {
				want(h.t, c[0].do(l))
				want(h.t, c[1].got(), ":a!~a@hearsay PRIVMSG #chan :hi")
			}
			if _, err := c[0].conn.Write([]byte("\n\r\nPRIVMSG #chan :hi\n")); err != nil {
				h.t.Fatal(err)
			}
			want(h.t, c[1].got(), ":a!~a@hearsay PRIVMSG #chan :hi")
			want(h.t, c[0].got())
		}},
		{"RFC2812 2.3", "what fits into a line of 512 but not out of it comes as two, whole", nil, func(h *harness) {
			for _, end := range []string{"x", "😃"} {
				a, b := h.register("a"), h.register("b")
				const frame = "PRIVMSG b :"
				text := strings.Repeat("x", 510-len(frame)-len(end)) + end
				want(h.t, a.do(frame+text))
				lines := texts(b.got(), "PRIVMSG")
				if len(lines) != 2 || strings.Join(lines, "") != text {
					h.t.Errorf("%d lines", len(lines))
				}
				a.do("QUIT")
				b.do("QUIT")
			}
		}},
		{"IRCv3 message-tags", "client-only tags go to who asked for tags, others do not go", nil, func(h *harness) {
			a := h.join("a", "#c", "message-tags")
			b, plain, timed := h.join("b", "#c", "message-tags"), h.join("plain", "#c"), h.join("timed", "#c", "server-time")
			for _, c := range []*testClient{a, b, plain} {
				c.got()
			}
			for _, l := range []string{"PRIVMSG #c hi", "NOTICE #c hi"} {
				a.do("@+baz=bat;fizz=buzz " + l)
				got := b.got()
				if v, _ := tagOfLine(got[0], "+baz"); len(got) != 1 || v != "bat" || strings.Contains(got[0], "fizz") || !strings.Contains(got[0], "msgid=") {
					h.t.Errorf("%q", got)
				}
				got = plain.got()
				if len(got) != 1 || got[0][0] != ':' {
					h.t.Errorf("%q", got)
				}
				got = timed.got()
				if _, ok := tagOfLine(got[0], "time"); len(got) != 1 || !ok || strings.Contains(got[0], "baz") || strings.Contains(got[0], "msgid") {
					h.t.Errorf("%q", got)
				}
			}
		}},
		{"IRCv3 message-tags", "asked for after the welcome, they come", nil, func(h *harness) {
			a, b := h.register("a", "message-tags"), h.register("b")
			a.do("@+x=1 PRIVMSG b :one")
			want(h.t, b.got(), ":a!~a@hearsay PRIVMSG b :one")
			want(h.t, b.do("CAP REQ :message-tags"), ":irc.hearsay CAP b ACK :message-tags")
			a.do("@+x=1 PRIVMSG b :two")
			if got := b.got(); len(got) != 1 || !strings.HasPrefix(got[0], "@") || !strings.Contains(got[0], "+x=1") {
				h.t.Errorf("%q", got)
			}
			b.do("CAP REQ :-message-tags")
			a.do("@+x=1 PRIVMSG b :three")
			want(h.t, b.got(), ":a!~a@hearsay PRIVMSG b :three")
		}},
		{"IRCv3 message-tags", "a reply's escapes come out as they went in", nil, func(h *harness) {
			a, b := h.register("a", "message-tags"), h.register("b", "message-tags")
			a.do(`@+draft/reply=a\:b\s\\c;+draft/react=l😃l TAGMSG b`)
			got := b.got()
			if v, _ := tagOfLine(got[0], "+draft/reply"); len(got) != 1 || v != `a\:b\s\\c` {
				h.t.Errorf("%q", got)
			}
			if v, _ := tagOfLine(got[0], "+draft/react"); v != "l😃l" {
				h.t.Errorf("%q", got)
			}
		}},
	})
}

// TestConformanceEcho: IRCv3 echo-message and labeled-response.
func TestConformanceEcho(t *testing.T) {
	all := []string{"batch", "labeled-response", "echo-message", "message-tags", "server-time"}
	conform(t, []behaviour{
		{"IRCv3 echo-message", "the sender sees what the others see", nil, func(h *harness) {
			a := h.join("a", "#chan", all...)
			b := h.join("b", "#chan", all...)
			a.got()
			for _, cmd := range []string{"PRIVMSG #chan", "NOTICE #chan", "PRIVMSG b", "NOTICE b"} {
				mine, theirs := a.do("@+x=y "+cmd+" :hello everyone"), b.got()
				if len(mine) != 1 || len(theirs) != 1 || untagged(mine[0]) != untagged(theirs[0]) {
					h.t.Fatalf("%s: %q %q", cmd, mine, theirs)
				}
				for _, tag := range []string{"+x", "msgid", "time"} {
					one, _ := tagOfLine(mine[0], tag)
					if two, _ := tagOfLine(theirs[0], tag); one == "" || one != two {
						h.t.Errorf("%s in %q %q", tag, mine[0], theirs[0])
					}
				}
			}
		}},
		{"IRCv3 echo-message", "alone in a channel too, and without other capabilities", nil, func(h *harness) {
			a := h.join("a", "#chan", "echo-message")
			want(h.t, a.do("PRIVMSG #chan :x"), ":a!~a@hearsay PRIVMSG #chan :x")
		}},
		{"IRCv3 echo-message", "what is refused is not echoed", nil, func(h *harness) {
			a := h.register("a", "echo-message")
			wantNone(h.t, a.do("PRIVMSG nobody :x", "NOTICE nobody :x", "PRIVMSG a :"), " PRIVMSG ")
		}},
		{"IRCv3 labeled-response", "the echo has the label, what others get has not", nil, func(h *harness) {
			a := h.join("a", "#chan", all...)
			b := h.join("b", "#chan", all...)
			a.got()
			for _, l := range []string{"PRIVMSG #chan :hi", "NOTICE #chan :hi", "PRIVMSG b :hi", "NOTICE b :hi", "@ TAGMSG #chan", "@ TAGMSG b"} {
				l = "@label=L;+x=y " + strings.TrimPrefix(l, "@ ")
				mine, theirs := a.do(l), b.got()
				if v, _ := tagOfLine(mine[0], "label"); len(mine) != 1 || v != "L" {
					h.t.Errorf("%s: %q", l, mine)
				}
				if _, ok := tagOfLine(theirs[0], "label"); len(theirs) != 1 || ok {
					h.t.Errorf("%s: %q", l, theirs)
				}
			}
		}},
		{"IRCv3 labeled-response", "to oneself: the echo with the label, the message without", nil, func(h *harness) {
			a := h.register("a", all...)
			for _, l := range []string{"PRIVMSG a :hi", "NOTICE a :hi", "TAGMSG a"} {
				lines := a.do("@label=L;+x=y " + l)
				if len(lines) != 2 || count(lines, "label=L") != 1 || untagged(lines[0]) != untagged(lines[1]) {
					h.t.Fatalf("%s: %q", l, lines)
				}
				one, _ := tagOfLine(lines[0], "msgid")
				if two, _ := tagOfLine(lines[1], "msgid"); one != two {
					h.t.Errorf("%s: msgids %s and %s", l, one, two)
				}
			}
		}},
		{"IRCv3 labeled-response", "several recipients: one batch", nil, func(h *harness) {
			a, b, c := h.register("a", all...), h.register("b"), h.register("c")
			lines := a.do("@label=L PRIVMSG b,c :hi")
			if len(lines) != 4 || count(lines, "label=L") != 1 || untagged(lines[0]) != ":irc.hearsay BATCH +1 labeled-response" ||
				untagged(lines[3]) != ":irc.hearsay BATCH -1" || count(lines[1:3], "batch=1") != 2 {
				h.t.Errorf("%q", lines)
			}
			want(h.t, b.got(), ":a!~a@hearsay PRIVMSG b :hi")
			want(h.t, c.got(), ":a!~a@hearsay PRIVMSG c :hi")
		}},
		{"IRCv3 labeled-response", "one line is no batch, none is ACK, an error is labelled", nil, func(h *harness) {
			a := h.register("a", "batch", "labeled-response")
			want(h.t, a.do("@label=L PING x"), "@label=L :irc.hearsay PONG irc.hearsay :x")
			want(h.t, a.do("@label=L PONG x"), "@label=L :irc.hearsay ACK")
			want(h.t, a.do("@label=L PRIVMSG a :"), "@label=L :irc.hearsay 412 a :No text to send")
			want(h.t, a.do("@label=L NOSUCH"), "@label=L :irc.hearsay 421 a NOSUCH :Unknown command")
		}},
		{"IRCv3 labeled-response", "without the capability a label is nothing", nil, func(h *harness) {
			a := h.register("a", "batch", "message-tags")
			want(h.t, a.do("@label=L PING x"), ":irc.hearsay PONG irc.hearsay :x")
			want(h.t, a.do("@label=L PONG x"))
		}},
		{"IRCv3 server-time", "UTC with milliseconds, and not for who did not ask", nil, func(h *harness) {
			a, b := h.register("a"), h.register("b", "server-time")
			a.do("PRIVMSG b :x")
			got := b.got()
			if v, _ := tagOfLine(got[0], "time"); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(v) {
				h.t.Errorf("%q", got)
			}
			b.do("CAP REQ :-server-time", "PRIVMSG a :x")
			want(h.t, a.got(), ":b!~b@hearsay PRIVMSG a :x")
			a.do("PRIVMSG b :y")
			wantPart(h.t, b.got(), ":a!~a@hearsay PRIVMSG b :y")
		}},
	})
}
