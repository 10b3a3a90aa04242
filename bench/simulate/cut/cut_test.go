package cut

import (
	"encoding/json"
	"maps"
	"testing"
)

// TestMembers compares with encoding/json.
func TestMembers(t *testing.T) {
	for _, text := range []string{
		`{}`, ` { } `, `{"a":"\\\"","b":"\"\\\\"}`, `{"a":"\\\\\"","b":""}`, `{"a":"\\\"`, `{"a":1}`, ` {"a" : 1 , "b":"x" }`, `{"a":"\\","b":"\"}","c":[{"d":"]"},2]}`, `{"a":null,"b":{"a":true},"c":-1.5e3}`, `{"":""}`, `[1]`, ``, `{`, `{"a`, `{"a"`, `{"a":`, `{"a":"`, `{"a":"\`, `{"a":[1`,
	} {
		var want map[string]json.RawMessage
		valid := json.Unmarshal([]byte(text), &want) == nil
		got := map[string]json.RawMessage{}
		for name, value := range Members([]byte(text)) {
			got[string(name)] = value
		}
		if valid && !maps.EqualFunc(got, want, func(a, b json.RawMessage) bool { return string(a) == string(b) }) || !valid && len(got) > 0 {
			t.Errorf("%s has %s, want %s", text, got, want)
		}
	}
}
