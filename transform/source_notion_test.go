package transform

import (
	"errors"
	"strings"
	"testing"
)

func TestNotionSource(t *testing.T) {
	s := notionSource{}
	block := []byte(`{"object":"block","type":"heading_1","heading_1":{"rich_text":[{"plain_text":"T"}]}}`)
	for settings, want := range map[string]struct {
		set  map[string]any
		kind Kind
		out  string
	}{
		"defaults": {nil, Text, "# T"},
		"json":     {map[string]any{"output_format": "json"}, JSON, `{"type":"heading_1","text":"T"}`},
	} {
		v, err := ResolveOptions(s, want.set)
		if err != nil {
			t.Fatal(err)
		}
		out, kind, err := s.Apply([]byte("x"), block, v)
		if err != nil || kind != want.kind || string(out) != "x"+want.out {
			t.Errorf("%s: %s, %v, %v", settings, out, kind, err)
		}
		if _, _, err := s.Apply(nil, []byte(`{"error":"x"}`), v); !errors.Is(err, ErrUnchanged) {
			t.Errorf("%s: of another: %v", settings, err)
		}
	}
	for value, want := range map[string]bool{
		string(block): true, `{"a":"object"}`: false,
		`{"object":"list","results":[` + string(block) + `]}`:              true,
		`{"x":"` + strings.Repeat("x", 5000) + `","object":"block"}`:       false,
		`{"object":"list","data":[{"id":"gpt-4","object":"model"}],"a":1}`: false,
	} {
		if got := s.Match("", "", []byte(value)) > 0; got != want {
			t.Errorf("%.50s: match %t", value, got)
		}
	}
}

// TestOptionsOfSourcesAreChecked gives each option with a range a value outside of it.
func TestOptionsOfSourcesAreChecked(t *testing.T) {
	for _, c := range []struct {
		source Source
		option string
		value  any
	}{
		{notionSource{}, "output_format", "html"},
		{notionSource{}, "max_nesting", 0},
		{notionSource{}, "max_nesting", 51},
		{notionSource{}, "unknown", ""},
		{notionSource{}, "escape", "none"},
		{linearSource{}, "detail", "more"},
	} {
		_, err := ResolveOptions(c.source, map[string]any{c.option: c.value})
		if e, ok := errors.AsType[*OptionError](err); !ok || e.Option != c.option {
			t.Errorf("%s = %v: %v", c.option, c.value, err)
		}
	}
}
