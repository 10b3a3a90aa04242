package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// checkGrammar checks that a text is valid if it is for encoding/json, with the limits on depth and UTF-8, that its fault is
// found where a check byte by byte finds it, and that each of its values ends where a decoder says.
func checkGrammar(t *testing.T, text []byte) {
	t.Helper()
	checkBoth(t, string(text), Limits{})
	bad := Check(text, Limits{})
	if bad != nil && bad.Why == TooDeep {
		return
	}
	if want := json.Valid(text) && utf8.Valid(text); want != (bad == nil) {
		t.Fatalf("%q: %+v, but for encoding/json it is valid: %t", text, bad, want)
	}
	if bad == nil {
		checkTokens(t, text)
	}
}

// checkTokens checks that each value of a valid text, and each name, is skipped to where a decoder ends to read it.
func checkTokens(t *testing.T, text []byte) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var open []int // where the containers around a token begin
	for end := 0; ; {
		from := len(text) - len(bytes.TrimLeft(text[end:], " \t\r\n,:"))
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		switch end = int(d.InputOffset()); token {
		case json.Delim('{'), json.Delim('['):
			open = append(open, from)
			continue
		case json.Delim('}'), json.Delim(']'):
			from = open[len(open)-1]
			open = open[:len(open)-1]
		}
		if got := skipValue(text, from, len(open)); got != end {
			t.Fatalf("%q: what begins at %d ends at %d, not at %d", text, from, end, got)
		}
	}
}

// TestEverySequenceOfTokens in each kind of container, as the last bytes of a text and with others behind them.
func TestEverySequenceOfTokens(t *testing.T) {
	tokens := []string{"{", "}", "[", "]", ":", ",", `"a"`, "1", "null", " ", "\n"}
	const most = 6
	behind := strings.Repeat(" ", 32)
	var text []byte
	at := 0
	var add func(n int)
	add = func(n int) {
		checkGrammar(t, text)
		was := len(text)
		text = append(text, behind...)
		checkGrammar(t, text)
		text = text[:was]
		if n == most {
			return
		}
		for _, token := range tokens {
			if at++; n == most-1 && at%effort != 0 {
				continue
			}
			text = append(text[:was], token...)
			add(n + 1)
		}
		text = text[:was]
	}
	for _, begin := range []string{"[", `{"k":1,`, `[{"k":`, `{`, `[[`} {
		text = []byte(begin)
		add(1)
	}
}

// uglyItems are members and elements, many of them with faults.
var uglyItems = []string{
	`"\"`, `"\\"`, `"\\\"`, `"\u00e4"`, `"\u00g4"`, `"\u12"`, `"\x"`, `\"`, `"a\`, "\"\x01\"", "\"\t\"", "\x01", "\x1a", "\x0c", "\x02", "\x00", "\x7f", `"` + "\x7f" + `"`, "\v",
	"\"\xff\"", "\"\xc3\"", "\"\xe2\x82\"", "\"\xe2\x82\xac\"", "\"\xf0\x9f\x98\x80\"", "\"\xed\xa0\x80\"", "\"\xf0\x9f\x98\"", "ä", "\xef\xbb\xbf1", "\"\xc3\"a",
	"tru", "true", "truex", "nul", "-", "01", "1.", "1e", "1.5e+7", "-0", "1 2", "1\"a\"", `"a"1`, `"a""b"`, "1true", "{}1", "[]{}", "\u00a0", "12345678", "1234567.", "123456789x", "00000000",
	`{"a":1}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a",1}`, `{"a":1:2}`, `{1:2}`, `{{}:1}`, `{"a":{}:1}`, `{"a":1]`, `[1}`, `[1:2]`, `["a":1]`, `[,]`, `[1,]`, `{"a" : 1}`, `{"a":"b":1}`, `{"a":"b" "c":1}`, `{"\"":1}`,
	strings.Repeat("[", 70) + strings.Repeat("]", 70), strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64), strings.Repeat(`\`, 65), `"` + strings.Repeat(`\`, 130) + `"`, `"` + strings.Repeat(`\`, 129) + `"`,
	"[\"a\"\xdd\xac1", "\xdb\xac", "\"\"\xbf1", strings.Repeat("[", 70) + `{"a":[[1],2]}` + strings.Repeat("]", 70), strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70),
	"u0000", `"\0 0"`, `"\ttrue"`, `\u0000`, `\\u0000`,
	strings.Repeat(" ", 130), `"` + strings.Repeat("é", 100) + `"`, `"` + strings.Repeat("plain ", 60) + "\n\"", strings.Repeat("[", 600), "",
}

// uglyWays are containers for an item: it is an element, a member's value, a member, or the last thing in the text.
var uglyWays = [][2]string{{"", "]"}, {`{"k":`, `},1]`}, {`{`, `:1}]`}, {`{"`, `:{"k":1,"e":"` + strings.Repeat("e", 100) + `"}}]`}, {`{"k":{"k":{"k":1,"k":`, `,"e":"` + strings.Repeat("e", 100) + `"}}}]`},
	{"", ""}, {" ", ` , "` + strings.Repeat("e", 200) + `" ]`}}

// TestUglyItemsAtEachPlace behind a string of each length, also cut off.
func TestUglyItemsAtEachPlace(t *testing.T) {
	for _, item := range uglyItems {
		for n := 0; n < 72; n += effort {
			for _, way := range uglyWays {
				b := []byte(`["` + strings.Repeat("x", n) + `",` + way[0] + item + way[1])
				checkGrammar(t, b)
				checkGrammar(t, b[:len(b)-len(b)%3])
			}
		}
	}
}

