package proxy

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
)

const example = "../deploy/config.example.yaml"

func TestExampleShowsTheDefaults(t *testing.T) {
	var cfg Config
	if err := cfg.Load(example); err != nil {
		t.Fatal(err)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	want := map[string]any{}
	defaults := DefaultConfig()
	defaults.keys(func(path string, v reflect.Value) error {
		want[path] = v.Interface()
		return nil
	})
	cfg.keys(func(path string, v reflect.Value) error {
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
	cfg.keys(func(path string, _ reflect.Value) error {
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

func TestConfigFile(t *testing.T) {
	for _, c := range []struct {
		text, fault string
	}{
		{"", ""},
		{"# nothing\n", ""},
		{"limits:\n  batch: 7\n", ""},
		{"limits:\n  batch: 7\n  bach: 8\n", "line 3: unknown key limits.bach"},
		{"contract:\n  task: bridge\n", "line 2: unknown key contract.task"},
		{"listn: x\n", "line 1: unknown key listn"},
		{"limits:\n  time:\n    ping: {silence: 1s}\n", ""},
		{"limits:\n  time:\n    ping: {silent: 1s}\n", "line 3: unknown key limits.time.ping.silent"},
		{"limits:\n  batch: many\n", "line 2"},
		{"limits:\n  client_message: 10Mib\n", `line 2: "10Mib" is not a size`},
		{"limits:\n  client_message: -1\n", "is not a size"},
		{"heartbeat: 5\n---\nheartbeat: 6\n", "more than one document"},
		{"a: [\n", "yaml"},
		{"- a\n", "cannot unmarshal"},
	} {
		file := filepath.Join(t.TempDir(), "dragoman.yaml")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg := DefaultConfig()
		err := cfg.Load(file)
		if c.fault == "" {
			if err != nil {
				t.Errorf("%q: %v", c.text, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.fault) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v; want %q", c.text, err, c.fault)
		}
	}
}

func TestFileLeavesOtherDefaults(t *testing.T) {
	cfg := DefaultConfig()
	if err := cfg.decode([]byte("limits:\n  client_message: 64KiB\ncontract:\n  keep_meta: true\n")); err != nil {
		t.Fatal(err)
	}
	if cfg.Limits.ClientMessage != 64<<10 || cfg.Limits.Batch != 100 || !cfg.Contract.KeepMeta || cfg.Contract.StripMode != "strict" {
		t.Errorf("%+v", cfg)
	}
}

func TestEnvironmentStandsAboveTheFile(t *testing.T) {
	cfg := DefaultConfig()
	env := map[string]string{
		"DRAGOMAN_LIMITS_BATCH":                    "7",
		"DRAGOMAN_LIMITS_CLIENT_MESSAGE":           "1MiB",
		"DRAGOMAN_CONTRACT_RESOURCE_CONTENTS_NAME": "off",
		"DRAGOMAN_CONTRACT_KEEP_META":              "true",
		"DRAGOMAN_UPSTREAM_COMMAND":                "[a, b]",
		"DRAGOMAN_UPSTREAM_VERSION":                "2024-11-05",
		"DRAGOMAN_SHUTDOWN_DRAIN":                  "3s",
	}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if err := cfg.LoadEnv(lookup); err != nil {
		t.Fatal(err)
	}
	if cfg.Limits.Batch != 7 || cfg.Limits.ClientMessage != 1<<20 || cfg.Contract.ResourceContentsName != "off" || !cfg.Contract.KeepMeta ||
		!reflect.DeepEqual(cfg.Upstream.Command, []string{"a", "b"}) || cfg.Upstream.Version != "2024-11-05" || cfg.Shutdown.Drain != 3*time.Second {
		t.Errorf("%+v", cfg)
	}
	env["DRAGOMAN_LIMITS_BATCH"] = "secret"
	if err := cfg.LoadEnv(lookup); err == nil || !strings.Contains(err.Error(), "DRAGOMAN_LIMITS_BATCH") || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestExpand(t *testing.T) {
	lookup := func(name string) (string, bool) { return "se$cret", name == "TOKEN" }
	for in, want := range map[string]string{
		"Bearer ${TOKEN}": "Bearer se$cret", "$TOKEN": "$TOKEN", "${TOKEN}${TOKEN}": "se$cretse$cret", "": "",
	} {
		cfg := DefaultConfig()
		cfg.Upstream.Headers = map[string]string{"Authorization": in}
		if err := cfg.Expand(lookup); err != nil || cfg.Upstream.Headers["Authorization"] != want {
			t.Errorf("%q: %q, %v", in, cfg.Upstream.Headers, err)
		}
	}
	for in, fault := range map[string]string{"x ${OTHER}": "OTHER is not set", "x ${TOKEN": "without }"} {
		cfg := DefaultConfig()
		cfg.Upstream.Env = map[string]string{"A": in}
		if err := cfg.Expand(lookup); err == nil || !strings.Contains(err.Error(), fault) || !strings.Contains(err.Error(), "upstream.env.A") {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestValidateNamesThePath(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"listen:":                            func(c *Config) { c.Listen = "8808" },
		"gates[1].tool: is needed":           func(c *Config) { c.Gates = []GateConfig{goodGate, {}} },
		"gates[0].match: is needed":          func(c *Config) { g := goodGate; g.Match = nil; c.Gates = []GateConfig{g} },
		"gates[0].on_unavailable:":           func(c *Config) { g := goodGate; g.OnUnavailable = "maybe"; c.Gates = []GateConfig{g} },
		"gates[0].error_code:":               func(c *Config) { g := goodGate; g.ErrorCode = "Not OK"; c.Gates = []GateConfig{g} },
		"gates[0].timeout:":                  func(c *Config) { g := goodGate; g.Timeout = time.Hour; c.Gates = []GateConfig{g} },
		"adapters.mode:":                     func(c *Config) { c.Adapters.Mode = "many" },
		"adapters.tools: \"own\"":            func(c *Config) { c.Adapters.Tools = "own" },
		"adapters.sources[1]: is empty":      func(c *Config) { c.Adapters.Sources = []string{"a", ""} },
		"adapters.http_prefix: \"/mcp\" col": func(c *Config) { c.Adapters.HTTPPrefix = "/mcp" },
		"adapters.http_prefix: \"/a\" coll":  func(c *Config) { c.Adapters.HTTPPrefix, c.SSEPath = "/a", "/a/sse" },
		"adapters.http_prefix: \"/a/\"":      func(c *Config) { c.Adapters.HTTPPrefix = "/a/" },
		"adapters.max_request: 1 is":         func(c *Config) { c.Adapters.MaxRequest = 1 },
		"adapters.max_response:":             func(c *Config) { c.Adapters.MaxResponse = 101 << 20 },
		"adapters.description_size:":         func(c *Config) { c.Adapters.DescriptionSize = 10 },
		"adapters.trust.enforce:":            func(c *Config) { c.Adapters.Trust.Enforce = "always" },
		"adapters.errors.shape:":             func(c *Config) { c.Adapters.Errors.Shape = "x" },
		"adapters.confirm:":                  func(c *Config) { c.Adapters.Confirm.Destructive, c.Adapters.Confirm.Never = true, true },
		"path:":                              func(c *Config) { c.Path = "mcp" },
		"path: \"/metrics\"":                 func(c *Config) { c.Path = "/metrics" },
		"limits.time.tool/call:":             func(c *Config) { c.Limits.Time = map[string]TimeLimit{"tool/call": {}} },
		"limits.time.ping: must":             func(c *Config) { c.Limits.Time = map[string]TimeLimit{"ping": {Silence: -1}} },
		"sse_path: \"/mcp\" is taken":        func(c *Config) { c.SSEPath = "/mcp" },
		"messages_path:":                     func(c *Config) { c.MessagesPath = "m" },
		"admin.listen:":                      func(c *Config) { c.Admin.Listen = "8809" },
		"auth.tokens[1]:":                    func(c *Config) { c.Auth.Tokens = []string{"secret", " "} },
		"tls: cert and key":                  func(c *Config) { c.TLS.Cert = "c" },
		"upstream: client_cert":              func(c *Config) { c.Upstream.ClientKey = "k" },
		"upstream.transport: \"stdio\"":      func(c *Config) { c.Upstream.URL, c.Upstream.Transport = "http://a", "stdio" },
		"upstream.transport: \"sse\" is for": func(c *Config) { c.Upstream.Command, c.Upstream.Transport = []string{"a"}, "sse" },
		"session.max_age:":                   func(c *Config) { c.Session.MaxAge = 0 },
		"heartbeat:":                         func(c *Config) { c.Heartbeat = -1 },
		"upstream: url and command":          func(c *Config) { c.Upstream.URL, c.Upstream.Command = "http://a", []string{"b"} },
		"upstream.url: missing host":         func(c *Config) { c.Upstream.URL = "http:///x" },
		"upstream.url: must begin":           func(c *Config) { c.Upstream.URL = "localhost:80" },
		"upstream.url: holds a password":     func(c *Config) { c.Upstream.URL = "http://u:p@h/" },
		"upstream.command[0]:":               func(c *Config) { c.Upstream.Command = []string{""} },
		"upstream.headers.A: ":               func(c *Config) { c.Upstream.Headers = map[string]string{"A": "x\r\nsecret: y"} },
		"upstream.headers: ":                 func(c *Config) { c.Upstream.Headers = map[string]string{"A:": "x"} },
		"upstream.version:":                  func(c *Config) { c.Upstream.Version = "2027-01-01" },
		"upstream.version: 2026-07-28 is": func(c *Config) {
			c.Upstream.URL, c.Upstream.Transport, c.Upstream.Version = "http://a/", "sse", "2026-07-28"
		},
		"contract.strip_mode:":             func(c *Config) { c.Contract.StripMode = "x" },
		"contract.completions_for_24:":     func(c *Config) { c.Contract.CompletionsFor24 = "x" },
		"bridge.peers: replicas know":      func(c *Config) { c.Bridge.Peers = []string{"a:1"} },
		"bridge.peers[1]: \"b\" is not":    func(c *Config) { c.Session.KeyFile, c.Bridge.Peers = "k", []string{"a:1", "b"} },
		"bridge.peers[0]: \":1\" is not":   func(c *Config) { c.Session.KeyFile, c.Bridge.Peers = "k", []string{":1"} },
		"bridge.peers[0]: \"a:http\" is":   func(c *Config) { c.Session.KeyFile, c.Bridge.Peers = "k", []string{"a:http"} },
		"bridge.peers[0]: \"u@a:1\" is":    func(c *Config) { c.Session.KeyFile, c.Bridge.Peers = "k", []string{"u@a:1"} },
		"bridge.peers: more than":          func(c *Config) { c.Session.KeyFile, c.Bridge.Peers = "k", make([]string, maxPeers+1) },
		"bridge.default_log_level:":        func(c *Config) { c.Bridge.DefaultLogLevel = "loud" },
		"log.level:":                       func(c *Config) { c.Log.Level = "loud" },
		"log.losses:":                      func(c *Config) { c.Log.Losses = "x" },
		"limits.batch:":                    func(c *Config) { c.Limits.Batch = 0 },
		"session.idle_timeout:":            func(c *Config) { c.Session.IdleTimeout = 0 },
		"upstream.share_child:":            func(c *Config) { c.Upstream.URL, c.Upstream.ShareChild = "http://a", true },
		"upstream.restart:":                func(c *Config) { c.Upstream.Restart.MaxWait = 0 },
		"limits.replay:":                   func(c *Config) { c.Limits.Replay = -1 },
		"limits.replay_time:":              func(c *Config) { c.Limits.ReplayTime = 0 },
		"upstream.silence_timeout:":        func(c *Config) { c.Upstream.SilenceTimeout = -1 },
		"shutdown.drain:":                  func(c *Config) { c.Shutdown.Drain = -1 },
		"upstream.headers.Authorization: ": func(c *Config) { c.Upstream.Headers = map[string]string{"Authorization": "s\n"} },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	cfg := DefaultConfig()
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
}

func TestChildGetsOnlyWhatItMay(t *testing.T) {
	ours := []string{"PATH=/bin", "SECRET=1", "DRAGOMAN_UPSTREAM_URL=x", "Path=C:"}
	got := childEnv(UpstreamConfig{PassEnv: []string{"PATH"}, Env: map[string]string{"KEY": "k"}}, ours)
	if want := []string{"PATH=/bin", "Path=C:", "KEY=k"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
	got = childEnv(UpstreamConfig{PassEnv: []string{"*"}}, ours)
	if want := []string{"PATH=/bin", "SECRET=1", "Path=C:"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestExampleOfTransformations: what stands there as an example can be used.
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
	cfg := DefaultConfig()
	uncommented := "transform:\n" + strings.ReplaceAll("\n"+section, "\n#   ", "\n")
	if err := cfg.decode([]byte(uncommented)); err != nil {
		t.Fatalf("%v\n%s", err, uncommented)
	}
	if err := cfg.Validate(); err != nil {
		t.Error(err)
	}
	s, err := newShaping(cfg, nil, nil, nil)
	if err != nil || s == nil {
		t.Fatal(err)
	}
	if len(cfg.Transform.Rules) != 1 || !s.engine.Touches("x", "list_issues") {
		t.Errorf("%+v", cfg.Transform)
	}
}
