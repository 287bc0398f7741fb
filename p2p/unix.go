package p2p

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// errSocketInUse: somebody answers on the socket file.
var errSocketInUse = errors.New("p2p: socket file is in use, or is no socket")

// unixTransport is unix:///absolute/path, for programs of the same user.
type unixTransport struct{}

func socketPath(u URL) (string, error) {
	path := percentDecode(u.Path())
	if u.Host() != "" || u.HasPort() || u.IsOpaque() || path == "" || path[0] != '/' {
		return "", ErrNoAddress
	}
	return path, nil
}

func (unixTransport) Dial(ctx context.Context, addr URL) (net.Conn, error) {
	path, err := socketPath(addr)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, hide("dial", err)
	}
	return newStreamConn(conn), nil
}

// Listen opens a socket file that only its owner can use. A file that is there
// already is removed only if it is a socket on which nobody listens.
func (unixTransport) Listen(ctx context.Context, addr URL) (Listener, error) {
	path, err := socketPath(addr)
	if err != nil {
		return nil, err
	}
	if err := removeStaleSocket(ctx, path); err != nil {
		return nil, err
	}
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		// The file gets the socket's mode, less the umask: there is no moment in which
		// others could connect. Where the kernel ignores it, Chmod below follows.
		return c.Control(func(fd uintptr) { _ = syscall.Fchmod(int(fd), 0o600) })
	}}
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, hide("listen", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, hide("listen", err)
	}
	ul := l.(*net.UnixListener) // by the network's name
	return &socketListener{l: ul, url: addr, remote: func(net.Addr) URL { return addr }}, nil
}

func removeStaleSocket(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return hide("listen", err)
	}
	if info.Mode().Type() != fs.ModeSocket {
		return hide("listen", errSocketInUse)
	}
	d := net.Dialer{Timeout: time.Second}
	conn, err := d.DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return hide("listen", errSocketInUse)
	}
	return hide("listen", os.Remove(path))
}
