package httpcall

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
)

// Digest hashes a list of texts. Each has its length before it, so that no two lists have the same hash.
type Digest struct{ hash.Hash }

// NewDigest returns the Digest of an empty list.
func NewDigest() Digest { return Digest{sha256.New()} }

// Add adds texts to the list.
func (d Digest) Add(texts ...string) {
	for _, s := range texts {
		d.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s))))
		d.Write([]byte(s))
	}
}
