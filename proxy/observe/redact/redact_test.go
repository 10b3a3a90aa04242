package redact

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// configured is a secret of the configuration in these tests.
const configured = `c0nfigured/s"cret+1`

func redactor(t testing.TB, o Options) *Redactor {
	t.Helper()
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPayloads(t *testing.T) {
	r := redactor(t, Options{
		Secrets: secret.Known{Configured: secret.NewSet(configured, "Bearer abcdef-of-a-header", "short")},
		Paths:   map[string][]string{"*": {"ssn"}, "users": {"address.street", `a\.b`, "*.inner"}},
	})
	h := func(s string) string { return "[handle " + r.Handle(s) + "]" }
	for _, c := range []struct{ claim, method, in, want string }{
		{"nothing to hide stays", "tools/call", `{"a":[1.50,-0,true,null,"x"],"b":{}}`, `{"a":[1.50,-0,true,null,"x"],"b":{}}`},
		{"white space between values goes", "tools/call", "{ \"a\" :\n[ 1 , 2 ] }", `{"a":[1,2]}`},
		{"strings keep their escapes", "tools/call", `{"a":"\u00e9\/\ud83d\ude00"}`, `{"a":"\u00e9\/\ud83d\ude00"}`},
		{"a telling name", "tools/call", `{"password":"hunter","Api-Key":"k","user":"u"}`, `{"password":"[redacted]","Api-Key":"[redacted]","user":"u"}`},
		{"in any case, and escaped", "tools/call", `{"\u0050ASSWORD":"a","X_Access_Key":"b","clientSecret":"c"}`, `{"PASSWORD":"[redacted]","X_Access_Key":"[redacted]","clientSecret":"[redacted]"}`},
		{"a number", "tools/call", `{"token":123456}`, `{"token":"[redacted]"}`},
		{"all that is inside", "tools/call", `{"credentials":{"user":"u","list":["p",1],"on":true}}`, `{"credentials":{"user":"[redacted]","list":["[redacted]","[redacted]"],"on":true}}`},
		{"a name beside its value", "tools/call", `[{"name":"Authorization","value":"Basic x"},{"name":"a","value":"b"}]`, `[{"name":"Authorization","value":"[redacted]"},{"name":"a","value":"b"}]`},
		{"counts of tokens stay", "tools/call", `{"maxTokens":500,"tokens":1.5,"progressToken":7}`, `{"maxTokens":500,"tokens":1.5,"progressToken":7}`},
		{"lists of tokens do not", "tools/call", `{"tokens":["a"]}`, `{"tokens":["[redacted]"]}`},
		{"schemas stay", "tools/list", `{"inputSchema":{"properties":{"token":{"type":"string","default":"d","enum":["e"]}},"required":["token"]}}`,
			`{"inputSchema":{"properties":{"token":{"type":"string","default":"[redacted]","enum":["[redacted]"]}},"required":["token"]}}`},
		{"arguments are no schemas", "tools/call", `{"inputSchema":{"properties":{"token":"x"}}}`, `{"inputSchema":{"properties":{"token":"[redacted]"}}}`},
		{"the configuration's secret", "tools/call", `{"a":"x c0nfigured/s\"cret+1 y"}`, `{"a":"x [redacted] y"}`},
		{"escaped by the sender", "tools/call", `{"a":"\u00630nfigured\/s\"cret+1"}`, `{"a":"[redacted]"}`},
		{"in a name", "tools/call", `{"c0nfigured/s\"cret+1":1}`, `{"[redacted]":1}`},
		{"in a query", "resources/read", `{"uri":"x://h/p?q=c0nfigured%2Fs%22cret%2B1"}`, `{"uri":"x://h/p?q=[redacted]"}`},
		{"in base64", "resources/read", `{"a":"YzBuZmlndXJlZC9zImNyZXQrMQ=="}`, `{"a":"[redacted]"}`},
		{"within base64", "resources/read", `{"blob":"YSBjMG5maWd1cmVkL3MiY3JldCsxIGI="}`, `{"blob":"[redacted]"}`},
		{"a header's value without the scheme", "tools/call", `{"a":"it was abcdef-of-a-header"}`, `{"a":"it was [redacted]"}`},
		{"a secret that is a word is not looked for", "tools/call", `{"a":"short"}`, `{"a":"short"}`},
		{"JSON in text", "tools/call", `{"text":" {\"token\": \"a\", \"b\": [1, 2]}"}`, `{"text":"{\"token\":\"[redacted]\",\"b\":[1,2]}"}`},
		{"JSON in text without secrets stays as it is", "tools/call", `{"text":" {\"b\": [1, 2]}"}`, `{"text":" {\"b\": [1, 2]}"}`},
		{"JSON in JSON in text", "tools/call", `{"text":"[\"{\\\"password\\\":\\\"p\\\"}\"]"}`, `{"text":"[\"{\\\"password\\\":\\\"[redacted]\\\"}\"]"}`},
		{"JSON behind text", "tools/call", `{"text":"result: {\"password\":\"p 1\"}"}`, `{"text":"result: {\"password\":\"[redacted]\"}"}`},
		{"a listed path", "tools/call", `{"SSN":1,"ssn":true,"address":{"street":"s","city":"c"}}`, `{"SSN":"[redacted]","ssn":"[redacted]","address":{"street":"[redacted]","city":"c"}}`},
		{"through arrays", "tools/call", `{"address":[{"street":"s"}],"a.b":[1,{"c":null}]}`, `{"address":[{"street":"[redacted]"}],"a.b":["[redacted]",{"c":null}]}`},
		{"a star", "tools/call", `{"x":{"inner":1},"inner":2}`, `{"x":{"inner":"[redacted]"},"inner":2}`},
		{"a path into JSON in text", "tools/call", `{"text":"{\"address\":{\"street\":\"s\"}}"}`, `{"text":"{\"address\":{\"street\":\"[redacted]\"}}"}`},
		{"handles", "tools/call", `{"requestState":"state","cursor":"abc","sessionId":"s"}`, `{"requestState":"` + h("state") + `","cursor":"` + h("abc") + `","sessionId":"` + h("s") + `"}`},
		{"handles in text", "tools/call", `{"text":"Next: fetch_more {\"cursor\":\"abc\",\"from\":2}]"}`, `{"text":"Next: fetch_more {\"cursor\":\"` + h("abc") + `\",\"from\":2}]"}`},
		{"the mark of a short result", "tools/call", `{"_meta":{"dragoman/transform":{"mark":"abc"}},"mark":"m"}`, `{"_meta":{"dragoman/transform":{"mark":"` + h("abc") + `"}},"mark":"m"}`},
		{"a confirmation token", "tools/call", `{"confirmation":{"token":"conf_0123456789abcdef"},"_confirmation":"conf_0123456789abcdef","message":"use conf_0123456789abcdef"}`,
			`{"confirmation":{"token":"` + h("conf_0123456789abcdef") + `"},"_confirmation":"` + h("conf_0123456789abcdef") + `","message":"use ` + h("conf_0123456789abcdef") + `"}`},
		{"what is no JSON becomes text", "", `password=p1 {`, `"password=[redacted] {"`},
	} {
		got := string(r.Payload(c.method, "users", []byte(c.in)))
		if got != c.want {
			t.Errorf("%s:\n in   %s\n got  %s\n want %s", c.claim, c.in, got, c.want)
		}
		if again := string(r.Payload(c.method, "users", []byte(got))); again != got && wire.KindOf([]byte(c.want)) != wire.String {
			t.Errorf("%s: the second time\n got  %s\n want %s", c.claim, again, got)
		}
	}
	if got := string(r.Payload("tools/call", "other", []byte(`{"address":{"street":"s"}}`))); got != `{"address":{"street":"s"}}` {
		t.Errorf("the path of another tool: %s", got)
	}
}

func TestTexts(t *testing.T) {
	r := redactor(t, Options{Secrets: secret.Known{Configured: secret.NewSet(configured)}})
	for in, want := range map[string]string{
		"":                                             "",
		"a server on 127.0.0.1:3000 started":           "a server on 127.0.0.1:3000 started",
		"Authorization: Bearer abc def":                "Authorization: [redacted]",
		"cookie: a=b; c=d\nnext":                       "cookie: [redacted]\nnext",
		"sent Bearer abcdefgh, then":                   "sent Bearer [redacted], then",
		"Basic dXNlcjpwYXNz":                           "Basic [redacted]",
		"basic research":                               "basic research",
		"header 'Authorization: $TOKEN'":               "header 'Authorization: $TOKEN'",
		"curl -H Bearer $TOKEN":                        "curl -H Bearer $TOKEN",
		"https://user:pass@host/path":                  "https://[redacted]@host/path",
		"https://host/a@b":                             "https://host/a@b",
		"https://h/p?token=a1&x=2":                     "https://h/p?token=[redacted]&x=2",
		"https://h/p?x=1&sig=a%2B1":                    "https://h/p?x=1&sig=[redacted]",
		"h?next=%2Fcb%3Ftoken%3Dabc%26x%3D1":           "h?next=%2Fcb%3Ftoken%3D[redacted]%26x%3D1",
		"exit code=1":                                  "exit code=1",
		"API_KEY=abc run":                              "API_KEY=[redacted] run",
		"run --token abc --verbose":                    "run --token [redacted] --verbose",
		"password: hunter2":                            "password: [redacted]",
		"password: hunter\nnext":                       "password: [redacted]\nnext",
		"password: the password of the user":           "password: the password of the user",
		`{"password":"two words","a":1`:                `{"password":"[redacted]","a":1`,
		`{\"password\":\"two words\",\"a\"`:            `{\"password\":\"[redacted]\",\"a\"`,
		`password = 'open`:                             `password = '[redacted]`,
		"used tokens: 39,891":                          "used tokens: 39,891",
		"key sk-abcdefghij0123456789":                  "key [redacted]",
		"ghp_abcdefghij0123456789 is":                  "[redacted] is",
		"sk-learn-is-a-library":                        "sk-learn-is-a-library",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln x":  "[redacted] x",
		"--header 'Authorization: Bearer ${TOKEN}' or": "--header 'Authorization: Bearer ${TOKEN}' or",
		"Authorization: Bearer x${TOKEN}":              "Authorization: [redacted]",
		"invalid token: expired":                       "invalid token: expired",
		"the password: Wrong.":                         "the password: Wrong.",
		"token=expired":                                "token=[redacted]",
		"-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nnext": "[redacted]\nnext",
		`-----BEGIN PRIVATE KEY-----\nMII`:                                          "[redacted]",
		"-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----":               "-----BEGIN CERTIFICATE-----\nMII\n-----END CERTIFICATE-----",
		"it is " + configured + "!":                                                 "it is [redacted]!",
	} {
		if got := r.Text(in); got != want {
			t.Errorf("%q\n got  %q\n want %q", in, got, want)
		}
		if got := r.Text(want); got != want {
			t.Errorf("%q the second time became %q", want, got)
		}
	}
	if got := r.Text("a text of " + configured[:8] + "…"); got != "a text of [redacted]…" {
		t.Errorf("a secret at the cut: %q", got)
	}
}

func TestHeaders(t *testing.T) {
	r, none := redactor(t, Options{Secrets: secret.Known{Configured: secret.NewSet(configured)}}), redactor(t, Options{Payloads: None})
	for _, c := range []struct {
		name, value, want string
		shown             bool
	}{
		{"Content-Type", "application/json", "application/json", true},
		{"MCP-Protocol-Version", "2025-11-25", "2025-11-25", true},
		{"Mcp-Session-Id", "an id", r.Handle("an id"), true},
		{"Mcp-Param-Region", "eu", "eu", true},
		{"Mcp-Param-Api-Key", "k", Struck, true},
		{"Mcp-Param-Note", "=?base64?" + "YzBuZmlndXJlZC9zImNyZXQrMQ==" + "?=", Struck, true},
		{"Mcp-Param-Note", "=?base64?!?=", Struck, true},
		{"Mcp-Name", "x " + configured, "x [redacted]", true},
		{"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", true},
		{"Authorization", "Bearer x", "", false},
		{"Cookie", "a=b", "", false},
		{"X-Forwarded-For", "10.0.0.1", "", false},
	} {
		if got, ok := r.Header(c.name, c.value); got != c.want || ok != c.shown {
			t.Errorf("%s: %s is %q, %v", c.name, c.value, got, ok)
		}
	}
	if got, _ := none.Header("Mcp-Param-Region", "eu"); got != "[string, 2 bytes]" {
		t.Errorf("without payloads, a parameter is %q", got)
	}
}

// TestFingerprintsCanBeComparedAndNotUsed: the page, log lines and spans show one fingerprint for one session.
func TestFingerprintsCanBeComparedAndNotUsed(t *testing.T) {
	r := redactor(t, Options{})
	if got := r.Handle("an id"); len(got) != 16 || got != r.Handle("an id") || got == r.Handle("an iD") || r.Handle("") != "" {
		t.Errorf("fingerprint %q", got)
	}
}

func TestWithoutPayloadsOnlyNamesTypesAndSizesAreShown(t *testing.T) {
	r := redactor(t, Options{Payloads: None, Secrets: secret.Known{Configured: secret.NewSet(configured)}})
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{"a":"xyz","b":[1,true,null]}}}`: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"t","arguments":{"a":"[string, 3 bytes]","b":["[number]","[boolean]",null]}}}`,
		`{"id":"c0nfigured/s\"cret+1","error":{"code":-32603,"message":"m"}}`:                                            `{"id":"[redacted]","error":{"code":-32603,"message":"[string, 1 bytes]"}}`,
		`{"result":[` + strings.Repeat("1,", 30) + `1]}`:                                                                 `{"result":[` + strings.Repeat(`"[number]",`, 20) + `"[11 more]"]}`,
		`"x"`: `"[string, 1 bytes]"`,
		`x`:   `"[text, 1 bytes]"`,
	} {
		if got := string(r.Payload("tools/call", "t", []byte(in))); got != want {
			t.Errorf("%s\n got  %s\n want %s", in, got, want)
		}
	}
	if got := r.Cut("", "", []byte("abc")); got != "[text, 3 bytes]" {
		t.Errorf("a cut text is %q", got)
	}
}

