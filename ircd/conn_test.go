package ircd

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/privmsg"
)

// TestOverlongLines: 417 and still connected; without an end the connection is closed, with its
// reason as the last line (failure-cases IRC 4).
func TestOverlongLines(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.register("alice", "message-tags")
		at := "PING " + strings.Repeat("x", maxLine-len("PING \r\n"))
		wantPart(t, a.do(at), " PONG irc.hearsay :xxx")
		for _, n := range []int{maxLine + 1, 1025, 8192} {
			want(t, a.do("PING "+strings.Repeat("x", n-len("PING \r\n"))), ":irc.hearsay 417 alice :Input line was too long")
		}
		want(t, a.do("JOIN #"+strings.Repeat("x", 1000)), ":irc.hearsay 417 alice :Input line was too long")
		wantPart(t, a.do("@+a="+strings.Repeat("x", 4000)+" "+at), " PONG ") // tags do not count
		want(t, a.do("@+a="+strings.Repeat("x", 4100)+" PING x"), ":irc.hearsay 417 alice :Input line was too long")
		wantPart(t, a.do("PING x"), "PONG")
		a.conn.Write([]byte(strings.Repeat("x", maxInput)))
		want(t, a.got(), "ERROR :Closing link: Input line too long")
		if !a.isClosed() {
			t.Error("not closed")
		}
	})
}

// TestMalformedLines: neither a second line nor a disconnect (failure-cases IRC 1; L7).
func TestMalformedLines(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, b := h.join("alice", "#c"), h.join("bob", "#c", "standard-replies")
		a.got()
		want(t, a.do("PRIVMSG #c :hi \r:x PRIVMSG #c :forged"), ":irc.hearsay 400 alice * :Malformed line")
		want(t, a.do("PRIVMSG #c :a\x00b"), ":irc.hearsay 400 alice * :Malformed line")
		want(t, a.do("PRIVMSG #c :latin1 \xe9"), ":irc.hearsay FAIL PRIVMSG INVALID_UTF8 :Message rejected, it is not UTF-8")
		want(t, b.do("PRIVMSG #c :latin1 \xe9"), ":irc.hearsay FAIL PRIVMSG INVALID_UTF8 :Message rejected, it is not UTF-8")
		want(t, a.do("", "   ", ":prefix", "@tag", "\r"))
		want(t, a.do("\xe9\xff"), ":irc.hearsay FAIL * INVALID_UTF8 :Message rejected, it is not UTF-8")
		wantPart(t, a.do("PING x"), "PONG")
		want(t, b.got())
		if h.outbox.n != 0 {
			t.Errorf("%d accepted", h.outbox.n)
		}
	})
}

// TestLineInPieces: a line may come byte by byte, end in LF, and wait between (L8).
func TestLineInPieces(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.join("alice", "#c")
		for _, b := range []byte("PRIVMSG #c :in pieces\nPRIVMSG #c :two\n") {
			a.conn.Write([]byte{b})
			time.Sleep(1100 * time.Millisecond)
			h.graph.say("#c", "rob", "x")
		}
		synctest.Wait()
		if h.outbox.n != 2 || h.outbox.queue[0].m.text != "in pieces" || h.outbox.queue[1].m.text != "two" {
			t.Errorf("%d accepted", h.outbox.n)
		}
	})
}

// TestSlowClient: one that does not read is cut off at the bound of its queue, and delays
// nobody.
func TestSlowClient(t *testing.T) {
	serve(t, func(c *Config, _ *fakeGraph) { c.SendQueue = 2 * lowWater }, func(h *harness) {
		mine, theirs := net.Pipe()
		h.lis.conns <- theirs
		r := bufio.NewReader(mine)
		mine.Write([]byte("NICK slow\r\nUSER s 0 * :s\r\n"))
		for {
			l, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(l, " 422 ") {
				break
			}
		}
		mine.Write([]byte("JOIN #c\r\n"))
		a := h.join("alice", "#c")
		a.got()
		for i := range 300 {
			h.graph.say("#c", "rob", fmt.Sprintf("%d %s", i, strings.Repeat("x", 300)))
			if n := len(a.got()); n < 1 {
				t.Fatal("the other client waits")
			}
		}
		if len(h.server.clients) != 1 {
			t.Fatal("not dropped")
		}
		time.Sleep(writeTimeout + flushTimeout)
		synctest.Wait()
		if n := h.server.conns.Load(); n != 1 {
			t.Errorf("%d connections", n)
		}
		mine.Close()
	})
}

