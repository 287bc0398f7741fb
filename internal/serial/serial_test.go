package serial

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"testing"
)

// The values of p2p facts, sections 1.2 and 1.3.
func TestVarIntVectors(t *testing.T) {
	for _, c := range []struct {
		v   uint64
		hex string
	}{
		{0, "00"},
		{1, "01"},
		{0xfc, "fc"},
		{0xfd, "fdfd00"},
		{0xff, "fdff00"},
		{0x100, "fd0001"},
		{0xffff, "fdffff"},
		{0x10000, "fe00000100"},
		{0xffffffff, "feffffffff"},
		{0x100000000, "ff0000000001000000"},
		{math.MaxUint64, "ffffffffffffffffff"},
	} {
		got := AppendVarInt(nil, c.v)
		if hex.EncodeToString(got) != c.hex {
			t.Errorf("AppendVarInt(%d) = %x, want %s", c.v, got, c.hex)
		}
		if VarIntSize(c.v) != len(got) {
			t.Errorf("VarIntSize(%d) = %d, want %d", c.v, VarIntSize(c.v), len(got))
		}
		r := NewReader(got)
		if v := r.VarInt(); v != c.v || r.Done() != nil {
			t.Errorf("VarInt(%s) = %d, %v", c.hex, v, r.Done())
		}
		for i := range got {
			r := NewReader(got[:i])
			if r.VarInt(); !errors.Is(r.Err(), ErrShort) {
				t.Errorf("VarInt(%x): err %v, want ErrShort", got[:i], r.Err())
			}
		}
	}
}

func TestVarIntNonMinimal(t *testing.T) {
	for _, s := range []string{"fdfc00", "fd0000", "feffff0000", "fe00000000", "ffffffffff00000000", "ff0000000000000000"} {
		b, _ := hex.DecodeString(s)
		r := NewReader(b)
		if v := r.VarInt(); v != 0 || !errors.Is(r.Err(), ErrNonMinimal) {
			t.Errorf("VarInt(%s) = %d, %v, want ErrNonMinimal", s, v, r.Err())
		}
	}
}

func TestScalars(t *testing.T) {
	var b []byte
	b = AppendUint8(b, 7)
	b = AppendUint16(b, 5000)
	b = AppendUint32(b, 0x01020304)
	b = AppendUint64(b, 0x0102030405060708)
	b = AppendBool(b, true)
	b = AppendBool(b, false)
	b = AppendString(b, "Andrew")
	b = AppendBytes(b, []byte{1, 2, 3})
	const want = "07" + "8813" + "04030201" + "0807060504030201" + "01" + "00" + "06416e64726577" + "03010203"
	if got := hex.EncodeToString(b); got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
	r := NewReader(b)
	if r.Uint8() != 7 || r.Uint16() != 5000 || r.Uint32() != 0x01020304 || r.Uint64() != 0x0102030405060708 ||
		!r.Bool() || r.Bool() || r.String(6) != "Andrew" || !bytes.Equal(r.Bytes(3), []byte{1, 2, 3}) {
		t.Error("values do not come back")
	}
	if err := r.Done(); err != nil {
		t.Error(err)
	}
}

func TestBoolAnyNonZeroIsTrue(t *testing.T) {
	if !NewReader([]byte{0x3a}).Bool() {
		t.Error("0x3a must read as true")
	}
}

func TestLimits(t *testing.T) {
	b := AppendString(nil, "abcd")
	r := NewReader(b)
	if r.String(3); !errors.Is(r.Err(), ErrLimit) {
		t.Errorf("one past the limit: %v", r.Err())
	}
	r = NewReader(b)
	if s := r.String(4); s != "abcd" || r.Done() != nil {
		t.Errorf("at the limit: %q, %v", s, r.Done())
	}
	r = NewReader([]byte{2, 0xc3, 0x28})
	if r.String(10); !errors.Is(r.Err(), ErrUTF8) {
		t.Errorf("bad UTF-8: %v", r.Err())
	}
	// A count of 2^32-1 with 3 bytes behind it must not be believed.
	r = NewReader([]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 1, 2, 3})
	if n := r.Count(math.MaxInt, 1); n != 0 || !errors.Is(r.Err(), ErrShort) {
		t.Errorf("absurd count: %d, %v", n, r.Err())
	}
	r = NewReader([]byte{3, 1, 2, 3})
	if n := r.Count(2, 1); n != 0 || !errors.Is(r.Err(), ErrLimit) {
		t.Errorf("count above the limit: %d, %v", n, r.Err())
	}
	r = NewReader([]byte{3, 1, 2, 3})
	if n := r.Count(3, 1); n != 3 || r.Err() != nil {
		t.Errorf("count at the limit: %d, %v", n, r.Err())
	}
}

func TestErrorSticks(t *testing.T) {
	r := NewReader([]byte{1})
	r.Uint16()
	first := r.Err()
	r.Uint8()
	r.Fail(errors.New("later"))
	if !errors.Is(first, ErrShort) || !errors.Is(r.Done(), ErrShort) {
		t.Errorf("first error must stick: %v, %v", first, r.Done())
	}
	r = NewReader([]byte{1, 2})
	r.Uint8()
	if !errors.Is(r.Done(), ErrTrailing) {
		t.Errorf("trailing byte: %v", r.Done())
	}
}

// FuzzVarInt: what decodes encodes to the bytes it came from.
func FuzzVarInt(f *testing.F) {
	for _, s := range []string{"00", "fc", "fdfd00", "fe00000100", "ff0000000001000000", "fdfc00", "ff"} {
		b, _ := hex.DecodeString(s)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		v := r.VarInt()
		if r.Err() != nil {
			return
		}
		if got := AppendVarInt(nil, v); !bytes.Equal(got, b[:r.Offset()]) {
			t.Fatalf("VarInt(%x) = %d, which encodes as %x", b, v, got)
		}
	})
}

// FuzzString: as FuzzVarInt, for strings, under a limit.
func FuzzString(f *testing.F) {
	f.Add([]byte("\x06Andrew"))
	f.Add([]byte{2, 0xc3, 0x28})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := NewReader(b)
		s := r.String(64)
		if r.Err() != nil {
			if s != "" {
				t.Fatal("a failed read returned data")
			}
			return
		}
		if got := AppendString(nil, s); !bytes.Equal(got, b[:r.Offset()]) {
			t.Fatalf("String(%x) = %q, which encodes as %x", b, s, got)
		}
	})
}
