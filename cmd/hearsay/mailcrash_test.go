package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"hearsay/internal/box"
	"hearsay/internal/config"
	"hearsay/internal/kv"
	"hearsay/internal/rpc"
	"hearsay/mailbox"
	"hearsay/mailbox/endpoint"
	"hearsay/mailbox/relay"
)

// A crashCase is a point at which one of the processes dies, in one of its lives.
type crashCase struct {
	role  string
	life  int
	point string
}

func (c crashCase) String() string { return fmt.Sprintf("%s/%d/%s", c.role, c.life, c.point) }

// A crashProc is a process of the course, which is started again whenever it was killed.
type crashProc struct {
	t       *testing.T
	role    string
	args    []string
	journal string
	dead    func() // looks at what a death left, before the next start
	dies    crashCase

	mu       sync.Mutex
	life     int
	cmd      *exec.Cmd
	stderr   *bytes.Buffer
	ended    chan struct{} // closed when the process of this life, and all its restarts, ended
	stopping bool
	died     int // at the point of the case
	problems []string
}

// up starts the next life, which is over with down.
func (p *crashProc) up() {
	p.t.Helper()
	p.life++
	p.stopping, p.ended = false, make(chan struct{})
	point := ""
	if p.dies.role == p.role && p.dies.life == p.life {
		point = p.dies.point
	}
	if err := p.exec(point); err != nil {
		p.t.Fatal(err)
	}
	go p.supervise()
}

func (p *crashProc) exec(point string) error {
	p.stderr = &bytes.Buffer{}
	p.cmd = exec.Command("hearsay", p.args...)
	p.cmd.Env = append(os.Environ(), journalVar+"="+p.journal, dieVar+"="+point)
	p.cmd.Stderr = p.stderr
	return p.cmd.Start()
}

func (p *crashProc) supervise() {
	defer close(p.ended)
	for {
		err := p.cmd.Wait()
		p.mu.Lock()
		killed, asked := false, false
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			status, ok := exit.Sys().(syscall.WaitStatus)
			killed = ok && status.Signaled() && status.Signal() == syscall.SIGKILL
			asked = ok && status.Signaled() && status.Signal() == syscall.SIGINT // so early that nothing handles it
		}
		lines := readJournal(p.t, p.journal)
		if n := len(lines); killed && n > 0 && slices.ContainsFunc(lines, func(e entry) bool { return e.Died }) && p.died == 0 {
			p.died++
		} else if !p.stopping {
			p.problems = append(p.problems, fmt.Sprintf("%s ended by itself: %v %s", p.role, err, p.stderr))
			p.stopping = true
		} else if !killed && !asked && err != nil {
			p.problems = append(p.problems, fmt.Sprintf("%s: %v %s", p.role, err, p.stderr))
		}
		if killed {
			p.dead()
		}
		if p.stopping {
			p.mu.Unlock()
			return
		}
		if err := p.exec(""); err != nil {
			p.problems = append(p.problems, err.Error())
			p.stopping = true
		}
		p.mu.Unlock()
	}
}

// down ends this life with a signal.
func (p *crashProc) down(sig os.Signal) {
	p.mu.Lock()
	p.stopping = true
	_ = p.cmd.Process.Signal(sig) // it may have died at its point just now
	p.mu.Unlock()
	<-p.ended
}

// A course is one run of mail from Alice to Bob over a relay, with a death in it.
type course struct {
	*testing.T
	dir               string
	dies              crashCase
	relay, alice, bob *crashProc
	cfgA, cfgB, cfgR  *config.Config
	address           mailbox.Address
	ircA, ircB        string
	pair              *box.Box
	alicePub, bobPub  box.PublicKey
	outside           *journal // what the test itself asks, as strangers
	mu                sync.Mutex
	problems          []string
	said, sure        []string // texts that Alice typed; that she saw accepted
	strangers         map[string]endpoint.Requester
}

const crashMagic = 7

// lastPort is the last port that was given by fixedPort.
var lastPort atomic.Uint32

// fixedPort is an address on loopback for a server that is started again and again: its
// port is below those that systems give to clients, so that nobody takes it meanwhile.
func fixedPort(t testing.TB) string {
	t.Helper()
	const low, high = 10_000, 32_000
	lastPort.CompareAndSwap(0, uint32(os.Getpid()))
	for range high - low {
		address := fmt.Sprintf("127.0.0.1:%d", low+lastPort.Add(1)%(high-low))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		defer l.Close()
		pc, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		defer pc.Close()
		return address
	}
	t.Fatal("no free port")
	return ""
}

