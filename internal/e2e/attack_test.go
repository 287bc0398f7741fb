package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/internal/serial"
	"hearsay/p2p"
)

// The network of the attacked node: one slot for ever, so that no test meets the hour.
const attackedGraph = `
[graph]
genesis = 1740787200000
rotation = "0s"
`

var (
	attackedMagic = []byte{1, 2, 3, 4}
	attackedSlot  = eventgraph.Slot(1740787200000)
)

func attackedParams() eventgraph.Params {
	p := eventgraph.DarkIRC()
	p.Genesis, p.Rotation = attackedSlot, 0
	return p
}

// A daemonProc is a running daemon with its ports.
type daemonProc struct {
	*node
	dir string
}

// spawn runs a daemon. extra goes into the [net] table, above its profiles.
func spawn(t *testing.T, bin, scheme string, first bool, peers []string, extra string) *daemonProc {
	t.Helper()
	dir := t.TempDir()
	n := &node{bin: bin, config: filepath.Join(dir, "hearsay.toml"), scheme: scheme, irc: freePort(t), p2p: freePort(t)}
	quoted := make([]string, len(peers))
	for i, p := range peers {
		quoted[i] = strconv.Quote(p)
	}
	conf := fmt.Sprintf(`
irc_listen = "tcp://127.0.0.1:%d"
datastore = %q
autojoin = ["#dev"]
skip_dag_sync = %t
%s
[outbound]
min_connections = 1

[net]
magic_bytes = [1, 2, 3, 4]
active_profiles = [%q]
localnet = true
inbound_connections = 150
outbound_connections = 0
%s
[net.profiles.%q]
inbound = ["%s://127.0.0.1:%d"]
peers = [%s]
`, n.irc, filepath.Join(dir, "data"), first, attackedGraph, scheme, extra, scheme, scheme, n.p2p, strings.Join(quoted, ","))
	if err := os.WriteFile(n.config, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	d := &daemonProc{node: n, dir: dir}
	d.start(t)
	t.Cleanup(func() {
		if n.cmd != nil {
			_ = n.cmd.Process.Kill()
			_ = n.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("log of the node on port %d:\n%s", n.irc, n.log.Bytes())
		}
	})
	return d
}

func (d *daemonProc) start(t *testing.T) {
	t.Helper()
	d.cmd = exec.Command(d.bin, "run", "--config", d.config)
	d.cmd.Stdout, d.cmd.Stderr = &d.log, &d.log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the IRC port", func() error {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", d.irc))
		if err == nil {
			_ = c.Close()
		}
		return err
	})
}

func (d *daemonProc) url() string { return fmt.Sprintf("%s://127.0.0.1:%d", d.scheme, d.p2p) }

// rss is the daemon's anonymous memory, in bytes, as the kernel sees it.
func (d *daemonProc) rss(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		t.Skip("no /proc")
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "RssAnon:" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Skip("the kernel does not tell RssAnon")
	return 0
}

// fds is how many files the daemon has open.
func (d *daemonProc) fds(t *testing.T) int {
	t.Helper()
	es, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
	if err != nil {
		t.Skip("no /proc")
	}
	return len(es)
}

// An ircClient is a person at a daemon.
type ircClient struct {
	conn  net.Conn
	lines chan string
}

// connectIRC connects a client whose lines go to take.
func connectIRC(t *testing.T, d *daemonProc, take func(c *ircClient, line string)) *ircClient {
	t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", d.irc))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	c := &ircClient{conn: conn, lines: make(chan string, 1<<16)}
	go func() {
		defer close(c.lines)
		for s := bufio.NewScanner(conn); s.Scan(); {
			take(c, s.Text())
		}
	}()
	return c
}

func dialIRC(t *testing.T, d *daemonProc, nick string) *ircClient {
	t.Helper()
	c := connectIRC(t, d, func(c *ircClient, line string) {
		if rest, ok := strings.CutPrefix(line, "PING"); ok {
			_, _ = fmt.Fprintf(c.conn, "PONG%s\r\n", rest)
			return
		}
		select {
		case c.lines <- line:
		default:
		}
	})
	c.send(t, "CAP REQ :no-history", "NICK "+nick, "USER "+nick+" 0 * :"+nick, "CAP END")
	c.wait(t, " 366 ")
	return c
}

