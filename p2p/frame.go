package p2p

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"time"
	"unicode/utf8"

	"hearsay/internal/serial"
)

// A Magic is the four bytes that start every frame of a network.
type Magic [4]byte

// DarkIRCMagic is the magic of darkirc's network.
var DarkIRCMagic = Magic{0xfb, 0xe5, 0xc7, 0xb5}

// appendHeader appends a frame up to its payload of n bytes.
func appendHeader(b []byte, magic Magic, command string, n int) []byte {
	b = append(b, magic[:]...)
	b = serial.AppendString(b, command)
	return serial.AppendVarInt(b, uint64(n))
}

// headerSize is the length of what appendHeader appends.
func headerSize(command string, n int) int {
	return len(Magic{}) + serial.VarIntSize(uint64(len(command))) + len(command) + serial.VarIntSize(uint64(n))
}

// frameBounds say what a frameReader does with a payload of n bytes.
type frameBounds struct {
	max  uint64  // read
	skip uint64  // above max and up to this: read and dropped
	over offence // above both
}

// A frameReader takes frames off a connection. Memory grows with the bytes that
// arrive, never with what is announced. One goroutine uses it.
type frameReader struct {
	br      *bufio.Reader // at least maxCommand large
	magic   Magic
	timeout time.Duration // for a frame beside what frameMinRate gives its payload
	// lookup returns the bounds of a command and its registered name, or !ok where it
	// is unknown.
	lookup func(command []byte) (name string, b frameBounds, ok bool)
	// setDeadline sets the connection's read deadline.
	setDeadline func(time.Time) error
	pool        *memPool
	holder      *poolHolder
	// inFrame is told when the first byte of a frame has come, and when the frame is complete.
	inFrame func(bool)

	held     int // pool bytes of the payload handed out last
	deadline time.Time
}

// next reads one frame. payload is nil where it was skipped, and then skipped is its
// size. Every error but ErrDisconnected and a context's cause is a *wireFault. The
// pool bytes of the payload stay taken until done.
func (r *frameReader) next(ctx context.Context) (command string, payload []byte, skipped uint64, err error) {
	if err := r.setDeadline(time.Time{}); err != nil {
		return "", nil, 0, r.lost(err)
	}
	if _, err := r.br.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			return "", nil, 0, ErrDisconnected
		}
		return "", nil, 0, r.lost(err)
	}
	r.inFrame(true)
	defer r.inFrame(false)
	if err := r.extend(time.Now().Add(r.timeout)); err != nil {
		return "", nil, 0, r.lost(err)
	}
	command, bounds, err := r.header()
	if err != nil {
		return "", nil, 0, err
	}
	n, err := r.varInt(offenceLength)
	if err != nil {
		return "", nil, 0, err
	}
	if n > bounds.max {
		if n > bounds.skip {
			return "", nil, 0, &wireFault{bounds.over, ErrTooLarge}
		}
		return command, nil, n, r.drop(int64(n))
	}
	payload, err = r.payload(ctx, int(n))
	return command, payload, 0, err
}

// done gives back the pool bytes of the last payload.
func (r *frameReader) done() {
	r.pool.give(r.holder, r.held)
	r.held = 0
}

func (r *frameReader) extend(deadline time.Time) error {
	r.deadline = deadline
	return r.setDeadline(deadline)
}

// lost maps a read error. The error itself may hold addresses and ends here.
func (r *frameReader) lost(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &wireFault{offenceStall, ErrStalled}
	}
	return &wireFault{offenceLost, ErrConnection}
}

func (r *frameReader) header() (string, frameBounds, error) {
	magic, err := r.br.Peek(len(r.magic))
	if err != nil {
		return "", frameBounds{}, r.lost(err)
	}
	if Magic(magic) != r.magic {
		return "", frameBounds{}, &wireFault{offenceMagic, ErrMagic}
	}
	_, _ = r.br.Discard(len(magic)) // was peeked
	n, err := r.varInt(offenceCommandForm)
	if err != nil {
		return "", frameBounds{}, err
	}
	if n > maxCommand {
		return "", frameBounds{}, &wireFault{offenceCommandLong, ErrFrame}
	}
	command, err := r.br.Peek(int(n)) // the buffer is larger than maxCommand
	if err != nil {
		return "", frameBounds{}, r.lost(err)
	}
	if !utf8.Valid(command) {
		return "", frameBounds{}, &wireFault{offenceCommandForm, ErrFrame}
	}
	name, bounds, ok := r.lookup(command)
	if !ok {
		return "", frameBounds{}, &wireFault{offenceUnknown, ErrUnknownCommand}
	}
	_, _ = r.br.Discard(int(n)) // was peeked
	return name, bounds, nil
}

// varInt reads a VarInt; one that is not minimal is the given offence.
func (r *frameReader) varInt(notMinimal offence) (uint64, error) {
	first, err := r.br.Peek(1)
	if err != nil {
		return 0, r.lost(err)
	}
	size := 1
	switch first[0] {
	case 0xfd:
		size = 3
	case 0xfe:
		size = 5
	case 0xff:
		size = 9
	}
	b, err := r.br.Peek(size)
	if err != nil {
		return 0, r.lost(err)
	}
	d := serial.NewReader(b)
	n := d.VarInt()
	if d.Err() != nil {
		return 0, &wireFault{notMinimal, ErrFrame}
	}
	_, _ = r.br.Discard(size) // was peeked
	return n, nil
}

// allow extends the deadline by the time that n more bytes may take.
func (r *frameReader) allow(n int64) error {
	return r.extend(r.deadline.Add(time.Duration(n) * time.Second / frameMinRate))
}

func (r *frameReader) drop(n int64) error {
	if err := r.allow(n); err != nil {
		return r.lost(err)
	}
	if _, err := io.CopyN(io.Discard, r.br, n); err != nil {
		return r.lost(err)
	}
	return nil
}

func (r *frameReader) payload(ctx context.Context, n int) ([]byte, error) {
	if err := r.allow(int64(n)); err != nil {
		return nil, r.lost(err)
	}
	buf := make([]byte, 0, min(n, payloadAllowance))
	for len(buf) < n {
		if len(buf) == cap(buf) {
			grown, err := r.grow(ctx, buf, n)
			if err != nil {
				return nil, err
			}
			buf = grown
		}
		k, err := r.br.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+k]
		if r.held > 0 {
			r.pool.touch(r.holder, k)
		}
		if err != nil && len(buf) < n {
			return nil, r.lost(err)
		}
	}
	return buf, nil
}

// grow moves buf to an array of twice its size, at most n, waiting for the pool. Time
// spent waiting is not the peer's.
func (r *frameReader) grow(ctx context.Context, buf []byte, n int) ([]byte, error) {
	size := min(n, 2*cap(buf))
	more := size - payloadAllowance - r.held
	start := time.Now()
	if err := r.pool.wait(ctx, r.holder, more, n-len(buf), true); err != nil {
		return nil, err
	}
	r.held += more
	if waited := time.Since(start); waited > 0 {
		if err := r.extend(r.deadline.Add(waited)); err != nil {
			return nil, r.lost(err)
		}
	}
	return append(make([]byte, 0, size), buf...), nil
}
