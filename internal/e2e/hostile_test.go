package e2e

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/eventgraph/gossip"
	"hearsay/p2p"
)

// A stall is a way of holding a connection without letting it do anything.
type stall struct {
	name    string
	schemes string // empty: all
	// raw: the attack starts on the socket, before the transport's handshake.
	raw func(i int, conn net.Conn)
	// early: it starts before version.
	early func(i int, a *attacker)
	// run: it starts after the handshake. It may return, and the connection stays.
	run func(ctx context.Context, i int, a *attacker)
}

// cuts are where a frame is cut: inside magic, command and length, before the payload,
// and inside it.
var cuts = []int{1, 3, 4, 5, 12, 25, 26, 28, 29, 30, 2000, 17_000, 79_000}

var stalls = []stall{
	{name: "nothing", raw: func(int, net.Conn) {}},
	{name: "half a TLS hello", schemes: "tcp+tls", raw: func(i int, conn net.Conn) {
		hello := append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 400)...)
		_, _ = conn.Write(hello[:1+i%400])
	}},
	{name: "a TLS record of 16 KiB", schemes: "tcp+tls", raw: func(_ int, conn net.Conn) {
		_, _ = conn.Write(append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xff, 0xff}, make([]byte, 16300)...))
	}},
	{name: "no stream", schemes: "quic", early: func(int, *attacker) {}},
	{name: "half a version", early: func(i int, a *attacker) {
		f := frame("version", greeting{}.encode(a.url))
		_ = a.write(f[:1+i%(len(f)-1)])
	}},
	{name: "version alone", early: func(_ int, a *attacker) {
		_ = a.send("version", greeting{}.encode(a.url))
	}},
	{name: "nothing after the handshake", run: func(context.Context, int, *attacker) {}},
	{name: "inside a frame", run: func(_ context.Context, i int, a *attacker) {
		f := append(frameHead(gossip.CmdEventPut, 80_000), make([]byte, 79_999)...)
		_ = a.write(f[:cuts[i%len(cuts)]])
	}},
	{name: "one byte before a frame's end", run: func(_ context.Context, _ int, a *attacker) {
		_ = a.write(append(frameHead(gossip.CmdEventPut, 80_000), make([]byte, 79_999)...))
	}},
	{name: "trickle", run: func(ctx context.Context, i int, a *attacker) {
		command, n := gossip.CmdEventPut, 80_000
		if i%2 == 1 {
			command, n = gossip.CmdEventRep, 32<<20
		}
		_ = a.write(frameHead(command, n))
		for ctx.Err() == nil && a.write([]byte{0}) == nil {
			time.Sleep(100 * time.Millisecond)
		}
	}},
	{name: "asks for all, reads nothing", run: func(_ context.Context, _ int, a *attacker) {
		var b []byte
		for range 20 {
			b = append(b, frame(gossip.CmdHeaderReq, gossip.HeaderReq{Name: attackedSlot.String()}.AppendTo(nil))...)
			b = append(b, frame(gossip.CmdTipReq, gossip.TipReq{Name: attackedSlot.String()}.AppendTo(nil))...)
			b = append(b, frame(gossip.CmdRangeReq, gossip.RangeReq{Name: attackedSlot.String(), Limit: 100}.AppendTo(nil))...)
		}
		_ = a.write(b)
	}},
	{name: "large questions, reads nothing", run: func(_ context.Context, i int, a *attacker) {
		tips := eventgraph.Tips{}
		for k := range uint64(1024) {
			tips[k] = []eventgraph.ID{{byte(i), byte(k), byte(k >> 8)}}
		}
		q := frame(gossip.CmdHeaderReq, gossip.HeaderReq{Name: attackedSlot.String(), Tips: tips}.AppendTo(nil))
		for range 40 {
			if a.write(q) != nil {
				return
			}
		}
	}},
	{name: "orphans whose parents do not come", run: func(_ context.Context, i int, a *attacker) {
		for k := range 60 {
			if a.send(gossip.CmdEventPut, orphan(i<<8|k, 60_000)) != nil {
				return
			}
		}
	}},
	{name: "small orphans", run: func(_ context.Context, i int, a *attacker) {
		for k := range 190 {
			if a.send(gossip.CmdEventPut, orphan(i<<8|k, 100)) != nil {
				return
			}
		}
	}},
	{name: "tips without headers", run: func(_ context.Context, i int, a *attacker) {
		tips := eventgraph.Tips{}
		for k := range uint64(1024) {
			tips[k+1] = []eventgraph.ID{{0xaa, byte(i), byte(k), byte(k >> 8)}}
		}
		a.serve(func(command string, _ []byte) {
			if command == gossip.CmdTipReq {
				_ = a.send(gossip.CmdTipRep, gossip.TipRep{Tips: tips}.AppendTo(nil))
			}
		})
	}},
	{name: "headers without bodies", run: func(_ context.Context, i int, a *attacker) {
		var pages [5][]eventgraph.Header
		last := attackedParams().GenesisOf(attackedSlot)
		for p := range pages {
			for k := range gossip.MaxHeaderRepHeaders {
				e := newEvent(last, fmt.Appendf(nil, "%d %d %d", i, p, k))
				pages[p] = append(pages[p], e.Header)
				last = e
			}
		}
		tips := eventgraph.Tips{last.Layer: {last.ID()}}
		next := 0
		_ = a.send(gossip.CmdTipReq, gossip.TipReq{Name: attackedSlot.String()}.AppendTo(nil))
		a.serve(func(command string, _ []byte) {
			switch {
			case command == gossip.CmdTipReq:
				_ = a.send(gossip.CmdTipRep, gossip.TipRep{Tips: tips}.AppendTo(nil))
			case command == gossip.CmdHeaderReq && next < len(pages):
				_ = a.send(gossip.CmdHeaderRep, gossip.HeaderRep{Headers: pages[next]}.AppendTo(nil))
				next++
			}
		})
	}},
}

