package wire

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestWalkSkips what is well formed and has no white space.
func TestWalkSkips(t *testing.T) {
	names, use := ways()
	defer use("")
	for _, name := range names {
		if use(name); hasWalk {
			t.Run(name, testWalkSkips)
		}
	}
}

func testWalkSkips(t *testing.T) {
	long := strings.Repeat("long ", 500)
	for _, text := range []string{
		`[]`, `{}`, `[{}]`, `{"a":{"b":[1,"x",{"c":null}]},"d":[[],[[]],{}]}`, `["","\"","\\","\\\"",{"\"":"\u00e4\\"},"ä日😀"]`,
		`[true,false,null,-1.5e+3,0,-0]`, `{"` + long + `":["` + long + `"],"":[]}`, `["` + strings.Repeat("日本", 500) + `\n\u0041"]`,
		strings.Repeat("[", 61) + strings.Repeat("]", 61), strings.Repeat(`{"a":`, 61) + "0" + strings.Repeat("}", 61),
		`["\"` + long + `","\\",` + "1" + strings.Repeat(",1", 100) + `]`,
		"[" + strings.Repeat("1,", 1000) + "2]", `["` + strings.Repeat(`\u00e4`, 1000) + `"]`,
	} {
		for n := range 130 {
			for _, behind := range []string{"", ",1]", "\n", "]\r\n", " \n ", "\xff" + strings.Repeat("x", 100)} {
				value := `["` + strings.Repeat("x", n) + `",` + text + "]"
				if n == 0 {
					value = text
				}
				b := []byte(`[1,` + value + behind)
				if len(b) < 3+64 {
					continue
				}
				if end := skipWalk(b, 3, 0); end != 3+len(value) && (end != -1 || behind == "" || behind[0] <= ']' && len(behind) <= 3 && behind != " \n ") {
					t.Fatalf("%.300q is skipped to %d, not to %d", b, end, 3+len(value))
				}
			}
		}
	}
}

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

// TestUsualScalars have the length that they have token by token.
func TestUsualScalars(t *testing.T) {
	needBlocks(t)
	r := rand.New(rand.NewPCG(5, 6))
	pool := []byte("0019-.eE,]} \n:/;tru\x00\x7f\x80\xb9\xff")
	known := 0
	for range 200_000 / effort {
		b := []byte{pool[r.IntN(len(pool))], pool[r.IntN(len(pool))], pool[r.IntN(len(pool))], pool[r.IntN(len(pool))], pool[r.IntN(len(pool))], ',', ',', ','}
		copy(b[:r.IntN(6)], []string{"true", "false", "null", "1234567", "1"}[r.IntN(5)])
		n := usualScalar(word(b, 0))
		if n == 0 {
			continue
		}
		known++
		if want := skipScalar(b, 0); endsScalar[b[n]] && n != want {
			t.Fatalf("%q: %d, not %d", b, n, want)
		}
	}
	if known == 0 {
		t.Error("no scalar was usual")
	}
}
