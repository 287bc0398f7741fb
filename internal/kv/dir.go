package kv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockFile names the file whose flock is the store's lock. It stays.
const lockFile = "lock"

const generationPrefix = "gen-"

func generationDir(dir string, n uint32) string {
	return filepath.Join(dir, fmt.Sprintf("%s%06d", generationPrefix, n))
}

// claimDir makes dir this process's own: it exists, is a real directory of ours
// that nobody else can read, and is locked. The caller closes the returned file.
func claimDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("kv: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("kv: %w", err)
	}
	d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
			return nil, fmt.Errorf("%w: %s is a symlink or no directory", ErrPermission, dir)
		}
		return nil, fmt.Errorf("kv: %w", err)
	}
	defer d.Close() //nolint:errcheck // read only
	if err := checkOwner(d); err != nil {
		return nil, err
	}
	return lockDir(dir)
}

// checkOwner refuses a directory that others own or can read. An empty one of
// ours is closed to others instead: it is a mount point or was made for us.
func checkOwner(d *os.File) error {
	fi, err := d.Stat()
	if err != nil {
		return fmt.Errorf("kv: %w", err)
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%w: %s belongs to another user", ErrPermission, d.Name())
	}
	if fi.Mode().Perm() == 0o700 {
		return nil
	}
	names, err := d.Readdirnames(2)
	if fi.Mode().Perm()&0o077 != 0 && len(names) > 0 && !onlyLostFound(names) {
		return fmt.Errorf("%w: others have access to %s, which is not empty (chmod 700 it after a look at who read it)",
			ErrPermission, d.Name())
	}
	if err := d.Chmod(0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrPermission, err)
	}
	_ = err // an empty directory ends in io.EOF
	return nil
}

// onlyLostFound tells a fresh file system's root.
func onlyLostFound(names []string) bool { return len(names) == 1 && names[0] == "lost+found" }

func lockDir(dir string) (*os.File, error) {
	name := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPermission, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrLocked, dir)
		}
		return nil, fmt.Errorf("kv: lock: %w", err)
	}
	if err := f.Chmod(0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("kv: %w", err), f.Close())
	}
	return f, nil
}

// generations lists the generation directories in dir.
func generations(dir string) ([]string, error) {
	es, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range es {
		if strings.HasPrefix(e.Name(), generationPrefix) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}

// createGeneration makes an empty generation directory with its witness.
func createGeneration(dir string, n uint32) (string, error) {
	g := generationDir(dir, n)
	if err := os.Mkdir(g, 0o700); err != nil {
		return "", err
	}
	if err := os.Chmod(g, 0o700); err != nil {
		return "", err
	}
	if err := createWitness(g); err != nil {
		return "", err
	}
	if err := syncDir(g); err != nil {
		return "", err
	}
	return g, syncDir(dir)
}

// untouched tells a generation whose creation was cut short, before its format
// record was written and therefore before anything was ever stored in it.
func untouched(gen string) bool {
	es, err := os.ReadDir(gen)
	if err != nil {
		return false
	}
	return len(es) == 0 || len(es) == 1 && es[0].Name() == witnessFile
}

// openFormat returns the record of the store in o.Dir, writing that of a new
// store if there is none yet. kill -9 at any moment leaves a directory that it
// accepts.
func openFormat(o *Options) (format, error) {
	f, err := readFormat(o.Dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return createStore(o)
	case err != nil:
		return format{}, err
	case f.Kind != o.Kind:
		return format{}, fmt.Errorf("%w: this is a %s store, not a %s store", ErrSchema, f.Kind, o.Kind)
	case f.Schema != o.Schema:
		return format{}, fmt.Errorf("%w: %s store of schema %d, this program knows %d", ErrSchema, f.Kind, f.Schema, o.Schema)
	}
	// What the record does not name is the rest of an interrupted rewrite.
	gens, err := generations(o.Dir)
	if err != nil {
		return format{}, fmt.Errorf("kv: %w", err)
	}
	current := generationDir(o.Dir, f.Generation)
	for _, g := range gens {
		if g == current {
			continue
		}
		if err := os.RemoveAll(g); err != nil {
			return format{}, fmt.Errorf("kv: %w", err)
		}
	}
	if fi, err := os.Lstat(current); err != nil || !fi.IsDir() {
		return format{}, fmt.Errorf("%w: %s is missing", ErrCorrupt, filepath.Base(current))
	}
	return f, nil
}

func createStore(o *Options) (format, error) {
	gens, err := generations(o.Dir)
	if err != nil {
		return format{}, fmt.Errorf("kv: %w", err)
	}
	for _, g := range gens {
		if !untouched(g) {
			return format{}, fmt.Errorf("%w: the format record is missing", ErrCorrupt)
		}
		if err := os.RemoveAll(g); err != nil {
			return format{}, fmt.Errorf("kv: %w", err)
		}
	}
	if _, err := createGeneration(o.Dir, 1); err != nil {
		return format{}, fmt.Errorf("kv: %w", err)
	}
	f := newFormat(o, 1)
	if err := writeFormat(o.Dir, f); err != nil {
		return format{}, fmt.Errorf("kv: %w", err)
	}
	// Fresh parents must survive a power cut too.
	return f, syncDir(filepath.Dir(o.Dir))
}

func newFormat(o *Options, generation uint32) format {
	return format{
		Kind: o.Kind, Schema: o.Schema, Generation: generation,
		Memtable: o.Memtable, Table: o.Table, Threshold: min(1<<20, o.Memtable*15/100),
	}
}
