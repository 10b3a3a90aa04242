package tree

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func parse(t *testing.T, src string) Value {
	t.Helper()
	v, err := Parse([]byte(src))
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return v
}

func TestKinds(t *testing.T) {
	for src, want := range map[string]wire.ValueKind{
		`null`: wire.Null, ` true `: wire.Boolean, `false`: wire.Boolean, `-1.50e+3`: wire.Number, `"a\"}"`: wire.String, `[ ]`: wire.Array, "{\n}": wire.Object,
	} {
		v := parse(t, src)
		if v.Kind() != want || string(v.Raw()) != strings.TrimSpace(src) {
			t.Errorf("%s is %v, %s", src, v.Kind(), v.Raw())
		}
	}
	if (Value{}).Kind() != wire.Absent || (Value{}).Raw() != nil || (Value{}).Text() != "" || (Value{}).Get("a").Present() {
		t.Error("a missing value is not empty")
	}
}

func TestPathsAreFollowed(t *testing.T) {
	v := parse(t, `{"a":{"\u0062":[1,{"c":"\ud83d\ude00\\"},[]]},"a.b":2,"n":null,"t":true,"a2":"x","d":1,"d":1.50}`)
	if got := v.Get("a", "b").Raw(); string(got) != `[1,{"c":"\ud83d\ude00\\"},[]]` {
		t.Errorf("a.b is %s", got)
	}
	var elements []string
	for e := range v.Get("a", "b").Elements() {
		elements = append(elements, string(e.Raw()))
	}
	if strings.Join(elements, " ") != `1 {"c":"\ud83d\ude00\\"} []` {
		t.Errorf("elements %q", elements)
	}
	var names []string
	for m := range v.All() {
		names = append(names, m.Key())
	}
	if strings.Join(names, " ") != "a a.b n t a2 d d" {
		t.Errorf("names %q", names)
	}
	for e := range v.Get("a", "b").Elements() {
		if e.Is(wire.Object) && e.Get("c").Text() != "😀\\" {
			t.Errorf("c is %q", e.Get("c").Text())
		}
	}
	switch {
	case v.Get("d").Scalar() != "1.50":
		t.Errorf("the last d is %s", v.Get("d").Scalar())
	case v.Get("n").Present() || !v.Get("n").Is(wire.Null):
		t.Error("null is present")
	case !v.Get("t").True() || v.Get("a2").True():
		t.Error("truth")
	case v.First("none", "n", "a2").Text() != "x":
		t.Error("the first that is there")
	case v.Get("a", "b", "c").Kind() != wire.Absent:
		t.Error("a member of an array")
	case !parse(t, `{"a":[]}`).Get("a").Empty() || v.Empty():
		t.Error("emptiness")
	}
}

func TestWhatIsNoValueIsRefused(t *testing.T) {
	deep := strings.Repeat("[", wire.MaxDepth+1) + strings.Repeat("]", wire.MaxDepth+1)
	for _, src := range []string{"", " ", "{", `{"a":1,}`, `[1 2]`, `"a`, "\"\xff\"", "1 2", deep, strings.Repeat("[", 200_000)} {
		if _, err := Parse([]byte(src)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%.20q: %v", src, err)
		}
	}
	parse(t, deep[1:len(deep)-1])
}

// FuzzParse checks that a value written anew from the tree equals the value
// that was parsed.
func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"a":[1,{"b":"\\\""}],"":null}`, `[[],{},"",-0.0,true]`, ` "\ud800" `, `{"a":1,"a":{"b":2}}`, `{"a" : "b" , "c":[ ] }`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		v, err := Parse(src)
		if err != nil {
			return
		}
		var want bytes.Buffer
		if err := json.Compact(&want, src); err != nil {
			t.Fatalf("%q was parsed: %v", src, err)
		}
		if got := write(nil, v); !bytes.Equal(got, want.Bytes()) {
			t.Errorf("%q became %q", src, got)
		}
	})
}

func write(dst []byte, v Value) []byte {
	var between string
	switch v.Kind() {
	case wire.Object:
		dst = append(dst, '{')
		for m := range v.All() {
			dst = append(append(dst, between...), '"')
			dst = append(append(dst, m.d.Name(m.i)...), `":`...)
			dst = write(dst, m)
			between = ","
		}
		return append(dst, '}')
	case wire.Array:
		dst = append(dst, '[')
		for e := range v.Elements() {
			dst = write(append(dst, between...), e)
			between = ","
		}
		return append(dst, ']')
	}
	return append(dst, v.Raw()...)
}
