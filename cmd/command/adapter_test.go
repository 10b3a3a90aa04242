package command

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// adapterFile returns an adapter file for the API at base, with this documentation behind its front matter.
func adapterFile(base, documentation string) string {
	return `---
name: notes-api
type: adapter
version: "1.2.0"
description: "Notes, for tests of the commands"
target: {base_url: "` + base + `", transport: http, protocol: rest, serialization: json}
auth: {type: bearer, token_env: NOTES_TOKEN}
operations:
  create:
    - name: add_note
      maps_to: "POST /notes"
      description: "Add a note"
      params:
        title: {type: string, required: true, maxLength: 40, description: "First line"}
        tags: {type: array, items: {type: string}}
        ranks: {type: array, items: {type: integer}}
        stars: {type: integer, minimum: 0, maximum: 5}
        pin: {type: string, sensitive: true}
        meta: {type: object}
  read:
    - name: get_note
      maps_to: "GET /notes/{id}"
      description: "Get a note"
      params:
        id: {type: string, required: true}
        view: {type: string, enum: [short, full], default: short}
  delete:
    - name: delete_note
      maps_to: "DELETE /notes/{id}"
      description: "Delete a note"
      requires_confirmation: true
      params: {id: {type: string, required: true}}
---
` + documentation
}

const goodExample = "```golden\n" + `{"operation":"get_note","params":{"id":"a b"}}
-- sends --
GET https://notes.example.com/v1/notes/a%20b?view=short
-- receives --
200 application/json
{"id": 1}
-- want --
{"success": true, "data": {"id": 1}}
` + "```\n"

