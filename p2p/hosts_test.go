package p2p

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var hostsNow = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

const (
	onionA = "wgxxaifz5gv4iggcflyl67lgmsihffs6bbwobqah4np52t3y3olrnpid.onion"
	i2pA   = "6l2rdfriixo2nh5pr5bt555lyz56qox2ikzia4kuzm4okje7gtmq.b32.i2p"
)

// testHosts dials tcp and tcp+tls.
func testHosts(edit func(*settings)) *hosts {
	s := &settings{}
	if edit != nil {
		edit(s)
	}
	return newHosts(s, func() []URL { return s.ExternalAddrs }, func(u URL) bool {
		return u.Scheme() == "tcp" || u.Scheme() == "tcp+tls"
	})
}

func (h *hosts) where(u URL) (in []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.lists {
		if _, ok := h.lists[c].has[u]; ok {
			in = append(in, colourNames[c])
		}
	}
	return in
}

func wantIn(t *testing.T, h *hosts, u URL, want ...string) {
	t.Helper()
	if got := h.where(u); !slices.Equal(got, want) {
		t.Errorf("%s is in %v, want %v", u, got, want)
	}
}

func nth(i int) URL {
	return MustParseURL(fmt.Sprintf("tcp://5.%d.%d.%d:9600", i>>16&255, i>>8&255, i&255))
}

// checkLists verifies what every list promises.
func checkLists(t *testing.T, h *hosts) {
	t.Helper()
	for c, l := range h.lists {
		if len(l.order) > l.cap || len(l.order) != len(l.has) {
			t.Fatalf("%s: %d entries, %d known, cap %d", colourNames[c], len(l.order), len(l.has), l.cap)
		}
		for i, e := range l.order {
			if l.has[e.url] != e.lastSeen || i > 0 && l.order[i-1].lastSeen < e.lastSeen {
				t.Fatalf("%s: entry %d is out of order", colourNames[c], i)
			}
		}
	}
}

func TestHostListCaps(t *testing.T) {
	for c := range colours {
		h := testHosts(nil)
		for i := range colourCaps[c] {
			h.put(c, hostEntry{nth(i), uint64(i)})
		}
		if got := h.counts()[c]; got != colourCaps[c] {
			t.Errorf("%s: %d entries at the cap", colourNames[c], got)
		}
		h.put(c, hostEntry{nth(1 << 20), 1 << 20})
		wantIn(t, h, nth(0)) // the oldest has gone
		wantIn(t, h, nth(1), colourNames[c])
		h.put(c, hostEntry{nth(1<<20 + 1), 0}) // older than all
		wantIn(t, h, nth(1<<20+1))
		checkLists(t, h)
	}
}

// The lists that an address leaves when it enters one (facts page 5.2).
func TestHostListMoves(t *testing.T) {
	for _, to := range []colour{grey, white, gold, black} {
		for _, from := range []colour{grey, white, gold} {
			h := testHosts(nil)
			h.put(from, hostEntry{nth(1), 1})
			h.put(to, hostEntry{nth(1), 2})
			want := []string{colourNames[to]}
			if to == white && from == gold { // nothing moves gold to white: it goes through grey
				want = []string{"white", "gold"}
			}
			wantIn(t, h, nth(1), want...)
		}
	}
}

