package notion

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/transform/tree"
)

var update = flag.Bool("update", false, "rewrite the lower parts of the golden files")

// options returns the options for a section of a golden file, by its name.
func options(section string) Options {
	o := Defaults()
	switch section {
	case "json":
		o.Output = JSON
	case "skip":
		o.Unknown = "skip"
	case "signed":
		o.KeepSigned = true
	case "html":
		o.HTML = true
	case "full":
		o.Escape = "full"
	}
	return o
}

var section = regexp.MustCompile(`(?m)^-- (markdown|json|skip|signed|html|full) --\n`)

// TestGolden has a file for each kind of block, rich text and input: the input
// as the API sends it, and the output. "unchanged" marks input that Convert
// does not convert.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/golden/*.golden")
	if err != nil || len(files) == 0 {
		t.Fatal(err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".golden"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			at := section.FindAllSubmatchIndex(data, -1)
			in := data[:at[0][0]]
			written := bytes.Clone(in)
			for i, m := range at {
				end := len(data)
				if i+1 < len(at) {
					end = at[i+1][0]
				}
				name := string(data[m[2]:m[3]])
				got, ok, err := Convert([]byte("before"), in, options(name))
				if err != nil {
					t.Fatal(err)
				}
				got = bytes.TrimPrefix(got, []byte("before"))
				if name == "json" && !json.Valid(got) {
					t.Errorf("not JSON: %s", got)
				}
				if !ok {
					got = []byte("unchanged")
				}
				got = append(got, '\n')
				written = append(append(written, data[m[0]:m[1]]...), got...)
				if want := data[m[1]:end]; !*update && !bytes.Equal(got, want) {
					t.Errorf("%s\n got\n%s\n want\n%s", name, got, want)
				}
			}
			if *update {
				if err := os.WriteFile(file, written, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func convert(t *testing.T, in string, o Options) string {
	t.Helper()
	out, ok, err := Convert(nil, []byte(in), o)
	if err != nil || !ok {
		t.Fatalf("%.200s: ok %t, %v", in, ok, err)
	}
	return string(out)
}

func TestWhatIsNotJSONIsAnError(t *testing.T) {
	if out, ok, err := Convert([]byte("x"), []byte(`{"object":"block"`), Defaults()); ok || !errors.Is(err, tree.ErrSyntax) || string(out) != "x" {
		t.Errorf("%s, %t, %v", out, ok, err)
	}
}

func TestRecognizedByTheObjectsKind(t *testing.T) {
	for in, want := range map[string]bool{
		`{"object":"block","type":"divider","divider":{}}`:                                    true,
		`[{"object":"block","type":"divider","divider":{}}]`:                                  true,
		`{"object":"list","results":[{"object":"page","properties":{}}]}`:                     true,
		`{"object":"page","properties":{}}`:                                                   true,
		`{"object":"list","results":[]}`:                                                      false,
		`{"object":"list","data":[{"object":"model"}]}`:                                       false,
		`[{"type":"divider","divider":{}}]`:                                                   false,
		`{"type":"paragraph","paragraph":{"rich_text":[]}}`:                                   false,
		`{"object":"user","id":"1"}`:                                                          false,
		`"text"`:                                                                              false,
		`{"results":[{"a":1},{"object":"block"}],"children":{"results":[1]},"object":"list"}`: false,
	} {
		v, err := tree.Parse([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := Recognize(v); got != want {
			t.Errorf("%s: %t", in, got)
		}
	}
}

// TestHostileInputStaysSmall checks that a few bytes of input cannot cause much
// output.
func TestHostileInputStaysSmall(t *testing.T) {
	rows := strings.Repeat(`{"type":"table_row","table_row":{"cells":[]}},`, 10_000)
	cells := strings.Repeat(`[],`, 10_000)
	wide := `{"type":"table","table":{"table_width":1000000000,"children":[` + rows + `{"type":"table_row","table_row":{"cells":[` + cells + `[]]}}]}}`
	deep := strings.Repeat(`{"type":"quote","quote":{"children":[`, 120) +
		`{"type":"code","code":{"rich_text":"` + strings.Repeat(`\n`, 10_000) + `"}}` + strings.Repeat(`]}}`, 120)
	hashes := `{"type":"heading_1","heading_1":{"rich_text":"` + strings.Repeat(" #", 100_000) + strings.Repeat("#", 100_000) + `"}}`
	pieces := `{"type":"paragraph","paragraph":{"rich_text":[` + strings.Repeat(`{"plain_text":"*"},`, 100_000) + `""]}}`
	for name, in := range map[string]string{"wide table": wide, "deep quotes": deep, "hashes": hashes, "pieces": pieces} {
		if out := convert(t, in, Defaults()); len(out) > 40*len(in) {
			t.Errorf("%s: %d bytes became %d", name, len(in), len(out))
		}
	}
}

// openFence reports whether a fenced block in markdown has no end. It ignores
// indents, list marks and quote marks at the start of lines.
func openFence(markdown string) bool {
	fence := ""
	for line := range strings.Lines(markdown) {
		line = strings.TrimLeft(strings.TrimRight(line, "\n"), "> \t-0123456789.[]x")
		mark := line[:len(line)-len(strings.TrimLeft(line, "`"))]
		if mark == "" {
			mark = line[:len(line)-len(strings.TrimLeft(line, "~"))]
		}
		rest := line[len(mark):]
		switch {
		case fence == "" && len(mark) >= 3 && !(mark[0] == '`' && strings.Contains(rest, "`")):
			fence = mark
		case fence != "" && strings.HasPrefix(mark, fence) && strings.TrimSpace(rest) == "":
			fence = ""
		}
	}
	return fence != ""
}

// FuzzConvert checks that no input causes a panic, a broken rune or a fence
// that is not closed, and that the other output is valid JSON of the same root
// kind.
func FuzzConvert(f *testing.F) {
	files, _ := filepath.Glob("testdata/golden/*.golden")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:section.FindIndex(data)[0]])
	}
	for _, s := range []string{
		`{"type":"paragraph","paragraph":{"rich_text":"~~~\r` + "```" + `\r\n    x"}}`,
		`{"type":"code","code":{"rich_text":"` + "\\n```\\r````" + `","language":"` + "```" + `\n"}}`,
		`{"type":"equation","equation":{"expression":"` + "\\r```" + `"}}`,
		`[{"type":"quote","quote":{"children":[{"type":"code","code":{"rich_text":"a\nb"}}]}}]`,
		`{"type":"paragraph","paragraph":{"rich_text":[{"plain_text":"\ud800"},{"plain_text":"` + "``` x" + `","annotations":{"code":true}}]}}`,
		`{"type":"table_row","table_row":{"cells":[["a\nb|"],7,null]}}`,
		`{"object":"page","properties":{"a":{"type":"rollup","rollup":{"type":"array","array":[{"type":"rollup","rollup":1}]}}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		o := Defaults()
		o.MaxNesting = 3
		out, ok, err := Convert(nil, in, o)
		if err != nil {
			return
		}
		if !utf8.Valid(out) {
			t.Errorf("%q: broken text %q", in, out)
		}
		if openFence(string(out)) {
			t.Errorf("%q: open fence in\n%s", in, out)
		}
		if len(out) > 1000+60*len(in) {
			t.Errorf("%d bytes became %d", len(in), len(out))
		}
		o.Output = JSON
		simple, same, err := Convert(nil, in, o)
		if err != nil || same != ok {
			t.Fatalf("%q: the outputs disagree: %v", in, err)
		}
		if ok && (!json.Valid(simple) || simple[0] != bytes.TrimSpace(in)[0]) {
			t.Errorf("%q became %q", in, simple)
		}
	})
}
