package box

import (
	"encoding/binary"

	"lukechampine.com/blake3"
)

// Derive makes a value that only the two sides of the Box can make, bound to a
// context, to one of the two public keys and to a number: BLAKE3 in derive-key mode
// over the Box's key, the public key and the number (little endian). Contexts are
// constants of the program, one for each use.
func (b *Box) Derive(context string, public PublicKey, n uint64) (out [32]byte) {
	material := make([]byte, 0, 2*KeySize+8)
	material = append(material, b.k[:]...)
	material = append(material, public.b[:]...)
	material = binary.LittleEndian.AppendUint64(material, n)
	blake3.DeriveKey(out[:], context, material)
	return out
}
