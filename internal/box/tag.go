package box

import (
	"crypto/rand"

	"lukechampine.com/blake3"
)

// A Tag is what a nonce can carry for the holders of the Box (decision 0195).
type Tag [16]byte

// tagContext separates the masks of tags from every other use of the key.
const tagContext = "hearsay 2026-11-30 tag in a nonce v1"

// tagRandom is how many bytes of a nonce with a tag are random; the masked tag follows.
const tagRandom = NonceSize - len(Tag{})

// SealTagged is Seal under a nonce that carries a tag. To everybody else the nonce is as
// random as any other: two with the same tag cannot be told from two with different
// ones. A tag must not be used for two texts, as a nonce must not: 8 bytes of it alone
// are fresh.
func (b *Box) SealTagged(text []byte, tag Tag) []byte {
	var nonce Nonce
	rand.Read(nonce[:tagRandom]) // never fails (crypto/rand)
	mask := b.mask(nonce)
	for i := range tag {
		nonce[tagRandom+i] = tag[i] ^ mask[i]
	}
	return b.seal(nonce, text)
}

// TagOf reads the tag of a nonce under which this Box opened a text. Of a nonce without
// one it is a random number.
func (b *Box) TagOf(nonce Nonce) Tag {
	tag := b.mask(nonce)
	for i := range tag {
		tag[i] ^= nonce[tagRandom+i]
	}
	return tag
}

// mask hides the tag: as good as random to whoever does not hold the key.
func (b *Box) mask(nonce Nonce) (out Tag) {
	material := make([]byte, 0, len(b.k)+tagRandom)
	material = append(append(material, b.k[:]...), nonce[:tagRandom]...)
	blake3.DeriveKey(out[:], tagContext, material)
	return out
}
