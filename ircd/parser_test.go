package ircd

import (
	"slices"
	"strings"
	"testing"

	"github.com/ergochat/irc-go/ircmsg"
	"github.com/ergochat/irc-go/ircutils"
	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"hearsay/spec"
)

// vectors reads a file of irc-parser-tests.
func parserTests(t testing.TB, name string, into any) {
	t.Helper()
	data, err := spec.Vectors.ReadFile("vectors/irc-parser-tests/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

type atoms struct {
	Tags   map[string]string
	Source string
	Verb   string
	Params []string
}

// TestParserSplit holds the parsing of lines against msg-split.yaml.
func TestParserSplit(t *testing.T) {
	var file struct {
		Tests []struct {
			Input string
			Atoms atoms
		}
	}
	parserTests(t, "msg-split.yaml", &file)
	if len(file.Tests) < 30 {
		t.Fatalf("%d tests", len(file.Tests))
	}
	for _, c := range file.Tests {
		m, err := ircmsg.ParseLineStrict(c.Input, true, 0) // as parse does
		if err != nil {
			t.Errorf("%q: %v", c.Input, err)
			continue
		}
		got := atoms{Tags: m.AllTags(), Source: m.Source, Verb: m.Command, Params: m.Params}
		c.Atoms.Verb = strings.ToUpper(c.Atoms.Verb) // commands are case insensitive
		if c.Atoms.Tags == nil {
			c.Atoms.Tags = map[string]string{}
		}
		if len(got.Params) == 0 {
			got.Params = c.Atoms.Params[:0]
		}
		if diff := cmp.Diff(c.Atoms, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.Input, diff)
		}
	}
}

// TestParserJoin holds render against msg-join.yaml: for a client with message-tags, with and
// without the colon that render adds to free text.
func TestParserJoin(t *testing.T) {
	var file struct {
		Tests []struct {
			Desc    string
			Atoms   atoms
			Matches []string
		}
	}
	parserTests(t, "msg-join.yaml", &file)
	if len(file.Tests) < 10 {
		t.Fatalf("%d tests", len(file.Tests))
	}
	s, c := &Server{}, &client{caps: capMessageTags}
	for _, test := range file.Tests {
		var got []string
		for _, colon := range []bool{false, true} {
			raw := s.render(c, line{
				source: test.Atoms.Source, command: test.Atoms.Verb, params: test.Atoms.Params, tags: test.Atoms.Tags, colon: colon,
			})
			got = append(got, strings.TrimSuffix(string(raw), "\r\n"))
		}
		for _, g := range got {
			if !slices.Contains(test.Matches, g) && !slices.ContainsFunc(test.Matches, func(m string) bool { return sameLine(t, m, g) }) {
				t.Errorf("%s: %q, want one of %q", test.Desc, g, test.Matches)
			}
		}
	}
}

// sameLine compares lines whose tags may be in another order.
func sameLine(t *testing.T, a, b string) bool {
	if !strings.HasPrefix(a, "@") {
		return a == b
	}
	atags, abody, _ := strings.Cut(a, " ")
	btags, bbody, _ := strings.Cut(b, " ")
	x, y := strings.Split(atags[1:], ";"), strings.Split(strings.TrimPrefix(btags, "@"), ";")
	slices.Sort(x)
	slices.Sort(y)
	return abody == bbody && slices.Equal(x, y)
}

// TestParserMask holds WHO's masks against mask-match.yaml.
func TestParserMask(t *testing.T) {
	var file struct {
		Tests []struct {
			Mask    string
			Matches []string
			Fails   []string
		}
	}
	parserTests(t, "mask-match.yaml", &file)
	n := 0
	for _, c := range file.Tests {
		for _, s := range c.Matches {
			if n++; !matchMask(c.Mask, s) {
				t.Errorf("%q does not match %q", c.Mask, s)
			}
		}
		for _, s := range c.Fails {
			if n++; matchMask(c.Mask, s) {
				t.Errorf("%q matches %q", c.Mask, s)
			}
		}
	}
	if n < 20 {
		t.Fatalf("%d cases", n)
	}
	hostile := strings.Repeat("*a", 200)
	if matchMask(hostile, strings.Repeat("a", 199)) {
		t.Error("matched")
	}
}

// TestParserUserhost: prefixes that we send split into what they were made of.
func TestParserUserhost(t *testing.T) {
	var file struct {
		Tests []struct {
			Source string
			Atoms  struct{ Nick, User, Host string }
		}
	}
	parserTests(t, "userhost-split.yaml", &file)
	if len(file.Tests) < 5 {
		t.Fatalf("%d tests", len(file.Tests))
	}
	for _, c := range file.Tests {
		nuh, err := ircmsg.ParseNUH(c.Source)
		if err != nil || nuh.Name != c.Atoms.Nick || nuh.User != c.Atoms.User || nuh.Host != c.Atoms.Host {
			t.Errorf("%q: %+v, %v", c.Source, nuh, err)
		}
	}
	nuh, err := ircmsg.ParseNUH((&client{nick: "alice", user: "al"}).prefix())
	if err != nil || nuh != (ircmsg.NUH{Name: "alice", User: "~al", Host: localHost}) {
		t.Errorf("%+v, %v", nuh, err)
	}
}

// TestParserHostname holds the rule for server names against validate-hostname.yaml. A server
// name also needs a dot inside, so that clients tell it from a nick.
func TestParserHostname(t *testing.T) {
	var file struct {
		Tests []struct {
			Host  string
			Valid bool
		}
	}
	parserTests(t, "validate-hostname.yaml", &file)
	if len(file.Tests) < 10 {
		t.Fatalf("%d tests", len(file.Tests))
	}
	for _, c := range file.Tests {
		if got := isHostname(c.Host); got != c.Valid {
			t.Errorf("%q: %t, ircutils says %t", c.Host, got, ircutils.HostnameIsValid(c.Host))
		}
	}
	for _, bad := range []string{"", "irc", strings.Repeat("a", 60) + ".net", "a b.c", "é.net"} {
		if isHostname(bad) {
			t.Errorf("%q is a server name", bad)
		}
	}
}
