package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestBeginningsOfAMessageAreBroken cuts a message at each byte, with and without a shape.
func TestBeginningsOfAMessageAreBroken(t *testing.T) {
	const text = ` { "jsonrpc" : "2.0" , "id" : 1 , "method" : "tools/call" , "params" : { "name" : "a" , "arguments" : { "b" : [ { "c" : null } , -1.5e3 , "\u00e9" ] , "d" : { } , "e" : [ ] } , "_meta" : { "x" : true } } }`
	for _, raw := range []string{text, strings.ReplaceAll(text, " ", "")} {
		for what, s := range map[string]*Shape{"nil": nil, "nothing": new(Shape), "all": deep} {
			var m Message
			for n := range len(raw) {
				if err := m.Scan([]byte(raw[:n]), s); err == nil || err.(*EnvelopeError).Code != ParseError {
					t.Errorf("%s: %s: %v", what, raw[:n], err)
				}
			}
			if err := m.Scan([]byte(raw), s); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
}

// TestRecordedValuesAreBoundedInDepth, also by a shape that has no end.
func TestRecordedValuesAreBoundedInDepth(t *testing.T) {
	endless := new(Shape)
	endless.Any, endless.Elem = endless, endless
	around := func(value string) []byte {
		return []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":` + value + `}}`)
	}
	const most = MaxDepth - 2 // within params and the envelope
	for _, c := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		nested := func(depth int) []byte {
			return around(strings.Repeat(c[0], depth-1) + c[0][:1] + c[1] + strings.Repeat(c[1], depth-1))
		}
		for what, s := range map[string]*Shape{"nil": nil, "endless": endless} {
			var m Message
			if err := m.Scan(nested(most), s); err != nil {
				t.Errorf("%s, %s: %v", c, what, err)
			}
			err := m.Scan(nested(most+1), s)
			if err == nil || err.(*EnvelopeError).Code != ParseError || !strings.Contains(err.Error(), faultTexts[faultDepth]) {
				t.Errorf("%s, %s: %v", c, what, err)
			}
		}
	}
}

// TestTooManyRecordedValues: a message cannot take more memory than its values may, and its sender is told.
func TestTooManyRecordedValues(t *testing.T) {
	list := new(Shape)
	list.At(ParsePath("params.content")...).Elem = new(Shape)
	raw := []byte(`{"jsonrpc":"2.0","id":7,"method":"m","params":{"content":[` + strings.Repeat("0,", maxNodes) + `0]}}`)
	m := Message{nodes: make([]node, 0, maxNodes)} // growing takes most of the time
	err := m.Scan(raw, list)
	if e, ok := err.(*EnvelopeError); !ok || e.Code != InvalidRequest || string(e.ID) != "7" || !strings.HasSuffix(e.Why, faultTexts[faultNodes]) {
		t.Error(err)
	}
	if err := m.Scan(raw, nil); err != nil {
		t.Errorf("without a shape: %v", err)
	}
}

// TestUnescapedAsEncodingJSONDoes compares texts with every escape, also broken pairs of surrogates.
func TestUnescapedAsEncodingJSONDoes(t *testing.T) {
	for _, text := range []string{
		`plain`, `\"\\\/\b\f\n\r\t`, `\u0041\u00e9\u65e5\uABCD\uabcd`, `\ud83d\ude42`, `\ud83d`, `\ude42`, `\ud83d\ud83d\ude42`, `\ud83dx`, `\ud83d\n`, `a\u0000b`, `é日本🙂\u0020`,
	} {
		var want string
		if err := json.Unmarshal([]byte(`"`+text+`"`), &want); err != nil {
			t.Fatal(text, err)
		}
		if got := string(AppendUnescaped([]byte("> "), []byte(text))); got != "> "+want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
