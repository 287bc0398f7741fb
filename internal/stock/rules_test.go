package stock

import (
	"context"
	"encoding/hex"
	"io"
	"math"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/serial"
	"hearsay/p2p"
)

// A raw is the other end of a stock peer's connection: bytes out, frames in.
type raw struct {
	t    *testing.T
	peer *Peer
	conn net.Conn

	mu     sync.Mutex
	frames []string // commands received
	values []any
	ended  bool
}

// rawPeer connects to or is dialed by a synced stock peer, as the session that the
// peer sees.
func rawPeer(t *testing.T, session Session, cfg Config) *raw {
	t.Helper()
	n := testNetwork()
	cfg.Name, cfg.SkipSync, cfg.Localnet = "10.0.0.1", true, true
	var l p2p.Listener
	if session != Inbound {
		var err error
		if l, err = n.Host("10.0.0.2").Transport().Listen(t.Context(), addr("10.0.0.2")); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, n, cfg)
	r := &raw{t: t, peer: p}
	if session == Inbound {
		time.Sleep(time.Second)
		conn, err := n.Host("10.0.0.2").Transport().Dial(t.Context(), addr("10.0.0.1"))
		if err != nil {
			t.Fatal(err)
		}
		r.conn = conn
	} else {
		run(t, func(ctx context.Context) error { return p.Dial(ctx, addr("10.0.0.2"), session) })
		pending, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.conn, _ = pending.Handshake(t.Context())
		_ = l.Close()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		table := dispatchers(Inbound)
		fr := newFrameReader(r.conn)
		for {
			command, err := fr.header(false)
			var value any
			if err == nil {
				value, _, err = fr.payload(table[command])
			}
			r.mu.Lock()
			if err != nil {
				r.ended = true
				r.mu.Unlock()
				return
			}
			r.frames = append(r.frames, command)
			r.values = append(r.values, value)
			r.mu.Unlock()
			if command == cmdPing && cfg.Heartbeat == 0 {
				nonce, _ := value.(uint16)
				r.send(cmdPong, serial.AppendUint16(nil, nonce))
			}
		}
	}()
	t.Cleanup(func() {
		_ = r.conn.Close()
		<-done
	})
	return r
}

func (r *raw) bytes(b []byte) { _, _ = r.conn.Write(b) }

func (r *raw) hex(s string) {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		r.t.Fatal(err)
	}
	r.bytes(b)
}

func (r *raw) send(command string, payload []byte) { r.bytes(AppendFrame(nil, command, payload)) }

func (r *raw) handshake() {
	v := &versionMessage{app: appName, version: appVersion, connectRecv: addr("10.0.0.1")}
	r.send(cmdVersion, v.encode())
	r.send(cmdVerack, serial.AppendString(appVersion.appendTo(nil), appName))
	time.Sleep(time.Second)
}

func (r *raw) has(command string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.frames, command)
}

// put makes a good event on the peer's current slot and changes it.
func (r *raw) event(change func(*event)) *event {
	r.peer.mu.Lock()
	e := r.peer.graph.create([]byte("hello"), r.peer.nowMS())
	r.peer.mu.Unlock()
	if change != nil {
		change(&e)
	}
	return &e
}

func (r *raw) put(change func(*event)) { r.send(cmdEventPut, encodePut(r.event(change))) }

func randomIDs(n int) (ids []id) {
	for i := range n {
		ids = append(ids, id{1, byte(i), byte(i >> 8)})
	}
	return ids
}

