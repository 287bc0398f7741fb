package ircd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hearsay/outbound"
)

// knownNetwork can say more than a Network must.
type knownNetwork struct {
	troubledNetwork
	peers []Peer
	sync  SyncProgress
}

func (n *knownNetwork) Peers() []Peer { return n.peers }

// A queueNetwork knows of the queue, too.
type queueNetwork struct {
	knownNetwork
	err     error
	blocked outbound.Reason
}

func (n *queueNetwork) Blocked() (outbound.Notice, bool) {
	return outbound.Notice{Reason: n.blocked, Want: 2}, n.blocked != outbound.ReasonNone
}

func (n *queueNetwork) QueueLine() (string, error) { return "2 messages wait", n.err }

func (n *knownNetwork) Sync() SyncProgress {
	n.troubledNetwork.mu.Lock()
	defer n.troubledNetwork.mu.Unlock()
	return n.sync
}

func (n *knownNetwork) progress(done, of int) {
	n.troubledNetwork.mu.Lock()
	defer n.troubledNetwork.mu.Unlock()
	n.sync = SyncProgress{done, of}
}

// said are the texts that a service said.
func said(lines []string) []string {
	var all []string
	for _, l := range lines {
		if _, text, ok := strings.Cut(l, ":*status!status@hearsay NOTICE alice :"); ok {
			all = append(all, text)
		}
	}
	return all
}

// TestStatus: what "*status" can be asked (issue 5).
func TestStatus(t *testing.T) {
	n := &knownNetwork{peers: []Peer{{"7", "outbound", "quic"}, {"9", "inbound", "tcp+tls"}}}
	n.st = NetworkState{2, 2, true, 2}
	var asked []string
	serve(t, func(c *Config, _ *fakeGraph) {
		c.Network = n
		c.Settings, _ = people(t)
		c.Reload = func(context.Context) (Summary, error) { return Summary{Changed: []string{"channel #x is new"}}, nil }
		c.StatusCommands = []StatusCommand{
			{Name: "QUEUE", Alias: "Q", Usage: "QUEUE LIST", Help: "what waits", More: []string{"more of it"}, Run: func(_ context.Context, args []string, rest string) ([]string, error) {
				asked = append(asked, strings.Join(args, "|")+"="+rest)
				if len(args) == 0 {
					return []string{"half"}, ErrUsage
				}
				if len(args) > 1 {
					return nil, errors.New("not\nyours")
				}
				return []string{"one", "two\nhalves"}, nil
			}},
			{Name: "VERSION", Usage: "VERSION", Help: "more of it", Run: func(context.Context, []string, string) ([]string, error) { return []string{"mine"}, nil }},
		}
	}, func(h *harness) {
		a := h.join("alice", "#chan")
		ask := func(text string) []string { return said(a.do("PRIVMSG *status :" + text)) }
		time.Sleep(65 * time.Second)
		want(t, ask("status"), "hearsay, up 1m5s, 1 client, 4 conversations", "Connected to 2 peers")
		want(t, ask("PEERS"), "7: outbound, quic", "9: inbound, tcp+tls")
		want(t, ask("channels"), "#chan: public, 1 here or heard, 0 messages kept", "#Dev: public, configured, 0 here or heard, 0 messages kept",
			"#secret: encrypted, configured, 0 here or heard, 0 messages kept")
		lines := ask("contacts")
		ours := h.server.settings.Contacts[0]
		want(t, lines[:1], "Bob: their key "+ours.Public.Base58()+", yours for them "+ours.Secret.Public().Base58())
		for _, l := range lines {
			if strings.Contains(l, ours.Secret.Base58()) {
				t.Error("shows a secret")
			}
		}
		want(t, ask("rehash"), "REHASH: channel #x is new")
		want(t, ask("clients"), "alice: since 2000-01-01 00:00:00 UTC")
		want(t, ask("nosuch thing"), "There is no command nosuch; HELP lists them")
		help := ask("help")
		wantPart(t, help[1:3], "STATUS: ", "QUEUE LIST: ") // what people ask most comes first
		wantPart(t, help, "QUEUE LIST: what waits", "VERSION: more of it", "REHASH: ", "HELP [command]: ")
		if n := count(help, "VERSION: "); n != 1 {
			t.Errorf("VERSION %d times", n)
		}
		want(t, ask("  "), help...)

		// What the node adds.
		want(t, ask("version"), "mine")
		want(t, ask("queue  list"), "one", "two halves")
		want(t, ask("queue cancel  7"), "QUEUE failed: not", "QUEUE failed: yours")
		want(t, ask("q list"), "one", "two halves")
		want(t, ask("queue"), "half", "Usage: QUEUE LIST")
		want(t, asked, "list=list", "cancel|7=cancel  7", "list=list", "=")

		// Help for one command, whoever answers it; and what is no use of it.
		want(t, ask("help queue"), "QUEUE LIST: what waits", "more of it")
		want(t, ask("HELP q"), "QUEUE LIST: what waits", "more of it")
		wantPart(t, ask("help contacts"), "CONTACTS [ADD name [their-key]|CARD name|REMOVE name]: ", "CONTACTS REMOVE name: forgets them")
		want(t, ask("help nosuch"), "There is no command nosuch; HELP lists them")
		for _, name := range []string{"STATUS", "PEERS", "CLIENTS", "REHASH"} {
			want(t, ask(name+" please"), "Usage: "+name)
		}

		want(t, a.do("NOTICE *status :help"))
		want(t, a.do("PRIVMSG *status :\x01VERSION\x01"))
		want(t, said(a.do("PRIVMSG *STATUS :version")), "mine")
		if h.outbox.n != 0 {
			t.Errorf("%d accepted", h.outbox.n)
		}
	})
}

