package histogram

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestBucketsLeaveNoGap(t *testing.T) {
	for _, v := range []uint64{0, 1, 63, 64, 127, 128, 129, 255, 256, 257, 1 << 20, 1<<20 + 1, 1<<40 - 1, 1 << 40, math.MaxInt64} {
		i := bucketOf(v)
		if top := upper(i); v > top || float64(top) > float64(v)*(1+1.0/cuts) {
			t.Errorf("%d falls into a bucket up to %d", v, top)
		}
		if top := upper(i); bucketOf(top) != i || top < math.MaxInt64 && bucketOf(top+1) != i+1 {
			t.Errorf("bucket %d does not end at %d", i, top)
		}
	}
}

func TestQuantilesAgreeWithSorting(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var h, half Histogram
	var all []int64
	for i := range 10_000 {
		n := int64(math.Exp(r.Float64() * 20))
		all = append(all, n)
		if i%2 == 0 {
			h.Record(n)
		} else {
			half.Record(n)
		}
	}
	h.Add(&half)
	slices.Sort(all)
	if h.Total() != 10_000 || h.Max() != all[len(all)-1] {
		t.Errorf("%d numbers up to %d, want 10000 up to %d", h.Total(), h.Max(), all[len(all)-1])
	}
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		want := float64(all[max(int(math.Ceil(q*10_000)), 1)-1])
		if got := float64(h.Quantile(q)); got < want || got > want*(1+1.0/cuts)+1 {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
}

func TestEmptyAndNegative(t *testing.T) {
	var h Histogram
	if h.Quantile(0.5) != 0 || h.Max() != 0 || h.Total() != 0 {
		t.Error("an empty histogram is not empty")
	}
	if h.Record(-5); h.Quantile(1) != 0 || h.Total() != 1 {
		t.Error("a negative number does not count as 0")
	}
}
