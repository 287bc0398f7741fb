package kv

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// witnessFile names the witness in a generation directory.
const witnessFile = "witness"

// The layout of the witness (spec/storage.md): two slots in different sectors,
// written in turn, and the mark. The file is written whole when it is created, so
// neither a new number nor the mark needs a new block (ST-02, ST-03).
const (
	witnessSize   = 4096
	witnessSlot   = 1024 // distance of the two slots
	witnessMark   = 2048 // where the mark is
	witnessRecord = 16   // magic, number, checksum
)

var (
	witnessMagic = [4]byte{'h', 's', 'w', '1'}
	unknownMark  = [8]byte{'U', 'N', 'K', 'N', 'O', 'W', 'N', '\n'}
	castagnoli   = crc32.MakeTable(crc32.Castagnoli)
)

// A witness remembers outside Badger's files that commits up to a number were
// durable. It is never ahead of the store, but may be behind after a power cut,
// since it is not synced by itself.
type witness struct {
	f    *os.File
	seq  uint64
	slot int64
}

func encodeWitness(seq uint64) []byte {
	b := append(make([]byte, 0, witnessRecord), witnessMagic[:]...)
	b = binary.BigEndian.AppendUint64(b, seq)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeWitness(b []byte) (uint64, bool) {
	if len(b) < witnessRecord || [4]byte(b) != witnessMagic ||
		crc32.Checksum(b[:12], castagnoli) != binary.BigEndian.Uint32(b[12:]) {
		return 0, false
	}
	return binary.BigEndian.Uint64(b[4:]), true
}

// createWitness writes a witness of nothing. It is durable with its name once dir
// is synced.
func createWitness(dir string) error {
	f, err := createOwnerOnly(filepath.Join(dir, witnessFile))
	if err != nil {
		return err
	}
	b := make([]byte, witnessSize)
	copy(b, encodeWitness(0))
	copy(b[witnessSlot:], encodeWitness(0))
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// openWitness returns the witness in dir and whether it carries the mark.
func openWitness(dir string) (*witness, bool, error) {
	f, err := os.OpenFile(filepath.Join(dir, witnessFile), os.O_RDWR, 0)
	if err != nil {
		return nil, false, fmt.Errorf("%w: witness: %w", ErrCorrupt, err)
	}
	b := make([]byte, witnessSize)
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, false, errors.Join(fmt.Errorf("%w: witness: %w", ErrCorrupt, err), f.Close())
	}
	w := &witness{f: f}
	a, okA := decodeWitness(b)
	c, okC := decodeWitness(b[witnessSlot:])
	switch {
	case okA && (!okC || a >= c):
		w.seq, w.slot = a, 0
	case okC:
		w.seq, w.slot = c, 1
	default:
		return nil, false, errors.Join(fmt.Errorf("%w: witness has no valid record", ErrCorrupt), f.Close())
	}
	return w, [8]byte(b[witnessMark:]) != [8]byte{}, nil
}

// set records that commits up to seq are durable. It does not sync.
func (w *witness) set(seq uint64) error {
	if seq <= w.seq {
		return nil
	}
	slot := 1 - w.slot
	if _, err := w.f.WriteAt(encodeWitness(seq), slot*witnessSlot); err != nil {
		return err
	}
	w.seq, w.slot = seq, slot
	return nil
}

// mark makes the next Open rewrite the store (ST-03).
func (w *witness) mark() error {
	if _, err := w.f.WriteAt(unknownMark[:], witnessMark); err != nil {
		return err
	}
	return w.f.Sync()
}

func (w *witness) close() error { return w.f.Close() }