// folderWith writes files into a new directory and returns it.
func folderWith(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

// adapter runs an adapter command on dir. In the output and the error it replaces dir
// with DIR.
func adapter(t *testing.T, dir string, args ...string) (out, errOut string, code int) {
	t.Helper()
	out, errOut, err := run(t.Context(), "", append([]string{"adapter", "--adapters", dir}, args...)...)
	if code = exitCode(err); err != nil {
		errOut += err.Error() + "\n"
	}
	clean := strings.NewReplacer(dir+string(filepath.Separator), "DIR/", dir, "DIR")
	return clean.Replace(out), clean.Replace(errOut), code
}

const broken = "---\nname: other-api\ntype: adapter\nversion: 1.0\ndescription: \"It is broken in two places\"\n" +
	"target: {base_url: \"https://x.example.com\", transport: serial, protocol: rest, serialization: json}\noperations: {}\n---\n"

func TestAdapterValidate(t *testing.T) {
	t.Setenv("NOTES_TOKEN", "t")
	dir := folderWith(t, map[string]string{
		"notes-api-adapter.md": adapterFile("https://notes.example.com/v1", ""),
		"other-api-adapter.md": broken,
	})
	const want = `DIR/other-api-adapter.md:4: error: version: version must be a string: quote it, "1.0.0", expected string, received number 1.0 [SCHEMA_INVALID_TYPE]
DIR/other-api-adapter.md:6: error: target.transport: Transport serial is known, not supported, expected http, received string "serial" [PLUGIN_NOT_FOUND]
DIR/other-api-adapter.md:7: warning: operations: adapter has no operations [SCHEMA_MISSING_FIELD]
`
	out, errOut, code := adapter(t, dir, "validate")
	if out != want || errOut != "2 errors in 2 files\n" || code != exitUsage {
		t.Errorf("%d\n%s%s", code, out, errOut)
	}
	out, errOut, code = adapter(t, dir, "validate", "--json", filepath.Join(dir, "other-api-adapter.md"))
	var problems []map[string]any
	if err := json.Unmarshal([]byte(out), &problems); err != nil || len(problems) != 3 || code != exitUsage {
		t.Fatal(code, out, errOut, err)
	}
	for _, key := range []string{"path", "message", "expected", "received", "code", "severity", "file", "line"} {
		if problems[0][key] == nil {
			t.Errorf("no %s in %v", key, problems[0])
		}
	}
	good := filepath.Join(dir, "notes-api-adapter.md")
	for args, want := range map[string]int{"validate": exitUsage, "test": exitUsage, "list": 0} {
		if _, errOut, code := adapter(t, t.TempDir(), args); code != want || !strings.Contains(errOut, "DIR: there are no adapter files, which are called NAME-adapter.md") {
			t.Errorf("%s of an empty directory: %d %s", args, code, errOut)
		}
	}
	if out, errOut, code := adapter(t, dir, "validate", good); out != "1 file, 0 warnings\n" || errOut != "" || code != 0 {
		t.Error(out, errOut, code)
	}
	if out, errOut, code := adapter(t, dir, "validate", "--json", good); out != "[]\n" || errOut != "" || code != 0 {
		t.Error(out, errOut, code)
	}
	for args, want := range map[string]string{
		"validate " + filepath.Join(dir, "none-adapter.md"): "DIR/none-adapter.md: error: file cannot be read",
		"validate " + good + " " + good:                     "Duplicate adapter name",
		"validate main.go":                                  "adapter files are called NAME-adapter.md",
	} {
		if out, _, code := adapter(t, dir, strings.Fields(args)...); !strings.Contains(out, want) || code != exitUsage {
			t.Errorf("%s: %d %s", args, code, out)
		}
	}
	shaped := filepath.Join(t.TempDir(), "notes-api-adapter.md")
	for block, want := range map[string]string{
		"{max_tokns: 5}":                         "error: transform: unknown key max_tokns",
		"{max_depth: 99}":                        "error: transform: max_depth: 99 is not 1 to 10",
		"{adapter: trello}":                      `error: transform: adapter: there is no "trello"`,
		"{adapter: linear, options: {pages: 1}}": "error: transform: options: option pages of linear",
	} {
		write(t, shaped, strings.Replace(adapterFile("https://notes.example.com/v1", ""), "operations:", "transform: "+block+"\noperations:", 1))
		if out, _, code := adapter(t, dir, "validate", shaped); !strings.Contains(out, want) || code != exitUsage {
			t.Errorf("%s: %d %s", block, code, out)
		}
	}
	// A file name that is not that of the adapter is a warning, and an error with --strict.
	odd := filepath.Join(dir, "odd-adapter.md")
	write(t, odd, adapterFile("https://notes.example.com/v1", ""))
	if out, _, code := adapter(t, dir, "validate", odd); !strings.Contains(out, "1 warning\n") || code != 0 {
		t.Error(out, code)
	}
	if _, errOut, code := adapter(t, dir, "validate", "--strict", odd); code != exitUsage {
		t.Error(errOut, code)
	}
}

func TestAdapterListAndShow(t *testing.T) {
	t.Setenv("NOTES_TOKEN", "")
	dir := folderWith(t, map[string]string{
		"notes-api-adapter.md": adapterFile("https://notes.example.com/v1", ""),
		"other-api-adapter.md": broken,
	})
	const list = `NAME       VERSION  OPERATIONS  TOKENS  OUTPUT  DESCRIPTION
notes-api  1.2.0    3           NNN     0       Notes, for tests of the commands
`
	out, errOut, code := adapter(t, dir, "list")
	if regexp.MustCompile(`   \d\d\d `).ReplaceAllString(out, "   NNN ") != list || code != exitUsage || !strings.Contains(errOut, "DIR/other-api-adapter.md:6: error:") || strings.Contains(errOut, "warning") {
		t.Errorf("%d\n%s%s", code, out, errOut)
	}
	const show = `name         notes-api
version      1.2.0
description  Notes, for tests of the commands
file         DIR/notes-api-adapter.md
target       https://notes.example.com/v1
auth         bearer
             NOTES_TOKEN (not set)

create  add_note     POST /notes         Add a note
read    get_note     GET /notes/{id}     Get a note
delete  delete_note  DELETE /notes/{id}  Delete a note
`
	if out, _, code := adapter(t, dir, "show", "notes-api"); out != show || code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
	const operation = `operation    add_note
category     create
sends        POST /notes
description  Add a note
returns      JsonValue

PARAMETER  TYPE     REQUIRED  VALUES          DESCRIPTION
title      string   yes       ..40 characters First line
tags       array              of string
ranks      array              of integer
stars      integer            0..5
pin        string
meta       object

example  {"operation":"add_note","params":{"title":"…"}}
`
	out, _, code = adapter(t, dir, "show", "notes-api", "add_note")
	if squeeze(out) != squeeze(operation) || code != 0 {
		t.Errorf("%d\n%s", code, out)
	}
	if out, _, _ := adapter(t, dir, "show", "notes-api", "delete_note"); !strings.Contains(out, "needs confirmation") {
		t.Error(out)
	}
	for _, args := range []string{"list --json", "show notes-api --json", "show notes-api get_note --json"} {
		if out, _, _ := adapter(t, dir, strings.Fields(args)...); !json.Valid([]byte(out)) || !strings.Contains(out, "note") {
			t.Errorf("%s: %s", args, out)
		}
	}
	if _, errOut, code := adapter(t, dir, "show", "notes"); code != exitUsage || !strings.Contains(errOut, `no adapter "notes" in DIR; there are: notes-api`) {
		t.Error(errOut, code)
	}
	if _, errOut, code := adapter(t, dir, "show", "notes-api", "x"); code != exitUsage || !strings.Contains(errOut, `no operation "x"; there are: add_note, get_note, delete_note`) {
		t.Error(errOut, code)
	}
}

// squeeze replaces each run of blanks with one, and removes blanks at the end of lines.
func squeeze(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestAdapterCall(t *testing.T) {
	var got []string
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, fmt.Sprintf("%s %s %s %s", r.Method, r.URL, r.Header.Get("Authorization"), body))
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/gone") {
			w.WriteHeader(404)
			io.WriteString(w, `{"message":"no such note"}`)
			return
		}
		io.WriteString(w, `{"id":"<7>"}`)
	}))
	defer api.Close()
	t.Setenv("NOTES_TOKEN", "secret-of-the-notes")
	dir := folderWith(t, map[string]string{"notes-api-adapter.md": adapterFile(api.URL+"/v1", "")})
	const auth = " Bearer secret-of-the-notes "
	for _, c := range []struct {
		args   string
		sends  string
		code   int
		stdout string
		stderr string
	}{
		{args: "get_note id=a/b", sends: "GET /v1/notes/a%2Fb?view=short" + auth, stdout: "{\n  \"success\": true,\n  \"data\": {\n    \"id\": \"<7>\"\n  }\n}\n"},
		{args: "get_note id=gone", sends: "GET /v1/notes/gone?view=short" + auth, code: exitServer, stdout: `"NOT_FOUND_RESOURCE"`, stderr: "Not found: no such note"},
		{args: "get_note id=7 view=long", code: exitServer, stdout: `"VALIDATION_INVALID_VALUE"`, stderr: "must be one of: short, full"},
		{args: "get_note", code: exitServer, stdout: `"VALIDATION_MISSING_PARAM"`, stderr: "'id'"},
		{args: "get_note id=7 colour=red", code: exitServer, stdout: `"VALIDATION_UNKNOWN_PARAM"`, stderr: "colour"},
		{args: "add_note title=5 tags=a tags=b ranks=1 ranks=2 stars=3 meta={\"a\":1}", sends: "POST /v1/notes" + auth + `{"title":"5","tags":["a","b"],"ranks":[1,2],"stars":3,"meta":{"a":1}}`, stdout: `"success": true`},
		{args: "add_note title=a=b tags:=[\"x\"]", sends: "POST /v1/notes" + auth + `{"title":"a=b","tags":["x"]}`, stdout: `"success": true`},
		{args: "add_note title=x stars=many", code: exitServer, stdout: "VALIDATION_INVALID_TYPE", stderr: "expected 'integer', got 'string'"},
		{args: "delete_note id=7", code: exitServer, stderr: "repeat the command with --yes"},
		{args: "delete_note id=7 --yes", sends: "DELETE /v1/notes/7" + auth, stdout: `"success": true`},
		{args: "introspect query=operations", stdout: `"add_note"`},
		{args: "add_note title", code: exitUsage, stderr: `"title" is not KEY=VALUE; the operation takes `},
		{args: "add_note title=a title=b", code: exitUsage, stderr: "title is given twice"},
		{args: "add_note title:=a", code: exitUsage, stderr: "title: the value after := is not JSON"},
		{args: "nothing", code: exitUsage, stderr: `no operation "nothing"`},
	} {
		got = nil
		out, errOut, code := adapter(t, dir, append([]string{"call", "notes-api"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out, c.stdout) || !strings.Contains(errOut, c.stderr) || (c.code == 0) != (errOut == "") {
			t.Errorf("%s: %d\n%s%s", c.args, code, out, errOut)
		}
		if c.sends == "" && got != nil || c.sends != "" && (len(got) != 1 || strings.TrimSpace(got[0]) != strings.TrimSpace(c.sends)) {
			t.Errorf("%s: sent %q, want %q", c.args, got, c.sends)
		}
		if strings.Contains(out+errOut, "secret-of-the-notes") {
			t.Errorf("%s: shows the secret\n%s%s", c.args, out, errOut)
		}
	}
	t.Setenv("NOTES_TOKEN", "")
	if _, errOut, code := adapter(t, dir, "call", "notes-api", "get_note", "id=7"); code != exitServer || !strings.Contains(errOut, "NOTES_TOKEN is not set") {
		t.Error(errOut, code)
	}
}

// TestAdapterCallOfADeadAPI: the text on stderr has the URL of the API, once; the JSON has the text for models, without the URL.
func TestAdapterCallOfADeadAPI(t *testing.T) {
	t.Setenv("NOTES_TOKEN", "secret-of-the-notes")
	api := httptest.NewServer(nil)
	api.Close()
	for base, want := range map[string]string{
		api.URL:                       api.URL + " (target.base_url) refuses connections: is the API running?\n",
		"https://nowhere.invalid/api": "https://nowhere.invalid/api (target.base_url) has a host that cannot be resolved: is its name right?\n",
	} {
		dir := folderWith(t, map[string]string{"notes-api-adapter.md": adapterFile(base, "")})
		out, errOut, code := adapter(t, dir, "call", "notes-api", "get_note", "id=7")
		if code != exitServer || errOut != want || !strings.Contains(out, "dragoman's operator finds") || strings.Contains(out, "127.0.0.1") || strings.Contains(out, "nowhere") {
			t.Errorf("%d\n%s%s\nwant %s", code, out, errOut, want)
		}
	}
}

func TestDryRunPrintsTheRequestAndSendsNothing(t *testing.T) {
	t.Setenv("NOTES_TOKEN", "secret-of-the-notes")
	dir := folderWith(t, map[string]string{"notes-api-adapter.md": adapterFile("https://127.0.0.1:1/v1", "")})
	const want = `POST https://127.0.0.1:1/v1/notes
Accept: application/json
User-Agent: dragoman/VERSION
Content-Type: application/json
Authorization: Bearer secr...

{"title":"T","pin":"..."}
`
	out, errOut, code := adapter(t, dir, "call", "notes-api", "add_note", "title=T", "pin=4711", "--dry-run")
	out = regexp.MustCompile(`dragoman/[^()\s]+`).ReplaceAllString(out, "dragoman/VERSION")
	if out != want || errOut != "" || code != 0 {
		t.Errorf("%d\n%s%s", code, out, errOut)
	}
	if _, errOut, code := adapter(t, dir, "call", "notes-api", "add_note", "--dry-run"); code != exitServer || !strings.Contains(errOut, "Missing required parameter 'title'") {
		t.Error(errOut, code)
	}
}

func TestAdapterTest(t *testing.T) {
	bad := strings.Replace(goodExample, `"data": {"id": 1}`, `"data": {"id": 2}`, 1)
	for name, c := range map[string]struct {
		documentation string
		want          string
		code          int
	}{
		"good":     {goodExample, "DIR/notes-api-adapter.md:34: get_note ok\n1 example, all passed\n", 0},
		"bad":      {goodExample + bad, "DIR/notes-api-adapter.md:44: get_note answers\n{\"success\":true,\"data\":{\"id\": 1}}\nwant\n{\"success\": true, \"data\": {\"id\": 2}}\n", exitServer},
		"none":     {"# Notes\n", "DIR/notes-api-adapter.md: no examples\n0 examples, all passed\n", 0},
		"unclosed": {"```golden\n{}\n", "DIR/notes-api-adapter.md:34: error: documentation: example is not closed [SCHEMA_PARSE_ERROR]\n", exitUsage},
	} {
		dir := folderWith(t, map[string]string{"notes-api-adapter.md": adapterFile("https://notes.example.com/v1", c.documentation)})
		out, errOut, code := adapter(t, dir, "test", "--verbose")
		if !strings.HasSuffix(out, c.want) || code != c.code {
			t.Errorf("%s: %d\n%s%s", name, code, out, errOut)
		}
	}
}

func TestANewAdapterIsGood(t *testing.T) {
	dir := t.TempDir()
	if out, errOut, code := adapter(t, dir, "new", "my-api", "--output", dir); out != "DIR/my-api-adapter.md\n" || code != 0 {
		t.Fatal(out, errOut, code)
	}
	text, err := os.ReadFile(filepath.Join(dir, "my-api-adapter.md"))
	if err != nil {
		t.Fatal(err)
	}
	if out, _, _ := adapter(t, dir, "new", "my-api"); out != string(text) {
		t.Error(out)
	}
	for _, args := range []string{"validate --strict", "test", "list"} {
		if out, errOut, code := adapter(t, dir, strings.Fields(args)...); code != 0 || strings.Contains(out, "warning:") {
			t.Error(args, out, errOut, code)
		}
	}
	if _, errOut, code := adapter(t, dir, "new", "my-api", "--output", dir); code != 1 || !strings.Contains(errOut, "exists") {
		t.Error(errOut, code)
	}
	for _, name := range []string{"My", "a", "a-", "x: y", "../x"} {
		if _, errOut, code := adapter(t, dir, "new", name); code != exitUsage || !strings.Contains(errOut, "2–64 characters") {
			t.Error(name, errOut, code)
		}
	}
}

func TestAdapterHelpNamesItsExitCodes(t *testing.T) {
	for _, args := range []string{"adapter", "adapter validate", "adapter list", "adapter show", "adapter call", "adapter test", "adapter new"} {
		out, _, err := run(t.Context(), "", append(strings.Fields(args), "--help")...)
		if err != nil || !strings.Contains(out, "Exit codes:") {
			t.Errorf("%s: %s %v", args, out, err)
		}
	}
	if _, _, err := run(t.Context(), "", "adapter", "nonsense"); err == nil || !strings.Contains(err.Error(), `unknown command "nonsense"`) {
		t.Error(err)
	}
}

// TestPrintedTextCannotControlTheTerminal checks that text from an adapter file or an API cannot control the terminal
// that it is printed on.
func TestPrintedTextCannotControlTheTerminal(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "{\"a\":\"\u009b31m \u202e é\"}")
	}))
	defer api.Close()
	t.Setenv("NOTES_TOKEN", "t")
	evil := strings.Replace(adapterFile(api.URL, ""), "enum: [short, full]", `enum: [short, full, "\e[31m\u009b"]`, 1)
	evil = strings.Replace(evil, "operations:\n", "\"\\e[2J\": 1\noperations:\n", 1)
	evil += "```golden\n{\"operation\":\"get_note\",\"params\":{\"id\":\"\u009b2J\"}}\n-- want --\n\"\x1b\u009b\"\n```\n"
	dir := folderWith(t, map[string]string{"notes-api-adapter.md": evil})
	for _, args := range []string{"validate", "list", "show notes-api", "show notes-api get_note", "show notes-api get_note --json", "call notes-api get_note id=1", "call notes-api get_note id=1 --dry-run", "test"} {
		out, errOut, _ := adapter(t, dir, strings.Fields(args)...)
		if strings.ContainsAny(out+errOut, "\x1b\u009b\u202e") || out == "" {
			t.Errorf("%s: %q", args, out+errOut)
		}
	}
	out, _, _ := adapter(t, dir, "call", "notes-api", "get_note", "id=1")
	var got struct{ Data struct{ A string } }
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Data.A != "\u009b31m \u202e é" {
		t.Error("it is another text", out, err)
	}
}