// The intake filter, in its order (facts page 5.5).
func TestIntakeFilter(t *testing.T) {
	edit := func(s *settings) {
		s.Seeds = []URL{MustParseURL("tcp+tls://lilith0.dark.fi:9600")}
		s.Peers = []URL{MustParseURL("tcp://9.9.9.9:1")}
		s.ExternalAddrs = []URL{MustParseURL("tcp://8.8.8.8:9600")}
		s.Blacklist = []BlockRule{{Host: "7.7.7.7", Schemes: []string{"tcp"}}, {Host: "7.7.7.8", Ports: []uint16{5}}}
	}
	local := func(s *settings) { edit(s); s.Localnet = true }
	for _, c := range []struct {
		url      string
		localnet bool
		want     string // list, or empty
	}{
		{"tcp://1.2.3.4:9600", false, "grey"},
		{"tcp+tls://example.org:9600", false, "grey"},
		{"tcp+tls://[2606:4700::1111]:9600", false, "grey"},
		{"tcp://1.2.3.4", false, ""},                      // no port
		{"mailto:x", false, ""},                           // opaque
		{"unix:///tmp/s", false, ""},                      // no host
		{"tcp+tls://lilith0.dark.fi:9600", false, ""},     // a seed
		{"tcp+tls://lilith0.dark.fi:9601", false, "grey"}, // not that seed
		{"tcp://9.9.9.9:1", false, ""},                    // a manual peer
		{"tcp://7.7.7.7:1", false, ""},                    // black-listed host
		{"tcp+tls://7.7.7.7:1", false, "grey"},            // for another scheme
		{"tcp+tls://7.7.7.8:5", false, ""},                // black-listed port, default scheme
		{"tcp+tls://7.7.7.8:6", false, "grey"},
		{"tcp+tls://8.8.8.8:1", false, ""}, // an own host
		{"tcp+tls://8.8.8.8:1", true, "grey"},
		{"tcp://5.5.5.5:9600", true, ""}, // an own port
		{"tcp://127.0.0.1:1", false, ""},
		{"tcp://127.0.0.1:1", true, "grey"},
		{"tcp://localhost:1", false, ""},
		{"tcp://[fe80::1]:1", false, ""},
		{"tcp://[::ffff:8.8.4.4]:1", false, ""},
		{"quic://1.2.3.4:1", false, "dark"},
		{"tor://" + onionA + ":1", false, "dark"},
		{"tor+tls://example.org:1", false, ""},
		{"tor://a" + onionA[1:] + ":1", false, ""}, // bad checksum
		{"i2p://" + i2pA + ":1", false, "dark"},
		{"i2p://name-1.i2p:1", false, "dark"},
		{"i2p://abc.b32.i2p:1", false, ""},
		{"i2p://na_me.i2p:1", false, ""},
		{"i2p://.i2p:1", false, ""},
		{"nym://1.2.3.4:1", false, ""},
		{"tls://1.2.3.4:1", false, ""},
		{"socks5://127.0.0.1:9050/a:1", true, ""},
		{"tcp://1.2.3.4:9600/" + strings.Repeat("a", maxDialedURL), false, ""},
	} {
		h := testHosts(edit)
		if c.localnet {
			h = testHosts(local)
		}
		u := MustParseURL(c.url)
		got := h.intake([]hostEntry{{u, 5}}, hostsNow)
		if (got == 1) != (c.want == "grey") {
			t.Errorf("%s: %d stored", c.url, got)
		}
		if c.want == "" {
			wantIn(t, h, u)
		} else {
			wantIn(t, h, u, c.want)
		}
	}
}

func TestIntakeKeepsWhatIsKnown(t *testing.T) {
	h := testHosts(nil)
	u := nth(1)
	for _, c := range []colour{grey, white, gold} {
		h.put(c, hostEntry{u, 7})
		if h.intake([]hostEntry{{u, 99}}, hostsNow) != 0 || h.lists[c].has[u] != 7 {
			t.Errorf("%s: changed by intake", colourNames[c])
		}
	}
	busy := nth(2)
	h.claim(busy)
	if h.intake([]hostEntry{{busy, 1}}, hostsNow) != 0 {
		t.Error("an address in use was stored")
	}
	// A time in the future would outlive honest entries.
	h.intake([]hostEntry{{nth(3), 1 << 62}}, hostsNow)
	if got := h.lists[grey].has[nth(3)]; got != unix(hostsNow) {
		t.Errorf("last_seen %d", got)
	}
	// Dark until it can be dialed; forgotten after a day.
	d := MustParseURL("quic://5.5.5.5:1")
	h.intake([]hostEntry{{d, unix(hostsNow)}}, hostsNow)
	wantIn(t, h, d, "dark")
	h.intake([]hostEntry{{MustParseURL("quic://5.5.5.6:1"), unix(hostsNow)}}, hostsNow.Add(darkAge))
	wantIn(t, h, d, "dark")
	h.intake([]hostEntry{{MustParseURL("quic://5.5.5.7:1"), unix(hostsNow)}}, hostsNow.Add(darkAge+time.Second))
	wantIn(t, h, d)
	h.intake([]hostEntry{{d, unix(hostsNow)}}, hostsNow)
	h.dialable = func(URL) bool { return true }
	h.intake([]hostEntry{{d, unix(hostsNow)}}, hostsNow)
	wantIn(t, h, d, "grey")
	checkLists(t, h)
}

