package adapterrt

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestReloadUnderLoad changes the file 50 times while calls are made without a pause. Each
// version answers with its own number, and no call fails.
func TestReloadUnderLoad(t *testing.T) {
	s := api(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", r.URL.Path) })
	text := func(i int) string {
		return front(s.URL, strings.Replace(status, "/status", fmt.Sprintf("/status/%d", i), 1))
	}
	rt := start(t, Options{}, map[string]string{"test-api-adapter.md": text(0)})
	path := rt.Adapters()[0].File
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
				if r.Failure != nil || !strings.HasPrefix(string(r.Data), `"/status/`) {
					t.Error(r.Failure, r.Call.Cause)
					return
				}
			}
		})
	}
	for i := 1; i <= 50; i++ {
		next := filepath.Join(filepath.Dir(path), "next")
		body := text(i)
		if i%10 == 0 {
			body = "---\nbroken: [\n---\n"
		}
		if err := os.WriteFile(next, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
		problems, changed, err := rt.Reload([]string{path})
		if err != nil || changed != (i%10 != 0) || file.HasError(problems) != (i%10 == 0) {
			t.Fatal(i, problems, changed, err)
		}
	}
	close(stop)
	wg.Wait()
	if got := ask(rt, Endpoint{}, `{"operation":"get_status"}`); got != `{"success":true,"data":"/status/49"}` {
		t.Error(got)
	}
}

func TestNoGoroutineIsLeftAfterClose(t *testing.T) {
	s := api(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "1") })
	peertest.NoLeaks(t)
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, paths := write(t, map[string]string{"test-api-adapter.md": front(s.URL, status)})
	if _, err := rt.Load(paths); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		ask(rt, Endpoint{}, `{"operation":"get_status"}`)
	}
	rt.Close()
	s.CloseClientConnections()
}