// Every rule, triggered once by what a node must never do, with what it costs on an
// unmodified node under the strict policy.
func TestRules(t *testing.T) {
	const ping = "fbe5c7b5 04 70696e67"
	all := []struct {
		name    string
		session Session
		do      func(r *raw)
		rule    Rule
		cost    Cost
		ended   bool
	}{
		// p2p 10, negative vectors.
		{"ping too short", Inbound, func(r *raw) { r.hex(ping + "01 34") }, RuleUndecodable, Ban, true},
		{"ping too long", Inbound, func(r *raw) { r.hex(ping + "03 341200") }, RuleTooLong, Ban, true},
		{"getaddr of 58 bytes", Inbound, func(r *raw) {
			r.send(cmdGetaddr, serial.AppendString([]byte{8, 0, 0, 0, 1}, strings.Repeat("x", 52)))
		}, RuleTooLong, Ban, true},
		{"unknown command", Inbound, func(r *raw) { r.send("foo", nil) }, RuleUnknownCommand, Ban, true},
		{"status without asking", Outbound, func(r *raw) { r.send("EventGraph::EventPutStatus", make([]byte, 34)) }, RuleUnknownCommand, Ban, true},
		{"empty command", Inbound, func(r *raw) { r.send("", nil) }, RuleUnknownCommand, Ban, true},
		{"command of 256 bytes", Inbound, func(r *raw) { r.hex("fbe5c7b5 fd0001") }, RuleCommandLength, Ban, true},
		{"command of 256 bytes, refine", Refine, func(r *raw) { r.hex("fbe5c7b5 fd0001") }, RuleCommandLength, Ban, true},
		{"command length not minimal", Inbound, func(r *raw) { r.hex("fbe5c7b5 fd0500") }, RuleCommand, Close, true},
		{"command not UTF-8", Inbound, func(r *raw) { r.hex("fbe5c7b5 02 c328 00") }, RuleCommand, Close, true},
		{"payload length not minimal", Inbound, func(r *raw) { r.hex(ping + "fd0200 3412") }, RuleLength, Ban, true},
		{"addr with nothing as URL", Inbound, func(r *raw) {
			r.send(cmdAddr, serial.AppendUint64(serial.AppendString([]byte{1}, "nothing"), 1))
		}, RuleUndecodable, Ban, true},
		{"cut payload", Inbound, func(r *raw) { r.hex(ping + "02 34"); _ = r.conn.Close() }, RuleUndecodable, Ban, true},
		{"cut payload length", Inbound, func(r *raw) { r.hex(ping); _ = r.conn.Close() }, RuleLength, Ban, true},
		{"trailing byte", Inbound, func(r *raw) { r.hex("fbe5c7b5 04 61646472 02 0000") }, RuleTrailing, Silent, false},
		{"trailing byte, next frame", Inbound, func(r *raw) { r.hex("fbe5c7b5 04 61646472 02 0000" + ping + "023412") }, RuleMagic, Close, true},
		{"wrong magic", Inbound, func(r *raw) { r.hex("d9efb67d") }, RuleMagic, Close, true},
		{"wrong magic to a slot", Outbound, func(r *raw) { r.hex("d9efb67d") }, RuleMagic, Ban, true},
		{"wrong magic to a manual session", Manual, func(r *raw) { r.hex("d9efb67d") }, RuleMagic, Close, true},
		{"second version", Inbound, func(r *raw) {
			r.send(cmdVersion, (&versionMessage{app: appName, connectRecv: addr("10.0.0.1")}).encode())
		}, RuleSecondHandshake, Silent, false},
		{"bad semver", Inbound, func(r *raw) {
			v := appVersion
			v.pre = "01"
			r.send(cmdVerack, serial.AppendString(v.appendTo(nil), appName))
		}, RuleUndecodable, Ban, true},
		{"29 base messages", Inbound, func(r *raw) {
			time.Sleep(20 * time.Second)
			for range 29 {
				r.send(cmdAddr, []byte{0})
			}
		}, RuleMetering, Ban, true},
		{"URL not canonical", Inbound, func(r *raw) {
			r.send(cmdAddr, serial.AppendUint64(serial.AppendString([]byte{1}, "tcp+tls://1.2.3.4:5"), 1))
		}, RuleURL, Silent, false},
		{"more addresses than asked", Inbound, func(r *raw) {
			b := serial.AppendVarInt(nil, 27)
			for i := range 27 {
				b = serial.AppendUint64(serial.AppendString(b, addr("1.1.1."+string(rune('1'+i%9))).String()), 1)
			}
			r.send(cmdAddr, b)
		}, RuleAddrMany, Silent, false},
		{"unsolicited pong", Inbound, func(r *raw) {
			time.Sleep(time.Second)
			r.hex("fbe5c7b5 04 706f6e67 02 3412")
		}, RulePong, Silent, false},
		{"unsolicited pong, next round", Inbound, func(r *raw) {
			time.Sleep(time.Second)
			r.hex("fbe5c7b5 04 706f6e67 02 3412")
			time.Sleep(time.Minute)
		}, RulePong, Close, true},
		{"event graph on a seed connection", Seed, func(r *raw) { r.send(cmdTipReq, serial.AppendString(nil, "1")) }, RuleUnknownCommand, Ban, true},

		// eventgraph 4 and 5.
		{"stale put", Inbound, func(r *raw) {
			time.Sleep(30 * time.Minute)
			r.put(func(e *event) { e.Timestamp -= 60_001 })
		}, RuleFresh, Strike, false},
		{"put from the future", Inbound, func(r *raw) { r.put(func(e *event) { e.Timestamp += 60_001 + uint64(testLatency.Milliseconds()) }) }, RuleFresh, Strike, false},
		{"content of another event", Inbound, func(r *raw) { r.put(func(e *event) { e.Content = []byte("other") }) }, RuleFresh, Strike, false},
		{"empty content", Inbound, func(r *raw) {
			r.put(func(e *event) { e.Content = nil; e.ContentHash = eventgraph.HashContent(nil) })
		}, RuleFresh, Strike, false},
		{"genesis-shaped put", Inbound, func(r *raw) { r.put(func(e *event) { e.Parents = [5]id{} }) }, RuleFresh, Strike, false},
		{"parent twice", Inbound, func(r *raw) { r.put(func(e *event) { e.Parents[1] = e.Parents[0] }) }, RuleFresh, Strike, false},
		{"the genesis itself", Inbound, func(r *raw) {
			g := genesisEvent(testParams, uint64(r.peer.Current()))
			r.send(cmdEventPut, encodePut(&g))
		}, RuleGenesisPut, Silent, false},
		{"layer skipped", Inbound, func(r *raw) { r.put(func(e *event) { e.Layer++ }) }, RuleEvent, Strike, false},
		{"parents never served", Inbound, func(r *raw) {
			r.put(func(e *event) { e.Parents[0] = id{9} })
			time.Sleep(16 * time.Second)
		}, RuleUnserved, Close, true},
		{"parents wrongly served", Inbound, func(r *raw) {
			r.put(func(e *event) { e.Parents[0] = id{9} })
			time.Sleep(time.Second)
			r.send(cmdEventRep, appendEventRep(nil, []event{*r.event(nil)}))
		}, RuleReply, Strike, false},
		{"blobs and events differ", Inbound, func(r *raw) {
			r.put(func(e *event) { e.Parents[0] = id{9} })
			time.Sleep(time.Second)
			r.send(cmdEventRep, []byte{0, 1, 0})
		}, RuleReply, Strike, false},
		{"empty EventRep", Inbound, func(r *raw) {
			r.put(func(e *event) { e.Parents[0] = id{9} })
			time.Sleep(time.Second)
			r.send(cmdEventRep, []byte{0, 0})
		}, RuleReply, Strike, false},
		{"181 puts", Inbound, func(r *raw) {
			for range 181 {
				r.put(nil)
			}
		}, RulePuts, Silent, false},
		{"201 new events", Inbound, func(r *raw) {
			for i := range 201 {
				r.put(func(e *event) { e.Content = []byte{byte(i), 1}; e.ContentHash = eventgraph.HashContent(e.Content) })
			}
		}, RuleFlood, Ban, true},
		{"StaticPut with a foreign parent", Inbound, func(r *raw) { r.send(cmdStaticPut, encodePut(r.event(func(e *event) { e.Parents[0] = id{9} }))) }, RuleStatic, Strike, false},
		{"129 ids", Inbound, func(r *raw) { r.send(cmdEventReq, appendIDs(nil, randomIDs(129))) }, RuleMany, Strike, false},
		{"an id never revealed", Inbound, func(r *raw) { r.send(cmdEventReq, appendIDs(nil, randomIDs(1))) }, RuleReveal, Strike, false},
		{"five ids never revealed", Inbound, func(r *raw) { r.send(cmdEventReq, appendIDs(nil, randomIDs(5))) }, RuleFifthStrike, Close, true},
		{"1025 tips", Inbound, func(r *raw) {
			tips := tipMap{1: {}}
			for _, i := range randomIDs(1025) {
				tips[1][i] = true
			}
			r.send(cmdHeaderReq, tips.appendTo(serial.AppendString(nil, "1")))
		}, RuleTips, Strike, false},
		{"HeaderPut", Inbound, func(r *raw) { h := r.event(nil).Header; r.send(cmdHeaderPut, h.AppendTo(nil)) }, RuleHeaderPut, Silent, false},
		{"TipRep that nobody asked for", Inbound, func(r *raw) { r.send(cmdTipRep, []byte{0}) }, RuleUnsolicited, Silent, false},
		{"range direction 2", Inbound, func(r *raw) {
			b := append(serial.AppendString(nil, "1"), make([]byte, 40)...)
			r.send(cmdRangeReq, append(b, 2, 1, 0, 0, 0))
		}, RuleUndecodable, Ban, true},
	}
	for _, c := range all {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rawPeer(t, c.session, Config{})
				if c.session != Refine {
					r.handshake()
				}
				clean(t, r.peer)
				c.do(r)
				time.Sleep(2 * time.Second)
				if !slices.ContainsFunc(r.peer.Violations(), func(v Violation) bool { return v.Rule == c.rule && v.Cost == c.cost }) {
					t.Errorf("not noticed; %v", r.peer.Violations())
				}
				r.mu.Lock()
				defer r.mu.Unlock()
				if r.ended != c.ended {
					t.Errorf("connection ended: %v, want %v", r.ended, c.ended)
				}
				if got := len(r.peer.Bans()) > 0; got != (c.cost == Ban) {
					t.Errorf("bans %v", r.peer.Bans())
				}
			})
		})
	}
}

