package e2e

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"hearsay/eventgraph/gossip"
	"hearsay/internal/serial"
)

// TestFloods lets peers send more than they may, and what they must not, while two
// people go on talking. Each attack comes from a host of its own: bans are by host.
func TestFloods(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	d := spawn(t, build(t), "tcp", true, nil, "")
	far := spawn(t, d.bin, "tcp", false, []string{d.url()}, "")
	far.waitStatus(t, func(s status) bool { return s.Synced })
	pair := pairOf{a: dialIRC(t, d, "anna"), b: dialIRC(t, far, "bert")}
	for range 5 {
		pair.chat(t)
	}
	before, files, lines := d.rss(t), d.fds(t), strings.Count(d.log.String(), "\n")
	genesis := attackedParams().GenesisOf(attackedSlot)
	many := func(frame []byte, n int) func(*attacker) {
		return func(a *attacker) {
			for range n {
				if a.write(frame) != nil {
					return
				}
			}
		}
	}
	addrs := func(url func(i int) string) []byte {
		var list []byte
		n := 0
		for ; len(list) < 65_000; n++ {
			list = serial.AppendUint64(serial.AppendString(list, url(n)), 1<<63)
		}
		return frame("addr", append(serial.AppendVarInt(nil, uint64(n)), list...)[:min(len(list)+3, 65_281)])
	}
	status := func(tail ...byte) []byte {
		return frame(gossip.CmdEventPutStatus, append(make([]byte, 32), tail...))
	}
	for i, c := range []struct {
		name   string
		hello  greeting
		attack func(*attacker)
		banned bool
	}{
		{name: "puts over the window", banned: true, attack: func(a *attacker) {
			for k := range 260 {
				if a.send(gossip.CmdEventPut, putOf(newEvent(genesis, fmt.Appendf(nil, "flood %d", k)))) != nil {
					return
				}
			}
		}},
		{name: "pings", banned: true, attack: many(frame("ping", []byte{1, 2}), 1000)},
		{name: "getaddr", banned: true, attack: many(frame("getaddr", append(serial.AppendUint32(nil, 1<<31), 0)), 1000)},
		{name: "addresses", banned: true, attack: many(addrs(func(i int) string { return fmt.Sprintf("tcp://9.%d.%d.1:1/", i>>8&255, i&255) }), 40)},
		{name: "addresses that are none", banned: true, attack: many(addrs(func(i int) string { return strings.Repeat("x:/", i%90) }), 40)},
		{name: "an unknown command", banned: true, attack: many(frame("no::such", nil), 1)},
		{name: "statuses of tags that nobody knows", attack: many(append(status(9, 9), status(1, 200)...), 2000)},
		{name: "a status of a megabyte", attack: many(frame(gossip.CmdEventPutStatus, make([]byte, 1<<20)), 1)},
		{name: "status of 1 KiB", attack: many(frame(gossip.CmdEventPutStatus, make([]byte, 1<<10)), 2000)},
		{name: "unknown slots", attack: many(frame(gossip.CmdTipReq, gossip.TipReq{Name: "1"}.AppendTo(nil)), 5000)},
		{name: "a clock at the end of time", hello: greeting{time: 1<<64 - 1}, attack: func(*attacker) {}},
		{name: "a clock at the beginning of time", hello: greeting{time: 1}, attack: func(*attacker) {}},
		{name: "strikes", attack: func(a *attacker) {
			e := newEvent(genesis, []byte("x"))
			e.ContentHash[0]++
			many(frame(gossip.CmdEventPut, putOf(e)), 5)(a)
		}},
	} {
		host := fmt.Sprintf("127.0.1.%d", i+1)
		a, err := dialFrom(t.Context(), host, d.url())
		if err == nil {
			err = a.shake(c.hello)
		}
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		ended := make(chan struct{})
		go func() { a.serve(nil); close(ended) }()
		c.attack(a)
		if c.banned {
			select {
			case <-ended:
			case <-time.After(patience):
				t.Errorf("%s: still connected", c.name)
			}
		}
		pair.chat(t)
		_ = a.conn.Close()
		if again, err := dialFrom(t.Context(), host, d.url()); err == nil {
			if shook := again.shake(greeting{}) == nil; shook == c.banned {
				t.Errorf("%s: banned is not %v", c.name, c.banned)
			}
			_ = again.conn.Close()
		}
	}
	// What comes and goes leaves nothing behind, neither memory nor lines.
	var last net.Conn
	for i := range 1000 {
		conn, err := dialRaw(t.Context(), "127.0.2.1", d.url())
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			_, _ = conn.Write(frame("version", greeting{}.encode(d.url())))
		}
		if last != nil {
			_ = last.Close()
		}
		last = conn
	}
	_ = last.Close()
	pair.chat(t)
	eventually(t, "the connections' end", func() error {
		if n := d.fds(t); n > files+2 {
			return fmt.Errorf("%d files, %d before", n, files)
		}
		return nil
	})
	more := d.rss(t) - before
	t.Logf("RssAnon %d KiB, +%d KiB; slowest word %v", before>>10, more>>10, pair.slow)
	if more > rssBound {
		t.Errorf("%d MiB more", more>>20)
	}
	d.stop(t)
	if n := strings.Count(d.log.String(), "\n") - lines; n > 20 {
		t.Errorf("%d lines are logged", n)
	}
	if strings.Contains(d.log.String(), "127.0.") {
		t.Error("an address is logged")
	}
}
