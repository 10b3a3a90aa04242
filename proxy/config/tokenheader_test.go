package config

import (
	"strings"
	"testing"
)

// TestTheHeaderOfATokenIsOneOfItsOwn checks which headers auth.header may name.
func TestTheHeaderOfATokenIsOneOfItsOwn(t *testing.T) {
	const callers = `DRAGOMAN_ADAPTERS_CALLERS={github: {Authorization: X-GitHub-Token}}`
	for _, c := range []struct {
		header, mistake string
		more            []string
	}{
		{"X-API-Key", "", nil},
		{"x-auth_token", "", nil},
		{"X-API-Key", "", []string{callers, "DRAGOMAN_BRIDGE_PRINCIPAL=header:X-User"}},
		{"X-API-Key", "has no effect without auth.tokens, auth.named_tokens or auth.token_file", []string{"DRAGOMAN_AUTH_TOKENS="}},
		{"X API Key", "cannot be the header of a token", nil},
		{"X-API-Key:", "cannot be the header of a token", nil},
		{"authorization", "cannot be the header of a token", nil},
		{"X-Dragoman-Token", "cannot be the header of a token", nil},
		{"Cookie", "cannot be the header of a token", nil},
		{"Host", "cannot be the header of a token", nil},
		{"Mcp-Param-Key", "cannot be the header of a token", nil},
		{"Content-Type", "cannot be the header of a token", nil},
		{"x-max-tokens", "cannot be the header of a token", nil},
		{"origin", "cannot be the header of a token", nil},
		{"x-github-token", "is read by adapters.callers or bridge.principal, too", []string{callers}},
		{"X-User", "is read by adapters.callers or bridge.principal, too", []string{"DRAGOMAN_BRIDGE_PRINCIPAL=header:x-user"}},
	} {
		_, err := Sources{Environ: append([]string{"DRAGOMAN_UPSTREAM_URL=http://127.0.0.1/mcp", "DRAGOMAN_AUTH_TOKENS=secret-canary-1234", "DRAGOMAN_AUTH_HEADER=" + c.header}, c.more...)}.Read()
		switch {
		case c.mistake == "" && err != nil:
			t.Errorf("%s: %v", c.header, err)
		case c.mistake != "" && (err == nil || !strings.Contains(err.Error(), "auth.header: ") || !strings.Contains(err.Error(), c.mistake) || strings.Contains(err.Error(), "canary")):
			t.Errorf("%s: %v, want %s", c.header, err, c.mistake)
		}
	}
}
