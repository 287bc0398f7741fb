//go:build unix && !linux

package kv

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// freeBytes is not known here; the reserve does not refuse anything.
func freeBytes(string) (int64, bool) { return 0, false }

// allocate is not available; the reserve has to do.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }

// dataSync makes the content of f durable, mapped writes included.
func dataSync(f *os.File) error {
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	b, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Munmap(b) //nolint:errcheck // nothing to undo
	if err := unix.Msync(b, unix.MS_SYNC); err != nil {
		return err
	}
	return f.Sync()
}

// inheritOwnerOnly is not available; modes are corrected after creation.
func inheritOwnerOnly(string) bool { return false }
