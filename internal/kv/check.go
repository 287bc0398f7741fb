package kv

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
)

// Badger files, as v4.9.6 names them.
const (
	manifestFile    = "MANIFEST"
	keyRegistryFile = "KEYREGISTRY"
	discardFile     = "DISCARD"
	walSuffix       = ".mem"
	tableSuffix     = ".sst"
	valueLogSuffix  = ".vlog"
)

// checkFiles reads every byte of a generation that Badger is going to trust and
// returns the number of the last commit in it. It exists because Badger, opening
// damaged files, ends the process (a failed assertion), or drops what it cannot
// read with a warning, or deletes tables that a shortened MANIFEST does not name
// (ST-04). checkFiles removes only what cannot hold data: the unused value log,
// and write-ahead logs of length 0, on which Badger would fail.
//
// Commits are numbered without gaps, so what must be there is known: tables up to
// some number, write-ahead logs that continue from it, and not less than the
// witness has seen.
func checkFiles(dir string, witnessed uint64) (last uint64, err error) {
	es, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("kv: %w", err)
	}
	var wals []string
	tables, hasManifest := 0, false
	for _, e := range es {
		name := e.Name()
		path := filepath.Join(dir, name)
		if !e.Type().IsRegular() {
			return 0, fmt.Errorf("%w: %s is not a regular file", ErrCorrupt, name)
		}
		switch {
		case name == manifestFile:
			hasManifest = true
		case name == keyRegistryFile:
			err = removeBadRegistry(path)
		case name == discardFile || strings.HasSuffix(name, valueLogSuffix):
			err = os.Remove(path)
		case strings.HasSuffix(name, tableSuffix):
			tables++
		case strings.HasSuffix(name, walSuffix):
			var fi os.FileInfo
			if fi, err = e.Info(); err == nil && fi.Size() == 0 {
				err = os.Remove(path)
			} else {
				wals = append(wals, name)
			}
		}
		if err != nil {
			return 0, fmt.Errorf("kv: %w", err)
		}
	}
	if hasManifest {
		if last, err = checkTables(dir); err != nil {
			return 0, err
		}
	} else if witnessed > 0 || tables > 0 || len(wals) > 0 {
		return 0, fmt.Errorf("%w: MANIFEST is missing", ErrCorrupt)
	}
	if last, err = checkWALs(dir, wals, last); err != nil {
		return 0, err
	}
	if last < witnessed {
		return 0, fmt.Errorf("%w: it ends at commit %d, but commit %d was durable", ErrCorrupt, last, witnessed)
	}
	return last, nil
}

// removeBadRegistry removes a key registry that Badger would stumble over. Without
// encryption it holds no key and Badger writes it anew.
func removeBadRegistry(path string) error {
	b, err := os.ReadFile(path)
	if err == nil && len(b) == 16+12 && string(b[16:]) == "Hello Badger" {
		return nil
	}
	return os.Remove(path)
}

// checkTables verifies all tables of the manifest and returns their highest commit.
func checkTables(dir string) (last uint64, err error) {
	mf, err := os.Open(filepath.Join(dir, manifestFile))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	defer mf.Close() //nolint:errcheck // read only
	m, _, err := badger.ReplayManifestFile(mf, 0, badger.Options{})
	if err != nil {
		return 0, fmt.Errorf("%w: MANIFEST: %w", ErrCorrupt, err)
	}
	for id, t := range m.Tables {
		if t.KeyID != 0 || t.Compression != options.None || t.Level >= maxLevels {
			return 0, fmt.Errorf("%w: MANIFEST has unknown table options", ErrCorrupt)
		}
		name := fmt.Sprintf("%06d%s", id, tableSuffix)
		v, err := checkTable(filepath.Join(dir, name))
		if err != nil {
			return 0, fmt.Errorf("%w: table %s: %w", ErrCorrupt, name, err)
		}
		last = max(last, v)
	}
	return last, nil
}

var errTable = errors.New("does not read back")

