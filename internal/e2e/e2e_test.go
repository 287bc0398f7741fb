package e2e

import (
	"bytes"
	"testing"
)

// TestRealClients chats between WeeChat and irssi through two daemons, over each
// transport that needs no proxy, and reads what each client shows.
func TestRealClients(t *testing.T) {
	need(t, "weechat-headless", "irssi", "tmux")
	t.Parallel()
	bin := build(t)
	for _, scheme := range []string{"quic", "tcp+tls"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			a := startNode(t, bin, scheme, nil)
			b := startNode(t, bin, scheme, a)
			b.waitStatus(t, func(s status) bool { return s.Synced && s.P2P.Connected == 1 })
			a.waitStatus(t, func(s status) bool { return s.P2P.Connected == 1 })

			weeTap, iriTap := startTap(t, a.irc), startTap(t, b.irc)
			wee := startWeeChat(t, t.TempDir(), login{port: weeTap.port, nick: "wanda"}, "")
			iri := startIrssi(t, login{port: iriTap.port, nick: "iris"})

			wee.say(t, "#dev", "hello from weechat")
			shows(t, iri, "#dev", `wanda>.*hello from weechat`)
			iri.say(t, "#dev", "hello from irssi")
			shows(t, wee, "#dev", `iris\s+hello from irssi`)

			// The encrypted channel.
			wee.command(t, "/join #secret")
			iri.say(t, "#dev", "/join #secret")
			shows(t, wee, "#secret", `wanda`)
			wee.say(t, "#secret", "under the rose")
			shows(t, iri, "#secret", `wanda>.*under the rose`)

			// A direct message to a contact, who is called differently on each side.
			wee.command(t, "/msg bob for your eyes only")
			shows(t, iri, "alice", `for your eyes only`)

			// What the clients ask of their own accord was answered, and never refused.
			iri.say(t, "#dev", "/whois wanda")
			iriTap.waits(t, " 318 iris wanda ")
			for what, end := range map[string]string{" WHO #dev": " 315 iris #dev ", " MODE #dev": " 324 iris #dev "} {
				iriTap.waits(t, what)
				iriTap.waits(t, end)
			}
			weeTap.waits(t, " MODE #dev")
			weeTap.waits(t, " 324 wanda #dev ")
			weeTap.noErrors(t, "422")
			iriTap.noErrors(t, "422", "451") // the empty JOIN that it sends before it registers

			// Somebody who comes later sees what was said.
			late := startWeeChat(t, t.TempDir(), login{port: b.irc, nick: "larry"}, "")
			shows(t, late, "#dev", `wanda\s+hello from weechat`)
			shows(t, late, "#dev", `iris\s+hello from irssi`)

			for _, n := range []*node{a, b} {
				n.stop(t)
				for _, text := range []string{"hello from", "under the rose", "eyes only"} {
					if bytes.Contains(n.log.Bytes(), []byte(text)) {
						t.Errorf("message text %q in a log (DS-44)", text)
					}
				}
			}
		})
	}
}
