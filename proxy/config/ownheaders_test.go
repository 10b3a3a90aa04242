package config

import (
	"reflect"
	"strings"
	"testing"
)

// TestHeadersWithoutAValue: a variable that the shell has not replaced, or that is empty, is told before the server refuses it.
func TestHeadersWithoutAValue(t *testing.T) {
	environ := []string{"EMPTY=", "DOLLAR=$SECRET_CANARY", "HOME=/none"}
	for value, c := range map[string]struct {
		mistake string
		plain   []Plain
	}{
		"Bearer $TOKEN":        {"", []Plain{{"Authorization", "TOKEN"}}},
		"$TOKEN_2":             {"", []Plain{{"Authorization", "TOKEN_2"}}},
		"Bearer ${DOLLAR}":     {"", nil},
		"Bearer pa$$WORD":      {"", nil},
		"Bearer $Ab1x":         {"", nil},
		"Bearer abc":           {"", nil},
		"Bearer ${EMPTY}":      {`upstream.headers.Authorization: "Bearer" has no token: is a variable not set?`, nil},
		"bearer":               {`upstream.headers.Authorization: "bearer" has no token: is a variable not set?`, nil},
		"Basic ${EMPTY}":       {`upstream.headers.Authorization: "Basic" has no token: is a variable not set?`, nil},
		"a-token-of-one-word1": {"", nil},
	} {
		cfg, err := Sources{Environ: append(environ, "DRAGOMAN_UPSTREAM_URL=http://127.0.0.1/mcp", `DRAGOMAN_UPSTREAM_HEADERS={Authorization: "`+value+`"}`)}.Read()
		switch {
		case (err != nil) != (c.mistake != "") || err != nil && !strings.HasSuffix(err.Error(), c.mistake):
			t.Errorf("%s: %v, want %s", value, err, c.mistake)
		case !reflect.DeepEqual(cfg.Upstream.Plain, c.plain):
			t.Errorf("%s: %v", value, cfg.Upstream.Plain)
		}
	}
}