func TestAddrStates(t *testing.T) {
	all := []addrState{stateFree, stateRefine, stateConnect, stateConnected, stateSuspend}
	allowed := map[addrState][]addrState{ // next: from
		stateFree:      all,
		stateRefine:    {stateFree, stateSuspend},
		stateConnect:   {stateFree},
		stateConnected: {stateFree, stateRefine, stateConnect},
		stateSuspend:   {stateFree, stateConnect},
	}
	for next, from := range allowed {
		for _, s := range all {
			if got := s.mayBecome(next); got != slices.Contains(from, s) {
				t.Errorf("%d to %d: %v", s, next, got)
			}
		}
	}
}

func TestLifeOfAnAddress(t *testing.T) {
	h := testHosts(nil)
	pick := func(n int) int { return n - 1 }
	u := nth(1)
	h.intake([]hostEntry{{u, 5}}, hostsNow)

	// A slot fails to reach it: grey and suspended, so no slot takes it again.
	if got, ok := h.claimOutbound(true, true, pick); !ok || got != u {
		t.Fatalf("claimed %v %v", got, ok)
	}
	if _, ok := h.claimOutbound(true, true, pick); ok {
		t.Fatal("claimed twice")
	}
	h.failed(u, hostsNow)
	wantIn(t, h, u, "grey")
	if h.lists[grey].has[u] != 5 {
		t.Error("last_seen changed by a failure")
	}
	if _, ok := h.claimOutbound(true, true, pick); ok {
		t.Fatal("a suspended address was claimed")
	}
	// A probe that works frees it (upstream keeps it suspended: not copied).
	if got, ok := h.claimRefine(pick); !ok || got != u {
		t.Fatalf("to probe: %v %v", got, ok)
	}
	if _, ok := h.claimRefine(pick); ok {
		t.Fatal("probed twice")
	}
	h.refined(u, true, hostsNow)
	wantIn(t, h, u, "white")
	if h.lists[white].has[u] != unix(hostsNow) {
		t.Error("last_seen is not the probe's time")
	}
	// Connected: gold. Two connections of one address count.
	if !h.claim(u) {
		t.Fatal("not free after the probe")
	}
	h.connected(u, true, hostsNow)
	h.connected(u, false, hostsNow)
	wantIn(t, h, u, "gold")
	h.disconnected(u, false, hostsNow)
	if h.claim(u) {
		t.Error("free although a connection lives")
	}
	h.disconnected(u, true, hostsNow.Add(time.Hour))
	wantIn(t, h, u, "grey")
	if h.lists[grey].has[u] != unix(hostsNow) {
		t.Error("last_seen changed by the end of a connection")
	}
	// A probe that fails deletes it.
	if _, ok := h.claimRefine(pick); !ok {
		t.Fatal("not to be probed")
	}
	h.refined(u, false, hostsNow)
	wantIn(t, h, u)
	if len(h.uses) != 0 {
		t.Errorf("%d uses left", len(h.uses))
	}
	// Pushed off the grey list while suspended: nothing stays behind.
	h.claim(u)
	h.failed(u, time.Unix(0, 0))
	for i := range greyCap {
		h.put(grey, hostEntry{nth(i + 10), uint64(i + 10)})
	}
	if len(h.uses) != 0 {
		t.Errorf("%d uses left after eviction", len(h.uses))
	}
	// Our own network was down: everybody gets another chance.
	v := nth(10 + greyCap - 1)
	h.claim(v)
	h.failed(v, hostsNow)
	h.freeSuspended()
	if !h.claim(v) {
		t.Error("still suspended")
	}
	h.unclaim(v)
	if !h.claim(v) {
		t.Error("not free after unclaim")
	}
	checkLists(t, h)
}