// hold opens the i-th hostile connection and lets the stall have it until ctx ends.
func (s stall) hold(ctx context.Context, wg *sync.WaitGroup, i int, url string) error {
	dial, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var conn net.Conn
	attack := func() {}
	if s.raw != nil && !strings.HasPrefix(url, "quic") {
		c, err := dialRaw(dial, "127.0.0.3", url)
		if err != nil {
			return err
		}
		conn, attack = c, func() { s.raw(i, c) }
	} else {
		a, err := dialFrom(dial, "127.0.0.3", url)
		if err != nil {
			return err
		}
		conn = a.conn
		switch {
		case s.early != nil:
			attack = func() { s.early(i, a) }
		case s.run != nil:
			if err := a.shake(greeting{}); err != nil {
				return err
			}
			attack = func() { s.run(ctx, i, a) }
		}
	}
	wg.Go(attack)
	wg.Go(func() {
		<-ctx.Done()
		_ = conn.Close()
	})
	return nil
}

const (
	hostilePeers = 100
	// rssBound is what they may cost together, in bytes (issue "a node that chats").
	rssBound = 32 << 20
)

// TestHostilePeers holds a hundred connections to a running daemon in every way at
// once, or in the ways that HEARSAY_ATTACK names (a part of a name, or "each") a hundred
// times each, while two people go on talking through it. With HEARSAY_LATE a third
// one comes meanwhile, who needs the history.
func TestHostilePeers(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	bin := build(t)
	only := os.Getenv("HEARSAY_ATTACK")
	for _, scheme := range []string{"tcp", "tcp+tls", "quic"} {
		if s := os.Getenv("HEARSAY_SCHEME"); s != "" && s != scheme {
			continue
		}
		t.Run(scheme, func(t *testing.T) {
			var ways []stall
			for _, s := range stalls {
				if s.schemes == "" || s.schemes == scheme {
					ways = append(ways, s)
				}
			}
			if only == "" {
				hostile(t, bin, scheme, ways, 3*time.Second)
				return
			}
			for _, s := range ways {
				if only == "each" || strings.Contains(s.name, only) {
					t.Run(s.name, func(t *testing.T) { hostile(t, bin, scheme, []stall{s}, 6*time.Second) })
				}
			}
		})
	}
}

func hostile(t *testing.T, bin, scheme string, ways []stall, long time.Duration) {
	d := spawn(t, bin, scheme, true, nil, "")
	populate(t, d, 4800, 300)
	far := spawn(t, bin, scheme, false, []string{d.url()}, "")
	far.waitStatus(t, func(s status) bool { return s.Synced })
	pair := pairOf{a: dialIRC(t, d, "anna"), b: dialIRC(t, far, "bert")}
	for range 10 {
		pair.chat(t)
	}
	t.Logf("before: slowest of %d words %v, mean %v", pair.n, pair.slow, pair.totals/time.Duration(pair.n))
	pair.slow, pair.totals, pair.n = 0, 0, 0
	before, files, peak := d.rss(t), d.fds(t), 0

	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	refused := 0
	for i := range hostilePeers {
		if err := ways[i%len(ways)].hold(ctx, &wg, i/len(ways), d.url()); err != nil {
			refused++
			if refused == 1 {
				t.Logf("refused: %v", err)
			}
		}
		if i%10 == 0 {
			pair.chat(t)
		}
		peak = max(peak, d.rss(t))
	}
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		peak = max(peak, d.rss(t))
		pair.chat(t)
	}
	peak = max(peak, d.rss(t))
	if os.Getenv("HEARSAY_LATE") != "" { // and somebody who comes now is served
		start := time.Now()
		late := spawn(t, bin, scheme, false, []string{d.url()}, "")
		want := 0 // of what was put some may have been refused
		d.waitStatus(t, func(s status) bool { want = s.Graph.Events; return true })
		late.waitStatus(t, func(s status) bool { return s.Synced && s.Graph.Events >= want })
		t.Logf("%d events", want)
		t.Logf("a node that came under attack has everything after %v", time.Since(start))
		peak = max(peak, d.rss(t))
	}
	t.Logf("RssAnon %d KiB, +%d KiB under attack; %d refused; files %d to %d; slowest of %d words %v, mean %v",
		before>>10, (peak-before)>>10, refused, files, d.fds(t), pair.n, pair.slow, pair.totals/time.Duration(pair.n))
	if peak-before > rssBound {
		t.Errorf("%d MiB more", (peak-before)>>20)
	}
	cancel()
	wg.Wait()
	eventually(t, "the connections' end", func() error {
		if n := d.fds(t); n > files+2 {
			return fmt.Errorf("%d files, %d before", n, files)
		}
		return nil
	})
	pair.chat(t)
	// No address at info level, which is what the daemon logs at.
	for _, n := range []*daemonProc{d, far} {
		n.stop(t)
		if log := n.log.String(); strings.Contains(log, "127.0.0.3") || strings.Contains(log, p2p.MustParseURL(d.url()).HostPort()) {
			t.Error("an address is logged")
		}
	}
}
