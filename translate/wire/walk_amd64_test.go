package wire

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestWalkGoesOnBetweenCalls as within one: each block by a call of its own, with what the kernel has kept of the one before.
func TestWalkGoesOnBetweenCalls(t *testing.T) {
	needBlocks(t)
	names, use := ways()
	defer use("")
	d := drawer{rand.New(rand.NewPCG(7, 8))}
	texts := [][]byte{}
	for _, cut := range []string{"\"\xc3", "\"\xe2", "\"\xe2\x82", "\"\xf0\x9f\x98", `"\`, `"\\`, `"`, `""`, "1", "[", "{", ",", `{"a":`, `{"a"`, `{"a`, "[1,"} {
		for _, on := range []string{`"`, `]`, `}`, `a"`, `:1}`, `,1`, `,"a":1}`, `1`, `1]`, `u00e4"`, "\xa9\"", "\x82\xac\""} {
			text := `["` + strings.Repeat("x", 2*64-len(`["",`)-len(cut)) + `",` + cut + on + `,"` + strings.Repeat("y", 100) + `"]`
			texts = append(texts, []byte(text))
		}
	}
	for range 20_000 / effort {
		value := d.value([]byte(`["`+strings.Repeat("x", d.IntN(64))+`",`), 6)
		value = append(value[:1], d.damage(value[1:])...)
		texts = append(texts, append(value, `,"`+strings.Repeat("y", 70)+`"]`...))
	}
	for _, name := range names {
		use(name)
		if !hasWalk {
			continue
		}
		whole := 0
		for _, text := range texts {
			b := append([]byte(`[1,`), text...)
			b = append(b, strings.Repeat(" ", 64-len(text)%64)...)
			want, got := walkedTo(b, mostBlocks), walkedTo(b, 1)
			if got != want {
				t.Fatalf("%s: %q is walked to %d by one call, to %d block by block", name, b, want, got)
			}
			if want > 0 {
				whole++
			}
		}
		if whole == 0 {
			t.Errorf("%s: no text was walked to its end", name)
		}
	}
}

// walkedTo walks the container behind three bytes of b by calls of at most that many blocks, as skipWalk does.
func walkedTo(b []byte, most int) int {
	w := walk{stack: noContainer, last: [4]uint64{2: 1 << 63}}
	for i := 3; len(b)-i >= 64; {
		n := w.blocks(&b[i], min((len(b)-i)>>6, most))
		if n < 0 || !w.check(b, i, i+n) {
			return -1
		}
		if i += n; w.stack == noContainer {
			return i
		}
	}
	return -1
}
