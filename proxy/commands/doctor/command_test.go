package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// answers is a shell command that answers each request: initialize, and the lists.
const answers = `while read line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
  *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}}';;
  *'"method":"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[]}}';;
  esac
done`

// TestCommands checks the lines about a command that is the server.
func TestCommands(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	t.Setenv("SOME_TOKEN", "canary-canary")
	t.Setenv("DRAGOMAN_DOCTOR_TEST", "x")
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	locked := script("locked", "#!/bin/sh\n", 0o600)
	bare := script("bare", "echo hello\n", 0o700)
	lost := script("lost", "#!/no/such/interpreter\n", 0o700)
	got := "info upstream.pass_env: it did not get the variables SOME_TOKEN*"
	withheld := "info upstream.pass_env: it did not get SOME_TOKEN → -e NAME if it needs one"
	for name, c := range map[string]struct {
		command []string
		want    []string // SH is the path of the shell, LINE the whole command
	}{
		"missing":        {[]string{"no-such-program", "x"}, []string{"FAIL upstream.command: no-such-program is not in PATH → install it, or write its whole path; PATH is " + os.Getenv("PATH")}},
		"missing path":   {[]string{dir + "/none"}, []string{"FAIL upstream.command: there is no LINE → correct the path, or install the program"}},
		"not executable": {[]string{locked}, []string{"FAIL upstream.command: LINE is not executable → chmod +x LINE"}},
		"no program":     {[]string{bare}, []string{"FAIL LINE: cannot be started: exec format error → if it is a script, its first line must name its program, such as #!/bin/sh; if not, it must be a program for *"}},
		"no interpreter": {[]string{lost}, []string{"FAIL LINE: cannot be started: no such file or directory → does the program that its first line (#!) names exist? start it by hand: LINE"}},
		"works":          {[]string{"sh", "-c", answers}, []string{"ok SH: starts", withheld, "ok LINE: answers"}},
		"banner": {[]string{"sh", "-c", "echo Starting up; echo; " + answers},
			[]string{"ok SH: starts", `warn LINE: its standard output has 1 line that is not JSON-RPC: "Starting up" → let the server write its log to standard error; dragoman skips such lines, many clients do not`, withheld, "ok LINE: answers"}},
		"exits": {[]string{"sh", "-c", "echo first >&2; echo SOME_TOKEN is missing >&2; exit 3"}, []string{
			"ok SH: starts", "FAIL LINE: it ended after *", "info standard error: first", "info standard error: SOME_TOKEN is missing", got,
		}},
		"exits with a trace": {[]string{"sh", "-c", "echo node:internal/modules:1207 >&2; echo \"Error: Cannot find module '/srv.js'\" >&2; for i in 1 2 3 4 5 6 7; do echo at $i >&2; done; echo Node.js v20.20.2 >&2; exit 1"}, []string{
			"ok SH: starts", "FAIL LINE: it ended after *", "info standard error: Error: Cannot find module '/srv.js'", "info standard error: at 1", "info standard error: at 2", "info standard error: at 3",
			"info standard error: at 4", "info standard error: at 5", "info standard error: at 6", "info standard error: at 7", "info standard error: Node.js v20.20.2", got,
		}},
		"exits silently": {[]string{"sh", "-c", "exit 0"}, []string{"ok SH: starts", "FAIL LINE: it ended after *", "info standard error: nothing", got}},
		"silent": {[]string{"sh", "-c", "while read l; do :; done"}, []string{
			"ok SH: starts",
			"FAIL LINE: no answer in 4.5s; its standard output is empty → is it an MCP server on stdio, and not on HTTP? If it is still being downloaded (npx, uvx), start it once by hand and try again", got,
		}},
		"only talk": {[]string{"sh", "-c", "echo Welcome; echo ready; echo trouble >&2; while read l; do :; done"}, []string{
			"ok SH: starts",
			`FAIL LINE: no answer in 4.5s; its standard output has 2 lines that are not JSON-RPC: "Welcome", "ready" → is this command an MCP server on stdio? its stdout must hold JSON-RPC alone`,
			"info standard error: trouble", got,
		}},
		"on HTTP": {[]string{"sh", "-c", "echo Listening on port 3000 >&2; while read l; do :; done"}, []string{
			"ok SH: starts",
			"FAIL LINE: no answer in 4.5s; its standard output is empty → it seems to listen for HTTP: start it without the option for that, or by itself, and give dragoman its URL",
			"info standard error: Listening on port 3000", got,
		}},
		"broken JSON": {[]string{"sh", "-c", `read l; echo '{"jsonrpc":'; while read l; do :; done`}, []string{
			"ok SH: starts", `FAIL LINE: its answer is not JSON-RPC: {"jsonrpc": → is this command an MCP server on stdio? its stdout must hold JSON-RPC alone`,
		}},
		"over several lines": {[]string{"sh", "-c", `read l; id=${l##*'"id":'}; printf '{\n  "jsonrpc": "2.0",\n  "id": %s,\n  "result": {}\n}\n' "${id%%[,\}]*}"; while read l; do :; done`}, []string{
			"ok SH: starts", `FAIL LINE: it has printed a message over the lines 1 to 5 of its standard output, where each must be on one line, without indentation: { "jsonrpc": "2.0", "id": 1, "result": {} } → is this command an MCP server on stdio? its stdout must hold JSON-RPC alone`,
		}},
		"another id": {[]string{"sh", "-c", `read l; echo '{"jsonrpc":"2.0","id":77,"result":{}}'; while read l; do :; done`}, []string{
			"ok SH: starts", "FAIL LINE: it wrote messages but answered initialize with none in 4.5s → is it an MCP server? its own log says more",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := with(func(cfg *config.Config) { cfg.Upstream.Command = c.command })
			if strings.Contains(strings.Join(c.want, ""), "4.5s") {
				o.CheckTime = 5 * time.Second
				t.Parallel()
			}
			lines := examine(t, o, "command")
			if len(lines) > 0 && strings.HasPrefix(lines[0], "ok ") {
				lines[0] = "ok SH: starts"
			}
			place := strings.Join(strings.Fields(strings.Join(config.SafeCommand(c.command), " ")), " ")
			for i := range lines {
				lines[i] = strings.ReplaceAll(strings.Join(strings.Fields(lines[i]), " "), place, "LINE")
			}
			want(t, lines, c.want...)
			if text := strings.Join(lines, "\n"); strings.Contains(text, "canary") || strings.Contains(text, "DRAGOMAN_DOCTOR_TEST") {
				t.Error(text)
			}
		})
	}
}

