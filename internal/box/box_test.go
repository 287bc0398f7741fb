package box

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mr-tron/base58"

	"hearsay/spec"
)

// vectors reads spec/vectors/chat-box.txt.
func vectors(t testing.TB) []map[string]string {
	t.Helper()
	data, err := spec.Vectors.ReadFile("vectors/chat-box.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]string
	var v map[string]string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		switch name, value, _ := strings.Cut(line, " "); {
		case line == "":
			v = nil
		case name == "#":
		default:
			if v == nil {
				v = map[string]string{}
				all = append(all, v)
			}
			v[name] = value
		}
	}
	if len(all) < 8 {
		t.Fatalf("only %d vectors", len(all))
	}
	return all
}

// bytesOf returns v[name] (hex) or v[name+"58"] (base58).
func bytesOf(t testing.TB, v map[string]string, name string) []byte {
	t.Helper()
	if text, ok := v[name+"58"]; ok {
		b, err := base58.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	b, err := hex.DecodeString(v[name])
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestVectors holds the construction against the published and derived vectors:
// tag first, keystream offset 32, MAC over the ciphertext only (facts 2.2, T7).
func TestVectors(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v["case"], func(t *testing.T) {
			secret := SecretKey{[32]byte(bytesOf(t, v, "secret"))}
			if want, ok := v["public58"]; ok {
				if got := secret.Public().Base58(); got != want {
					t.Errorf("public key %s, want %s", got, want)
				}
			}
			if v["nonce"] == "" {
				return // a key pair only
			}
			b, err := New(secret, PublicKey{[32]byte(bytesOf(t, v, "peer"))})
			if err != nil {
				t.Fatal(err)
			}
			if want := bytesOf(t, v, "k"); len(want) > 0 && !bytes.Equal(b.k[:], want) {
				t.Errorf("K %x, want %x", b.k, want)
			}
			sealed, text := bytesOf(t, v, "sealed"), bytesOf(t, v, "text")
			nonce := Nonce(bytesOf(t, v, "nonce"))
			if got := b.seal(nonce, text); !bytes.Equal(got, sealed) {
				t.Errorf("sealed %x\nwant   %x", got, sealed)
			}
			open := b
			if other := bytesOf(t, v, "othersecret"); len(other) > 0 {
				if open, err = New(SecretKey{[32]byte(other)}, PublicKey{[32]byte(bytesOf(t, v, "otherpeer"))}); err != nil {
					t.Fatal(err)
				}
				if open.Fingerprint() != b.Fingerprint() {
					t.Error("the two sides have different fingerprints")
				}
			}
			got, gotNonce, err := open.Open(sealed)
			if err != nil || !bytes.Equal(got, text) || gotNonce != nonce {
				t.Errorf("opened %x with nonce %x, %v", got, gotNonce, err)
			}
			if want, ok := v["sealed58"]; ok {
				got, _, err := open.OpenText(want)
				if err != nil || !bytes.Equal(got, text) {
					t.Errorf("OpenText: %x, %v", got, err)
				}
			}
		})
	}
}

