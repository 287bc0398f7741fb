package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/rpc"
)

var noLog = slog.New(slog.DiscardHandler)

// start runs a daemon until the test ends, which must be a clean end.
func start(t *testing.T, cfg *config.Config, reread func() (*config.Config, error)) *daemon {
	t.Helper()
	d, err := openDaemon(t.Context(), cfg, noLog, reread)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("not a clean end:", err)
		}
	})
	return d
}

// solo is the configuration of a node by itself.
func solo(t *testing.T, more string) *config.Config {
	t.Helper()
	return parse(t, fmt.Sprintf("irc_listen = \"tcp://127.0.0.1:0\"\ndatastore = %q\nskip_dag_sync = true\n%s", t.TempDir(), more))
}

func call(t *testing.T, d *daemon, method string, params, result any) {
	t.Helper()
	c, err := rpc.Dial(config.ControlSocket(d.cfg.Datastore))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(t.Context(), method, params, result); err != nil {
		t.Fatal(err)
	}
}

// withTime is a context for one wait.
func withTime(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptTimeout)
	t.Cleanup(cancel)
	return ctx
}

// "Files from plain to Tor, I2P and mixed pass config check and run." Nothing leaves
// this machine: hosts are replaced, and so are ports that could be taken.
func TestSamplesRun(t *testing.T) {
	if testing.Short() {
		t.Skip("starts daemons")
	}
	files, err := filepath.Glob("../../internal/config/testdata/darkirc/*.toml")
	if err != nil || len(files) < 10 {
		t.Fatal(len(files), err)
	}
	host := regexp.MustCompile(`"((?:\w|\+)+)://(?:\[[^]]*\]|[^:/"]+):\d+`)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			cfg, problems := config.Parse(host.ReplaceAll(text, []byte(`"$1://127.0.0.1:1`)), config.Env{Home: dir, ConfigHome: dir, DataHome: dir})
			if cfg == nil {
				t.Fatal(problems)
			}
			cfg.Datastore = filepath.Join(dir, "data")
			if cfg.Net.Hostlist != "" && !filepath.IsAbs(cfg.Net.Hostlist) {
				cfg.Net.Hostlist = filepath.Join(dir, cfg.Net.Hostlist)
			}
			cfg.IRC.Listen = "tcp://127.0.0.1:0"
			if cfg.RPC.Listen != "" {
				cfg.RPC.Listen = "tcp://127.0.0.1:0"
			}
			for i, u := range cfg.Net.Inbound {
				cfg.Net.Inbound[i] = strings.Replace(u, ":1", ":0", 1)
			}
			d := start(t, cfg, nil)
			<-d.node.Listening()
			c, err := dialIRC(withTime(t), d.ircAddr().String(), "a", "")
			if err != nil {
				t.Fatal(err)
			}
			c.close()
		})
	}
}

// ST-01: whatever the umask, nobody else can read what a daemon writes, and a second
// daemon is refused.
func TestDatastore(t *testing.T) {
	cfg := solo(t, "")
	cfg.Datastore = filepath.Join(cfg.Datastore, "new")
	start(t, cfg, nil)
	n := 0
	err := filepath.WalkDir(cfg.Datastore, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a store's temporary file
		}
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		n++
		return err
	})
	if err != nil || n < 5 {
		t.Error(n, err)
	}
	if _, err := openDaemon(t.Context(), cfg, noLog, nil); !errors.Is(err, kv.ErrLocked) {
		t.Error("a second daemon:", err)
	}
	var s statusReport
	call(t, &daemon{cfg: cfg}, "hearsay.status", nil, &s) // the first one was not disturbed

	linked := solo(t, "")
	if err := os.Symlink(t.TempDir(), config.StoreDir(linked.Datastore)); err != nil {
		t.Fatal(err)
	}
	if _, err := openDaemon(t.Context(), linked, noLog, nil); err == nil {
		t.Error("a symlink is followed")
	}
}

// A start that fails late leaves nothing open.
func TestFailedStart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, more := range []string{
		"[metrics]\nlisten = \"" + l.Addr().String() + "\"", "[rpc]\nrpc_listen = \"tcp://" + l.Addr().String() + "\"",
	} {
		cfg := solo(t, more)
		if _, err := openDaemon(t.Context(), cfg, noLog, nil); err == nil {
			t.Fatal("started on a taken port")
		}
		cfg.Metrics.Listen, cfg.RPC.Listen = "", ""
		start(t, cfg, nil)
	}
	// A peer-to-peer port that is taken ends the daemon with an error.
	u, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	cfg := solo(t, "[net]\nlocalnet = true\nactive_profiles = [\"quic\"]\n[net.profiles.quic]\ninbound = [\"quic://"+u.LocalAddr().String()+"\"]")
	d, err := openDaemon(t.Context(), cfg, noLog, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.run(t.Context()); err == nil {
		t.Error("runs without its listener")
	}
}

