package wire

import (
	"math/rand/v2"
	"testing"
)

// TestPlanesAreThoseOfTheClasses of random bytes, most of them ASCII.
func TestPlanesAreThoseOfTheClasses(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 20_000 / effort {
		b := make([]byte, batch*64)
		for i := range b {
			if b[i] = byte(r.Uint32()); r.IntN(4) > 0 {
				b[i] &= 0x7F
			}
		}
		var got, want [batch]planes
		findPlanes(&got[0], &b[0], batch)
		for i, c := range b {
			x, bit := &want[i/64], uint64(1)<<(i%64)
			if c >= 0x80 {
				x.beyond |= bit
				continue
			}
			for k, mask := range []*uint64{&x.control, &x.curly, &x.opening, &x.backslash, &x.bracket, &x.white, &x.escapable} {
				if classBits[c]&(isControl<<k) != 0 {
					*mask |= bit
				}
			}
		}
		if got != want {
			t.Fatalf("%q:\n%x, not\n%x", b, got, want)
		}
	}
}

// TestPlainBlocks are passed up to the block with a byte that is not plain, whichever byte that is and wherever it is.
func TestPlainBlocks(t *testing.T) {
	b := make([]byte, 4*64+63)
	for at := range b {
		for c := range 256 {
			for i := range b {
				b[i] = "\x20\x7f"[i&1] // the outermost ones
			}
			b[at] = byte(c)
			want := 4 * 64
			if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\') && at >= 64 {
				want = min(want, at&^63)
			}
			if end := plainBlocks(&b[0], 64, len(b)); end != want {
				t.Fatalf("with %#x at %d: %d, not %d", c, at, end, want)
			}
		}
	}
}
