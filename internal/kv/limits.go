package kv

import (
	"bytes"
	"fmt"
)

const (
	// MaxKeySize bounds a key, in bytes. Badger keeps keys of every table in
	// memory and refuses 65,000; nobody here needs more than a prefix and two ids.
	MaxKeySize = 1024

	// MaxValueSize bounds a value, in bytes: four mailbox envelopes. It stays
	// below the threshold at which Badger would move a value out of the tree.
	MaxValueSize = 512 << 10

	// entryOverhead is what one pair costs a commit beyond its bytes, at most:
	// version, entry header and checksum in the write-ahead log.
	entryOverhead = 40

	// maxGroup bounds the calls of one group commit, so that a caller that leads
	// is not kept from its own work for long.
	maxGroup = 1024

	// memCommitSize bounds one commit of a memory store, in bytes. It equals what
	// a default disk store takes, so that code tested over memory fits the disk.
	memCommitSize  = defaultMemtable * 15 / 100 * 9 / 10
	memCommitCount = 10_000
)

// Keys with these prefixes belong to the store itself: Badger's and ours.
var (
	badgerPrefix = []byte("!badger!")
	ownPrefix    = []byte("!kv!")
)

// seqKey holds the number of the last commit, 8 bytes big-endian; it is part of
// every commit.
var seqKey = []byte("!kv!seq")

func checkKey(key []byte) error {
	switch {
	case len(key) == 0, bytes.HasPrefix(key, badgerPrefix), bytes.HasPrefix(key, ownPrefix):
		return ErrKey
	case len(key) > MaxKeySize:
		return fmt.Errorf("%w: key of %d bytes, at most %d", ErrTooLarge, len(key), MaxKeySize)
	}
	return nil
}

func checkPair(key, value []byte) error {
	if err := checkKey(key); err != nil {
		return err
	}
	if len(value) > MaxValueSize {
		return fmt.Errorf("%w: value of %d bytes, at most %d", ErrTooLarge, len(value), MaxValueSize)
	}
	return nil
}
