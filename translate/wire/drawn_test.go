package wire

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestDrawnContainers most of which have a fault or two.
func TestDrawnContainers(t *testing.T) {
	d := drawer{rand.New(rand.NewPCG(1, 2))}
	valid := 0
	const texts = 100_000
	for range texts / effort {
		value := d.value(nil, 1+d.IntN(7))
		if d.IntN(3) > 0 {
			value = d.damage(value)
		}
		if Valid(value) {
			valid++
		}
		checkGrammar(t, value)
		checkGrammar(t, append(value, d.one(`,"a":1}`, "}", "}\n", strings.Repeat(" ", 80), "\xff"+strings.Repeat("z", 80))...))
	}
	if valid < texts/effort/4 {
		t.Errorf("only %d texts were valid", valid)
	}
}

// drawer draws JSON without white space, and faults.
type drawer struct{ *rand.Rand }

func (d drawer) one(of ...string) string { return of[d.IntN(len(of))] }

func (d drawer) value(b []byte, depth int) []byte {
	open, shut := byte('{'), byte('}')
	switch kind := d.IntN(10); {
	case depth == 0 || kind > 8:
		return append(b, d.one("1", "true", "false", "null", "-1.5e3", "0", "12345678901", `""`, "{}", "[]")...)
	case kind > 6:
		return d.text(b)
	case kind > 4:
		open, shut = '[', ']'
	}
	b = append(b, open)
	for i := range d.IntN(5) {
		if i > 0 {
			b = append(b, ',')
		}
		if open == '{' {
			b = append(d.text(b), ':')
		}
		b = d.value(b, depth-1)
	}
	return append(b, shut)
}

func (d drawer) text(b []byte) []byte {
	b = append(b, '"')
	for range d.IntN(1 + d.IntN(1+d.IntN(90))) {
		if d.IntN(6) > 0 {
			b = append(b, byte('a'+d.IntN(26)))
			continue
		}
		b = append(b, d.one(`\"`, `\\`, `\u00e4`, "é", "日", "😀", "{", "}", "[", "]", ":", ",")...)
	}
	return append(b, '"')
}

// damage replaces, removes or adds a token or byte in b, once or twice.
func (d drawer) damage(b []byte) []byte {
	for range 1 + d.IntN(2) {
		at, to := d.IntN(len(b)), 0
		if to = at; d.IntN(2) > 0 {
			to++
		}
		b = slices.Replace(b, at, to, []byte(d.one("", "{", "}", "[", "]", ",", ":", `"a"`, `"a":`, `,"a":`, ",{", `{"b":1}`, `,{"b":1}`, ",{}", ",[]", "{}",
			"1", ",1", "null", " ", "\n", `\`, `"`, "},{", `"a":{`, `":{`, "}}", "{{", ":{", ":}", ",}", "\x00", "\x1f", "\x7f", "\x80", "\xc3", "\xed\xa0", "\xf4\x90"))...)
		if len(b) == 0 {
			return []byte("{")
		}
	}
	return b
}
