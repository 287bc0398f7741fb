package rpc

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// testMethods are upstream's, and two of our own.
func testMethods(u Upstream) map[string]Method {
	m := u.Methods()
	m["hearsay.status"] = Method{Call: func(context.Context, json.RawMessage) (any, error) { return map[string]int{"a": 1}, nil }}
	m["hearsay.fail"] = Method{Call: func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("secret reason") }}
	return m
}

func testUpstream() Upstream {
	return Upstream{
		P2P: func() P2PInfo {
			return P2PInfo{Channels: []Channel{{"tcp://192.0.2.1:1/", "outbound", 7}}, OutboundSlots: []uint32{7, 0}}
		},
		Net: NewFeed("dnet.subscribe_events"),
		Deg: NewFeed("deg.subscribe_events"),
		Graph: func(_ context.Context, content bool) iter.Seq2[GraphNode, error] {
			return func(yield func(GraphNode, error) bool) {
				for i := range 2 {
					n := GraphNode{ID: fmt.Sprintf("%064x", i), Timestamp: 5, Parents: []string{"00"}, Layer: uint64(i)}
					if content {
						n.Content = "3vQB7B6MrGQZaxCuFg4oh"
					}
					if !yield(n, nil) {
						return
					}
				}
			}
		},
	}
}

// start runs a server until the test ends.
func start(t testing.TB, cfg Config) *Server {
	t.Helper()
	if cfg.Socket == "" {
		cfg.Socket = filepath.Join(t.TempDir(), "s.sock")
	}
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return s
}

// A pipe is the client's end of an in-memory connection.
type pipe struct {
	net.Conn
	r *bufio.Reader
}

// connect serves one in-memory client.
func connect(t testing.TB, s *Server, owner bool) *pipe {
	t.Helper()
	near, far := net.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { s.serve(t.Context(), far, owner) })
	t.Cleanup(func() { _ = near.Close(); wg.Wait() })
	return &pipe{near, bufio.NewReader(near)}
}

func (p *pipe) ask(t testing.TB, line string) string {
	t.Helper()
	if _, err := io.WriteString(p, line+"\n"); err != nil {
		t.Fatal(err)
	}
	return p.line(t)
}

func (p *pipe) line(t testing.TB) string {
	t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(10 * time.Second))
	line, err := p.r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(line, "\r\n") {
		t.Errorf("%q does not end in CRLF", line)
	}
	return strings.TrimRight(line, "\r\n")
}

func newServer(u Upstream) *Server {
	cfg := Config{Socket: "unused", Methods: testMethods(u)}
	if err := cfg.validate(); err != nil {
		panic(err)
	}
	return &Server{cfg: cfg}
}

func TestRequests(t *testing.T) {
	s := newServer(testUpstream())
	for _, c := range []struct{ in, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, `{"jsonrpc":"2.0","id":1,"result":"pong"}`},
		{`{"jsonrpc":"2.0","id":"12","method":"ping"}`, `{"jsonrpc":"2.0","id":"12","result":"pong"}`},
		{`{"id":1,"method":"ping","params":null}` + "\r", `{"jsonrpc":"2.0","id":1,"result":"pong"}`},
		{`{"id":null,"method":"ping","params":{"a":1}}`, `{"jsonrpc":"2.0","id":null,"result":"pong"}`},
		{`{"id":1,"method":"dnet.switch","params":[true]}`, `{"jsonrpc":"2.0","id":1,"result":true}`},
		{`{"id":1,"method":"dnet.switch","params":[]}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params"}}`},
		{`{"id":1,"method":"dnet.switch","params":[1]}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params"}}`},
		{`{"id":1,"method":"dnet.switch","params":[null]}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params"}}`},
		{`{"id":1,"method":"deg.switch","params":[false]}`, `{"jsonrpc":"2.0","id":1,"result":true}`},
		{`{"id":1,"method":"ping","params":3}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params"}}`},
		{`{"id":1,"method":"nope"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"method not found"}}`},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"invalid request"}}`},
		{`{"id":[1],"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}`},
		{`{"id":1}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"invalid request"}}`},
		{`[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid request"}}`},
		{`{"id":1,"method":"hearsay.status"}`, `{"jsonrpc":"2.0","id":1,"result":{"a":1}}`},
		{`{"id":1,"method":"hearsay.fail"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"internal error"}}`},
		{
			`{"id":1,"method":"p2p.get_info","params":[]}`,
			`{"jsonrpc":"2.0","id":1,"result":{"channels":[{"url":"tcp://192.0.2.1:1/","session":"outbound","id":7}],"outbound_slots":[7,0]}}`,
		},
		{
			`{"id":1,"method":"eventgraph.get_info","params":[]}`,
			`{"jsonrpc":"2.0","id":1,"result":{"eventgraph_info":{"dag":{` +
				`"` + strings.Repeat("0", 64) + `":{"timestamp":5,"content":"","parents":["00"],"layer":0},` +
				`"` + strings.Repeat("0", 63) + `1":{"timestamp":5,"content":"","parents":["00"],"layer":1}}}}}`,
		},
		{`{"id":1,"method":"eventgraph.get_info","params":[1]}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"invalid params"}}`},
		// A notification gets no reply; the blank line and the next request do as ever.
		{`{"method":"ping"}` + "\n\r\n" + `{"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"result":"pong"}`},
	} {
		if got := connect(t, s, true).ask(t, c.in); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.in, got, c.want)
		}
	}
}