// TestStringsAndNamesOfEachLength with each fault at their end, and with each number of bytes behind them.
func TestStringsAndNamesOfEachLength(t *testing.T) {
	text := strings.Repeat("n", 300) // which may also be escaped
	for n := range len(text) {
		for _, item := range []string{"", "\xc3", "\xe2", "\xe2\x82", "\xf0", "\xf0\x9f", "\xf0\x9f\x98", "\x82", `\p`, `\u00`, `\u00e`, "\x01", `\"`, `\\"`, "😀", `\n`, `\u00e4`} {
			for behind := 0; behind < 40; behind += effort {
				checkGrammar(t, []byte(`["`+text[:n]+item+`"]`+strings.Repeat(" ", behind)))
				checkGrammar(t, []byte(`{"`+text[:n]+item+`":1}`+strings.Repeat(" ", behind)))
				checkGrammar(t, []byte(`{"`+text[:n]+item+text[:behind]+`": "`+text[:n]+item+text[:behind]+`"}`))
			}
		}
	}
}

// TestDepth around the multiples of the number of levels that fit into a word, and around MaxDepth.
func TestDepth(t *testing.T) {
	for _, way := range [][2]string{{"[", "]"}, {`{"a":`, "}"}, {"[ ", ",1]"}, {`[{"a":`, "}]"}} {
		for n := range 140 {
			for _, inner := range []string{"1", "[]", "[1]", `{"b":{"c":[]}}`, "1}", "[[[],{}]]]"} {
				b := []byte(strings.Repeat(way[0], n) + inner + strings.Repeat(way[1], n) + ",1")
				for _, depth := range []int{0, 1, 62, 63, 64, 65, MaxDepth - 130, MaxDepth - 65, MaxDepth - 64, MaxDepth - 63, MaxDepth - 1, MaxDepth} {
					s := slowChecker{data: b, maxDepth: MaxDepth}
					f := s.value(depth + 1)
					end := skipValue(b, 0, depth)
					if end >= 0 && (f != slowFine || end != s.pos) {
						t.Fatalf("%d of %s with %s in %d: %d, want %v at %d", n, way[0], inner, depth, end, f, s.pos)
					}
					if at, why := unbroken(end); end < 0 && (f == slowFine || at != s.pos || reasons[why] != slowReasons[f]) {
						t.Fatalf("%d of %s with %s in %d: %v at %d, want %v at %d", n, way[0], inner, depth, faultTexts[why], at, f, s.pos)
					}
				}
			}
		}
	}
}

// TestEachByteAtEachPlace of a container, in place of the byte there or in addition to it.
func TestEachByteAtEachPlace(t *testing.T) {
	text := `{"name":"a\\\"b","list":[1,-2.5e3,true,null,"",{},[],{"é日😀":[[],{"x":{}}]}],"é":false,"` + strings.Repeat("long ", 8) + `":{"a":{"b":{"c":[{"d":"\u00e4"}]}}},"last":"x"}`
	for n := 0; n < 64; n += 5 * effort {
		value := `["` + strings.Repeat("n", n) + `",` + text + "]"
		for at := range value {
			for c := range 256 {
				checkGrammar(t, []byte(value[:at]+string([]byte{byte(c)})+value[at+1:]))
			}
			for _, c := range []byte("{}[]\",:\\ 1") {
				checkGrammar(t, []byte(value[:at]+string([]byte{c})+value[at:]))
			}
		}
	}
}

// TestMutationsOfLists of a list of tools and of a text with white space.
func TestMutationsOfLists(t *testing.T) {
	pool := []byte("{}[]\",:\\ \n019.eE+-utfn\x00\x1f\x7f\x80\xc3\xa9\xed\xa0\xf4\x90abcdef")
	list := toolsList(3)
	pretty := bytes.ReplaceAll(bytes.ReplaceAll(list, []byte(`,`), []byte(" ,\n\t ")), []byte(`:`), []byte(" : "))
	r := rand.New(rand.NewPCG(3, 4))
	same := 0
	for n := range 50_000 / effort {
		b := bytes.Clone([][]byte{list, pretty}[n%2])
		for range r.IntN(4) {
			at := r.IntN(len(b))
			switch r.IntN(4) {
			case 0:
				b[at] = pool[r.IntN(len(pool))]
			case 1:
				b = append(b[:at], b[at+1:]...)
			case 2:
				b = append(b[:at], append([]byte{pool[r.IntN(len(pool))]}, b[at:]...)...)
			default:
				b = b[:at+1]
			}
		}
		checkGrammar(t, b)
		if Valid(b) {
			same++
		}
	}
	if same == 0 {
		t.Error("no text was well formed: the test proves little")
	}
}

// FuzzGrammar compares what is JSON with encoding/json, value by value.
func FuzzGrammar(f *testing.F) {
	for _, item := range uglyItems {
		for _, n := range []uint8{0, 7, 8, 15, 16, 17} {
			f.Add([]byte(item), n, true)
			f.Add([]byte(item+`],"a":[`+item+`,{"b":`+item+`}`), n, false)
		}
	}
	f.Add(toolsList(2), uint8(1), true)
	f.Fuzz(func(t *testing.T, in []byte, n uint8, closed bool) {
		b := append([]byte(`["`+strings.Repeat("x", int(n))+`",`), in...)
		if closed {
			b = append(b, ']')
		}
		checkGrammar(t, b)
		checkGrammar(t, append(b, `,"`+strings.Repeat("e", 100)+`"]`...))
		checkGrammar(t, in)
		deep := append([]byte(`{"k":{"k":{"`+strings.Repeat("x", int(n)%64)+`":1,`), in...)
		checkGrammar(t, append(deep, `,"e":"`+strings.Repeat("e", 100)+`"}}}`...))
	})
}
