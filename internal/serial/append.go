package serial

import "encoding/binary"

// AppendUint8 appends v as one byte.
func AppendUint8(b []byte, v uint8) []byte { return append(b, v) }

// AppendUint16 appends v as 2 bytes, little endian.
func AppendUint16(b []byte, v uint16) []byte { return binary.LittleEndian.AppendUint16(b, v) }

// AppendUint32 appends v as 4 bytes, little endian.
func AppendUint32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }

// AppendUint64 appends v as 8 bytes, little endian.
func AppendUint64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

// AppendBool appends one byte, 0 or 1.
func AppendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// AppendVarInt appends v in the shortest of the four forms, 1, 3, 5 or 9 bytes.
func AppendVarInt(b []byte, v uint64) []byte {
	switch {
	case v <= 0xfc:
		return append(b, byte(v))
	case v <= 0xffff:
		return binary.LittleEndian.AppendUint16(append(b, 0xfd), uint16(v))
	case v <= 0xffffffff:
		return binary.LittleEndian.AppendUint32(append(b, 0xfe), uint32(v))
	default:
		return binary.LittleEndian.AppendUint64(append(b, 0xff), v)
	}
}

// VarIntSize is the number of bytes that [AppendVarInt] appends for v.
func VarIntSize(v uint64) int {
	switch {
	case v <= 0xfc:
		return 1
	case v <= 0xffff:
		return 3
	case v <= 0xffffffff:
		return 5
	default:
		return 9
	}
}

// AppendBytes appends the length of v as a VarInt, then v.
func AppendBytes(b, v []byte) []byte {
	return append(AppendVarInt(b, uint64(len(v))), v...)
}

// AppendString appends the byte length of s as a VarInt, then s. The caller
// vouches that s is valid UTF-8: readers refuse anything else.
func AppendString(b []byte, s string) []byte {
	return append(AppendVarInt(b, uint64(len(s))), s...)
}
