package command

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// theirs is a process that writes its environment to a file and ends.
const theirs = `{ env; pwd; } > "$0.part" && mv "$0.part" "$0"; exit 1`

// TestACommandGetsTheEnvironment: a command on the line gets what it would get without dragoman before it, but no secret of dragoman's
// own; one in a file gets a few variables. -e adds, --pass-env narrows.
func TestACommandGetsTheEnvironment(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	dir := t.TempDir()
	secrets := filepath.Join(dir, "secrets.yaml")
	write(t, secrets, "listen: 127.0.0.1:0\nauth: {tokens: ['${OURS_SECRET}']}\nupstream: {env: {DATA: '${HOME}/x', COPY: '${SOURCE}'}}\nadapters: {sources: ["+dir+"]}\n")
	write(t, filepath.Join(dir, "x-adapter.md"), strings.Replace(adapterFile("https://notes.test", ""), "NOTES_TOKEN", "ADAPTER_SECRET", 1))
	const all = "HOME GITHUB_TOKEN OURS_SECRET ADAPTER_SECRET SOURCE LISTEN_ADDR "
	narrow := filepath.Join(dir, "narrow.yaml")
	write(t, narrow, "upstream: {pass_env: [PATH, SOURCE]}\n")
	for name, c := range map[string]struct{ args, want string }{
		"narrowed by a file":            {"probe --config " + narrow + " --", "SOURCE "},
		"narrowed by a file over stdio": {"stdio --config " + narrow + " --", "SOURCE "},
		"serve":                         {"serve --listen 127.0.0.1:0 --", all},
		"probe":                         {"probe --", all},
		"footprint":                     {"footprint --", all},
		"doctor":                        {"doctor --listen 127.0.0.1:0 --", all},
		"stdio":                         {"stdio --", all},
		"narrowed":                      {"probe --pass-env SOURCE --", "HOME SOURCE "},
		"all by name":                   {"probe --pass-env * --", all},
		"secrets":                       {"probe --config " + secrets + " --", "HOME GITHUB_TOKEN SOURCE LISTEN_ADDR DATA COPY "},
		"secrets over stdio":            {"stdio --config " + secrets + " --", "HOME GITHUB_TOKEN SOURCE LISTEN_ADDR DATA COPY "},
		"a secret by -e":                {"probe --config " + secrets + " -e OURS_SECRET --env ADAPTER_SECRET --", all + "DATA COPY "},
		"a secret by name":              {"probe --config " + secrets + " --pass-env OURS_SECRET --", "HOME OURS_SECRET DATA COPY "},
		"of the service":                {"probe -e NOTIFY_SOCKET -e OTEL_EXPORTER_OTLP_HEADERS --", all + "NOTIFY_SOCKET OTEL_EXPORTER_OTLP_HEADERS "},
		"as it is":                      {"probe -e PLAIN=a${b}c=d --", all + "PLAIN=a${b}c=d "},
		"over dragoman's own":           {"probe -e GITHUB_TOKEN=x --", all + "GITHUB_TOKEN=x "},
		"in a folder":                   {"probe --cwd " + dir + " --", all + "PWD=" + dir + " "},
		"in a file":                     {"probe --config", "HOME "},
		"in a file over stdio":          {"stdio --config", all},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "env")
			args := strings.Fields(c.args)
			if args[len(args)-1] == "--config" {
				write(t, file+".yaml", "upstream: {command: [sh, -c, '"+theirs+"', "+file+"]}\n")
				args = append(args, file+".yaml")
			} else {
				args = append(args, "sh", "-c", theirs, file)
			}
			p := startProcess(t, func(cmd *exec.Cmd) {
				cmd.Env = append(slices.DeleteFunc(cmd.Env, func(v string) bool { return strings.HasPrefix(v, "PWD=") }), "HOME="+dir, "GITHUB_TOKEN=g", "OURS_SECRET=ours-ours-ours-ours", "ADAPTER_SECRET=a", "SOURCE=s", "LISTEN_ADDR=l", "LISTEN_FDS=0",
					"CREDENTIALS_DIRECTORY=/none", "NOTIFY_SOCKET=/none", "OTEL_EXPORTER_OTLP_HEADERS=k=canary", "DRAGOMAN_SESSION_MAX=5")
			}, args...)
			const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
			switch args[0] {
			case "serve":
				res, err := http.Post(p.runs(t), "application/json", strings.NewReader(hello))
				if err != nil {
					t.Fatal(err)
				}
				res.Body.Close()
			case "stdio":
				p.in.Write([]byte(hello + "\n"))
			}
			var env []byte
			peertest.Eventually(t, "the server has started", func() bool {
				env, _ = os.ReadFile(file)
				return len(env) > 0
			})
			lines := strings.Split(string(env), "\n")
			for _, name := range append(strings.Fields(all), "DATA", "COPY", "LISTEN_FDS", "CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "OTEL_EXPORTER_OTLP_HEADERS", "DRAGOMAN_SESSION_MAX") {
				has := slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, name+"=") })
				if has != strings.Contains(" "+strings.ReplaceAll(c.want, "=", " "), " "+name+" ") {
					t.Errorf("%s: %v", name, has)
				}
			}
			for _, pair := range strings.Fields(c.want) {
				if strings.Contains(pair, "=") && !slices.Contains(lines, pair) {
					t.Errorf("no %s in %q", pair, lines)
				}
			}
		})
	}
}