// newCourse writes the configurations. peer is a node of Alice's network.
func newCourse(t *testing.T, dies crashCase, peer string) *course {
	t.Helper()
	dir, err := os.MkdirTemp("", "hearsay-crash") //nolint:usetesting // sockets lie in it: their paths are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c := &course{T: t, dir: dir, dies: dies, strangers: map[string]endpoint.Requester{}}
	c.ircA, c.ircB = fixedPort(t), fixedPort(t)
	c.cfgR = c.write("relay", fmt.Sprintf("datastore = %q\n[net]\nactive_profiles = []\nmagic_bytes = [1, 2, 3, 4]\n[mailbox.relay]\nlisten = \"quic://%s\"\n"+
		"[mailbox.relay.limits]\nlease_ttl = \"2s\"\npage_rows = 2\n", c.dir+"/r", fixedPort(t)))
	if c.address, err = relayAddress(c.cfgR); err != nil {
		t.Fatal(err)
	}
	alice, bob := box.GenerateSecret(), box.GenerateSecret()
	c.alicePub, c.bobPub = alice.Public(), bob.Public()
	if c.pair, err = box.New(alice, c.bobPub); err != nil {
		t.Fatal(err)
	}
	contact := "[contact.%q]\ndm_chacha_public = %q\nmy_dm_chacha_secret = %q\n%s"
	c.cfgA = c.write("alice", fmt.Sprintf("irc_listen = \"tcp://%s\"\ndatastore = %q\nskip_dag_sync = true\n[outbound]\nmin_connections = 1\nwakeup = \"1s\"\nretry_initial = \"2s\"\n",
		c.ircA, c.dir+"/a")+fmt.Sprintf(privateNet, crashMagic)+fmt.Sprintf("peers = [%q]\n", peer)+
		fmt.Sprintf(contact, "bob", c.bobPub.Base58(), alice.Base58(), fmt.Sprintf("mailbox = [%q]\n", c.address)))
	if code, _, errs := cli(t, "", "keygen", "custody", c.dir+"/b.key"); code != 0 {
		t.Fatal(errs)
	}
	c.cfgB = c.write("bob", fmt.Sprintf("irc_listen = \"tcp://%s\"\ndatastore = %q\nskip_dag_sync = true\n[outbound]\nkey_file = %q\n[mailbox]\nrelays = [%q]\n[graph]\nrotation = \"0s\"\n"+
		"[net]\nmagic_bytes = [9, 9, 9, 9]\nlocalnet = true\nactive_profiles = []\n", c.ircB, c.dir+"/b", c.dir+"/b.key", c.address)+
		fmt.Sprintf(contact, "alice", c.alicePub.Base58(), bob.Base58(), ""))
	c.relay = c.process("relay", c.deadRelay, "mailbox", "relay")
	c.alice = c.process("alice", c.deadAlice, "run")
	c.bob = c.process("bob", c.deadBob, "run")
	if c.outside, err = openJournal(c.file("outside.journal"), ""); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *course) file(name string) string { return filepath.Join(c.dir, name) }

