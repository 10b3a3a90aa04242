package doctor

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

func fileWith(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestMistakesOfAConfiguration checks that every mistake has a line, with its place and what to do.
func TestMistakesOfAConfiguration(t *testing.T) {
	path := fileWith(t, "c.yaml", `limts: {}
messages_path: /x
heartbeat: 10
session: {max: many}
upstream: {url: "127.0.0.1:3000/mcp", headers: {Authorization: "Bearer ${NOT_SET}"}}
`, 0o600)
	r := CheckConfiguration(t.Context(), Options{Sources: config.Sources{File: path, Environ: []string{"DRAGOMAN_LISTN=1", "DRAGOMAN_LIMITS_BATCH=7"}}})
	var got []string
	for _, l := range r.Lines {
		got = append(got, textOf(l))
	}
	want(t, got,
		"FAIL "+path+":1: limts: unknown setting → did you mean limits?",
		"FAIL "+path+":2: messages_path: this setting was removed → remove it: it is always /messages",
		"FAIL "+path+":3: heartbeat: expected a duration such as 10s, 5m or 1h30m → did you mean 10s?",
		"FAIL "+path+":4: session.max: expected a whole number",
		"FAIL "+path+":5: upstream.headers.Authorization: environment variable NOT_SET is not set",
		"FAIL "+path+":5: upstream.url: is not a URL → did you mean http://127.0.0.1:3000/mcp?",
		"FAIL DRAGOMAN_LIMITS_BATCH: this setting was removed → remove it: it is always 100",
		"FAIL DRAGOMAN_LISTN: no setting has this variable → did you mean DRAGOMAN_LISTEN?",
	)
	if r.Exit != ExitConfiguration {
		t.Errorf("exit %d", r.Exit)
	}
}

// TestHeadersThatNameAVariable: a variable without braces is not replaced.
func TestHeadersThatNameAVariable(t *testing.T) {
	path := fileWith(t, "c.yaml", "upstream: {url: 'http://127.0.0.1:1/mcp', headers: {Authorization: 'Bearer $TOKEN'}}\n", 0o600)
	r := CheckConfiguration(t.Context(), Options{Sources: config.Sources{File: path}})
	if r.Exit != 0 || len(r.Lines) == 0 || textOf(r.Lines[0]) != "warn upstream.headers.Authorization: TOKEN has no braces: it is sent as it is → write ${TOKEN}" {
		t.Errorf("%+v", r)
	}
}

func TestCheckOfAConfigurationAlone(t *testing.T) {
	path := fileWith(t, "c.yaml", "transform: {default_max_tokens: 500}\n", 0o600)
	r := CheckConfiguration(t.Context(), Options{Sources: config.Sources{File: path}})
	if r.Exit != 0 || len(r.Lines) != 1 || textOf(r.Lines[0]) != "ok "+path+": no mistakes" {
		t.Errorf("%+v", r)
	}
	r = CheckConfiguration(t.Context(), Options{Sources: config.Sources{File: path, Environ: []string{"DRAGOMAN_TOKEN=secret"}}})
	if r.Exit != 0 || len(r.Lines) != 2 || textOf(r.Lines[0]) != "warn DRAGOMAN_TOKEN: DRAGOMAN_TOKEN is set, but no setting refers to it: it is ignored → "+config.UseOfToken {
		t.Errorf("%+v", r)
	}
	r = CheckConfiguration(t.Context(), Options{Sources: config.Sources{File: path + "x"}})
	if r.Exit != ExitConfiguration || len(r.Lines) != 1 || r.Lines[0].Mark != Fail {
		t.Errorf("%+v", r)
	}
}

// TestAConfigurationOfAClient is one mistake, whose advice names its servers on one line.
func TestAConfigurationOfAClient(t *testing.T) {
	path := fileWith(t, "mcp.json", `{"mcpServers": {"a": {"url": "http://a/"}, "b": {"command": "npx"}, "c": {"url": "http://c/"}}}`, 0o600)
	r := CheckConfiguration(t.Context(), Options{Sources: config.Sources{File: path, Server: new("")}})
	if r.Exit != ExitConfiguration || len(r.Lines) != 1 {
		t.Fatalf("%+v", r)
	}
	want(t, []string{textOf(r.Lines[0])}, "FAIL "+path+": has 3 servers → choose one: --server NAME, which is one of a b c")
}

// TestFilesOfAConfiguration checks the files that settings name.
func TestFilesOfAConfiguration(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have other modes there")
	}
	open, private := fileWith(t, "token", "t", 0o644), fileWith(t, "key", "k", 0o600)
	none := filepath.Join(t.TempDir(), "none")
	noServer := "warn upstream: no server is named → dragoman doctor URL, or dragoman doctor -- COMMAND; in a file upstream.url or upstream.command"
	fine := "ok no mistakes; there is no file (--config FILE), only the defaults, variables and the command line"
	for name, c := range map[string]struct {
		change func(*config.Config)
		want   []string
	}{
		"nothing":  {func(*config.Config) {}, []string{noServer, fine}},
		"server":   {func(c *config.Config) { c.Upstream.URL = "http://x/" }, []string{fine}},
		"adapters": {func(c *config.Config) { c.Adapters.Sources = []string{filepath.Dir(open)} }, []string{fine}},
		"private":  {func(c *config.Config) { c.Session.KeyFile = private }, []string{noServer, fine}},
		"readable by all": {func(c *config.Config) { c.Auth.TokenFile = open }, []string{
			"warn " + open + ": auth.token_file: " + open + " has mode 0644: other users of this machine can read it → chmod 600 " + open + "; in Kubernetes defaultMode: 0400 or 0440 of the volume",
			noServer, fine,
		}},
		"missing":         {func(c *config.Config) { c.TLS = config.TLS{Cert: open, Key: none} }, []string{"FAIL " + none + ": tls.key: there is no " + none + " → create it, or correct the path", noServer}},
		"missing adapter": {func(c *config.Config) { c.Adapters.Sources = []string{none} }, []string{"FAIL " + none + ": adapters.sources[0]: there is no " + none + " → create it, or correct the path"}},
		"no certificate": {func(c *config.Config) { c.Upstream.CAFile = open }, []string{
			"FAIL " + open + ": upstream.ca_file: no certificate in " + open + " → it must hold certificates in PEM form, which begin with -----BEGIN CERTIFICATE-----", noServer,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := newExam(with(c.change))
			e.do(t.Context(), checks()[1])
			var got []string
			for _, l := range e.lines {
				got = append(got, textOf(l))
			}
			want(t, got, c.want...)
		})
	}
}