func (c *ircClient) send(t *testing.T, lines ...string) {
	t.Helper()
	if _, err := io.WriteString(c.conn, strings.Join(lines, "\r\n")+"\r\n"); err != nil {
		t.Fatal(err)
	}
}

// wait reads until a line holds text.
func (c *ircClient) wait(t *testing.T, text string) string {
	t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case line, ok := <-c.lines:
			if !ok {
				t.Fatalf("the IRC connection ended before %q", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			t.Fatalf("gave up waiting for %q on IRC", text)
		}
	}
}

// A pair are two people at two daemons that hear each other.
type pairOf struct {
	a, b   *ircClient
	n      int
	slow   time.Duration
	totals time.Duration
}

// chat says something on one side and waits for it on the other.
func (p *pairOf) chat(t *testing.T) {
	t.Helper()
	p.n++
	from, to := p.a, p.b
	if p.n%2 == 0 {
		from, to = to, from
	}
	word := fmt.Sprintf("honest-word-%d-", p.n)
	start := time.Now()
	from.send(t, "PRIVMSG #dev :"+word)
	to.wait(t, word)
	took := time.Since(start)
	p.slow = max(p.slow, took)
	p.totals += took
}

// An attacker is one hostile connection.
type attacker struct {
	conn net.Conn
	url  string
}

// transports are those that attackers dial with. Host is the loopback address that
// they come from where the transport lets them choose (not TLS): bans are by host.
func transports(host string) map[string]p2p.Transport {
	return p2p.DefaultTransports(p2p.TransportConfig{
		ListenPacket: func(ctx context.Context, network, _ string) (net.PacketConn, error) {
			var lc net.ListenConfig
			return lc.ListenPacket(ctx, network, net.JoinHostPort(host, "0"))
		},
	})
}

// dialFrom opens a connection up to the transport's handshake, that included.
func dialFrom(ctx context.Context, host, url string) (*attacker, error) {
	u := p2p.MustParseURL(url)
	if u.Scheme() == "tcp" {
		conn, err := dialRaw(ctx, host, url)
		if err != nil {
			return nil, err
		}
		return &attacker{conn: conn, url: url}, nil
	}
	conn, err := transports(host)[u.Scheme()].Dial(ctx, u)
	if err != nil {
		return nil, err
	}
	return &attacker{conn: conn, url: url}, nil
}

// dialRaw opens the socket alone.
func dialRaw(ctx context.Context, host, url string) (net.Conn, error) {
	u := p2p.MustParseURL(url)
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(host), 0))}
	return d.DialContext(ctx, "tcp", u.HostPort())
}

// write gives up where the node does not read any more.
func (a *attacker) write(b []byte) error {
	_ = a.conn.SetWriteDeadline(time.Now().Add(20 * time.Second))
	_, err := a.conn.Write(b)
	return err
}

func (a *attacker) send(command string, payload []byte) error {
	return a.write(frame(command, payload))
}

// frameHead is a frame up to its payload of n bytes.
func frameHead(command string, n int) []byte {
	b := serial.AppendString(append([]byte(nil), attackedMagic...), command)
	return serial.AppendVarInt(b, uint64(n))
}

func frame(command string, payload []byte) []byte {
	return append(frameHead(command, len(payload)), payload...)
}

// A greeting is a version message.
type greeting struct {
	time     uint64
	features map[string]uint32
}

func (g greeting) encode(url string) []byte {
	b := serial.AppendString(nil, "")
	b = serial.AppendString(b, "darkirc")
	b = append(b, semver051()...)
	if g.time == 0 {
		g.time = uint64(time.Now().Unix())
	}
	b = serial.AppendUint64(b, g.time)
	b = serial.AppendString(b, p2p.MustParseURL(url).String())
	b = serial.AppendBool(b, false)
	b = serial.AppendVarInt(b, 0)
	b = serial.AppendVarInt(b, uint64(len(g.features)))
	for name, v := range g.features {
		b = serial.AppendUint32(serial.AppendString(b, name), v)
	}
	return b
}

func semver051() []byte {
	b := serial.AppendUint64(nil, 0)
	b = serial.AppendUint64(b, 5)
	b = serial.AppendUint64(b, 1)
	return serial.AppendString(serial.AppendString(b, ""), "")
}

