package bench

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hearsay/eventgraph"
	"hearsay/internal/privmsg"
)

// BenchmarkIRCLine is the time from a line that one client writes to the same line at another
// client of the same server, one at a time, by turns: hearsay's daemon in a channel, where
// the message is on the disk before anybody sees it; the same from client to client, which
// stays local and is not kept; ngircd in a channel; and what the disk takes for such a line
// by itself. In µs.
func BenchmarkIRCLine(b *testing.B) {
	bin := buildHearsay(b)
	ours := startHearsay(b, bin, b.TempDir(), false, "[outbound]\nmax_messages = 1000000\nmax_bytes = \"1GiB\"\n")
	theirs := startNgircd(b, bin)
	file, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer file.Close()
	type way struct {
		name   string
		target string
		from   *ircConn
		to     *ircConn
		took   []time.Duration
	}
	said := func(name, target string, s *ircServer, nick string) *way {
		return &way{name: name, target: target, from: s.client(b, nick+"a", "#bench"), to: s.client(b, nick+"b", "#bench")}
	}
	channel, local, disk := said("durable-µs", "#bench", ours, "c"), said("local-µs", "lb", ours, "l"), &way{name: "fdatasync-µs"}
	ways := []*way{channel, local, disk}
	var ngircd *way
	if theirs != nil {
		ngircd = said("ngircd-µs", "#bench", theirs, "n")
		ways = append(ways, ngircd)
	}
	per := 200
	if testing.Short() {
		per = 5
	}
	n := 0
	for b.Loop() {
		for _, w := range ways {
			for range per {
				n++
				line := fmt.Sprintf("PRIVMSG %s :the line that is measured, number %d\r\n", w.target, n)
				begin := time.Now()
				if w == disk {
					_, err = io.WriteString(file, line)
					if err == nil {
						err = datasync(file)
					}
				} else if _, err = io.WriteString(w.from, line); err == nil {
					_, err = w.to.until(fmt.Sprintf("number %d\r", n))
				}
				if err != nil {
					b.Fatal(w.name, err)
				}
				w.took = append(w.took, time.Since(begin))
			}
		}
	}
	medians := map[*way]time.Duration{}
	for _, w := range ways {
		medians[w] = percentiles(b, w.took, time.Microsecond, w.name)
	}
	if ngircd != nil {
		b.ReportMetric(float64(medians[channel])/float64(medians[ngircd]), "durable/ngircd")
		b.ReportMetric(float64(medians[local])/float64(medians[ngircd]), "local/ngircd")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIRCCycles is clients that connect, register, join a channel and go, one after
// the other, 500 to a round, each with a nick of its own: by QUIT, by a reset, and over
// TLS; beside it the same with ngircd. Memory is RssAnon after the first round and after the
// last.
func BenchmarkIRCCycles(b *testing.B) {
	bin := buildHearsay(b)
	cycles := 500
	if testing.Short() {
		cycles = 5
	}
	for _, kind := range []struct {
		name          string
		secure, reset bool
	}{{"quit", false, false}, {"reset", false, true}, {"tls", true, false}} {
		run := func(s *ircServer) func(b *testing.B) {
			return func(b *testing.B) {
				if s == nil {
					b.Skip("not installed")
				}
				id := 0
				round := func() {
					for range cycles {
						id++
						if err := s.visit(fmt.Sprintf("n%d", id), kind.secure, kind.reset); err != nil {
							b.Fatal(err)
						}
					}
				}
				round()
				before := s.rss(b)
				for b.Loop() {
					round()
				}
				b.ReportMetric(float64(b.N*cycles)/b.Elapsed().Seconds(), "cycles/s")
				b.ReportMetric(float64(before), "before-KiB")
				b.ReportMetric(float64(s.rss(b)-before), "more-KiB")
				b.ReportMetric(0, "ns/op")
			}
		}
		b.Run(kind.name+"/hearsay", func(b *testing.B) { run(startHearsay(b, bin, b.TempDir(), kind.secure, ""))(b) })
		b.Run(kind.name+"/ngircd", func(b *testing.B) { run(startNgircd(b, bin))(b) })
	}
}

// visit is one client that comes and goes.
func (s *ircServer) visit(nick string, secure, reset bool) error {
	c, err := s.dial(secure)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.ask("NICK "+nick+"\r\nUSER u 0 * :u\r\nJOIN #all\r\n", " 366 "); err != nil {
		return err
	}
	if l, ok := c.Conn.(interface{ SetLinger(int) error }); ok && reset {
		return l.SetLinger(0)
	}
	if _, err := io.WriteString(c, "QUIT :bye\r\n"); err != nil {
		return err
	}
	_, err = c.until("ERROR")
	return err
}

// BenchmarkIRCReady starts the daemon on an empty store and waits until a client is
// welcome, 20 times; beside it ngircd. In ms.
func BenchmarkIRCReady(b *testing.B) {
	bin := buildHearsay(b)
	starts := 20
	if testing.Short() {
		starts = 2
	}
	for _, kind := range []string{"hearsay", "ngircd"} {
		b.Run(kind, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				for range starts {
					var s *ircServer
					if kind == "hearsay" {
						s = startHearsay(b, bin, b.TempDir(), false, "")
					} else if s = startNgircd(b, bin); s == nil {
						b.Skip("not installed")
					}
					took = append(took, s.ready)
					s.stop()
				}
			}
			percentiles(b, took, time.Millisecond, "ready-ms")
			b.ReportMetric(float64(slices.Max(took))/1e6, "ready-ms-max")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkIRCHistory is a store of 100,000 messages: the first page of CHATHISTORY after
// a start, all pages of a channel that has half of them, and what a client that knows no
// CHATHISTORY gets at JOIN (500 messages); with the daemon's memory before and after.
func BenchmarkIRCHistory(b *testing.B) {
	bin, dir, events := buildHearsay(b), b.TempDir(), syncEvents()
	params := oneSlot()
	storeMessages(b, filepath.Join(dir, "hearsay", "graph"), params, events)
	more := fmt.Sprintf("[graph]\ngenesis = %d\ngenesis_contents = \"bench\"\nrotation = \"0s\"\n", params.Genesis)
	newest := fmt.Sprintf(":text %d\r", events-2)
	reader := func(s *ircServer) *ircConn {
		c := s.client(b, "reader", "#elsewhere")
		if err := c.ask("CAP REQ :batch draft/chathistory message-tags\r\nJOIN #big\r\n", " 366 "); err != nil {
			b.Fatal(err)
		}
		return c
	}
	// page returns the msgid to go on with, "" after the last page.
	page := func(c *ircConn, from string) (first string, n int) {
		if err := c.ask(fmt.Sprintf("CHATHISTORY %s 500\r\n", from), " BATCH +"); err != nil {
			b.Fatal(err)
		}
		for {
			line, err := c.until(" ")
			if err != nil {
				b.Fatal(err)
			}
			if line[0] == ':' {
				return first, n
			}
			if n++; n == 1 {
				first = msgidOf(line)
			}
		}
	}
	s := startHearsay(b, bin, dir, false, more)
	for c := reader(s); ; time.Sleep(100 * time.Millisecond) { // they came while no daemon ran
		if c.ask("CHATHISTORY LATEST #big * 1\r\n", " BATCH +") != nil {
			b.Fatal("no answer")
		}
		if line, err := c.until(" "); err != nil {
			b.Fatal(err)
		} else if strings.HasSuffix(line, newest+"\n") {
			break
		}
	}
	s.stop()

	var first, pages, replays []time.Duration
	var before, after, replayed int
	for b.Loop() {
		s := startHearsay(b, bin, dir, false, more)
		c := reader(s)
		before = max(before, s.rss(b))
		begin := time.Now()
		id, n := page(c, "LATEST #big *")
		first = append(first, time.Since(begin))
		for n > 0 {
			begin := time.Now()
			id, n = page(c, "BEFORE #big msgid="+id)
			pages = append(pages, time.Since(begin))
		}
		for i := range 10 {
			c := s.client(b, fmt.Sprintf("old%d", i), "#elsewhere")
			begin := time.Now()
			if err := c.ask("JOIN #big\r\n", " 366 "); err != nil {
				b.Fatal(err)
			}
			for replayed = 1; ; replayed++ {
				line, err := c.until(" PRIVMSG #big ")
				if err != nil {
					b.Fatal(err)
				}
				if strings.HasSuffix(line, newest+"\n") {
					break
				}
			}
			replays = append(replays, time.Since(begin))
			c.Close()
		}
		after = max(after, s.rss(b))
		s.stop()
	}
	percentiles(b, first, time.Millisecond, "first-page-ms")
	percentiles(b, pages, time.Millisecond, "page-ms")
	percentiles(b, replays, time.Millisecond, "replay-ms")
	b.ReportMetric(float64(replayed), "replayed")
	b.ReportMetric(float64(before)/1000, "before-MB")
	b.ReportMetric(float64(after)/1000, "after-MB")
	b.ReportMetric(0, "ns/op")
}

// msgidOf takes a msgid out of a line's tags.
func msgidOf(line string) string {
	const key = "msgid="
	for i := range line {
		if line[i] == ' ' {
			break
		}
		if len(line) > i+len(key) && line[i:i+len(key)] == key {
			end := i + len(key)
			for line[end] != ';' && line[end] != ' ' {
				end++
			}
			return line[i+len(key) : end]
		}
	}
	return ""
}

// storeMessages fills a graph with messages in #big and in #other by turns.
func storeMessages(b *testing.B, dir string, params eventgraph.Params, n int) {
	b.Helper()
	g, err := eventgraph.Open(dir, eventgraph.Config{Params: params})
	if err != nil {
		b.Fatal(err)
	}
	last, list := params.GenesisOf(params.Genesis), make([]eventgraph.Event, n)
	for i := range list {
		m := privmsg.Message{Channel: []string{"#big", "#other"}[i%2], Nick: fmt.Sprintf("n%d", i%700), Text: fmt.Sprintf("text %d", i)}
		e := eventgraph.Event{Content: m.AppendTo(nil)}
		e.Timestamp = uint64(params.Genesis) + 1 + uint64(i)
		e.ContentHash = eventgraph.HashContent(e.Content)
		e.Parents[0], e.Layer = last.ID(), last.Layer+1
		list[i], last = e, e
	}
	store(b, g, params.Genesis, list)
	if err := g.Close(); err != nil {
		b.Fatal(err)
	}
}
