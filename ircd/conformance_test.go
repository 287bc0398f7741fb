package ircd

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// A behaviour is one thing that a specification asks of a server.
type behaviour struct {
	spec string // the specification, and its section where it has them
	name string
	with func(*Config, *fakeGraph)
	test func(h *harness)
}

// conform runs each behaviour on a server of its own.
func conform(t *testing.T, all []behaviour) {
	t.Helper()
	for _, b := range all {
		t.Run(b.spec+"/"+b.name, func(t *testing.T) { serve(t, b.with, b.test) })
	}
}

// wantOrder checks that each part is in a line after the line of the part before.
func wantOrder(t testing.TB, lines []string, parts ...string) {
	t.Helper()
	at := 0
	for _, p := range parts {
		i := find(lines[at:], p)
		if i < 0 {
			t.Errorf("no line with %q from line %d on in %q", p, at, lines)
			return
		}
		at += i + 1
	}
}

// withPassword sets the daemon's password.
func withPassword(password string) func(*Config, *fakeGraph) {
	return func(c *Config, _ *fakeGraph) {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			panic(err)
		}
		c.PasswordHash = string(hash)
	}
}

// authenticatePlain are the lines of SASL PLAIN.
func authenticatePlain(authzid, authcid, password string) []string {
	data := base64.StdEncoding.EncodeToString([]byte(authzid + "\x00" + authcid + "\x00" + password))
	lines := []string{"AUTHENTICATE PLAIN"}
	for len(data) >= saslChunk {
		lines, data = append(lines, "AUTHENTICATE "+data[:saslChunk]), data[saslChunk:]
	}
	if data == "" {
		data = "+"
	}
	return append(lines, "AUTHENTICATE "+data)
}

