package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestVerifyNoneIsRefusedWhereItLeaks: with any login, and in a variable, which other processes inherit.
func TestVerifyNoneIsRefusedWhereItLeaks(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	for name, c := range map[string]struct {
		text    string
		environ []string
		want    string // "" for no error
	}{
		"file":                    {text: "upstream: {url: https://a, verify: none}"},
		"headers":                 {text: "upstream: {url: https://a, verify: none, headers: {Authorization: x}}"},
		"http, where login is":    {text: "upstream: {url: http://localhost, verify: none, auth: {type: login}}"},
		"login":                   {text: "upstream: {url: https://a, verify: none, auth: {type: login}}", want: "upstream.verify: none cannot be used with upstream.auth.type: login, as any machine on the way could take the token; add --login never"},
		"token file":              {text: "upstream: {url: HTTPS://a, verify: none, auth: {type: token_file, token_file: x}}", want: "upstream.verify: none cannot be used with upstream.auth.type: token_file, as any machine on the way could take the token; leave out upstream.auth"},
		"variable":                {text: "upstream: {url: https://a}", environ: []string{"DRAGOMAN_UPSTREAM_VERIFY=none"}, want: "DRAGOMAN_UPSTREAM_VERIFY: a variable holds for every dragoman of its environment: write --verify none"},
		"variable beside file":    {text: "upstream: {url: https://a, verify: none}", environ: []string{"DRAGOMAN_UPSTREAM_VERIFY=none"}, want: "DRAGOMAN_UPSTREAM_VERIFY: "},
		"variable that verifies":  {text: "upstream: {url: https://a, verify: none, auth: {type: login}}", environ: []string{"DRAGOMAN_UPSTREAM_VERIFY=full"}},
		"NODE_TLS_REJECT is none": {text: "upstream: {url: https://a, auth: {type: login}}", environ: []string{"NODE_TLS_REJECT_UNAUTHORIZED=0"}},
		"other word":              {text: "upstream: {url: https://a, verify: never}", want: `upstream.verify: "never" is not one of full, none`},
	} {
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Sources{File: file, Environ: c.environ}.Read()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "NODE_TLS_REJECT is none" && cfg.Upstream.Unverified() {
			t.Error("the variable of Node.js turns the check off")
		}
	}
}

// TestExtraAuthoritiesOfTheEnvironment: a ca_file replaces them, and servers that are reached otherwise need none.
func TestExtraAuthoritiesOfTheEnvironment(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	for text, want := range map[string]string{
		"upstream: {url: https://a}":             "/extra.pem",
		"upstream: {url: http://a}":              "/extra.pem", // the authorization server is at https
		"upstream: {url: https://a, ca_file: b}": "",
		"upstream: {url: 'unix:/a:/mcp'}":        "",
		"upstream: {command: [a]}":               "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Sources{File: file, Environ: []string{"NODE_EXTRA_CA_CERTS=/extra.pem"}}.Read()
		if err != nil || cfg.Upstream.Extra.File != want || (want == "") != (cfg.Upstream.Extra.Err == nil) || slices.Contains(cfg.Files(), "/extra.pem") {
			t.Errorf("%s: %v %v", text, cfg.Upstream.Extra, err)
		}
	}
}

func TestTokensInTheClear(t *testing.T) {
	t.Parallel()
	given := map[string]string{"authorization": "Bearer x"}
	for url, want := range map[string]bool{
		"http://mcp.example.com/mcp": true, "HTTP://Mcp.Example.com:80": true, "http://8.8.8.8/": true, "http://[2606:4700::1]/": true,
		"https://mcp.example.com/mcp": false, "http://localhost:1": false, "http://127.1.2.3": false, "http://[::1]:1": false,
		"http://10.1.2.3/": false, "http://192.168.1.1": false, "http://100.64.0.1": false, "http://[fd00::1]": false, "http://169.254.1.1": false,
		"http://server:3000/mcp": false, "http://mcp.default.svc/mcp": false, "http://mcp.default.svc.cluster.local": false, "http://nas.local.": false,
		"http://host.docker.internal:1": false, "http://box.home.arpa": false, "unix:/a:/mcp": false, "": false,
	} {
		if got := (&Upstream{URL: url, Headers: given}).InTheClear(); got != want {
			t.Errorf("%s: %v", url, got)
		}
	}
	for name, u := range map[string]Upstream{
		"nothing is sent":      {},
		"other headers":        {Headers: map[string]string{"X-Team": "a"}},
		"https only":           {Auth: UpstreamAuth{Type: AuthLogin}},
		"login, http allowed":  {Auth: UpstreamAuth{Type: AuthLogin, AllowHTTP: true}},
		"token file":           {Auth: UpstreamAuth{Type: AuthTokenFile}},
		"no login, but a file": {Auth: UpstreamAuth{Type: AuthNone, AllowHTTP: true}},
	} {
		u.URL = "http://mcp.example.com"
		if got, want := u.InTheClear(), name == "login, http allowed" || name == "token file"; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
