package rpc

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// ErrInUse says that somebody answers on the socket.
var ErrInUse = errors.New("rpc: socket is in use by another process")

// maxSocketPath is the longest path that fits a socket address everywhere, in
// bytes; systems allow 104 or 108 with the final zero.
const maxSocketPath = 100

// A unixListener removes its file when it is closed, unless another process has
// taken the name since.
type unixListener struct {
	net.Listener
	path string
	info fs.FileInfo
	once sync.Once
}

// Close closes the listener and removes its file.
func (l *unixListener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() {
		if now, serr := os.Lstat(l.path); serr == nil && os.SameFile(now, l.info) {
			_ = os.Remove(l.path)
		}
	})
	return err
}

// listenUnix listens on path, which gets its name only once nobody but the owner
// can connect. A socket left over by a process that died is replaced.
func listenUnix(path string) (_ net.Listener, err error) {
	if err := checkStale(path); err != nil {
		return nil, err
	}
	// A bind follows the umask, and nobody else may slip in before a chmod. So the
	// socket is bound inside a directory that only its owner can enter, and moved.
	dir, err := os.MkdirTemp(filepath.Dir(path), ".sock")
	if err != nil {
		return nil, fmt.Errorf("rpc: control socket: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is empty by then, or we failed anyway
	tmp := filepath.Join(dir, "s")
	short, done, err := shorten(tmp)
	if err != nil {
		return nil, err
	}
	defer done()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("rpc: control socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // it would unlink the temporary name
	defer func() {
		if err != nil {
			_ = l.Close()
		}
	}()
	if err := os.Chmod(tmp, 0o600); err != nil {
		return nil, fmt.Errorf("rpc: control socket: %w", err)
	}
	info, err := os.Lstat(tmp)
	if err != nil {
		return nil, fmt.Errorf("rpc: control socket: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return nil, fmt.Errorf("rpc: control socket: %w", err)
	}
	return &unixListener{Listener: l, path: path, info: info}, nil
}

// checkStale is nil if path is free or a socket on which nobody answers.
func checkStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("rpc: control socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("rpc: %s exists and is no socket", path)
	}
	nc, err := dialUnix(path, time.Second)
	if err == nil {
		_ = nc.Close()
		return fmt.Errorf("%w: %s", ErrInUse, path)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return fmt.Errorf("rpc: control socket: %w", err)
}

func dialUnix(path string, timeout time.Duration) (net.Conn, error) {
	short, done, err := shorten(path)
	if err != nil {
		return nil, err
	}
	defer done()
	return net.DialTimeout("unix", short, timeout)
}

// shorten is a name for path that fits a socket address: path itself, or one
// through a descriptor of its directory where the system has those. done must be
// called once the name was used.
func shorten(path string) (short string, done func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return "", nil, fmt.Errorf("rpc: control socket: %w", err)
	}
	short = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	if _, err := os.Stat(filepath.Dir(short)); err != nil {
		_ = dir.Close()
		return "", nil, fmt.Errorf("rpc: the path of the control socket has more than %d bytes: %s", maxSocketPath, path)
	}
	return short, func() { _ = dir.Close() }, nil
}
