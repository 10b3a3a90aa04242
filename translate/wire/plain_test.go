package wire

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// plainEnd is the obvious twin of skipPlain: it returns the index of the first byte that is not plain.
func plainEnd(b []byte, i int) int {
	for i < len(b) && b[i] >= 0x20 && b[i] < 0x80 && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

func checkPlain(t *testing.T, b []byte, i int) {
	t.Helper()
	end := plainEnd(b, i)
	if got := skipPlain(b, i); got < i || got > end || hasBlocks && end-got >= 64 && len(b)-got >= 64 {
		t.Fatalf("%q from %d: %d, and the first other byte is at %d", b, i, got, end)
	}
}

// TestPlainBytesAreSkipped with each byte at each place of two blocks, and from each place.
func TestPlainBytesAreSkipped(t *testing.T) {
	b := bytes.Repeat([]byte{'a'}, 200)
	for c := range 256 {
		for at := range b {
			b[at] = byte(c)
			checkPlain(t, b, 0)
			checkPlain(t, b[:at+1], at%70)
			b[at] = byte(0x20 + at%2) // the least plain ones
		}
	}
	for i := range b {
		checkPlain(t, b, i)
		checkPlain(t, b[:i], 0)
	}
}

func FuzzSkipPlain(f *testing.F) {
	long := bytes.Repeat([]byte("plain text "), 30)
	for _, s := range []string{"", `"`, "\x1f", "\x20", "\x7f", "\x80", "\xff", `\`} {
		f.Add(append(bytes.Clone(long), s...), uint(0))
		f.Add(append([]byte(s), long...), uint(1))
	}
	f.Fuzz(func(t *testing.T, b []byte, i uint) {
		if i <= uint(len(b)) {
			checkPlain(t, b, int(i))
		}
	})
}

// TestStringsWithAndWithoutBlocks are skipped to the same end, with the same fault.
func TestStringsWithAndWithoutBlocks(t *testing.T) {
	if !hasBlocks {
		t.Skip("this processor has no blocks")
	}
	defer func() { hasBlocks = true }()
	r := rand.New(rand.NewPCG(1, 2))
	parts := []string{"a", "plain text that is rather long, so that whole blocks are plain, one after the other", `\n`, `\u00e4`, "ä", "\xff", "\n", `\x`, `"`, "日本"}
	for range 20_000 {
		var b []byte
		for range r.IntN(12) {
			b = append(b, parts[r.IntN(len(parts))]...)
		}
		hasBlocks = true
		with := skipString(b, 0)
		hasBlocks = false
		if without := skipString(b, 0); with != without {
			t.Fatalf("%q: %d and %d", b, with, without)
		}
	}
}

func BenchmarkSkipString(b *testing.B) {
	for name, part := range map[string]string{"plain": "plain text ", "lines": `a line of some text, of usual length, as in a file of source code\n`, "umlauts": "schöne grüße "} {
		text := append(bytes.Repeat([]byte(part), 1<<20/len(part)), '"')
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if skipString(text, 0) != len(text) {
					b.Fatal("wrong end")
				}
			}
		})
	}
}
