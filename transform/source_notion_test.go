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
