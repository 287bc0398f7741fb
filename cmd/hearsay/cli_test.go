package main

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/bcrypt"

	"hearsay/internal/config"
	"hearsay/ircd"
)

// cli runs a command line in a home directory of its own.
func cli(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func home(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("XDG_DATA_HOME", "")
	return dir
}

func everyCommand(cmd *cobra.Command, fn func(*cobra.Command)) {
	fn(cmd)
	for _, sub := range cmd.Commands() {
		everyCommand(sub, fn)
	}
}

// The contract: each subcommand has a --help that shows an example.
func TestHelpShowsAnExample(t *testing.T) {
	n := 0
	everyCommand(newRoot(), func(cmd *cobra.Command) {
		n++
		words := append(strings.Fields(cmd.CommandPath())[1:], "--help")
		code, out, errs := cli(t, "", words...)
		if code != 0 || errs != "" || !strings.Contains(out, "Examples:") || !strings.Contains(out, "hearsay") {
			t.Errorf("%v: exit %d, %q\n%s", words, code, errs, out)
		}
	})
	if n < 14 {
		t.Errorf("only %d commands", n)
	}
}

// The contract: 2 for wrong usage, 1 for a failure, one line on stderr for either.
func TestExitCodes(t *testing.T) {
	home(t)
	for _, c := range []struct {
		args string
		code int
	}{
		{"", 2},
		{"nope", 2},
		{"config", 2},
		{"config nope", 2},
		{"--nope", 2},
		{"run --nope", 2},
		{"run extra", 2},
		{"keygen", 2},
		{"keygen pubkey", 2},
		{"keygen pubkey a b", 2},
		{"status extra", 2},
		{"dag export --format svg", 2},
		{"demo --irc-port 65534", 2},
		{"demo --irc-port x", 2},
		{"version extra", 2},
		{"run --config", 2},
		{"keygen pubkey notbase58!", 1},
		{"status", 1},
		{"dag show", 1},
		{"dag export", 1},
		{"run --config /nonexistent", 1},
		{"config check --config /nonexistent", 1},
		{"status --config /nonexistent", 1},
		{"version", 0},
		{"keygen contact", 0},
		{"--help", 0},
		{"help run", 0},
	} {
		code, _, errs := cli(t, "", strings.Fields(c.args)...)
		if code != c.code {
			t.Errorf("hearsay %s: exit %d, want %d; %s", c.args, code, c.code, errs)
		}
		if (code != 0) != (strings.Count(errs, "\n") == 1 && strings.HasPrefix(errs, "hearsay: ")) {
			t.Errorf("hearsay %s: stderr %q", c.args, errs)
		}
	}
}

// ircd facts, section 4.5: the output's shape is what darkirc's users know.
func TestKeygen(t *testing.T) {
	_, out, _ := cli(t, "", "keygen", "contact")
	m := regexp.MustCompile(`^[^\n]+\n\n\[contact\."satoshi"\]\ndm_chacha_public = "YOUR_CONTACT_PUBLIC_KEY"\nmy_dm_chacha_secret = "([1-9A-HJ-NP-Za-km-z]{32,44})"\n#my_dm_chacha_public = "([1-9A-HJ-NP-Za-km-z]{32,44})"\n$`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("%q", out)
	}
	code, public, _ := cli(t, "", "keygen", "pubkey", m[1])
	if code != 0 || public != m[2]+"\n" {
		t.Errorf("%q, want %q", public, m[2])
	}
	_, again, _ := cli(t, "", "keygen", "contact")
	if again == out {
		t.Error("the same key twice")
	}
	_, out, _ = cli(t, "", "keygen", "channel")
	if !regexp.MustCompile(`^[^\n]+\n\n\[channel\."#yourchannelname"\]\nsecret = "[1-9A-HJ-NP-Za-km-z]{32,44}"\n$`).MatchString(out) {
		t.Errorf("%q", out)
	}
	// What is printed is TOML that passes.
	if cfg, problems := config.Parse([]byte(out), config.OSEnv()); cfg == nil || len(problems) > 0 {
		t.Error(problems)
	}
	// ircd facts, section 2.1: upstream's own sample, as an argument and on stdin.
	const secret, want = "Bwdhe48rKsqFwGUquQSSGZZS5NQP1szrdJUhyDE77Br6", "BmUo88RJ5TyR7gUWnr6Mk7tqZE5xPuCqJdJV8KWzsagh\n"
	for stdin, arg := range map[string]string{"": secret, secret + "\n": "-"} {
		if code, out, _ := cli(t, stdin, "keygen", "pubkey", arg); code != 0 || out != want {
			t.Error(code, out)
		}
	}
}

// T21: what is printed is a sound bcrypt hash that the configuration takes.
func TestPassword(t *testing.T) {
	code, out, errs := cli(t, "hunter2\n", "password")
	hash := strings.TrimSpace(out)
	if code != 0 || errs != "" || bcrypt.CompareHashAndPassword([]byte(hash), []byte("hunter2")) != nil {
		t.Fatal(code, out, errs)
	}
	if cost, err := bcrypt.Cost([]byte(hash)); err != nil || cost != 12 {
		t.Error(cost, err)
	}
	if cfg, problems := config.Parse([]byte("password = \""+hash+"\""), config.OSEnv()); cfg == nil {
		t.Error(problems)
	}
	for _, bad := range []string{"", "\n", strings.Repeat("a", 73) + "\n", "a\x00b\n"} {
		if code, out, _ := cli(t, bad, "password"); code != 1 || out != "" {
			t.Errorf("%q: exit %d, %q", bad, code, out)
		}
	}
	if code, _, errs := cli(t, strings.Repeat("a", 72), "password"); code != 0 {
		t.Error("72 bytes are refused:", errs)
	}
}

// MB-46: version, source revision and schema versions of the exact build.
func TestVersion(t *testing.T) {
	_, out, _ := cli(t, "", "version", "--json")
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"version", "revision", "modified", "go", "schemas"} {
		if _, ok := v[key]; !ok {
			t.Errorf("no %s in %s", key, out)
		}
	}
	if s, ok := v["schemas"].(map[string]any); !ok || len(s) == 0 || s["graph"] != float64(1) {
		t.Error(v["schemas"])
	}
	_, out, _ = cli(t, "", "version")
	if !strings.HasPrefix(out, "hearsay "+release+"\nrevision ") || !strings.Contains(out, "\nschema graph 1\n") {
		t.Errorf("%q", out)
	}
}