func (c *course) write(role, text string) *config.Config {
	if err := os.WriteFile(c.file(role+".toml"), []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	return parse(c, text)
}

func (c *course) process(role string, dead func(), args ...string) *crashProc {
	return &crashProc{
		t: c.T, role: role, dead: dead, dies: c.dies, journal: c.file(role + ".journal"),
		args: append(args, "--config", c.file(role+".toml")),
	}
}

func (c *course) problem(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *course) ledger() *crashLedger {
	journals := map[string][]entry{}
	for _, who := range []string{"relay", "alice", "bob", "outside"} { // the relay's first: what it said was asked before
		journals[who] = readJournal(c, c.file(who+".journal"))
	}
	return newCrashLedger(c.pair, journals)
}

// look judges a copy of a store by the ledger.
func (c *course) look(who string, check func(l *crashLedger) error) {
	l := c.ledger()
	if err := check(l); err != nil {
		c.problem("%s: %v", who, err)
	}
	for _, p := range l.problems {
		c.problem("%s", p)
	}
}

func relayOptions(cfg *config.Config) kv.Options {
	return kv.Options{Dir: filepath.Join(relayDir(cfg), relay.StoreName), Kind: relayKind, Schema: relay.Schema, Sync: true}
}

func (c *course) deadRelay() {
	c.look("relay", func(l *crashLedger) error {
		return withCopy(c, relayOptions(c.cfgR), func(store *kv.DB) error { l.checkRelay(store); return nil })
	})
}

func (c *course) deadAlice() {
	c.look("alice", func(l *crashLedger) error {
		return withCustody(c, c.cfgA, func(cu *custody) { l.checkSender("alice", cu) })
	})
}

func (c *course) deadBob() {
	c.look("bob", func(l *crashLedger) error {
		return withCustody(c, c.cfgB, func(cu *custody) { l.checkRecipient("bob", cu) })
	})
}

// status asks a process; false while it does not answer.
func (c *course) status(cfg *config.Config) (s statusReport, ok bool) {
	k, err := rpc.Dial(config.ControlSocket(cfg.Datastore))
	if err != nil {
		return s, false
	}
	defer k.Close()
	ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
	defer cancel()
	return s, k.Call(ctx, "hearsay.status", nil, &s) == nil
}

// until waits, and looks after the sender's promise meanwhile.
func (c *course) until(what string, ok func() bool) {
	c.Helper()
	deadline := time.Now().Add(2 * scriptTimeout) // many courses at a time
	for n := 0; !ok(); n++ {
		for _, p := range []*crashProc{c.relay, c.alice, c.bob} {
			p.mu.Lock()
			problems := p.problems
			p.mu.Unlock()
			if len(problems) > 0 {
				c.Fatal(problems)
			}
		}
		if time.Now().After(deadline) {
			r, _ := c.status(c.cfgR)
			a, _ := c.status(c.cfgA)
			b, _ := c.status(c.cfgB)
			c.Fatalf("%s: relay %+v, alice %+v %+v, bob %+v", what, r.Relay, a.Mailbox, a.Outbound, b.Mailbox)
		}
		time.Sleep(50 * time.Millisecond)
		if n%5 > 0 {
			continue
		}
		before := c.ledger()
		if s, ok := c.status(c.cfgA); ok {
			if want := before.owed(c.ledger()); s.Mailbox.DepositsPending < want {
				c.problem("alice keeps %d deposits; %d were accepted and have no receipt", s.Mailbox.DepositsPending, want)
			}
		}
	}
}

// relayRows waits for a relay with so many rows.
func (c *course) relayRows(what string, want int) {
	c.Helper()
	c.until(what, func() bool {
		s, ok := c.status(c.cfgR)
		return ok && s.Relay != nil && int(s.Relay.Rows) == want
	})
}

// ask asks as a stranger until the relay answers.
func (c *course) ask(who string, req mailbox.Request) (resp mailbox.Response) {
	c.Helper()
	k, ok := c.strangers[who]
	if !ok {
		seed := make([]byte, ed25519.SeedSize)
		copy(seed, who)
		client, err := endpoint.NewClient(c.address, ed25519.NewKeyFromSeed(seed), nil)
		if err != nil {
			c.Fatal(err)
		}
		c.Cleanup(client.Close)
		k = journaled{client, c.outside}
		c.strangers[who] = k
	}
	c.until("the relay does not answer "+who, func() bool {
		ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
		defer cancel()
		var err error
		resp, err = k.Do(ctx, req)
		return err == nil
	})
	return resp
}

// say has Alice type a line until she sees it accepted; each try has a text of its own.
func (c *course) say() {
	c.Helper()
	c.until("nothing is accepted", func() bool {
		ctx, cancel := context.WithTimeout(c.Context(), 5*time.Second)
		defer cancel()
		alice, err := dialIRC(ctx, c.ircA, "alice", "")
		if err != nil {
			return false
		}
		defer alice.close()
		text := fmt.Sprintf("message %d.", len(c.said)+1)
		c.said = append(c.said, text)
		alice.send("CAP REQ :no-history echo-message", "PRIVMSG bob :"+text)
		if _, err := alice.waitMessage(ctx, "alice", "bob", text); err != nil {
			return false
		}
		c.sure = append(c.sure, text)
		return true
	})
}

// run is the whole course: Bob makes himself known and goes; Alice writes, and her node
// dies; the relay dies; Bob returns; his receipts end Alice's deposits. A stranger's lease
// expires meanwhile, and an envelope that nobody can open stays.
func (c *course) run() {
	defer func() { // whatever happens, no process is left
		for _, p := range []*crashProc{c.alice, c.bob, c.relay} {
			if p.ended != nil {
				p.down(syscall.SIGKILL)
			}
		}
	}()
	c.relay.up()
	carol := mailbox.TokenOf([32]byte{3})
	lease := mailbox.Request{Lease: &mailbox.Lease{Tokens: []mailbox.Token{carol}}}
	c.ask("carol", lease)
	deposit := func(token mailbox.Token, text string) {
		c.Helper()
		env := &mailbox.Envelope{Kind: mailbox.KindSealed, Token: token, Body: []byte(text)}
		if r := c.ask("mallory", mailbox.Request{Deposit: &mailbox.Deposit{Envelope: env.AppendTo(nil)}}); !r.Deposit.Accepted {
			c.Fatal("refused")
		}
	}
	deposit(carol, "for carol")
	page := c.ask("carol", lease).Lease
	if len(page.Rows) != 1 {
		c.Fatalf("carol's page has %d rows", len(page.Rows))
	}

	c.bob.up()
	c.until("bob is not known", func() bool {
		s, ok := c.status(c.cfgR)
		return ok && s.Relay != nil && s.Relay.Registrations > 10
	})
	c.bob.down(syscall.SIGKILL)
	deposit(endpoint.TokenAt(c.pair, c.bobPub, time.Now()), "nobody can open this")

	c.alice.up()
	c.say()
	c.say()
	c.until("alice's mail is not at the relay", func() bool {
		a, ok1 := c.status(c.cfgA)
		r, ok2 := c.status(c.cfgR)
		return ok1 && ok2 && r.Relay != nil && a.Outbound.Depth == 0 && a.Mailbox.DepositsPending >= len(c.sure) &&
			int(r.Relay.Rows) == 2+a.Mailbox.DepositsPending
	})
	c.alice.down(syscall.SIGKILL)
	c.relay.down(syscall.SIGKILL)
	c.until("", func() bool { return time.Now().Unix() > int64(page.ExpiresAt) })

	c.relay.up()
	c.relayRows("the relay lost mail", 2+c.ledger().owed(c.ledger()))
	c.bob.up()
	c.alice.up()
	c.until("there are deposits without a receipt", func() bool {
		s, ok := c.status(c.cfgA)
		return ok && s.Mailbox.DepositsPending == 0
	})
	c.relayRows("receipts are left", 2)
	again := c.ask("carol", lease).Lease
	if len(again.Rows) != 1 || again.Rows[0].RowID != page.Rows[0].RowID {
		c.Fatal("what carol left did not come again") // MB-15
	}
	c.ask("carol", mailbox.Request{AckLease: &mailbox.AckLease{LeaseID: again.LeaseID, RowIDs: []mailbox.RowID{again.Rows[0].RowID}}})
	c.relayRows("not only what nobody opened is left", 1)
	c.shown()
	c.alice.down(os.Interrupt)
	c.bob.down(os.Interrupt)
	c.relay.down(os.Interrupt)
	c.deadRelay()
	c.deadAlice()
	c.deadBob()
}

// shown connects to Bob's node: everything that was accepted is shown once, and nothing
// twice.
func (c *course) shown() {
	bob := (*ircClient)(nil)
	c.until("no IRC", func() bool {
		ctx, cancel := context.WithTimeout(c.Context(), 2*time.Second)
		defer cancel()
		var err error
		bob, err = dialIRC(ctx, c.ircB, "bob", "")
		return err == nil
	})
	defer bob.close()
	line := regexp.MustCompile(`^:alice!\S+ PRIVMSG bob :(.*)$`)
	count := func() map[string]int {
		n := map[string]int{}
		bob.mu.Lock()
		defer bob.mu.Unlock()
		for _, l := range bob.lines {
			if m := line.FindStringSubmatch(l); m != nil {
				n[m[1]]++
			}
		}
		return n
	}
	c.until(fmt.Sprintf("not everything of %q is shown", c.sure), func() bool {
		n := count()
		return !slices.ContainsFunc(c.sure, func(text string) bool { return n[text] == 0 })
	})
	bob.send("PING :end")
	if _, err := bob.wait(withTime(c.T), func(l string) bool { return strings.Contains(l, "PONG") }); err != nil {
		c.Error(err)
	}
	for text, n := range count() {
		if n != 1 || !slices.Contains(c.said, text) {
			c.problem("bob is shown %q %d times", text, n)
		}
	}
}

// judge reports.
func (c *course) judge() {
	for _, p := range []*crashProc{c.relay, c.alice, c.bob} {
		c.problems = append(c.problems, p.problems...)
	}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(c.problems))) {
		c.Error(p)
	}
}