func TestPreviewSendsNothingAndMasks(t *testing.T) {
	env := fromEnv("T", "very-secret-value", "U", "me")
	ops := "create:\n- {name: op, maps_to: \"POST /x/{id}\", description: D, danger_level: forbidden, params: {id: {type: string, required: true}, a: {type: integer}}}"
	for auth, want := range map[string]string{
		"type: bearer, token_env: T":                                                               "Authorization: Bearer very...",
		"type: api_key, header_name: X-Key, key_env: T":                                            "X-Key: very...",
		"type: api_key, in: query, query_name: key, key_env: T":                                    "?key=very...",
		"type: basic, username_env: U, password_env: T":                                            "Authorization: Basic bWU6...",
		"type: oauth2, token_url: 'https://127.0.0.1:1/t', client_id_env: U, client_secret_env: T": "Authorization: Bearer ...",
	} {
		rt := one(t, env, "https://127.0.0.1:1/v1", ops, "auth: {"+auth+"}")
		p, f := rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"op","params":{"id":"a b","a":1}}`)})
		if f != nil {
			t.Fatal(f)
		}
		all := p.Method + " " + p.URL + "\n"
		for _, h := range p.Header {
			all += h.Name + ": " + h.Value + "\n"
		}
		if all += p.Body; !strings.Contains(all, want) || strings.Contains(all, "secret-value") || !strings.HasPrefix(all, "POST https://127.0.0.1:1/v1/x/a%20b") || p.Body != `{"a":1}` {
			t.Error(all)
		}
	}
	// A credential that is missing is named.
	for auth, want := range map[string]string{
		"type: bearer, token_env: NONE":                                                            "Authorization: Bearer <credential NONE is not set>",
		"type: api_key, header_name: X-Key, key_env: NONE":                                         "X-Key: <credential NONE is not set>",
		"type: api_key, in: query, query_name: key, key_env: NONE":                                 "?key=<credential NONE is not set>",
		"type: basic, username_env: U, password_env: NONE":                                         "Authorization: Basic <credential NONE is not set>",
		"type: basic, username_env: NONE, password_env: T":                                         "Authorization: Basic <credential NONE is not set>",
		"type: aws-sig4, region: r, service: s, access_key_id_env: NONE, secret_access_key_env: T": "<credential NONE is not set>",
	} {
		rt := one(t, env, "https://127.0.0.1:1/v1", ops, "auth: {"+auth+"}")
		p, f := rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"op","params":{"id":"a b","a":1}}`)})
		if f != nil {
			t.Errorf("%s: %v", auth, f)
			continue
		}
		all := p.Method + " " + p.URL + "\n"
		for _, h := range p.Header {
			all += h.Name + ": " + h.Value + "\n"
		}
		if !strings.Contains(all, want+"\n") || strings.Contains(all, "secret-value") || strings.Contains(all, "very") {
			t.Error(all)
		}
	}
	rt := one(t, env, "https://127.0.0.1:1/v1", "create:\n- {name: op, maps_to: \"POST /x/{id}\", description: D, params: {id: {type: string, required: true, sensitive: true}, pin: {type: integer, sensitive: true}}}")
	p, f := rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"op","params":{"id":"hidden","pin":4711}}`)})
	if f != nil || p.URL != "https://127.0.0.1:1/v1/x/..." || p.Body != `{"pin":"..."}` {
		t.Error(p, f)
	}
	// A short secret is not masked in words that contain its letters.
	for auth, want := range map[string]string{"type: bearer, token_env: T": "Bearer ...", "type: basic, username_env: T, password_env: T": "Basic ..."} {
		rt = one(t, fromEnv("T", "s"), "https://127.0.0.1:1/v1/posts", ops, "auth: {"+auth+"}")
		p, f = rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"op","params":{"id":"s"}}`)})
		if f != nil || p.URL != "https://127.0.0.1:1/v1/posts/x/s" || p.Header[len(p.Header)-1] != (file.Header{Name: "Authorization", Value: want}) {
			t.Error(p, f)
		}
	}
	text := strings.Replace(front("https://127.0.0.1:1", ops), "serialization: json", "serialization: json, headers: {accept: application/other}", 1)
	rt = start(t, env, map[string]string{"test-api-adapter.md": text})
	if p, f = rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"op","params":{"id":"s"}}`)}); f != nil || p.Header[0].Value != "application/other" || len(p.Header) != 2 {
		t.Error("a header that is sent once is shown twice", p, f)
	}
	rt = one(t, env, "https://127.0.0.1:1/v1", ops)
	if _, f := rt.Preview(Endpoint{}, &Request{Body: []byte(`{"operation":"op"}`)}); f == nil || f.Code != failure.ValidationMissingParam {
		t.Error(f)
	}
}

func TestInstructions(t *testing.T) {
	none, _ := New(Options{})
	if got := none.Instructions(""); got != "" {
		t.Error(got)
	}
	files := map[string]string{}
	for i := range 200 {
		name := fmt.Sprintf("some-longer-name-%03d", i)
		files[name+"-adapter.md"] = strings.Replace(front("https://api.example.com", status), "name: test-api", "name: "+name, 1)
	}
	for _, rt := range []*Runtime{one(t, Options{}, "https://api.example.com", status), start(t, Options{}, files)} {
		s := rt.Instructions("")
		if len(s) > 2048 || len(s) < 512 {
			t.Error(len(s))
		}
		lead := s[:512]
		for _, word := range []string{"Schema first", "introspect", "adapter", "typed parameters", "objects", "page with first", "narrow"} {
			if !strings.Contains(lead, word) {
				t.Errorf("no %q in %q", word, lead)
			}
		}
		for i := range len(s) {
			if s[i] >= 0x80 {
				t.Fatal("not ASCII")
			}
		}
		for _, word := range []string{"owner", "admin", "control-plane", "structuredContent"} {
			if strings.Contains(s, word) {
				t.Error(word, s)
			}
		}
		if strings.LastIndexByte(lead, '\n') < 0 && !strings.HasSuffix(lead, ".") {
			t.Errorf("the lead breaks off: %q", lead)
		}
	}
}

// TestFirstLineOfInstructions: in each mode, what some clients show alone says how to use the tools.
func TestFirstLineOfInstructions(t *testing.T) {
	files := map[string]string{}
	for _, name := range []string{"one", "two", "three"} {
		files[name+"-adapter.md"] = strings.Replace(front("https://api.example.com", status), "name: test-api", "name: "+name, 1)
	}
	for _, mode := range []present.Mode{present.Semantic, present.Single, present.All, present.Discrete, present.Search, present.Auto} {
		for _, words := range []string{"", "Use workspace acme; write titles in French.", strings.Repeat("x", 500)} {
			o := Options{Shown: Shown{Mode: mode, Words: words}}
			for _, rt := range []*Runtime{one(t, o, "https://api.example.com", status), start(t, o, files)} {
				s := rt.Instructions("")
				line, _, _ := strings.Cut(s, "\n")
				first, isThere := strings.CutSuffix(line, " "+words)
				if words == "" {
					first, isThere = line, true
				}
				if !isThere || len(first) > 512 || !strings.HasSuffix(first, ".") || len(s) > 2048 {
					t.Errorf("%v: %d bytes, %d in the first line: %q", mode, len(s), len(first), line)
				}
				for _, word := range []string{"Schema first", "connection_id", "ilters", "typed", "page with first and after", "narrow with fields"} {
					if !strings.Contains(first, word) {
						t.Errorf("%v: no %q in %q", mode, word, first)
					}
				}
				for _, word := range []string{"what this client may use", "subscribe to events", "Adapters: "} {
					if !strings.Contains(s, word) {
						t.Errorf("%v: no %q in %q", mode, word, s)
					}
				}
				for _, word := range []string{"owner", "control-plane", "bearer", "admin"} {
					if strings.Contains(strings.ToLower(s), word) {
						t.Errorf("%v: %q in %q", mode, word, s)
					}
				}
			}
		}
	}
	for words, want := range map[string]string{strings.Repeat("x", 501): "501 bytes", "a\u200bb": "hidden", "a\nb": "hidden"} {
		if _, err := New(Options{Shown: Shown{Words: words}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", words, err)
		}
	}
	// They change while the runtime is in use.
	rt := one(t, Options{}, "https://api.example.com", status)
	if changed, err := rt.Show(Shown{Words: "Be brief."}); !changed || err != nil || !strings.Contains(rt.Instructions(""), " Be brief.\n") {
		t.Error(changed, err, rt.Instructions(""))
	}
}

func TestTheTraceIsForwardedAndNothingElse(t *testing.T) {
	var seen http.Header
	s := api(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header })
	rt := one(t, Options{}, s.URL, status)
	trace := []file.Header{{Name: "Traceparent", Value: "00-1"}, {Name: "tracestate", Value: "a=b"}, {Name: "baggage", Value: "who=me"}, {Name: "Authorization", Value: "Bearer theirs"}, {Name: "traceparent", Value: "x\r\ny: z"}}
	for _, body := range []string{`{"operation":"get_status"}`, `{"operations":[{"operation":"get_status"}]}`} {
		rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(body), Trace: trace})
		if fmt.Sprint(seen["Traceparent"], seen["Tracestate"]) != "[00-1] [a=b]" || seen["Baggage"] != nil || seen["Authorization"] != nil || seen["Y"] != nil {
			t.Errorf("%s: %v", body, seen)
		}
		seen = nil
	}
	// The next call, which reuses the same memory, has no trace.
	if rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)}); seen["Traceparent"] != nil {
		t.Error(seen)
	}
}

func TestRequestIDIsForwarded(t *testing.T) {
	seen := ""
	s := api(t, func(_ http.ResponseWriter, r *http.Request) { seen = r.Header.Get("X-Request-Id") })
	rt := one(t, Options{}, s.URL, status)
	for id, want := range map[string]string{"r-1": "r-1", "a\r\nb": "", strings.Repeat("x", 200): ""} {
		rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`), ID: id})
		if seen != want {
			t.Errorf("%q: %q", id, seen)
		}
	}
}
