package command

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/doctor"
)

// TestDoctorExamines runs the whole examination against a server: dragoman itself stands between.
func TestDoctorExamines(t *testing.T) {
	const tools = `{"name":"a","title":"A","inputSchema":{"type":"object"}}`
	at := probed(t, tools)
	out, _, err := run(t.Context(), "", "doctor", "--listen", "127.0.0.1:0", at)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"version\n        dragoman ", "\n  ok    " + at + ": answers over Streamable HTTP\n", "\n        the server is s 2\n",
		"\n        clients of 2025-03-26 get everything; changed or left out: C01 title (tool a)\n",
		"through dragoman\n  ok    a client of 2025-11-25 gets the same lists; ", `{"mcpServers": {"s": {"command": "`, "\nfine",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	out, _, err = run(t.Context(), "", "doctor", "--json", "--listen", "127.0.0.1:0", at)
	var r doctor.Report
	if e := json.Unmarshal([]byte(out), &r); e != nil || err != nil || r.Exit != 0 || len(r.Lines) < 10 || r.Lines[0].Check != "version" {
		t.Errorf("%v, %v: %s", e, err, out)
	}
}

func TestDoctorsExitCodes(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	write(t, bad, "listn: x\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"doctor", "--listen", "127.0.0.1:0"}, 0, "warn  upstream: no server is named"},
		{[]string{"doctor", "--config", bad}, doctor.ExitConfiguration, "bad.yaml:1: listn: unknown setting\n        → did you mean listen?"},
		{[]string{"doctor", "http://127.0.0.1:1/"}, doctor.ExitServer, "http, protocol, lists, through dragoman, clients\n  skip  not checked, because \"network\" failed"},
		{[]string{"doctor", "cat"}, doctor.ExitConfiguration, "write -- before the server's command"},
		{[]string{"config", "check", bad}, doctor.ExitConfiguration, "bad.yaml:1: listn: unknown setting"},
		{[]string{"config", "check", "--json", bad}, doctor.ExitConfiguration, `"what": "listn: unknown setting"`},
		{[]string{"config", "check"}, 0, "ok    no mistakes"},
	} {
		out, _, err := run(t.Context(), "", c.args...)
		if exitCode(err) != c.code || !strings.Contains(out, c.want) {
			t.Errorf("%q: exit code %d (%v), want %d and %q in\n%s", c.args, exitCode(err), err, c.code, c.want, out)
		}
	}
}

// TestDoctorCallsATool checks that the argument after the name of the tool is not taken for the server.
func TestDoctorCallsATool(t *testing.T) {
	out, _, err := run(t.Context(), "", "doctor", "--listen", "127.0.0.1:0", probed(t, ""), "--call", "a", `{"x": 1}`)
	if want := "call\n  ok    a: answered in "; err != nil || !strings.Contains(out, want) {
		t.Errorf("%v\n%s", err, out)
	}
	if runtime.GOOS == "windows" {
		return
	}
	out, _, err = run(t.Context(), "", "doctor", "--listen", "127.0.0.1:0", "--call", "a", `{"x": 1}`, "--", "sh", "-c", "exit 3")
	if exitCode(err) != doctor.ExitServer || !strings.Contains(out, "sh -c exit 3: it ended after ") {
		t.Errorf("%v\n%s", err, out)
	}
}
