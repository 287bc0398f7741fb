package ircd

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hearsay/internal/box"
	"hearsay/internal/privmsg"
)

// apply applies settings and lets everything settle.
func (h *harness) apply(st Settings) []string {
	h.t.Helper()
	changed, err := h.server.Apply(h.t.Context(), st)
	if err != nil {
		h.t.Fatal(err)
	}
	synctest.Wait()
	return changed
}

// TestReloadAddsKeys: what was stored and could not be opened is history with the new key (L46).
func TestReloadAddsKeys(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, g *fakeGraph) {
		g.hear(seal(t, bobs, "#secret", "rob", "sealed before"))
		g.hear(seal(t, bobs, "us", "", "direct before"))
		g.say("#dev", "rob", "plain")
	}, func(h *harness) {
		a, bob := h.join("alice", "#dev,#secret", "batch"), h.register("bob")
		a.got()
		changed := h.apply(ours)
		wantPart(t, changed, "channel #secret is new", "channel #Dev is new", "contact Bob is new")
		wantPart(t, bob.got(), "NOTICE bob :Your nick is now the name of a contact")
		lines := a.got()
		wantPart(t, lines, ":rob!~net@darkirc PRIVMSG #secret :sealed before", ":Bob!~net@darkirc PRIVMSG alice :direct before", "TOPIC #Dev :about dev")
		wantNone(t, lines, ":plain") // was shown when the client joined
		h.graph.hear(seal(t, bobs, "#secret", "rob", "live"))
		want(t, a.got(), ":rob!~net@darkirc PRIVMSG #secret :live")
		want(t, h.apply(ours))
		want(t, a.got())
		b := h.register("bobby")
		want(t, texts(b.do("JOIN #secret"), "PRIVMSG"), "sealed before", "live")
	})
}

// TestReloadRemovesSecret: its use stops at once, everybody leaves, and nothing is sent in clear
// (T22, DS-79).
func TestReloadRemovesSecret(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		a := h.join("alice", "#secret")
		a.do("PRIVMSG #secret :accepted while there was a key")
		a.do("PRIVMSG Bob :likewise")
		changed := h.apply(Settings{})
		wantPart(t, changed, "channel #secret lost its secret", "contact Bob is gone")
		want(t, a.got(), ":alice!~alice@hearsay PART #secret :The channel's secret was removed from the configuration")
		for _, q := range h.outbox.queue {
			if content, err := h.outbox.keys.Materialise(q.m.AppendTo(nil)); !errors.Is(err, ErrNoKey) || content != nil {
				t.Errorf("%v", err)
			}
		}
		lines := a.do("PRIVMSG #SECRET :x")
		if len(lines) != 1 || !strings.HasPrefix(lines[0], ":irc.hearsay 404 alice #SECRET :[NO_KEY] ") {
			t.Errorf("%q", lines)
		}
		wantPart(t, a.do("JOIN #secret"), " JOIN #secret")
		wantPart(t, a.do("PRIVMSG #secret :x"), "[NO_KEY]")
		wantPart(t, a.do("PRIVMSG Bob :x"), ":irc.hearsay 401 alice Bob :No such nick/channel; to write to somebody in private, /msg *status CONTACTS")
		h.graph.hear(seal(t, bobs, "us", "", "nobody can read this"))
		h.graph.hear(seal(t, bobs, "#secret", "rob", "nor this"))
		want(t, a.got())
		if len(h.outbox.queue) != 2 {
			t.Errorf("%d accepted", len(h.outbox.queue))
		}
		// Configured as a public channel, on purpose, it is one.
		h.apply(Settings{Channels: []Channel{{Name: "#Secret"}}})
		a.got()
		want(t, a.do("PRIVMSG #secret :public"))
		if m := h.outbox.queue[2].m; m.to != (privmsg.Sealed{Kind: privmsg.Public, Name: "#Secret"}) {
			t.Errorf("went to %q", m.to.Name)
		}
		h.outbox.queue = h.outbox.queue[:2]
		// With the key again it works again, the queued message too.
		h.apply(ours)
		wantPart(t, a.got(), "nobody can read this", "nor this")
		want(t, a.do("PRIVMSG #secret :x"))
		h.outbox.materialise(t)
	})
}