// The handshake (p2p 3): order, time, application.
func TestHandshakeRules(t *testing.T) {
	verack := func(app string, v semver) []byte { return serial.AppendString(v.appendTo(nil), app) }
	version := (&versionMessage{app: appName, version: appVersion, connectRecv: addr("10.0.0.1")}).encode()
	for _, c := range []struct {
		name    string
		session Session
		do      func(r *raw)
		rule    Rule // "": accepted
		cost    Cost
	}{
		{"verack first", Inbound, func(r *raw) { r.send(cmdVerack, verack(appName, appVersion)); r.send(cmdVersion, version) }, "", 0},
		{"other patch and build", Outbound, func(r *raw) {
			r.send(cmdVersion, version)
			r.send(cmdVerack, verack(appName, semver{0, 5, 99, "alpha.1", "x"}))
		}, "", 0},
		{"other name in version only", Outbound, func(r *raw) {
			r.send(cmdVersion, (&versionMessage{app: "other", connectRecv: addr("10.0.0.1")}).encode())
			r.send(cmdVerack, verack(appName, appVersion))
		}, "", 0},
		{"other application", Inbound, func(r *raw) { r.send(cmdVersion, version); r.send(cmdVerack, verack("irc", appVersion)) }, RuleMismatch, Close},
		{"other application to a slot", Outbound, func(r *raw) { r.send(cmdVersion, version); r.send(cmdVerack, verack("irc", appVersion)) }, RuleMismatch, Ban},
		{"other minor", Inbound, func(r *raw) { r.send(cmdVersion, version); r.send(cmdVerack, verack(appName, semver{minor: 6})) }, RuleMismatch, Close},
		{"no version", Inbound, func(r *raw) { r.send(cmdVerack, verack(appName, appVersion)) }, RuleHandshake, Close},
		{"no verack", Inbound, func(r *raw) { r.send(cmdVersion, version) }, RuleHandshake, Close},
		{"ping before the handshake", Inbound, func(r *raw) { r.send(cmdPing, []byte{1, 2}); r.handshake() }, RuleEarly, Silent},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rawPeer(t, c.session, Config{})
				c.do(r)
				time.Sleep(12 * time.Second)
				if c.rule == "" {
					clean(t, r.peer)
					if r.peer.Conns() != 1 {
						t.Error("not a peer")
					}
				} else if !slices.ContainsFunc(r.peer.Violations(), func(v Violation) bool { return v.Rule == c.rule && v.Cost == c.cost }) {
					t.Errorf("not noticed; %v", r.peer.Violations())
				}
			})
		})
	}
}

