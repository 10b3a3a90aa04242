package linear

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

	"github.com/rivo/uniseg"

	"github.com/dragoman-proxy/dragoman/transform/tree"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var update = flag.Bool("update", false, "rewrite the lower parts of the golden files")

var section = regexp.MustCompile(`(?m)^-- (minimal|standard|comments|all) --\n`)

func options(name string) Options {
	o := Defaults()
	if name == "standard" || name == "all" {
		o.Detail = "standard"
	}
	o.Comments = name == "comments" || name == "all"
	return o
}

// TestGolden has a file for each shape that issues come in. "unchanged" marks
// input that Convert does not convert.
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
				if ok && !json.Valid(got) {
					t.Errorf("not JSON: %s", got)
				}
				if again, _, err := Convert(nil, got, options(name)); ok && (err != nil || !bytes.Equal(again, got)) {
					t.Errorf("%s\n a summary %s\n comes to  %s, %v", name, got, again, err)
				}
				if !ok {
					got = []byte("unchanged")
				}
				got = append(got, '\n')
				written = append(append(written, data[m[0]:m[1]]...), got...)
				if want := data[m[1]:end]; !*update && !bytes.Equal(got, want) {
					t.Errorf("%s\n got  %s want %s", name, got, want)
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

func TestWhatIsNotJSONIsAnError(t *testing.T) {
	if out, ok, err := Convert([]byte("x"), []byte(`{"title":`), Defaults()); ok || !errors.Is(err, tree.ErrSyntax) || string(out) != "x" {
		t.Errorf("%s, %t, %v", out, ok, err)
	}
}

func TestRecognizedByTitleAndIdentifier(t *testing.T) {
	for in, want := range map[string]bool{
		`{"identifier":"ENG-1","title":"x"}`:                                        true,
		`{"id":"E2E-12","title":"x"}`:                                               true,
		`{"data":{"issues":{"edges":[{"node":{"identifier":"A-1","title":"x"}}]}}}`: true,
		`[{"identifier":"ENG-1","title":"x"}]`:                                      true,
		`{"identifier":"ENG-1"}`:                                                    false,
		`{"identifier":"eng-1","title":"x","state":{}}`:                             false,
		`{"id":"9cfb482a-81e3","title":"x","state":"open"}`:                         false,
		`{"issues":[]}`:                false,
		`{"title":"UTF-8","name":"x"}`: false,
		`7`:                            false,
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

func TestShortenedTextsKeepWholeCharacters(t *testing.T) {
	family := "👨‍👩‍👧‍👦"
	for _, text := range []string{
		strings.Repeat(family, 200), strings.Repeat("é", 400), strings.Repeat("x", 301), strings.Repeat("🇩🇪", 300),
		"x" + strings.Repeat("\u0301", 1000), strings.Repeat("ก็", 500),
	} {
		v, err := tree.Parse(wire.AppendQuoted(nil, text))
		if err != nil {
			t.Fatal(err)
		}
		for _, where := range []cut{end, middle} {
			var s summarizer
			s.shortened(v, maxDescription, where)
			var short string
			if err := json.Unmarshal(s.out, &short); err != nil {
				t.Fatal(err)
			}
			if n := utf8.RuneCountInString(short); n > maxDescription {
				t.Errorf("%d code points are left", n)
			}
			head, tail, ok := strings.Cut(short, marker)
			if !ok || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
				t.Errorf("%q is not what it was", short)
			}
			if whole := uniseg.GraphemeClusterCount(head) + uniseg.GraphemeClusterCount(text[len(head):]); whole != uniseg.GraphemeClusterCount(text) {
				t.Errorf("%.20q: the head ends within a character", text)
			}
		}
	}
}

// FuzzConvert checks that Convert does not panic, and that a summary is valid
// JSON of the same root kind, which Convert accepts again.
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
		`{"id":"A-1","id":"A-2","title":"\ud800","priority":-0.0,"comments":{"nodes":7}}`,
		`{"issues":{"edges":[null,{"node":null},{"node":{"id":"A-1"}}]},"issues":[]}`,
		`{"data":{"data":{"data":{"data":{"data":{"data":{"identifier":"A-1"}}}}}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, o := range []Options{options("minimal"), options("all")} {
			out, ok, err := Convert(nil, in, o)
			if err != nil || !ok {
				return
			}
			if !json.Valid(out) || out[0] != bytes.TrimSpace(in)[0] {
				t.Fatalf("%q became %q", in, out)
			}
			if _, _, err := Convert(nil, out, o); err != nil {
				t.Errorf("%q became %q: %v", in, out, err)
			}
		}
	})
}
