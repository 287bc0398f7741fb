package privmsg

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// TestNames proves facts 1.3 at and past each bound.
func TestNames(t *testing.T) {
	for nick, want := range map[string]bool{
		"a": true, "": false, "1": true, "-": true, "_-[]{}\\`^|9Z": true,
		strings.Repeat("a", 24): true, strings.Repeat("a", 25): false,
		"a b": false, "a!b": false, "a@b": false, "a:b": false, "é": false, "a\r": false, "a\x00": false, "*": false, "#a": false, "a.b": false, "~a": false,
	} {
		if got := ValidNick(nick); got != want {
			t.Errorf("nick %q: %t", nick, got)
		}
	}
	for channel, want := range map[string]bool{
		"#a": true, "#": false, "": false, "##": false, "##a": false, "#a#": true, "#a:b": true, "#~": true, "a": false, "&a": false,
		"#" + strings.Repeat("a", 23): true, "#" + strings.Repeat("a", 24): false,
		"#a b": false, "#a,b": false, "#\x7f": false, "#a\n": false, "#é": false, "#a\x00": false,
	} {
		if got := ValidChannel(channel); got != want {
			t.Errorf("channel %q: %t", channel, got)
		}
	}
}

// TestFold proves CASEMAPPING=ascii: letters only (T19).
func TestFold(t *testing.T) {
	for in, want := range map[string]string{"": "", "#Dev": "#dev", "#dev": "#dev", "A[]\\^{}|~Z": "a[]\\^{}|~z", "É": "É", "xAy": "xay"} {
		if got := Fold(in); got != want {
			t.Errorf("Fold(%q) = %q", in, got)
		}
	}
}