// points are what the processes passed, by role and life.
func (c *course) points() (out []crashCase) {
	for _, role := range []string{"relay", "alice", "bob"} {
		life := 0
		for _, e := range readJournal(c, c.file(role+".journal")) {
			if e.Point == "open:after:1" {
				life++
			}
			if e.Point != "" {
				out = append(out, crashCase{role, life, e.Point})
			}
		}
	}
	return out
}

// namedPoints are what MB-60 names: the table must have them, in both halves.
var namedPoints = map[string][]string{
	"relay": {
		"relay/lease", "respond/lease", "respond/ack", "respond/deposit", // lease creation, response write
		"relay/deposit", "relay/claim", "relay/refuse",
		"relay/ack", "relay/sweep", // relay delete, lease expiry
	},
	"alice": {"outbound/generation", "request/deposit", "endpoint/deposited", "request/lease", "endpoint/stage", "request/ack"},
	"bob":   {"endpoint/seed", "request/lease", "endpoint/stage", "request/ack", "endpoint/receipts", "request/deposit", "endpoint/deposited"},
}

// crashVar asks for every point in each life and at its second time.
const crashVar = "HEARSAY_MAILBOX_CRASHES"

// TestMailboxCrashTable (MB-03, MB-12, MB-13, MB-15, MB-30, MB-34, MB-39, MB-60): relay, sender and
// recipient are processes; one of them is killed with SIGKILL at a point, started again, and the
// course goes on. A run without a death finds the points: before and after each named commit of the
// relay's and of the custody store, each answer on the wire, each request to a relay, and after
// the start. After each death and at the end a copy of the dead process's store is judged by what
// was said: no accepted envelope is lost before its receipt, none is deleted that was not named,
// what was acknowledged or receipted is durable, counters equal a recount; and each message is
// shown once. By default a point of mail is tried once for each role; HEARSAY_MAILBOX_CRASHES=all
// tries every one, in each of the two lives, the first and the second time.
func TestMailboxCrashTable(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and kills processes")
	}
	peer := start(t, solo(t, fmt.Sprintf(privateNet, crashMagic)+"inbound = [\"quic://127.0.0.1:0\"]\n"), nil)
	<-peer.node.Listening()
	address := strings.TrimSuffix(peer.node.ListenAddrs()[0].String(), "/")

	plain := newCourse(t, crashCase{}, address)
	func() {
		defer plain.judge()
		plain.run()
	}()
	if t.Failed() {
		return
	}
	cases := plain.points()
	for role, names := range namedPoints {
		for _, name := range names {
			for _, half := range []string{"before", "after"} {
				if !slices.ContainsFunc(cases, func(c crashCase) bool { return c.role == role && c.point == name+":"+half+":1" }) {
					t.Errorf("%s passed no %s:%s", role, name, half)
				}
			}
		}
	}
	for role, lives := range map[string]int{"relay": 2, "alice": 2, "bob": 2} {
		if !slices.Contains(cases, crashCase{role, lives, "open:after:1"}) {
			t.Errorf("%s was not restarted", role)
		}
	}
	if os.Getenv(crashVar) != "all" {
		cases = onceEach(cases)
	}
	reached := make(chan string, len(cases))
	slots := make(chan struct{}, 10) // a course mostly waits
	var wg sync.WaitGroup
	for _, cc := range cases {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t.Run(cc.String(), func(t *testing.T) {
				c := newCourse(t, cc, address)
				defer c.judge()
				c.run()
				died := c.relay.died + c.alice.died + c.bob.died
				switch {
				case died == 1:
					reached <- cc.String()
				case strings.HasSuffix(cc.point, ":1"):
					t.Error("nobody died")
				}
			})
		})
	}
	wg.Wait()
	t.Logf("%d points, %d deaths", len(cases), len(reached))
}

// noMail matches points that hold no mail: they are left for "all".
var noMail = regexp.MustCompile(`^(outbound/(open|round|park|sweep):|arrival/|readstate/|\w+/info:)`)

// onceEach keeps one case for each role and point of mail, of its last life and first time.
func onceEach(cases []crashCase) []crashCase {
	last := map[string]crashCase{}
	for _, c := range cases {
		if strings.HasSuffix(c.point, ":1") && !noMail.MatchString(c.point) {
			last[c.role+c.point] = c
		}
	}
	return slices.SortedFunc(maps.Values(last), func(a, b crashCase) int { return strings.Compare(a.String(), b.String()) })
}