// TestStatusWithoutANode: nothing is invented where there is nothing to tell.
func TestStatusWithoutANode(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.register("alice")
		ask := func(text string) []string { return said(a.do("PRIVMSG *status :" + text)) }
		want(t, ask("STATUS"), "hearsay, up 0s, 1 client, 0 conversations", "There is no network")
		want(t, ask("PEERS"), "This node does not tell about its peers")
		want(t, ask("CHANNELS"), "There are no channels yet: JOIN one")
		want(t, ask("CONTACTS")[:1], "You have no contacts")
		want(t, ask("REHASH"), "This server cannot re-read its configuration")
		want(t, ask("VERSION"), "hearsay")
	})
}

// TestStatusOfTheQueue: STATUS says how far the own messages have got, or why it cannot.
func TestStatusOfTheQueue(t *testing.T) {
	n := &queueNetwork{}
	serve(t, func(c *Config, _ *fakeGraph) { c.Network = n }, func(h *harness) {
		a := h.register("alice")
		ask := func(text string) []string { return said(a.do("PRIVMSG *status :" + text)) }
		want(t, ask("STATUS")[1:], "No peer is connected: what you say is kept and sent later", "2 messages wait")
		for _, said := range []outbound.Reason{outbound.ReasonNotSynced, outbound.ReasonConnections, outbound.ReasonNoAck} {
			n.blocked = said // by the two other lines
			if lines := ask("STATUS"); len(lines) != 3 {
				t.Errorf("%v: %q", said, lines)
			}
		}
		n.blocked = outbound.ReasonKey
		wantPart(t, ask("STATUS"), "put it back and REHASH")
		n.blocked = outbound.ReasonNone
		n.err = errors.New("the disk\nis gone")
		want(t, ask("STATUS")[2:], "STATUS failed: the disk", "STATUS failed: is gone")
	})
}

// TestStatusIsEchoedAndLabelled: failure-cases IRC 10 and 11.
func TestStatusIsEchoedAndLabelled(t *testing.T) {
	var release chan struct{}
	serve(t, func(c *Config, _ *fakeGraph) {
		release = make(chan struct{}) // of the bubble
		c.StatusCommands = []StatusCommand{{Name: "SLOW", Run: func(context.Context, []string, string) ([]string, error) {
			<-release
			return []string{"done"}, nil
		}}}
	}, func(h *harness) {
		a := h.register("alice", "echo-message", "labeled-response", "batch")
		b := h.register("b")
		want(t, a.do("@label=x PRIVMSG *status :slow"))
		wantPart(t, b.do("PING x"), "PONG") // who asks waits, nobody else
		close(release)
		want(t, a.got(), "@label=x :irc.hearsay BATCH +1 labeled-response", "@batch=1 :alice!~alice@hearsay PRIVMSG *status :slow",
			"@batch=1 :*status!status@hearsay NOTICE alice :done", ":irc.hearsay BATCH -1")
	})
}

// TestStatusCommandsAreChecked: a command that could not be called is an error at the start.
func TestStatusCommandsAreChecked(t *testing.T) {
	run := func(context.Context, []string, string) ([]string, error) { return nil, nil }
	for _, bad := range [][]StatusCommand{
		{{Name: "X"}}, {{Name: "", Run: run}}, {{Name: "x", Run: run}}, {{Name: "X Y", Run: run}}, {{Name: "X", Run: run}, {Name: "X", Run: run}},
	} {
		if _, err := New(Config{Log: newFakeGraph(), Outbox: &fakeOutbox{}, StatusCommands: bad}); !errors.Is(err, ErrConfig) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestNickServCommands: each of darkirc's commands is answered that rate limiting is off
// (facts 3.8).
func TestNickServCommands(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.register("alice")
		for _, cmd := range []string{"HELP", "HELP SET", "INFO", "info x", "REGISTER a b c 100", "SET a", "DEREGISTER a", "SLASH a CONFIRM", "nonsense", " "} {
			lines := a.do("PRIVMSG nickserv :" + cmd)
			if len(lines) != 1 || !strings.HasPrefix(lines[0], ":NickServ!NickServ@hearsay NOTICE alice :Rate limiting (RLN) is off") {
				t.Errorf("%q: %q", cmd, lines)
			}
		}
		wantPart(t, a.do("PRIVMSG ChanServ :HELP"), ":ChanServ!ChanServ@hearsay NOTICE alice :Rate limiting (RLN) is off")
	})
}

