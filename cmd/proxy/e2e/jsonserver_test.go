package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// jsonServer starts the published json-server with three posts and a comment, and returns its URL.
func jsonServer(t *testing.T, flags ...string) (base string) {
	t.Helper()
	const data = `{"posts":[{"id":1,"title":"one","author":"ada"},{"id":2,"title":"two","author":"bob"},{"id":3,"title":"three","author":"ada"}],` +
		`"comments":[{"id":1,"body":"so it is","postId":1}]}`
	return publishedAPI(t, "json-server/lib/cli/bin.js", data, append([]string{"--quiet"}, flags...)...)
}

// publishedAPI starts the published server with the program main, with data, and returns its URL.
func publishedAPI(t *testing.T, main, data string, flags ...string) (base string) {
	t.Helper()
	testset.Need(t, testset.Peers, "node", "npm")
	m, err := installAPI()
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(t.TempDir(), "db.json")
	if err := os.WriteFile(db, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	base, stop, err := onLoopback(main, append([]string{filepath.Join(string(m), filepath.FromSlash(main)), db}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return base
}

// adapterFor writes the adapter for json-server, with its API at base, into a new folder. Edits are pairs of texts: the
// first is replaced with the second.
func adapterFor(t *testing.T, base string, edits ...string) (folder string) {
	t.Helper()
	return adapterOf(t, "json-server-adapter.md", base, edits...)
}

// adapterOf does the same with the adapter of that name.
func adapterOf(t *testing.T, name, base string, edits ...string) (folder string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	folder = t.TempDir()
	edited := strings.NewReplacer(append(edits, "http://127.0.0.1:3000", base)...).Replace(string(text))
	if err := os.WriteFile(filepath.Join(folder, name), []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	return folder
}

// asks sends one request to the endpoint of a category and returns the discriminated result.
type asks func(t *testing.T, category, request string) string

// step is one request, and its expected result. In want, … stands for any text, and a name in angle brackets for what
// capture has taken from an earlier result.
type step struct {
	category, request, want string
	capture                 [2]string // a name, and the path to its value in the result
}

// steps use once everything that an adapter can do with json-server, and cover all the ways in which it can refuse.
var steps = []step{
	{category: "create", request: `{"operation":"create_post","params":{"title":"four","author":"eve"}}`, want: `{"success":true,"data":{"title":"four","author":"eve","views":0,"id":4}}`},
	{category: "create", request: `{"operation":"create_comment","params":{"post_id":4,"body":"caf\u00e9 \u2028 \"\\ 😀","tags":["a","b"]}}`, want: `{"success":true,"data":{"body":"café … \"\\ 😀","tags":["a","b"],"postId":"4","id":2}}`},
	{category: "read", request: `{"operation":"get_post","params":{"id":"4"}}`, want: `{"success":true,"data":{"title":"four","author":"eve","views":0,"id":4}}`},
	{category: "read", request: `{"operation":"get_post","params":{"id":"1","embed":"comments","fields":["title","comments.body"]}}`, want: `{"success":true,"data":{"title":"one","comments":[{"body":"so it is"}]}}`},
	{category: "read", request: `{"operation":"list_posts","params":{"author":"ada","sort":"id","order":"desc"}}`, want: `{"success":true,"data":[{"id":3,"title":"three","author":"ada"},{"id":1,"title":"one","author":"ada"}]}`},
	{category: "read", request: `{"operation":"list_posts","params":{"q":"no such words"}}`, want: `{"success":true,"data":[]}`},

	// Pages: by number, by links, by offset; each to the end.
	{category: "read", request: `{"operation":"list_posts","params":{"first":3,"fields":["id"]}}`, want: `{"success":true,"data":{"items":[{"id":1},{"id":2},{"id":3}],"pageInfo":{"hasNextPage":true,"hasPreviousPage":false,"startCursor":null,"endCursor":"…"}}}`, capture: [2]string{"page", "data.pageInfo.endCursor"}},
	{category: "read", request: `{"operation":"list_posts","params":{"first":3,"after":"<page>","fields":["id"]}}`, want: `{"success":true,"data":{"items":[{"id":4}],"pageInfo":{"hasNextPage":false,"hasPreviousPage":true,"startCursor":"…","endCursor":null}}}`},
	{category: "read", request: `{"operation":"list_posts_by_link","params":{"first":3}}`, want: `{"success":true,"data":{"items":[{…},{…},{…"title":"three"…}],"pageInfo":{"hasNextPage":true,"hasPreviousPage":false,"startCursor":null,"endCursor":"…"}}}`, capture: [2]string{"link", "data.pageInfo.endCursor"}},
	{category: "read", request: `{"operation":"list_posts_by_link","params":{"first":3,"after":"<link>"}}`, want: `{"success":true,"data":{"items":[{"title":"four","author":"eve","views":0,"id":4}],"pageInfo":{"hasNextPage":false,"hasPreviousPage":true,"startCursor":"…","endCursor":null}}}`},
	{category: "read", request: `{"operation":"list_posts_by_offset","params":{"first":2}}`, want: `{"success":true,"data":{"items":[{…"title":"one"…},{…"title":"two"…}],"pageInfo":{"hasNextPage":true,"hasPreviousPage":false,"startCursor":null,"endCursor":"…"}}}`, capture: [2]string{"offset", "data.pageInfo.endCursor"}},
	{category: "read", request: `{"operation":"list_posts_by_offset","params":{"first":3,"after":"<offset>"}}`, want: `{"success":true,"data":{"items":[{…"title":"three"…},{…"title":"four"…}],"pageInfo":{"hasNextPage":false,"hasPreviousPage":true,"startCursor":"…","endCursor":null}}}`},
	{category: "read", request: `{"operation":"list_posts_by_offset","params":{"first":3,"after":"<page>"}}`, want: `{"success":false,"error":{"code":"VALIDATION_INVALID_VALUE",…}}`},

	{category: "update", request: `{"operation":"update_post","params":{"id":4,"views":7,"author":null}}`, want: `{"success":true,"data":{"title":"four","author":null,"views":7,"id":4}}`},
	{category: "update", request: `{"operation":"replace_post","params":{"id":4,"title":"fourth"}}`, want: `{"success":true,"data":{"title":"fourth","id":4}}`},

	// Cached, and revalidated: json-server sends no-cache and an ETag, so that each use revalidates.
	{category: "read", request: `{"operation":"get_kept_post","params":{"id":4}}`, want: `{"success":true,"data":{"title":"fourth","id":4},"_meta":{…"cache":"miss"…}}`},
	{category: "read", request: `{"operation":"get_kept_post","params":{"id":4}}`, want: `{"success":true,"data":{"title":"fourth","id":4},"_meta":{…"cache":"revalidated"…}}`},

	{category: "delete", request: `{"operation":"delete_post","params":{"id":4}}`, want: `{"success":true,"data":{}}`},
	{category: "delete", request: `{"operation":"delete_post_asking","params":{"id":3}}`, want: `{"success":false,"error":{"code":"CONFIRMATION_REQUIRED",…},"confirmation":{…}}`, capture: [2]string{"token", "confirmation.token"}},
	{category: "read", request: `{"operation":"get_post","params":{"id":"3"}}`, want: `{"success":true,"data":{"id":3,"title":"three","author":"ada"}}`},
	{category: "delete", request: `{"operation":"delete_post_asking","params":{"id":2,"_confirmation":"<token>"}}`, want: `{"success":false,"error":{"code":"TOKEN_SCOPE_MISMATCH",…}}`},
	{category: "delete", request: `{"operation":"delete_post_asking","params":{"id":3,"_confirmation":"<token>"}}`, want: `{"success":true,"data":{}}`},
	{category: "delete", request: `{"operation":"delete_post_asking","params":{"id":3,"_confirmation":"<token>"}}`, want: `{"success":false,"error":{"code":"TOKEN_ALREADY_USED",…}}`},

	// What json-server refuses.
	{category: "read", request: `{"operation":"get_post","params":{"id":"4"}}`, want: `{"success":false,"error":{"code":"NOT_FOUND_RESOURCE","message":"Not found: 404 Not Found","details":{"http_status":404,…}}}`},
	{category: "update", request: `{"operation":"update_post","params":{"id":99,"title":"x"}}`, want: `{"success":false,"error":{"code":"NOT_FOUND_RESOURCE",…}}`},
	{category: "update", request: `{"operation":"replace_post","params":{"id":99,"title":"x"}}`, want: `{"success":false,"error":{"code":"NOT_FOUND_RESOURCE",…}}`},
	{category: "delete", request: `{"operation":"delete_post","params":{"id":99}}`, want: `{"success":false,"error":{"code":"NOT_FOUND_RESOURCE",…}}`},
	{category: "create", request: `{"operation":"create_below","params":{"id":1}}`, want: `{"success":false,"error":{"code":"NOT_FOUND_RESOURCE",…}}`},
	{category: "read", request: `{"operation":"list_nothing"}`, want: `{"success":false,"error":{"code":"NOT_FOUND_RESOURCE",…}}`},
	{category: "create", request: `{"operation":"create_post","params":{"id":1,"title":"again"}}`, want: `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Server returned HTML instead of JSON (HTTP 500)","details":{…Insert failed, duplicate id…"http_status":500,"mapped_code":"INTERNAL_ERROR"}}}`},
	{category: "create", request: `{"operation":"create_compressed","params":{"title":"x","encoding":"gzip"}}`, want: `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Server returned HTML instead of JSON (HTTP 400)",…"mapped_code":"VALIDATION_INVALID_TYPE"}}}`},
	{category: "create", request: `{"operation":"create_compressed","params":{"title":"x","encoding":"odd"}}`, want: `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Server returned HTML instead of JSON (HTTP 415)",…"mapped_code":"VALIDATION_INVALID_TYPE"}}}`},
	{category: "read", request: `{"operation":"list_posts","params":{"title_like":"("}}`, want: `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Server returned HTML instead of JSON (HTTP 500)",…}}`},
	{category: "read", request: `{"operation":"list_posts","params":{"callback":"f"}}`, want: `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to parse response as JSON: unexpected character",…}}`},
	{category: "read", request: `{"operation":"get_page"}`, want: `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Server returned HTML instead of JSON (HTTP 200)",…}}`},
	{category: "read", request: `{"operation":"get_style"}`, want: `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to parse response as JSON: unexpected character",…}}`},
	{category: "read", request: `{"operation":"get_icon"}`, want: `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Unexpected content type 'image/x-icon'",…}}`},
	{category: "read", request: `{"operation":"get_slow_post","params":{"id":1}}`, want: `{"success":false,"error":{"code":"TRANSPORT_TIMEOUT","message":"Request timed out after 500ms"}}`},
	// A value stays in its segment of the path: none of these reaches another resource.
	{category: "read", request: `{"operation":"get_post","params":{"id":"1/comments"}}`, want: `{"success":false,"error":{"code":"NOT_FOUND_RESOURCE",…}}`},
	{category: "read", request: `{"operation":"get_post","params":{"id":"../comments"}}`, want: `{"success":false,"error":{"code":"VALIDATION_INVALID_VALUE",…}}`},
	{category: "read", request: `{"operation":"get_post","params":{"id":".."}}`, want: `{"success":false,"error":{"code":"VALIDATION_INVALID_VALUE",…}}`},
	{category: "read", request: `{"operation":"get_post","params":{"id":"1?_embed=comments"}}`, want: `{"success":false,"error":{"code":"NOT_FOUND_RESOURCE",…}}`},

	// What is refused without a request to json-server.
	{category: "create", request: `{"operation":"create_post","params":{"author":"ada"}}`, want: `{"success":false,"error":{"code":"VALIDATION_MISSING_PARAM","message":"Missing required parameter 'title'. Expected: string.",…}}`},
	{category: "create", request: `{"operation":"create_post","params":{"title":4}}`, want: `{"success":false,"error":{"code":"VALIDATION_INVALID_TYPE",…}}`},
	{category: "create", request: `{"operation":"create_post","params":{"title":"x","author":"mallory"}}`, want: `{"success":false,"error":{"code":"VALIDATION_INVALID_VALUE","message":"Parameter 'author' must be one of: ada, bob, eve",…}}`},
	{category: "create", request: `{"operation":"create_post","params":{"title":"x","admin":true}}`, want: `{"success":false,"error":{"code":"VALIDATION_UNKNOWN_PARAM",…}}`},
	{category: "create", request: `{"operation":"get_post","params":{"id":"1"}}`, want: `{"success":false,"error":{"code":"VALIDATION_ENDPOINT_MISMATCH",…}}`},
	{category: "read", request: `{"operation":"get_posts"}`, want: `{"success":false,"error":{"code":"NOT_FOUND_OPERATION",…}}`},
	{category: "create", request: `{"operation":"create_compressed","params":{"title":"x","encoding":"gzip\r\nX-Evil: 1"}}`, want: `{"success":false,"error":{"code":"VALIDATION_INVALID_VALUE",…}}`},

	{category: "read", request: `{"operation":"introspect","params":{"query":"operations","name":"delete_post"}}`, want: `{"success":true,"data":{"operation":{"name":"delete_post","semantic_category":"DELETE",…}}}`},
	// Posts 1 and 2 are as they must be after all these steps.
	{category: "read", request: `{"operation":"list_posts"}`, want: `{"success":true,"data":[{"id":1,"title":"one","author":"ada"},{"id":2,"title":"two","author":"bob"}]}`},
}

// walk runs the steps with one kind of caller.
func walk(t *testing.T, steps []step, ask asks) {
	t.Helper()
	captured := map[string]string{}
	for _, s := range steps {
		request := s.request
		for name, value := range captured {
			request = strings.ReplaceAll(request, "<"+name+">", value)
		}
		got := ask(t, s.category, request)
		if !matches(withoutBlanks(t, got), s.want) {
			t.Errorf("%s\n got %s\nwant %s", request, got, s.want)
		}
		if s.capture[0] != "" {
			captured[s.capture[0]] = textAt(t, got, s.capture[1])
		}
		for _, leak := range []string{"node_modules", "/home/", "/root/", ".js:", "    at "} {
			if strings.Contains(got, leak) {
				t.Errorf("%s tells %q of the server's inside: %s", request, leak, got)
			}
		}
	}
}

// matches reports whether s equals want, in which … stands for any text.
func matches(s, want string) bool {
	parts := strings.Split(want, "…")
	last := len(parts) - 1
	if last == 0 {
		return s == want
	}
	s, ok := strings.CutPrefix(s, parts[0])
	for _, p := range parts[1:last] {
		_, s2, found := strings.Cut(s, p)
		s, ok = s2, ok && found
	}
	return ok && strings.HasSuffix(s, parts[last])
}

// withoutBlanks returns JSON as the steps write it: without blanks and without unnecessary escapes.
func withoutBlanks(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		t.Fatalf("%v in %s", err, s)
	}
	return b.String()
}

// textAt returns the text at a dotted path of a JSON object.
func textAt(t *testing.T, s, path string) string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	text, ok := at(v, path).(string)
	if !ok {
		t.Fatalf("no text at %s in %s", path, s)
	}
	return text
}

// runtimeFor returns the adapter runtime alone, with json-server's adapter loaded.
func runtimeFor(t *testing.T, base string, opt adapterrt.Options, edits ...string) *adapterrt.Runtime {
	t.Helper()
	return runtimeOf(t, adapterFor(t, base, edits...), opt)
}

// runtimeOf returns an adapter runtime with the adapters in a folder loaded.
func runtimeOf(t *testing.T, folder string, opt adapterrt.Options) *adapterrt.Runtime {
	t.Helper()
	rt, err := adapterrt.New(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	files, problems := file.Find([]file.Source{{Path: folder}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if problems, err := rt.Load(files); err != nil || len(problems) > 0 {
		t.Fatal(problems, err)
	}
	return rt
}

func dispatch(rt *adapterrt.Runtime, category, request string) *adapterrt.Result {
	c, _ := file.CategoryOf(category)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := rt.Dispatch(ctx, adapterrt.Endpoint{Category: c}, &adapterrt.Request{Body: []byte(request), Session: "one"})
	return &r
}

// TestJSONServer calls the published API with the adapter runtime alone.
func TestJSONServer(t *testing.T) {
	testset.Need(t, testset.Peers)
	rt := runtimeFor(t, jsonServer(t), adapterrt.Options{})
	walk(t, steps, func(_ *testing.T, category, request string) string {
		return string(dispatch(rt, category, request).JSON())
	})
}

// TestJSONServerRefusesAll calls the API when it was started with options that make it fail, and when nothing listens at its address.
func TestJSONServerRefusesAll(t *testing.T) {
	testset.Need(t, testset.Peers)
	readOnly := runtimeFor(t, jsonServer(t, "--read-only"), adapterrt.Options{})
	for _, c := range [][3]string{
		{"create", `{"operation":"create_post","params":{"title":"x"}}`, `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to parse response as JSON: unexpected character","details":{…"http_status":403,"mapped_code":"PERMISSION_DENIED"}}}`},
		{"delete", `{"operation":"delete_post","params":{"id":1}}`, `{…"mapped_code":"PERMISSION_DENIED"…}`},
		{"read", `{"operation":"get_post","params":{"id":"1"}}`, `{"success":true,…}`},
	} {
		if got := string(dispatch(readOnly, c[0], c[1]).JSON()); !matches(withoutBlanks(t, got), c[2]) {
			t.Errorf("read-only: %s\n got %s\nwant %s", c[1], got, c[2])
		}
	}

	// json-server reads at most 10 MiB, which is also the limit for a request to dragoman: only what an adapter adds
	// makes a request too large.
	base := jsonServer(t)
	parts, _ := json.Marshal(slices.Repeat([]string{strings.Repeat("x", 1_000_000)}, 10))
	request := fmt.Sprintf(`{"operation":"create_large","params":{"parts":%s}}`, parts)
	for more, want := range map[int]string{
		0:       `{"success":true,…}`,
		600_000: `{"success":false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Server returned HTML instead of JSON (HTTP 413)",…"mapped_code":"VALIDATION_PAYLOAD_TOO_LARGE"}}}`,
	} {
		rt := runtimeFor(t, base, adapterrt.Options{MaxRequestBytes: 10 << 20}, `default: ""`, `default: "`+strings.Repeat("y", more)+`"`)
		if got := string(dispatch(rt, "create", request).JSON()); !matches(got, want) {
			t.Errorf("%d more: got %.300s, want %s", more, got, want)
		}
	}
	small := runtimeFor(t, base, adapterrt.Options{})
	if got := string(dispatch(small, "create", request).JSON()); !matches(got, `{"success":false,"error":{"code":"VALIDATION_PAYLOAD_TOO_LARGE",…"limit_type":"request_size",…}}}`) {
		t.Errorf("got %.300s", got)
	}
	if got := string(dispatch(small, "read", `{"operation":"list_posts"}`).JSON()); !matches(got, `{"success":true,…}`) { // 10 MB, which is below 10 MiB
		t.Errorf("got %.300s", got)
	}

	address := peertest.Port(t)
	gone := runtimeFor(t, "http://"+address, adapterrt.Options{KeepAddresses: true})
	if got := string(dispatch(gone, "read", `{"operation":"list_posts"}`).JSON()); got != `{"success":false,"error":{"code":"TRANSPORT_CONNECTION_REFUSED","message":"Connection refused: `+address+`"}}` {
		t.Error(got)
	}
}
