package config

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/dragoman-proxy/dragoman/proxy/config/setting"
	"github.com/dragoman-proxy/dragoman/transform"
)

const example = "../../deploy/config.example.yaml"

var someGate = Gate{
	Tool: "get_records", Params: []string{"expand"}, Source: "get_schema", List: "streams",
	Match: map[string]string{"name": "{stream}"}, Capability: "caps.expand", Subject: "stream", ErrorCode: "invalid_expand",
}

func TestExampleShowsTheDefaults(t *testing.T) {
	cfg, err := Sources{File: example}.Read()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{}
	defaults := Default()
	defaults.EachSetting(func(path string, v reflect.Value) error {
		want[path] = v.Interface()
		return nil
	})
	cfg.EachSetting(func(path string, v reflect.Value) error {
		w := reflect.ValueOf(want[path])
		if v.Kind() == reflect.Map || v.Kind() == reflect.Slice {
			if v.Len() == 0 && w.Len() == 0 {
				return nil
			}
		}
		if !reflect.DeepEqual(v.Interface(), want[path]) {
			t.Errorf("%s: the example says %v, the default is %v", path, v, want[path])
		}
		return nil
	})
}

func TestExampleShowsEveryKey(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	var shown map[string]any
	if err := yaml.Unmarshal(text, &shown); err != nil {
		t.Fatal(err)
	}
	var cfg Config
	cfg.EachSetting(func(path string, _ reflect.Value) error {
		at := any(shown)
		for _, key := range strings.Split(path, ".") {
			m, _ := at.(map[string]any)
			var ok bool
			if at, ok = m[key]; !ok {
				t.Errorf("%s is missing", path)
				break
			}
		}
		return nil
	})
}

// TestExampleShowsEverySource checks that the example has each source of results with all of its options.
func TestExampleShowsEverySource(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range transform.Builtin() {
		options := s.Options()
		if len(options) == 0 {
			continue
		}
		line := regexp.MustCompile(`(?m)^# +` + s.Name() + `: \{.*`).Find(text)
		for _, o := range options {
			if !bytes.Contains(line, fmt.Appendf(nil, " %s: %v", o.Name, o.Default)) {
				t.Errorf("transform.adapters.%s.%s, which is %v, is missing", s.Name(), o.Name, o.Default)
			}
		}
	}
}

// decode reads the YAML text of a file into c.
func (c *Config) decode(text string) error {
	layers := setting.Over(c, removed)
	layers.File("configuration", []byte(text))
	return layers.Err()
}