// TestWelcomeIsShort: at most five lines that say whether anybody is there and how to go on.
func TestWelcomeIsShort(t *testing.T) {
	n := &knownNetwork{}
	var st Settings
	serve(t, func(c *Config, _ *fakeGraph) {
		c.Network = n
		st, _ = people(t)
		c.Settings = Settings{}
	}, func(h *harness) {
		greeting := func(nick string) []string {
			return texts(h.dial().do("NICK "+nick, "USER a 0 * :a"), "NOTICE")
		}
		const hint = "For direct messages you need contacts: /msg *status CONTACTS says how to add one"
		want(t, greeting("a"), "No peer is connected: what you say is kept and sent later", hint)
		n.set(NetworkState{3, 2, true, 3})
		n.have("one", "two", "three")
		want(t, greeting("b"), "Connected to 3 peers", "one", "two", "three", hint)
		n.have("one", "two", "three", "four")
		want(t, greeting("c"), "Connected to 3 peers", "one", "two", "There is more to see to: /msg *status STATUS", hint)
		n.have()
		if _, err := h.server.Apply(h.t.Context(), st); err != nil {
			t.Fatal(err)
		}
		want(t, greeting("d"), "Connected to 3 peers", "/msg *status HELP says what can be asked of this node")
	})
}

// TestSyncProgress: the start, at most one line in ten seconds, and the end (issue 5).
func TestSyncProgress(t *testing.T) {
	n := &knownNetwork{}
	n.st = NetworkState{3, 2, true, 3}
	serve(t, func(c *Config, _ *fakeGraph) { c.Network = n }, func(h *harness) {
		a, std := h.register("alice"), h.register("std", "standard-replies")
		time.Sleep(noticeInterval + tick)
		want(t, a.got())
		for i := range 35 { // seconds
			n.progress(i, 40)
			time.Sleep(time.Second)
		}
		lines := a.got()
		if len(lines) != 4 {
			t.Errorf("%d lines in 35 seconds: %q", len(lines), lines)
		}
		wantPart(t, lines[:1], ":irc.hearsay NOTICE alice :Getting the recent history: ")
		wantPart(t, std.got(), ":irc.hearsay NOTE * SYNC :Getting the recent history: ")
		time.Sleep(20 * time.Second) // nothing moves: nothing to say
		if l := a.got(); len(l) > 1 {
			t.Errorf("%q", l)
		}
		n.progress(40, 40)
		time.Sleep(2 * time.Second)
		want(t, a.got(), ":irc.hearsay NOTICE alice :The recent history is here")
		time.Sleep(15 * time.Second)
		want(t, a.got())
	})
}

// TestSyncWithoutPeers: nothing is said of a sync that nobody can help with.
func TestSyncWithoutPeers(t *testing.T) {
	n := &knownNetwork{}
	n.progress(1, 24)
	serve(t, func(c *Config, _ *fakeGraph) { c.Network = n }, func(h *harness) {
		a := h.register("alice")
		time.Sleep(3 * noticeInterval)
		want(t, a.got())
		n.set(NetworkState{1, 1, true, 1})
		time.Sleep(3 * noticeInterval)
		want(t, a.got(), ":irc.hearsay NOTICE alice :Connected to 1 peer", ":irc.hearsay NOTICE alice :Getting the recent history: 1 of 24 parts")
	})
}

// FuzzStatus: whatever is asked of a service is answered in lines that are fit to be sent.
func FuzzStatus(f *testing.F) {
	for _, s := range []string{"help", "contacts", "QUEUE \x01", strings.Repeat("x", 600), "é😃", ""} {
		f.Add(s)
	}
	s, err := New(Config{Log: newFakeGraph(), Outbox: &fakeOutbox{}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c := newClient(nil, false, 1<<20)
		c.nick, c.user, c.registered, c.caps = "a", "a", true, capEchoMessage
		rq := s.parse(c, fmt.Sprintf("PRIVMSG *status :%s", text))
		if rq == nil || rq.param(1) == "" {
			return
		}
		s.service(rq, "*status")
		chunk, _ := c.queue.take()
		if len(chunk) == 0 && !strings.ContainsRune(text, '\x01') {
			t.Errorf("%q: no answer", text)
		}
		for l := range strings.Lines(string(chunk)) {
			if len(l) > maxLine || !strings.HasSuffix(l, "\r\n") {
				t.Errorf("%q", l)
			}
		}
	})
}
