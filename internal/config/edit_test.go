package config

import (
	"errors"
	"os"
	"path/filepath"
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
	const text = "# mine\n"
	e := editor(t, text)
	if err := e.AddPending("bob", secret); err != nil {
		t.Fatal(err)
	}
	if got, ok := e.Pending("bob"); !ok || got != secret {
		t.Error(ok)
	}
	if _, ok := e.Pending("bo"); ok {
		t.Error("bo")
	}
	if err := e.AddPending("bob", secret); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	with := string(e.Text())
	if err := e.RemoveContact("bob"); err != nil || string(e.Text()) != text+"\n" {
		t.Errorf("%v %q", err, e.Text())
	}
	e = editor(t, with)
	if err := e.AddContact("bob", public, secret); err != nil || strings.Count(string(e.Text()), "bob") != 1 {
		t.Errorf("%v %s", err, e.Text())
	}
}

// What is said in another form is left to its author.
func TestEditByHand(t *testing.T) {
	_, secret := testKeys(t)
	for _, text := range []string{
		"channel.\"#x\".secret = \"" + secret.Base58() + "\"\n",
		"[channel]\n\"#x\" = { secret = \"" + secret.Base58() + "\" }\n",
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

// A file is replaced whole: mode and links stay, a file that somebody else changes is left.
func TestEditFile(t *testing.T) {
	_, secret := testKeys(t)
	dir := t.TempDir()
	path, link := filepath.Join(dir, "c.toml"), filepath.Join(dir, "link.toml")
	if err := errors.Join(os.WriteFile(path, []byte("# mine\n"), 0o640), os.Symlink("c.toml", link)); err != nil {
		t.Fatal(err)
	}
	add := func(e *Editor) error { return e.AddChannel("#x", secret) }
	if err := EditFile(link, Env{Home: dir}, add); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(got), "# mine\n\n[channel.\"#x\"]\n") {
		t.Errorf("%v %q", err, got)
	}
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Error(err, info.Mode())
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error(err)
	}
	err = EditFile(path, Env{Home: dir}, func(e *Editor) error {
		return errors.Join(os.WriteFile(path, []byte("# theirs\n"), 0o600), e.RemoveChannel("#x"))
	})
	if !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "# theirs\n" {
		t.Errorf("%q", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%d files", len(entries))
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