func TestPathsThatCannotBeUsedAreRefused(t *testing.T) {
	for _, path := range []string{"", "a..b", ".", "a.", strings.Repeat("a.", 40) + "a"} {
		_, err := New(Options{Paths: map[string][]string{"t": {path}}})
		if err == nil || !strings.HasPrefix(err.Error(), fmt.Sprintf(`path %q of tool "t": `, path)) {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// TestDeepAndLargePayloadsAreBounded: what cannot be read as JSON is shown as text or as its size.
func TestDeepAndLargePayloadsAreBounded(t *testing.T) {
	r := redactor(t, Options{})
	deep := strings.Repeat("[", wire.MaxDepth+1) + `{"token":"a1b2c3"}` + strings.Repeat("]", wire.MaxDepth+1)
	for name, in := range map[string]string{
		"deep": deep, "deep in text": string(wire.AppendQuoted(nil, deep)), "large": strings.Repeat(" ", MaxPayload) + "1",
	} {
		if got := r.Payload("tools/call", "", []byte(in)); !wire.Valid(got) || strings.Contains(string(got), "a1b2c3") {
			t.Errorf("%s: %.200s", name, got)
		}
	}
	text := `{"token":"a1b2c3"}`
	for range maxEmbedded + 2 {
		text = `{"a":` + string(wire.AppendQuoted(nil, text)) + `}`
	}
	if got := r.Payload("tools/call", "", []byte(text)); !wire.Valid(got) || strings.Contains(string(got), "a1b2c3") || !strings.Contains(string(got), Struck) {
		t.Errorf("JSON in JSON: %s", got)
	}
}

func TestWhatWasRedactedBeforeStaysAsItIs(t *testing.T) {
	r := AsIs()
	header, shown := r.Header("Mcp-Session-Id", "9f21c0d2aabbccdd")
	for got, want := range map[string]string{
		string(r.Payload("tools/call", "", []byte(` {"token":"a"} `))): `{"token":"a"}`,
		string(r.Payload("", "", []byte(`token=a`))):                   `"token=a"`,
		r.Text("token=a"): "token=a", r.Cut("", "", []byte("token=b")): "token=b", r.Handle("h"): "h", header: "9f21c0d2aabbccdd",
	} {
		if got != want || !shown {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
