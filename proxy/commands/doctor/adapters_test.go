package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestAdapters checks the lines about adapter files and about what the configuration says of them.
func TestAdapters(t *testing.T) {
	dir, empty := t.TempDir(), t.TempDir()
	const text = "---\nname: who-api\ntype: adapter\nversion: \"1.0.0\"\ndescription: An API for tests\n" +
		"target: {base_url: \"https://api.example.com\", transport: http, protocol: rest, serialization: json}\n" +
		"operations: {read: [{name: who, maps_to: GET /who, description: Say who}, {name: what, maps_to: GET /what, description: Say what}]}\n---\n"
	good, bad := filepath.Join(dir, "who-adapter.md"), filepath.Join(t.TempDir(), "bad-adapter.md")
	for path, text := range map[string]string{good: text, bad: "---\nname: bad-api\ntype: adapter\n---\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		"none":     {func(*config.Config) {}, nil},
		"semantic": {func(c *config.Config) { c.Adapters.Sources = []string{dir} }, []string{"ok adapters.mode: semantic: adapters: 1; operations: 2; tools for clients: 5"}},
		"an empty folder": {func(c *config.Config) { c.Adapters.Sources = []string{empty} }, []string{
			"warn adapters.sources: " + empty + ": there are no adapter files, which are called NAME-adapter.md → correct the directory, or the names of the files",
		}},
		"everything": {func(c *config.Config) {
			c.Adapters.Sources, c.Adapters.Mode, c.Adapters.Pin = []string{dir}, "auto", []string{"who", "whom"}
			c.Auth.NamedTokens = map[string]string{"ci": "a-token"}
			c.Adapters.Tokens = map[string]config.AdapterGrant{"ci": {Allow: []string{"who", "git.*"}}}
			c.Adapters.Callers = map[string]config.AdapterCallers{"who-api": {Headers: map[string]string{"Authorization": "X-Who"}}, "other": {Headers: map[string]string{"Authorization": "X-Other"}}}
		}, []string{
			"ok adapters.mode: auto: adapters: 1; operations: 2; tools for clients: 2",
			"warn adapters.pin: no adapter has an operation whom → dragoman adapter show NAME lists operations",
			"warn adapters.tokens: the pattern matches no operation: ci: git.* → dragoman adapter show NAME lists operations",
			"info adapters.tokens.ci: tools for clients: 1",
			"warn adapters.callers.other: no adapter has this name → dragoman adapter list shows the names",
			"info adapters.callers.who-api: the API gets Authorization from the client's header X-Who",
		}},
		"a file that is wrong": {func(c *config.Config) { c.Adapters.Sources = []string{bad} }, []string{
			"FAIL " + bad + "*", "FAIL " + bad + "*", "FAIL " + bad + "*", "FAIL " + bad + "*", "ok adapters.mode: semantic: adapters: 0; operations: 0; tools for clients: 5",
		}},
	} {
		t.Run(name, func(t *testing.T) { want(t, examine(t, with(c.change), "adapters"), c.want...) })
	}
}
