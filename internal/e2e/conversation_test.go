package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestOneConversation: two WeeChats and an irssi on one daemon, one of them with history
// switched off and one that was away, end with the same conversation, right times,
// nothing twice (issue 5). What cannot go is told in its window: TestTLSClients.
func TestOneConversation(t *testing.T) {
	need(t, "weechat-headless", "irssi", "tmux")
	t.Parallel()
	n := startNode(t, build(t), "quic", nil)
	tp := startTap(t, n.irc)
	const withHistory, without = "server-time,message-tags,batch", "server-time,message-tags,batch,no-history"
	liveLogin, awayLogin := login{port: n.irc, nick: "wanda", user: "me@wanda"}, login{port: tp.port, nick: "anna", user: "me@anna"}
	live := startWeeChat(t, t.TempDir(), liveLogin, without)
	away := startWeeChat(t, t.TempDir(), awayLogin, withHistory)
	iri := startIrssi(t, login{port: n.irc, nick: "iris"})
	everybody := []client{live, away, iri}
	said := 0
	speak := func(who client, heard ...client) {
		t.Helper()
		said++
		who.say(t, "#dev", fmt.Sprint("line ", said))
		for _, c := range append(heard, who) {
			shows(t, c, "#dev", fmt.Sprintf(`\bline %d$`, said))
		}
	}

	speak(iri, live, away)
	speak(live, iri, away)
	speak(away, iri, live)
	speak(iri, live, away)
	// The daemon asks whether anna's client has read it, and it says so.
	at := tp.waits(t, "PRIVMSG #dev :line 4")
	eventually(t, "anna's client to prove what it has read", func() error {
		rest := tp.passed()[at:]
		if i := slices.IndexFunc(rest, func(l string) bool { return strings.Contains(l, " PING :read-") }); i >= 0 {
			_, token, _ := strings.Cut(rest[i], " PING ")
			if slices.Contains(rest[i:], "> PONG "+token) {
				return nil
			}
		}
		return fmt.Errorf("%q", rest)
	})
	away.quit(t)
	speak(iri, live)
	speak(live, iri)
	time.Sleep(2 * time.Second) // so that a wrong time can be told from the right one
	away = startWeeChat(t, away.dir, awayLogin, withHistory)
	everybody[1] = away
	shows(t, away, "#dev", `wanda\tline 6$`)
	speak(iri, live, away)
	live.quit(t)
	live = startWeeChat(t, live.dir, liveLogin, without)
	everybody[0] = live
	speak(away, live, iri)

	for i := 1; i <= said; i++ {
		text := fmt.Sprint("line ", i)
		var at []string
		for _, c := range everybody {
			all := lines(t, c, "#dev", `\b`+text+`$`)
			if len(all) != 1 {
				t.Errorf("%s shows %q", c.name(), all)
				continue
			}
			own := map[client]string{live: "wanda", away: "anna", iri: "iris"}[c]
			if !strings.Contains(all[0], own) { // its own words have the time of its own clock
				at = append(at, clock(t, all[0]))
			}
		}
		if len(slices.Compact(at)) != 1 {
			t.Errorf("%s has the times %q", text, at)
		}
	}
	n.stop(t)
}
