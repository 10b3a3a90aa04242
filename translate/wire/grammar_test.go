package wire

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// lead begins an array that is long enough for blocks to be used behind it.
var lead = `["` + strings.Repeat("l", longContainer) + `",0`

// ways are the ways in which the processor may skip a container.
func ways() (names []string, use func(name string)) {
	names = []string{"bytes"}
	blocks, walk, walk512 := hasBlocks, hasWalk, hasWalk512
	if blocks {
		names = append(names, "blocks")
	}
	if walk {
		names = append(names, "walk")
	}
	if walk512 {
		names = append(names, "walk512")
	}
	return names, func(name string) {
		hasBlocks = blocks && name != "bytes"
		hasWalk = walk && name != "bytes" && name != "blocks"
		hasWalk512 = walk512 && (name == "walk512" || name == "")
	}
}

// checkBlocksAgree checks that a value is skipped to the same end, or has the same fault, in each way.
func checkBlocksAgree(t *testing.T, value []byte) {
	t.Helper()
	const before = `{"ä":`
	b := append([]byte(before), value...)
	names, use := ways()
	defer use("")
	var first int
	for i, name := range names {
		use(name)
		end := skipValue(b, len(before), 0)
		if i == 0 {
			first = end
		} else if end != first {
			t.Fatalf("%q: %d by %s, %d by %s", b, first, names[0], end, name)
		}
	}
}

func needBlocks(t testing.TB) {
	t.Helper()
	if !hasBlocks {
		t.Skip("this processor has no blocks")
	}
}

// blocksSkip reports whether blocks alone skip the rest of a container, which begins with lead.
func blocksSkip(b string) bool {
	return skipBlocks([]byte(b), len(lead), new([levelWords]uint64), 1, 0) == len(b)
}

// TestBlocksSkip what is well formed: if they left it to the caller, they would be of no use.
func TestBlocksSkip(t *testing.T) {
	needBlocks(t)
	long := strings.Repeat("long ", 500)
	for _, text := range []string{
		`]`, ` ]`, `,1]`, `,[]]`, `,{}]`, `,{"a":{"b":[1,"x",{"c":null}]},"d":[[],[[]],{}]}]`, `,"","\"","\\","\\\"",{"\"":"\u00e4\\"},"ä日😀","aжaא"]`,
		`,true,false,null,-1.5e+3,0,-0]`, " , [ 1 , { \"a\" : \"x\" ,\r\n\t\"b\" : [ ] } , { } ] \n ]",
		`,"` + long + `",{"` + long + `":["` + long + `"]}` + strings.Repeat(" ", 200) + `]`, `,"` + strings.Repeat("日本", 500) + `\n\u0041"]`,
		"," + strings.Repeat("[", stackLevels-1) + strings.Repeat("]", stackLevels-1) + "]",
	} {
		for n := range 130 {
			if b := lead + `,"` + strings.Repeat("x", n) + `"` + text; !blocksSkip(b) {
				t.Errorf("%.300q is left to the caller", b)
			}
		}
	}
}

// TestBlocksKnowTheGrammar with each sequence of tokens, in each kind of container, at the end of a block.
func TestBlocksKnowTheGrammar(t *testing.T) {
	needBlocks(t)
	tokens := []string{"{", "}", "[", "]", ":", ",", `"a"`, "1", "null", " ", "\n"}
	const most = 5
	var text []byte
	at := 0
	var add func(n int)
	add = func(n int) {
		checkBlocksAgree(t, text)
		if n == most {
			return
		}
		was := len(text)
		for _, token := range tokens {
			if at++; n == most-1 && at%effort != 0 {
				continue
			}
			text = append(text[:was], token...)
			add(n + 1)
		}
		text = text[:was]
	}
	for _, begin := range []string{",", `,{"k":1,`, `,{"k":`, `,{`, `,[[`} {
		for _, n := range []int{1, 64 - 4, 64 - 1} {
			text = append([]byte(lead), `,"`+strings.Repeat("x", n)+`"`+begin...)
			add(1)
		}
	}
}

