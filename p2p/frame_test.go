package p2p

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/internal/serial"
)

// testLookup knows "data" of at most 100000 bytes, "skip" of at most 4 and skipped up
// to 8, and "base" of at most 2.
func testLookup(command []byte) (string, frameBounds, bool) {
	switch string(command) {
	case "data":
		return "data", frameBounds{max: 100_000, over: offenceAppOversize}, true
	case "skip":
		return "skip", frameBounds{max: 4, skip: 8, over: offenceAppOversize}, true
	case "base":
		return "base", frameBounds{max: 2, over: offenceOversize}, true
	}
	return "", frameBounds{}, false
}

func newTestReader(r io.Reader) *frameReader {
	return &frameReader{
		br: bufio.NewReaderSize(r, 4096), magic: DarkIRCMagic, timeout: 30 * time.Second, lookup: testLookup,
		setDeadline: func(time.Time) error { return nil }, inFrame: func(bool) {},
		pool: newMemPool(readPool), holder: &poolHolder{evict: func() {}},
	}
}

func frame(command string, payload []byte) []byte {
	return append(appendHeader(nil, DarkIRCMagic, command, len(payload)), payload...)
}

func wantOffence(t *testing.T, name string, err error, want offence) {
	t.Helper()
	var f *wireFault
	if !errors.As(err, &f) || f.offence != want {
		t.Errorf("%s: got %v, want offence %d", name, err, want)
	}
}

func TestFrameReaderTakesFrames(t *testing.T) {
	big := bytes.Repeat([]byte{7}, 100_000)
	var stream []byte
	stream = append(stream, frame("base", []byte{1, 2})...)
	stream = append(stream, frame("data", big)...)
	stream = append(stream, frame("skip", make([]byte, 8))...)
	stream = append(stream, frame("skip", make([]byte, 4))...)
	stream = append(stream, frame("data", nil)...)
	for _, chunk := range []int{1, 7, 4096, len(stream)} {
		r := newTestReader(&chunkReader{stream, chunk})
		for i, want := range []struct {
			command string
			size    int
			skipped uint64
		}{{"base", 2, 0}, {"data", 100_000, 0}, {"skip", 0, 8}, {"skip", 4, 0}, {"data", 0, 0}} {
			command, payload, skipped, err := r.next(t.Context())
			if err != nil || command != want.command || len(payload) != want.size || skipped != want.skipped {
				t.Fatalf("frame %d: %q, %d bytes, %d skipped, %v", i, command, len(payload), skipped, err)
			}
			if i == 1 && (!bytes.Equal(payload, big) || r.pool.used == 0) {
				t.Error("the large payload differs, or was not counted")
			}
			r.done()
		}
		if r.pool.used != 0 {
			t.Errorf("%d pool bytes left", r.pool.used)
		}
		if _, _, _, err := r.next(t.Context()); !errors.Is(err, ErrDisconnected) {
			t.Errorf("at the end: %v", err)
		}
	}
}

type chunkReader struct {
	rest []byte
	n    int
}

func (c *chunkReader) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), c.n)], c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// Every bound of a frame, at it and one past it.
func TestFrameReaderBounds(t *testing.T) {
	m := string(DarkIRCMagic[:])
	for name, c := range map[string]struct {
		stream string
		want   offence
	}{
		"payload one over a base bound":   {m + "\x04base\x03", offenceOversize},
		"payload one over an own cap":     {m + "\x04data\xfe\xa1\x86\x01\x00", offenceAppOversize},
		"payload one over the skip range": {m + "\x04skip\x09", offenceAppOversize},
		"absurd payload length":           {m + "\x04data\xff\xff\xff\xff\xff\xff\xff\xff\xff", offenceAppOversize},
		"command of 255 bytes":            {m + "\xfd\xff\x00" + strings.Repeat("a", 255), offenceUnknown},
		"command of 256 bytes":            {m + "\xfd\x00\x01" + strings.Repeat("a", 256), offenceCommandLong},
		"absurd command length":           {m + "\xff\xff\xff\xff\xff\xff\xff\xff\xff", offenceCommandLong},
		"command length not minimal":      {m + "\xfd\x04\x00data\x00", offenceCommandForm},
		"command not UTF-8":               {m + "\x02\xc3\x28\x00", offenceCommandForm},
		"empty command":                   {m + "\x00\x00", offenceUnknown},
		"payload length not minimal 3":    {m + "\x04base\xfd\x02\x00ab", offenceLength},
		"payload length not minimal 5":    {m + "\x04base\xfe\x02\x00\x00\x00ab", offenceLength},
		"payload length not minimal 9":    {m + "\x04base\xff\x02\x00\x00\x00\x00\x00\x00\x00ab", offenceLength},
		"wrong magic":                     {"\xd9\xef\xb6\x7d\x04base", offenceMagic},
		"lost in the magic":               {m[:2], offenceLost},
		"lost in the command":             {m + "\x04ba", offenceLost},
		"lost before the length":          {m + "\x04base", offenceLost},
		"lost in the length":              {m + "\x04data\xfe\x01", offenceLost},
		"lost in the payload":             {m + "\x04base\x02a", offenceLost},
		"lost in a skipped payload":       {m + "\x04skip\x08abc", offenceLost},
	} {
		_, _, _, err := newTestReader(strings.NewReader(c.stream)).next(t.Context())
		wantOffence(t, name, err, c.want)
	}
}

