// Command fuzzall runs every fuzz target of the module in turn for a while. Go's
// own fuzzing takes one target of one package at a time.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

var target = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)

func main() {
	d := flag.Duration("time", 30*time.Second, "how long to run each target")
	root := flag.String("root", ".", "the module's folder")
	flag.Parse()
	if err := os.Chdir(*root); err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
		os.Exit(1)
	}
	failed := false
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range target.FindAllSubmatch(src, -1) {
			pkg := "./" + filepath.ToSlash(filepath.Dir(path))
			fmt.Printf("%s %s\n", pkg, m[1])
			out, err := exec.Command("go", "test", "-run", "^$", "-fuzz", "^"+string(m[1])+"$", "-fuzztime", d.String(), pkg).CombinedOutput()
			if err != nil {
				failed = true
				os.Stdout.Write(bytes.TrimSpace(out))
				fmt.Println()
			}
		}
		return nil
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzall:", err)
		os.Exit(1)
	}
	if failed {
		os.Exit(1)
	}
}
