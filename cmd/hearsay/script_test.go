package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"hearsay": crashMain})
}

// scriptTimeout is how long a script waits for anything.
const scriptTimeout = 30 * time.Second

// TestScript runs testdata/script, which doubles as a manual. Beside testscript's
// own commands there are:
//
//	ports NAME...                sets each variable to a free port of this machine
//	expand FILE...               replaces $NAME in files by variables
//	setenv NAME FILE             sets a variable to the first line of a file
//	signal NAME ARGUMENT         signals (HUP, INT, TERM, KILL) the background commands that were given ARGUMENT
//	eventually REGEXP COMMAND    repeats a command until its output matches
//	irc NAME connect PORT        an IRC client called NAME
//	irc NAME refused PORT        only who says PASS "password" gets in
//	irc NAME send LINE
//	irc NAME expect REGEXP       waits for a line, after those that matched before
//	irc NAME until REGEXP LINE   sends a line again and again until one matches
//	irc NAME says N TARGET TEXT  sends N messages, "TEXT 1" and so on
//	irc NAME hears N NICK TARGET TEXT   waits for these, in order and each once
//	irc NAME heard N TEXT        whether N of the lines so far hold a text
//	irc NAME tagged N TEXT       the same with the lines' tags
//	irc NAME gone                waits for the end of the connection
//	irc NAME quit
//	nowhere TEXT DIR             whether no file below DIR holds TEXT
//	socks serve PORT             a SOCKS5 proxy
//	socks saw HOST:PORT          whether it was asked for a connection there
//	conforms JSON EXAMPLE        whether a JSON file has all that an example has, kind by kind
func TestScript(t *testing.T) {
	if testing.Short() {
		t.Skip("starts daemons")
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Vars = append(env.Vars, "HOME="+env.WorkDir, "XDG_CONFIG_HOME=", "XDG_DATA_HOME=")
			clients := map[string]*ircClient{}
			env.Values["irc"] = clients
			proxies := map[string]*socksProxy{}
			env.Values["socks"] = proxies
			env.Defer(func() {
				for _, p := range proxies {
					_ = p.l.Close()
				}
				for _, c := range clients {
					c.close()
				}
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"ports": scriptPorts, "eventually": scriptEventually, "irc": scriptIRC, "conforms": scriptConforms,
			"expand": scriptExpand, "signal": scriptSignal, "nowhere": scriptNowhere, "setenv": scriptSetenv, "socks": scriptSocks,
		},
		RequireExplicitExec: true,
	})
}

// scriptPorts keeps TCP and UDP ports of the same number free until all are found.
func scriptPorts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: ports NAME...")
	}
	for _, name := range args {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		defer l.Close()
		ts.Setenv(name, fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
	}
}

func scriptExpand(ts *testscript.TestScript, neg bool, args []string) {
	for _, file := range args {
		text := os.Expand(ts.ReadFile(file), func(name string) string {
			if name == "$" {
				return "$"
			}
			return ts.Getenv(name)
		})
		ts.Check(os.WriteFile(ts.MkAbs(file), []byte(text), 0o600))
	}
}

func scriptSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME ARGUMENT")
	}
	sig := map[string]os.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "KILL": syscall.SIGKILL}[args[0]]
	n := 0
	for _, cmd := range ts.BackgroundCmds() {
		if sig != nil && slices.Contains(cmd.Args, args[1]) {
			ts.Check(cmd.Process.Signal(sig))
			n++
		}
	}
	if n == 0 {
		ts.Fatalf("no command to send %v", args)
	}
}

func scriptEventually(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: eventually REGEXP COMMAND")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	deadline := time.Now().Add(scriptTimeout)
	var out []byte
	for time.Now().Before(deadline) {
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		cmd.Env = []string{"PATH=" + ts.Getenv("PATH"), "HOME=" + ts.Getenv("HOME")}
		if out, err = cmd.CombinedOutput(); want.Match(out) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%v never matched %s; last: %s (%v)", args[1:], want, out, err)
}

func scriptIRC(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: irc NAME connect|send|expect|gone|quit ...")
	}
	clients := ts.Value("irc").(map[string]*ircClient)
	name, verb, rest := args[0], args[1], strings.Join(args[2:], " ")
	ctx, cancel := context.WithTimeoutCause(context.Background(), scriptTimeout, errors.New("it took too long"))
	defer cancel()
	if verb == "connect" {
		var c *ircClient
		err := until(ctx, "connect", func() bool {
			var err error
			c, err = dialIRC(ctx, "127.0.0.1:"+rest, name, "")
			return err == nil
		})
		ts.Check(err)
		clients[name] = c
		return
	}
	if verb == "refused" {
		err := until(ctx, "no refusal", func() bool {
			nc, err := net.Dial("tcp", "127.0.0.1:"+rest)
			if err == nil {
				_ = nc.Close()
			}
			return err == nil
		})
		ts.Check(err)
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if c, err := dialIRC(short, "127.0.0.1:"+rest, name, ""); err == nil {
			c.close()
			ts.Fatalf("%s got in without a password", name)
		}
		if c, err := dialIRC(ctx, "127.0.0.1:"+rest, name, "password"); err != nil {
			ts.Fatalf("%s did not get in with the password: %v", name, err)
		} else {
			c.close()
		}
		return
	}
	c := clients[name]
	if c == nil {
		ts.Fatalf("nobody is called %s", name)
	}
	switch verb {
	case "send":
		c.send(rest)
	case "expect":
		want, err := regexp.Compile(rest)
		ts.Check(err)
		line, err := c.wait(ctx, want.MatchString)
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			ts.Fatalf("%s: no line matches %s: %v; there were:\n%s", name, want, err, strings.Join(c.tagged, "\n"))
		}
		ts.Logf("%s: %s", name, line)
	case "until":
		want, err := regexp.Compile(args[2])
		ts.Check(err)
		for err = errors.New("not yet"); err != nil && ctx.Err() == nil; {
			c.send(strings.Join(args[3:], " "))
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			_, err = c.wait(short, want.MatchString)
			cancel()
		}
		ts.Check(err)
	case "says":
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		for i := range n {
			c.send(fmt.Sprintf("PRIVMSG %s :%s %d", args[3], strings.Join(args[4:], " "), i+1))
		}
	case "hears":
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		ts.Check(c.hears(ctx, n, args[3], args[4], strings.Join(args[5:], " ")))
	case "heard":
		ts.Check(c.heard(args[2], strings.Join(args[3:], " ")))
	case "tagged":
		c.mu.Lock()
		lines := slices.Clone(c.tagged)
		c.mu.Unlock()
		text, n := strings.Join(args[3:], " "), 0
		for _, line := range lines {
			if strings.Contains(line, text) {
				n++
			}
		}
		if fmt.Sprint(n) != args[2] {
			ts.Fatalf("%d lines hold %q, not %s:\n%s", n, text, args[2], strings.Join(lines, "\n"))
		}
	case "gone":
		select {
		case <-c.done:
		case <-ctx.Done():
			ts.Fatalf("%s is still connected", name)
		}
	case "quit":
		c.close()
		delete(clients, name)
	default:
		ts.Fatalf("irc cannot %s", verb)
	}
}

