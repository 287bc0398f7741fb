package endpoint

import (
	"bytes"
	"errors"
	"math/bits"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hearsay/internal/box"
	"hearsay/mailbox"
)

// pair is alice's and bob's view of their box.
func pair(t testing.TB) (alice, bob *box.Box, alicePub, bobPub box.PublicKey) {
	a, b := box.GenerateSecret(), box.GenerateSecret()
	alice, err := box.New(a, b.Public())
	if err != nil {
		t.Fatal(err)
	}
	if bob, err = box.New(b, a.Public()); err != nil {
		t.Fatal(err)
	}
	return alice, bob, a.Public(), b.Public()
}

var created = time.UnixMilli(1_800_000_000_123)

func records() map[string]Record {
	return map[string]Record{
		"message":       {Created: created, Message: &Message{MessageID{1}, 1_800_000_000_000, []byte("payload")}},
		"empty message": {Created: created, Message: &Message{MessageID{1}, 0, []byte{}}},
		"large message": {Created: created, Message: &Message{MessageID{1}, 1, bytes.Repeat([]byte{7}, MaxContent)}},
		"alias":         {Created: created, Alias: &Alias{MessageID{2}, [32]byte{3}}},
		"receipt":       {Created: created, Receipt: []MessageID{{4}, {5}}},
		"large receipt": {Created: created, Receipt: make([]MessageID, MaxReceiptIDs)},
	}
}

// TestRecords: what one side seals the other opens; sizes are classes that say
// nothing of what is inside.
func TestRecords(t *testing.T) {
	alice, bob, _, _ := pair(t)
	token := mailbox.Token{9}
	for name, want := range records() {
		b, err := Seal(alice, token, want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(b) < minEnvelope || bits.OnesCount(uint(len(b))) != 1 || len(b) > mailbox.MaxEnvelope {
			t.Errorf("%s: envelope of %d bytes", name, len(b))
		}
		env, err := mailbox.ParseEnvelope(b)
		if err != nil || env.Kind != mailbox.KindSealed || env.Token != token {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := Open(bob, env)
		if err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(want, got))
		}
	}
	for name, r := range map[string]Record{
		"nothing":       {},
		"two things":    {Alias: &Alias{}, Receipt: []MessageID{{1}}},
		"empty receipt": {Receipt: []MessageID{}},
		"long receipt":  {Receipt: make([]MessageID, MaxReceiptIDs+1)},
		"long message":  {Message: &Message{Content: make([]byte, MaxContent+1)}},
	} {
		if _, err := Seal(alice, token, r); err == nil {
			t.Errorf("%s was sealed", name)
		}
	}
}

// TestMovedBody (MB-14): a body under another token or kind, from another pair, cut
// or altered, is no record.
func TestMovedBody(t *testing.T) {
	alice, bob, _, _ := pair(t)
	_, stranger, _, _ := pair(t)
	b, err := Seal(alice, mailbox.Token{9}, records()["message"])
	if err != nil {
		t.Fatal(err)
	}
	good, _ := mailbox.ParseEnvelope(b)
	for name, c := range map[string]struct {
		box    *box.Box
		change func(*mailbox.Envelope)
	}{
		"token":   {bob, func(e *mailbox.Envelope) { e.Token[0]++ }},
		"kind":    {bob, func(e *mailbox.Envelope) { e.Kind = 2 }},
		"altered": {bob, func(e *mailbox.Envelope) { e.Body = append(bytes.Clone(e.Body[:60]), e.Body[59:]...) }},
		"cut":     {bob, func(e *mailbox.Envelope) { e.Body = e.Body[:len(e.Body)-1] }},
		"empty":   {bob, func(e *mailbox.Envelope) { e.Body = nil }},
		"pair":    {stranger, func(*mailbox.Envelope) {}},
	} {
		e := good
		c.change(&e)
		if r, err := Open(c.box, e); !errors.Is(err, ErrRecord) || !cmp.Equal(r, Record{}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Open(bob, good); err != nil {
		t.Error(err)
	}
}

// TestTokens: both sides derive the same ones, another for each week and direction;
// the list covers everything that may wait or come (MB-50).
func TestTokens(t *testing.T) {
	alice, bob, alicePub, bobPub := pair(t)
	now := time.Unix(1_800_000_000, 0)
	if TokenAt(alice, bobPub, now) != TokenAt(bob, bobPub, now) {
		t.Error("the two sides differ")
	}
	seen := map[mailbox.Token]bool{}
	for w := range 20 {
		for _, p := range []box.PublicKey{alicePub, bobPub} {
			seen[TokenAt(alice, p, now.Add(time.Duration(w)*week))] = true
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d tokens of 20 weeks and 2 directions", len(seen))
	}
	for hour := range 7 * 24 {
		now := now.Add(time.Duration(hour) * time.Hour)
		list := TokensAround(bob, bobPub, now)
		if len(list) > TokensPerContact || list[0] != TokenAt(alice, bobPub, now) {
			t.Fatalf("%d tokens, at most %d", len(list), TokensPerContact)
		}
		have := map[mailbox.Token]bool{}
		for _, tok := range list {
			have[tok] = true
		}
		for at := now.Add(-30 * 24 * time.Hour); !at.After(now.Add(60 * 24 * time.Hour)); at = at.Add(24 * time.Hour) {
			if !have[TokenAt(alice, bobPub, at)] {
				t.Fatalf("hour %d: the token of %v is not registered", hour, at)
			}
		}
	}
	if TokensPerContact != 14 || 4096/TokensPerContact != 292 {
		t.Errorf("%d tokens a contact", TokensPerContact)
	}
}

// FuzzOpen: what opens seals again to a record that opens alike; nothing panics.
func FuzzOpen(f *testing.F) {
	alice, bob, _, _ := pair(f)
	token := mailbox.Token{9}
	for name, r := range records() {
		if name == "large message" {
			continue
		}
		b, err := Seal(alice, token, r)
		if err != nil {
			f.Fatal(err)
		}
		env, _ := mailbox.ParseEnvelope(b)
		inner, _, err := bob.Open(env.Body)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(inner)
	}
	f.Fuzz(func(t *testing.T, inner []byte) {
		env := mailbox.Envelope{Kind: mailbox.KindSealed, Token: token, Body: alice.Seal(inner)}
		r, err := Open(bob, env)
		if err != nil {
			if !cmp.Equal(r, Record{}) {
				t.Fatal("a failed open returned data")
			}
			return
		}
		b, err := Seal(bob, token, r)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := mailbox.ParseEnvelope(b)
		if got, err := Open(alice, again); err != nil || !cmp.Equal(got, r) {
			t.Fatalf("%v\n%s", err, cmp.Diff(r, got))
		}
	})
}
