package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
)

// TestEffectiveSettingsHaveTheirOrigin checks values of all kinds, from each source, and that no secret is among them.
func TestEffectiveSettingsHaveTheirOrigin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := `upstream:
  url: https://mcp.example.com/mcp?api_key=canary-1-canary
  headers: {Authorization: "Bearer ${TOKEN}", X-Short: canary}
  auth: {params: {prompt: consent, login_token: canary-2-canary}}
auth:
  tokens: [canary-3-canary-3-canary-3-canar, "canary4"]
limits: {time: {ping: {silence: 90s}}, in_hand: 1536KiB}
adapters: {token_commands: {shop: [vault, --token, canary-5-canary, "https://u:canary-6@vault.example/x?y=canary-7"]}}
transform: {rules: [{match: {tool: list}, max_tokens: 200}]}
gates:
  - {tool: a, params: [b], source: c, match: {d: e}, capability: f, error_code: g, source_params: {api_key: canary-8-canary, stream: "{s}"}}
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	values, err := Sources{
		File: file, Environ: []string{"TOKEN=canary-0-canary", "DRAGOMAN_SESSION_MAX=7", "DRAGOMAN_UPSTREAM_HEADERS={X-Env: canary-9-canary}"},
		Flags: func(c *Config, l *setting.Layers) {
			c.Listen = "127.0.0.1:1"
			l.Flag("listen", "--listen")
		},
	}.Effective()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Value{
		{"listen", "127.0.0.1:1", "--listen"},
		{"path", "/mcp", "default"},
		{"heartbeat", "15s", "default"},
		{"session.max", "7", "DRAGOMAN_SESSION_MAX"},
		{"upstream.url", "https://mcp.example.com/mcp?…", file + ":2"},
		{"upstream.headers.Authorization", "[set, 22 characters, 3a28]", file + ":3"},
		{"upstream.headers.X-Short", "[set, 6 characters]", file + ":3"},
		{"upstream.headers.X-Env", "[set, 15 characters, 2328]", "DRAGOMAN_UPSTREAM_HEADERS"},
		{"upstream.auth.params.prompt", "consent", file + ":4"},
		{"upstream.auth.params.login_token", "[set, 15 characters, 3f3a]", file + ":4"},
		{"auth.tokens", "[[set, 32 characters, ed80], [set, 7 characters]]", file + ":6"},
		{"limits.time.ping", "{silence: 1m30s}", file + ":7"},
		{"limits.in_hand", "1536KiB", file + ":7"},
		{"limits.client_message", "10MiB", "default"},
		{"adapters.token_commands.shop", "[vault, --token, [set, 15 characters, 16ff], 'https://vault.example/x?…']", file + ":8"},
		{"transform.rules", "[{match: {tool: list}, max_tokens: 200}]", file + ":9"},
		{"transform.store.ttl", "10m", "default"},
		{"gates", "[{tool: a, params: [b], source: c, source_params: {api_key: [set, 15 characters, 53fc], stream: '{s}'}, match: {d: e}, capability: f, error_code: g}]", file + ":11"},
		{"footprint.max_bytes", "45KiB", "default"},
	} {
		i := slices.IndexFunc(values, func(v Value) bool { return v.Path == want.Path })
		if i < 0 || values[i] != want {
			t.Errorf("got  %q\nwant %q", values[max(i, 0)], want)
		}
	}
	for _, v := range values {
		if strings.Contains(v.Text, "canary") {
			t.Errorf("a secret is shown: %q", v)
		}
	}
}

func TestSecretsInACommandAreMasked(t *testing.T) {
	got := strings.Join(SafeCommand([]string{
		"npx", "-y", "server", "--api-key", "canary-canary", "--token=canary-canary", "GITHUB_TOKEN=canary-canary",
		"ghp_canarycanary", "--url", "https://user:canary@host/p?key=canary", "--header", "Authorization: Bearer canary", "--token-file", "/run/token", "--max-tokens", "5", "plain",
	}), " ")
	if strings.Contains(got, "canary") || !strings.HasPrefix(got, "npx -y server --api-key [set, 13 characters, ") ||
		!strings.HasSuffix(got, " --token-file /run/token --max-tokens 5 plain") || !strings.Contains(got, "https://host/p?…") {
		t.Error(got)
	}
}

// TestSafeCommandShowsWhatIsNoSecret: references to variables, URLs as values, and lines of a shell but for the secrets in them.
func TestSafeCommandShowsWhatIsNoSecret(t *testing.T) {
	for arg, want := range map[string]string{
		"Authorization: Bearer ${TOKEN}": "Authorization: Bearer ${TOKEN}", "--token=${TOKEN}": "--token=${TOKEN}", "${API_KEY}": "${API_KEY}",
		"Authorization: Bearer canary${TOKEN}": "Authorization: […]", "--token=${TOKEN}canary": "--token=[…]",
		"redirect_uri=http://localhost:3334/oauth/callback": "redirect_uri=http://localhost:3334/oauth/callback", "token_endpoint=https://t.example/t": "token_endpoint=https://t.example/t",
		"params.audience=https://u:canary@a.example/?k=canary": "params.audience=https://a.example/?…", "client_secret=https://canary": "client_secret=[…]",
		"apikey: canary": "apikey: […]", "Ocp-Apim-Subscription-Key: canary": "Ocp-Apim-Subscription-Key: […]", "Proxy-Authorization: canary": "Proxy-Authorization: […]", "X-Team: a": "X-Team: a",
		"Server=h;User Id=u;Password=canary": "Server=h;User Id=u;Password=[…]", "Endpoint=sb://h/;SharedAccessKey=canary": "Endpoint=sb://h/;SharedAccessKey=[…]",
	} {
		if got := regexp.MustCompile(`\[set.*\]`).ReplaceAllString(SafeCommand([]string{"x", arg})[1], "[…]"); got != want {
			t.Errorf("%s: got %s, want %s", arg, got, want)
		}
	}
	if got, want := AsTyped([]string{"sh", "-c", "cd /x && API_KEY=canary node x --token canary $HOME"}), "sh -c 'cd /x && API_KEY=… node x --token … $HOME'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestSecretsAreAllThatIsMasked: what is shown of the configuration without its value is removed from messages, too.
func TestSecretsAreAllThatIsMasked(t *testing.T) {
	var c Config
	c.Upstream.Auth.Params = map[string]string{"login_token": "canary-param", "prompt": "consent"}
	c.Upstream.Headers = map[string]string{"X-Key": "canary-header"}
	c.Upstream.Env = map[string]string{"KEY": "canary-env"}
	c.Auth.NamedTokens = map[string]string{"ann": "canary-named"}
	c.Auth.Tokens = []string{"canary-token", ""}
	want := []string{"canary-param", "canary-header", "canary-env", "canary-named", "canary-token"}
	_ = c.EachSetting(func(path string, v reflect.Value) error {
		if v.Kind() == reflect.String {
			if v.SetString("value of " + path); isSecret(path) {
				want = append(want, v.String())
			}
		}
		return nil
	})
	if !slices.Contains(want, "value of store.password") || !slices.Contains(want, "value of store.sentinel_password") {
		t.Errorf("masked: %q", want)
	}
	got := c.Secrets()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
