package config

import (
	"errors"
	"strings"
	"testing"

	"hearsay/internal/box"
)

const editable = `# mine
irc_listen = "tcp://127.0.0.1:6667" # the port

# about bob
[contact."bob"]
dm_chacha_public = "` + "PUB" + `"
my_dm_chacha_secret = "SEC" # ours

# about #x
[channel."#x"]
secret = "SEC"
topic = """
# no comment
"""

[channel."#y"] # public
topic = "t"
# the end`

func testKeys(t testing.TB) (public box.PublicKey, secret box.SecretKey) {
	t.Helper()
	return box.GenerateSecret().Public(), box.GenerateSecret()
}

func editor(t testing.TB, text string) *Editor {
	t.Helper()
	e, err := NewEditor([]byte(text), Env{Home: "/home/x"})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A table is put at the end and taken out again; not a byte of the rest changes.
func TestEdits(t *testing.T) {
	public, secret := testKeys(t)
	text := strings.NewReplacer("PUB", public.Base58(), "SEC", secret.Base58(), "topic = \"\"\"\n# no comment\n\"\"\"", "topic = '''# no comment'''").Replace(editable)
	for _, x := range []struct {
		name string
		edit func(e *Editor) error
		cut  string // what goes
		add  string // what comes at the end
		err  error
	}{
		{
			"remove contact", func(e *Editor) error { return e.RemoveContact("bob") },
			"[contact.\"bob\"]\ndm_chacha_public = \"" + public.Base58() + "\"\nmy_dm_chacha_secret = \"" + secret.Base58() + "\" # ours\n", "", nil,
		},
		{
			"remove channel", func(e *Editor) error { return e.RemoveChannel("#x") },
			"[channel.\"#x\"]\nsecret = \"" + secret.Base58() + "\"\ntopic = '''# no comment'''\n", "", nil,
		},
		{"remove the last", func(e *Editor) error { return e.RemoveChannel("#y") }, "[channel.\"#y\"] # public\ntopic = \"t\"\n", "", nil},
		{"add channel", func(e *Editor) error { return e.AddChannel(`#q"\`, secret) }, "", "\n\n[channel.\"#q\\\"\\\\\"]\nsecret = \"" + secret.Base58() + "\"\n", nil},
		{
			"add contact", func(e *Editor) error { return e.AddContact(`a\b`, public, secret) }, "",
			"\n\n[contact.\"a\\\\b\"]\n# for them: dm_chacha_public = \"" + secret.Public().Base58() + "\"\ndm_chacha_public = \"" + public.Base58() + "\"\nmy_dm_chacha_secret = \"" + secret.Base58() + "\"\n", nil,
		},
		{"a channel twice", func(e *Editor) error { return e.AddChannel("#X", secret) }, "", "", ErrExists},
		{"a contact twice", func(e *Editor) error { return e.AddContact("Bob", public, secret) }, "", "", ErrExists},
		{"pending, but there", func(e *Editor) error { return e.AddPending("BOB", secret) }, "", "", ErrExists},
		{
			"remove contact in another case", func(e *Editor) error { return e.RemoveContact("BOB") },
			"[contact.\"bob\"]\ndm_chacha_public = \"" + public.Base58() + "\"\nmy_dm_chacha_secret = \"" + secret.Base58() + "\" # ours\n", "", nil,
		},
		{"no such contact", func(e *Editor) error { return e.RemoveContact("rob") }, "", "", ErrMissing},
		{"no such channel", func(e *Editor) error { return e.RemoveChannel("#z") }, "", "", ErrMissing},
	} {
		e := editor(t, text)
		if err := x.edit(e); !errors.Is(err, x.err) {
			t.Errorf("%s: %v", x.name, err)
		}
		if want := strings.Replace(text, x.cut, "", 1) + x.add; string(e.Text()) != want {
			t.Errorf("%s:\n%s\nwant\n%s", x.name, e.Text(), want)
		}
	}
	for name, edit := range map[string]func(*Editor) error{
		"bad channel": func(e *Editor) error { return e.AddChannel("x", secret) },
		"bad label":   func(e *Editor) error { return e.AddContact("nickserv", public, secret) },
		"bad pending": func(e *Editor) error { return e.AddPending("a b", secret) },
		"no key":      func(e *Editor) error { return e.AddContact("alice", box.PublicKey{}, secret) },
	} {
		e := editor(t, text)
		if edit(e) == nil || string(e.Text()) != text {
			t.Error(name)
		}
	}
}

// A contact whose key is not known yet is a comment, until the key comes or it is given up.
func TestPending(t *testing.T) {
	public, secret := testKeys(t)
	for _, text := range []string{"# mine\n", "# mine\r\n", "# mine", ""} {
		e := editor(t, text)
		if err := e.AddPending("b`o\\b", secret); err != nil {
			t.Fatal(err)
		}
		if all := e.Pending(); len(all) != 1 || all[0].Label != "b`o\\b" || all[0].Secret != secret {
			t.Errorf("%q: %q", text, e.Text())
		}
		if err := e.AddPending("B`O\\B", secret); !errors.Is(err, ErrExists) {
			t.Error(err)
		}
		if err := e.RemoveContact("b`o\\"); !errors.Is(err, ErrMissing) {
			t.Error(err)
		}
		with := string(e.Text())
		if strings.Contains(text, "\r") != strings.HasSuffix(with, "\r\n") {
			t.Errorf("%q", with)
		}
		if err := e.RemoveContact("B`o\\b"); err != nil || strings.TrimSpace(string(e.Text())) != strings.TrimSpace(text) {
			t.Errorf("%v %q", err, e.Text())
		}
		e = editor(t, with)
		if err := e.AddContact("b`o\\b", public, secret); err != nil || strings.Count(string(e.Text()), "b`o") != 1 || len(e.Pending()) != 0 {
			t.Errorf("%v %s", err, e.Text())
		}
	}
	for _, text := range []string{
		"#[contact.\"bob\"] # waits for their key\n", // no secret
		"#[contact.\"bob\"] # waits for their key\n\n#my_dm_chacha_secret = \"" + secret.Base58() + "\"\n",
		"#[contact.\"bob\"] # waits for their key\n#my_dm_chacha_secret = \"nonsense\"\n",
		"#[contact.\"a b\"] # waits for their key\n#my_dm_chacha_secret = \"" + secret.Base58() + "\"\n",
	} {
		if all := editor(t, text).Pending(); len(all) != 0 {
			t.Errorf("%q: %v", text, all[0].Label)
		}
	}
}

// What is said in another form is left to its author.
func TestEditByHand(t *testing.T) {
	_, secret := testKeys(t)
	for _, text := range []string{
		"channel.\"#x\".secret = \"" + secret.Base58() + "\"\n",
		"[channel]\n\"#x\" = { secret = \"" + secret.Base58() + "\" }\n",
		"[channel]\n\"#x\".secret = \"" + secret.Base58() + "\" # c\n",
		"channel = { \"#x\" = { secret = \"" + secret.Base58() + "\" } }\n",
	} {
		e := editor(t, text)
		if err := e.RemoveChannel("#x"); !errors.Is(err, ErrByHand) || string(e.Text()) != text {
			t.Error(err)
		}
	}
	e := editor(t, "channel = { \"#x\" = { topic = \"t\" } }\n")
	if err := e.AddChannel("#y", secret); !errors.Is(err, ErrByHand) {
		t.Error(err)
	}
	if _, err := NewEditor([]byte("nonsense"), Env{}); err == nil {
		t.Error("no error")
	}
}

// Forms of TOML that are rare and right: what was added is found again, and taken out without a trace.
func TestEditRareForms(t *testing.T) {
	public, secret := testKeys(t)
	contact := "dm_chacha_public = \"" + public.Base58() + "\"\nmy_dm_chacha_secret = \"" + secret.Base58() + "\""
	for name, text := range map[string]string{
		"CRLF":                      "# mine\r\nmotd = \"x\"\r\n\r\n[channel.\"#y\"]\r\ntopic = \"t\"\r\n# end\r\n",
		"CRLF without the last":     "# mine\r\nmotd = \"x\"",
		"no end of line":            "[channel.\"#y\"] # c",
		"only a comment":            "# c",
		"nothing":                   "",
		"empty lines":               "\n\n\n",
		"bare and literal keys":     "[channel.'#y']\n[contact.rob]\n" + contact + "\n",
		"spaces in the header":      "  [ channel . \"#y\" ]  # c\n\ttopic\t=\t't'\n",
		"an escaped key":            "[\"\\u0063hannel\".\"#y\"]\n",
		"a table above its parent":  "[channel.\"#y\"]\n[channel]\n",
		"[channel] and dotted keys": "[channel]\n\"#y\".topic = \"t\"\n[net]\n",
		"dotted keys at the top":    "contact.rob." + strings.Replace(contact, "\n", "\ncontact.rob.", 1) + "\n",
		"a header inside a string":  "motd = \"\"\"\n[channel.\"#x\"]\n[contact.\"x\"]\n\"\"\"\n",
		"a header inside a comment": "# [channel.\"#x\"]\n#[contact.\"x\"] # waits for somebody\n",
		"a table after it":          "[contact.rob] # c\n" + contact + " # d\n# e\n\n\n[net]\n",
		"an array of tables":        "[net]\nblacklist = [\n  [\"h\", [\"tcp\"], []], # x\n]\n",
	} {
		e := editor(t, text)
		for what, err := range map[string]error{
			"add channel": e.AddChannel("#x", secret), "add contact": e.AddContact("x", box.GenerateSecret().Public(), secret),
			"pending": e.AddPending("z", secret),
		} {
			if err != nil {
				t.Fatalf("%s: %s: %v", name, what, err)
			}
		}
		if crlf, all := strings.Count(string(e.Text()), "\r\n"), strings.Count(string(e.Text()), "\n"); strings.Contains(text, "\r\n") && crlf != all {
			t.Errorf("%s: %d of %d line ends are CRLF", name, crlf, all)
		}
		if err := errors.Join(e.RemoveContact("z"), e.RemoveChannel("#X"), e.RemoveContact("X")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := text
		if text != "" && !strings.HasSuffix(text, "\n") {
			want += "\n"
			if strings.Contains(text, "\r\n") {
				want = text + "\r\n"
			}
		}
		if string(e.Text()) != want {
			t.Errorf("%s: left\n%q\nof\n%q", name, e.Text(), want)
		}
	}
}

// FuzzEdit: whatever the text, an edit either refuses or undoes.
func FuzzEdit(f *testing.F) {
	secret, err := box.ParseSecret("4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw")
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(defaultText), "#x")
	f.Add([]byte("[channel.'#y']\n# c"), "#y")
	f.Fuzz(func(t *testing.T, text []byte, name string) {
		e, err := NewEditor(text, Env{Home: "/home/x"})
		if err != nil {
			return
		}
		if e.AddChannel(name, secret) != nil {
			_ = e.RemoveChannel(name)
			return
		}
		if err := e.RemoveChannel(name); err != nil || strings.TrimSpace(string(e.Text())) != strings.TrimSpace(string(text)) {
			t.Errorf("%v: %q of %q", err, e.Text(), text)
		}
	})
}
