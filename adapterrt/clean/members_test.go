package clean

import (
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func TestMembers(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1.50, "b":[null]}`: `{"a":1.50, "b":[null]}`,
		`"password"`:             `"password"`,
		`{"token":true,"password":null,"secret":""}`: `{"token":true,"password":null,"secret":""}`,
		`{"a": {"Password": ["x", 12, {"y": "z"}]}}`: `{"a":{"Password":["[redacted]","[redacted]",{"y":"[redacted]"}]}}`,
		`{"max_tokens":12,"token":12}`:               `{"max_tokens":12,"token":"[redacted]"}`,
		`{"name":"x-api-key","value":"v"}`:           `{"name":"x-api-key","value":"[redacted]"}`,
		`{"value":"v","field":"password"}`:           `{"value":"[redacted]","field":"password"}`,
		`{"name":"rotate_token","input":{"a":"b"}}`:  `{"name":"rotate_token","input":{"a":"b"}}`,
		`{"s":" [{\"token\":\"x\"}] "}`:              `{"s":"[{\"token\":\"[redacted]\"}]"}`,
		`{"s":" [{\"a\":\"x\"}] "}`:                  `{"s":" [{\"a\":\"x\"}] "}`,
		`{"next_cursor":"c","session_id":"s"}`:       `{"next_cursor":"c","session_id":"s"}`,
	} {
		got := string(Members([]byte(in)))
		if got != want || !wire.Valid([]byte(got)) {
			t.Errorf("%s\n got  %s\n want %s", in, got, want)
		}
		if again := string(Members([]byte(got))); again != got {
			t.Errorf("%s the second time: %s", got, again)
		}
	}
}
