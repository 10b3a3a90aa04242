package secret

import (
	"strings"
	"testing"
)

// TestGuess strikes out what only its name or form tells, in each format that a text may have.
func TestGuess(t *testing.T) {
	for in, want := range map[string]string{
		// JSON, also in text and cut
		`{"password": "hunter", "a": 1}`:                                     `{"password": "[redacted]", "a": 1}`,
		`no: {"api_key":"k 1","n":[1]} here`:                                 `no: {"api_key":"[redacted]","n":[1]} here`,
		`{"credentials": {"user": "joe", "pin": "12}4"}, "a": "b"}`:          `{"credentials": "[redacted]", "a": "b"}`,
		`{"tokens":["abc","d]ef"],"a":1}`:                                    `{"tokens":"[redacted]","a":1}`,
		`{"a":1,"secrets":[{"k":"v"},{"k":"w`:                                `{"a":1,"secrets":"[redacted]"`,
		`{\"credentials\":{\"pin\":\"12\"},\"a\":1}`:                         `{\"credentials\":"[redacted]",\"a\":1}`,
		`{"password":12345678}`:                                              `{"password":[redacted]}`,
		`{"password":"unterminated`:                                          `{"password":"[redacted]`,
		`{'secret': 'two words', 'b': 1}`:                                    `{'secret': '[redacted]', 'b': 1}`,
		`{"errors":{"password":["is too short (minimum is 8 characters)"]}}`: `{"errors":{"password":["is too short (minimum is 8 characters)"]}}`,
		`{"password":["This field may not be blank."]}`:                      `{"password":["This field may not be blank."]}`,
		`{"password":["'hunter2' is too short"]}`:                            `{"password":"[redacted]"}`,
		`{"password":"secret token"}`:                                        `{"password":"[redacted]"}`,
		`{"password":"password"}`:                                            `{"password":"[redacted]"}`,
		`{"total_tokens":12,"tokens":[1,2]}`:                                 `{"total_tokens":12,"tokens":[1,2]}`,
		// forms
		`password=hunter2&x=1`:                    `password=[redacted]&x=1`,
		`user[password]=a,b;c)&x=1`:               `user[password]=[redacted]&x=1`,
		`user%5Bapi_key%5D=ab&x=1`:                `user%5Bapi_key%5D=[redacted]&x=1`,
		`x=1&client_secret=p%C3%A4+q,r`:           `x=1&client_secret=[redacted]`,
		`page=2&page_size=10`:                     `page=2&page_size=10`,
		`https://h/p?sig=ab&page=1`:               `https://h/p?sig=[redacted]&page=1`,
		`key=abcdefgh12345678`:                    `key=[redacted]`,
		`key=id`:                                  `key=id`,
		"key=" + strings.Repeat("a1", 300) + " b": "key=[redacted] b",
		// YAML
		"user: joe\npassword: correct horse battery\nx: y":           "user: joe\npassword: [redacted]\nx: y",
		"db:\n  password: swordfish # old\n  host: h":                "db:\n  password: [redacted]\n  host: h",
		"a: b\napi_key: |\n  line one\n  line two\nc: d":             "a: b\napi_key: |\n  [redacted]\nc: d",
		"a: b\ncredentials:\n  user: joe\n  pin: 1234\nc: d":         "a: b\ncredentials:\n  [redacted]\nc: d",
		"a: b\ntokens:\n- abc\n- def\nc: d":                          "a: b\ntokens:\n[redacted]\nc: d",
		"- name: x\n- secret: two words\n  y: 1":                     "- name: x\n- secret: [redacted]\n  y: 1",
		"errors:\n  password:\n    - is too short\n    - is invalid": "errors:\n  password:\n    - is too short\n    - is invalid",
		"a: b\npassword: [redacted]\nc: d":                           "a: b\npassword: [redacted]\nc: d",
		// XML and prose
		"<Password>two words</Password><A>b</A>": "<Password>[redacted]</Password><A>b</A>",
		"<token/><a>b</a>":                       "<token/><a>b</a>",
		"Unexpected token: { in JSON":            "Unexpected token: { in JSON",
		"unexpected token: function":             "unexpected token: function",
		"token: expired":                         "token: expired",
		"authorization: denied":                  "authorization: denied",
		"password: hunter":                       "password: [redacted]",
		"--header Authorization: environment variable X_TOKEN is not set: do": "--header Authorization: environment variable X_TOKEN is not set: do",
		"Authorization: environment variable sk-1 is not set":                 "Authorization: [redacted]",
		"Authorization: environment variable X is abcdefgh":                   "Authorization: [redacted]",
		"a token is required, in Authorization as Bearer or in X-A":           "a token is required, in Authorization as Bearer or in X-A",
		"cursor: abc, session_id=1":                                           "cursor: abc, session_id=1",
		"see conf_0123456789abcdef":                                           "see conf_0123456789abcdef",
	} {
		if got := Guess(in, nil); got != want {
			t.Errorf("%q\n got  %q\n want %q", in, got, want)
		}
		if got := Guess(want, nil); got != want {
			t.Errorf("%q the second time became %q", want, got)
		}
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]Class{
		"password": Hidden, "Api-Key": Hidden, "X_API_KEY": Hidden, "api key": Hidden, "clientSecret": Hidden, "access_token": Hidden, "pwd": Hidden,
		"Set-Cookie": Hidden, "aws.secret.access.key": Hidden, "passphrase": Hidden, "DATABASE_CONNECTION_STRING": Hidden,
		"name": Plain, "key": Plain, "tokenizer": Plain, "progressToken": Plain, "keyboard": Plain, "compass": Plain, "PWD": Plain, "": Plain,
		"nextCursor": Handle, "Mcp-Session-Id": Handle,
		strings.Repeat("x", 1000) + "token": Hidden,
	} {
		if got := ClassOf(name, ""); got != want {
			t.Errorf("%q is of class %d, want %d", name, got, want)
		}
	}
	if ClassOf("max_tokens", "4096") != Plain || ClassOf("token", "4096") != Hidden {
		t.Error("counts of tokens")
	}
}

func TestAdvice(t *testing.T) {
	for text, want := range map[string]bool{
		"is required": true, "can't be blank": true, "String should have at least 8 characters": true, "Required": true, "expired": true,
		"must contain at least one number": true, "Passwords do not match.": true, "is too short (minimum is 8 characters)": true,
		"": false, "12345678": false, "123": false, "password": false, "hunter2 is too short": false, "swordfish": false, "user name": false,
		"is 123456": false, "correct horse battery staple": false, strings.Repeat("is too short ", 20): false, "пароль is invalid": false,
	} {
		if got := IsAdvice(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