// TestReloadToPublic: a channel that is configured without its secret is another channel.
func TestReloadToPublic(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		h.graph.hear(seal(t, bobs, "#secret", "rob", "private"))
		h.graph.say("#secret", "rob", "public")
		a := h.join("alice", "#secret")
		want(t, texts(a.got(), "PRIVMSG"))
		st := ours
		st.Channels = []Channel{{Name: "#secret"}}
		h.apply(st)
		wantPart(t, a.got(), " PART #secret ")
		lines := a.do("JOIN #secret")
		want(t, texts(lines, "PRIVMSG"), "public")
		want(t, a.do("PRIVMSG #secret :in clear, on purpose"))
		if m := h.outbox.queue[0].m; m.to.Kind != privmsg.Public {
			t.Error("not public")
		}
	})
}

// TestJoinWhileReading: a channel that is new by a reload has its past as history, also for a
// client that joins before it was read.
func TestJoinWhileReading(t *testing.T) {
	ours, _ := people(t)
	var gate chan struct{}
	serve(t, func(c *Config, _ *fakeGraph) {
		c.Settings = ours
		gate = make(chan struct{}, 1000)
		c.Log = stall{c.Log, gate}
		for range 2 {
			gate <- struct{}{}
		}
	}, func(h *harness) {
		h.graph.say("#secret", "rob", "one")
		h.graph.say("#Dev", "rob", "two")
		h.graph.say("#secret", "rob", "three")
		gate <- struct{}{}
		synctest.Wait()
		for len(gate) > 0 {
			<-gate
		}
		h.apply(Settings{Channels: []Channel{{Name: "#secret"}}})
		a, b := h.register("alice", "no-history"), h.register("bob", "batch")
		time.Sleep(time.Millisecond)
		a.do("JOIN #secret")
		b.do("JOIN #secret")
		close(gate)
		want(t, texts(a.got(), "PRIVMSG"))
		lines := b.got()
		want(t, texts(lines, "PRIVMSG"), "one", "three")
		if count(lines, "batch=") != 2 {
			t.Errorf("%q", lines)
		}
	})
}

// TestReloadChangesKey: what was sealed with the old key is gone, the new key's is there.
func TestReloadChangesKey(t *testing.T) {
	ours, bobs := people(t)
	fresh := box.GenerateSecret()
	newOurs, newBobs := ours, bobs
	newOurs.Channels = []Channel{{Name: "#secret", Secret: fresh}, ours.Channels[1]}
	newBobs.Channels = []Channel{{Name: "#secret", Secret: fresh}}
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		h.graph.hear(seal(t, bobs, "#secret", "rob", "old"))
		h.graph.hear(seal(t, newBobs, "#secret", "rob", "new"))
		a := h.join("alice", "#secret")
		changed := h.apply(newOurs)
		wantPart(t, changed, "channel #secret has another secret")
		want(t, texts(a.got(), "PRIVMSG"), "new")
		a.do("PRIVMSG #secret :x")
		h.outbox.materialise(t)
		all := h.graph.contents(t)
		ring, _ := newBobs.keyring()
		if o, err := ring.Open(all[len(all)-1]); err != nil || o.Text != "x" {
			t.Errorf("%v", err)
		}
	})
}

// TestReloadRefusesFaults: all or nothing, with every fault named (T23).
func TestReloadRefusesFaults(t *testing.T) {
	ours, bobs := people(t)
	serve(t, func(c *Config, _ *fakeGraph) { c.Settings = ours }, func(h *harness) {
		bad := Settings{
			Channels: []Channel{{Name: "nochannel"}, {Name: "#a"}, {Name: "#A"}, {Name: "#t", Topic: "a\r\nb"}},
			Contacts: []Contact{{Label: "a b"}, {Label: "NickServ"}, ours.Contacts[0], ours.Contacts[0], {Label: "nokey"}},
			Autojoin: []string{"x", "#b", "#B"},
		}
		_, err := h.server.Apply(h.t.Context(), bad)
		if !errors.Is(err, ErrConfig) {
			t.Fatalf("%v", err)
		}
		for _, part := range []string{
			`channel "nochannel"`, `channel "#A"`, `channel "#t"`, `contact "a b"`, `contact "NickServ"`, `contact "Bob"`, `contact "nokey"`, `autojoin "x"`, `autojoin "#B"`,
		} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("not told of %s", part)
			}
		}
		a := h.join("alice", "#secret")
		h.graph.hear(seal(t, bobs, "#secret", "rob", "still works"))
		wantPart(t, a.got(), "still works")
	})
}

