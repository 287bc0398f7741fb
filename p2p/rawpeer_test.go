package p2p

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/internal/serial"
)

// A rawPeer is the other end of a connection, in the hands of a test.
type rawPeer struct {
	t       *testing.T
	conn    net.Conn
	writing chan struct{} // a lock on which a bubble's time moves on, unlike a pipe's own

	mu     sync.Mutex
	frames []rawFrame
	closed time.Time // when the stream ended; zero: it has not
}

type rawFrame struct {
	command string
	payload []byte
	at      time.Time
}

func newRawPeer(t *testing.T, conn net.Conn) *rawPeer {
	p := &rawPeer{t: t, conn: conn, writing: make(chan struct{}, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.read()
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return p
}

// dialRaw connects to a node as host ip would.
func (m *memNet) dialRaw(t *testing.T, ip string, to URL) *rawPeer {
	t.Helper()
	conn, err := m.host(ip).Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	return newRawPeer(t, conn)
}

// listenRaw takes the connections that a node makes to host ip, one after the other.
func (m *memNet) listenRaw(t *testing.T, ip string) (URL, <-chan *rawPeer) {
	t.Helper()
	u := MustParseURL("tcp://" + ip + ":9600")
	l, err := m.host(ip).Listen(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	peers := make(chan *rawPeer, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			pending, err := l.Accept(context.Background())
			if err != nil {
				return
			}
			conn, _ := pending.Handshake(context.Background())
			peers <- newRawPeer(t, conn)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return u, peers
}

// taken is the connection that has come in by now.
func taken(t *testing.T, peers <-chan *rawPeer) *rawPeer {
	t.Helper()
	synctest.Wait()
	select {
	case p := <-peers:
		return p
	default:
		t.Fatal("nobody has dialed")
		return nil
	}
}

func (p *rawPeer) read() {
	br := bufio.NewReader(p.conn)
	for {
		var head []byte
		readByte := func() bool {
			b, err := br.ReadByte()
			head = append(head, b)
			return err == nil
		}
		varInt := func() (uint64, bool) {
			head = nil
			if !readByte() {
				return 0, false
			}
			for range map[byte]int{0xfd: 2, 0xfe: 4, 0xff: 8}[head[0]] {
				if !readByte() {
					return 0, false
				}
			}
			return serial.NewReader(head).VarInt(), true
		}
		take := func(n uint64) ([]byte, bool) {
			b := make([]byte, n)
			_, err := io.ReadFull(br, b)
			return b, err == nil
		}
		magic, ok := take(4)
		if ok && !bytes.Equal(magic, DarkIRCMagic[:]) {
			p.t.Errorf("frame starts with %x", magic)
		}
		var n uint64
		var command, payload []byte
		if ok {
			n, ok = varInt()
		}
		if ok {
			command, ok = take(n)
		}
		if ok {
			n, ok = varInt()
		}
		if ok {
			payload, ok = take(n)
		}
		p.mu.Lock()
		if !ok {
			p.closed = time.Now()
			p.mu.Unlock()
			return
		}
		p.frames = append(p.frames, rawFrame{string(command), payload, time.Now()})
		p.mu.Unlock()
	}
}

// send writes frames or parts of frames. A peer that has closed does not matter here.
func (p *rawPeer) send(b ...[]byte) {
	p.t.Helper()
	p.write(bytes.Join(b, nil))
	synctest.Wait()
}

func (p *rawPeer) write(b []byte) {
	p.writing <- struct{}{}
	_, _ = p.conn.Write(b)
	<-p.writing
}

// got are the payloads of one command so far.
func (p *rawPeer) got(command string) (payloads [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.frames {
		if f.command == command {
			payloads = append(payloads, f.payload)
		}
	}
	return payloads
}

// commands are those of all frames so far.
func (p *rawPeer) commands() (names []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.frames {
		names = append(names, f.command)
	}
	return names
}

func (p *rawPeer) closedAt() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// wantClosed checks that the node has closed the connection, or not.
func (p *rawPeer) wantClosed(want bool) {
	p.t.Helper()
	synctest.Wait()
	if got := !p.closedAt().IsZero(); got != want {
		p.t.Errorf("closed: %v, want %v", got, want)
	}
}

func versionFrame(edit func(*versionMsg)) []byte {
	m := versionMsg{
		appName: "darkirc", version: semver{minor: 5, patch: 1}, timestamp: uint64(time.Now().Unix()),
		connectRecv: MustParseURL("tcp://5.0.0.1:9600"),
	}
	if edit != nil {
		edit(&m)
	}
	return frame(cmdVersion, m.encode())
}

func verackFrame(edit func(*verackMsg)) []byte {
	m := verackMsg{version: semver{minor: 5, patch: 1}, appName: "darkirc"}
	if edit != nil {
		edit(&m)
	}
	return frame(cmdVerack, m.encode())
}

func getaddrFrame(max uint32, transports ...string) []byte {
	m := getaddrMsg{max, transports}
	return frame(cmdGetaddr, m.encode())
}

func addrFrame(urls ...string) []byte {
	var entries []hostEntry
	for _, u := range urls {
		entries = append(entries, hostEntry{MustParseURL(u), uint64(time.Now().Unix())})
	}
	return frame(cmdAddr, encodeAddr(entries))
}

// shake does the peer's half of the handshake.
func (p *rawPeer) shake() {
	p.t.Helper()
	p.send(versionFrame(nil), verackFrame(nil))
}

// answerPings keeps the connection alive until the test ends.
func (p *rawPeer) answerPings() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; sleepCtx(ctx, time.Second); {
			pings := p.got(cmdPing)
			for ; n < len(pings); n++ {
				p.write(frame(cmdPong, pings[n]))
			}
		}
	}()
	p.t.Cleanup(func() {
		cancel()
		p.conn.Close()
		<-done
	})
}

// An echo is a toy protocol that keeps what it gets.
type echo struct {
	mu       sync.Mutex
	got      []string
	skipped  []uint64
	attached []*Peer
	handle   func(p *Peer, payload []byte) error
	run      func(ctx context.Context, p *Peer) error
}

func (e *echo) protocol() Protocol {
	return Protocol{
		Name: "echo", Mask: SessionDefault,
		Commands: []Command{{Name: "toy::msg", MaxPayload: 1 << 20}, {Name: "toy::status", MaxPayload: 34, Skip: 1024}},
		Attach: func(p *Peer) Handler {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.attached = append(e.attached, p)
			return &echoHandler{e, p}
		},
	}
}

func (e *echo) messages() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.got...)
}

type echoHandler struct {
	e *echo
	p *Peer
}

func (h *echoHandler) Handle(_ string, payload []byte) error {
	h.e.mu.Lock()
	h.e.got = append(h.e.got, string(payload))
	f := h.e.handle
	h.e.mu.Unlock()
	if f != nil {
		return f(h.p, payload)
	}
	return nil
}

func (h *echoHandler) Skipped(_ string, size uint64) {
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	h.e.skipped = append(h.e.skipped, size)
}

func (h *echoHandler) Run(ctx context.Context) error {
	if h.e.run != nil {
		return h.e.run(ctx, h.p)
	}
	<-ctx.Done()
	return nil
}
