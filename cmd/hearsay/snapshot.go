package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"hearsay/internal/kv"
)

// The format of a backup, inside its encryption (spec/storage.md): a line that names
// it, a line of JSON, for each store its records and a zero byte, and the SHA-256 of
// all that.
//
//	snapshot = magic header store* sha256
//	store    = record* 0x00
//	record   = keylen(varint > 0) key valuelen(varint) value
const snapshotMagic = "hearsay backup 1\n"

// Bounds on a file that somebody else may have made.
const (
	maxSnapshotHeader = 64 << 10
	maxSnapshotKey    = 64 << 10
	maxSnapshotValue  = 1 << 20
)

var errSnapshot = errors.New("this is no backup, or a damaged one")

// A snapshotHeader says what follows.
type snapshotHeader struct {
	Version string          `json:"version"` // of the program that wrote it
	Created string          `json:"created"` // RFC 3339
	Stores  []snapshotStore `json:"stores"`
}

type snapshotStore struct {
	Kind   string `json:"kind"`
	Schema uint32 `json:"schema"`
}

// writeSnapshot writes one consistent state of each store, in order.
func writeSnapshot(w io.Writer, h snapshotHeader, stores ...kv.Store) error {
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	header, err := json.Marshal(h)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s%s\n", snapshotMagic, header); err != nil {
		return err
	}
	for _, s := range stores {
		err := s.View(func(r kv.Reader) error {
			return r.Scan(kv.Scan{}, func(k, v []byte) error {
				var b []byte
				b = binary.AppendUvarint(b, uint64(len(k)))
				b = append(b, k...)
				b = binary.AppendUvarint(b, uint64(len(v)))
				if _, err := out.Write(b); err != nil {
					return err
				}
				_, err := out.Write(v)
				return err
			})
		})
		if err != nil {
			return err
		}
		if err := out.WriteByte(0); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// A summed reader hashes what is taken from it.
type summed struct {
	r   *bufio.Reader
	sum hash.Hash
}

func (s summed) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.sum.Write(p[:n])
	return n, err
}

func (s summed) ReadByte() (byte, error) {
	b, err := s.r.ReadByte()
	if err == nil {
		s.sum.Write([]byte{b})
	}
	return b, err
}

// bytes reads a length, at most limit, and as many bytes.
func (s summed) bytes(limit uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(s)
	if err != nil {
		return nil, damaged(err)
	}
	if n > limit {
		return nil, errSnapshot
	}
	var b bytes.Buffer // grows with what is there, not with what is claimed
	if _, err := io.CopyN(&b, s, int64(n)); err != nil {
		return nil, damaged(err)
	}
	return b.Bytes(), nil
}

// damaged makes an early end what it is.
func damaged(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errSnapshot
	}
	return fmt.Errorf("%w: %w", errSnapshot, err)
}

// readSnapshot reads what writeSnapshot wrote: begin gets the header, record each
// record with the index of its store. Only a nil error says that everything was right.
func readSnapshot(r io.Reader, begin func(snapshotHeader) error, record func(store int, key, value []byte) error) error {
	in := summed{bufio.NewReaderSize(r, maxSnapshotHeader), sha256.New()}
	magic := make([]byte, len(snapshotMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != snapshotMagic {
		return errSnapshot
	}
	line, err := in.r.ReadSlice('\n')
	if err != nil {
		return damaged(err)
	}
	in.sum.Write(line)
	var h snapshotHeader
	if err := json.Unmarshal(line, &h); err != nil {
		return damaged(err)
	}
	if err := begin(h); err != nil {
		return err
	}
	for i := range h.Stores {
		for {
			key, err := in.bytes(maxSnapshotKey)
			if err != nil {
				return err
			}
			if len(key) == 0 {
				break
			}
			value, err := in.bytes(maxSnapshotValue)
			if err != nil {
				return err
			}
			if err := record(i, key, value); err != nil {
				return err
			}
		}
	}
	want := in.sum.Sum(nil)
	got := make([]byte, len(want))
	if _, err := io.ReadFull(in.r, got); err != nil || !bytes.Equal(got, want) {
		return errSnapshot
	}
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return errSnapshot
	}
	return nil
}
