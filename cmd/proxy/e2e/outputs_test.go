package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/openapi"
)

// TestClientsAcceptWhatTypedToolsAnswer imports a document whose operations have output schemas, and calls them with published
// clients, which refuse structured content that its schema does not allow: also where the API breaks its document, and where a
// result is cut.
func TestClientsAcceptWhatTypedToolsAnswer(t *testing.T) {
	m := nodePeers(t)
	bin := string(build(t))
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf(`{"id":%d,"name":"thing","state":"open","owner":{"login":"ada"}}`, i)
	}
	answers := map[string]string{
		"good": many[0], "odd": `{"id":"one","name":null,"state":"exploded","owner":[]}`, "list": `["a"]`, "none": "null", "empty": "",
		"text": `"a text"`, "many": "[" + strings.Join(many, ",") + "]",
	}
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, there := answers[strings.TrimPrefix(r.URL.Path, "/things/")]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case !there:
			w.WriteHeader(404)
		case answer == "":
			w.WriteHeader(204)
		}
		io.WriteString(w, answer)
	}))
	t.Cleanup(api.Close)
	d, err := openapi.Read("things.yaml", []byte(`openapi: 3.0.3
info: {title: Things, version: "1"}
servers: [{url: "`+api.URL+`"}]
paths:
  /things/{kind}:
    parameters: [{name: kind, in: path, required: true, schema: {type: string}}]
    get: {operationId: getThing, responses: {"200": {description: OK, content: {application/json: {schema: {$ref: "#/components/schemas/Thing"}}}}}}
  /things/many:
    get: {operationId: listThings, responses: {"200": {description: OK, content: {application/json: {schema: {type: array, items: {$ref: "#/components/schemas/Thing"}}}}}}}
components:
  schemas:
    Thing: {type: object, required: [id, name, state], additionalProperties: false, properties: {id: {type: integer}, name: {type: string, pattern: "^\\p{L}+$"},
      state: {type: string, enum: [open, closed]}, owner: {type: object, required: [login], properties: {login: {type: string}}}}}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	in, err := d.Import(openapi.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, in.Files[0].FileName()), in.Files[0].Front(), 0o600); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(dir, "dragoman.yaml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, "adapters: {sources: [%q], mode: discrete}\n", dir), 0o600); err != nil {
		t.Fatal(err)
	}
	calls := [][2]any{{"list_things", map[string]any{}}}
	for _, kind := range []string{"good", "odd", "list", "none", "empty", "text", "missing"} {
		calls = append(calls, [2]any{"get_thing", map[string]any{"kind": kind}})
	}
	for _, client := range []struct {
		sdk  string
		line int
		mode any
	}{
		{"sdk-1.22.0", 1, nil}, {"sdk-1.32.2", 1, nil}, {"@modelcontextprotocol/client", 2, "legacy"}, {"@modelcontextprotocol/client", 2, map[string]string{"pin": "2026-07-28"}},
	} {
		for _, flags := range [][]string{nil, {"--max-tokens", "300"}} {
			t.Run(strings.TrimSpace(fmt.Sprint(client.sdk, " ", client.mode, " ", strings.Join(flags, " "))), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				to := endpoint{over: stdio, command: append([]string{bin, "stdio", "--config", settings}, flags...), stderr: new(output)}
				out, err := runNode(ctx, "outputs.mjs", to, map[string]any{
					"line": client.line, "mode": client.mode, "sdk": filepath.Join(string(m), filepath.FromSlash(client.sdk)), "calls": calls,
				})
				if err != nil {
					t.Fatalf("%v\n%s", err, to.stderr)
				}
				var said struct {
					Typed   []string
					Results []struct {
						Text, Error string
						Structured  json.RawMessage
						IsError     bool
					}
				}
				if err := json.Unmarshal(out, &said); err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				if len(said.Typed) != 2 || len(said.Results) != len(calls) {
					t.Fatalf("%s", out)
				}
				for i, r := range said.Results {
					whole := r.Text == string(r.Structured)
					if r.Error != "" || r.Structured == nil || r.IsError != (i == len(calls)-1) || whole == (i == 0 && flags != nil) {
						t.Errorf("%v: %s, error %t: %.300s and %.300s", calls[i], r.Error, r.IsError, r.Text, r.Structured)
					}
				}
			})
		}
	}
}
