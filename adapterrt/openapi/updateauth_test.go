package openapi_test

import (
	"strings"
	"testing"
)

// before is a file as imports made it that took credentials for parameters.
const before = `---
name: shop
type: adapter
version: "1.0.0"
description: "A shop"
target: {base_url: "https://shop.example.com", transport: http, protocol: rest, serialization: json}

auth:
  AUTH

operations:
  read:
    - name: list_a
      maps_to: "GET /a"
      description: "List a"
      params:
        api_key: {type: string, required: true}
        q: {type: string}

    - name: list_b
      maps_to: "GET /b"
      description: "List b"
      params:
        api_key: {type: string, required: true}

x-source:
  title: "Shop"
  sha256: "f0fa029cc739fe418bc6b39e742d2d426fc4bfd5f88a58b31bcd0eac4b431f50"
  base_url: "https://shop.example.com"
  operations:
    "GET /a": list_a e835fb58
    "GET /b": list_b aab85b24
---

# Shop

## What did not fit

## Examples
`

// TestUpdateKeepsWhatSendsTheCredential: the auth of a file is not changed by an update, so that a credential which a parameter of the
// file sends stays there until auth sends it.
func TestUpdateKeepsWhatSendsTheCredential(t *testing.T) {
	const (
		key      = `{name: api_key, in: query, required: true, schema: {type: string}}`
		document = `openapi: 3.0.0
info: {title: Shop, version: "1"}
servers: [{url: "https://shop.example.com"}]
SECURITY
paths: {/a: {get: {operationId: listA, summary: List all of a, parameters: [` + key + `, {name: q, in: query, schema: {type: string}}]}}, /b: {get: {operationId: listB, summary: List all of b, parameters: [` + key + `]}}}
`
		scheme = "security: [{k: []}]\ncomponents: {securitySchemes: {k: SCHEME}}"
	)
	for name, c := range map[string]struct {
		auth, security string
		keeps          bool
		says           string
	}{
		"no auth":                       {"type: none", "", true, "models are asked for a credential: the query parameter api_key | the whole file | add it to auth of the file, and update it again"},
		"another credential":            {"type: bearer\n  token_env: SHOP_TOKEN", strings.Replace(scheme, "SCHEME", "{type: http, scheme: bearer}", 1), true, "models are asked for a credential"},
		"a person has added it to auth": {"type: api_key\n  in: query\n  query_name: api_key\n  key_env: SHOP_KEY", "", false, "check the auth block"},
		"auth that was not supported": {"type: none", strings.Replace(scheme, "SCHEME", "{type: apiKey, in: cookie, name: SESSION}", 1), true,
			"the file has no auth, and the document has: type: api_key, in: cookie, cookie_name: SESSION, key_env: SHOP_KEY | the whole file | add it to the file, if the API needs it"},
	} {
		t.Run(name, func(t *testing.T) {
			u := updated(t, []byte(strings.Replace(before, "AUTH", c.auth, 1)), strings.Replace(document, "SECURITY", c.security, 1), "")
			if u.Data == nil {
				t.Fatal(u.Conflicts)
			}
			text := string(u.Data)
			if got := strings.Count(text, "        api_key: {"); got != map[bool]int{true: 2}[c.keeps] || !strings.Contains(text, c.auth) || !strings.Contains(text, c.says) {
				t.Errorf("%d parameters, want kept %v, and %q:\n%s", got, c.keeps, c.says, text)
			}
			if missing := strings.HasPrefix(c.says, "the file has no auth"); missing != strings.Contains(strings.Join(u.Lines, "\n"), "note: the file has no auth, and the document has: type: api_key") {
				t.Error(u.Lines)
			}
		})
	}
}
