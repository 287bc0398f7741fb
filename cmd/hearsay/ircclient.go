package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
)

// An ircClient is as much of an IRC client as the demo's scene needs: it registers,
// answers PING, and waits for lines.
type ircClient struct {
	nc   net.Conn
	done chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	lines   []string      // guarded by mu; without tags
	tagged  []string      // guarded by mu; as they came
	changed chan struct{} // guarded by mu; closed and replaced with every line
	seen    int           // of the caller alone: lines that wait has passed
}

// dialIRC connects and registers under nick.
func dialIRC(ctx context.Context, address, nick, password string) (*ircClient, error) {
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &ircClient{nc: nc, done: make(chan struct{}), changed: make(chan struct{})}
	go c.read()
	if password != "" {
		c.send("PASS :" + password)
	}
	c.send("CAP REQ :server-time", "NICK "+nick, "USER "+nick+" 0 * :"+nick, "CAP END")
	if _, err := c.wait(ctx, func(line string) bool { return strings.Contains(line, " 001 ") }); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *ircClient) read() {
	defer close(c.done)
	r := bufio.NewReader(c.nc)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		tagged := strings.TrimRight(line, "\r\n")
		line = tagged
		if rest, ok := strings.CutPrefix(line, "@"); ok {
			_, line, _ = strings.Cut(rest, " ")
		}
		if token, ok := strings.CutPrefix(line, "PING "); ok {
			c.send("PONG " + token)
			continue
		}
		c.mu.Lock()
		c.lines = append(c.lines, line)
		c.tagged = append(c.tagged, tagged)
		close(c.changed)
		c.changed = make(chan struct{})
		c.mu.Unlock()
	}
}

// send writes lines; an error shows in what comes back, or does not.
func (c *ircClient) send(lines ...string) {
	_, _ = c.nc.Write([]byte(strings.Join(lines, "\r\n") + "\r\n"))
}

// wait returns the next line, after those that an earlier wait has passed, for
// which ok is true, with its tags.
func (c *ircClient) wait(ctx context.Context, ok func(line string) bool) (string, error) {
	for {
		c.mu.Lock()
		for c.seen < len(c.lines) {
			i := c.seen
			c.seen++
			if ok(c.lines[i]) {
				line := c.tagged[i]
				c.mu.Unlock()
				return line, nil
			}
		}
		changed := c.changed
		c.mu.Unlock()
		select {
		case <-changed:
		case <-c.done:
			c.mu.Lock()
			left := c.seen < len(c.lines)
			c.mu.Unlock()
			if !left {
				return "", errors.New("the IRC connection has ended")
			}
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// waitMessage waits for a PRIVMSG from nick to target.
func (c *ircClient) waitMessage(ctx context.Context, nick, target, text string) (string, error) {
	line, err := c.wait(ctx, func(line string) bool {
		from, rest, _ := strings.Cut(line, " ")
		return strings.HasPrefix(from, ":"+nick+"!") && rest == fmt.Sprintf("PRIVMSG %s :%s", target, text)
	})
	if err != nil {
		return "", fmt.Errorf("no message from %s to %s: %w", nick, target, err)
	}
	return line, nil
}

// join joins a channel, or has been made to, and waits until that is done.
func (c *ircClient) join(ctx context.Context, channel string) error {
	c.send("JOIN " + channel)
	_, err := c.wait(ctx, func(line string) bool {
		return strings.Contains(line, " 366 ") && strings.Contains(line, " "+channel+" ")
	})
	return err
}

// count is how many lines so far hold text.
func (c *ircClient) count(text string) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range c.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

func (c *ircClient) close() {
	_ = c.nc.Close()
	<-c.done
}