func TestAdapterCommandsUseTheConfiguration(t *testing.T) {
	dir := folderWith(t, map[string]string{
		"notes-api-adapter.md": strings.Replace(adapterFile("http://notes.test", ""), "auth: {type: bearer, token_env: NOTES_TOKEN}\n", "", 1),
	})
	config := filepath.Join(dir, "c.yaml")
	write(t, config, "adapters:\n  sources: ["+dir+"]\n  network: {insecure_hosts: [notes.test]}\n")
	command := func(args ...string) (string, error) {
		out, _, err := run(t.Context(), "", append([]string{"adapter"}, args...)...)
		return out, err
	}
	if out, err := command("validate", "--adapters", dir); exitCode(err) != exitUsage || !strings.Contains(out, "base_url must be https") {
		t.Error(out, err)
	}
	if out, err := command("validate", "--adapters", dir, "--insecure-host", "notes.test"); err != nil {
		t.Error(out, err)
	}
	if out, err := command("list", "--config", config); err != nil || !strings.Contains(out, "notes-api") {
		t.Error(out, err)
	}
	if out, err := command("call", "--config", config, "notes-api", "get_note"); exitCode(err) != exitServer || !strings.Contains(out, `"message": "Missing required`) {
		t.Error(out, err)
	}
	write(t, config, "adapters: {colour: red}")
	if _, err := command("list", "--config", config); exitCode(err) != exitUsage || !strings.Contains(err.Error(), "colour") {
		t.Error(err)
	}
	t.Setenv("MCP_AQL_ENDPOINT_MODE", "both")
	if _, err := command("list", "--adapters", dir); exitCode(err) != 1 || !strings.Contains(err.Error(), "MCP_AQL_ENDPOINT_MODE") {
		t.Error(err)
	}
}