// DS-44: the content of events is shown only where it was enabled by name.
func TestGraphContent(t *testing.T) {
	u := testUpstream()
	const ask = `{"id":1,"method":"eventgraph.get_info"}`
	if got := connect(t, newServer(u), true).ask(t, ask); strings.Contains(got, "3vQB7") {
		t.Error(got)
	}
	u.Content = true
	if got := connect(t, newServer(u), true).ask(t, ask); strings.Count(got, `"content":"3vQB7B6MrGQZaxCuFg4oh"`) != 2 {
		t.Error(got)
	}
}

// Over TCP only upstream's methods exist, and disabled ones exist nowhere.
func TestWhoMayCall(t *testing.T) {
	s := newServer(testUpstream())
	const notFound = `"code":-32601`
	if got := connect(t, s, false).ask(t, `{"id":1,"method":"hearsay.status"}`); !strings.Contains(got, notFound) {
		t.Error(got)
	}
	for name := range testUpstream().Methods() {
		if _, ok := s.method(name, false); !ok {
			t.Error(name, "is not offered over TCP")
		}
	}
	s.cfg.Disabled = []string{"p2p.get_info", "dnet.subscribe_events"}
	for _, owner := range []bool{true, false} {
		for _, name := range s.cfg.Disabled {
			if got := connect(t, s, owner).ask(t, `{"id":1,"method":"`+name+`"}`); !strings.Contains(got, notFound) {
				t.Error(got)
			}
		}
	}
}

// Malformed JSON and a line past the bound close the connection; one at the bound
// is answered.
func TestBadLinesClose(t *testing.T) {
	s := newServer(testUpstream())
	for _, line := range []string{"{", "GET / HTTP/1.1", "{}{}", strings.Repeat(" ", maxRequest), "\x80"} {
		c := connect(t, s, true)
		go func() { _, _ = io.WriteString(c, line+"\n") }()
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if b, err := io.ReadAll(c); err != nil || len(b) > 0 {
			t.Errorf("%.20q: %q, %v", line, b, err)
		}
	}
	const ask = `{"id":1,"method":"ping"}`
	if got := connect(t, s, true).ask(t, ask+strings.Repeat(" ", maxRequest-len(ask)-1)); !strings.Contains(got, "pong") {
		t.Error(got)
	}
}

func TestSubscription(t *testing.T) {
	u := testUpstream()
	s := newServer(u)
	c := connect(t, s, false)
	if _, err := io.WriteString(c, `{"id":1,"method":"dnet.subscribe_events","params":[]}`+"\n"); err != nil {
		t.Fatal(err)
	}
	if got := c.ask(t, `{"id":2,"method":"dnet.switch","params":[true]}`); got != `{"jsonrpc":"2.0","id":2,"result":true}` {
		t.Error("a subscription has no direct reply:", got)
	}
	go func() {
		u.Net.Publish(NetEvent{"send", NewMessageInfo("tcp://192.0.2.1:1/", 9, "ping", time.Unix(1, 5))})
		u.Net.Publish(NetEvent{"outbound_slot_connected", map[string]any{"slot": 0, "addr": "tcp://192.0.2.1:1/", "channel_id": 9}})
		u.Net.Switch(false)
		u.Net.Publish(NetEvent{"recv", nil})
		u.Net.Switch(true)
		u.Net.Publish(NetEvent{"outbound_slot_disconnected", map[string]any{"slot": 0, "err": "gone"}})
	}()
	for _, want := range []string{
		`{"jsonrpc":"2.0","method":"dnet.subscribe_events","params":[{"event":"send","info":{"chan":{"addr":"tcp://192.0.2.1:1/","id":9},"cmd":"ping","time":"1000000005"}}]}`,
		`{"jsonrpc":"2.0","method":"dnet.subscribe_events","params":[{"event":"outbound_slot_connected","info":{"addr":"tcp://192.0.2.1:1/","channel_id":9,"slot":0}}]}`,
		`{"jsonrpc":"2.0","method":"dnet.subscribe_events","params":[{"event":"outbound_slot_disconnected","info":{"err":"gone","slot":0}}]}`,
	} {
		if got := c.line(t); got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
}

func TestTooManySubscriptions(t *testing.T) {
	c := connect(t, newServer(testUpstream()), true)
	for i := range maxSubscriptions {
		if _, err := fmt.Fprintf(c, "{\"id\":%d,\"method\":\"deg.subscribe_events\"}\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.ask(t, `{"id":99,"method":"deg.subscribe_events"}`); !strings.Contains(got, "too many subscriptions") {
		t.Error(got)
	}
}

// A subscriber that does not read is dropped, at the backlog's end or by the
// write's time limit, and Publish never waits for it.
func TestSlowSubscriberIsDropped(t *testing.T) {
	for name, notifications := range map[string]int{"backlog": feedBacklog + 2, "time": 1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := testUpstream()
				s := newServer(u)
				near, far := net.Pipe()
				served := make(chan struct{})
				go func() { s.serve(t.Context(), far, true); close(served) }()
				if _, err := io.WriteString(near, `{"id":1,"method":"dnet.subscribe_events"}`+"\n"); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				u.Net.Switch(true)
				began := time.Now()
				for range notifications {
					u.Net.Publish(NetEvent{"recv", nil})
					synctest.Wait()
				}
				if time.Since(began) != 0 {
					t.Error("Publish waited for a subscriber")
				}
				<-served
				if name == "time" && time.Since(began) != writeTimeout {
					t.Error("dropped after", time.Since(began))
				}
				if len(u.Net.subs) != 0 {
					t.Error("still subscribed")
				}
			})
		})
	}
}

func TestIdleTCPClientIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, owner := range []bool{false, true} {
			near, far := net.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			served := make(chan struct{})
			go func() { newServer(testUpstream()).serve(ctx, far, owner); close(served) }()
			time.Sleep(idleTimeout + time.Second)
			synctest.Wait()
			select {
			case <-served:
				if owner {
					t.Error("the owner's connection was closed")
				}
			default:
				if !owner {
					t.Error("an idle TCP client is still there")
				}
			}
			cancel()
			<-served
			_ = near.Close()
		}
	})
}

func TestClientAgainstServer(t *testing.T) {
	u := testUpstream()
	s := start(t, Config{Methods: testMethods(u), Listen: []string{"tcp://127.0.0.1:0"}})
	c, err := Dial(s.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var status map[string]int
	if err := c.Call(t.Context(), "hearsay.status", nil, &status); err != nil || status["a"] != 1 {
		t.Error(status, err)
	}
	var pong string
	if err := c.Call(t.Context(), "ping", nil, &pong); err != nil || pong != "pong" {
		t.Error(pong, err)
	}
	var rpcErr *Error
	if err := c.Call(t.Context(), "nope", nil, nil); !errors.As(err, &rpcErr) || rpcErr.Code != CodeMethodNotFound {
		t.Error(err)
	}
	var g struct {
		Info struct {
			DAG map[string]GraphNode `json:"dag"`
		} `json:"eventgraph_info"`
	}
	if err := c.Call(t.Context(), "eventgraph.get_info", nil, &g); err != nil || len(g.Info.DAG) != 2 {
		t.Error(g, err)
	}
	// The TCP listener has its own rules, over a real socket too.
	nc, err := net.Dial("tcp", s.Addrs()[1].String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	p := &pipe{nc, bufio.NewReader(nc)}
	if got := p.ask(t, `{"id":1,"method":"hearsay.status"}`); !strings.Contains(got, "-32601") {
		t.Error(got)
	}
	if got := p.ask(t, `{"id":1,"method":"ping"}`); !strings.Contains(got, "pong") {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Call(ctx, "ping", nil, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestHTTP(t *testing.T) {
	s := start(t, Config{Methods: testMethods(testUpstream()), Listen: []string{"http+tcp://127.0.0.1:0"}})
	url := "http://" + s.Addrs()[1].String() + "/"
	post := func(method, body, kind, origin string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", kind)
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, strings.TrimSpace(string(b))
	}
	const ask = `{"id":1,"method":"ping"}`
	if code, got := post("POST", ask, "application/json", ""); code != 200 || got != `{"jsonrpc":"2.0","id":1,"result":"pong"}` {
		t.Error(code, got)
	}
	for _, method := range []string{"hearsay.status", "dnet.subscribe_events", "nope"} {
		if code, got := post("POST", `{"id":1,"method":"`+method+`"}`, "application/json; charset=utf-8", ""); code != 200 || !strings.Contains(got, "-32601") {
			t.Error(code, got)
		}
	}
	if code, _ := post("POST", ask, "text/plain", ""); code != 403 {
		t.Error("a form of a web page:", code)
	}
	if code, _ := post("POST", ask, "application/json", "http://evil.example"); code != 403 {
		t.Error("a script of a web page:", code)
	}
	if code, _ := post("GET", "", "application/json", ""); code != 405 {
		t.Error(code)
	}
	if code, _ := post("POST", "{", "application/json", ""); code != 400 {
		t.Error(code)
	}
	if code, _ := post("POST", ask+strings.Repeat(" ", maxRequest), "application/json", ""); code != 413 {
		t.Error(code)
	}
	http.DefaultClient.CloseIdleConnections()
}

// ST-01: the socket is its owner's alone, whatever the umask; what a dead process
// left is replaced, what is alive or no socket is not.
func TestSocketFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.sock")
	l, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Error(info.Mode(), err)
	}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			_ = nc.Close()
		}
	}()
	if _, err := listenUnix(path); !errors.Is(err, ErrInUse) {
		t.Error("a living socket was taken:", err)
	}
	// A process that dies leaves its file behind.
	stale := l.(*unixListener)
	if err := stale.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := listenUnix(path)
	if err != nil {
		t.Fatal("a stale socket is in the way:", err)
	}
	// Its late Close must not take the new one away.
	_ = stale.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Error(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("left behind:", err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path); err == nil {
		t.Error("a file was replaced")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "x" {
		t.Error(b, err)
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Error("temporary files left:", names, err)
	}
}

func TestLongSocketPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 120))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Socket: filepath.Join(dir, "s.sock"), Methods: testMethods(testUpstream())})
	c, err := Dial(s.cfg.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(t.Context(), "ping", nil, nil); err != nil {
		t.Error(err)
	}
}

