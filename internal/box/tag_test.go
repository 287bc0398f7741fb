package box

import (
	"bytes"
	"testing"
)

// TestTag: both sides of a pair read the tag, nobody else does; the text opens as ever; and
// nonces of one tag have nothing in common (DS-74, decision 0195).
func TestTag(t *testing.T) {
	alice, bob, eve := GenerateSecret(), GenerateSecret(), GenerateSecret()
	ab, err := New(alice, bob.Public())
	if err != nil {
		t.Fatal(err)
	}
	ba, err := New(bob, alice.Public())
	if err != nil {
		t.Fatal(err)
	}
	other, err := New(eve, bob.Public())
	if err != nil {
		t.Fatal(err)
	}
	tag := Tag{1, 2, 3}
	seen := map[string]bool{}
	for range 100 {
		sealed := ab.SealTagged([]byte("text"), tag)
		text, nonce, err := ba.Open(sealed)
		if err != nil || string(text) != "text" {
			t.Fatal(err)
		}
		if ba.TagOf(nonce) != tag || ab.TagOf(nonce) != tag {
			t.Fatal("a side of the pair does not read the tag")
		}
		if other.TagOf(nonce) == tag {
			t.Fatal("another key reads the tag")
		}
		for _, part := range [][]byte{nonce[:tagRandom], nonce[tagRandom:]} {
			if seen[string(part)] || bytes.Contains(part, tag[:3]) {
				t.Fatalf("nonce %x shows its tag", nonce)
			}
			seen[string(part)] = true
		}
	}
	_, nonce, err := ba.Open(ab.Seal(nil))
	if err != nil || ba.TagOf(nonce) == tag {
		t.Error("a nonce without a tag carries one", err)
	}
}
