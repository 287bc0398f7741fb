package spec

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testRef is how conformance.md names a test: package path, colon, test name.
var testRef = regexp.MustCompile("`([a-z0-9/]*):((?:Test|Fuzz|Example)[A-Za-z0-9_]*)`")

// TestConformance: every requirement has exactly one row in conformance.md; a row
// names at least one test, or says "open:" and why; every test named exists.
func TestConformance(t *testing.T) {
	ids := lines(t, "requirements.txt")
	if len(ids) < 100 {
		t.Fatalf("requirements.txt has only %d ids", len(ids))
	}
	tests := testFuncs(t)
	rows := map[string]string{}
	for _, line := range lines(t, "conformance.md") {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.SplitN(strings.Trim(line, "|"), "|", 2)
		id := strings.TrimSpace(cells[0])
		if !regexp.MustCompile(`^(DS|ST|MB)-\d+$`).MatchString(id) {
			continue
		}
		if _, dup := rows[id]; dup {
			t.Errorf("%s has two rows", id)
		}
		rows[id] = cells[1]
	}
	for _, id := range ids {
		row, ok := rows[id]
		if !ok {
			t.Errorf("%s has no row", id)
			continue
		}
		delete(rows, id)
		refs := testRef.FindAllStringSubmatch(row, -1)
		if len(refs) == 0 && !strings.Contains(row, "open:") {
			t.Errorf("%s names no test and does not say that it is open", id)
		}
		for _, m := range refs {
			if !tests[m[1]+":"+m[2]] {
				t.Errorf("%s names %s in %q, which does not exist", id, m[2], m[1])
			}
		}
	}
	for id := range rows {
		t.Errorf("row %s is no requirement", id)
	}
}

func lines(t *testing.T, name string) (out []string) {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if l := strings.TrimSpace(s.Text()); l != "" {
			out = append(out, l)
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// testFuncs lists "package:TestName" for every test of the repository.
func testFuncs(t *testing.T) map[string]bool {
	out := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		// The root package has no name: `:TestImports`.
		pkg := strings.TrimPrefix(strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), ".."), "/")
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				out[pkg+":"+fn.Name.Name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