// Relaxed peers close where strict ones ban; a refine connection swallows an
// unknown command and then loses step.
func TestPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rawPeer(t, Inbound, Config{Relaxed: true})
		r.handshake()
		r.send("foo", nil)
		time.Sleep(time.Second)
		if v := r.peer.Violations(); len(v) != 1 || v[0].Cost != Close || len(r.peer.Bans()) != 0 {
			t.Error(v, r.peer.Bans())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := rawPeer(t, Refine, Config{})
		r.send(cmdTipReq, serial.AppendString(nil, "1"))
		r.send(cmdTipReq, serial.AppendString(nil, "1"))
		time.Sleep(time.Second)
		v := r.peer.Violations()
		if len(v) != 2 || v[0].Rule != RuleUnknownCommand || v[0].Cost != Silent || v[1].Rule != RuleMagic || v[1].Cost != Close {
			t.Error(v)
		}
	})
	// Banned: not let in again, from any port.
	synctest.Test(t, func(t *testing.T) {
		r := rawPeer(t, Inbound, Config{})
		r.handshake()
		r.send("foo", nil)
		time.Sleep(time.Second)
		if got := r.peer.Bans(); !slices.Equal(got, []string{"tcp+tls://10.0.0.2/"}) {
			t.Errorf("%q", got)
		}
		if err := r.peer.Dial(t.Context(), addr("10.0.0.2"), Manual); err == nil {
			t.Error("dialed a banned host")
		}
	})
}

