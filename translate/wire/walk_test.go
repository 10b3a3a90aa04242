//go:build amd64 || arm64

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

// TestUsualScalars have the length that they have token by token.
func TestUsualScalars(t *testing.T) {
	needBlocks(t)
	for text, want := range map[string]int{"true": 4, "false": 5, "null": 4, "0": 1, "10": 2, "1234567": 7, "01": 0, "12345678": 0, "fals": 0, "-1": 0} {
		if n := usualScalar(word([]byte(text+",,,,,,,"), 0)); n != want {
			t.Errorf("%s: %d, not %d", text, n, want)
		}
	}
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