func TestClaimOutboundPrefers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)).IntN
	for _, c := range []struct {
		known, greys bool
		lists        []colour
		want         colour
		ok           bool
	}{
		{true, true, []colour{grey, white, gold}, gold, true},
		{true, true, []colour{grey, white}, white, true},
		{true, true, []colour{grey}, grey, true},
		{false, true, []colour{grey, white, gold}, grey, true},
		{false, true, []colour{white, gold}, gold, true},
		{true, false, []colour{grey}, 0, false},
		{true, true, []colour{black}, 0, false},
		{true, true, []colour{dark}, 0, false},
	} {
		h := testHosts(nil)
		for i, l := range c.lists {
			h.put(l, hostEntry{nth(i), 1})
		}
		u, ok := h.claimOutbound(c.known, c.greys, random)
		if ok != c.ok || ok && h.where(u)[0] != colourNames[c.want] {
			t.Errorf("%+v: got %v %v", c, h.where(u), ok)
		}
	}
	// Seeds, own, black-listed and undialable addresses are never taken.
	h := testHosts(func(s *settings) {
		s.Seeds, s.ExternalAddrs = []URL{nth(1)}, []URL{nth(2)}
		s.Blacklist = []BlockRule{{Host: nth(3).Host(), Schemes: []string{"tcp"}}}
	})
	for i := range 4 {
		h.put(white, hostEntry{nth(i), 1})
	}
	h.put(white, hostEntry{MustParseURL("quic://5.0.0.9:1"), 1})
	if u, ok := h.claimOutbound(true, true, random); !ok || u != nth(0) {
		t.Errorf("%v %v", u, ok)
	}
	if u, ok := h.claimOutbound(true, true, random); ok {
		t.Errorf("%v", u)
	}
}

func TestAnswer(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)).IntN
	h := testHosts(nil)
	for i := range 20 {
		h.put(gold, hostEntry{nth(i), 1})
		h.put(white, hostEntry{nth(100 + i), 2})
		h.put(grey, hostEntry{nth(200 + i), 3})
		h.put(white, hostEntry{MustParseURL(fmt.Sprintf("tcp+tls://6.0.0.%d:1", i)), 4})
		h.put(dark, hostEntry{MustParseURL(fmt.Sprintf("i2p://n%d.i2p:1", i)), 5})
		h.put(white, hostEntry{MustParseURL(fmt.Sprintf("quic://6.0.0.%d:1", i)), 6})
		h.put(white, hostEntry{MustParseURL(fmt.Sprintf("unix:///%d", i)), 7})
	}
	ours := []string{"tcp", "tcp+tls", "quic"}
	count := func(max uint32, transports ...string) map[string]int {
		n := make(map[string]int)
		seen := make(map[URL]bool)
		for _, e := range h.answer(getaddrMsg{max, transports}, ours, random) {
			if seen[e.url] {
				t.Errorf("%s twice", e.url)
			}
			seen[e.url] = true
			n[h.where(e.url)[0]+" "+e.url.Scheme()]++
		}
		return n
	}
	for _, c := range []struct {
		max        uint32
		transports []string
		want       map[string]int
	}{
		{0, []string{"tcp"}, map[string]int{}},
		{4, []string{"tcp"}, map[string]int{"gold tcp": 4, "white tcp": 4}},
		{15, []string{"tcp"}, map[string]int{"gold tcp": 15, "white tcp": 15}},
		{25, []string{"tcp"}, map[string]int{"gold tcp": 20, "white tcp": 20, "white tcp+tls": 10}},
		{5, []string{"i2p"}, map[string]int{"gold tcp": 10}},
		{10, []string{"nonsense"}, map[string]int{"gold tcp": 20}},
		{10, []string{"quic"}, map[string]int{"white quic": 10, "gold tcp": 10}},
		{1000, []string{"tcp"}, map[string]int{"gold tcp": 20, "white tcp": 20, "white tcp+tls": 20, "dark i2p": 20}},
	} {
		got := count(c.max, c.transports...)
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("max %d %v: %v, want %v", c.max, c.transports, got, c.want)
		}
	}
}

