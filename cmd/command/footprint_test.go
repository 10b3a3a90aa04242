package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

func TestTokens(t *testing.T) {
	for _, c := range []struct {
		in, args, out, told string
	}{
		{"hello world", "tokens", "2\n", ""},
		{"", "tokens", "0\n", ""},
		{strings.Repeat("hello world ", 50_000), "tokens --model gpt-4o", "100001\n", ""},
		{"hello world", "tokens --model o200k_base", "2\n", ""},
		{"hello world", "tokens --model claude-x", "3\n", "claude-x has no public tokenizer: an estimate, o200k_base times 1.2\n"},
	} {
		out, told, err := run(t.Context(), c.in, strings.Fields(c.args)...)
		if err != nil || out != c.out || told != c.told {
			t.Errorf("%s: %q, %q, %v", c.args, out, told, err)
		}
	}
}

// toolServer starts a server with two pages of tools, and with instructions.
func toolServer(t *testing.T, second string) string {
	t.Helper()
	s := peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		answer := func(result string) { u.Answer(200, `{"jsonrpc":"2.0","id":`+u.ID+`,"result":`+result+`}`) }
		switch u.Method + gjson.Get(u.Text, "params.cursor").Str {
		case "initialize":
			answer(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"Use it."}`)
		case "tools/list":
			answer(`{"tools":[{"name":"a", "inputSchema":{"type":"object","properties":{"filter":{"type":"object"}}}}],"nextCursor":"2"}`)
		case "tools/list2":
			answer(`{"tools":[` + second + `]}`)
		}
	})
	s.Every = true
	return s.At().URL + "/mcp"
}

func TestFootprintShowsTheTokensOfOutputSchemas(t *testing.T) {
	url := toolServer(t, `{"name":"b","inputSchema":{"type":"object"}, "outputSchema":{"type":"object", "properties":{"id":{"type":"integer"}}}}`)
	schema, _, _ := run(t.Context(), `{"type":"object","properties":{"id":{"type":"integer"}}}`, "tokens")
	report, _, err := run(t.Context(), "", "footprint", "--json", url)
	if got := gjson.Get(report, `tools.#(name=="b").output_schema_tokens`).Raw; err != nil || got+"\n" != schema || gjson.Get(report, `tools.#(name=="a").output_schema_tokens`).Raw != "0" {
		t.Errorf("%v: %s, want %s", err, report, schema)
	}
	out, _, err := run(t.Context(), "", "footprint", url)
	if fields := strings.Fields(strings.Split(out, "\n")[3]); err != nil || len(fields) < 3 || fields[2]+"\n" != schema {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestFootprint(t *testing.T) {
	url := toolServer(t, `{"name":"larger\u001b[2J","description":"Reads the record of one stream.","inputSchema":{"type":"object"}}`)
	out, _, err := run(t.Context(), "", "footprint", url)
	if err != nil || strings.Contains(out, "\x1b") {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(out, "\n")
	if len(lines) < 7 || !strings.HasSuffix(lines[1], "  larger [2J") || !strings.HasSuffix(lines[2], "  a") ||
		!strings.HasSuffix(lines[3], "  2 tools") || !strings.HasSuffix(lines[4], "  the server's instructions") ||
		!strings.HasPrefix(strings.TrimSpace(lines[4]), "7 ") || !strings.HasSuffix(lines[5], "  in all (o200k_base)") {
		t.Errorf("%s", out)
	}

	report, _, err := run(t.Context(), "", "footprint", "--json", url)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Bytes    int
		MaxBytes int `json:"max_bytes"`
		Tools    []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(report), &r); err != nil || r.Bytes < 150 || r.MaxBytes != 46080 || len(r.Tools) != 2 {
		t.Errorf("%v\n%s", err, report)
	}
	if _, _, err := run(t.Context(), "", "footprint", "--max-bytes", "100", url); err == nil || !strings.Contains(err.Error(), "over the budget of 100") {
		t.Errorf("over budget: %v", err)
	}
	if _, _, err := run(t.Context(), "", "footprint", "--max-bytes", "0", url); err != nil {
		t.Errorf("no budget: %v", err)
	}

	baseline := filepath.Join(t.TempDir(), "before.json")
	if err := os.WriteFile(baseline, []byte(report), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t.Context(), "", "footprint", "--baseline", baseline, url); err != nil {
		t.Errorf("against itself: %v", err)
	}
	other := toolServer(t, `{"name":"b","inputSchema":{"type":"object"}}`)
	if _, _, err := run(t.Context(), "", "footprint", "--baseline", baseline, other); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("a tool is gone: %v", err)
	}
	if err := os.WriteFile(baseline, []byte("["), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string]string{
		"is not a report":  "footprint --baseline " + baseline + " " + url,
		"--baseline: open": "footprint --baseline /nonexistent/x " + url,
		"--max-bytes":      "footprint --max-bytes -1 " + url,
		"no server is named: write dragoman footprint URL, or dragoman footprint -- COMMAND": "footprint",
	} {
		if _, _, err := run(t.Context(), "", strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// TestCapabilitiesFlag checks that footprint and probe declare all client capabilities, or those of the flag. The
// server has a tool for each declared capability, and requests the client's roots.
func TestCapabilitiesFlag(t *testing.T) {
	const server = `
read -r hello
caps=${hello#*'"capabilities":'}
printf '%s\n' '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}'
read -r initialized
case $caps in *'"roots"'*)
	printf '%s\n' '{"jsonrpc":"2.0","id":"r","method":"roots/list"}'
	read -r a
	read -r b
	case $a in *'"roots":[]'*) roots=$a list=$b;; *) list=$a roots=$b;; esac
	case $roots in *'"roots":[]'*) tools='{"name":"roots"},';; esac
esac
for name in sampling elicitation tasks; do
	case $caps in *"\"$name\""*) tools="$tools{\"name\":\"$name\"},";; esac
done
[ -n "$list" ] || read -r list
id=${list#*'"id":'}; id=${id%%,*}
printf '%s\n' '{"jsonrpc":"2.0","id":'"$id"',"result":{"tools":['"$tools"'{"name":"always"}]}}'
cat >/dev/null
`
	for flag, want := range map[string]string{
		"": "roots sampling elicitation tasks always", "all": "roots sampling elicitation tasks always",
		"none": "always", "sampling": "sampling always", "sampling,elicitation": "sampling elicitation always",
	} {
		args := []string{"footprint", "--json"}
		if flag != "" {
			args = append(args, "--capabilities", flag)
		}
		out, _, err := run(t.Context(), "", append(args, "--", "sh", "-c", server)...)
		if err != nil {
			t.Errorf("%q: %v", flag, err)
			continue
		}
		got := map[string]bool{}
		for _, tool := range gjson.Get(out, "tools").Array() {
			got[tool.Get("name").Str] = true
		}
		for _, name := range strings.Fields(want) {
			if !got[name] {
				t.Errorf("%q: no tool %s in %v", flag, name, got)
			}
		}
		if len(got) != len(strings.Fields(want)) {
			t.Errorf("%q: tools %v, want %s", flag, got, want)
		}
	}
	if _, _, err := run(t.Context(), "", "footprint", "--capabilities", "telepathy", "http://127.0.0.1:1/mcp"); err == nil || !strings.Contains(err.Error(), `--capabilities: "telepathy" is not one of elicitation, roots`) {
		t.Errorf("%v", err)
	}
}
