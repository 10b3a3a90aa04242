package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// mendings are responses with a null member, and what is left of them; "" for those that stay as they are, and are refused.
var mendings = [][2]string{
	{`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`, `{"jsonrpc":"2.0","id":1,"result":{}}`},
	{`{"jsonrpc":"2.0","id":1,"error":null,"result":{"a":[1]}}`, `{"jsonrpc":"2.0","id":1,"result":{"a":[1]}}`},
	{`{"error":null,"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`},
	{`{ "error" : null , "result":{} , "id":"x" , "jsonrpc" : "2.0" }`, `{"result":{},"id":"x","jsonrpc":"2.0"}`},
	{`{"\u0065rror":null,"result":7,"id":1,"jsonrpc":"2.0"}`, `{"result":7,"id":1,"jsonrpc":"2.0"}`},
	{`{"jsonrpc":"2.0","id":1,"result":null,"error":{"code":1,"message":"m"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`},
	{`{"result":null,"error":{"code":1,"message":"m"},"jsonrpc":"2.0","id":null}`, `{"error":{"code":1,"message":"m"},"jsonrpc":"2.0","id":null}`},
	{`{"jsonrpc":"2.0","id":1,"result":{"error":null}}`, ``},
	{`{"jsonrpc":"2.0","id":1,"result":null,"error":null}`, ``},
	{`{"jsonrpc":"2.0","id":1,"result":{},"error":{}}`, ``},
	{`{"jsonrpc":"2.0","id":1,"result":{},"error":null,"error":null}`, ``},
	{`{"jsonrpc":"2.0","id":1,"id":2,"result":{},"error":null}`, ``},
	{`{"jsonrpc":"2.0","id":1,"method":"m","result":{},"error":null}`, ``},
	{`{"jsonrpc":"1.0","id":1,"result":{},"error":null}`, ``},
	{`{"id":1,"result":{},"error":null}`, ``},
	{`{"jsonrpc":"2.0","id":1,"result":{},"error":null`, ``},
	{`{"jsonrpc":"2.0","result":{},"error":null,"id":1,}`, ``},
	{`{"error":null}`, ``}, {`{}`, ``}, {``, ``}, {`[]`, ``}, {`nothing`, ``},
}

func TestMend(t *testing.T) {
	for _, c := range mendings {
		raw := []byte(c[0])
		mended := Mend(raw)
		var compact bytes.Buffer
		switch {
		case mended != (c[1] != ""):
			t.Errorf("%s: %t", c[0], mended)
		case !mended && string(raw) != c[0]:
			t.Errorf("%s became %s", c[0], raw)
		case mended && (json.Compact(&compact, raw) != nil || compact.String() != c[1]):
			t.Errorf("%s became %s", c[0], raw)
		}
	}
}

func TestTrimMark(t *testing.T) {
	for _, text := range []string{"", "{}", " {}", "\xef\xbb{}", "\xef"} {
		if got, marked := TrimMark([]byte(text)); marked || string(got) != text {
			t.Errorf("%q: %q, %t", text, got, marked)
		}
		if got, marked := TrimMark([]byte(mark + text)); !marked || string(got) != text {
			t.Errorf("marked %q: %q, %t", text, got, marked)
		}
	}
}

// FuzzMend: a text that is mended is a message with one member less, and every other one stays as it is.
func FuzzMend(f *testing.F) {
	for _, c := range mendings {
		f.Add([]byte(c[0]))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		raw := bytes.Clone(in)
		var before, after map[string]json.RawMessage
		if !Mend(raw) {
			if !bytes.Equal(raw, in) {
				t.Errorf("%q became %q", in, raw)
			}
			return
		}
		var m Message
		if err := m.Scan(raw, nil); err != nil || !m.Kind.Response() {
			t.Fatalf("%q became %q: %v", in, raw, err)
		}
		if json.Unmarshal(in, &before) != nil || json.Unmarshal(raw, &after) != nil {
			return // a text that is only valid for one of the two parsers
		}
		name := "error"
		if m.Kind == Error {
			name = "result"
		}
		if string(before[name]) != "null" || len(raw) != len(in) {
			t.Errorf("%q became %q", in, raw)
		}
		delete(before, name)
		for name, value := range after {
			if !bytes.Equal(before[name], value) {
				t.Errorf("%s: %q became %q", name, in, raw)
			}
			delete(before, name)
		}
		for left := range before {
			if !strings.EqualFold(left, name) {
				t.Errorf("%q has lost %s", in, left)
			}
		}
	})
}