// checkTable verifies the index and all blocks of a table and returns the highest
// commit in it. From its end backwards a table is: checksum length, checksum of
// the index, index length, index, blocks.
func checkTable(path string) (last uint64, err error) {
	defer func() {
		// The index is a flatbuffer, whose accessors do not check bounds. Its checksum
		// did match, but that of nothing is 0.
		if r := recover(); r != nil {
			err = fmt.Errorf("index: %v: %w", r, errTable)
		}
	}()
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // read only
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	end := fi.Size()
	sum, end, err := readTrailer(f, end)
	if err != nil {
		return 0, err
	}
	index, end, err := readTrailer(f, end)
	if err != nil {
		return 0, err
	}
	if !checksumOK(index, sum) {
		return 0, fmt.Errorf("index %w", errTable)
	}
	ti := fb.GetRootAsTableIndex(index, 0)
	if ti.OffsetsLength() == 0 {
		return 0, fmt.Errorf("index is empty: %w", errTable)
	}
	var buf []byte
	var pos int64
	for i := range ti.OffsetsLength() {
		var bo fb.BlockOffset
		if !ti.Offsets(&bo, i) || int64(bo.Offset()) != pos || bo.Len() < 4 || pos+int64(bo.Len()) > end {
			return 0, fmt.Errorf("block %d %w", i, errTable)
		}
		n := int(bo.Len())
		buf = slices.Grow(buf[:0], n)[:n]
		if _, err := f.ReadAt(buf, pos); err != nil {
			return 0, err
		}
		pos += int64(n)
		clen := int(binary.BigEndian.Uint32(buf[n-4:]))
		if clen > n-4 || !checksumOK(buf[:n-4-clen], buf[n-4-clen:n-4]) {
			return 0, fmt.Errorf("block %d %w", i, errTable)
		}
	}
	if pos != end {
		return 0, fmt.Errorf("blocks end early: %w", errTable)
	}
	return ti.MaxVersion(), nil
}

// readTrailer reads the bytes before end whose 4-byte length ends there.
func readTrailer(f *os.File, end int64) ([]byte, int64, error) {
	var lb [4]byte
	if end < 4 {
		return nil, 0, fmt.Errorf("too short: %w", errTable)
	}
	if _, err := f.ReadAt(lb[:], end-4); err != nil {
		return nil, 0, err
	}
	n := int64(binary.BigEndian.Uint32(lb[:]))
	if n > end-4 {
		return nil, 0, fmt.Errorf("length field %w", errTable)
	}
	b := make([]byte, n)
	if _, err := f.ReadAt(b, end-4-n); err != nil {
		return nil, 0, err
	}
	return b, end - 4 - n, nil
}

func checksumOK(data, sum []byte) bool {
	var c pb.Checksum
	return proto.Unmarshal(sum, &c) == nil && c.Algo == pb.Checksum_CRC32C &&
		uint64(crc32.Checksum(data, castagnoli)) == c.Sum
}

// checkWALs follows the write-ahead logs from commit last on and returns the last
// commit in them. What follows the last whole commit of a log is the rest of a
// write that was cut off: nothing if it was the last log, else a gap.
func checkWALs(dir string, names []string, last uint64) (uint64, error) {
	ids := make([]int, 0, len(names))
	for _, n := range names {
		id, err := strconv.Atoi(strings.TrimSuffix(n, walSuffix))
		if err != nil || id < 0 {
			return 0, fmt.Errorf("%w: log with the name %q", ErrCorrupt, n)
		}
		ids = append(ids, id)
	}
	slices.Sort(ids)
	// A log whose table is written but that was not removed yet starts before last.
	for _, id := range ids {
		w, err := scanWAL(filepath.Join(dir, walName(id)))
		if err != nil {
			return 0, fmt.Errorf("%w: log %s: %w", ErrCorrupt, walName(id), err)
		}
		if w.last == 0 {
			continue // no whole commit
		}
		if w.first > last+1 {
			return 0, fmt.Errorf("%w: log %s begins at commit %d, but what is before it ends at %d",
				ErrCorrupt, walName(id), w.first, last)
		}
		last = max(last, w.last)
	}
	return last, nil
}

func walName(id int) string { return fmt.Sprintf("%05d%s", id, walSuffix) }

// A walRange is what a write-ahead log holds: commits first to last, without gap.
type walRange struct{ first, last uint64 }

