package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

var (
	// ErrChanged: somebody else wrote the file in the meantime.
	ErrChanged = errors.New("the file has just been changed by somebody else; please try again")
	// ErrReadOnly: the file's owner wants it to stay as it is.
	ErrReadOnly = errors.New("the file is read-only; please edit it by hand, or make it writable")
)

// CreateFile writes the default configuration, for its owner alone, where there is no file.
func CreateFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(defaultText)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// EditFile changes a configuration file: the new text is on the disk under the file's
// name, whole, or the old one still is. The file keeps its mode and owner, a symbolic link
// stays one. Of several processes that do this, one goes after the other; an edit by other
// means in between is [ErrChanged].
func EditFile(path string, env Env, edit func(*Editor) error) (err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	// The file is another one after each edit, so the lock is its directory's.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", dir.Name(), err)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is no regular file", path)
	case info.Mode().Perm()&0o200 == 0:
		return ErrReadOnly
	}
	old, err := readFile(path)
	if err != nil {
		return err
	}
	e, err := NewEditor(old, env)
	if err != nil {
		return err
	}
	if err := edit(e); err != nil {
		return err
	}
	if bytes.Equal(e.text, old) {
		return nil
	}
	if err := replace(path, info, old, e.text); err != nil {
		return err
	}
	return dir.Sync()
}

// PendingIn lists the contacts in a file whose keys are not known yet.
func PendingIn(path string, env Env) ([]Pending, error) {
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	e, err := NewEditor(text, env)
	if err != nil {
		return nil, err
	}
	return e.Pending(), nil
}

// readFile reads a file that is not larger than a configuration may be.
func readFile(path string) (text []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// tempPattern names the new text until it is whole.
const tempPattern = ".hearsay-*.toml"

// replace puts text in the place of a file that still holds old.
func replace(path string, info fs.FileInfo, old, text []byte) error {
	// Who was killed in the middle of an edit left one, with everybody's keys in it.
	if stale, err := filepath.Glob(filepath.Join(filepath.Dir(path), tempPattern)); err == nil {
		for _, name := range stale {
			_ = os.Remove(name) // under the lock it is nobody's
		}
	}
	f, err := os.CreateTemp(filepath.Dir(path), tempPattern) // owner only
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = keepOwner(f, info)
	}
	err = errors.Join(err, f.Chmod(info.Mode().Perm()), f.Sync(), f.Close())
	if err == nil {
		if now, rerr := readFile(path); rerr != nil || !bytes.Equal(now, old) {
			err = errors.Join(ErrChanged, rerr)
		}
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the error to report is the other one
	}
	return err
}

// keepOwner gives f the owner that the file of info has.
func keepOwner(f *os.File, info fs.FileInfo) error {
	was, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	now, err := f.Stat()
	if err != nil {
		return err
	}
	if is, ok := now.Sys().(*syscall.Stat_t); ok && is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	return f.Chown(int(was.Uid), int(was.Gid))
}
