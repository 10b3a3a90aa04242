package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestClientsOfAdapters checks the mistakes in what the settings of adapters say of clients. All of
// them are reported.
func TestClientsOfAdapters(t *testing.T) {
	for text, want := range map[string][]string{
		`adapters: {pin: [a, ""]}`:                                                                                        {"adapters.pin[1]: is empty"},
		`adapters: {callers: {a: {fallback: true}}}`:                                                                      {"adapters.callers.a: names no header"},
		`adapters: {callers: {a: {Host: X-A}, b: {A: Host}}}`:                                                             {`adapters.callers.a: "Host" cannot be sent`, `adapters.callers.b: A: "Host" cannot be`},
		`adapters: {tokens: {a: {allow: []}}}`:                                                                            {"adapters.tokens.a: auth.named_tokens has no token of this name", "adapters.tokens.a.allow: is empty"},
		`adapters: {tokens: {"*": {deny: [a, "b c"]}}}`:                                                                   {`adapters.tokens.*.deny[1]: "b c" is not a pattern`},
		`auth: {tokens: [x], named_tokens: {a: x, b: y, c: y}}`:                                                           {"auth.named_tokens.a: is in auth.tokens, too", "auth.named_tokens.c: is the same token as b"},
		`auth: {named_tokens: {"*": x, a: " "}}`:                                                                          {`auth.named_tokens: "*" is not a name`, "auth.named_tokens.a: is empty"},
		`adapters: {callers: {a: {Authorization: authorization}}}`:                                                        nil,
		`{upstream: {url: "http://localhost/mcp"}, adapters: {callers: {a: {X-Key: Authorization}}}}`:                     {"adapters.callers.a: the clients' Authorization is for the server"},
		`{auth: {named_tokens: {a: x}}, adapters: {mode: search, pin: [a], tokens: {a: {allow: ["*.a:read"]}, "*": {}}}}`: nil,
	} {
		file := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Sources{File: file}.Read()
		if (err == nil) != (want == nil) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v, want %s", text, err, w)
			}
		}
	}
}