func testBox(t testing.TB) *Box {
	t.Helper()
	b, err := NewShared(GenerateSecret())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestOpenRefusesEveryAlteredByte flips each bit of each byte: nonce, tag and text.
func TestOpenRefusesEveryAlteredByte(t *testing.T) {
	b := testBox(t)
	sealed := b.Seal([]byte("some text"))
	for i := range sealed {
		for bit := range 8 {
			bad := bytes.Clone(sealed)
			bad[i] ^= 1 << bit
			if text, _, err := b.Open(bad); !errors.Is(err, ErrOpen) || text != nil {
				t.Fatalf("byte %d bit %d: opened %q, %v", i, bit, text, err)
			}
		}
	}
	for n := range len(sealed) {
		if _, _, err := b.Open(sealed[:n]); !errors.Is(err, ErrOpen) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	if _, _, err := testBox(t).Open(sealed); !errors.Is(err, ErrOpen) {
		t.Errorf("another key: %v", err)
	}
}

func TestSealUsesFreshNonces(t *testing.T) {
	b := testBox(t)
	seen := map[Nonce]bool{}
	for range 1000 {
		_, nonce, err := b.Open(b.Seal(nil))
		if err != nil || seen[nonce] {
			t.Fatalf("nonce %x again, %v", nonce, err)
		}
		seen[nonce] = true
	}
}

// TestZeroSharedSecretIsRefused gives small-order points (facts 2.2).
func TestZeroSharedSecretIsRefused(t *testing.T) {
	for _, public := range []string{
		strings.Repeat("00", 32),
		"01" + strings.Repeat("00", 31),
		"e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
	} {
		b, err := hex.DecodeString(public)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(GenerateSecret(), PublicKey{[32]byte(b)}); !errors.Is(err, ErrBadKey) {
			t.Errorf("%s: %v", public, err)
		}
	}
}

func TestParseKey(t *testing.T) {
	k := GenerateSecret()
	back, err := ParseSecret(k.Base58())
	if err != nil || back != k {
		t.Fatalf("round trip: %v", err)
	}
	public, err := ParsePublic(k.Public().Base58())
	if err != nil || public != k.Public() {
		t.Fatalf("round trip: %v", err)
	}
	ones := strings.Repeat("1", 32) // 32 zero bytes
	if k, err := ParseSecret(ones); err != nil || !k.IsZero() {
		t.Errorf("zero key: %v", err)
	}
	for _, bad := range []string{
		"", "0", "l", ones + "1", ones[1:], k.Base58() + "2", strings.Repeat("z", 45),
		strings.Repeat("1", 1<<20), " " + k.Base58(), "\x00",
	} {
		if _, err := ParseSecret(bad); !errors.Is(err, ErrKeyText) {
			t.Errorf("%.50q: %v", bad, err)
		} else if bad != "" && len(bad) > 2 && strings.Contains(err.Error(), bad) {
			t.Errorf("error repeats the key: %v", err)
		}
	}
}

func TestFingerprint(t *testing.T) {
	k := GenerateSecret()
	a, _ := NewShared(k)
	b, _ := NewShared(k)
	if a.Fingerprint() != b.Fingerprint() {
		t.Error("same key, other fingerprint")
	}
	if a.Fingerprint() == testBox(t).Fingerprint() {
		t.Error("other key, same fingerprint")
	}
	if bytes.Contains(a.k[:], a.fingerprint[:4]) {
		t.Error("fingerprint is a part of the key")
	}
}

// TestKeysNeverPrint formats every key type, alone and inside a struct, with every
// verb and encoder (style 3.8), and looks for the key in the output.
func TestKeysNeverPrint(t *testing.T) {
	k := GenerateSecret()
	b, _ := NewShared(k)
	type outer struct {
		Secret SecretKey
		Public PublicKey
		Box    *Box
	}
	o := outer{k, k.Public(), b}
	var out strings.Builder
	for _, v := range []any{o, &o, k, &k, k.Public(), b, []SecretKey{k}, map[string]PublicKey{"x": k.Public()}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "%X"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		j, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(j)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "v", v)
	}
	for name, key := range map[string][]byte{"secret": k.b[:], "public": o.Public.b[:], "K": b.k[:]} {
		for _, form := range []string{
			hex.EncodeToString(key), strings.ToUpper(hex.EncodeToString(key)), base58.Encode(key), string(key),
			strings.Trim(fmt.Sprintf("%v", key[:8]), "[]"), strings.Trim(fmt.Sprintf("%#v", key[:8]), "[]byte{}"),
		} {
			if strings.Contains(out.String(), form) {
				t.Errorf("%s found in output as %q", name, form)
			}
		}
	}
	if !strings.Contains(out.String(), secretWord) {
		t.Error("the test printed nothing")
	}
}

func FuzzOpen(f *testing.F) {
	for _, v := range vectors(f) {
		if v["nonce"] != "" {
			f.Add(bytesOf(f, v, "sealed"))
		}
	}
	secret, err := ParseSecret("4wBqpZM9xaSheZzJSMawUKKwhdpChKbZ5eu5ky4Vigw")
	if err != nil {
		f.Fatal(err)
	}
	b, err := NewShared(secret)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, sealed []byte) {
		text, nonce, err := b.Open(sealed)
		if err != nil {
			if text != nil || !errors.Is(err, ErrOpen) {
				t.Fatalf("failed with %q, %v", text, err)
			}
		} else if got := b.seal(nonce, text); !bytes.Equal(got, sealed) { // no second form of the same text
			t.Fatalf("%x opens, but is not what sealing gives: %x", sealed, got)
		}
		viaText, _, err2 := b.OpenText(base58.Encode(sealed))
		if (err == nil) != (err2 == nil) || !bytes.Equal(text, viaText) {
			t.Fatalf("bytes: %v, base58: %v", err, err2)
		}
		round, _, err := b.OpenText(b.SealText(sealed))
		if err != nil || !bytes.Equal(round, sealed) {
			t.Fatalf("round trip: %x, %v", round, err)
		}
	})
}