// TestConnectionBounds: at MaxClients and one past it; likewise for those that do not register.
func TestConnectionBounds(t *testing.T) {
	serve(t, func(c *Config, _ *fakeGraph) { c.MaxClients = maxUnregistered + 2 }, func(h *harness) {
		h.register("alice")
		var waiting []*testClient
		for range maxUnregistered {
			waiting = append(waiting, h.dial())
		}
		for _, c := range waiting {
			if c.isClosed() {
				t.Fatal("closed at the bound")
			}
		}
		c := h.dial() // who has waited longest makes room
		want(t, waiting[0].got(), "ERROR :Closing link: Too many connections are waiting to register")
		want(t, c.got())
		wantPart(t, waiting[1].do("NICK b", "USER b 0 * :b"), " 001 b ")
		h.dial()
		past := h.dial()
		want(t, past.got(), "ERROR :Too many connections")
	})
}

// TestLongest: of a crowd the one who has waited longest, of the host that has most.
func TestLongest(t *testing.T) {
	for _, x := range []struct {
		hosts string
		want  int
	}{{"a", 0}, {"a b c", 0}, {"a b b", 1}, {"a b a b b", 1}, {"a b c d d", 3}, {"b a a a a b", 1}} {
		if got := longest(strings.Fields(x.hosts)); got != x.want {
			t.Errorf("%s: %d", x.hosts, got)
		}
	}
}

