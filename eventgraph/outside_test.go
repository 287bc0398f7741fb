package eventgraph_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A module outside the tree builds against this one with a replace directive, and
// nothing else, and runs: what an embedder does first. The go command needs no
// network for it, since everything is in this module's go.sum.
func TestOutsideModule(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copyFile := func(from, to string, more string) {
		b, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), append(b, more...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copyFile("testdata/outside/main.go.txt", "main.go", "")
	copyFile("testdata/outside/go.mod.txt", "go.mod", fmt.Sprintf("\nreplace hearsay => %q\n", root))
	copyFile("../go.sum", "go.sum", "")
	run := func(args ...string) string {
		cmd := exec.Command(goTool, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROXY=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	if got, want := run("run", "."), "refused: beer\nmap[coffee:1 tea:2]\n"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
}
