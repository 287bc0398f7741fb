package kv

import (
	"bytes"
	"testing"
)

// TestRecord (ST-04): a record gives back its body; cut short or with any bit flipped it
// gives nothing.
func TestRecord(t *testing.T) {
	for _, body := range [][]byte{nil, {0}, []byte("a body of some length")} {
		v := SealRecord(body)
		if got, err := OpenRecord(v); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%x: %x, %v", v, got, err)
		}
		for i := range v {
			if _, err := OpenRecord(v[:i]); err == nil {
				t.Errorf("%x cut to %d bytes was taken", v, i)
			}
			for bit := range 8 {
				bad := bytes.Clone(v)
				bad[i] ^= 1 << bit
				if got, err := OpenRecord(bad); err == nil || got != nil {
					t.Errorf("%x was taken for %x", bad, v)
				}
			}
		}
	}
}