// shake does the handshake and returns once the node's verack has come.
func (a *attacker) shake(g greeting) error {
	if err := a.send("version", g.encode(a.url)); err != nil {
		return err
	}
	if err := a.send("verack", serial.AppendString(semver051(), "darkirc")); err != nil {
		return err
	}
	_ = a.conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	r := oneByte{a.conn}
	for {
		command, payload, err := readFrame(r)
		if err != nil {
			return err
		}
		if command == "verack" {
			return a.conn.SetReadDeadline(time.Time{})
		}
		_ = payload
	}
}

// oneByte reads byte for byte, so that nothing is read ahead.
type oneByte struct{ io.Reader }

func (r oneByte) ReadByte() (byte, error) {
	var b [1]byte
	_, err := io.ReadFull(r.Reader, b[:])
	return b[0], err
}

type byteReader interface {
	io.Reader
	io.ByteReader
}

func readVarInt(r byteReader) (int, error) {
	tag, err := r.ReadByte()
	size := map[byte]int{0xfd: 2, 0xfe: 4, 0xff: 8}[tag]
	if err != nil || size == 0 {
		return int(tag), err
	}
	var b [8]byte
	if _, err := io.ReadFull(r, b[:size]); err != nil {
		return 0, err
	}
	return int(serial.NewReader(b[:]).Uint64()), nil
}

func readFrame(r byteReader) (command string, payload []byte, err error) {
	var magic [4]byte
	if _, err := io.ReadFull(r, magic[:]); err != nil {
		return "", nil, err
	}
	n, err := readVarInt(r)
	if err != nil || n > 255 {
		return "", nil, errors.Join(err, errors.New("command"))
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return "", nil, err
	}
	m, err := readVarInt(r)
	if err != nil || m > 64<<20 {
		return "", nil, errors.Join(err, errors.New("length"))
	}
	payload = make([]byte, m)
	_, err = io.ReadFull(r, payload)
	return string(b), payload, err
}

// serve answers pings and whatever else answer knows, until the connection ends.
func (a *attacker) serve(answer func(command string, payload []byte)) {
	r := bufio.NewReader(a.conn)
	for {
		command, payload, err := readFrame(r)
		if err != nil {
			return
		}
		switch {
		case command == "ping":
			if a.send("pong", payload) != nil {
				return
			}
		case answer != nil:
			answer(command, payload)
		}
	}
}

// newEvent is a valid event of the slot on the given parent.
func newEvent(parent eventgraph.Event, content []byte) eventgraph.Event {
	e := eventgraph.Event{Content: content}
	e.Timestamp, e.Layer, e.ContentHash = uint64(time.Now().UnixMilli()), parent.Layer+1, eventgraph.HashContent(content)
	e.Parents[0] = parent.ID()
	return e
}

func putOf(e eventgraph.Event) []byte { return gossip.EventPut{Event: e}.AppendTo(nil) }

// orphan is a valid-looking put of n bytes on a parent that nobody has.
func orphan(number, n int) []byte {
	e := eventgraph.Event{Content: fmt.Appendf(make([]byte, n, n+20), "%d", number)}
	e.Timestamp, e.Layer, e.ContentHash = uint64(time.Now().UnixMilli()), 9, eventgraph.HashContent(e.Content)
	e.Parents[0] = eventgraph.ID{0xbb, byte(number), byte(number >> 8), byte(number >> 16)}
	return putOf(e)
}

// populate puts n events of size bytes into the node, through one connection after the
// other, each below the flood window.
func populate(t *testing.T, d *daemonProc, n, size int) (events []eventgraph.Event) {
	t.Helper()
	genesis := attackedParams().GenesisOf(attackedSlot)
	for done := 0; done < n; done += 150 {
		a, err := dialFrom(t.Context(), "127.0.0.2", d.url())
		if err == nil {
			err = a.shake(greeting{features: map[string]uint32{"event_put_status": 1}})
		}
		if err != nil {
			t.Fatal(err)
		}
		var batch []byte
		count := min(150, n-done)
		for i := range count {
			e := newEvent(genesis, fmt.Appendf(make([]byte, size, size+20), "%d", done+i))
			events = append(events, e)
			batch = append(batch, frame(gossip.CmdEventPut, putOf(e))...)
		}
		got := make(chan struct{}, count)
		go a.serve(func(command string, _ []byte) {
			if command == gossip.CmdEventPutStatus {
				got <- struct{}{}
			}
		})
		_ = a.write(batch)
		for range count {
			select {
			case <-got:
			case <-time.After(patience):
				t.Fatal("a put is not answered")
			}
		}
		_ = a.conn.Close()
	}
	return events
}
