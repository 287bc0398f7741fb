package ircd

import (
	"context"
	"errors"
	"strings"
	"testing"

	"hearsay/internal/box"
)

// fakeEditor keeps what it was asked for.
type fakeEditor struct {
	asked   []string
	err     error
	key     box.SecretKey
	pending []PendingContact
}

func (f *fakeEditor) Pending(context.Context) ([]PendingContact, error) { return f.pending, f.err }

func (f *fakeEditor) note(words ...string) (Summary, error) {
	f.asked = append(f.asked, strings.Join(words, " "))
	return Summary{Changed: []string{"done"}, NeedsRestart: []string{"[net]"}}, f.err
}

func (f *fakeEditor) AddContact(_ context.Context, label string, theirs box.PublicKey) (box.PublicKey, Summary, error) {
	key := ""
	if !theirs.IsZero() {
		key = theirs.Base58()
	}
	sum, err := f.note("contact", label, key)
	return f.key.Public(), sum, err
}

func (f *fakeEditor) RemoveContact(_ context.Context, label string) (Summary, error) {
	return f.note("no contact", label)
}

func (f *fakeEditor) AddChannel(_ context.Context, name string, secret box.SecretKey) (Summary, error) {
	return f.note("channel", name, secret.Base58())
}

func (f *fakeEditor) RemoveChannel(_ context.Context, name string) (Summary, error) {
	return f.note("no channel", name)
}

// TestEditFromStatus: CONTACTS and CHANNELS reach the Editor, with what they need and nothing else; its
// errors are told in its words (issue 5).
func TestEditFromStatus(t *testing.T) {
	key := secretKey(t, "4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw")
	ours := key.Public().Base58()
	ed := &fakeEditor{key: key, pending: []PendingContact{{Label: "Zoe", Ours: key.Public()}}}
	serve(t, func(c *Config, _ *fakeGraph) {
		c.Editor = ed
		c.Settings, _ = people(t)
	}, func(h *harness) {
		a := h.register("alice")
		a.got()
		ask := func(text string) string { return strings.Join(said(a.do("PRIVMSG *status :"+text)), "\n") }
		for _, x := range []struct{ text, asked, said string }{
			{"CONTACTS ADD rob", "contact rob ", "/msg *status CONTACTS ADD alice " + ours},
			{"contacts add rob " + ours, "contact rob " + ours, "CONTACTS: done\nCONTACTS: needs a restart: [net]"},
			{"CONTACTS REMOVE rob", "no contact rob", "rob is removed"},
			{"CHANNELS ADD #x " + key.Base58(), "channel #x " + key.Base58(), "/join #x\nCHANNELS: done"},
			{"CHANNELS REMOVE #x", "no channel #x", "#x is removed"},
			{"CONTACTS ADD rob nonsense", "", "CONTACTS ADD failed: their key is"},
			{"CHANNELS ADD #x nonsense", "", "CHANNELS ADD failed: a secret is"},
			{"CONTACTS ADD", "", "Usage: CONTACTS [ADD name [their-key]|"},
			{"CONTACTS REMOVE a b", "", "Usage: CONTACTS [ADD name "},
			{"CONTACTS SHOW a", "", "Usage: CONTACTS [ADD name "},
			{"CONTACTS CARD", "", "Usage: CONTACTS [ADD name "},
			{"CHANNELS DROP #x", "", "Usage: CHANNELS [ADD #name "},
			{"CHANNELS CARD", "", "Usage: CHANNELS [ADD #name "},
			{"CONTACTS", "", "Zoe: waits for their key, yours for them " + ours},
			{"CONTACTS CARD bob", "", "Your card for Bob, "},
			{"CONTACTS card ZOE", "", "Your card for Zoe, "},
			{"CONTACTS CARD rob", "", "There is no contact rob: CONTACTS ADD rob makes one"},
			{"CHANNELS CARD #SECRET", "", "/msg *status CHANNELS ADD #secret Bwdhe48rKsqFwGUquQSSGZZS5NQP1szrdJUhyDE77Br6\nor, in a "},
			{"CHANNELS CARD #dev", "", "#Dev is public: "},
			{"CHANNELS CARD #x", "", "There is no encrypted channel #x: CHANNELS ADD #x makes one"},
		} {
			ed.asked = nil
			if got := ask(x.text); !strings.Contains(got, x.said) {
				t.Errorf("%s: %q", x.text, got)
			}
			if got := strings.Join(ed.asked, ","); got != x.asked {
				t.Errorf("%s: asked for %q, want %q", x.text, got, x.asked)
			}
		}
		ed.asked = nil
		if got := ask("CHANNELS ADD #y"); len(ed.asked) != 1 || !strings.Contains(got, "\n/msg *status CHANNELS ADD "+strings.TrimPrefix(ed.asked[0], "channel ")+"\n") {
			t.Errorf("%q, %q", got, ed.asked)
		}
		ed.err = errors.New("one\ntwo")
		if got := ask("CONTACTS ADD rob"); got != "CONTACTS ADD failed: one\nCONTACTS ADD failed: two" {
			t.Errorf("%q", got)
		}
		// Who the contacts are is known, whatever the file says by now.
		if got := ask("CONTACTS CARD bob"); !strings.HasPrefix(got, "Your card for Bob, ") || !strings.HasSuffix(got, "\nCONTACTS failed: one\nCONTACTS failed: two") {
			t.Errorf("%q", got)
		}
	})
	serve(t, nil, func(h *harness) {
		a := h.register("alice")
		wantPart(t, a.do("PRIVMSG *status :CONTACTS ADD rob"), "cannot write its configuration")
		wantPart(t, a.do("PRIVMSG *status :CONTACTS"), "You have no contacts")
	})
}

// TestUsable: DS-79. A record is usable with the very key that it was accepted under.
func TestUsable(t *testing.T) {
	st, _ := people(t)
	keys := new(Keys)
	if err := keys.Set(st); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"#secret", "Bob", "#public"} {
		kind, spelt, print, _ := keys.get().Lookup(name)
		m := Message{nick: "a", text: "x"}
		m.to.Kind, m.to.Name, m.to.Fingerprint = kind, spelt, print
		record := m.AppendTo(nil)
		if conv, ok, err := keys.Usable(record); conv != name || !ok || err != nil {
			t.Error(name, conv, ok, err)
		}
		m.to.Name = strings.ToUpper(name) // the label was spelt in another way
		if _, ok, err := keys.Usable(m.AppendTo(nil)); !ok || err != nil {
			t.Error(name, ok, err)
		}
		other := new(Keys)
		if _, ok, err := other.Usable(record); ok != (name == "#public") || err != nil {
			t.Error(name, ok, err)
		}
	}
	if _, _, err := keys.Usable([]byte("x")); !errors.Is(err, ErrRecord) {
		t.Error(err)
	}
}