// TestAdapterCallFollowsItsCursors follows the endCursor that another process has printed.
func TestAdapterCallFollowsItsCursors(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `[{"page":%q}]`, r.URL.Query().Get("page"))
	}))
	defer api.Close()
	dir := folderWith(t, map[string]string{"pages-adapter.md": `---
name: pages
type: adapter
version: "1.0.0"
description: Pages
target: {base_url: "` + api.URL + `", transport: http, protocol: rest, serialization: json}
operations: {read: [{name: list_notes, maps_to: GET /notes, description: List, params: {q: {type: string}}, pagination: {style: page, param_name: page, per_page_param: size}}]}
---
`})
	cursor := ""
	for page := 1; page <= 3; page++ {
		args := []string{"call", "pages", "list_notes", "q=x", "first=1"}
		if cursor != "" {
			args = append(args, "after="+cursor)
		}
		out, errOut, code := adapter(t, dir, args...)
		var r struct {
			Data struct {
				Items    []struct{ Page string }
				PageInfo struct{ EndCursor string }
			}
		}
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || len(r.Data.Items) != 1 || r.Data.Items[0].Page != strconv.Itoa(page) {
			t.Fatalf("page %d: %d %v\n%s%s", page, code, err, out, errOut)
		}
		cursor = r.Data.PageInfo.EndCursor
	}
	if out, _, code := adapter(t, dir, "call", "pages", "list_notes", "q=y", "first=1", "after="+cursor); code != exitServer || !strings.Contains(out, "is not a cursor of this operation and these parameters") {
		t.Error(code, out)
	}
}
