// Package histogram counts durations, or any other numbers, in buckets of fixed
// bounds, so that recording one costs a shift and an increment.
package histogram

import (
	"math"
	"math/bits"
)

// Each power of two is divided into 64 buckets: a quantile is at most 1.6 % larger
// than the recorded number.
const (
	cutBits = 6
	cuts    = 1 << cutBits
)

// Histogram counts numbers from 0 up. The zero value is empty and ready for use.
// Only one goroutine at a time may use it.
type Histogram struct {
	counts [(64 - cutBits + 1) * cuts]uint32
	total  uint64
	max    uint64
}

// Record counts one number; a negative one counts as 0.
func (h *Histogram) Record(n int64) {
	v := uint64(max(n, 0))
	h.counts[bucketOf(v)]++
	h.total++
	h.max = max(h.max, v)
}

// Add adds all counts of other.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

// Total returns how many numbers were counted.
func (h *Histogram) Total() uint64 { return h.total }

// Max returns the largest number, or 0 if there is none.
func (h *Histogram) Max() int64 { return int64(h.max) }

// Quantile returns the q-quantile of all numbers, with q from 0 to 1: at least the share q of them
// is not larger. The result is the upper bound of a bucket, but never more than Max. It is 0 if
// there are no numbers.
func (h *Histogram) Quantile(q float64) int64 {
	rank := uint64(math.Ceil(q * float64(h.total)))
	var seen uint64
	for i, n := range h.counts {
		if seen += uint64(n); n > 0 && seen >= rank {
			return int64(min(upper(i), h.max))
		}
	}
	return 0
}

func bucketOf(v uint64) int {
	shift := max(bits.Len64(v)-cutBits-1, 0)
	return shift<<cutBits + int(v>>shift)
}

// upper returns the largest number of a bucket.
func upper(i int) uint64 {
	if i < 2*cuts {
		return uint64(i)
	}
	shift := i>>cutBits - 1
	return uint64(i-shift<<cutBits+1)<<shift - 1
}
