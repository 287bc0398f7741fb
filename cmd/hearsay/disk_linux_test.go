package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// ST-02, DS-33: a small disk that a foreign writer fills under load. Lines are refused
// with a code when there is too little room, and the daemon goes on; it starts again on the
// full disk, with everything that was accepted. When there is room, all of that
// arrives, in order, and nothing that was refused does.
func TestSmallDisk(t *testing.T) {
	if testing.Short() {
		t.Skip("fills a disk")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a tmpfs")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=600m,mode=700"); err != nil {
		t.Skip("cannot mount a tmpfs:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	peerNet := fmt.Sprintf(privateNet, 3) + "inbound = [\"quic://127.0.0.1:0\"]\n"
	one := start(t, solo(t, peerNet), nil)
	<-one.node.Listening()
	address := strings.TrimSuffix(one.node.ListenAddrs()[0].String(), "/")
	bob, err := dialIRC(withTime(t), one.ircAddr().String(), "bob", "")
	if err != nil {
		t.Fatal(err)
	}
	defer bob.close()
	if err := bob.join(withTime(t), "#k"); err != nil {
		t.Fatal(err)
	}
	heard := &checker{ircClient: bob, pattern: regexp.MustCompile(`^:alice!\S+ PRIVMSG #k :line (\d+)$`)}

	config := func(connections int) string {
		return fmt.Sprintf("irc_listen = \"tcp://127.0.0.1:0\"\ndatastore = %q\nskip_dag_sync = true\n[outbound]\nmin_connections = %d\nwakeup = \"1s\"\n%speers = [%q]\n",
			filepath.Join(disk, "v"), connections, fmt.Sprintf(privateNet, 3), address)
	}
	run := func(connections int) (d *daemon, end func()) {
		t.Helper()
		d, err := openDaemon(t.Context(), parse(t, config(connections)), noLog, nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- d.run(ctx) }()
		return d, func() {
			t.Helper()
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	d, end := run(2) // there is one: everything waits
	alice, err := dialIRC(withTime(t), d.ircAddr().String(), "alice", "")
	if err != nil {
		t.Fatal(err)
	}
	alice.send("CAP REQ :echo-message")
	filler, err := os.Create(filepath.Join(disk, "foreign"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	answer := regexp.MustCompile(`^:alice!\S+ PRIVMSG #k :line (\d+)$| 404 alice #k :\[(\w+)\] `)
	var accepted []int
	refused := 0
	for n := 1; refused < 5 && n < 150; n++ {
		alice.send(fmt.Sprintf("PRIVMSG #k :line %d", n))
		line, err := alice.wait(withTime(t), answer.MatchString)
		if err != nil {
			t.Fatal(err)
		}
		if rest, ok := strings.CutPrefix(line, "@"); ok {
			_, line, _ = strings.Cut(rest, " ")
		}
		switch m := answer.FindStringSubmatch(line); {
		case m[2] == "STORAGE_ERROR":
			refused++
		case m[1] == fmt.Sprint(n):
			accepted = append(accepted, n)
		default:
			t.Fatal(line)
		}
		if _, err := filler.Write(make([]byte, 8<<20)); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	if len(accepted) == 0 || refused < 5 {
		t.Fatalf("%d accepted, %d refused", len(accepted), refused)
	}
	alice.close()
	end()

	d, end = run(1) // on the full disk
	if s := d.outboundStatus(); s.Depth != len(accepted) {
		t.Errorf("%d messages, not %d", s.Depth, len(accepted))
	}
	if err := errors.Join(filler.Close(), os.Remove(filler.Name())); err != nil {
		t.Fatal(err)
	}
	if err := until(withTime(t), "not acknowledged", func() bool { return d.outboundStatus().Depth == 0 }); err != nil {
		t.Error(err, d.outboundStatus().Head)
	}
	end()
	if err := until(withTime(t), "not heard", func() bool { return len(heard.read()) >= len(accepted) }); err != nil {
		t.Error(err)
	}
	for _, p := range violations(accepted, heard.read()) {
		t.Error(p)
	}
	if n := len(heard.read()); n != len(accepted) {
		t.Errorf("%d heard, %d accepted", n, len(accepted))
	}
	t.Logf("%d accepted, %d refused", len(accepted), refused)
}
