package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/privmsg"
)

const (
	// bigHistory is how many events there are, and pageOf how many messages a page holds.
	bigHistory = 100_000
	pageOf     = 500
	// historyBound is what a daemon may hold beyond the first page when a client has read half
	// of them: less than it takes to keep them in memory.
	historyBound = 8 << 20
)

// TestBigHistory: with 100,000 events a client reads all messages of a channel, page by page,
// each once, newest page first; one without history gets a bounded replay; and neither costs the
// daemon memory (failure-cases IRC 19, issue 5).
func TestBigHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("short")
	}
	d := spawn(t, build(t), "quic", true, nil, "")
	d.stop(t)
	storeHistory(t, filepath.Join(d.dir, "data", "hearsay", "graph"))
	d.start(t)

	var reader *ircClient
	connect := func() {
		reader = dialIRC(t, d, "reader")
		reader.send(t, "CAP REQ :batch draft/chathistory message-tags server-time", "JOIN #big") // so that it is known
		reader.wait(t, " 366 reader #big ")
	}
	connect()
	msgid := regexp.MustCompile(`^@(?:[^ ]*;)?msgid=(\w+)[; ][^ ]* ?:n\d+!\S+ PRIVMSG #big :text (\d+)$`)
	page := func(ask string) (ids []string, numbers []int) {
		t.Helper()
		reader.send(t, ask)
		reader.wait(t, " BATCH +")
		for {
			l := reader.wait(t, " ")
			if strings.Contains(l, " BATCH -") {
				return ids, numbers
			}
			m := msgid.FindStringSubmatch(l)
			if m == nil {
				t.Fatalf("%q", l)
			}
			n := 0
			_, _ = fmt.Sscan(m[2], &n)
			ids, numbers = append(ids, m[1]), append(numbers, n)
		}
	}
	eventually(t, "the order of arrival", func() error { // these events came while no daemon ran
		if _, n := page("CHATHISTORY LATEST #big * 1"); len(n) != 1 || n[0] != bigHistory-2 {
			return fmt.Errorf("the newest is %v", n)
		}
		return nil
	})
	d.stop(t)
	d.start(t)
	connect()
	ids, numbers := page(fmt.Sprintf("CHATHISTORY LATEST #big * %d", pageOf))
	before := d.rss(t)
	next, pages := bigHistory-2, 0 // the number that is due, from the newest down
	for ; len(ids) > 0; pages++ {
		for i := len(numbers) - 1; i >= 0; i-- {
			if numbers[i] != next {
				t.Fatalf("page %d: text %d, not %d", pages, numbers[i], next)
			}
			next -= 2
		}
		if len(ids) > pageOf {
			t.Fatalf("a page of %d messages", len(ids))
		}
		ids, numbers = page(fmt.Sprintf("CHATHISTORY BEFORE #big msgid=%s %d", ids[0], pageOf))
	}
	if next != -2 || pages != bigHistory/2/pageOf {
		t.Errorf("%d pages, the next would be text %d", pages, next)
	}

	// Who knows no CHATHISTORY gets the newest ones at JOIN, and no more.
	for i := range 20 {
		c := dialPlain(t, d, fmt.Sprintf("plain%d", i))
		c.send(t, "JOIN #big,#other", "PING over")
		n := map[string]int{}
		for !strings.Contains(c.last(t, n), fmt.Sprintf("text %d", bigHistory-1)) {
		}
		if n["#big"] != pageOf || n["#other"] != pageOf {
			t.Errorf("replayed: %v", n)
		}
		_ = c.conn.Close()
	}
	eventually(t, "the end of garbage", func() error { // what is collected goes back within seconds
		if more := d.rss(t) - before; more > historyBound {
			return fmt.Errorf("%d KiB more than %d KiB", more>>10, before>>10)
		}
		return nil
	})
	t.Logf("RssAnon %d KiB at the first page, %+d KiB after %d pages and 20 replays", before>>10, (d.rss(t)-before)>>10, pages)
}

// dialPlain connects a client that knows no capability.
func dialPlain(t *testing.T, d *daemonProc, nick string) *ircClient {
	t.Helper()
	c := connectIRC(t, d, func(c *ircClient, line string) { c.lines <- line })
	c.send(t, "NICK "+nick, "USER "+nick+" 0 * :"+nick)
	c.wait(t, " 422 ")
	return c
}

// last counts a message by its channel and returns the line.
func (c *ircClient) last(t *testing.T, n map[string]int) string {
	t.Helper()
	l := c.wait(t, " PRIVMSG #")
	for _, channel := range []string{"#big", "#other"} {
		if strings.Contains(l, " PRIVMSG "+channel+" :") {
			n[channel]++
		}
	}
	return l
}

// storeHistory fills a graph with messages, in #big and in #other by turns.
func storeHistory(t *testing.T, dir string) {
	t.Helper()
	params := attackedParams()
	g, err := eventgraph.Open(dir, eventgraph.Config{Params: params})
	if err != nil {
		t.Fatal(err)
	}
	slot := g.Current()
	last := params.GenesisOf(slot)
	var part []eventgraph.Event
	start := uint64(time.Now().Add(-time.Hour).UnixMilli())
	for i := range bigHistory {
		channel := "#big"
		if i%2 == 1 {
			channel = "#other"
		}
		m := privmsg.Message{Channel: channel, Nick: fmt.Sprintf("n%d", i%700), Text: fmt.Sprintf("text %d", i)}
		e := eventgraph.Event{Content: m.AppendTo(nil)}
		e.Timestamp = start + uint64(i)
		e.ContentHash = eventgraph.HashContent(e.Content)
		e.Parents[0], e.Layer = last.ID(), last.Layer+1
		last = e
		if part = append(part, e); len(part) == eventgraph.MaxHeaders || i == bigHistory-1 {
			if _, err := g.Insert(t.Context(), slot, part, eventgraph.SourceSync); err != nil {
				t.Fatal(err)
			}
			part = nil
		}
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
}