// TestHalfOpenHandshakes: a thousand connections that begin TLS and do not go on keep nobody out, hold few
// goroutines, and leave none.
func TestHalfOpenHandshakes(t *testing.T) {
	cert, key := certificate(t, t.TempDir(), "one.test")
	s, err := New(Config{Log: newFakeGraph(), Outbox: &fakeOutbox{}, Listen: []Listen{{"127.0.0.1:0", cert, key}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	addr := s.Addrs()[0].String()
	for i := range 1000 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if i%2 == 0 {
			c.Write([]byte{22, 3, 1, 0, 200, 1}) // the head of a record
		}
		if i%100 != 0 {
			continue
		}
		honest, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // self-signed
		if err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		honest.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprint(honest, "NICK a\r\nUSER a 0 * :a\r\nQUIT\r\n")
		if l, err := bufio.NewReader(honest).ReadString('\n'); err != nil || !strings.Contains(l, " 001 a ") {
			t.Errorf("after %d: %q, %v", i, l, err)
		}
		honest.Close()
		if n := s.conns.Load(); n > maxHandshakes+maxUnregistered {
			t.Errorf("%d connections", n)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) { // after the last goroutine
		t.Errorf("Run returned %v", err)
	}
	if len(s.shaking.all) != 0 {
		t.Errorf("%d handshakes are left", len(s.shaking.all))
	}
}

// TestOneOfManyIsSlow: of a hundred clients in a channel one does not read, and asks for the names of a
// channel with 50,000 nicks again and again. Nobody else waits, for a moment of fake time or longer.
func TestOneOfManyIsSlow(t *testing.T) {
	const others, said = 99, 200
	serve(t, nil, func(h *harness) {
		for i := range 50_000 { // the names that are kept are bounded (maxSpeakers)
			h.graph.say("#c", fmt.Sprintf("remote-nick-%d", i), "x")
		}
		mine, theirs := net.Pipe()
		h.lis.conns <- theirs
		r := bufio.NewReader(mine)
		mine.Write([]byte("CAP REQ :no-history\r\nNICK slow\r\nUSER s 0 * :s\r\nCAP END\r\n"))
		for l := ""; !strings.Contains(l, " 422 "); {
			var err error
			if l, err = r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		stop := make(chan struct{})
		go func() {
			defer close(stop)
			for range 200 { // not for ever: fake time stands still meanwhile
				if _, err := mine.Write([]byte("JOIN #c\r\nNAMES #c\r\n")); err != nil {
					return
				}
			}
		}()
		var all []*testClient
		for i := range others {
			all = append(all, h.join(fmt.Sprintf("n%d", i), "#c", "no-history"))
		}
		for _, c := range all {
			c.got()
		}
		start := time.Now()
		for i := range said {
			h.graph.say("#c", "rob", fmt.Sprint(i))
			all[i%others].send(fmt.Sprintf("PRIVMSG #c :own %d", i))
		}
		for i, c := range all {
			lines := c.got()
			if n := count(lines, ":rob!~net@darkirc PRIVMSG #c "); n != said {
				t.Fatalf("client %d got %d lines", i, n)
			}
			if n := count(lines, " PRIVMSG #c :own "); n < said-3 {
				t.Fatalf("client %d got %d lines of the others", i, n)
			}
		}
		if waited := time.Since(start); waited != 0 {
			t.Errorf("the others waited for %v", waited)
		}
		if n := len(h.server.clients); n != others {
			t.Errorf("%d clients: the slow one is not cut off", n)
		}
		time.Sleep(writeTimeout + flushTimeout + drainTimeout + tick)
		<-stop
		mine.Close()
	})
}

// TestFeedErrorEndsRun: a graph that cannot be read takes the server down with its error.
func TestFeedErrorEndsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newFakeGraph()
		g.fail = errors.New("disk on fire")
		s, err := New(Config{Log: g, Outbox: &fakeOutbox{}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(t.Context()); !errors.Is(err, g.fail) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// TestTakenPort: a start error, and nothing is left open (facts 10; contract).
func TestTakenPort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s, err := New(Config{
		Log: newFakeGraph(), Outbox: &fakeOutbox{},
		Listen: []Listen{{Address: "127.0.0.1:0"}, {Address: taken.Addr().String()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("%v", err)
	}
	if err := s.Run(t.Context()); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestConfigErrors(t *testing.T) {
	good := func() Config { return Config{Log: newFakeGraph(), Outbox: &fakeOutbox{}} }
	for what, change := range map[string]func(*Config){
		"no log":              func(c *Config) { c.Log = nil },
		"no outbox":           func(c *Config) { c.Outbox = nil },
		"plain password":      func(c *Config) { c.PasswordHash = "secret" },
		"endless hash":        func(c *Config) { c.PasswordHash = strings.Replace(darkircHash, "$12$", "$31$", 1) },
		"server name":         func(c *Config) { c.ServerName = "a b" },
		"nick as server name": func(c *Config) { c.ServerName = "alice" },
		"network name":        func(c *Config) { c.NetworkName = "a\r\nb" },
		"version":             func(c *Config) { c.Version = "a b" },
		"negative":            func(c *Config) { c.MaxClients = -1 },
		"tiny queue":          func(c *Config) { c.SendQueue = 1 },
		"no certificate": func(c *Config) {
			c.Listen = []Listen{{Address: "x", CertFile: "/nonexistent", KeyFile: "/nonexistent"}}
		},
		"channel": func(c *Config) { c.Settings.Channels = []Channel{{Name: "x"}} },
	} {
		c := good()
		change(&c)
		if _, err := New(c); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", what, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: repeats the password: %v", what, err)
		}
	}
	if _, err := New(good()); err != nil {
		t.Error(err)
	}
}

// certificate writes a self-signed certificate and an EC key.
func certificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), DNSNames: []string{name}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	kder, err := x509.MarshalECPrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "EC PRIVATE KEY", Bytes: kder}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// TestTLS: over real sockets. A stalled handshake delays nobody, an EC key is fine, and Apply
// loads the certificate again (T27; contract).
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "one.test")
	g := newFakeGraph()
	s, err := New(Config{Log: g, Outbox: &fakeOutbox{}, Listen: []Listen{{"127.0.0.1:0", cert, key}, {Address: "127.0.0.1:0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	addr := s.Addrs()[0].String()

	for range 20 {
		stalled, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer stalled.Close()
	}
	name := func() string {
		c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // self-signed
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprint(c, "NICK a\r\nUSER a 0 * :a\r\nWHOIS a\r\nQUIT\r\n")
		r := bufio.NewReader(c)
		var all []string
		for {
			l, err := r.ReadString('\n')
			if err != nil {
				break
			}
			all = append(all, l)
		}
		wantPart(t, all, " 001 a ", " 671 a ", "ERROR :Closing link: Quit")
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if got := name(); got != "one.test" {
		t.Errorf("certificate of %s", got)
	}
	if said, err := s.Apply(ctx, Settings{}); err != nil || len(said) > 0 {
		t.Errorf("the same certificate: %q, %v", said, err)
	}
	certificate(t, dir, "two.test")
	if said, err := s.Apply(ctx, Settings{}); err != nil || len(said) != 1 || !strings.HasPrefix(said[0], "there is another TLS certificate") {
		t.Errorf("%q, %v", said, err)
	}
	if got := name(); got != "two.test" {
		t.Errorf("certificate of %s", got)
	}
	if err := os.WriteFile(key, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Apply(ctx, Settings{}); !errors.Is(err, ErrConfig) {
		t.Errorf("a broken key: %v", err)
	}
	if got := name(); got != "two.test" {
		t.Errorf("certificate of %s", got)
	}

	// A plain client that sends too much reads why before the end.
	c, err := net.Dial("tcp", s.Addrs()[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	fmt.Fprint(c, strings.Repeat("x", 3*maxInput))
	if l, err := bufio.NewReader(c).ReadString('\n'); err != nil || l != "ERROR :Closing link: Input line too long\r\n" {
		t.Errorf("%q, %v", l, err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Run returned %v", err)
	}
}

// TestStorm: 100 clients that talk, join, leave and die, with a peer that floods: nothing
// deadlocks, everybody who stays gets every message of the others once, in order, and the bubble
// fails on what is left running.
func TestStorm(t *testing.T) {
	const clients, rounds = 100, 10
	serve(t, nil, func(h *harness) {
		h.outbox.delay = time.Millisecond
		var all []*testClient
		for i := range clients {
			c := h.dial()
			c.name = fmt.Sprintf("n%d", i)
			c.send("NICK "+c.name, "USER u 0 * :u", "JOIN #storm")
			all = append(all, c)
		}
		for _, c := range all {
			c.got()
		}
		var wg sync.WaitGroup
		for i, c := range all {
			wg.Go(func() {
				for r := range rounds {
					c.send(fmt.Sprintf("PRIVMSG #storm :%d", r), "NAMES #storm", "WHO #storm", "JOIN #other"+fmt.Sprint(i%7), "PART #other"+fmt.Sprint(i%7))
					if i >= clients/2 && r == rounds/2 {
						c.conn.Close()
						return
					}
				}
			})
		}
		for i := range 500 {
			h.graph.say("#storm", fmt.Sprintf("remote%d", i%50), fmt.Sprint(i))
		}
		wg.Wait()
		time.Sleep(time.Second)
		for i, c := range all[:clients/2] {
			next, remote := map[string]int{}, 0
			for _, l := range c.got() {
				head, text, _ := strings.Cut(l, " :")
				nick, rest, _ := strings.Cut(strings.TrimPrefix(head, ":"), "!")
				switch {
				case !strings.HasSuffix(rest, " PRIVMSG #storm"):
				case strings.Contains(rest, "darkirc"):
					if text != fmt.Sprint(remote) {
						t.Fatalf("client %d: remote %s, want %d", i, text, remote)
					}
					remote++
				case text != fmt.Sprint(next[nick]):
					t.Fatalf("client %d: %s says %s, want %d", i, nick, text, next[nick])
				default:
					next[nick]++
				}
			}
			for o := range clients / 2 {
				if n := next[fmt.Sprintf("n%d", o)]; o != i && n != rounds {
					t.Fatalf("client %d got %d messages of n%d", i, n, o)
				}
			}
			if remote != 500 {
				t.Fatalf("client %d got %d remote messages", i, remote)
			}
		}
		if n := len(h.server.clients); n != clients/2 {
			t.Errorf("%d clients", n)
		}
		for range 500 { // connect, join, reset (failure-cases IRC 19)
			c := h.dial()
			c.send("NICK x", "USER u 0 * :u", "JOIN #storm,#cycle")
			c.conn.Close()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if s := h.server; len(s.clients) != clients/2 || len(s.nicks) != clients/2 || len(s.convs["#storm"].members) != clients/2 {
			t.Errorf("%d clients, %d nicks, %d members", len(s.clients), len(s.nicks), len(s.convs["#storm"].members))
		}
	})
}

// newLoop is a server without goroutines, and a registered client: for fuzzing.
func newLoop(t testing.TB, change func(*Config)) (*Server, *fakeGraph) {
	g, keys := newFakeGraph(), new(Keys)
	o := &fakeOutbox{graph: g, keys: keys, logical: map[eventgraph.ID]Accepted{}}
	g.own, g.keys = o.Logical, keys
	cfg := Config{Log: g, Outbox: o, Keys: keys}
	if change != nil {
		change(&cfg)
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.caughtUp = true
	return s, g
}

// input does what a reader does with one line.
func (s *Server) input(t testing.TB, c *client, line string) {
	s.handle(t.Context(), evLine{c, line})
	for j := <-c.resume; j != nil; j = <-c.resume {
		s.handle(t.Context(), j(t.Context()))
	}
}

// output takes and checks what was sent to c.
func output(t testing.TB, c *client) (lines []string) {
	tc := &testClient{t: t}
	for {
		chunk, _ := c.queue.take()
		if len(chunk) == 0 {
			break
		}
		c.queue.written(len(chunk))
		lines = append(lines, string(chunk))
	}
	all := strings.Join(lines, "")
	lines = nil
	for l := range strings.Lines(all) {
		tc.check(l)
		lines = append(lines, l)
	}
	return lines
}

func connect(s *Server, t testing.TB, nick string, caps capSet) *client {
	c := newClient(nil, false, 1<<20)
	s.handle(t.Context(), evOpen{c})
	s.input(t, c, "NICK "+nick)
	s.input(t, c, "USER "+nick+" 0 * :r")
	c.caps = caps
	return c
}

// FuzzInput: no sequence of lines breaks the server or makes it send anything but lines.
func FuzzInput(f *testing.F) {
	for name := range commands {
		f.Add(name + "\n" + name + " #dev\n" + name + " #dev alice :x y\n" + name + " alice bob :\n@label=1 " + name + " a b c d e\n" + name + " :")
	}
	f.Add("PRIVMSG #dev :" + strings.Repeat("😃", 300))
	f.Add("CAP REQ :-batch echo-message\nPRIVMSG Bob :x\nNICK Bob\nJOIN #a,#b,,#c k\nTOPIC #a ::\nPART #a,#b ::x")
	f.Add("@+x=\\:\\s;label=\\: TAGMSG #dev\n\xff\xfe\nPRIVMSG #dev,alice,bob,#dev :x\r")
	ours, _ := people(f)
	f.Fuzz(func(t *testing.T, input string) {
		s, g := newLoop(t, func(c *Config) {
			c.Settings = ours
			c.Settings.Autojoin = []string{"#dev"}
			c.Settings.MOTD = []string{"hello"}
		})
		a, b, c := connect(s, t, "alice", allCaps&^capNoHistory), connect(s, t, "bobby", 0), newClient(nil, false, 1<<20)
		s.handle(t.Context(), evOpen{c})
		for l := range strings.SplitSeq(input, "\n") {
			if len(l) > maxInput {
				return
			}
			s.input(t, a, l)
			s.input(t, c, l)
			output(t, a)
			output(t, c)
			output(t, b)
		}
		s.handle(t.Context(), evTick{time.Now()})
		for q := range slicesOf(s.cfg.Outbox.(*fakeOutbox)) {
			content, err := s.cfg.Keys.Materialise(q.m.AppendTo(nil))
			if err != nil {
				t.Fatalf("accepted, but cannot go out: %v", err)
			}
			if _, err := privmsg.Decode(content); err != nil {
				t.Fatal(err)
			}
		}
		if len(g.arrivals) != 0 {
			t.Fatal("an event was made")
		}
	})
}

func slicesOf(o *fakeOutbox) func(yield func(queued) bool) {
	return func(yield func(queued) bool) {
		for _, q := range o.queue {
			if !yield(q) {
				return
			}
		}
	}
}

// FuzzEvent: no content of an event makes the server send anything but lines of PRIVMSG from
// somebody on the network (T1).
func FuzzEvent(f *testing.F) {
	f.Add("#dev", "rob", "hi")
	f.Add("#dev", "x\r\nQUIT", "a\nb\r\nc\x00\x01ACTION x\x01")
	f.Add("Bob", "rob", "forged")
	f.Add("#DEV", strings.Repeat("é", 40), strings.Repeat("😃\n", 300))
	ours, _ := people(f)
	f.Fuzz(func(t *testing.T, channel, nick, text string) {
		s, _ := newLoop(t, func(c *Config) { c.Settings = ours })
		a := connect(s, t, "alice", allCaps&^capNoHistory)
		s.input(t, a, "JOIN #dev")
		output(t, a)
		m := privmsg.Message{Channel: channel, Nick: nick, Text: text}
		fd := feed{s: s, ring: s.ring}
		e := eventgraph.Event{Content: m.AppendTo(nil)}
		in, ok := fd.open(&Arrival{Seq: 1, ID: e.ID().String(), Came: time.Now(), Content: e.Content, Event: e.ID()})
		if !ok {
			return
		}
		s.handle(t.Context(), evArrival{0, in})
		b := connect(s, t, "bobby", 0)
		s.input(t, b, "JOIN #dev")
		for _, l := range output(t, a) {
			if strings.Contains(l, " JOIN ") {
				continue
			}
			_, l, _ = strings.Cut(l, " ") // tags
			head, _, _ := strings.Cut(l, " :")
			source, rest, _ := strings.Cut(head, " ")
			if rest != "PRIVMSG #Dev" || !strings.HasSuffix(source, "!~net@darkirc") || strings.HasPrefix(source, ":alice!") {
				t.Fatalf("%q", l)
			}
		}
		output(t, b)
	})
}

// FuzzDecodeMessage: what decodes encodes to the same bytes, and nothing else is a record.
func FuzzDecodeMessage(f *testing.F) {
	ours, _ := people(f)
	ring, err := ours.keyring()
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range []string{"#dev", "#secret", "Bob"} {
		kind, spelling, print, _ := ring.Lookup(name)
		m := Message{privmsg.Sealed{Kind: kind, Name: spelling, Fingerprint: print}, "nick", "text", false}
		f.Add(m.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMessage(b)
		if err != nil {
			if !errors.Is(err, ErrRecord) || m != (Message{}) {
				t.Fatalf("%v", err)
			}
			return
		}
		if got := m.AppendTo(nil); string(got) != string(b) {
			t.Fatalf("%x is written %x", b, got)
		}
		if s := fmt.Sprintf("%v %+v %#v %s", m, m, m, &m); strings.Contains(s, m.text) && len(m.text) > 20 {
			t.Fatal("prints itself")
		}
	})
}
