package config

import (
	"strings"
	"testing"
)

func TestAdviceOnWithheldVariables(t *testing.T) {
	cfg := Default()
	u := &cfg.Upstream
	u.Command, u.Env = []string{"server"}, map[string]string{"GIVEN_TOKEN": "x"}
	environ := []string{"PATH=/bin", "GITHUB_TOKEN=secret", "GITHUB_TOKEN_FILE=x", "GIVEN_TOKEN=y", "DRAGOMAN_LISTEN=z", "A=b"}
	for line, want := range map[string]string{
		"Error: GITHUB_TOKEN is not set":          "the server did not get GITHUB_TOKEN: pass it with -e GITHUB_TOKEN (upstream.env)",
		"set GITHUB_TOKEN_FILE":                   "the server did not get GITHUB_TOKEN_FILE: pass it with -e GITHUB_TOKEN_FILE (upstream.env)",
		"${GITHUB_TOKEN} or ${GITHUB_TOKEN_FILE}": "the server did not get GITHUB_TOKEN, GITHUB_TOKEN_FILE: pass it with -e GITHUB_TOKEN -e GITHUB_TOKEN_FILE (upstream.env)",
		"MY_GITHUB_TOKEN is not set":              "",
		"GIVEN_TOKEN, DRAGOMAN_LISTEN, PATH, A":   "",
		"a database is needed":                    "",
	} {
		got := u.AdviceOnWithheld(environ, []string{"starting", line})
		if got != want {
			t.Errorf("%s: %q", line, got)
		}
		if strings.Contains(got, "secret") {
			t.Error("a value is shown")
		}
	}
	u.PassEnv = []string{"*"}
	if got := u.AdviceOnWithheld(environ, []string{"GITHUB_TOKEN"}); got != "" {
		t.Error(got)
	}
}
