package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
)

// A socksProxy is as much of a SOCKS5 proxy as it takes to connect (RFC 1928), and
// remembers to where.
type socksProxy struct {
	l net.Listener

	mu  sync.Mutex
	saw map[string]int // connections by host:port
}

// scriptSocks is the command socks: "socks serve PORT", then "socks saw HOST:PORT".
func scriptSocks(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: socks serve PORT, socks saw HOST:PORT")
	}
	list := ts.Value("socks").(map[string]*socksProxy)
	switch args[0] {
	case "serve":
		l, err := net.Listen("tcp", "127.0.0.1:"+args[1])
		ts.Check(err)
		p := &socksProxy{l: l, saw: map[string]int{}}
		list[args[1]] = p
		go p.serve()
	case "saw":
		n := 0
		for _, p := range list {
			p.mu.Lock()
			n += p.saw[args[1]]
			p.mu.Unlock()
		}
		if (n > 0) == neg {
			ts.Fatalf("%d connections to %s", n, args[1])
		}
	default:
		ts.Fatalf("socks cannot %s", args[0])
	}
}

func (p *socksProxy) serve() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			if err := p.pass(c); err != nil {
				_, _ = c.Write([]byte{5, 1, 0, 1, 0, 0, 0, 0, 0, 0})
			}
		}()
	}
}

// pass does one connection to its end.
func (p *socksProxy) pass(c net.Conn) error {
	b := make([]byte, 256)
	if _, err := io.ReadFull(c, b[:2]); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, b[:b[1]]); err != nil {
		return err
	}
	if _, err := c.Write([]byte{5, 0}); err != nil {
		return err
	}
	if _, err := io.ReadFull(c, b[:4]); err != nil {
		return err
	}
	host := ""
	switch b[3] {
	case 1:
		if _, err := io.ReadFull(c, b[:4]); err != nil {
			return err
		}
		host = net.IP(b[:4]).String()
	case 3:
		if _, err := io.ReadFull(c, b[:1]); err != nil {
			return err
		}
		n := b[0]
		if _, err := io.ReadFull(c, b[:n]); err != nil {
			return err
		}
		host = string(b[:n])
	default:
		return errors.New("no such kind of address")
	}
	if _, err := io.ReadFull(c, b[:2]); err != nil {
		return err
	}
	to := net.JoinHostPort(host, fmt.Sprint(binary.BigEndian.Uint16(b)))
	p.mu.Lock()
	p.saw[to]++
	p.mu.Unlock()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0}); err != nil {
		return nil //nolint:nilerr // the other side went
	}
	var wg sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{c: out, out: c} {
		wg.Go(func() {
			_, _ = io.Copy(to, from)
			_ = to.(*net.TCPConn).CloseWrite() // ended, or about to
		})
	}
	wg.Wait()
	return nil
}