// A peer that misses a pong is closed after 15 s.
func TestMissingPong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rawPeer(t, Inbound, Config{Heartbeat: 30 * time.Second}) // the test's own answers are off
		r.handshake()
		time.Sleep(13 * time.Second)
		clean(t, r.peer)
		time.Sleep(3 * time.Second)
		if v := r.peer.Violations(); len(v) != 1 || v[0].Rule != RulePong || v[0].Cost != Close {
			t.Error(v)
		}
	})
}

// Late puts (eventgraph 4.6, table): never a strike for what is older than the slot.
func TestOldPutsAreSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rawPeer(t, Inbound, Config{})
		r.handshake()
		old := r.event(nil)
		time.Sleep(time.Hour)
		r.send(cmdEventPut, encodePut(old))
		time.Sleep(time.Second)
		clean(t, r.peer)
		if n := r.peer.Counts(); n.PutsOld != 1 {
			t.Errorf("%+v", n)
		}
	})
}

// What is served, and what is answered with silence (eventgraph 5.4).
func TestServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rawPeer(t, Inbound, Config{})
		r.handshake()
		for _, s := range []string{"a", "b", "c"} {
			publish(t, r.peer, s)
			time.Sleep(time.Second)
		}
		slotText := slotName(uint64(r.peer.Current()))
		take := func(command string) any {
			time.Sleep(time.Second)
			r.mu.Lock()
			defer r.mu.Unlock()
			i := slices.Index(r.frames, command)
			if i < 0 {
				return nil
			}
			v := r.values[i]
			r.frames[i] = "taken"
			return v
		}
		r.send(cmdTipReq, serial.AppendString(nil, slotText))
		tips, _ := take(cmdTipRep).(tipMap)
		if tips.count() != 1 || len(tips[3]) != 1 {
			t.Fatal(tips)
		}
		r.send(cmdTipReq, serial.AppendString(nil, "12345"))
		if take(cmdTipRep) != nil {
			t.Error("answered for a slot that is not loaded")
		}
		r.send(cmdTipReq, serial.AppendString(nil, staticDAG))
		if tips, _ := take(cmdTipRep).(tipMap); tips.count() != 1 {
			t.Error(tips)
		}
		r.send(cmdHeaderReq, append(serial.AppendString(nil, slotText), 0))
		hs, _ := take(cmdHeaderRep).([]eventgraph.Header)
		if len(hs) != 4 || !hs[0].GenesisShaped() || hs[3].Layer != 3 {
			t.Fatal(hs)
		}
		r.send(cmdHeaderReq, tips.appendTo(serial.AppendString(nil, slotText)))
		if hs, ok := take(cmdHeaderRep).([]eventgraph.Header); !ok || len(hs) != 0 {
			t.Error("an empty HeaderRep is sent", hs)
		}
		var ids []id
		for i := range hs {
			ids = append(ids, hs[i].ID())
		}
		r.send(cmdEventReq, appendIDs(nil, ids))
		rep, _ := take(cmdEventRep).(*eventRep)
		if rep == nil || len(rep.events) != 4 || rep.blobs != 4 || string(rep.events[2].Content) != "b" {
			t.Fatal(rep)
		}
		from := cursor{ts: math.MaxUint64} // the newest (5.3)
		b := append(serial.AppendUint64(serial.AppendString(nil, slotText), from.ts), from.id[:]...)
		r.send(cmdRangeReq, append(b, 1, 2, 0, 0, 0))
		page, _ := take(cmdRangeRep).(*eventRep)
		if page == nil || len(page.events) != 2 || string(page.events[0].Content) != "c" {
			t.Error(page)
		}
		clean(t, r.peer)
		// The reveal set is empty after a rotation.
		time.Sleep(time.Hour)
		r.send(cmdEventReq, appendIDs(nil, ids[1:2]))
		time.Sleep(time.Second)
		if r.peer.Strikes() != 1 {
			t.Errorf("%d strikes", r.peer.Strikes())
		}
	})
}