// A peer that announces much and sends little costs little.
func TestFrameReaderMemoryFollowsBytes(t *testing.T) {
	stream := append(appendHeader(nil, DarkIRCMagic, "data", 100_000), 1, 2, 3)
	allocs := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r := newTestReader(bytes.NewReader(stream))
			if _, _, _, err := r.next(context.Background()); err == nil {
				b.Fatal("no error")
			}
			if r.pool.used != 0 {
				b.Fatal("pool bytes for 3 bytes")
			}
		}
	}).AllocedBytesPerOp()
	if allocs > payloadAllowance+8192 {
		t.Errorf("%d bytes allocated", allocs)
	}
}

// A frame has the timeout plus what frameMinRate gives its payload, to the moment.
func TestFrameDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		r := newTestReader(b)
		r.setDeadline = b.SetReadDeadline
		go a.Write(appendHeader(nil, DarkIRCMagic, "data", 10*frameMinRate))
		start := time.Now()
		_, _, _, err := r.next(t.Context())
		wantOffence(t, "stalled payload", err, offenceStall)
		if got := time.Since(start); got != 40*time.Second {
			t.Errorf("dropped after %v", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		r := newTestReader(b)
		r.setDeadline = b.SetReadDeadline
		written := make(chan struct{})
		go func() { // a byte every two seconds never ends a frame in time
			defer close(written)
			for _, c := range frame("data", make([]byte, 20)) {
				time.Sleep(2 * time.Second)
				if _, err := a.Write([]byte{c}); err != nil {
					return
				}
			}
		}()
		start := time.Now()
		_, _, _, err := r.next(t.Context())
		defer func() { <-written }()
		defer b.Close()
		wantOffence(t, "dripping frame", err, offenceStall)
		if got := time.Since(start); got < 32*time.Second || got > 33*time.Second {
			t.Errorf("dropped after %v", got)
		}
	})
}

func FuzzFrameReader(f *testing.F) {
	seeds := 0
	for _, file := range []string{"p2p-frames.txt", "p2p-hostile.txt"} {
		for _, c := range vectorCases(f, file) {
			f.Add(unhex(f, c["hex"]), uint8(seeds))
			seeds++
		}
	}
	f.Add(append(frame("data", make([]byte, 300)), frame("skip", make([]byte, 7))...), uint8(3))
	lookup := func(command []byte) (string, frameBounds, bool) {
		for _, c := range baseCommands {
			if c.Name == string(command) {
				return c.Name, frameBounds{max: uint64(c.MaxPayload), over: offenceOversize}, true
			}
		}
		return testLookup(command)
	}
	f.Fuzz(func(t *testing.T, stream []byte, chunk uint8) {
		r := newTestReader(&chunkReader{stream, int(chunk) + 1})
		r.lookup = lookup
		var again []byte
		for {
			command, payload, skipped, err := r.next(t.Context())
			r.done()
			if err != nil {
				var w *wireFault
				if !errors.As(err, &w) && !errors.Is(err, ErrDisconnected) {
					t.Fatalf("error without offence: %v", err)
				}
				break
			}
			n := len(payload) + int(skipped)
			again = appendHeader(again, DarkIRCMagic, command, n)
			again = append(again, stream[len(again):][:n]...)
			if skipped == 0 && !bytes.Equal(again[len(again)-n:], payload) {
				t.Fatal("payload differs from the stream")
			}
		}
		// Framing is canonical: what was read is the only way to write it.
		if !bytes.HasPrefix(stream, again) {
			t.Fatalf("%x reads as %x", stream, again)
		}
		if r.pool.used != 0 {
			t.Fatal("pool bytes left")
		}
	})
}

func TestHeaderSize(t *testing.T) {
	for _, n := range []int{0, 0xfc, 0xfd, 0xffff, 0x10000} {
		if got, want := headerSize("abc", n), len(appendHeader(nil, DarkIRCMagic, "abc", n)); got != want {
			t.Errorf("%d: %d, want %d", n, got, want)
		}
	}
	// DS-01: the frame of an EventPutStatus is 66 bytes.
	if got := headerSize("EventGraph::EventPutStatus", 34) + 34; got != 66 {
		t.Errorf("EventPutStatus: %d", got)
	}
	if serial.VarIntSize(0x10000) != 5 {
		t.Error("VarInt")
	}
}