// The IRC port over TLS, and a certificate that is exchanged while it runs.
func TestTLSReload(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "c"), filepath.Join(dir, "k")
	first, err := writeCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := solo(t, "")
	cfg.IRC = config.IRC{Listen: "tcp+tls://127.0.0.1:0", TLSCert: cert, TLSKey: key}
	d := start(t, cfg, func() (*config.Config, error) { return cfg, nil })
	fingerprint := func() string {
		nc, err := tls.Dial("tcp", d.ircAddr().String(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		return fmt.Sprintf("%x", sha256.Sum256(nc.ConnectionState().PeerCertificates[0].Raw))
	}
	if got := fingerprint(); got != first {
		t.Errorf("serves %s, not %s", got, first)
	}
	for _, path := range []string{cert, key} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	second, err := writeCertificate(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fingerprint(); got != second || second == first {
		t.Errorf("serves %s, not %s", got, second)
	}
}

// Upstream's viewers, status and metrics while a scene is played, and privacy: no
// text, nick, channel or key in any log line, status or metric, and no address in any
// log line (DS-44, failure case 63).
func TestWhatOthersSee(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	var logs lockedBuffer
	s, err := openStage(withTime(t), 0, newLogger(&logs, zerolog.DebugLevel))
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			_ = s.close()
		}
	}()
	a, b := s.nodes[0], s.nodes[2]
	sc := &scene{out: io.Discard, stage: s}
	if err := sc.meet(withTime(t)); err != nil {
		t.Fatal(err)
	}
	viewer, err := net.Dial("unix", config.ControlSocket(a.cfg.Datastore))
	if err != nil {
		t.Fatal(err)
	}
	defer viewer.Close()
	_, _ = io.WriteString(viewer, `{"id":1,"method":"dnet.subscribe_events","params":[]}`+"\n"+`{"id":2,"method":"dnet.switch","params":[true]}`+"\n")
	events := bufio.NewReader(viewer)
	if line, err := events.ReadString('\n'); err != nil || !strings.Contains(line, `"result":true`) {
		t.Fatal(line, err)
	}

	alice, err := dialIRC(withTime(t), a.ircAddr().String(), "canarynick", "")
	if err != nil {
		t.Fatal(err)
	}
	defer alice.close()
	bob, err := dialIRC(withTime(t), b.ircAddr().String(), "otherbird", "")
	if err != nil {
		t.Fatal(err)
	}
	defer bob.close()
	for _, c := range []*ircClient{alice, bob} {
		for _, channel := range []string{demoPublic, demoSecret, "#canarychannel"} {
			if err := c.join(withTime(t), channel); err != nil {
				t.Fatal(channel, err)
			}
		}
	}
	for _, channel := range []string{demoPublic, demoSecret, "#canarychannel"} {
		alice.send("PRIVMSG " + channel + " :canarytext")
		if _, err := bob.waitMessage(withTime(t), "canarynick", channel, "canarytext"); err != nil {
			t.Fatal(err)
		}
	}

	// dnet: the put was seen going out.
	found := false
	for !found {
		_ = viewer.SetReadDeadline(time.Now().Add(scriptTimeout))
		line, err := events.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		found = strings.Contains(line, `"method":"dnet.subscribe_events","params":[{"event":"send","info":{"chan":{"addr":"quic://`) && strings.Contains(line, "EventPut")
	}
	var info rpc.P2PInfo
	call(t, a, "p2p.get_info", nil, &info)
	if len(info.Channels) != 1 || info.Channels[0].Session != "inbound" || !strings.HasPrefix(info.Channels[0].URL, "quic://127.0.0.1:") {
		t.Error(info)
	}
	var graph struct {
		Info struct {
			DAG map[string]rpc.GraphNode `json:"dag"`
		} `json:"eventgraph_info"`
	}
	call(t, a, "eventgraph.get_info", nil, &graph)
	bodies := 0
	for _, n := range graph.Info.DAG {
		if n.Content != "" {
			t.Error("content is shown")
		}
		if len(n.Parents) != 5 {
			t.Error(n.Parents)
		}
		if n.Layer > 0 {
			bodies++
		}
	}
	if bodies != 3 {
		t.Error(bodies, "events")
	}
	var dag dagPage
	nodes := 0
	for from := (&dagCursor{}); from != nil; from = dag.Next {
		dag = dagPage{}
		call(t, a, "hearsay.dag", []any{from}, &dag)
		nodes += len(dag.Nodes)
	}
	if nodes != 4 { // the genesis too
		t.Error(nodes, "nodes")
	}
	var status json.RawMessage
	call(t, a, "hearsay.status", nil, &status)

	closed = true
	if err := s.close(); err != nil {
		t.Error(err)
	}
	keys := []string{a.cfg.Chat.Contacts[0].Secret.Base58(), a.cfg.Chat.Contacts[0].Public.Base58(), a.cfg.Chat.Channels[1].Secret.Base58()}
	for name, text := range map[string]string{"log": logs.String(), "status": string(status)} {
		if len(text) < 200 {
			t.Errorf("%s: only %q", name, text)
		}
		for _, canary := range append(keys, "canary", "otherbird", demoSecret, demoPublic, "127.0.0.1", "quic://") {
			if strings.Contains(text, canary) {
				t.Errorf("%q in the %s: %s", canary, name, text)
			}
		}
	}
}