// The relay limiter: about one event per second and source in a burst.
func TestRelayLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rawPeer(t, Inbound, Config{})
		r.handshake()
		for i := range 60 {
			r.put(func(e *event) { e.Content = []byte{byte(i), 1}; e.ContentHash = eventgraph.HashContent(e.Content) })
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		if got := r.peer.Counts(); got.PutsStored != 60 || got.Relayed > 25 || got.Relayed < 15 {
			t.Errorf("%+v", got)
		}
		time.Sleep(time.Minute)
		if got := r.peer.Counts().Relayed; got != 60 {
			t.Errorf("%d relayed in the end", got)
		}
		if r.has(cmdEventPut) {
			t.Error("relayed to where it came from")
		}
		clean(t, r.peer)
	})
}

// Vectors of p2p 10: what the double writes is what upstream writes.
func TestFrameVectors(t *testing.T) {
	v := &versionMessage{app: appName, version: appVersion, timestamp: 1753293550, connectRecv: p2p.MustParseURL("tcp+tls://lilith0.dark.fi:9600")}
	v.resolveRecv = &v.connectRecv
	for _, c := range []struct {
		command string
		payload []byte
		want    string
	}{
		{cmdPing, serial.AppendUint16(nil, 0x1234), "fbe5c7b50470696e67023412"},
		{cmdAddr, appendAddrs(nil, []addrEntry{{addr("1.2.3.4"), 1753293550}}), "fbe5c7b504616464722101177463702b746c733a2f2f312e322e332e343a393630302fee22816800000000"},
		{cmdVerack, serial.AppendString(appVersion.appendTo(nil), appName), "fbe5c7b50676657261636b220000000000000000050000000000000001000000000000000000076461726b697263"},
		{cmdVersion, v.encode(), "fbe5c7b50776657273696f6e6e00076461726b69726300000000000000000500000000000000010000000000000000" +
			"00ee228168000000001f7463702b746c733a2f2f6c696c697468302e6461726b2e66693a393630302f011f7463702b746c733a2f2f6c696c697468302e6461726b2e66693a393630302f0000"},
	} {
		if got := hex.EncodeToString(AppendFrame(nil, c.command, c.payload)); got != c.want {
			t.Errorf("%s:\n%s\n%s", c.command, got, c.want)
		}
	}
}

// FuzzFrames: no bytes make the reader panic, and it ends with the input.
func FuzzFrames(f *testing.F) {
	f.Add(AppendFrame(nil, cmdPing, []byte{1, 2}))
	f.Add(AppendFrame(nil, cmdAddr, []byte{0, 0}))
	f.Add(AppendFrame(nil, cmdEventRep, []byte{0, 0}))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, d := net.Pipe()
		go func() {
			_, _ = c.Write(b)
			_ = c.Close()
		}()
		r := newFrameReader(d)
		table := dispatchers(Inbound)
		for {
			command, err := r.header(true)
			if err != nil {
				break
			}
			if dp := table[command]; dp != nil {
				if _, _, err := r.payload(dp); err != nil {
					break
				}
			}
		}
		_, _ = io.Copy(io.Discard, d)
	})
}
