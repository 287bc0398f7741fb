package readstate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hearsay/internal/arrival"
	"hearsay/internal/kv"
)

type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func open(t testing.TB, store kv.Store, c *clock) *Store {
	t.Helper()
	s, err := Open(store, c.now)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func advance(t testing.TB, s *Store, device, conv string, to arrival.Seq) {
	t.Helper()
	if err := s.Advance(device, map[string]arrival.Seq{conv: to}); err != nil {
		t.Fatal(err)
	}
}

// Cursors grow, are of one device and conversation each, and are there after a restart.
func TestCursors(t *testing.T) {
	store, c := kv.OpenMemory(), &clock{time.UnixMilli(1e12)}
	s := open(t, store, c)
	if s.Cursors("me@phone") != nil {
		t.Error("known")
	}
	advance(t, s, "me@phone", "#a", 5)
	advance(t, s, "me@phone", "#b", 7)
	advance(t, s, "me@phone", "#a", 4)
	advance(t, s, "me@desk", "#a", 9)
	for range 2 {
		if got := fmt.Sprint(s.Cursors("me@phone"), s.Cursors("me@desk"), s.Cursors("me")); got != "map[#a:5 #b:7] map[#a:9] map[]" {
			t.Error(got)
		}
		s = open(t, store, c)
	}
	for _, name := range []string{"", strings.Repeat("x", maxName+1)} {
		if err := s.Advance(name, nil); !errors.Is(err, ErrName) {
			t.Error(err)
		}
		if err := s.Advance("d", map[string]arrival.Seq{name: 1}); !errors.Is(err, ErrName) {
			t.Error(err)
		}
		if _, err := s.SetMarker(name, c.at); !errors.Is(err, ErrName) {
			t.Error(err)
		}
	}
}

// Devices, their conversations and markers are bounded, also on the disk; a device is forgotten
// after MaxAge.
func TestBounds(t *testing.T) {
	store, c := kv.OpenMemory(), &clock{time.UnixMilli(1e12)}
	s := open(t, store, c)
	for i := range MaxDevices + 1 {
		c.at = c.at.Add(time.Minute)
		advance(t, s, fmt.Sprint("d", i), "#a", 1)
		if i == MaxDevices-1 {
			if s.Cursors("d0") == nil {
				t.Error("d0 went too early")
			}
		}
	}
	for i := range MaxConversations + 1 {
		advance(t, s, "d1", fmt.Sprint("#", i), arrival.Seq(i+2))
	}
	for i := range MaxMarkers + 1 {
		c.at = c.at.Add(time.Second)
		if _, err := s.SetMarker(fmt.Sprint("#", i), c.at); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if s.Cursors("d0") != nil || s.Cursors("d2") == nil || len(s.devices) != MaxDevices {
			t.Error("d0 is there, or d2 is not")
		}
		if got := s.Cursors("d1"); len(got) != MaxConversations || got["#a"] != 0 || got["#0"] != 0 || got["#1"] != 3 {
			t.Errorf("%d conversations", len(got))
		}
		if !s.Marker("#0").IsZero() || s.Marker("#1").IsZero() || len(s.markers) != MaxMarkers {
			t.Error("markers")
		}
		s = open(t, store, c)
	}
	c.at = time.UnixMilli(s.devices["d2"].used).Add(MaxAge)
	if s.Cursors("d2") == nil {
		t.Error("too early")
	}
	c.at = c.at.Add(time.Millisecond)
	if s.Cursors("d2") != nil {
		t.Error("still there")
	}
	advance(t, s, "d2", "#b", 1)
	if got := s.Cursors("d2"); len(got) != 1 {
		t.Error(got)
	}
}

// What a device wants survives its cursors' changes and a restart, and goes with the device.
func TestQuiet(t *testing.T) {
	store, c := kv.OpenMemory(), &clock{time.UnixMilli(1e12)}
	s := open(t, store, c)
	advance(t, s, "me@phone", "#a", 5)
	if err := s.SetQuiet("me@phone", true); err != nil || s.Quiet("me@desk") || !errors.Is(s.SetQuiet("", true), ErrName) {
		t.Error(err)
	}
	advance(t, s, "me@phone", "#a", 6)
	s = open(t, store, c)
	if !s.Quiet("me@phone") || s.Cursors("me@phone")["#a"] != 6 {
		t.Error("forgotten")
	}
	if err := s.SetQuiet("me@phone", false); err != nil || s.Quiet("me@phone") || open(t, store, c).Quiet("me@phone") {
		t.Error(err)
	}
	if err := s.SetQuiet("me@phone", true); err != nil {
		t.Fatal(err)
	}
	c.at = c.at.Add(MaxAge + time.Millisecond)
	if s.Quiet("me@phone") {
		t.Error("not forgotten")
	}
}

// A cursor beyond the end of the order of arrival goes, also from the disk; one at its end stays.
func TestTruncate(t *testing.T) {
	store, c := kv.OpenMemory(), &clock{time.UnixMilli(1e12)}
	s := open(t, store, c)
	advance(t, s, "d", "#a", 5)
	advance(t, s, "d", "#b", 6)
	for range 2 {
		if err := s.Truncate(5); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(s.Cursors("d")); got != "map[#a:5]" {
			t.Error(got)
		}
		s = open(t, store, c)
	}
}

// OpenMemory needs nothing.
func TestOpenMemory(t *testing.T) {
	s := OpenMemory(nil)
	advance(t, s, "d", "#a", 5)
	if got := s.Cursors("d")["#a"]; got != 5 {
		t.Error(got)
	}
}

// A marker grows, and says where it is.
func TestMarkers(t *testing.T) {
	store, c := kv.OpenMemory(), &clock{time.UnixMilli(1e12)}
	s := open(t, store, c)
	for _, x := range []struct{ set, is int64 }{{10, 10}, {5, 10}, {11, 11}} {
		at, err := s.SetMarker("#a", time.UnixMilli(x.set))
		if err != nil || at.UnixMilli() != x.is || !s.Marker("#a").Equal(at) {
			t.Error(at, err)
		}
	}
	if got := open(t, store, c).Marker("#a").UnixMilli(); got != 11 {
		t.Error(got)
	}
}

// ST-04: what does not read back is an error.
func TestDamage(t *testing.T) {
	for _, k := range []string{"rd\x00", "rm\x00\x00", "rd", "rm\x00"} {
		store := kv.OpenMemory()
		if err := store.Update(opCursor, func(tx kv.Txn) error { return tx.Set([]byte(k), []byte("x")) }); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(store, nil); !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%q: %v", k, err)
		}
	}
}

// FuzzRows: no panic, and what decodes encodes to the same bytes.
func FuzzRows(f *testing.F) {
	d := device{name: "me@phone", used: 1, cursors: map[string]arrival.Seq{"#a": 1}}
	m := marker{target: "#a", at: 1, set: 2}
	body := func(v []byte) []byte { return v[1 : len(v)-4] }
	f.Add(body(d.encode()))
	f.Add(body(m.encode()))
	d.quiet = true
	f.Add(body(d.encode()))
	f.Fuzz(func(t *testing.T, body []byte) {
		v := seal(body)
		d := device{cursors: map[string]arrival.Seq{}}
		if d.decode(v) == nil {
			again := device{cursors: map[string]arrival.Seq{}}
			if err := again.decode(d.encode()); err != nil || fmt.Sprint(again) != fmt.Sprint(d) {
				t.Error(err)
			}
		}
		var m marker
		if m.decode(v) == nil && string(m.encode()) != string(v) {
			t.Error("malleable")
		}
	})
}