func TestConfigInit(t *testing.T) {
	dir := home(t)
	code, out, errs := cli(t, "", "config", "init")
	path := filepath.Join(dir, ".config/hearsay/hearsay.toml")
	if code != 0 || errs != "" || out != "wrote "+path+"\n" {
		t.Fatal(code, out, errs)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if code, out, errs := cli(t, "", "config", "check"); code != 0 || out != "" || errs != "" {
		t.Error("the default has problems:", out, errs)
	}
	if err := os.WriteFile(path, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := cli(t, "", "config", "init"); code != 1 || !strings.Contains(errs, "exists already") {
		t.Error(code, errs)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "# mine\n" {
		t.Error("overwritten:", string(b), err)
	}
}

func TestConfigInitTLS(t *testing.T) {
	dir := home(t)
	path := filepath.Join(dir, "h.toml")
	code, out, errs := cli(t, "", "config", "init", "--tls", "--config", path)
	if code != 0 || errs != "" {
		t.Fatal(code, errs)
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "irc.crt"), filepath.Join(dir, "irc.key"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(pair.Certificate[0])
	if !strings.Contains(out, "fingerprint (SHA-256): "+hex.EncodeToString(sum[:])+"\n") {
		t.Error("no fingerprint in", out)
	}
	if !strings.Contains(out, fmt.Sprintf("the same for irssi: %02X:%02X:", sum[0], sum[1])) {
		t.Error("no fingerprint for irssi in", out)
	}
	if err := pair.Leaf.VerifyHostname("127.0.0.1"); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(filepath.Join(dir, "irc.key")); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	cfg, problems, err := config.Load(path, config.OSEnv())
	if err != nil || len(problems) > 0 || cfg.IRC.Listen != "tcp+tls://127.0.0.1:6697" || cfg.IRC.TLSCert != filepath.Join(dir, "irc.crt") {
		t.Error(problems, err)
	}
	if code, out, errs := cli(t, "", "config", "check", "--config", path); code != 0 {
		t.Error(out, errs)
	}
	// Nothing of it is ever overwritten.
	for range 2 {
		if code, _, errs := cli(t, "", "config", "init", "--tls", "--config", path); code != 1 || !strings.Contains(errs, "exists already") {
			t.Error(code, errs)
		}
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	}
	if again, err := tls.LoadX509KeyPair(filepath.Join(dir, "irc.crt"), filepath.Join(dir, "irc.key")); err != nil || !bytes.Equal(again.Certificate[0], pair.Certificate[0]) {
		t.Error("the certificate changed", err)
	}
	// A file that is there already gets a certificate and stays.
	other := filepath.Join(dir, "other", "h.toml")
	if err := os.Mkdir(filepath.Dir(other), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(other, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs = cli(t, "", "config", "init", "--tls", "--config", other)
	if b, err := os.ReadFile(other); code != 0 || err != nil || string(b) != "# mine\n" || !strings.Contains(out, "irc_tls_cert = ") {
		t.Error(code, out, errs, err)
	}
}

func TestConfigCheck(t *testing.T) {
	dir := home(t)
	if code, _, errs := cli(t, "", "config", "check"); code != 1 || !strings.Contains(errs, "there is no ~/.config/hearsay/hearsay.toml") {
		t.Error(code, errs)
	}
	path := filepath.Join(dir, "c.toml")
	text := "dags_count = 0\nfast_mode = true\n[net]\nlocalnet = true\nbogus = 1\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := cli(t, "", "config", "check", "--config", path)
	want := path + ": line 1: dags_count: must be from 1 to 2147483647, not 0\n" +
		path + ": line 2: warning: fast_mode: has no meaning here: history is always fetched with its messages; the newest hour comes first\n" +
		path + ": line 5: net.bogus: unknown key\n"
	if code != 1 || out != want || errs != "hearsay: "+path+" cannot be used: 2 errors\n" {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	code, out, errs = cli(t, "", "run", "--config", path)
	if code != 1 || out != "" || !strings.Contains(errs, path+": line 1: dags_count") || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q %q", code, out, errs)
	}
	// What only the packages know is found as well.
	if err := os.WriteFile(path, []byte("irc_listen = \"tcp+tls://127.0.0.1:6697\"\nirc_tls_cert = \"/nonexistent\"\nirc_tls_secret = \"/nonexistent\"\nmotd = \"/nonexistent\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, _ = cli(t, "", "config", "check", "--config", path)
	if code != 1 || !strings.Contains(out, "irc_tls_cert: open /nonexistent") || !strings.Contains(out, "warning: motd: ") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestStatusText(t *testing.T) {
	var b strings.Builder
	s := statusReport{
		Version: "1", UptimeS: 90, ClockSkewMS: -21_000,
		P2P: p2pStatus{CanSend: 1, MinConnections: 2, Connected: 2, Connections: []connectionStatus{
			{ID: "7", Session: "outbound", Transport: "quic", Features: map[string]uint32{"event_put_status": 1}},
			{ID: "8", Session: "inbound", Transport: "tcp"},
		}},
		Graph:    graphStatus{Slots: 24, Events: 1, Tips: 1},
		Outbound: outboundStatus{AckedTotal: 3},
		Troubles: []string{"the clock is off"},
	}
	printStatus(&b, s)
	want := `hearsay 1, up 1m30s, not synced yet
sending: nothing is sent now: the recent history is still coming
trouble: the clock is off
peers: 1 of 2 needed to send
  #7 outbound over quic, gives receipts
  #8 inbound over tcp
queue: nothing of yours waits: the network has all 3 messages that were sent from here
graph: 1 event in 24 slots, 1 tip
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	printStatus(&b, statusReport{Version: "1", UptimeS: 5, Relay: &relayStatus{Rows: 1, CapacityRows: 9, Registrations: 1}})
	if want := "hearsay 1, up 5s, a mailbox relay alone\nrelay: 1 of 9 envelopes, 1 registration, 0 leases\n"; b.String() != want {
		t.Errorf("%s", b.String())
	}
	b.Reset()
	printQueue(&b, outboundStatus{Depth: 2, Bytes: 300, AckedTotal: 1, Head: &headStatus{
		Position: 7, State: "parked", Reason: "key", Generations: 1, Rounds: 2, NextAttempt: "2026-01-01T00:00:00Z",
	}}, ircd.NetworkState{})
	want = `queue: 2 messages waiting (300 bytes), 1 acknowledged so far
  position 7: held up: the key of its conversation is gone or was changed, 1 generation, 2 rounds, next attempt 2026-01-01T00:00:00Z
`
	if b.String() != want {
		t.Errorf("%s", b.String())
	}
}

// DS-82: beyond 20 s, among three peers or more, in either direction.
func TestSkewText(t *testing.T) {
	for _, c := range []struct {
		skew time.Duration
		ok   bool
		want string
	}{
		{0, true, ""},
		{20 * time.Second, true, ""},
		{-20 * time.Second, true, ""},
		{time.Hour, false, ""},
		{21 * time.Second, true, "21s behind"},
		{-90 * time.Second, true, "1m30s ahead of"},
	} {
		got := skewText(c.skew, c.ok)
		if (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v, %v: %q", c.skew, c.ok, got)
		}
	}
}

func TestNotes(t *testing.T) {
	var n notes
	if !n.set("b", "two") || !n.set("a", "one") || n.set("a", "one") {
		t.Error("changes are told wrongly")
	}
	if got := strings.Join(n.list(), ","); got != "one,two" {
		t.Error(got)
	}
	if !n.set("a", "") || n.set("a", "") || len(n.list()) != 1 {
		t.Error("not cleared")
	}
}

func TestDagFormats(t *testing.T) {
	nodes := []dagNode{
		{ID: strings.Repeat("a", 64), Slot: 3600000, Timestamp: 3600000, Parents: []string{}},
		{ID: strings.Repeat("b", 64), Slot: 3600000, Timestamp: 3601000, Layer: 1, Parents: []string{strings.Repeat("a", 64)}, Size: 5, Tip: true},
	}
	seq := func(yield func(dagNode, error) bool) {
		for _, n := range nodes {
			if !yield(n, nil) {
				return
			}
		}
	}
	var b strings.Builder
	if err := showDag(&b, seq); err != nil {
		t.Fatal(err)
	}
	if want := "slot 3600000 (1970-01-01T01:00:00Z)\n   aaaaaaaaaaaa layer 0 01:00:00.000 genesis\n * bbbbbbbbbbbb layer 1 01:00:01.000 on aaaaaaaaaaaa\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
	b.Reset()
	if err := writeDot(&b, seq); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); !strings.HasPrefix(got, "digraph hearsay {\n") || !strings.HasSuffix(got, "}\n") ||
		!strings.Contains(got, `"`+nodes[1].ID+`" -> "`+nodes[0].ID+`";`) {
		t.Error(got)
	}
	b.Reset()
	if err := writeDagJSON(&b, seq); err != nil {
		t.Fatal(err)
	}
	var doc struct{ Events []dagNode }
	if err := json.Unmarshal([]byte(b.String()), &doc); err != nil || len(doc.Events) != 2 || !doc.Events[1].Tip || doc.Events[1].Size != 5 {
		t.Error(b.String(), err)
	}
}