// TestConformanceRegistration: the way in.
func TestConformanceRegistration(t *testing.T) {
	conform(t, []behaviour{
		{"Modern 4.1", "the welcome has its order", nil, func(h *harness) {
			lines := h.dial().do("NICK a", "USER a 0 * :a")
			wantOrder(h.t, lines, " 001 a :", " 002 a :", " 003 a :", " 004 a irc.hearsay hearsay Bi b", " 005 a ", " 251 a ", " 422 a ")
		}},
		{"Modern 4.1.3", "an empty realname is missing", nil, func(h *harness) {
			c := h.dial()
			want(h.t, c.do("NICK a", "USER a 0 * :"), ":irc.hearsay 461 a USER :Not enough parameters")
			wantPart(h.t, c.do("USER a 0 * :a"), " 001 a ")
		}},
		{"Modern 4.1.1", "a wrong PASS is 464 and ERROR", withPassword("right"), func(h *harness) {
			c := h.dial()
			want(h.t, c.do("PASS wrong", "NICK a", "USER a 0 * :a"), ":irc.hearsay 464 a :Password incorrect", "ERROR :Closing link: Password incorrect")
		}},
		{"RFC2812 3.1.1", "a PASS after NICK and USER is too late", withPassword("right"), func(h *harness) {
			c := h.dial()
			wantNone(h.t, c.do("NICK a", "USER a 0 * :a", "PASS right"), " 001 ")
		}},
		{"issue 5", "PASS may name a device", withPassword("ri:ght"), func(h *harness) {
			c := h.dial()
			wantPart(h.t, c.do("PASS me@phone:ri:ght", "NICK a", "USER a 0 * :a"), " 001 a ")
			wantPart(h.t, c.do("PRIVMSG *status clients"), "a: since 2000-01-01 00:00:00 UTC, device phone")
			wantPart(h.t, h.dial().do("PASS ri:ght", "NICK b", "USER b@desk 0 * :b"), " 001 b ")
			wantPart(h.t, c.do("PRIVMSG *status clients"), "b: since 2000-01-01 00:00:00 UTC, device desk")
			d := h.dial()
			wantPart(h.t, d.do("PASS me@phone:ght", "NICK d", "USER d 0 * :d"), " 464 d ")
		}},
		{"issue 5", "a password that looks like a device is a password", withPassword("me@phone:x"), func(h *harness) {
			wantPart(h.t, h.dial().do("PASS me@phone:x", "NICK a", "USER a 0 * :a"), " 001 a ")
		}},
		{"RFC2812 5.1", "431 432 433 461 462 have their forms", nil, func(h *harness) {
			h.register("bob")
			c := h.dial()
			want(h.t, c.do("NICK"), ":irc.hearsay 431 * :No nickname given")
			want(h.t, c.do("NICK :"), ":irc.hearsay 431 * :No nickname given")
			want(h.t, c.do("NICK #x"), ":irc.hearsay 432 * #x :Erroneous nickname")
			want(h.t, c.do("NICK *status"), ":irc.hearsay 432 * *status :Erroneous nickname")
			want(h.t, c.do("NICK _status"), ":irc.hearsay 433 * _status :Nickname is reserved for a contact or a service")
			want(h.t, c.do("NICK bob"), ":irc.hearsay 433 * bob :Nickname is already in use")
			want(h.t, c.do("USER a"), ":irc.hearsay 461 * USER :Not enough parameters")
			want(h.t, c.do("WHOIS a"), ":irc.hearsay 451 * :You have not registered")
			wantPart(h.t, c.do("NICK a", "USER a 0 * :a"), " 001 a ")
			want(h.t, c.do("USER a 0 * :a"), ":irc.hearsay 462 a :You may not reregister")
		}},
		{"RFC2812 5.1", "409 411 412 421 have their forms", nil, func(h *harness) {
			c := h.register("a")
			want(h.t, c.do("PING"), ":irc.hearsay 409 a :No origin specified")
			want(h.t, c.do("PRIVMSG"), ":irc.hearsay 411 a :No recipient given (PRIVMSG)")
			want(h.t, c.do("PRIVMSG a"), ":irc.hearsay 412 a :No text to send")
			want(h.t, c.do("PRIVMSG a :"), ":irc.hearsay 412 a :No text to send")
			want(h.t, c.do("nosuch"), ":irc.hearsay 421 a NOSUCH :Unknown command")
			want(h.t, c.do("NOTICE", "NOTICE a", "NOTICE a :")) // RFC 2812 3.3.2: never answered
		}},
	})
}

// TestConformanceCap: IRCv3 capability negotiation.
func TestConformanceCap(t *testing.T) {
	const spec = "IRCv3 capability-negotiation"
	conform(t, []behaviour{
		{spec, "values are for 302 only", nil, func(h *harness) {
			c := h.dial()
			lines := c.do("CAP LS")
			if len(lines) != 1 || strings.Contains(lines[0], "=") || !strings.Contains(lines[0], " sasl ") {
				h.t.Errorf("%q", lines)
			}
			lines = c.do("CAP LS 302")
			if len(lines) != 1 || !strings.Contains(lines[0], " sasl=PLAIN ") {
				h.t.Errorf("%q", lines)
			}
			want(h.t, h.dial().do("CAP REQ :sasl=PLAIN"), ":irc.hearsay CAP * NAK :sasl=PLAIN")
		}},
		{spec, "cap-notify comes with 302 and stays", nil, func(h *harness) {
			c := h.dial()
			c.do("CAP LS 302")
			want(h.t, c.do("CAP LIST"), ":irc.hearsay CAP * LIST :cap-notify")
			want(h.t, c.do("CAP REQ :-cap-notify"), ":irc.hearsay CAP * NAK :-cap-notify")
		}},
		{spec, "a REQ is granted whole or not at all", nil, func(h *harness) {
			c := h.dial()
			want(h.t, c.do("CAP REQ :foo multi-prefix bar"), ":irc.hearsay CAP * NAK :foo multi-prefix bar")
			want(h.t, c.do("CAP LIST"), ":irc.hearsay CAP * LIST :")
			want(h.t, c.do("CAP REQ :multi-prefix setname"), ":irc.hearsay CAP * ACK :multi-prefix setname")
			want(h.t, c.do("CAP REQ -setname"), ":irc.hearsay CAP * ACK :-setname")
			want(h.t, c.do("CAP LIST"), ":irc.hearsay CAP * LIST :multi-prefix")
		}},
		{spec, "an unknown subcommand is 410", nil, func(h *harness) {
			want(h.t, h.dial().do("CAP NOTACOMMAND"), ":irc.hearsay 410 * NOTACOMMAND :Invalid CAP subcommand")
		}},
		{spec, "registration waits for END, after LS or REQ", nil, func(h *harness) {
			for _, first := range []string{"CAP LS", "CAP LS 302", "CAP REQ :batch"} {
				c := h.dial()
				nick := fmt.Sprintf("n%d", h.server.serial)
				wantNone(h.t, c.do(first, "NICK "+nick, "USER a 0 * :a"), " 001 ")
				wantPart(h.t, c.do("CAP END"), " 001 "+nick+" ")
			}
		}},
		{"issue 5", "no capability that needs accounts or real hosts", nil, func(h *harness) {
			for _, l := range h.dial().do("CAP LS 302") {
				for _, no := range []string{"account", "extended-join", "chghost", "invite-notify"} {
					if strings.Contains(l, no) {
						h.t.Errorf("%s in %q", no, l)
					}
				}
			}
		}},
	})
}