// TestCleanNick proves T1: what a prefix or a line is made of does not survive.
func TestCleanNick(t *testing.T) {
	for in, want := range map[string]string{
		"alice": "alice", "": "_", "a b": "a_b", "x\r\nQUIT": "x__QUIT", "a!b@c": "a_b_c", ":a": "_a", "\x00": "_",
		"josé": "jos_", "\xff": "_", "#chan": "_chan", "*status": "_status", "irc.x": "irc_x",
		strings.Repeat("é", 30): strings.Repeat("_", 24), strings.Repeat("a", 100): strings.Repeat("a", 24),
		"a\u202eb": "a_b", ",": "_",
	} {
		if got := CleanNick(in); got != want || !ValidNick(got) {
			t.Errorf("CleanNick(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestLines proves facts 1.5 and the CTCP rule of the contract.
func TestLines(t *testing.T) {
	for _, c := range []struct {
		in   string
		want []string
	}{
		{"", nil},
		{"\n", nil},
		{"\r\n\r\n", nil},
		{"\x00", nil},
		{"hi", []string{"hi"}},
		{"a\nb\rc\r\nd\n", []string{"a", "b", "c", "d"}},
		{"a\x00b", []string{"ab"}},
		{"hi \r:x PRIVMSG #c :forged", []string{"hi ", ":x PRIVMSG #c :forged"}},
		{"\x01ACTION waves\x01", []string{"\x01ACTION waves\x01"}},
		{"\x01ACTION waves", []string{"\x01ACTION waves\x01"}},
		{"\x01ACTION a\nb\x01", []string{"\x01ACTION a\x01", "b"}},
		{"\x01VERSION\x01", nil},
		{"\x01ACTIONS\x01", nil},
		{"\x01DCC SEND x\x01\nhello", []string{"hello"}},
		{"\x01\x01", nil},
		{"a\x01b", []string{"ab"}},
		{"\x01ACTION \x01VERSION\x01", []string{"\x01ACTION VERSION\x01"}},
		{"\xff\xfe", []string{"\uFFFD"}},
		{"\x02bold\x02", []string{"\x02bold\x02"}},
		{"  ", []string{"  "}},
	} {
		got, cut := Lines(c.in)
		if !slices.Equal(got, c.want) || cut {
			t.Errorf("Lines(%q) = %q, %t", c.in, got, cut)
		}
	}
	if got, cut := Lines(strings.Repeat("x\n", MaxLines)); len(got) != MaxLines || cut {
		t.Errorf("at the bound: %d lines, cut %t", len(got), cut)
	}
	if got, cut := Lines(strings.Repeat("x\n", MaxLines+1)); len(got) != MaxLines || !cut {
		t.Errorf("past the bound: %d lines, cut %t", len(got), cut)
	}
}

// TestSplitAtEveryOffset: texts that end in a 4-byte character, around the bound
// (failure-cases, IRC 2; upstream dies of this, L6).
func TestSplitAtEveryOffset(t *testing.T) {
	for n := 400; n <= 1100; n++ {
		for _, fill := range []string{"x", "x ", "é"} {
			text := strings.Repeat(fill, n)[:n]
			text = strings.ToValidUTF8(text, "") + "😃"
			checkSplit(t, text, MaxText)
		}
	}
	if got := Split(strings.Repeat("x", MaxText), MaxText); len(got) != 1 {
		t.Errorf("a text of %d bytes became %d", MaxText, len(got))
	}
	if got := Split(strings.Repeat("x", MaxText+1), MaxText); len(got) != 2 {
		t.Errorf("a text of %d bytes became %d", MaxText+1, len(got))
	}
}

func checkSplit(t interface{ Fatalf(string, ...any) }, text string, limit int) {
	pieces := Split(text, limit)
	joined := strings.Join(pieces, "")
	if strings.HasPrefix(text, actionPrefix) && len(pieces) > 1 {
		joined = ""
		for _, p := range pieces {
			if !strings.HasPrefix(p, actionPrefix) || !strings.HasSuffix(p, ctcpMark) {
				t.Fatalf("%q is no ACTION", p)
			}
			joined += strings.TrimSuffix(strings.TrimPrefix(p, actionPrefix), ctcpMark)
		}
		joined = actionPrefix + joined
		if strings.HasSuffix(text, ctcpMark) {
			joined += ctcpMark
		}
	}
	if joined != text {
		t.Fatalf("joined %q, want %q", joined, text)
	}
	for _, p := range pieces {
		if len(p) > limit || len(p) == 0 && text != "" {
			t.Fatalf("piece of %d bytes, limit %d", len(p), limit)
		}
		if utf8.ValidString(text) && !utf8.ValidString(p) {
			t.Fatalf("%q was cut inside a code point", p)
		}
	}
}

func TestSplitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 400, 1600).Draw(t, "text")
		if rapid.Bool().Draw(t, "action") {
			text = actionPrefix + text + rapid.SampledFrom([]string{"", ctcpMark}).Draw(t, "end")
		}
		checkSplit(t, text, rapid.IntRange(16, 600).Draw(t, "limit"))
	})
}

func FuzzSplit(f *testing.F) {
	f.Add("hello world", 16)
	f.Add(actionPrefix+"waves "+strings.Repeat("é", 300)+ctcpMark, 100)
	f.Add("\xff\xff\xff\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", 17)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		checkSplit(t, text, 16+(limit&0x3ff))
	})
}

// FuzzLines: whatever a peer sends, each line fits an IRC line and is shown once.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"a\r\nb", "\x01ACTION x\x01", "\x01VERSION\x01", "\x00\r", "\xff\x01", "hi \r:x PRIVMSG #c :forged"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lines, _ := Lines(text)
		if len(lines) > MaxLines {
			t.Fatalf("%d lines", len(lines))
		}
		for _, l := range lines {
			if l == "" || strings.ContainsAny(l, "\r\n\x00") || !utf8.ValidString(l) {
				t.Fatalf("line %q", l)
			}
			if strings.Contains(l, ctcpMark) && !IsAction(l) {
				t.Fatalf("CTCP passed: %q", l)
			}
			again, cut := Lines(l)
			if len(again) != 1 || again[0] != l || cut {
				t.Fatalf("cleaning %q twice gives %q", l, again)
			}
		}
	})
}

func FuzzCleanNick(f *testing.F) {
	f.Add("a\r\nb!c@d :e")
	f.Fuzz(func(t *testing.T, s string) {
		if got := CleanNick(s); !ValidNick(got) || CleanNick(got) != got {
			t.Fatalf("CleanNick(%q) = %q", s, got)
		}
	})
}
