package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
)

// killsVar says how often TestKillLoop kills the daemon.
const killsVar = "HEARSAY_KILLS"

const privateNet = `
[graph]
rotation = "0s"

[net]
magic_bytes = [9, 9, 9, %d]
localnet = true
active_profiles = ["quic"]
outbound_connections = 0
inbound_connections = 1000

[net.profiles.quic]
outbound_connect_timeout = 2
`

// A checker reads numbered messages from a client's lines.
type checker struct {
	*ircClient
	pattern *regexp.Regexp
	at      int
	numbers []int
}

// read takes what has come since, and returns all numbers.
func (c *checker) read() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ; c.at < len(c.lines); c.at++ {
		if m := c.pattern.FindStringSubmatch(c.lines[c.at]); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				panic(err)
			}
			c.numbers = append(c.numbers, n)
		}
	}
	return c.numbers
}

// violations compares what was accepted with what arrived: nothing is lost, overtaken
// or there twice.
func violations(accepted, arrived []int) (problems []string) {
	for i := 1; i < len(arrived); i++ {
		if arrived[i] <= arrived[i-1] {
			problems = append(problems, fmt.Sprintf("%d came after %d", arrived[i], arrived[i-1]))
		}
	}
	for _, n := range accepted {
		if !slices.Contains(arrived, n) {
			problems = append(problems, fmt.Sprintf("%d was accepted and never arrived", n))
		}
	}
	return problems
}

func TestViolations(t *testing.T) {
	for _, c := range []struct {
		accepted, arrived []int
		problems          int
	}{
		{[]int{1, 2, 4}, []int{1, 2, 3, 4}, 0}, // 3 was accepted, but nobody was told
		{[]int{1, 2}, []int{1}, 1},
		{[]int{1, 2}, []int{2, 1}, 1},
		{[]int{1}, []int{1, 1}, 1},
	} {
		if got := violations(c.accepted, c.arrived); len(got) != c.problems {
			t.Error(c, got)
		}
	}
}