// TestEnvironment checks the lines about what the machine gives.
func TestEnvironment(t *testing.T) {
	at, err := url.Parse("https://mcp.example.com/mcp")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HTTPS_PROXY", "http://user:canary@proxy.example:3128")
	through := func(u string) func(*url.URL) (*url.URL, error) {
		return func(*url.URL) (*url.URL, error) {
			if u == "" {
				return nil, nil
			}
			return url.Parse(u)
		}
	}
	held := func(c *config.Config) { c.Limits.InHand = 512 << 20 }
	for name, c := range map[string]struct {
		do   func(*exam)
		want string
	}{
		"few files":   {func(e *exam) { e.openFiles(1024) }, "warn ulimit -n: 1,024 open files are allowed, enough for about 306 clients at a time → for more clients raise it to 20,000: ulimit -n 20000, LimitNOFILE=20000 in a systemd unit"},
		"many files":  {func(e *exam) { e.openFiles(1 << 20) }, "ok 1,048,576 open files are allowed"},
		"no limit":    {func(e *exam) { e.memory(0) }, "ok no memory limit; messages may take 512 MiB (limits.in_hand)"},
		"large limit": {func(e *exam) { e.memory(2 << 30) }, "ok memory limit 2 GiB, of which messages may take 512 MiB (limits.in_hand)"},
		"small limit": {func(e *exam) { e.memory(256 << 20) }, "warn limits.in_hand: limits.in_hand is 512 MiB, and the memory limit of the control group 256 MiB: the process may be killed → limits.in_hand: 128MiB, or a memory limit of 1 GiB"},
		"proxy":       {func(e *exam) { e.webProxy(at, through("http://user:canary@proxy.example:3128")) }, "info HTTPS_PROXY: requests to the server go through the proxy http://proxy.example:3128 → NO_PROXY=mcp.example.com excepts the server"},
		"excepted":    {func(e *exam) { e.webProxy(at, through("")) }, "info NO_PROXY: HTTPS_PROXY is set; requests to mcp.example.com do not use it"},
		"proxy is down": {func(e *exam) {
			e.CheckTime = time.Second
			e.reach(t.Context(), &url.URL{Scheme: "http", Host: "127.0.0.1:1"}, at)
		},
			"FAIL 127.0.0.1:1: connection refused → correct the proxy in HTTPS_PROXY, or NO_PROXY=mcp.example.com if the server can be reached without it"},
		"proxy is bad": {func(e *exam) { e.webProxy(at, through("http://[")) }, "FAIL HTTPS_PROXY: the proxy in HTTPS_PROXY is not a URL → write http://HOST:PORT"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newExam(Options{})
			e.cfg = config.Default()
			held(&e.cfg)
			c.do(e)
			want(t, []string{textOf(e.lines[0])}, c.want)
		})
	}
}

// TestClockOfTheServer compares clocks by the Date of any response.
func TestClockOfTheServer(t *testing.T) {
	for ahead, wanted := range map[time.Duration]string{
		0:                "ok HOST: the clock of the server agrees with that of this machine",
		time.Hour:        "warn HOST: the clock of the server is 1h0m*",
		-2 * time.Minute: "warn HOST: the clock of the server is *",
	} {
		addr := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodHead || r.URL.Path != "/" || r.Header.Get("Authorization") != "" || r.URL.RawQuery != "" {
				t.Errorf("%s %s with %v", r.Method, r.URL, r.Header)
			}
			w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusMethodNotAllowed)
		}))
		got := examine(t, with(func(c *config.Config) {
			c.Upstream.URL, c.Upstream.Headers = "http://"+addr+"/mcp?key=k", map[string]string{"Authorization": "Bearer x"}
		}), "environment")
		want(t, got[len(got)-1:], replaceHost(wanted, addr))
	}
}