// TestRehash: REHASH says what was done, or what was wrong; only registered clients may (T6,
// T30).
func TestRehash(t *testing.T) {
	var result error
	var sum Summary
	calls := 0
	serve(t, func(c *Config, _ *fakeGraph) {
		c.Reload = func(context.Context) (Summary, error) {
			calls++
			time.Sleep(time.Second)
			return sum, result
		}
	}, func(h *harness) {
		d := h.dial()
		wantPart(t, d.do("REHASH"), " 451 ")
		a, b := h.register("alice"), h.register("bob")
		sum = Summary{Changed: []string{"channel #x is new"}, NeedsRestart: []string{"irc_listen"}}
		a.send("REHASH")
		wantPart(t, b.do("PING x"), "PONG") // nobody waits for it
		time.Sleep(2 * time.Second)
		want(t, a.got(), ":irc.hearsay 382 alice configuration :Rehashing", ":irc.hearsay NOTICE alice :REHASH: channel #x is new", ":irc.hearsay NOTICE alice :REHASH: needs a restart: irc_listen")
		sum = Summary{}
		a.send("REHASH")
		time.Sleep(2 * time.Second)
		wantPart(t, a.got(), "REHASH: nothing has changed")
		result = errors.New("line 3: no such key\r\nQUIT\nline 4: other")
		a.send("REHASH")
		time.Sleep(2 * time.Second)
		lines := a.got()
		wantPart(t, lines, "REHASH failed, nothing was changed: line 3: no such key", "REHASH failed, nothing was changed: QUIT", "line 4: other")
		if calls != 3 {
			t.Errorf("%d calls", calls)
		}
	})
}

// TestReloaded: a reload that a signal asked for is told to everybody, whatever its lines hold, within bounds.
func TestReloaded(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a, std, d := h.register("alice"), h.register("std", "standard-replies"), h.dial()
		h.server.Reloaded(Summary{Changed: []string{"contact bob is new"}, NeedsRestart: []string{"[net]"}}, nil)
		h.server.Reloaded(Summary{}, errors.New("line 3: no\r\nQUIT"))
		time.Sleep(tick)
		want(t, a.got(), ":irc.hearsay NOTICE alice :REHASH: contact bob is new", ":irc.hearsay NOTICE alice :REHASH: needs a restart: [net]",
			":irc.hearsay NOTICE alice :REHASH failed, nothing was changed: line 3: no", ":irc.hearsay NOTICE alice :REHASH failed, nothing was changed: QUIT")
		wantPart(t, std.got(), ":irc.hearsay NOTE * REHASH :REHASH: contact bob is new")
		want(t, d.got()) // not registered: nothing (T6)
		h.server.Reloaded(Summary{Changed: []string{strings.Repeat("x", 3000)}}, nil)
		for range 3 * maxReloaded {
			h.server.Reloaded(Summary{}, nil)
		}
		time.Sleep(tick)
		if n := len(a.got()); n != maxReloaded+1 {
			t.Errorf("%d lines", n)
		}
	})
}

func TestReloadAutojoinAndMOTD(t *testing.T) {
	serve(t, nil, func(h *harness) {
		a := h.register("alice")
		changed := h.apply(Settings{Autojoin: []string{"#new"}, MOTD: []string{"news"}})
		if len(changed) != 2 || !slices.Contains(changed, "there is another message of the day") {
			t.Errorf("%q", changed)
		}
		want(t, a.got()) // it joins nobody
		b := h.dial()
		wantPart(t, b.do("NICK b", "USER b 0 * :b"), " JOIN #new", " 372 b :- news")
	})
}

// TestApplyEndsWithTheServer: nobody waits for a loop that has ended.
func TestApplyEndsWithTheServer(t *testing.T) {
	serve(t, nil, func(h *harness) {
		h.cancel()
		synctest.Wait()
		if _, err := h.server.Apply(h.t.Context(), Settings{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
