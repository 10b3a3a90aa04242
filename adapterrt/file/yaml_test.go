package file

import (
	"errors"
	"fmt"
	"testing"
)

func TestScalarsAreYAML12(t *testing.T) {
	_, n, err := parseYAML([]byte("a: no\nb: on\nc: 2024-01-02\nd: 2024-01-02T03:04:05Z\ne: 010\nf: 1_000\ng: true\nh: 0x1F\ni: 0o17\nj: .5\nk: 1e3\nl: ~\nm: .inf\nn: '5'\no: +7\np: -0.50\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"a":"no","b":"on","c":"2024-01-02","d":"2024-01-02T03:04:05Z","e":10,"f":"1_000","g":true,"h":31,"i":15,"j":0.5,"k":1e3,"l":null,"m":".inf","n":"5","o":7,"p":-0.50}`
	if got := string(n.JSON(nil)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTheLineOfBadYAML(t *testing.T) {
	for front, want := range map[string]YAMLError{
		"":                            {2, "front matter is empty"},
		"# nothing\n":                 {2, "front matter is empty"},
		"a: b\nc: d\n e: f\n":         {4, "not valid YAML: mapping values are not allowed in this context"},
		"a: b\nc: [d\ne: f\n":         {2, "not valid YAML: did not find expected ',' or ']'"},
		"a: b\n- c\n":                 {2, "not valid YAML: did not find expected key"},
		"a: b\n---\nc: d\n":           {2, "front matter must be a single YAML document"},
		"a: b\nc: 1\nc: 2\n":          {4, `key "c" is given twice`},
		"a: !!int b\n":                {2, "value does not fit its tag !!int"},
		"a:\n  b: !x c\n":             {3, `tag "!x" is not supported`},
		"a: &x [*x]\n":                {2, "nested deeper than 64"},
		"a: b\n{c: d}: e\n":           {3, "map keys must be plain values"},
		"a: b\n<<: c\n":               {3, "a merge key needs a map"},
		"a: b\nc: \"\\x\"\n":          {3, "not valid YAML: did not find expected hexdecimal number"},
		"a: b\nc: d\ne: 'f\ng: h\n\n": {4, "not valid YAML: found unexpected end of stream"},
	} {
		_, _, err := parseYAML([]byte(front))
		var got *YAMLError
		if !errors.As(err, &got) {
			t.Errorf("%q: %v, want a *YAMLError", front, err)
		} else if *got != want {
			t.Errorf("%q: got %+v, want %+v", front, *got, want)
		}
	}
}

// TestKeysOfLargeMaps: a key is there once, however many there are, and a map's own keys win over merged ones.
func TestKeysOfLargeMaps(t *testing.T) {
	for _, count := range []int{1, fewKeys - 1, fewKeys, fewKeys + 1, 3 * fewKeys} {
		lines, merged, own := "", "x: &x\n", "m:\n"
		for i := range count {
			lines += fmt.Sprintf("k%d: 1\n", i)
			merged += fmt.Sprintf("  k%d: merged\n", i)
			own += fmt.Sprintf("  k%d: own\n", 2*i)
		}
		for _, again := range []int{0, count - 1} {
			_, _, err := parseYAML([]byte(lines + fmt.Sprintf("k%d: 2\n", again)))
			if want := fmt.Sprintf(`key "k%d" is given twice`, again); err == nil || err.Error() != want {
				t.Errorf("%d keys: %v, want %s", count, err, want)
			}
		}
		for _, front := range []string{merged + own + "  <<: *x\n", merged + "m:\n  <<: *x\n" + own[len("m:\n"):]} {
			_, root, err := parseYAML([]byte(front))
			if err != nil {
				t.Fatal(err)
			}
			m := root.get("m")
			if want := count + count/2; len(m.fields) != want {
				t.Errorf("%d keys and as many merged ones: %d, want %d", count, len(m.fields), want)
			}
			for i := range 2 * count {
				want := ""
				if i%2 == 0 {
					want = "own"
				} else if i < count {
					want = "merged"
				}
				if v := m.get(fmt.Sprintf("k%d", i)); want == "" && v != nil || want != "" && (v == nil || v.text != want) {
					t.Errorf("%d keys: k%d is %+v, want %q", count, i, v, want)
				}
			}
		}
	}
}