const (
	walHeader  = 20 // key id, nonce
	bitPointer = 1 << 1
	bitTxn     = 1 << 6
	bitFinTxn  = 1 << 7
	txnKey     = "!badger!txn"
	maxWALKey  = MaxKeySize + 64 // ours and Badger's own, with version
)

// scanWAL reads a log as Badger replays it, but with bounds. It zeroes the header
// of an entry that does not read back, so that Badger, which allocates what the
// header says, stops there too.
func scanWAL(path string) (r walRange, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	in := bufio.NewReaderSize(f, 64<<10)
	var head [walHeader]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return r, fmt.Errorf("header: %w", err)
	}
	if binary.BigEndian.Uint64(head[:8]) != 0 {
		return r, errors.New("header names an encryption key")
	}
	pos, whole := int64(walHeader), int64(walHeader)
	var open uint64 // the commit whose entries are being read
	for {
		e, n, err := readWALEntry(in)
		if err != nil {
			if !errors.Is(err, errWALEnd) {
				return r, err
			}
			break
		}
		pos += n
		version := ^binary.BigEndian.Uint64(e.key[len(e.key)-8:])
		if e.meta&bitPointer != 0 {
			return r, errors.New("entry points into a value log")
		}
		if e.meta&bitTxn != 0 {
			if open != 0 && open != version {
				break
			}
			open = version
			continue
		}
		// The end of a commit. Entries outside of one are never written here.
		if e.meta&bitFinTxn == 0 || open == 0 || version != open || !bytes.HasPrefix(e.key, []byte(txnKey)) {
			break
		}
		if r.last != 0 && open != r.last+1 {
			return r, fmt.Errorf("commit %d follows %d", open, r.last)
		}
		if r.first == 0 {
			r.first = open
		}
		r.last, open, whole = open, 0, pos
	}
	return r, endWAL(f, whole)
}

// endWAL zeroes the entry header at pos, if there is anything but zeros.
func endWAL(f *os.File, pos int64) error {
	const maxEntryHeader = 22
	b := make([]byte, maxEntryHeader)
	n, err := f.ReadAt(b, pos)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if b = b[:n]; bytes.Equal(b, make([]byte, n)) {
		return nil
	}
	_, err = f.WriteAt(make([]byte, n), pos)
	return err
}

// errWALEnd: nothing readable follows.
var errWALEnd = errors.New("end of log")

type walEntry struct {
	meta byte
	key  []byte
}

// readWALEntry reads meta, user meta, key length, value length, expiry (varints),
// key, value, CRC-32C.
func readWALEntry(in *bufio.Reader) (e walEntry, n int64, err error) {
	h := crcReader{r: in}
	var fixed [2]byte
	if _, err := io.ReadFull(&h, fixed[:]); err != nil {
		return e, 0, walErr(err)
	}
	var lens [3]uint64
	for i := range lens {
		if lens[i], err = binary.ReadUvarint(&h); err != nil {
			return e, 0, errWALEnd // cut off, or not a varint
		}
	}
	klen, vlen := lens[0], lens[1]
	if klen < 8 || klen > maxWALKey || vlen > MaxValueSize || lens[2] != 0 {
		return e, 0, errWALEnd
	}
	e = walEntry{meta: fixed[0], key: make([]byte, klen)}
	if _, err := io.ReadFull(&h, e.key); err != nil {
		return e, 0, walErr(err)
	}
	if _, err := io.CopyN(io.Discard, &h, int64(vlen)); err != nil {
		return e, 0, walErr(err)
	}
	sum := h.sum
	var crc [4]byte
	if _, err := io.ReadFull(&h, crc[:]); err != nil {
		return e, 0, walErr(err)
	}
	if sum != binary.BigEndian.Uint32(crc[:]) {
		return e, 0, errWALEnd
	}
	return e, h.n, nil
}

// walErr tells a log that ends from a disk that fails.
func walErr(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errWALEnd
	}
	return err
}

// crcReader counts and sums what is read.
type crcReader struct {
	r   *bufio.Reader
	sum uint32
	n   int64
}

func (c *crcReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.sum = crc32.Update(c.sum, castagnoli, p[:n])
	c.n += int64(n)
	return n, err
}

func (c *crcReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.sum = crc32.Update(c.sum, castagnoli, []byte{b})
		c.n++
	}
	return b, err
}
