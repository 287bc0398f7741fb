package kv

import (
	"encoding/binary"
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// freeBytes returns how many bytes an unprivileged process may still write to the
// file system of dir.
func freeBytes(dir string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}

// allocate gives the first size bytes of f blocks on the disk, so that writing to
// them through a mapping cannot fail. Its length does not change. The error is
// errors.ErrUnsupported where the file system cannot.
func allocate(f *os.File, size int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, size)
}

// dataSync makes the content of f durable, mapped writes included.
func dataSync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// inheritOwnerOnly makes every file that is created in dir owner only, whatever
// mode and umask say: a default ACL replaces the umask. It reports whether the
// file system can do that.
func inheritOwnerOnly(dir string) bool {
	const (
		userObj, groupObj, other = 0x01, 0x04, 0x20
		undefinedID              = 0xffffffff
	)
	b := binary.LittleEndian.AppendUint32(nil, 2) // ACL version
	for _, e := range [...]struct{ tag, perm uint16 }{{userObj, 7}, {groupObj, 0}, {other, 0}} {
		b = binary.LittleEndian.AppendUint16(b, e.tag)
		b = binary.LittleEndian.AppendUint16(b, e.perm)
		b = binary.LittleEndian.AppendUint32(b, undefinedID)
	}
	return unix.Setxattr(dir, "system.posix_acl_default", b, 0) == nil
}
