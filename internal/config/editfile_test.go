package config

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A file is replaced whole: mode and links stay, a file that somebody else changes is left.
func TestEditFile(t *testing.T) {
	_, secret := testKeys(t)
	dir := t.TempDir()
	path, link := filepath.Join(dir, "c.toml"), filepath.Join(dir, "link.toml")
	stale := filepath.Join(dir, strings.Replace(tempPattern, "*", "1", 1))
	err := errors.Join(os.WriteFile(path, []byte("# mine\n"), 0o640), os.Symlink("c.toml", link), os.WriteFile(stale, []byte("keys"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	add := func(e *Editor) error { return e.AddChannel("#x", secret) }
	if err := EditFile(link, Env{Home: dir}, add); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(got), "# mine\n\n[channel.\"#x\"]\n") {
		t.Errorf("%v %q", err, got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Error(info.Mode(), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Error(err)
	}
	err = EditFile(path, Env{Home: dir}, func(e *Editor) error {
		return errors.Join(os.WriteFile(path, []byte("# theirs\n"), 0o600), e.RemoveChannel("#x"))
	})
	if !errors.Is(err, ErrChanged) {
		t.Error(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "# theirs\n" {
		t.Errorf("%q", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%d files", len(entries))
	}
}

// What cannot or must not be written is left, with a reason that a person understands.
func TestEditFileRefusals(t *testing.T) {
	_, secret := testKeys(t)
	dir := t.TempDir()
	add := func(e *Editor) error { return e.AddChannel("#x", secret) }
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(text), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ path, err string }{
		{write("readonly", "# mine\n", 0o400), "the file is read-only"},
		{write("wrong", "autojoin = [\"x\"]\n", 0o600), "line 1: autojoin: "},
		{write("large", strings.Repeat("#", maxFile+1), 0o600), "larger than "},
		{write("full", strings.Repeat("#", maxFile-10), 0o600), "larger than "},
		{filepath.Join(dir, "dangling"), "no such file"},
		{filepath.Join(dir, "none"), "no such file"},
		{dir, "is no regular file"},
	} {
		was, _ := os.ReadFile(x.path)
		err := EditFile(x.path, Env{Home: dir}, add)
		if err == nil || !strings.Contains(err.Error(), x.err) || strings.Contains(err.Error(), "config:") {
			t.Errorf("%s: %v", filepath.Base(x.path), err)
		}
		if is, _ := os.ReadFile(x.path); string(is) != string(was) {
			t.Errorf("%s was changed", x.path)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 5 {
		t.Errorf("%d files", len(entries))
	}
}

// Many edits at once, from several opened files, all end up in the file.
func TestEditFileTogether(t *testing.T) {
	_, secret := testKeys(t)
	path := filepath.Join(t.TempDir(), "c.toml")
	if err := os.WriteFile(path, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const n = 16
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			err := EditFile(path, Env{}, func(e *Editor) error { return e.AddChannel(fmt.Sprintf("#x%d", i), secret) })
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	cfg, _, err := Load(path, Env{})
	if err != nil || len(cfg.Chat.Channels) != n {
		t.Errorf("%v, %d channels", err, len(cfg.Chat.Channels))
	}
}

// A full disk changes nothing and leaves nothing.
func TestEditFileFullDisk(t *testing.T) {
	_, secret := testKeys(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8k,mode=700"); err != nil {
		t.Skip("cannot mount a tmpfs:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "c.toml")
	err := errors.Join(os.WriteFile(path, []byte("# mine\n"), 0o600), os.WriteFile(filepath.Join(dir, "other"), make([]byte, 4096), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	err = EditFile(path, Env{}, func(e *Editor) error { return e.AddChannel("#x", secret) })
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "# mine\n" {
		t.Errorf("%q", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("%d files", len(entries))
	}
}

// killedEnv makes the test binary the process that is killed.
const killedEnv = "HEARSAY_TEST_EDITS"

// A process that edits and is killed, again and again: the file is whole each time, its
// owner's alone, and the next edit clears away what was left.
func TestEditFileKilled(t *testing.T) {
	_, secret := testKeys(t)
	if path := os.Getenv(killedEnv); path != "" {
		for i := 0; ; i = 1 - i {
			err := EditFile(path, Env{}, func(e *Editor) error {
				if err := e.RemoveChannel("#x"); !errors.Is(err, ErrMissing) {
					return err
				}
				return e.AddChannel("#x", secret)
			})
			if err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			if i == 0 {
				fmt.Println("edited")
			}
		}
	}
	if testing.Short() {
		t.Skip("starts processes")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "c.toml")
	const mine = "# mine\r\nmotd = \"x\" # and this\r\n"
	if err := os.WriteFile(path, []byte(mine), 0o600); err != nil {
		t.Fatal(err)
	}
	left := 0
	for round := range 20 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestEditFileKilled$")
		cmd.Env = append(os.Environ(), killedEnv+"="+path)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if lines := bufio.NewScanner(out); !lines.Scan() || lines.Text() != "edited" {
			t.Errorf("the process says %q", lines.Text())
		}
		time.Sleep(time.Duration(round) * 300 * time.Microsecond) // somewhere in the middle
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		text, err := os.ReadFile(path)
		if err != nil || !strings.HasPrefix(string(text), mine) {
			t.Fatalf("%v: %q", err, text)
		}
		if cfg, _, err := Load(path, Env{}); err != nil || len(cfg.Chat.Channels) > 1 {
			t.Fatalf("%v: %q", err, text)
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		left += len(entries) - 1
		for _, e := range entries {
			if info, err := e.Info(); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s: %v, %v", e.Name(), info.Mode(), err)
			}
		}
	}
	t.Logf("%d of 20 kills left a file", left)
	if err := EditFile(path, Env{}, func(e *Editor) error { return e.AddChannel("#y", secret) }); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files", len(entries))
	}
}

// The default file is written where there is none, and only there.
func TestCreateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "c.toml")
	if err := CreateFile(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Error(info, err)
	}
	if err := os.WriteFile(path, []byte("# mine\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CreateFile(path); !errors.Is(err, os.ErrExist) {
		t.Error(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "# mine\n" {
		t.Errorf("%q", got)
	}
}
