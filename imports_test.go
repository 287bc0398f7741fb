package hearsay

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed is the dependency diagram of ARCHITECTURE.md: for each package of the
// module, the packages of the module that its product code may import. Tests of a
// package may import more (testOnly), never cmd.
var allowed = map[string][]string{
	"":                   {},
	"internal/serial":    {},
	"internal/kv":        {},
	"internal/arrival":   {"eventgraph", "internal/kv", "internal/serial"},
	"internal/readstate": {"internal/arrival", "internal/kv", "internal/serial"},
	"internal/sealed":    {"internal/kv"},
	"internal/box":       {},
	"internal/privmsg":   {"internal/box", "internal/serial"},
	"internal/config":    {"internal/box"},
	"internal/rpc":       {},
	"spec":               {},
	"p2p":                {"internal/serial"},
	"p2p/p2ptest":        {"p2p"},
	"eventgraph":         {"internal/kv", "internal/serial"},
	"eventgraph/gossip":  {"eventgraph", "internal/serial", "p2p"},
	"outbound":           {"eventgraph", "internal/kv", "internal/serial"},
	"mailbox":            {},
	"mailbox/relay":      {"internal/kv", "internal/serial", "mailbox"}, // nothing that decrypts a message (MB-06)
	"mailbox/endpoint":   {"internal/box", "internal/kv", "internal/serial", "mailbox"},
	"ircd":               {"eventgraph", "internal/arrival", "internal/box", "internal/privmsg", "internal/readstate", "internal/serial", "outbound"},
	// What follows exists for tests.
	"internal/e2e":       {},
	"internal/kv/kvtest": {"internal/kv"},
	"internal/stock":     {"eventgraph", "internal/serial", "p2p"},
	"internal/sim":       {"eventgraph", "eventgraph/gossip", "internal/kv", "internal/stock", "p2p", "p2p/p2ptest"},
}

// testOnly are packages that no product code may import.
var testOnly = []string{"internal/kv/kvtest", "internal/stock", "internal/sim", "p2p/p2ptest"}

// outside are imports that one place has for itself: zerolog and the command line
// live at the edge, a store's engine behind internal/kv.
var outside = map[string][]string{
	"github.com/rs/zerolog":        {"cmd/hearsay"},
	"github.com/spf13/cobra":       {"cmd/hearsay"},
	"github.com/dgraph-io/badger":  {"internal/kv"},
	"github.com/quic-go/quic-go":   {"p2p", "mailbox/relay", "mailbox/endpoint", "mailbox"},
	"github.com/ergochat/irc-go":   {"ircd"},
	"github.com/prometheus":        {"cmd/hearsay"},
	"github.com/anishathalye":      {},
	"github.com/google/go-cmp":     {},
	"pgregory.net/rapid":           {},
	"golang.org/x/crypto/bcrypt":   {"ircd", "cmd/hearsay", "internal/config"},
	"golang.org/x/crypto/poly1305": {"internal/box"},
	"testing":                      {},
}

// TestImports keeps the arrows of ARCHITECTURE.md: it parses every Go file of the
// module and looks at what it imports. It runs no other program, so that a cached
// result is never stale.
func TestImports(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			name := d.Name()
			if path != "." && (strings.HasPrefix(name, ".") || name == "testdata") {
				return filepath.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != "." {
				return filepath.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if pkg == "." {
			pkg = ""
		}
		isTest := strings.HasSuffix(path, "_test.go")
		if !isTest {
			seen[pkg] = true
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			if err := checkImport(pkg, imp, isTest); err != "" {
				t.Errorf("%s imports %s: %s", path, imp, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range seen {
		if _, ok := allowed[pkg]; !ok && !strings.HasPrefix(pkg, "cmd/") {
			t.Errorf("package %q has no row in the diagram", pkg)
		}
	}
	if len(seen) < 10 {
		t.Errorf("only %d packages seen: the walk is broken", len(seen))
	}
}

// checkImport says why pkg may not import imp, or "".
func checkImport(pkg, imp string, isTest bool) string {
	if rel, ok := strings.CutPrefix(imp, "hearsay/"); ok {
		switch {
		case strings.HasPrefix(rel, "cmd/"):
			return "nothing imports cmd"
		case isTest:
			return ""
		case slices.Contains(testOnly, rel) && !slices.Contains(testOnly, pkg):
			return "it exists for tests"
		case strings.HasPrefix(pkg, "cmd/"):
			return ""
		case !slices.Contains(allowed[pkg], rel):
			return "not in the diagram"
		}
		return ""
	}
	if isTest || slices.Contains(testOnly, pkg) {
		return ""
	}
	for prefix, pkgs := range outside {
		if imp != prefix && !strings.HasPrefix(imp, prefix+"/") {
			continue
		}
		if !slices.ContainsFunc(pkgs, func(p string) bool { return pkg == p || strings.HasPrefix(pkg, p+"/") }) {
			return "belongs elsewhere"
		}
	}
	return ""
}

// TestCheckImport shows that the rules above can fail.
func TestCheckImport(t *testing.T) {
	for _, c := range []struct {
		pkg, imp string
		isTest   bool
		ok       bool
	}{
		{"p2p", "hearsay/internal/serial", false, true},
		{"p2p", "hearsay/eventgraph", false, false},      // p2p cannot name an event
		{"eventgraph", "hearsay/outbound", false, false}, // the graph never learns of retries (DS-20)
		{"eventgraph/gossip", "hearsay/ircd", false, false},
		{"outbound", "hearsay/internal/privmsg", false, false}, // it cannot read what it orders
		{"ircd", "hearsay/p2p", false, false},
		{"ircd", "hearsay/cmd/hearsay", true, false},
		{"eventgraph", "hearsay/internal/kv/kvtest", true, true},
		{"eventgraph", "hearsay/internal/kv/kvtest", false, false},
		{"ircd", "github.com/rs/zerolog", false, false},
		{"cmd/hearsay", "github.com/rs/zerolog/log", false, true},
		{"eventgraph", "github.com/dgraph-io/badger/v4", false, false},
	} {
		if got := checkImport(c.pkg, c.imp, c.isTest); (got == "") != c.ok {
			t.Errorf("%s importing %s: %q", c.pkg, c.imp, got)
		}
	}
}