// TestConformanceSASL: IRCv3 sasl-3.1 and 3.2, RFC 4616.
func TestConformanceSASL(t *testing.T) {
	const spec = "IRCv3 sasl"
	secret := withPassword("secret")
	begin := func(h *harness) *testClient {
		c := h.dial()
		wantPart(h.t, c.do("CAP LS 302", "CAP REQ :sasl", "NICK a", "USER a 0 * :a"), " ACK :sasl")
		return c
	}
	long := strings.Repeat("p", 600)
	conform(t, []behaviour{
		{spec, "the password is enough to register", secret, func(h *harness) {
			c := begin(h)
			want(h.t, c.do("AUTHENTICATE PLAIN"), "AUTHENTICATE +")
			want(h.t, c.do(authenticatePlain("", "me@phone", "secret")[1:]...),
				":irc.hearsay 900 a a!a@hearsay me :You are now logged in as me", ":irc.hearsay 903 a :SASL authentication successful")
			wantPart(h.t, c.do("CAP END"), " 001 a ")
			want(h.t, c.do("AUTHENTICATE PLAIN"), ":irc.hearsay 907 a :You have already authenticated using SASL")
			wantPart(h.t, c.do("PRIVMSG *status :clients"), ", device phone")
		}},
		{spec, "it may come before NICK, and in lower case", secret, func(h *harness) {
			c := h.dial()
			lines := authenticatePlain("me", "me", "secret")
			lines[0] = "authenticate plain"
			wantPart(h.t, c.do(append([]string{"CAP REQ sasl"}, lines...)...), ":irc.hearsay 900 * *!*@hearsay me :", " 903 * ")
			wantPart(h.t, c.do("NICK a", "USER a 0 * :a", "CAP END"), " 001 a ")
		}},
		{spec, "a wrong password is 904, and may be tried again", secret, func(h *harness) {
			c := begin(h)
			want(h.t, c.do(authenticatePlain("", "me", "wrong")...), "AUTHENTICATE +", ":irc.hearsay 904 a :SASL authentication failed")
			c.send(authenticatePlain("", "me", "secret")...)
			time.Sleep(throttleStep)
			wantPart(h.t, c.got(), " 903 a ")
		}},
		{spec, "it cannot be tried for ever", secret, func(h *harness) {
			c := begin(h)
			for range maxSASLTries {
				c.send(authenticatePlain("", "me", "wrong")...)
				time.Sleep(time.Second)
			}
			lines := c.got()
			wantPart(h.t, lines, "ERROR :Closing link: Too many failed SASL authentications")
			if n := count(lines, " 904 "); n != maxSASLTries || !c.isClosed() {
				h.t.Errorf("%d tries, closed %v", n, c.isClosed())
			}
		}},
		{spec, "who fails does not get in", secret, func(h *harness) {
			c := begin(h)
			c.do(authenticatePlain("", "me", "wrong")...)
			c.send("CAP END")
			time.Sleep(time.Second)
			want(h.t, c.got(), ":irc.hearsay 464 a :Password incorrect", "ERROR :Closing link: Password incorrect")
		}},
		{spec, "an unknown mechanism is 908 and 904", nil, func(h *harness) {
			c := begin(h)
			want(h.t, c.do("AUTHENTICATE FOO"), ":irc.hearsay 908 a PLAIN :are available SASL mechanisms", ":irc.hearsay 904 a :SASL authentication failed")
			wantPart(h.t, c.do(authenticatePlain("", "me", "any")...), " 903 a ") // no password is set
		}},
		{spec, "what is not base64 or not PLAIN is 904", nil, func(h *harness) {
			for _, data := range []string{"!!", "+", "YQ==", base64.StdEncoding.EncodeToString([]byte("a\x00b")), base64.StdEncoding.EncodeToString([]byte("other\x00me\x00secret"))} {
				c := begin(h)
				want(h.t, c.do("AUTHENTICATE PLAIN", "AUTHENTICATE "+data), "AUTHENTICATE +", ":irc.hearsay 904 a :SASL authentication failed")
				c.do("QUIT")
			}
		}},
		{spec, "an asterisk aborts", nil, func(h *harness) {
			c := begin(h)
			want(h.t, c.do("AUTHENTICATE PLAIN", "AUTHENTICATE *"), "AUTHENTICATE +", ":irc.hearsay 906 a :SASL authentication aborted")
			want(h.t, c.do("AUTHENTICATE PLAIN"), "AUTHENTICATE +")
		}},
		{spec, "the end of registration aborts", nil, func(h *harness) {
			c := begin(h)
			wantOrder(h.t, c.do("AUTHENTICATE PLAIN", "CAP END"), "AUTHENTICATE +", " 906 a ", " 001 a ")
		}},
		{spec, "long passwords come in chunks of 400", withPassword(long[:maxPassword]), func(h *harness) {
			c := begin(h)
			wantPart(h.t, c.do(authenticatePlain("", "me", long)...), " 903 a ") // bcrypt cuts at 72 bytes, as darkirc
		}},
		{spec, "a message of exactly 400 ends with +", withPassword("x"), func(h *harness) {
			lines := authenticatePlain("", strings.Repeat("n", 297), "x")
			if len(lines) != 3 || lines[2] != "AUTHENTICATE +" {
				h.t.Fatalf("%q", lines)
			}
			wantPart(h.t, begin(h).do(lines...), " 903 a ")
		}},
		{spec, "what is too long is 905", nil, func(h *harness) {
			c := begin(h)
			want(h.t, c.do("AUTHENTICATE PLAIN", "AUTHENTICATE "+strings.Repeat("A", 401)), "AUTHENTICATE +", ":irc.hearsay 905 a :SASL message too long")
			c.do("AUTHENTICATE PLAIN")
			chunk := "AUTHENTICATE " + strings.Repeat("A", 400)
			want(h.t, c.do(chunk, chunk, chunk, chunk))
			want(h.t, c.do("AUTHENTICATE A"), ":irc.hearsay 905 a :SASL message too long")
		}},
		{spec, "without the capability it is refused", nil, func(h *harness) {
			wantPart(h.t, h.dial().do("AUTHENTICATE PLAIN"), ":irc.hearsay 904 * :")
			wantPart(h.t, h.dial().do("AUTHENTICATE"), ":irc.hearsay 461 * AUTHENTICATE :")
		}},
		{spec, "an exchange that stalls ends with the time to register", secret, func(h *harness) {
			c := begin(h)
			c.do("AUTHENTICATE PLAIN")
			time.Sleep(registerTimeout + time.Second)
			want(h.t, c.got(), "ERROR :Closing link: Registration timed out")
		}},
	})
}

