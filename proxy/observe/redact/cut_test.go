package redact

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/adapterrt/secret/secrettest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// planted are messages with secrets: %s is the inside of a JSON string, and a number is one where its name says so.
var planted = []string{
	`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"%s"},{"type":"text","text":"before %s after"}],"structuredContent":{"%s":{"b":["%s"]}}}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"credentials":{"a":"zqzqzq-1234","pin":91919191},"password" : 92929292 , "rows":[{"token":93939393},{"secret":"zqzqzq-5678"}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"{\"credentials\":{\"pin\":94949494,\"a\":\"zqzqzq-9012\"}}"}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"blob":"` + base64.StdEncoding.EncodeToString([]byte("password=zqzqzq-3456 and more")) + `"}]}}`,
	`{"jsonrpc":"2.0","id":1,"result":{"text":"-----BEGIN PRIVATE KEY-----\nzqzqzqMIIE\n-----END PRIVATE KEY-----","url":"https://me:zqzqzq-7890@h/p","key":"sk-zqzqzq0123456789abcdef"}}`,
	`{"jsonrpc":"2.0","id":95959595,"method":"x","params":{"listed":{"number":96969696,"text":"zqzqzq-1111"}}}`,
}

// TestCutMessages cuts messages with secrets at every byte. What is shown is valid, and holds no secret and no beginning of one.
func TestCutMessages(t *testing.T) {
	for _, s := range append([]string{"zqzqzq"}, secrettest.Secrets...) {
		r := redactor(t, Options{Secrets: secret.Known{Configured: secret.NewSet(s)}, Paths: map[string][]string{"*": {"listed.number", "listed.text"}}})
		for _, message := range planted {
			for _, spelled := range []func(string) string{secrettest.Spell["as it is"], secrettest.Spell["a query"], secrettest.Spell["base64, one byte before"]} {
				inside := string(wire.AppendQuotedInner(nil, spelled(s)))
				whole := strings.ReplaceAll(message, "%s", inside)
				for n := range len(whole) + 1 {
					got := r.Cut("tools/call", "t", []byte(whole[:n]))
					if !wire.Valid([]byte(got)) {
						t.Fatalf("%s\nbecame invalid: %s", whole[:n], got)
					}
					for _, hidden := range []string{"zqzq", "9191", "9292", "9393", "9494", "9696", inside[:min(len(inside), 6)], "enFxen"} {
						if strings.Contains(got, hidden) && !strings.Contains("jsonrpc content", hidden) {
							t.Fatalf("%q is in what is shown\nof %s\nas %s", hidden, whole[:n], got)
						}
					}
				}
				if got, want := r.Cut("tools/call", "t", []byte(whole)), string(r.Payload("tools/call", "t", []byte(whole))); got != want {
					t.Errorf("nothing was cut:\n got  %s\n want %s", got, want)
				}
			}
		}
	}
}

// TestWhatIsLeftOfACutMessage: all that came before the cut stays.
func TestWhatIsLeftOfACutMessage(t *testing.T) {
	r := redactor(t, Options{})
	for in, want := range map[string]string{
		``:                                `"[cut]"`,
		` `:                               `"[cut]"`,
		`{`:                               `{}`,
		`{"a`:                             `{}`,
		`{"a"`:                            `{}`,
		`{"a":`:                           `{"a":"[cut]"}`,
		`{"a":"x`:                         `{"a":"[cut]"}`,
		`{"a":"x\`:                        `{"a":"[cut]"}`,
		`{"a":"x\"`:                       `{"a":"[cut]"}`,
		`{"a":"x"`:                        `{"a":"x"}`,
		`{"a":"x",`:                       `{"a":"x"}`,
		`{"a":"x","b":tr`:                 `{"a":"x","b":"[cut]"}`,
		`{"a":[1, 2`:                      `{"a":[1,"[cut]"]}`,
		`{"a":[1, 2,`:                     `{"a":[1,2,"[cut]"]}`,
		`{"a":[`:                          `{"a":["[cut]"]}`,
		`{"a":[]`:                         `{"a":[]}`,
		`{"a":[{"b":{"c":"d"},"e":{}`:     `{"a":[{"b":{"c":"d"},"e":{}}]}`,
		`{"a":1} `:                        `{"a":1}`,
		`[1,[2,[3`:                        `[1,[2,["[cut]"]]]`,
		`12`:                              `"[cut]"`,
		`{"a":1}}`:                        `[text, 8 bytes]`,
		`{"a" 1`:                          `{}`,
		`{"a":1,,"b":2}`:                  `[text, 14 bytes]`,
		`no JSON`:                         `[text, 7 bytes]`,
		`{"a":]`:                          `[text, 6 bytes]`,
		`{"a":"` + "\x00" + `","b":1`:     `[text, 14 bytes]`,
		strings.Repeat("[", 2*512) + `"x`: `[text, 1026 bytes]`,
	} {
		if got := r.Cut("", "", []byte(in)); got != want {
			t.Errorf("%q\n got  %s\n want %s", in, got, want)
		}
	}
}

// FuzzCut completes any beginning of any text.
func FuzzCut(f *testing.F) {
	for _, message := range planted {
		f.Add(message, 40)
	}
	for _, ugly := range []string{"", "{", "[", `{"`, `{"a"`, `{"a":`, "[,", "]", "}", ":", ",", `"\`, "[[[[", "{}{}", "1 2", "\xff", "tru", "[1e", `{"a":{"a":{`} {
		f.Add(ugly, len(ugly))
	}
	f.Fuzz(func(t *testing.T, text string, at int) {
		if at < 0 || at > len(text) {
			t.Skip()
		}
		r := redactor(t, Options{Secrets: secret.Known{Configured: secret.NewSet("planted-secret-1")}})
		got := r.Cut("tools/call", "t", []byte(text[:at]))
		if wire.Valid([]byte(text)) && !wire.Valid([]byte(got)) {
			t.Errorf("%q became invalid: %s", text[:at], got)
		}
		if wire.Valid([]byte(text)) && at == len(text) && got != string(r.Payload("tools/call", "t", []byte(text))) && wire.KindOf(wire.Trim([]byte(text))) >= wire.Array {
			t.Errorf("%q became %s", text, got)
		}
	})
}
