package config

import (
	"slices"
	"strings"
	"testing"
)

// TestHeadersWithoutAValue: a variable that the shell has not replaced, or that is empty, is told before the server refuses it.
func TestHeadersWithoutAValue(t *testing.T) {
	environ := []string{"EMPTY=", "DOLLAR=$SECRET_CANARY", "HOME=/none"}
	for value, c := range map[string]struct {
		mistake string
		plain   string // the variable
	}{
		"Bearer $TOKEN":        {"", "TOKEN"},
		"$TOKEN_2":             {"", "TOKEN_2"},
		"Bearer ${DOLLAR}":     {"", ""},
		"Bearer pa$$WORD":      {"", ""},
		"Bearer $Ab1x":         {"", ""},
		"Bearer abc":           {"", ""},
		"Bearer ${EMPTY}":      {`upstream.headers.Authorization: "Bearer" has no token: is a variable not set?`, ""},
		"bearer":               {`upstream.headers.Authorization: "bearer" has no token: is a variable not set?`, ""},
		"Basic ${EMPTY}":       {`upstream.headers.Authorization: "Basic" has no token: is a variable not set?`, ""},
		"a-token-of-one-word1": {"", ""},
	} {
		var want []Remark
		if c.plain != "" {
			want = []Remark{{c.plain + " has no braces: it is sent as it is", "upstream.headers.Authorization", "write ${" + c.plain + "}"}}
		}
		cfg, err := Sources{Environ: append(environ, "DRAGOMAN_UPSTREAM_URL=http://127.0.0.1/mcp", `DRAGOMAN_UPSTREAM_HEADERS={Authorization: "`+value+`"}`)}.Read()
		switch {
		case (err != nil) != (c.mistake != "") || err != nil && !strings.HasSuffix(err.Error(), c.mistake):
			t.Errorf("%s: %v, want %s", value, err, c.mistake)
		case !slices.Equal(cfg.Remarks, want):
			t.Errorf("%s: %v", value, cfg.Remarks)
		}
	}
}