// TestConformanceLines: what a line is.
func TestConformanceLines(t *testing.T) {
	conform(t, []behaviour{
		{"IRCv3 utf8only", "what is not UTF-8 is FAIL, with the label", nil, func(h *harness) {
			a := h.join("a", "#c", "labeled-response", "batch", "echo-message")
			want(h.t, a.do("@label=xyz PRIVMSG #c :hi\xaa"), "@label=xyz :irc.hearsay FAIL PRIVMSG INVALID_UTF8 :Message rejected, it is not UTF-8")
			b := h.register("b")
			want(h.t, b.do("PRIVMSG a hi\xaa"), ":irc.hearsay FAIL PRIVMSG INVALID_UTF8 :Message rejected, it is not UTF-8")
			want(h.t, a.got())
		}},
		{"IRCv3 message-tags", "4094 bytes of client tags pass, one more is 417", nil, func(h *harness) {
			a := h.join("a", "#c", "message-tags")
			b := h.join("b", "#c", "message-tags")
			a.got()
			const frame = "@foo=bar;+baz= "
			at := strings.Repeat("x", 4096-len(frame))
			want(h.t, a.do("@foo=bar;+baz="+at+" PRIVMSG #c hi"))
			lines := b.got()
			if len(lines) != 1 || !strings.Contains(lines[0], "+baz="+at) || strings.Contains(lines[0], "foo") {
				h.t.Errorf("%d lines", len(lines))
			}
			want(h.t, a.do("@foo=bar;+baz=x"+at+" PRIVMSG #c hi"), ":irc.hearsay 417 a :Input line was too long")
			want(h.t, b.got())
		}},
		{"IRCv3 message-tags", "TAGMSG reaches who negotiated tags, and nobody else", nil, func(h *harness) {
			a := h.join("a", "#c", "message-tags", "echo-message")
			b, c := h.join("b", "#c", "message-tags"), h.join("c", "#c")
			a.got()
			b.got()
			wantPart(h.t, a.do(`@+x=y\:z;cat=dog TAGMSG #c`), ` TAGMSG #c`)
			lines := b.got()
			if len(lines) != 1 || !strings.Contains(lines[0], `+x=y\:z`) || !strings.Contains(lines[0], "msgid=") || strings.Contains(lines[0], "cat") {
				h.t.Errorf("%q", lines)
			}
			want(h.t, c.got())
			want(h.t, a.do("@+typing=active TAGMSG *status", "@+typing=active TAGMSG nickserv")) // nothing to tell
			if h.outbox.n != 0 {
				h.t.Errorf("%d accepted", h.outbox.n)
			}
		}},
		{"IRCv3 labeled-response", "exactly one label, whatever the command", nil, func(h *harness) {
			a := h.join("a", "#c", "labeled-response", "batch", "echo-message", "message-tags", "sasl")
			for _, l := range []string{
				"PRIVMSG #c :x", "PRIVMSG a :x", "PRIVMSG nobody :x", "PRIVMSG *status :help", "PRIVMSG *status :version", "PRIVMSG NickServ :x",
				"NOTICE *status :x", "TAGMSG *status", "WHO", "WHO #c %tn,1", "WHOIS a", "WHOWAS x", "MONITOR + a,b", "MONITOR S", "MONITOR -", "HELP",
				"HELP nosuch", "AWAY :x", "SETNAME :x", "MODE a +B", "STATS u", "MAP", "LINKS", "KILL a b", "INVITE a #c", "NOSUCH", "ISON a", "LIST",
				"AUTHENTICATE *", "CAP LIST", "PONG x", "VERSION nosuch.server",
			} {
				if n := count(a.do("@label=L "+l), "label=L"); n != 1 {
					h.t.Errorf("%q: %d labels", l, n)
				}
			}
		}},
	})
}
