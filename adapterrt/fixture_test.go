package adapterrt

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
)

// front returns a complete adapter file with the base URL base and the operations ops, as
// YAML. The lines of extra are added at the top level.
func front(base, ops string, extra ...string) string {
	return "---\nname: test-api\ntype: adapter\nversion: \"1.0.0\"\ndescription: An API for tests\n" +
		"target: {base_url: \"" + base + "\", transport: http, protocol: rest, serialization: json}\n" +
		strings.Join(extra, "\n") + "\noperations:\n" + indent(ops) + "\n---\n# Docs\n"
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.Trim(s, "\n"), "\n", "\n  ")
}

// write puts files into a new directory and returns their paths.
func write(t testing.TB, files map[string]string) (dir string, paths []string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths, problems := file.Find([]file.Source{{Path: dir}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return dir, paths
}

// start returns a runtime with the files loaded.
func start(t testing.TB, opt Options, files map[string]string) *Runtime {
	t.Helper()
	rt, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	_, paths := write(t, files)
	if _, err := rt.Load(paths); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	return rt
}

// one returns a runtime with a single adapter with the operations ops.
func one(t testing.TB, opt Options, base, ops string, extra ...string) *Runtime {
	t.Helper()
	return start(t, opt, map[string]string{"test-api-adapter.md": front(base, ops, extra...)})
}

// sent is a request as the runtime would have sent it.
type sent struct {
	method, url, body, contentType string
	headers                        []file.Header
}

// capture replaces the network of the runtime: it records requests and answers them.
func capture(rt *Runtime, answer string) *[]sent {
	var all []sent
	rt.send = func(_ context.Context, _ *adapter, o *httpcall.Outgoing) (*httpcall.Reply, *failure.Failure) {
		if _, err := httpcall.ParsedURL(o.Target, o.URL.Text); err != nil {
			return nil, failure.Ours("", err)
		}
		s := sent{method: o.Method, url: string(o.URL.Text), contentType: o.ContentType, headers: append([]file.Header(nil), o.Headers...)}
		if o.HasBody {
			s.body = string(o.Body.Text)
		}
		all = append(all, s)
		return &httpcall.Reply{Status: 200, ContentType: "application/json", Header: http.Header{}, Body: []byte(answer)}, nil
	}
	return &all
}

func ask(rt *Runtime, at Endpoint, body string) string {
	r := rt.Dispatch(context.Background(), at, &Request{Body: []byte(body)})
	return string(r.JSON())
}

// api starts a server that answers every request with f.
func api(t testing.TB, f http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

func environment(pairs ...string) func(string) (string, bool) {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(k string) (string, bool) { v, ok := m[k]; return v, ok }
}

func fromEnv(pairs ...string) Options { return Options{Getenv: environment(pairs...)} }
