package wire

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// textEnd is the obvious twin of skipText: it returns the index at which text ends that needs no further look.
func textEnd(b []byte, i int) int {
	for i < len(b) {
		switch c := b[i]; {
		case c == '\\':
			if i+1 == len(b) || !bytes.ContainsRune([]byte(`"\/bfnrt`), rune(b[i+1])) {
				return i
			}
			i += 2
		case c < 0x20 || c == '"':
			return i
		default:
			r, n := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && n < 2 {
				return i
			}
			i += n
		}
	}
	return i
}

// checkText checks what skipText returns for b from i on. With blocks, it must be where text ends, but for the last
// bytes and for faults of UTF-8.
func checkText(t *testing.T, b []byte, i int) {
	t.Helper()
	end, got := textEnd(b, i), skipText(b, i)
	if got != end && (got < i || got > end || textEnd(b[:got], i) != got || hasBlocks && i >= 3 && len(b)-got >= 64 && utf8.Valid(b)) {
		t.Fatalf("%q from %d: %d, and text ends at %d", b, i, got, end)
	}
}

// opening stands before a text whose blocks are looked at.
const opening = `"a "`

// TestTextIsSkipped with each byte at each place of two blocks, behind each kind of byte that may matter to it.
func TestTextIsSkipped(t *testing.T) {
	for _, way := range []string{"", `\`, `\\`, "\xc3", "\xe0", "\xe2\x82", "\xed", "\xf0", "\xf0\x9f\x98", "\xf4"} {
		for c := range 256 {
			b := append([]byte(opening), bytes.Repeat([]byte{'a'}, 200)...)
			for at := len(opening); at < len(b); at += effort {
				was := bytes.Clone(b)
				n := copy(b[at:], way)
				n += copy(b[at+n:], []byte{byte(c)})
				checkText(t, b, len(opening))
				checkText(t, b[:min(at+n, len(b))], len(opening))
				copy(b, was)
				b[at] = byte(0x20 + at%2) // the least plain ones
			}
		}
	}
}

// TestEachCharacterIsText at each place of a block, and each two bytes that might be one.
func TestEachCharacterIsText(t *testing.T) {
	const step = 8*effort - 1 // odd, so that each last byte of a character occurs
	text := append([]byte(opening), bytes.Repeat([]byte("ä"), 150)...)
	for r := rune(0x80); r <= utf8.MaxRune; r += step {
		if r >= 0xD800 && r < 0xE000 {
			continue
		}
		from := 2 * (int(r) % 70)
		b := append(append(text[:len(opening)+from:len(opening)+from], string(r)...), text[len(opening)+from:]...)
		checkText(t, b, len(opening))
	}
	for first := range 256 {
		for second := 0; second < 256; second += effort {
			for _, third := range []byte{'a', 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0} {
				for _, from := range []int{58, 60, 62} {
					b := append([]byte(opening), bytes.Repeat([]byte("aä"), 90)...)
					copy(b[len(opening)+from:], []byte{byte(first), byte(second), third, 0x80})
					checkText(t, b, len(opening))
				}
			}
		}
	}
}

// TestRunsOfBackslashes of each length, across the end of a block.
func TestRunsOfBackslashes(t *testing.T) {
	for n := 0; n < 140; n += effort {
		for at := range 70 {
			for _, next := range []string{`"`, "n", "u0041", "x", "ä"} {
				b := append([]byte(opening), bytes.Repeat([]byte{'a'}, at)...)
				b = append(append(b, bytes.Repeat([]byte{'\\'}, n)...), next...)
				b = append(b, bytes.Repeat([]byte{'a'}, 200)...)
				checkText(t, b, len(opening))
			}
		}
	}
}

// TestLongTextIsSkipped over the end of a call, near which something goes on or is a fault.
func TestLongTextIsSkipped(t *testing.T) {
	text := append([]byte(opening), bytes.Repeat([]byte("long text "), 240_000)...)
	for _, item := range []string{"😀", "\\n", "\\\\", `"`, `\u00e4`, "\xf0\x9f", "\x01"} {
		for at := len(opening) + 1<<20 - 70; at < len(opening)+1<<20+6; at += 3 * effort {
			b := bytes.Clone(text)
			copy(b[at:], item)
			checkText(t, b, len(opening))
		}
	}
}

func FuzzSkipText(f *testing.F) {
	long := bytes.Repeat([]byte("plain text "), 30)
	for _, s := range []string{"", `"`, "\x1f", "\x20", "\x7f", "\x80", "\xff", `\`, `\n`, `\u0041`, "ä", "日本", "😀", "\xed\xa0\x80", `\\\"`} {
		f.Add(append(bytes.Clone(long), s...), uint(0))
		f.Add(append([]byte(s), long...), uint(1))
		f.Add(bytes.Repeat([]byte(s), 100), uint(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, i uint) {
		checkText(t, append([]byte(opening), b...), len(opening))
		if i <= uint(len(b)) && textEnd(b[:i], 0) == int(i) { // as skipString has it
			checkText(t, b, int(i))
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
	parts := []string{"a", `\"`, `\\`, "€", "😀", "\xed\xa0\x80", "\xf0\x80", strings.Repeat("ü", 70), strings.Repeat(`\\`, 70), "plain text that is rather long, so that whole blocks are plain, one after the other", `\n`, `\u00e4`, "ä", "\xff", "\n", `\x`, `"`, "日本"}
	for range 100_000 / effort {
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
	for name, part := range map[string]string{"plain": "plain text ", "lines": `a line of some text, of usual length, as in a file of source code\n`, "umlauts": "schöne grüße ", "Japanese": "天気は晴れでしょう。", "quotes": `{\"name\": \"a\", \"path\": \"C:\\\\a\"}, `, "numbered": `no \u00e4 but the text is long enough so that blocks are used for most of it, and `} {
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
