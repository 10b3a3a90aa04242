package fit

import "math/bits"

// A bitset is a set of small numbers.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, n/64+1) }

func (b bitset) add(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b bitset) has(i int) bool { return b[i>>6]>>(i&63)&1 != 0 }

// next is the first number from i on that is in the set; 1<<31 when there is none.
func (b bitset) next(i int) int {
	w := i >> 6
	if w >= len(b) {
		return 1 << 31
	}
	if x := b[w] >> (i & 63); x != 0 {
		return i + bits.TrailingZeros64(x)
	}
	for w++; w < len(b); w++ {
		if b[w] != 0 {
			return w<<6 + bits.TrailingZeros64(b[w])
		}
	}
	return 1 << 31
}

// any reports whether there is a number from i up to end in the set.
func (b bitset) any(i, end int) bool {
	for ; i < end && i&63 != 0; i++ {
		if b.has(i) {
			return true
		}
	}
	for ; i+64 <= end; i += 64 {
		if b[i>>6] != 0 {
			return true
		}
	}
	return i < end && b[i>>6]&(1<<(end-i)-1) != 0
}