// TestExitCodeIsShown checks the text about a process that has ended, whose time varies.
func TestExitCodeIsShown(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	lines := examine(t, with(func(c *config.Config) { c.Upstream.Command = []string{"sh", "-c", "exit 3"} }), "command")
	if text := strings.Join(lines, "\n"); !strings.Contains(text, " without an answer (exit status 3) → its standard error, below, says why; or start it by hand") {
		t.Error(text)
	}
}

// TestSessionWithACommand runs all checks of a command up to the lists.
func TestSessionWithACommand(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a shell")
	}
	r := Run(t.Context(), with(func(c *config.Config) { c.Upstream.Command = []string{"sh", "-c", answers} }))
	var got []string
	for _, l := range r.Lines {
		if l.Check == "protocol" || l.Check == "lists" {
			l.Where = ""
			got = append(got, textOf(l))
		}
	}
	if len(got) > 0 && strings.HasSuffix(got[0], " after its start") {
		got[0], _, _ = strings.Cut(got[0], ", answered")
	}
	want(t, got, "ok revision 2025-06-18, with a handshake", "info the server is shell 1", "info capabilities: tools", "ok two calls are answered", "ok tools: 0, 0 bytes, 0 tokens")
	if r.Exit != ExitFine {
		t.Errorf("exit %d: %v", r.Exit, fmt.Sprint(r.Lines))
	}
}