// TestKillLoop: DS-31, DS-32, DS-35, DS-41, DS-72. The binary is killed with kill -9 at any
// moment, again and again, while a client says numbered lines. Each line that the
// client saw accepted arrives at a peer, in order, once.
func TestKillLoop(t *testing.T) {
	if testing.Short() {
		t.Skip("starts and kills daemons")
	}
	kills := 20
	if text := os.Getenv(killsVar); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	peerNet := fmt.Sprintf(privateNet, 1) + "inbound = [\"quic://127.0.0.1:0\"]\n"
	one := start(t, solo(t, peerNet), nil)
	<-one.node.Listening()
	address := func(d *daemon) string { return strings.TrimSuffix(d.node.ListenAddrs()[0].String(), "/") }
	cfg := solo(t, peerNet+fmt.Sprintf("peers = [%q]\n", address(one)))
	cfg.Slots.SkipSync = false
	two := start(t, cfg, nil)
	<-two.node.Listening()
	bob, err := dialIRC(withTime(t), one.ircAddr().String(), "bob", "")
	if err != nil {
		t.Fatal(err)
	}
	defer bob.close()
	if err := bob.join(withTime(t), "#k"); err != nil {
		t.Fatal(err)
	}
	heard := &checker{ircClient: bob, pattern: regexp.MustCompile(`^:alice!\S+ PRIVMSG #k :line (\d+)$`)}

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "v.toml")
	text := fmt.Sprintf("irc_listen = \"tcp://%s\"\ndatastore = %q\n%speers = [%q, %q]\n", port, filepath.Join(dir, "v"), fmt.Sprintf(privateNet, 1), address(one), address(two))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	// live runs the daemon until the returned function ends it.
	live := func() (alice *ircClient, end func(sig os.Signal)) {
		t.Helper()
		cmd := exec.Command("hearsay", "run", "--config", file)
		var log strings.Builder
		cmd.Stderr = &log
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		err := until(withTime(t), "no IRC", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var err error
			alice, err = dialIRC(ctx, port, "alice", "")
			return err == nil
		})
		end = func(sig os.Signal) {
			t.Helper()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Error(err)
			}
			err := cmd.Wait()
			if exit := (*exec.ExitError)(nil); sig != os.Kill && err != nil || err != nil && !errors.As(err, &exit) {
				t.Errorf("%v\n%s", err, log.String())
			}
		}
		if err != nil {
			end(os.Kill)
			t.Fatal(err, log.String())
		}
		return alice, end
	}
	var accepted []int
	next := 0
	for range kills {
		alice, end := live()
		said := &checker{ircClient: alice, pattern: regexp.MustCompile(`^:alice!\S+ PRIVMSG #k :line (\d+)$`)}
		alice.send("CAP REQ :echo-message", "CAP REQ :no-history")
		for range 1 + rand.IntN(6) {
			next++
			alice.send(fmt.Sprintf("PRIVMSG #k :line %d", next))
			if rand.IntN(3) == 0 {
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
			}
		}
		time.Sleep(time.Duration(rand.IntN(300)) * time.Millisecond) // anywhere on its way
		end(os.Kill)
		<-alice.done
		accepted = append(accepted, said.read()...)
		alice.close()
	}
	alice, end := live()
	defer alice.close()
	// Peers are paced: no more than 180 puts a minute (DS-86).
	drain, cancel := context.WithTimeout(t.Context(), scriptTimeout+time.Duration(next)*time.Second)
	defer cancel()
	err = until(drain, "not acknowledged", func() bool {
		s := statusReport{}
		call(t, &daemon{cfg: parse(t, text)}, "hearsay.status", nil, &s)
		if s.Outbound.Head != nil && s.Outbound.Head.Rounds > 3 {
			t.Errorf("%+v", s.Outbound.Head)
			return true
		}
		time.Sleep(50 * time.Millisecond)
		return s.Outbound.Depth == 0
	})
	if err != nil {
		t.Error(err)
	}
	if err := until(withTime(t), "not heard", func() bool { return len(violations(accepted, heard.read())) == 0 }); err != nil {
		t.Error(err)
	}
	end(os.Interrupt)
	arrived := heard.read()
	for _, p := range violations(accepted, arrived) {
		t.Error(p)
	}
	t.Logf("%d kills, %d lines said, %d seen accepted, %d arrived", kills, next, len(accepted), len(arrived))
	if len(accepted) == 0 || len(arrived) < len(accepted) {
		t.Error("too little happened")
	}
}

// ST-07: the daemon stops within 10 s although its peer has stopped reading in the middle
// of a conversation.
func TestStopWhilePeersStall(t *testing.T) {
	if testing.Short() {
		t.Skip("starts daemons")
	}
	cfg := solo(t, "[outbound]\nmin_connections = 1\n"+fmt.Sprintf(privateNet, 2)+"inbound = [\"quic://127.0.0.1:0\"]\n")
	d := newDaemon(cfg, noLog, nil)
	if err := d.open(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- d.run(ctx) }()
	<-d.node.Listening()

	dir := t.TempDir()
	file := filepath.Join(dir, "peer.toml")
	text := fmt.Sprintf("irc_listen = \"tcp://127.0.0.1:0\"\ndatastore = %q\n%speers = [%q]\n", filepath.Join(dir, "p"),
		fmt.Sprintf(privateNet, 2), strings.TrimSuffix(d.node.ListenAddrs()[0].String(), "/"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	peer := exec.Command("hearsay", "run", "--config", file)
	if err := peer.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = peer.Process.Kill()
		_ = peer.Wait()
	}()
	alice, err := dialIRC(withTime(t), d.ircAddr().String(), "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	defer alice.close()
	alice.send("PRIVMSG #c :before")
	if err := until(withTime(t), "not acknowledged", func() bool { return d.outboundStatus().AckedTotal == 1 }); err != nil {
		t.Fatal(err)
	}
	if err := peer.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		alice.send("PRIVMSG #c :" + strings.Repeat("x", 8000))
	}
	if err := until(withTime(t), "not sent", func() bool {
		s := d.outboundStatus()
		return s.Depth > 50 && s.Head.Generations == 1
	}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
		t.Logf("stopped in %v", time.Since(began))
	case <-time.After(10 * time.Second): // the contract's promise
		t.Error("does not stop")
		<-done
	}
}