func TestConfigFile(t *testing.T) {
	for _, c := range []struct {
		text, fault string
	}{
		{"", ""},
		{"# nothing\n", ""},
		{"session:\n  max: 7\n", ""},
		{"limits:\n  reply: 8\n", "FILE:2: limits.reply: unknown setting; did you mean limits.replay?"},
		{"contract:\n  task: bridge\n", "FILE:2: contract.task: unknown setting; did you mean contract.tasks?"},
		{"listn: x\n", "FILE:1: listn: unknown setting; did you mean listen?"},
		{"nothing_like_it: x\n", "FILE:1: nothing_like_it: unknown setting; the configuration may have adapters, admin, "},
		{"limits:\n  time:\n    ping: {silence: 1s}\n", ""},
		{"limits:\n  time:\n    ping: {silent: 1s}\n", "FILE:3: limits.time.ping.silent: unknown setting; did you mean limits.time.ping.silence?"},
		{"session:\n  max: many\n", "FILE:2: session.max: expected a whole number"},
		{"limits:\n  client_message: 10Mib\n", `FILE:2: limits.client_message: "10Mib" is not a size; write 64KiB, 10MiB or a number of bytes`},
		{"limits:\n  client_message: -1\n", "is not a size"},
		{"heartbeat: 10\n", "FILE:1: heartbeat: expected a duration such as 10s, 5m or 1h30m; did you mean 10s?"},
		{"heartbeat: soon\n", "FILE:1: heartbeat: expected a duration such as 10s, 5m or 1h30m"},
		{"heartbeat: 0\n", ""},
		{"heartbeat: 5s\n---\nheartbeat: 6s\n", "more than one YAML document"},
		{"auth:\n  tokens: secret\n", "FILE:2: auth.tokens: expected a list of texts such as [a, b]"},
		{"auth: {trust_network: secret}\n", "FILE:1: auth.trust_network: expected true or false"},
		{"limits: 5\n", "FILE:1: limits: expected a mapping of keys to values"},
		{"gates:\n  - tool: a\n    parms: [b]\n", "FILE:3: gates[0].parms: unknown setting; did you mean gates[0].params?"},
		{"listen: a:1\nlisten: b:1\n", "FILE:2: listen: set twice; the first time in line 1"},
		{"transform: {default_max_tokens: many}\n", "FILE:1: transform.default_max_tokens: expected a whole number"},
		{"transform:\n  max_tokens: 5\n", "FILE:2: transform.max_tokens: unknown setting"},
		{"transform:\n  rules:\n    - match: {tol: x}\n", "FILE:3: transform.rules[0]: unknown key match.tol"},
		{"transform:\n", ""},
		{"upstream:\n  url: host:3000/mcp\n", "FILE:2: upstream.url: must begin with http:// or https://; did you mean http://host:3000/mcp?"},
		{"upstream:\n  url: 127.0.0.1:3000/mcp\n", "did you mean http://127.0.0.1:3000/mcp?"},
		{"listen: 8808\n", `FILE:1: listen: "8808" is not host:port; did you mean 127.0.0.1:8808?`},
		{"a: [\n", "FILE:1: not YAML"},
		{"- a\n", "FILE:1: expected a mapping of keys to values"},
	} {
		file := filepath.Join(t.TempDir(), "dragoman.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Sources{File: file}.Read()
		if c.fault == "" {
			if err != nil {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(c.fault, "FILE", file)) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v; want %q", c.text, err, c.fault)
		}
	}
}

func TestFileLeavesOtherDefaults(t *testing.T) {
	cfg := Default()
	if err := cfg.decode("limits:\n  client_message: 64KiB\ncontract:\n  elicitation_fallback: cancel\ntransform: {max_tokens: 0, default_max_tokens: 7}\n"); err == nil {
		t.Error("an unknown key was taken")
	}
	if cfg.Limits.ClientMessage != 64<<10 || cfg.Limits.UpstreamMessage != 64<<20 || cfg.Contract.ElicitationFallback != "cancel" || cfg.Contract.Tasks != "bridge" ||
		cfg.Transform.DefaultMaxTokens != 7 || !cfg.Transform.Adapters.Capper.Enabled {
		t.Errorf("%+v", cfg)
	}
}

// TestRemovedSettingsAreRefused checks that a file or variable with a removed setting is an
// error that names the replacement, and that no removed setting still exists.
func TestRemovedSettingsAreRefused(t *testing.T) {
	for path, instead := range removed {
		keys := strings.Split(path, ".")
		text := ""
		for i, key := range keys {
			text += strings.Repeat("  ", i) + key + ":\n"
		}
		text = strings.TrimSuffix(text, "\n") + " 1\n"
		want := path + ": this setting was removed: " + instead
		if err := new(Config).decode(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		name := "DRAGOMAN_" + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
		if _, err := (Sources{Environ: []string{name + "=1"}}).Read(); err == nil || !strings.Contains(err.Error(), name+": this setting was removed: "+instead) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := Default()
	cfg.EachSetting(func(path string, _ reflect.Value) error {
		if _, was := removed[path]; was {
			t.Errorf("%s is a setting", path)
		}
		return nil
	})
}

func TestEnvironmentOverridesTheFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(file, []byte("session: {max: 6, max_processes: 9}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Sources{File: file, Environ: []string{
		"DRAGOMAN_SESSION_MAX=7",
		"DRAGOMAN_LIMITS_CLIENT_MESSAGE=1MiB",
		"DRAGOMAN_CONTRACT_RESOURCE_CONTENTS_NAME=off",
		"DRAGOMAN_CONTRACT_ELICITATION_FALLBACK=cancel",
		"DRAGOMAN_UPSTREAM_COMMAND=[a, b]",
		"DRAGOMAN_ALLOWED_HOSTS=a.example, b.example:80",
		"DRAGOMAN_UPSTREAM_VERSION=2024-11-05",
		"DRAGOMAN_SHUTDOWN_DRAIN=3s",
		"DRAGOMAN_HEARTBEAT=",
		"DRAGOMAN_ADMIN_LISTEN=",
		"DRAGOMAN_TRANSFORM_DEFAULT_MAX_TOKENS=1000",
		"DRAGOMAN_TRANSFORM_ADAPTERS_CAPPER_MODEL=gpt-4o",
		"DRAGOMAN_CONFIG=elsewhere", "OTHER=x", "DRAGOMAN_TOKEN=the token of the examples",
		"DRAGOMAN_MCP_SERVICE_HOST=10.0.0.1", "DRAGOMAN_PORT=tcp://10.0.0.1:8808", "DRAGOMAN_PORT_8808_TCP_ADDR=10.0.0.1",
		"DRAGOMAN_OWN_SECRET=s", "DRAGOMAN_AUTH_TOKENS=${DRAGOMAN_OWN_SECRET}",
	}}.Read()
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Session.Max != 7 || cfg.Session.MaxProcesses != 9 || cfg.Limits.ClientMessage != 1<<20 || cfg.Contract.ResourceContentsName != "off" || cfg.Contract.ElicitationFallback != "cancel" ||
		!reflect.DeepEqual(cfg.Upstream.Command, []string{"a", "b"}) || !reflect.DeepEqual(cfg.AllowedHosts, []string{"a.example", "b.example:80"}) ||
		cfg.Upstream.Version != "2024-11-05" || cfg.Shutdown.Drain != 3*time.Second || cfg.Heartbeat != 15*time.Second || cfg.Admin.Listen != "" ||
		!reflect.DeepEqual(cfg.Auth.Tokens, []string{"s"}) {
		t.Errorf("%+v", cfg)
	}
	if c := cfg.Transform; c == nil || c.DefaultMaxTokens != 1000 || c.Adapters.Capper.Model != "gpt-4o" || !c.Enabled || c.MoreTool.Name != "fetch_more" {
		t.Errorf("transform: %+v", c)
	}
}

// TestAllMistakesAreReportedAtOnce: each mistake is reported with its place, and no value is
// quoted.
func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(file, []byte("limits:\n  reply: 8\nlog: {level: loud}\nheartbeat: 10\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Sources{File: file, Environ: []string{
		"DRAGOMAN_LIMIT_REPLAY=secret", "DRAGOMAN_SESSION_MAX=secret", "DRAGOMAN_LISTEN=8808", "DRAGOMAN_UPSTREAM_HEADERS={A: '${MISSING}'}",
	}}.Read()
	want := []string{
		"7 mistakes in the configuration:",
		file + ":2: limits.reply: unknown setting; did you mean limits.replay?",
		file + ":4: heartbeat: expected a duration such as 10s, 5m or 1h30m; did you mean 10s?",
		"DRAGOMAN_SESSION_MAX: session.max: expected a whole number",
		"DRAGOMAN_UPSTREAM_HEADERS: upstream.headers.A: environment variable MISSING is not set",
		`DRAGOMAN_LISTEN: listen: "8808" is not host:port; did you mean 127.0.0.1:8808?`,
		file + `:3: log.level: "loud" is not one of debug, info, warn, error`,
		"DRAGOMAN_LIMIT_REPLAY: no setting has this variable; did you mean DRAGOMAN_LIMITS_REPLAY?",
	}
	if err == nil || err.Error() != strings.Join(want, "\n  ") {
		t.Errorf("got\n%v\nwant\n%s", err, strings.Join(want, "\n  "))
	}
}

// TestEverySettingHasAVariable: every setting of the example has a variable that sets it.
func TestEverySettingHasAVariable(t *testing.T) {
	defaults := Default()
	if err := defaults.EachSetting(func(path string, v reflect.Value) error {
		name := EnvPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
		if _, err := (Sources{Environ: []string{name + "="}}).Read(); err != nil && strings.Contains(err.Error(), "no setting") {
			t.Error(err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestExpand(t *testing.T) {
	lookup := func(name string) (string, bool) { return "se$cret", name == "TOKEN" }
	for in, want := range map[string]string{
		"Bearer ${TOKEN}": "Bearer se$cret", "$TOKEN": "$TOKEN", "${TOKEN}${TOKEN}": "se$cretse$cret", "": "",
	} {
		cfg := Default()
		cfg.Upstream.Headers = map[string]string{"Authorization": in}
		if err := cfg.Expand(lookup); err != nil || cfg.Upstream.Headers["Authorization"] != want {
			t.Errorf("%q: %q, %v", in, cfg.Upstream.Headers, err)
		}
	}
	for in, fault := range map[string]string{"x ${OTHER}": "OTHER is not set", "x ${TOKEN": "without }"} {
		cfg := Default()
		cfg.Upstream.Env = map[string]string{"A": in}
		if err := cfg.Expand(lookup); err == nil || !strings.Contains(err.Error(), fault) || !strings.Contains(err.Error(), "upstream.env.A") {
			t.Errorf("%q: %v", in, err)
		}
		if got := cfg.Upstream.Env["A"]; got != in { // it is not missing as well
			t.Errorf("%q has become %q", in, got)
		}
	}
}

func TestValidateNamesThePath(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"listen:":                                                         func(c *Config) { c.Listen = "8808" },
		"gates[1].tool: is required":                                      func(c *Config) { c.Gates = []Gate{someGate, {}} },
		"gates[0].match: is required":                                     func(c *Config) { g := someGate; g.Match = nil; c.Gates = []Gate{g} },
		"gates[0].on_unavailable:":                                        func(c *Config) { g := someGate; g.OnUnavailable = "maybe"; c.Gates = []Gate{g} },
		"gates[0].error_code:":                                            func(c *Config) { g := someGate; g.ErrorCode = "Not OK"; c.Gates = []Gate{g} },
		"gates[0].timeout_ms:":                                            func(c *Config) { g := someGate; g.TimeoutMS = 3_600_000; c.Gates = []Gate{g} },
		"adapters.mode:":                                                  func(c *Config) { c.Adapters.Mode = "many" },
		"adapters.tools: \"own\"":                                         func(c *Config) { c.Adapters.Tools = "own" },
		"adapters.sources[1]: is empty":                                   func(c *Config) { c.Adapters.Sources = []string{"a", ""} },
		"adapters.http_prefix: \"/mcp\" col":                              func(c *Config) { c.Adapters.HTTPPrefix = "/mcp" },
		"adapters.http_prefix: \"/a/\"":                                   func(c *Config) { c.Adapters.HTTPPrefix = "/a/" },
		"adapters.max_response:":                                          func(c *Config) { c.Adapters.MaxResponse = 101 << 20 },
		"adapters.trust.enforce:":                                         func(c *Config) { c.Adapters.Trust.Enforce = "always" },
		"adapters.token_commands.a: is empty":                             func(c *Config) { c.Adapters.TokenCommands = map[string][]string{"a": {""}} },
		"adapters.token_commands.b: is empty":                             func(c *Config) { c.Adapters.TokenCommands = map[string][]string{"a": {"x"}, "b": nil} },
		"path:":                                                           func(c *Config) { c.Path = "mcp" },
		"path: \"/metrics\"":                                              func(c *Config) { c.Path = "/metrics" },
		"limits.time.tool/call:":                                          func(c *Config) { c.Limits.Time = map[string]TimeLimit{"tool/call": {}} },
		"limits.time.ping: must":                                          func(c *Config) { c.Limits.Time = map[string]TimeLimit{"ping": {Silence: -1}} },
		"admin.listen:":                                                   func(c *Config) { c.Admin.Listen = "8809" },
		"listen: \"127.0.0.1:65536\" has":                                 func(c *Config) { c.Listen = "127.0.0.1:65536" },
		"listen: \"unix:x\" has no absolute":                              func(c *Config) { c.Listen = "unix:x" },
		"listen: \"unix:/x:/mcp\" has a se":                               func(c *Config) { c.Listen = "unix:/x:/mcp" },
		"listen_mode: \"0698\" is not":                                    func(c *Config) { c.Listen, c.ListenMode = "unix:/x", "0698" },
		"listen_mode: \"01777\" is not":                                   func(c *Config) { c.ListenMode = "01777" },
		"listen_mode: \"\" is not":                                        func(c *Config) { c.ListenMode = "" },
		"tls: applies only to a listen of":                                func(c *Config) { c.Listen, c.TLS = "unix:/x", TLS{"c", "k"} },
		"admin.listen: \"unix:/x\" is not":                                func(c *Config) { c.Admin.Listen = "unix:/x" },
		"auth.tokens[1]:":                                                 func(c *Config) { c.Auth.Tokens = []string{"secret", " "} },
		"tls: cert and key":                                               func(c *Config) { c.TLS.Cert = "c" },
		"upstream: client_cert":                                           func(c *Config) { c.Upstream.ClientKey = "k" },
		"upstream.pass_headers: \"a b\" is not a header name":             func(c *Config) { c.Upstream.PassHeaders = []string{"a b"} },
		"upstream.pass_headers: \"RateLimit*\" is not a header name":      func(c *Config) { c.Upstream.PassHeaders = []string{"RateLimit*"} },
		"upstream.pass_headers: set-cookie is never passed":               func(c *Config) { c.Upstream.PassHeaders = []string{"set-cookie"} },
		"upstream.pass_headers: Access-Control-Allow-Origin is never":     func(c *Config) { c.Upstream.PassHeaders = []string{"Access-Control-Allow-Origin"} },
		"upstream.pass_headers: content-type is never passed":             func(c *Config) { c.Upstream.PassHeaders = []string{"content-type"} },
		"upstream.pass_headers: Mcp-Session-Id is never passed":           func(c *Config) { c.Upstream.PassHeaders = []string{"Mcp-Session-Id"} },
		"upstream.pass_headers: Transfer-Encoding is never passed":        func(c *Config) { c.Upstream.PassHeaders = []string{"Transfer-Encoding"} },
		"upstream.pass_headers: Clear-Site-Data is never passed":          func(c *Config) { c.Upstream.PassHeaders = []string{"Clear-Site-Data"} },
		"upstream.pass_headers: Strict-Transport-Security is never":       func(c *Config) { c.Upstream.PassHeaders = []string{"Strict-Transport-Security"} },
		"upstream.pass_headers: Retry-After is always passed":             func(c *Config) { c.Upstream.PassHeaders = []string{"Retry-After"} },
		"upstream.pass_headers: link occurs twice":                        func(c *Config) { c.Upstream.PassHeaders = []string{"Link", "link"} },
		"upstream.pass_headers: more than 50 names":                       func(c *Config) { c.Upstream.PassHeaders = make([]string, 51) },
		"upstream.cookies: \"sticky\" is not one of balancers, all, none": func(c *Config) { c.Upstream.Cookies = "sticky" },
		"upstream.transport: \"stdio\"":                                   func(c *Config) { c.Upstream.URL, c.Upstream.Transport = "http://a", "stdio" },
		"upstream.transport: \"sse\" applie":                              func(c *Config) { c.Upstream.Command, c.Upstream.Transport = []string{"a"}, "sse" },
		"credential_store: store needs":                                   func(c *Config) { c.CredentialStore = "store" },
		"session.max_age:":                                                func(c *Config) { c.Session.MaxAge = 0 },
		"heartbeat:":                                                      func(c *Config) { c.Heartbeat = -1 },
		"upstream: url and command":                                       func(c *Config) { c.Upstream.URL, c.Upstream.Command = "http://a", []string{"b"} },
		"upstream.url: missing host":                                      func(c *Config) { c.Upstream.URL = "http:///x" },
		"upstream.url: must begin":                                        func(c *Config) { c.Upstream.URL = "localhost:80" },
		"upstream.url: has no HTTP path":                                  func(c *Config) { c.Upstream.URL = "unix:/run/x.sock" },
		"upstream.url: has no absolute path":                              func(c *Config) { c.Upstream.URL = "unix:x.sock:/mcp" },
		"upstream.auth.type: login needs a":                               func(c *Config) { c.Upstream.URL, c.Upstream.Auth.Type = "unix:/x:/mcp", AuthLogin },
		"upstream.auth.type: client_crede": func(c *Config) {
			c.Upstream.URL, c.Upstream.Auth.Type, c.Upstream.Auth.ClientID, c.Upstream.Auth.ClientSecret = "unix:/x:/mcp", AuthClientCredentials, "a", "b"
		},
		"upstream.ca_file: applies only": func(c *Config) { c.Upstream.URL, c.Upstream.CAFile = "unix:/x:/mcp", "a" },
		"upstream.client_cert: applies only": func(c *Config) {
			c.Upstream.URL, c.Upstream.ClientCert, c.Upstream.ClientKey = "unix:/x:/mcp", "a", "b"
		},
		"oauth.old_clients: applies only": func(c *Config) { c.Upstream.URL, c.OAuth.OldClients = "unix:/x:/mcp", true },
		"oauth.rewrite: applies only": func(c *Config) {
			c.Upstream.URL, c.OAuth.Rewrite, c.OAuth.PublicURL = "unix:/x:/mcp", true, "https://a"
		},
		"oauth.paths: applies only":      func(c *Config) { c.Upstream.URL, c.OAuth.Paths = "unix:/x:/mcp", []string{"/login"} },
		"upstream.url: holds a password": func(c *Config) { c.Upstream.URL = "http://u:p@h/" },
		"upstream.command[0]:":           func(c *Config) { c.Upstream.Command = []string{""} },
		"upstream.headers.A: ":           func(c *Config) { c.Upstream.Headers = map[string]string{"A": "x\r\nsecret: y"} },
		"upstream.headers: ":             func(c *Config) { c.Upstream.Headers = map[string]string{"A:": "x"} },
		"upstream.version:":              func(c *Config) { c.Upstream.Version = "2027-01-01" },
		"upstream.version: 2026-07-28 is": func(c *Config) {
			c.Upstream.URL, c.Upstream.Transport, c.Upstream.Version = "http://a/", "sse", "2026-07-28"
		},
		"contract.tasks:":                                      func(c *Config) { c.Contract.Tasks = "x" },
		"bridge.default_log_level:":                            func(c *Config) { c.Bridge.DefaultLogLevel = "loud" },
		"footprint.drop: \"nonsense\" is not":                  func(c *Config) { c.Footprint.Drop = []string{"titles", "nonsense"} },
		"log.level:":                                           func(c *Config) { c.Log.Level = "loud" },
		"log.known_losses[1]: \"C99\" is no rule":              func(c *Config) { c.Log.KnownLosses = []string{"C05", "C99"} },
		"session.idle_timeout:":                                func(c *Config) { c.Session.IdleTimeout = 0 },
		"upstream.share_child:":                                func(c *Config) { c.Upstream.URL, c.Upstream.ShareChild = "http://a", true },
		"sse_path: \"/mcp/\" is taken":                         func(c *Config) { c.SSEPath = "/mcp/" },
		"sse_path: \"/ping\" is taken":                         func(c *Config) { c.SSEPath = "/ping" },
		"sse_path: \"sse\" does not begin with /":              func(c *Config) { c.SSEPath = "sse" },
		"sse_path: \"/sse\" is taken":                          func(c *Config) { c.Path = "/sse" },
		"path: \"/healthz\" is taken":                          func(c *Config) { c.Path = "/healthz" },
		"health_paths[0]: \"/mcp\" is taken":                   func(c *Config) { c.HealthPaths = []string{"/mcp"} },
		"health_paths[1]: \"/up\" is taken":                    func(c *Config) { c.HealthPaths = []string{"/up", "/up"} },
		"health_paths[0]: \"/events\" is taken":                func(c *Config) { c.SSEPath, c.HealthPaths = "/events", []string{"/events"} },
		"health_paths[0]: \"/up?x\" is not a path":             func(c *Config) { c.HealthPaths = []string{"/up?x"} },
		"health_paths[0]: \"/up/\" ends in a slash":            func(c *Config) { c.HealthPaths = []string{"/up/"} },
		"adapters.http_prefix: \"/api\" collides with /api/up": func(c *Config) { c.Adapters.HTTPPrefix, c.HealthPaths = "/api", []string{"/api/up"} },
		"upstream.restart.max:":                                func(c *Config) { c.Upstream.Restart.Max = -1 },
		"bridge.ttl:":                                          func(c *Config) { c.Bridge.TTL = -1 },
		"limits.replay:":                                       func(c *Config) { c.Limits.Replay = -1 },
		"upstream.connect_timeout:":                            func(c *Config) { c.Upstream.ConnectTimeout = 0 },
		"upstream.silence_timeout:":                            func(c *Config) { c.Upstream.SilenceTimeout = -1 },
		"upstream.unread_timeout:":                             func(c *Config) { c.Upstream.UnreadTimeout = -1 },
		"shutdown.drain:":                                      func(c *Config) { c.Shutdown.Drain = -1 },
		"upstream.headers.Authorization: ":                     func(c *Config) { c.Upstream.Headers = map[string]string{"Authorization": "s\n"} },
		"log.format:":                                          func(c *Config) { c.Log.Format = "xml" },
		"session.without:":                                     func(c *Config) { c.Session.Without = "x" },
		"upstream.keepalive:":                                  func(c *Config) { c.Upstream.KeepAlive = -1 },
	} {
		cfg := Default()
		change(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	cfg := Default()
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

// TestExampleOfTransformations checks that the transformations in the example are valid.
func TestExampleOfTransformations(t *testing.T) {
	text, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "#   transform:\n")
	section, _, more := strings.Cut(after, "\ntransform: null")
	if !ok || !more {
		t.Fatal("it is not there")
	}
	cfg := Default()
	uncommented := "transform:\n" + strings.ReplaceAll("\n"+section, "\n#   ", "\n")
	if err := cfg.decode(uncommented); err != nil {
		t.Fatalf("%v\n%s", err, uncommented)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	engine, err := transform.New(*cfg.Transform, transform.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Transform.Rules) != 1 || !engine.Touches("x", "list_issues") {
		t.Errorf("%+v", cfg.Transform)
	}
}

// TestMistakesKeepTheirOrder: settings that are maps are checked in the order of their names, so that two runs say the same.
func TestMistakesKeepTheirOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := "upstream: {url: 'http://h', headers: {'a b': x, 'c d': x, 'e f': x, 'g h': x}, auth: {params: {code: x, state: x, scope: x}}}\n" +
		"limits: {time: {one: {}, two: {}, three: {}, four: {}}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	first := ""
	for range 20 {
		_, err := Sources{File: file}.Read()
		if err == nil {
			t.Fatal("no mistake")
		}
		if first == "" {
			first = err.Error()
		}
		if err.Error() != first {
			t.Fatalf("once\n%s\nand then\n%s", first, err)
		}
	}
}

// TestFileIsBounded: a file that is no configuration, such as a device, is not read to its end.
func TestFileIsBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, bytes.Repeat([]byte("#\n"), maxSmall/2+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := (Sources{File: file}).Read(); err == nil || !strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Error(err)
	}
}

// TestATokenThatNoSettingRefersTo is noted, since a user may expect that clients need it.
func TestATokenThatNoSettingRefersTo(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		unused  bool
	}{
		"none":        {nil, false},
		"empty":       {[]string{"DRAGOMAN_TOKEN="}, false},
		"unused":      {[]string{"DRAGOMAN_TOKEN=secret"}, true},
		"other token": {[]string{"DRAGOMAN_TOKEN=secret", "DRAGOMAN_AUTH_TOKENS=t"}, true},
		"used":        {[]string{"DRAGOMAN_TOKEN=secret", "DRAGOMAN_AUTH_TOKENS=${DRAGOMAN_TOKEN}"}, false},
		"elsewhere":   {[]string{"DRAGOMAN_TOKEN=secret", "DRAGOMAN_UPSTREAM_HEADERS={Authorization: 'Bearer ${DRAGOMAN_TOKEN}'}"}, false},
	} {
		cfg, err := Sources{Environ: c.environ}.Read()
		if err != nil || cfg.Auth.Unused != c.unused {
			t.Errorf("%s: %v, %v", name, cfg.Auth.Unused, err)
		}
	}
}