// Who is on the black list after a ban (facts page 2.6).
func TestBan(t *testing.T) {
	for name, c := range map[string]struct {
		url      string
		inbound  bool
		localnet bool
		known    string // on the white list
		want     string
	}{
		"dialed":                    {"tcp://5.5.5.5:9600", false, false, "", "tcp://5.5.5.5:9600"},
		"inbound":                   {"tcp://5.5.5.5:40001", true, false, "", "tcp://5.5.5.5"},
		"inbound of a known host":   {"tcp://5.5.5.5:40001", true, false, "tcp+tls://5.5.5.5:9600", "tcp://5.5.5.5:40001"},
		"local":                     {"tcp://127.0.0.1:9600", false, false, "", ""},
		"local inbound":             {"tcp://10.0.0.1:40001", true, false, "", ""},
		"local, localnet":           {"tcp://127.0.0.1:9600", false, true, "", "tcp://127.0.0.1:9600"},
		"local inbound, localnet":   {"tcp://127.0.0.1:40001", true, true, "", "tcp://127.0.0.1"},
		"unix inbound":              {"unix:///tmp/s", true, true, "", ""},
		"tor inbound":               {"tor://127.0.0.1:9601", true, true, "", ""},
		"onion dialed":              {"tor://" + onionA + ":9601", false, false, "", "tor://" + onionA + ":9601"},
		"name under a plain scheme": {"i2p://1.2.3.4:1", false, false, "", "i2p://1.2.3.4:1"},
	} {
		h := testHosts(func(s *settings) { s.Localnet = c.localnet })
		if c.known != "" {
			h.put(white, hostEntry{MustParseURL(c.known), 1})
		}
		u := MustParseURL(c.url)
		if got := h.ban(u, c.inbound, hostsNow); got != (c.want != "") {
			t.Errorf("%s: listed %v", name, got)
		}
		if c.want == "" {
			if h.counts()[black] != 0 || h.blacklisted(u) {
				t.Errorf("%s: banned", name)
			}
			continue
		}
		wantIn(t, h, MustParseURL(c.want), "black")
		if !h.blacklisted(u) {
			t.Errorf("%s: not black-listed", name)
		}
		another := u.WithPort(77)
		if got, want := h.blacklisted(another), !MustParseURL(c.want).HasPort(); got != want {
			t.Errorf("%s: another port black-listed %v", name, got)
		}
		if h.blacklisted(MustParseURL("quic://5.5.5.5:9600")) {
			t.Errorf("%s: another scheme is black-listed", name)
		}
	}
	// The same text leaves the other lists; nobody dials it.
	h := testHosts(nil)
	h.put(grey, hostEntry{nth(1), 1})
	h.ban(nth(1), false, hostsNow)
	wantIn(t, h, nth(1), "black")
	// A slot's failure or end does not bring it back.
	h.failed(nth(1), hostsNow)
	h.connected(nth(1), false, hostsNow)
	h.disconnected(nth(1), true, hostsNow)
	wantIn(t, h, nth(1), "black")
}

const sampleHosts = "dark\ti2p://6l2rdfriixo2nh5pr5bt555lyz56qox2ikzia4kuzm4okje7gtmq.b32.i2p:9602\t1780313000\n" +
	"grey\ttcp+tls://198.18.7.7:9600/\t1753291111\n" +
	"white\ttcp+tls://irc.example.org:9600/\t1753292222\n" +
	"gold\ttcp+tls://[2606:4700::1111]:9600/\t1753293550\n"

// The example of the facts page 5.8 (the dark entry made young enough), both ways.
func TestHostsFile(t *testing.T) {
	h := testHosts(nil)
	if err := h.parseFile(strings.NewReader(sampleHosts), hostsNow); err != nil {
		t.Fatal(err)
	}
	if got := string(h.fileText()); got != sampleHosts {
		t.Errorf("wrote\n%s", got)
	}
	checkLists(t, h)

	h = testHosts(nil)
	noisy := "grey\ttcp://1.1.1.1:1\n" + // two fields
		"pink\ttcp://1.1.1.1:1\t5\n" + // no colour
		"grey\tnothing\t5\ngrey\ttcp://1.1.1.1:1\t-5\ngrey\ttcp://1.1.1.1:1\tx\n\n" +
		"grey\ttcp://" + strings.Repeat("a", 2*maxHostsLine) + ":1\t5\n" + // longer than a line may be
		"grey\ttcp://2.2.2.2:1\t5\textra\tfields\r\n" +
		"black\ttcp://3.3.3.3:1/\t5\n" +
		"dark\tquic://4.4.4.4:1/\t5\n" + // older than a day
		"white\ttcp://5.5.5.5:1\t18446744073709551615" // no newline
	if err := h.parseFile(strings.NewReader(noisy), hostsNow); err != nil {
		t.Fatal(err)
	}
	want := "grey\ttcp://2.2.2.2:1/\t5\nwhite\ttcp://5.5.5.5:1/\t18446744073709551615\n"
	if got := string(h.fileText()); got != want {
		t.Errorf("wrote\n%s", got)
	}
	if !h.blacklisted(MustParseURL("tcp://3.3.3.3:1")) {
		t.Error("a black line was not honoured")
	}
}

func TestHostsFileOnDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts.tsv")
	h := testHosts(nil)
	if err := h.load(path, hostsNow); err != nil {
		t.Errorf("missing file: %v", err)
	}
	if err := h.save(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("empty lists were saved")
	}
	h.put(white, hostEntry{nth(1), 5})
	if err := h.save(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	again := testHosts(nil)
	if err := again.load(path, hostsNow); err != nil || again.counts()[white] != 1 {
		t.Errorf("%v, %v", again.counts(), err)
	}
	// Unchanged: the file is left alone. A failing save says so and stays due.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := h.save(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("saved without a change")
	}
	h.put(white, hostEntry{nth(2), 5})
	missing := filepath.Join(t.TempDir(), "no", "such", "dir")
	if err := h.save(missing); err == nil {
		t.Error("saved into a missing directory")
	}
	if err := h.save(path); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Error("a failed save was forgotten")
	}
	if err := h.load(t.TempDir(), hostsNow); err == nil {
		t.Error("a directory was read")
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*.tmp")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func FuzzHostsFile(f *testing.F) {
	f.Add([]byte(sampleHosts))
	f.Add([]byte("black\ttcp://1.2.3.4:1\t5\ngrey\ttcp://1.2.3.4:1\t6"))
	f.Fuzz(func(t *testing.T, text []byte) {
		h := testHosts(nil)
		if err := h.parseFile(bytes.NewReader(text), hostsNow); err != nil {
			t.Fatal(err)
		}
		checkLists(t, h)
		once := h.fileText()
		again := testHosts(nil)
		if err := again.parseFile(bytes.NewReader(once), hostsNow); err != nil {
			t.Fatal(err)
		}
		for c, n := range again.counts() {
			if colour(c) != black && n != h.counts()[c] {
				t.Fatalf("%s: %d entries, read back %d", colourNames[c], h.counts()[c], n)
			}
		}
	})
}

func TestIsLocal(t *testing.T) {
	for text, want := range map[string]bool{
		"0.1.2.3": true, "10.255.255.255": true, "11.0.0.0": false, "100.63.255.255": false, "100.64.0.0": true,
		"100.127.255.255": true, "100.128.0.0": false, "127.9.9.9": true, "169.254.1.1": true, "172.15.255.255": false,
		"172.16.0.0": true, "172.31.255.255": true, "172.32.0.0": false, "192.0.0.8": true, "192.0.0.9": false,
		"192.0.0.10": false, "192.0.0.11": true, "192.0.1.0": false, "192.0.2.1": true, "192.168.1.1": true,
		"198.17.0.0": false, "198.18.0.0": true, "198.19.255.255": true, "198.20.0.0": false, "198.51.100.1": true,
		"203.0.113.1": true, "224.0.0.1": false, "239.255.255.255": false, "240.0.0.0": true, "255.255.255.255": true,
		"8.8.8.8": false,
		"[::]":    true, "[::1]": true, "[::2]": false, "[::ffff:8.8.8.8]": true, "[64:ff9b::1]": false,
		"[64:ff9b:1::1]": true, "[100::1]": true, "[2001::1]": true, "[2001:1::1]": false, "[2001:1::2]": false,
		"[2001:1::3]": true, "[2001:3::1]": false, "[2001:4:112::1]": false, "[2001:20::1]": false, "[2001:2f::1]": false,
		"[2001:30::1]": false, "[2001:3f::1]": false, "[2001:40::1]": true, "[2001:200::1]": false, "[2001:db8::1]": true,
		"[2002::1]": true, "[3fff:fff::1]": true, "[5f00::1]": true, "[fc00::1]": true, "[fdff::1]": true,
		"[fe80::1]": true, "[fec0::1]": false, "[ff02::1]": false, "[2606:4700::1111]": false,
		"localhost": true, "localhost.localdomain": true, "example.org": false,
	} {
		if got := isLocal(MustParseURL("tcp://" + text + ":1")); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if isLocal(MustParseURL("i2p://127.0.0.1:1")) {
		t.Error("a dotted quad under i2p is a name")
	}
}