func scriptSetenv(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: setenv NAME FILE")
	}
	line, _, _ := strings.Cut(ts.ReadFile(args[1]), "\n")
	ts.Setenv(args[0], line)
}

// heard counts the lines that hold text.
func (c *ircClient) heard(want, text string) error {
	if n := c.count(text); fmt.Sprint(n) != want {
		c.mu.Lock()
		defer c.mu.Unlock()
		return fmt.Errorf("%d lines hold %q, not %s:\n%s", n, text, want, strings.Join(c.tagged, "\n"))
	}
	return nil
}

// hears waits for n numbered messages in order and wants no other one in between.
func (c *ircClient) hears(ctx context.Context, n int, nick, target, text string) error {
	for i := range n {
		line, err := c.wait(ctx, func(line string) bool {
			from, rest, _ := strings.Cut(line, " ")
			return strings.HasPrefix(from, ":"+nick+"!") && strings.HasPrefix(rest, "PRIVMSG "+target+" :"+text)
		})
		want := fmt.Sprintf(" :%s %d", text, i+1)
		if err != nil {
			return fmt.Errorf("no%s: %w", want, err)
		}
		if !strings.HasSuffix(line, want) {
			return fmt.Errorf("got %q, not%s", line, want)
		}
	}
	return nil
}

func scriptNowhere(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: nowhere TEXT DIR")
	}
	found, err := filesWith(ts.MkAbs(args[1]), args[0])
	ts.Check(err)
	switch {
	case !neg && len(found) > 0:
		ts.Fatalf("%q is in %v", args[0], found)
	case neg && len(found) == 0:
		ts.Fatalf("%q is nowhere in %s", args[0], args[1])
	}
}

// filesWith lists the files below dir that hold text.
func filesWith(dir, text string) (found []string, err error) {
	n := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		n++
		b, err := os.ReadFile(path)
		if bytes.Contains(b, []byte(text)) {
			found = append(found, path)
		}
		return err
	})
	if err == nil && n == 0 {
		err = fmt.Errorf("no file in %s", dir)
	}
	return found, err
}

func scriptConforms(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: conforms JSON EXAMPLE")
	}
	var got, want any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &got))
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &want))
	for _, problem := range nonconforming("", got, want) {
		ts.Logf("%s", problem)
		defer ts.Fatalf("%s does not conform", args[0])
	}
}

// nonconforming lists what an example has and a value has not. A null in the value
// passes only for an object or a null; elements of arrays are like the example's
// first.
func nonconforming(path string, got, want any) (problems []string) {
	switch want := want.(type) {
	case map[string]any:
		if got == nil {
			return nil
		}
		object, ok := got.(map[string]any)
		if !ok {
			return []string{path + " is no object"}
		}
		for key, w := range want {
			g, ok := object[key]
			if !ok {
				problems = append(problems, path+"."+key+" is missing")
				continue
			}
			problems = append(problems, nonconforming(path+"."+key, g, w)...)
		}
	case []any:
		list, ok := got.([]any)
		if !ok {
			return []string{path + " is no array"}
		}
		for i, g := range list {
			problems = append(problems, nonconforming(fmt.Sprintf("%s[%d]", path, i), g, want[0])...)
		}
	case nil:
	default:
		if fmt.Sprintf("%T", got) != fmt.Sprintf("%T", want) {
			problems = append(problems, fmt.Sprintf("%s is %T, not %T", path, got, want))
		}
	}
	return problems
}

func TestNonconforming(t *testing.T) {
	var want, got any
	if err := json.Unmarshal([]byte(`{"a":1,"b":[{"c":"x"}],"d":{"e":true},"f":null}`), &want); err != nil {
		t.Fatal(err)
	}
	for text, n := range map[string]int{
		`{"a":2,"b":[],"d":null,"f":3,"more":1}`:            0,
		`{"a":"2","b":[{"c":"y"},{}],"d":{"e":1},"f":null}`: 3,
		`{}`: 4, `[]`: 1,
	} {
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if problems := nonconforming("", got, want); len(problems) != n {
			t.Error(text, problems)
		}
	}
}

func mustJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