func TestNotRunning(t *testing.T) {
	if _, err := Dial(filepath.Join(t.TempDir(), "none")); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
}

func TestTakenAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket := filepath.Join(t.TempDir(), "s.sock")
	if _, err := Listen(Config{Socket: socket, Listen: []string{"tcp://" + l.Addr().String()}}); err == nil {
		t.Error("listens on a taken port")
	}
	if _, err := os.Lstat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Error("the socket of a server that did not start is still there")
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s := start(t, Config{Methods: testMethods(testUpstream())})
	var conns []net.Conn
	for range maxConns {
		nc, err := dialUnix(s.cfg.Socket, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		conns = append(conns, nc)
	}
	for _, nc := range conns {
		p := &pipe{nc, bufio.NewReader(nc)}
		if got := p.ask(t, `{"id":1,"method":"ping"}`); !strings.Contains(got, "pong") {
			t.Fatal(got)
		}
	}
	extra, err := dialUnix(s.cfg.Socket, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	_ = extra.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := extra.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Error("one connection too many is served:", err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, cfg := range []Config{{}, {Socket: "x", Methods: map[string]Method{"m": {}}}} {
		if _, err := Listen(cfg); err == nil {
			t.Error("accepted", cfg)
		}
	}
	if _, err := Listen(Config{Socket: filepath.Join(t.TempDir(), "s"), Listen: []string{"udp://127.0.0.1:1"}}); err == nil {
		t.Error("accepted udp")
	}
}

func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}`, `{"id":"1","method":"p2p.get_info"}`, `[]`, `{`, `null`, `{"id":{},"method":1}`,
		`{"id":1,"method":"dnet.switch","params":[true]}`, `{"id":1e999,"method":"dnet.subscribe_events"}`, `{"params":{"\u0000":1}}`,
	} {
		f.Add([]byte(s))
	}
	u := testUpstream()
	s := newServer(u)
	f.Fuzz(func(t *testing.T, line []byte) {
		req, err := parseRequest(line)
		if err == nil && (req.Method == "" && !strings.Contains(string(line), `"`)) {
			t.Fatal("a method from nowhere")
		}
		if errors.Is(err, errMalformed) && json.Valid(line) {
			t.Fatal("valid JSON is malformed")
		}
		if err != nil && !errors.Is(err, errMalformed) {
			if rpcErr := (*Error)(nil); !errors.As(err, &rpcErr) {
				t.Fatal(err)
			}
		}
		// Whatever comes, each line that is answered is answered with one line of JSON.
		if slices.Contains(line, '\n') {
			return
		}
		var out strings.Builder
		near, far := net.Pipe()
		done := make(chan struct{})
		go func() { s.serve(t.Context(), far, true); close(done) }()
		go func() {
			_, _ = near.Write(append(slices.Clone(line), "\n{\n"...)) // the second line ends it
		}()
		_, _ = io.Copy(&out, near)
		_ = near.Close()
		<-done
		for l := range strings.Lines(out.String()) {
			if !json.Valid([]byte(l)) {
				t.Fatalf("reply %q", l)
			}
		}
	})
}
