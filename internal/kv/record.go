package kv

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// recordVersion begins every record of SealRecord; a CRC-32C ends it.
const recordVersion = 1

var (
	castagnoliTable = crc32.MakeTable(crc32.Castagnoli)
	errRecord       = errors.New("bad checksum or version")
)

// SealRecord wraps the body of a stored value, so that a flipped byte is noticed when it
// is read (ST-04): version, body, checksum.
func SealRecord(body []byte) []byte {
	v := append([]byte{recordVersion}, body...)
	return binary.LittleEndian.AppendUint32(v, crc32.Checksum(v, castagnoliTable))
}

// OpenRecord returns the body of what SealRecord made, as a view. The caller wraps the
// error with ErrCorrupt and with what the value was.
func OpenRecord(v []byte) (body []byte, err error) {
	n := len(v) - crc32.Size
	if n < 1 || v[0] != recordVersion || binary.LittleEndian.Uint32(v[n:]) != crc32.Checksum(v[:n], castagnoliTable) {
		return nil, errRecord
	}
	return v[1:n], nil
}
