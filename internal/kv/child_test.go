package kv_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Some tests need a process of their own: to be killed, to have a umask, to die of
// a full disk. It is this test binary, started with childEnv.
const childEnv = "KV_TEST_CHILD"

var children = map[string]func(args []string) error{}

func TestMain(m *testing.M) {
	name := os.Getenv(childEnv)
	if name == "" {
		os.Exit(m.Run())
	}
	f, ok := children[name]
	if !ok {
		fmt.Fprintln(os.Stderr, "no child", name)
		os.Exit(2)
	}
	if err := f(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
	err *strings.Builder
}

// startChild runs a child. Its standard output is read line by line.
func startChild(t *testing.T, name string, args ...string) *child {
	t.Helper()
	c := &child{cmd: exec.Command(os.Args[0], args...), err: new(strings.Builder)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+name)
	c.cmd.Stderr = c.err
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

// wait returns the rest of the output and how the child ended.
func (c *child) wait() (lines []string, err error) {
	for c.out.Scan() {
		lines = append(lines, c.out.Text())
	}
	if err := c.cmd.Wait(); err != nil {
		return lines, fmt.Errorf("%w: %s", err, c.err)
	}
	return lines, nil
}
