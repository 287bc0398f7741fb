package kv_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"hearsay/internal/kv"
)

func TestFormatRecord(t *testing.T) { // ST-01
	good := kv.FormatOf("graph", 3, 1, 8<<20, 2<<20, 1<<20)
	f, err := kv.DecodeFormat(good)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(kv.EncodeFormat(f), good) {
		t.Fatal("not canonical")
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":         {nil, kv.ErrCorrupt},
		"garbage":       {[]byte("garbage\n"), kv.ErrCorrupt},
		"no checksum":   {good[:bytes.Index(good, []byte("sha256"))], kv.ErrCorrupt},
		"cut":           {good[:len(good)-1], kv.ErrCorrupt},
		"trailing":      {append(bytes.Clone(good), '\n'), kv.ErrCorrupt},
		"no generation": {kv.FormatOf("graph", 3, 0, 8<<20, 2<<20, 1<<20), kv.ErrCorrupt},
		"sizes":         {kv.FormatOf("graph", 3, 1, 1, 2<<20, 1<<20), kv.ErrCorrupt},
		"kind":          {kv.FormatOf("gr aph", 3, 1, 8<<20, 2<<20, 1<<20), kv.ErrCorrupt},
		"newer record":  {newerRecord(good), kv.ErrSchema},
	} {
		if _, err := kv.DecodeFormat(c.b); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for i := range good {
		b := bytes.Clone(good)
		b[i] ^= 0x20
		if _, err := kv.DecodeFormat(b); err == nil {
			t.Fatalf("byte %d flipped: accepted", i)
		}
	}
}

func FuzzDecodeFormat(f *testing.F) { // ST-01, ST-04
	good := kv.FormatOf("graph", 3, 1, 8<<20, 2<<20, 1<<20)
	f.Add(good)
	f.Add(newerRecord(good))
	f.Add([]byte(strings.Repeat("hearsay-store 1\n", 20)))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := kv.DecodeFormat(b)
		if err != nil {
			if !errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrSchema) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if !bytes.Equal(kv.EncodeFormat(r), b) {
			t.Fatalf("two encodings of one record: %q", b)
		}
	})
}

func FuzzDecodeWitness(f *testing.F) { // ST-04
	f.Add(kv.EncodeWitness(0))
	f.Add(kv.EncodeWitness(1 << 40))
	f.Fuzz(func(t *testing.T, b []byte) {
		if seq, ok := kv.DecodeWitness(b); ok && !bytes.Equal(kv.EncodeWitness(seq), b[:16]) {
			t.Fatalf("two encodings of %d", seq)
		}
	})
}

// newerRecord returns a valid record of version 2.
func newerRecord(b []byte) []byte {
	body := strings.Replace(string(b[:bytes.LastIndex(b, []byte("sha256 "))]), "hearsay-store 1\n", "hearsay-store 2\nmore 1\n", 1)
	sum := sha256.Sum256([]byte(body))
	return []byte(body + "sha256 " + hex.EncodeToString(sum[:]) + "\n")
}