// uglyItems are members and elements, many of them with faults.
var uglyItems = []string{
	`"\"`, `"\\"`, `"\\\"`, `"\u00e4"`, `"\u00g4"`, `"\u12"`, `"\x"`, `\"`, `"a\`, "\"\x01\"", "\"\t\"", "\x01", "\x1a", "\x0c", "\x02", "\x00", "\x7f", `"` + "\x7f" + `"`, "\v",
	"\"\xff\"", "\"\xc3\"", "\"\xe2\x82\"", "\"\xe2\x82\xac\"", "\"\xf0\x9f\x98\x80\"", "\"\xed\xa0\x80\"", "\"\xf0\x9f\x98\"", "ä", "\xef\xbb\xbf1", "\"\xc3\"a",
	"tru", "true", "truex", "nul", "-", "01", "1.", "1e", "1.5e+7", "-0", "1 2", "1\"a\"", `"a"1`, `"a""b"`, "1true", "{}1", "[]{}", "\u00a0",
	`{"a":1}`, `{"a":1,}`, `{,}`, `{"a"}`, `{"a",1}`, `{"a":1:2}`, `{1:2}`, `{{}:1}`, `{"a":{}:1}`, `{"a":1]`, `[1}`, `[1:2]`, `["a":1]`, `[,]`, `[1,]`, `{"a" : 1}`, `{"a":"b":1}`, `{"a":"b" "c":1}`, `{"\"":1}`,
	strings.Repeat("[", 70) + strings.Repeat("]", 70), strings.Repeat(`{"a":`, 64) + "1" + strings.Repeat("}", 64), strings.Repeat(`\`, 65), `"` + strings.Repeat(`\`, 130) + `"`, `"` + strings.Repeat(`\`, 129) + `"`,
	"[\"a\"\xdd\xac1", "\xdb\xac", "\"\"\xbf1", strings.Repeat("[", 70) + `{"a":[[1],2]}` + strings.Repeat("]", 70), strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70),
	"u0000", `"\0 0"`, `"\ttrue"`, `\u0000`, `\\u0000`,
	strings.Repeat(" ", 130), `"` + strings.Repeat("é", 100) + `"`, `"` + strings.Repeat("plain ", 60) + "\n\"", strings.Repeat("[", 600), "",
}

// TestBlocksAtEachBorder with each ugly item at each place of a block, also as the last bytes of a text.
func TestBlocksAtEachBorder(t *testing.T) {
	needBlocks(t)
	for _, item := range uglyItems {
		for n := 0; n < 140; n += effort {
			for _, way := range [][2]string{{",", "]"}, {`,{"k":`, `},1]`}, {`,{`, `:1}]`}, {`,{"k":{"k":{"k":1,`, `,"e":"` + strings.Repeat("e", 100) + `"}}}]`}, {`,{"k":{"k":{"k":1,"k":`, `,"e":"` + strings.Repeat("e", 100) + `"}}}]`}, {",", ""}, {", ", `,"` + strings.Repeat("e", 200) + `"]`}} {
				b := []byte(lead + `,"` + strings.Repeat("x", n) + `"` + way[0] + item + way[1])
				checkBlocksAgree(t, b)
				checkBlocksAgree(t, b[:len(b)-len(b)%3])
			}
		}
	}
}

// TestFaultsInPlainTextAgree with each fault at each place of the first blocks, behind which plain text is skipped.
func TestFaultsInPlainTextAgree(t *testing.T) {
	needBlocks(t)
	plain := strings.Repeat("n", 6*64) // which may also be escaped
	for _, item := range []string{"\xc3", "\xe2", "\xe2\x82", "\xf0", "\xf0\x9f", "\xf0\x9f\x98", "\x82", `\p`, `\u00`, `\u00e`, "\x01", `\"`, `\\"`, "😀", `\n`, `\u00e4`} {
		for n := range plain {
			checkBlocksAgree(t, []byte(lead+`,"`+plain[:n]+item+plain+`"]`))
		}
	}
}

// TestBlocksAgreeOnDepth around the number of levels that fit into one word, and around MaxDepth.
func TestBlocksAgreeOnDepth(t *testing.T) {
	needBlocks(t)
	const before = `{"ä":`
	inner := `["` + strings.Repeat("l", longContainer) + `",[],`
	names, use := ways()
	defer use("")
	for _, way := range [][2]string{{"[", "]"}, {`{"a":`, "}"}, {"[ ", ",1]"}} {
		for n := stackLevels - 3; n <= stackLevels+3; n++ {
			for _, end := range []string{"1]", "[]]", "[1]]", `{"b":{"c":[]}}]`, "1}"} {
				b := []byte(before + strings.Repeat(way[0], n) + inner + end + strings.Repeat(way[1], n) + "," + lead)
				for _, depth := range []int{0, 1, MaxDepth - 66, MaxDepth - 65, MaxDepth - 64, MaxDepth - 63, MaxDepth - 62, MaxDepth - 1, MaxDepth} {
					use(names[0])
					want := skipValue(b, len(before), depth)
					for _, name := range names[1:] {
						use(name)
						if got := skipValue(b, len(before), depth); got != want {
							t.Fatalf("%d of %s with %s in %d: %d by %s, %d by %s", n, way[0], end, depth, want, names[0], got, name)
						}
					}
				}
			}
		}
	}
}

// TestEachByteAtEachPlace of a container, in place of the byte there or in addition to it.
func TestEachByteAtEachPlace(t *testing.T) {
	needBlocks(t)
	text := `{"name":"a\\\"b","list":[1,-2.5e3,true,null,"",{},[],{"é日😀":[[],{"x":{}}]}],"é":false,"` + strings.Repeat("long ", 8) + `":{"a":{"b":{"c":[{"d":"\u00e4"}]}}},"last":"x"}`
	for n := 0; n < 64; n += 5 * effort {
		value := `["` + strings.Repeat("n", n) + `",` + text + "]"
		for at := range value {
			for c := range 256 {
				checkBlocksAgree(t, []byte(value[:at]+string([]byte{byte(c)})+value[at+1:]))
			}
			for _, c := range []byte("{}[]\",:\\ 1") {
				checkBlocksAgree(t, []byte(value[:at]+string([]byte{c})+value[at:]))
			}
		}
	}
}

// TestBlocksAgreeOnMutations of a list of tools and of a text with white space.
func TestBlocksAgreeOnMutations(t *testing.T) {
	needBlocks(t)
	pool := []byte("{}[]\",:\\ \n019.eE+-utfn\x00\x1f\x7f\x80\xc3\xa9\xed\xa0\xf4\x90abcdef")
	list := toolsList(3)
	pretty := bytes.ReplaceAll(bytes.ReplaceAll(list, []byte(`,`), []byte(" ,\n\t ")), []byte(`:`), []byte(" : "))
	r := rand.New(rand.NewPCG(3, 4))
	same := 0
	for n := range 100_000 / effort {
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
		checkBlocksAgree(t, b)
		if skipValue(b, 0, 0) == len(b) {
			same++
		}
	}
	if same == 0 {
		t.Error("no text was well formed: the test proves little")
	}
}

// FuzzBlocksAgree compares the check of a text by blocks with the one from token to token.
func FuzzBlocksAgree(f *testing.F) {
	needBlocks(f)
	for _, item := range uglyItems {
		for _, n := range []uint8{0, 59, 60, 61, 62, 63} {
			f.Add([]byte(item), n, true)
			f.Add([]byte(item+`],"a":[`+item+`,{"b":`+item+`}`), n, false)
		}
	}
	f.Add(toolsList(2), uint8(1), true)
	f.Fuzz(func(t *testing.T, in []byte, n uint8, closed bool) {
		b := append([]byte(lead), `,"`+strings.Repeat("x", int(n)%64)+`",`...)
		b = append(b, in...)
		if closed {
			b = append(b, ']')
		}
		checkBlocksAgree(t, b)
		checkBlocksAgree(t, append(b, `,"`+strings.Repeat("e", 100)+`"]`...))
		checkBlocksAgree(t, in)
		deep := append([]byte(`{"k":{"k":{"`+strings.Repeat("x", int(n)%64)+`":1,`), in...)
		checkBlocksAgree(t, append(deep, `,"e":"`+strings.Repeat("e", 100)+`"}}}`...))
	})
}
