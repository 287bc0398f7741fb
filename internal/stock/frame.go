package stock

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
	"unicode/utf8"

	"hearsay/internal/serial"
)

// Magic is darkirc's.
var Magic = [4]byte{0xfb, 0xe5, 0xc7, 0xb5}

// sanePayload is where this double gives up; upstream has no limit for event-graph
// messages.
const sanePayload = 64 << 20

// AppendFrame appends a frame.
func AppendFrame(b []byte, command string, payload []byte) []byte {
	b = append(b, Magic[:]...)
	b = serial.AppendString(b, command)
	return serial.AppendBytes(b, payload)
}

// A dispatcher is what a channel knows about a command (p2p 2.2, 2.3).
type dispatcher struct {
	max       int // payload bytes; 0: no maximum
	threshold int // metering; 0: none. Scores are 1, steps 1 s, expiry 10 s
	// decode checks a payload and says how many bytes the content took.
	decode func(*serial.Reader) any

	meter []time.Time
	queue *queue // of messages, for the command's only subscriber; nil: nobody
}

const (
	meterExpiry = 10 * time.Second
	meterStep   = time.Second
)

// meterAdd records one message and says how long the meter wants to sleep.
func meterAdd(meter *[]time.Time, threshold int, now time.Time) time.Duration {
	if threshold == 0 {
		return 0
	}
	m := meterTrim(*meter, now)
	*meter = append(m, now)
	if n := len(*meter); n >= threshold {
		return time.Duration(n-threshold) * meterStep
	}
	return 0
}

func meterTrim(m []time.Time, now time.Time) []time.Time {
	for len(m) > 0 && (now.Sub(m[0]) > meterExpiry || m[0].After(now)) {
		m = m[1:]
	}
	return m
}

// A message is a decoded payload with the delay that its consumer has to spend.
type message struct {
	value any
	delay time.Duration
}

// A frameError is a defect of the stream and what it costs on any session but
// refine, under the strict policy.
type frameError struct {
	rule Rule
	cost Cost
	// refine: it has this cost on a refine channel.
	refine Cost
	err    error
}

func (e *frameError) Error() string { return fmt.Sprintf("stock: %s: %v", e.rule, e.err) }

var errEnd = errors.New("stock: connection ended between frames")

// A frameReader reads frames as upstream does: straight from the stream, bytes
// that a decoder leaves over being the next frame's.
type frameReader struct {
	r *bufio.Reader
}

func newFrameReader(conn net.Conn) *frameReader { return &frameReader{bufio.NewReaderSize(conn, 4096)} }

// varInt reads a minimal VarInt.
func (f *frameReader) varInt() (uint64, error) {
	tag, err := f.r.ReadByte()
	if err != nil {
		return 0, err
	}
	size := map[byte]int{0xfd: 2, 0xfe: 4, 0xff: 8}[tag]
	if size == 0 {
		return uint64(tag), nil
	}
	b := make([]byte, 8)
	if _, err := io.ReadFull(f.r, b[:size]); err != nil {
		return 0, err
	}
	v := binary.LittleEndian.Uint64(b)
	if v < map[byte]uint64{0xfd: 0xfd, 0xfe: 0x10000, 0xff: 0x100000000}[tag] {
		return 0, serial.ErrNonMinimal
	}
	return v, nil
}

// header reads magic and command. The connection's end there is clean.
func (f *frameReader) header(outbound bool) (string, error) {
	var magic [4]byte
	if _, err := io.ReadFull(f.r, magic[:]); err != nil {
		return "", errEnd
	}
	if magic != Magic {
		cost := Close
		if outbound {
			cost = Ban
		}
		return "", &frameError{RuleMagic, cost, Close, fmt.Errorf("%x", magic)}
	}
	n, err := f.varInt()
	switch {
	case errors.Is(err, serial.ErrNonMinimal):
		return "", &frameError{RuleCommand, Close, Close, err}
	case err != nil:
		return "", errEnd
	case n > 255:
		return "", &frameError{RuleCommandLength, Ban, Ban, fmt.Errorf("%d", n)}
	}
	command := make([]byte, n)
	if _, err := io.ReadFull(f.r, command); err != nil {
		return "", errEnd
	}
	if !utf8.Valid(command) {
		return "", &frameError{RuleCommand, Close, Close, errors.New("not UTF-8")}
	}
	return string(command), nil
}

// payload reads and decodes what follows a command. trailing is how many bytes of
// the announced payload were left to be read as the next frame.
func (f *frameReader) payload(d *dispatcher) (value any, trailing int, err error) {
	n, err := f.varInt()
	if err != nil {
		return nil, 0, &frameError{RuleLength, Ban, Silent, err}
	}
	if d.max > 0 && n > uint64(d.max) || n > sanePayload {
		return nil, 0, &frameError{RuleTooLong, Ban, Silent, fmt.Errorf("%d bytes", n)}
	}
	b := make([]byte, 0, min(n, 1<<16))
	buf := bytes.NewBuffer(b)
	if _, err := io.CopyN(buf, f.r, int64(n)); err != nil { // at most sanePayload
		return nil, 0, &frameError{RuleUndecodable, Ban, Silent, fmt.Errorf("cut: %w", err)}
	}
	r := serial.NewReader(buf.Bytes())
	value = d.decode(r)
	if err := r.Err(); err != nil {
		return nil, 0, &frameError{RuleUndecodable, Ban, Silent, err}
	}
	if rest := buf.Bytes()[r.Offset():]; len(rest) > 0 {
		f.r = bufio.NewReader(io.MultiReader(bytes.NewReader(rest), f.r))
		return value, len(rest), nil
	}
	return value, 0, nil
}

// A queue is unbounded, as upstream's are. Whoever waits selects on ready.
type queue struct {
	items []message
	ready chan struct{} // capacity 1
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

// put appends. The channel's mutex is held.
func (q *queue) put(m message) {
	q.items = append(q.items, m)
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take removes the first item. The channel's mutex is held.
func (q *queue) take() (message, bool) {
	if len(q.items) == 0 {
		return message{}, false
	}
	m := q.items[0]
	q.items = q.items[1:]
	return m, true
}