// A lockedBuffer takes lines from several daemons.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// ST-07: what was accepted before the end still goes out.
func TestLastWordsGoOut(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	for range 5 {
		s, err := openStage(withTime(t), 0, noLog)
		if err != nil {
			t.Fatal(err)
		}
		if err := (&scene{stage: s}).meet(withTime(t)); err != nil {
			t.Fatal(err)
		}
		// A fourth node ends at once after its user has spoken.
		cfg := solo(t, fmt.Sprintf("[outbound]\nmin_connections = 1\n[net]\nmagic_bytes = [%d, %d, %d, %d]\nlocalnet = true\nactive_profiles = [\"quic\"]\n[net.profiles.quic]\npeers = [%q]",
			s.nodes[0].cfg.Net.Magic[0], s.nodes[0].cfg.Net.Magic[1], s.nodes[0].cfg.Net.Magic[2], s.nodes[0].cfg.Net.Magic[3], s.nodes[0].node.ListenAddrs()[0]))
		d, err := openDaemon(t.Context(), cfg, noLog, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- d.run(ctx) }()
		if err := until(withTime(t), "not connected", func() bool { return d.gossip.PutTargets() == 1 }); err != nil {
			t.Fatal(err)
		}
		c, err := dialIRC(withTime(t), d.ircAddr().String(), "dave", "")
		if err != nil {
			t.Fatal(err)
		}
		if err := c.join(withTime(t), demoPublic); err != nil {
			t.Fatal(err)
		}
		c.send("PRIVMSG " + demoPublic + " :goodbye")
		if err := until(withTime(t), "not accepted", func() bool { return d.graph.Stats().Events == 1 }); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		c.close()
		err = until(withTime(t), "lost", func() bool { return s.nodes[2].graph.Stats().Events == 1 })
		if cerr := s.close(); err != nil || cerr != nil {
			t.Fatal(err, cerr)
		}
	}
}

// Metrics are aggregates: no label but those that this program names.
func TestMetrics(t *testing.T) {
	d := start(t, solo(t, "[metrics]\nlisten = \"127.0.0.1:0\""), nil)
	alice, err := dialIRC(withTime(t), d.ircAddr().String(), "canarynick", "")
	if err != nil {
		t.Fatal(err)
	}
	defer alice.close()
	alice.send("JOIN #canary", "PRIVMSG #canary :canarytext")
	if err := until(withTime(t), "not accepted", func() bool { return d.outboundStatus().Depth == 1 }); err != nil {
		t.Fatal(err)
	}
	res, err := http.Get("http://" + d.metrics.listener.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	for _, want := range []string{"\nhearsay_events 0\n", "\nhearsay_queue_depth 1\n", "\nhearsay_queue_accepted_total 1\n", "\nhearsay_queue_sends_total 0\n", "\nhearsay_synced 1\n", "\nhearsay_peers 0\n", "hearsay_statuses_total{result=\"has(inserted)\"} 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "canary") {
		t.Error("a metric tells who says what")
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "hearsay_") && strings.Contains(line, "{") && !strings.HasPrefix(line, "hearsay_statuses_total{result=") {
			t.Error("a label:", line)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// The interactive demo says how to connect, tells what happens, and ends cleanly.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three nodes")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out lockedBuffer
	done := make(chan error, 1)
	go func() { done <- runDemo(ctx, &out, 0) }()
	has := func(what string) {
		t.Helper()
		if err := until(withTime(t), "no "+what, func() bool { return regexp.MustCompile(what).MatchString(out.String()) }); err != nil {
			t.Fatal(err, out.String())
		}
	}
	has(`node1 +irssi -c 127\.0\.0\.1 -p \d+ -n alice`)
	has(`node2  connected to 2 peers`)
	port := regexp.MustCompile(`node1 +irssi -c 127\.0\.0\.1 -p (\d+)`).FindStringSubmatch(out.String())[1]
	alice, err := dialIRC(withTime(t), "127.0.0.1:"+port, "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	defer alice.close()
	if err := alice.join(withTime(t), demoPublic); err != nil {
		t.Fatal(err)
	}
	alice.send("PRIVMSG " + demoPublic + " :hello")
	has(`node1  made and sent event [0-9a-f]{12}`)
	has(`node3  got from a peer and passed on event [0-9a-f]{12}`)
	has(`node1  receipt: a peer says has\(inserted\) of event [0-9a-f]{12}`)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if strings.Contains(out.String(), "hello") {
		t.Error("the demo shows text")
	}
}

func TestDemoPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	for _, args := range [][]string{{"demo"}, {"demo", "--script"}} {
		code, _, errs := cli(t, "", append(args, "--irc-port", fmt.Sprint(port))...)
		if code != 1 || !strings.Contains(errs, fmt.Sprintf("port %d is taken; choose others with --irc-port", port)) {
			t.Error(code, errs)
		}
	}
}
