package p2p

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A memNet is a network of pipes for bubbles. Hosts are IPv4 addresses.
type memNet struct {
	mu        sync.Mutex
	listeners map[string]*memListener // by host:port
	nextPort  int
	dials     map[string]int // by host:port
	last      map[string]time.Time
}

func newMemNet() *memNet {
	return &memNet{
		listeners: make(map[string]*memListener), nextPort: 40000,
		dials: make(map[string]int), last: make(map[string]time.Time),
	}
}

func (m *memNet) dialed(hostPort string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dials[hostPort]
}

// A memHost is one host's view of the network.
type memHost struct {
	net *memNet
	ip  string
}

func (m *memNet) host(ip string) *memHost { return &memHost{m, ip} }

var errRefusedByNet = errors.New("connection refused")

func (h *memHost) Dial(ctx context.Context, u URL) (net.Conn, error) {
	h.net.mu.Lock()
	h.net.dials[u.HostPort()]++
	h.net.last[u.HostPort()] = time.Now()
	l := h.net.listeners[u.HostPort()]
	h.net.nextPort++
	port := h.net.nextPort
	h.net.mu.Unlock()
	if l == nil {
		return nil, errRefusedByNet
	}
	a, b := net.Pipe()
	remote := MustParseURL(fmt.Sprintf("%s://%s:%d", u.Scheme(), h.ip, port))
	select {
	case l.queue <- &memPending{remote, b}:
		return a, nil
	case <-l.closed:
		return nil, errRefusedByNet
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (h *memHost) Listen(_ context.Context, u URL) (Listener, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if h.net.listeners[u.HostPort()] != nil {
		return nil, errors.New("address in use")
	}
	l := &memListener{net: h.net, url: u, queue: make(chan *memPending), closed: make(chan struct{})}
	h.net.listeners[u.HostPort()] = l
	return l, nil
}

type memListener struct {
	net    *memNet
	url    URL
	queue  chan *memPending
	closed chan struct{}
	once   sync.Once
}

func (l *memListener) Accept(ctx context.Context) (Pending, error) {
	select {
	case p := <-l.queue:
		return p, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
func (l *memListener) Addr() URL { return l.url }
func (l *memListener) Close() error {
	l.once.Do(func() {
		l.net.mu.Lock()
		delete(l.net.listeners, l.url.HostPort())
		l.net.mu.Unlock()
		close(l.closed)
	})
	return nil
}

type memPending struct {
	remote URL
	conn   net.Conn
}

func (p *memPending) Remote() URL                                 { return p.remote }
func (p *memPending) Handshake(context.Context) (net.Conn, error) { return p.conn, nil }
func (p *memPending) Close() error                                { return p.conn.Close() }

// A running node of a test.
type testNode struct {
	*Node
	url    URL
	cancel context.CancelFunc
	done   chan error
}

// start runs a node on host ip, listening on tcp port 9600, until the test's end.
func (m *memNet) start(t *testing.T, ip string, edit func(*Config)) *testNode {
	t.Helper()
	url := MustParseURL("tcp://" + ip + ":9600")
	cfg := Config{
		Inbound: []URL{url}, Transports: map[string]Transport{"tcp": m.host(ip)},
		OutboundConnections: -1, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if edit != nil {
		edit(&cfg)
	}
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tn := &testNode{Node: n, url: url, cancel: cancel, done: make(chan error, 1)}
	go func() { tn.done <- n.Run(ctx) }()
	t.Cleanup(func() { tn.stop(t) })
	select {
	case <-n.Listening():
	case err := <-tn.done:
		t.Fatalf("Run: %v", err)
	}
	return tn
}

// stop ends the node and waits for Run.
func (n *testNode) stop(t *testing.T) {
	t.Helper()
	if n.done == nil {
		return
	}
	n.cancel()
	if err := <-n.done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
	n.done = nil
}

// settle lets d pass and everything that is due then happen.
func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// know puts an address into a list of the node.
func (n *testNode) know(c colour, u URL, lastSeen uint64) {
	n.hosts.mu.Lock()
	defer n.hosts.mu.Unlock()
	n.hosts.put(c, hostEntry{u, lastSeen})
}
