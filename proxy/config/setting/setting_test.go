package setting

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

type options struct {
	Name  string        `yaml:"name"`
	Count int           `yaml:"count"`
	Wait  time.Duration `yaml:"wait"`
	List  []string      `yaml:"list"`
	Inner struct {
		On    bool               `yaml:"on"`
		Names map[string]string  `yaml:"names"`
		Items []item             `yaml:"items"`
		Rates map[string]float64 `yaml:"rates"`
	} `yaml:"inner"`
	Extra *extra `yaml:"extra"`
}

type item struct {
	ID int `yaml:"id"`
}

// extra is on unless the file says off.
type extra struct {
	On   bool            `yaml:"on"`
	Size int             `yaml:"size"`
	Rest map[string]item `yaml:",inline"`
}

func (e *extra) UnmarshalYAML(n *yaml.Node) error {
	type plain extra
	p := plain{On: true, Size: 5}
	if err := n.Decode(&p); err != nil {
		return err
	}
	*e = extra(p)
	return nil
}

func read(text string, environ ...string) (options, error) {
	var o options
	l := Over(&o, map[string]string{"inner.old": "write inner.on"})
	l.File("f.yaml", []byte(text))
	l.Env("APP_", environ, []string{"APP_FILE"})
	return o, l.Err()
}

func TestLayers(t *testing.T) {
	o, err := read("name: off\ncount: 3\nwait: 5s\ninner: {on: true, names: {a: b}, items: [{id: 1}, {id: 2}]}\nextra: {size: 6, other: {id: 9}}\n",
		"APP_COUNT=4", "APP_LIST=a, b,,c", "APP_INNER_NAMES={a: c, d: e}", "APP_EXTRA_SIZE=7", "APP_FILE=x", "APP_INNER_ON=", "APP_NAME=")
	if err != nil {
		t.Fatal(err)
	}
	if o.Name != "" || o.Count != 4 || o.Wait != 5*time.Second || strings.Join(o.List, "|") != "a|b|c" || !o.Inner.On ||
		o.Inner.Names["a"] != "c" || o.Inner.Names["d"] != "e" || len(o.Inner.Items) != 2 || o.Inner.Items[1].ID != 2 {
		t.Errorf("%+v", o)
	}
	if e := o.Extra; e == nil || !e.On || e.Size != 7 || e.Rest["other"].ID != 9 {
		t.Errorf("%+v", e)
	}
	if o, err := read("", "APP_COUNT=1"); err != nil || o.Extra != nil {
		t.Errorf("a section that nothing sets exists: %+v, %v", o.Extra, err)
	}
	if o, err := read("extra: {on: true}", "APP_EXTRA=null"); err != nil || o.Extra != nil {
		t.Errorf("%+v, %v", o.Extra, err)
	}
}

func TestMistakesInLayers(t *testing.T) {
	for text, want := range map[string]string{
		"naem: x":                           "f.yaml:1: naem: unknown setting; did you mean name?",
		"\ninner: {itmes: []}":              "f.yaml:2: inner.itmes: unknown setting; did you mean inner.items?",
		"inner: {items: [{id: 1}, {i: 2}]}": "f.yaml:1: inner.items[1].i: unknown setting",
		"inner: {colour: red}":              "f.yaml:1: inner.colour: unknown setting; inner may have ",
		"inner: {rates: {a: x}}":            "f.yaml:1: inner.rates.a: expected a number",
		"wait: 7":                           "f.yaml:1: wait: expected a duration such as 10s, 5m or 1h30m; did you mean 7s?",
		"wait: [1]":                         "f.yaml:1: wait: expected a duration such as 10s, 5m or 1h30m",
		"count: 1.5":                        "f.yaml:1: count: expected a whole number",
		"name: {a: b}":                      "f.yaml:1: name: expected a text",
		"inner: 5":                          "f.yaml:1: inner: expected a mapping of keys to values; inner may have ",
		"extra: 5":                          "f.yaml:1: extra: expected a mapping of keys to values",
		"extra: {size: x}":                  "f.yaml:1: extra.size: expected a whole number",
		"list: &x [*x]":                     "f.yaml:1: list[0]: expected a text",
		"\tname: x":                         "f.yaml: not YAML",
	} {
		if _, err := read(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for entry, want := range map[string]string{
		"APP_CUONT=1":           "APP_CUONT: no setting has this variable; did you mean APP_COUNT?",
		"APP_EXTRA_SIZ=1":       "APP_EXTRA_SIZ: no setting has this variable; did you mean APP_EXTRA_SIZE?",
		"APP_TOKE=1":            "APP_TOKE: no setting has this variable",
		"APP_COUNT=x":           "APP_COUNT: count: expected a whole number",
		"APP_WAIT=10":           "APP_WAIT: wait: expected a duration such as 10s, 5m or 1h30m; did you mean 10s?",
		"APP_INNER_NAMES=a: [b": "APP_INNER_NAMES: inner.names: expected a mapping of keys to values",
		"APP_LIST=[a":           "APP_LIST: list: expected a list of texts such as [a, b]",
	} {
		if _, err := read("", entry); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %q", entry, err, want)
		}
	}
}

// TestAliasesAreBounded: a text whose aliases stand for very many values is refused, and quickly.
func TestAliasesAreBounded(t *testing.T) {
	text := "inner:\n  names: &a0 {x: y}\n"
	for i := range 40 {
		text += fmt.Sprintf("  k%d: &a%d [*a%d, *a%d]\n", i, i+1, i, i)
	}
	if _, err := read(text); err == nil {
		t.Error("it was taken")
	}
	if _, err := read("", "APP_INNER_ITEMS=[&a [&b [&c [&d [*a, *a, *a], *b, *b], *c, *c], *d, *d], *a, *a, *a]"); err == nil {
		t.Error("it was taken")
	}
}

func TestSimilarSettingIsSuggested(t *testing.T) {
	all := []string{"limits.batch", "limits.header", "listen", "log.level"}
	for name, want := range map[string]string{
		"limits.bach": "limits.batch", "limits.bathc": "limits.batch", "listne": "listen", "lisen": "listen", "something": "", "": "", "log.levels": "log.level",
	} {
		if got := Nearest(name, all); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// FuzzLayers checks that for any file and variable there is a result or a mistake, and the
// same one each time.
func FuzzLayers(f *testing.F) {
	for _, s := range []string{"", "name: x", "a: &x [*x]", "inner: {items: [{id: 1}]}", "extra: {other: {id: 1}}", "? [a]\n: b", "<<: {name: x}", "wait: 1e3", "- a", "name: !!binary x", "extra: &a {<<: *a}", "{a: {b: {c: {d: 1}}}}"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		_, err := read(text, "APP_EXTRA="+value, "APP_INNER_ITEMS="+value)
		if _, again := read(text, "APP_EXTRA="+value, "APP_INNER_ITEMS="+value); (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
			t.Errorf("%v, then %v", err, again)
		}
	})
}
