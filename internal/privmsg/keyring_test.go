package privmsg

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"hearsay/internal/box"
)

func mustSecret(t testing.TB, s string) box.SecretKey {
	t.Helper()
	k, err := box.ParseSecret(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The keys of the facts page's vectors B and C.
const (
	aliceSecret = "4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw"
	bobSecret   = "3ELeRTTg5W5hAYaEFznzFV1jknNFkjHqS8ytwvQEQP1Z"
)

func keyring(t testing.TB, channels []ChannelKey, contacts []ContactKey) *Keyring {
	t.Helper()
	k, err := NewKeyring(channels, contacts)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// pair is Alice's and Bob's keyring: each has the other as a contact, and both
// have the channel #secret, in different spellings.
func pair(t testing.TB) (alice, bob *Keyring) {
	t.Helper()
	a, b, c := mustSecret(t, aliceSecret), mustSecret(t, bobSecret), box.GenerateSecret()
	alice = keyring(t, []ChannelKey{{"#secret", c}}, []ContactKey{{"Bob", b.Public(), a}})
	bob = keyring(t, []ChannelKey{{"#hidden", c}}, []ContactKey{{"ally", a.Public(), b}})
	return alice, bob
}

func seal(t testing.TB, k *Keyring, name, nick, text string) Message {
	t.Helper()
	kind, spelling, print, ok := k.Lookup(name)
	if !ok {
		t.Fatalf("%q is nothing", name)
	}
	m, err := k.Seal(Sealed{kind, spelling, print}, nick, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestOpenVectorC opens the facts page's direct message from both sides.
func TestOpenVectorC(t *testing.T) {
	var m Message
	for _, v := range vectors(t) {
		if v["case"] == "direct message C" {
			m = v.message()
		}
	}
	alice, bob := pair(t)
	got, err := bob.Open(m)
	if err != nil || got.Kind != Contact || got.Name != "ally" || got.Mine || got.Text != "hi bob" {
		t.Errorf("at Bob: kind %d, mine %t, %v", got.Kind, got.Mine, err)
	}
	got, err = alice.Open(m) // own-message recognition across devices (facts 2.5)
	if err != nil || got.Kind != Contact || got.Name != "Bob" || !got.Mine || got.Text != "hi bob" {
		t.Errorf("at Alice: kind %d, mine %t, %v", got.Kind, got.Mine, err)
	}
}

// TestFieldRules proves facts 2.4: sizes, padding, and which box each field is in.
func TestFieldRules(t *testing.T) {
	alice, bob := pair(t)
	longest := strings.Repeat("n", MaxNick)
	for _, nick := range []string{"", "a", longest} {
		m := seal(t, alice, "#SECRET", nick, "text")
		for field, s := range map[string]string{"channel": m.Channel, "nick": m.Nick} {
			if len(s) != 87 && len(s) != 88 {
				t.Errorf("%s field has %d characters", field, len(s))
			}
		}
		got, err := bob.Open(m)
		if err != nil || got.Kind != Channel || got.Name != "#hidden" || got.Nick != nick || got.Text != "text" || got.Mine {
			t.Errorf("nick of %d: kind %d, nick of %d, %v", len(nick), got.Kind, len(got.Nick), err)
		}
	}
	if m := seal(t, alice, "#secret", longest+"x", "t"); true { // longer is cut
		if got, err := bob.Open(m); err != nil || got.Nick != longest {
			t.Errorf("cut nick: %v", err)
		}
	}
	m := seal(t, alice, "bob", "ignored", "")
	if n := len(m.Text); n < 53 || n > 55 {
		t.Errorf("empty text has %d characters", n)
	}
	if n := len(seal(t, alice, "Bob", "", strings.Repeat("x", 512)).Text); n < 753 || n > 754 {
		t.Errorf("512 bytes of text have %d characters", n)
	}
	if got, err := bob.Open(m); err != nil || got.Nick != "" || got.Name != "ally" || got.Mine {
		t.Errorf("direct message: %v", err)
	}
	plain := seal(t, alice, "#dev", "alice", "hi")
	if plain != (Message{Channel: "#dev", Nick: "alice", Text: "hi"}) {
		t.Error("a public message was changed")
	}
}

// TestSelfContact: a contact with one's own key works, and is always "mine".
func TestSelfContact(t *testing.T) {
	a := mustSecret(t, aliceSecret)
	k := keyring(t, nil, []ContactKey{{"me", a.Public(), a}})
	got, err := k.Open(seal(t, k, "me", "", "note"))
	if err != nil || !got.Mine || got.Text != "note" {
		t.Errorf("mine %t, %v", got.Mine, err)
	}
}

// TestForgedPlaintextIsRefused proves T4 in every spelling that folds to the name.
func TestForgedPlaintextIsRefused(t *testing.T) {
	alice, _ := pair(t)
	for _, name := range []string{"#secret", "#Secret", "#SECRET", "Bob", "bob", "BOB"} {
		if got, err := alice.Open(Message{Channel: name, Nick: "Bob", Text: "forged"}); !errors.Is(err, ErrForged) {
			t.Errorf("%s: kind %d, %v", name, got.Kind, err)
		}
	}
	for _, name := range []string{"", "#", "##x", "# x", "#a,b", "#a\r\nb", "alice", "#" + strings.Repeat("x", 24), "\x00", "#é"} {
		if _, err := alice.Open(Message{Channel: name, Nick: "x", Text: "x"}); !errors.Is(err, ErrNotOurs) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if got, err := alice.Open(Message{Channel: "#secret2", Nick: "x", Text: "y"}); err != nil || got.Kind != Public {
		t.Errorf("another channel: %v", err)
	}
}

// TestForgedFieldsAreRefused mixes fields of honest messages with foreign ones.
func TestForgedFieldsAreRefused(t *testing.T) {
	alice, bob := pair(t)
	other := keyring(t, []ChannelKey{{"#secret", box.GenerateSecret()}}, nil)
	honest, foreign := seal(t, alice, "#secret", "alice", "x"), seal(t, other, "#secret", "alice", "x")
	for i, m := range []Message{
		{Channel: honest.Channel, Nick: foreign.Nick, Text: honest.Text},
		{Channel: honest.Channel, Nick: honest.Nick, Text: foreign.Text},
		{Channel: honest.Channel, Nick: "alice", Text: honest.Text},
		{Channel: honest.Channel, Nick: honest.Nick, Text: "plain"},
		{Channel: foreign.Channel, Nick: honest.Nick, Text: honest.Text},
		foreign,
	} {
		if _, err := bob.Open(m); !errors.Is(err, ErrNotOurs) {
			t.Errorf("%d: %v", i, err)
		}
	}
	dm := seal(t, alice, "Bob", "", "x")
	dm.Nick = "0OIl" // not base58: nobody's mark
	if got, err := bob.Open(dm); err != nil || got.Mine {
		t.Errorf("direct message without a mark: %t, %v", got.Mine, err)
	}
}

// TestDecryptOrder: channels before contacts, each by name (T10), whatever the order
// of the configuration.
func TestDecryptOrder(t *testing.T) {
	a := mustSecret(t, aliceSecret)
	// The channel's key and the contact's key are one: both can open it.
	for range 50 {
		k := keyring(t,
			[]ChannelKey{{"#zz", a}, {"#mm", a}, {"#aa", a}},
			[]ContactKey{{"me", a.Public(), a}})
		if got, err := k.Open(seal(t, k, "#zz", "n", "t")); err != nil || got.Kind != Channel || got.Name != "#aa" {
			t.Fatalf("opened as %q, %v", got.Name, err)
		}
	}
}

// TestSealFailsClosed proves DS-79 and T22: a record is never sealed in another way
// than was fixed when it was accepted.
func TestSealFailsClosed(t *testing.T) {
	a, b, c := box.GenerateSecret(), box.GenerateSecret(), box.GenerateSecret()
	before := keyring(t, []ChannelKey{{"#secret", c}}, []ContactKey{{"Bob", b.Public(), a}})
	intent := func(name string) Sealed {
		kind, spelling, print, _ := before.Lookup(name)
		return Sealed{kind, spelling, print}
	}
	for _, c := range []struct {
		what  string
		to    Sealed
		after *Keyring
	}{
		{"channel removed", intent("#secret"), keyring(t, nil, nil)},
		{"channel's key changed", intent("#secret"), keyring(t, []ChannelKey{{"#secret", box.GenerateSecret()}}, nil)},
		{"contact removed", intent("Bob"), keyring(t, nil, nil)},
		{"contact's key changed", intent("Bob"), keyring(t, nil, []ContactKey{{"Bob", c.Public(), a}})},
		{"our key changed", intent("Bob"), keyring(t, nil, []ContactKey{{"Bob", b.Public(), c}})},
		{"public became private", intent("#dev"), keyring(t, []ChannelKey{{"#DEV", c}}, nil)},
		{"zero value", Sealed{}, before},
	} {
		if m, err := c.after.Seal(c.to, "alice", "canary"); !errors.Is(err, ErrNoKey) || m != (Message{}) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if _, err := before.Seal(intent("#secret"), "alice", "x"); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	// The key is the same one, and no name of a private conversation is on the wire (decision 0233).
	respelt := keyring(t, []ChannelKey{{"#Secret", c}}, []ContactKey{{"BOB", b.Public(), a}})
	for _, name := range []string{"#secret", "Bob"} {
		m, err := respelt.Seal(intent(name), "alice", "x")
		if err != nil {
			t.Errorf("respelt: %v", err)
		}
		if o, err := before.Open(m); err != nil || o.Name != name || o.Text != "x" {
			t.Errorf("respelt: %+v, %v", o, err)
		}
	}
}

func TestKeyringRefusesBadEntries(t *testing.T) {
	a := box.GenerateSecret()
	for what, in := range map[string]struct {
		channels []ChannelKey
		contacts []ContactKey
	}{
		"channel without #":  {[]ChannelKey{{"x", a}}, nil},
		"same after folding": {[]ChannelKey{{"#x", a}, {"#X", a}}, nil},
		"label with a space": {nil, []ContactKey{{"a b", a.Public(), a}}},
		"label twice":        {nil, []ContactKey{{"a", a.Public(), a}, {"A", a.Public(), a}}},
		"zero public key":    {nil, []ContactKey{{"a", box.PublicKey{}, a}}},
	} {
		if _, err := NewKeyring(in.channels, in.contacts); !errors.Is(err, ErrKeys) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestReplays proves T24: the text's nonce is good for one event, within a bound.
func TestReplays(t *testing.T) {
	var r Replays
	nonce := func(i int) (n box.Nonce) { copy(n[:], fmt.Sprintf("%024d", i)); return n }
	one, two := [32]byte{1}, [32]byte{2}
	for range 2 {
		if !r.First(nonce(0), one) {
			t.Error("the first event is a replay of itself")
		}
	}
	if r.First(nonce(0), two) {
		t.Error("another event with the same nonce passes")
	}
	for i := range MaxReplays - 1 {
		r.First(nonce(i+1), one)
	}
	if r.Len() != MaxReplays || r.First(nonce(0), two) {
		t.Errorf("%d nonces remembered at the bound", r.Len())
	}
	r.First(nonce(MaxReplays), one) // one past it: the oldest goes
	if r.Len() != MaxReplays || !r.First(nonce(0), two) || r.First(nonce(MaxReplays), two) {
		t.Errorf("%d nonces remembered past the bound", r.Len())
	}
}

// TestReplayOfSealedTextIsSeen: an outsider's copy of a sealed message carries the
// same nonce, however its fields are mixed.
func TestReplayOfSealedTextIsSeen(t *testing.T) {
	alice, bob := pair(t)
	m1, m2 := seal(t, alice, "#secret", "alice", "one"), seal(t, alice, "#secret", "alice", "two")
	var r Replays
	for i, c := range []struct {
		m     Message
		first bool
	}{
		{m1, true},
		{m2, true},
		{m1, false},
		{Message{Channel: m2.Channel, Nick: m2.Nick, Text: m1.Text}, false},
	} {
		o, err := bob.Open(c.m)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.First(o.Nonce, [32]byte{byte(i)}); got != c.first {
			t.Errorf("message %d: first %t", i, got)
		}
	}
}

// FuzzOpenMessage: no content makes Open panic or claim a private conversation
// without its key.
func FuzzOpenMessage(f *testing.F) {
	a, b := mustSecret(f, aliceSecret), mustSecret(f, bobSecret)
	k := keyring(f, []ChannelKey{{"#secret", a}}, []ContactKey{{"Bob", b.Public(), a}})
	for _, m := range []Message{
		seal(f, k, "#secret", "alice", "x"), seal(f, k, "bob", "", "y"),
		{Channel: "#dev", Nick: "x", Text: "y"},
		{Channel: "#secret", Nick: "x", Text: "y"},
		{Channel: "Bob"},
	} {
		f.Add(m.Channel, m.Nick, m.Text)
	}
	f.Fuzz(func(t *testing.T, channel, nick, text string) {
		o, err := k.Open(Message{Channel: channel, Nick: nick, Text: text})
		if err != nil {
			if o != (Opened{}) {
				t.Fatal("failed open returned something")
			}
			return
		}
		if o.Kind == Public && (!ValidChannel(o.Name) || k.private[Fold(o.Name)] != 0 || o.Mine) {
			t.Fatalf("opened as public %q", o.Name)
		}
		if o.Kind != Public && o.Nonce == (box.Nonce{}) && channel == o.Name {
			t.Fatalf("plain text opened as %q", o.Name)
		}
	})
}

// TestSealAs (DS-74, decision 0195): the generations of a direct message differ, and whoever can open
// them finds the same id; a channel's hold none.
func TestSealAs(t *testing.T) {
	alice, bob := pair(t)
	id := [16]byte{7}
	to := func(name string) Sealed {
		kind, spelling, print, _ := alice.Lookup(name)
		return Sealed{kind, spelling, print}
	}
	nonces := map[box.Nonce]bool{}
	for range 3 {
		m, err := alice.SealAs(id, to("bob"), "", "text")
		if err != nil {
			t.Fatal(err)
		}
		got, err := bob.Open(m)
		if err != nil || got.ID != id || got.Text != "text" || got.Mine || nonces[got.Nonce] {
			t.Errorf("at Bob: %x, mine %t, %v", got.ID, got.Mine, err)
		}
		nonces[got.Nonce] = true
		if got, err := alice.Open(m); err != nil || got.ID != id || !got.Mine {
			t.Errorf("at Alice: %x, mine %t, %v", got.ID, got.Mine, err)
		}
	}
	m, err := alice.SealAs(id, to("#secret"), "alice", "text")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := bob.Open(m); err != nil || got.ID == id {
		t.Errorf("a channel's message has an id, %v", err)
	}
	one, err := bob.Open(seal(t, alice, "bob", "", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if two, err := bob.Open(seal(t, alice, "bob", "", "x")); err != nil || one.ID == two.ID {
		t.Error("messages without ids are taken for one", err)
	}
}
