package adapters

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/adapterrt/secret"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/features/owntools"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/origin"
)

// TestAResultThatIsTooLargeForMemory shows that a tool's result for which there is no memory is an error that can be tried again,
// unless the call changed something: then the result says that it was carried out.
func TestAResultThatIsTooLargeForMemory(t *testing.T) {
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(201)
		io.WriteString(w, `{"id":"`+strings.Repeat("x", 5000)+`"}`)
	}))
	defer api.Close()
	path := filepath.Join(t.TempDir(), "things-adapter.md")
	file := `---
name: things
type: adapter
version: "1.0.0"
description: Things
target: {base_url: "` + api.URL + `", transport: http, protocol: rest, serialization: json}
operations: {create: [{name: make, maps_to: POST /x, description: Make}], read: [{name: look, maps_to: GET /x, description: Look}]}
---
`
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default().Adapters
	none := func() float64 { return 0 }
	cfg.Sources, cfg.Mode = []string{path}, "crude"
	a, err := New(origin.World{}, cfg, nil, nil, nil, secret.Known{}, nil, metrics.New("v0", none, none), large.NewMemory(64<<20), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	full := errors.New("full")
	begin := func(_ context.Context, n int) ([]byte, error) {
		if n > 4000 {
			return nil, full
		}
		return make([]byte, 0, n), nil
	}
	for tool, want := range map[string]string{"create": "The request was carried out (HTTP 201): do not send it again. Its answer cannot be read: The memory for answers is full.", "read": ""} {
		operation := map[string]string{"create": "make", "read": "look"}[tool]
		out, err := a.Call(context.Background(), &owntools.Call{Tool: "mcp_aql_" + tool, Arguments: []byte(`{"operation":"` + operation + `"}`), Begin: begin})
		if want == "" && !errors.Is(err, full) || want != "" && (err != nil || !strings.Contains(string(out), want) || !strings.Contains(string(out), `"isError":true`)) {
			t.Errorf("%s: %v %s", tool, err, out)
		}
	}
}
