package adapterrt

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// TestToolResultFitsItsSize: whatever a result is, ToolSize is at most a little more than its tool result, which says the same as
// its JSON. A text says the same as the data that it stands for.
func TestToolResultFitsItsSize(t *testing.T) {
	rt, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	texts := rapid.OneOf(rapid.String(), rapid.Map(rapid.IntRange(8<<10-6, 8<<10+6), func(n int) string { return strings.Repeat("a", n) + "ü\x01\"\\ü€😀" }),
		rapid.Map(rapid.SliceOf(rapid.SampledFrom([]string{"\x00", "\n", "\"", "\\", "\x7f", "€", "a"})), func(l []string) string { return strings.Join(l, "") }))
	rapid.Check(t, func(t *rapid.T) {
		var r Result
		text := texts.Draw(t, "text")
		data := wire.AppendQuoted(nil, text)
		if r.plain = []byte(text); len(text) == 0 || rapid.Bool().Draw(t, "data") {
			r.plain, r.Data = nil, data
		}
		r.structured = rapid.Bool().Draw(t, "structured")
		if rapid.Bool().Draw(t, "around") {
			r.Warnings = []failure.Notice{{Code: "C", Message: texts.Draw(t, "warning"), Details: []byte(`{ "a": 1 }`)}}
			r.Meta = []byte(`{"m":"\\"}`)
			r.Media = []httpcall.Media{{Type: "image/png", Content: []byte("\x89PNG\r\n\x1a\n"), Name: "a:b"}, {Type: "x/y", Content: []byte(text), Name: "a:" + text}}
		}
		if rapid.IntRange(0, 4).Draw(t, "failed") == 0 {
			r.Failure = &failure.Failure{Code: failure.InternalError, Message: text}
		}
		size := r.ToolSize()
		got := rt.AppendToolResult(make([]byte, 0, size), &r)
		if len(got) > size || size > len(got)+200*(1+len(r.Media))+len(text) || !json.Valid(got) {
			t.Fatalf("%d bytes for %d of %q", size, len(got), got)
		}
		said := r.JSON()
		if cap(said) > 2*len(said) || gjson.GetBytes(got, "content.0.text").String() != string(wire.AppendCompact(nil, said)) {
			t.Fatalf("%q is not %q", got, said)
		}
		if r.Failure == nil && gjson.GetBytes(said, "data").String() != gjson.ParseBytes(data).String() {
			t.Fatalf("%q has not %q", said, data)
		}
		if structured := gjson.GetBytes(got, "structuredContent"); structured.Exists() != r.structured || r.structured && structured.Raw != string(wire.AppendCompact(nil, said)) {
			t.Fatalf("%q has another structuredContent than %q", got, said)
		}
	})
}

// ledger is a Memory that notes what it was asked for, and has no room for more than most bytes at a time.
type ledger struct {
	mu   sync.Mutex
	most int
	log  map[string]int
}

var errFull = errors.New("full")

func (l *ledger) take(what string, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > l.most {
		return errFull
	}
	if l.log == nil {
		l.log = map[string]int{}
	}
	if n > 64<<10 {
		l.log[what] += n
	}
	return nil
}

func (l *ledger) Body(_ context.Context, n int) ([]byte, error) {
	return make([]byte, 0, n), l.take("body", n)
}

func (l *ledger) Copy(_ context.Context, n int) ([]byte, error) {
	return make([]byte, 0, n), l.take("copy", n)
}

func (l *ledger) Adopt(_ context.Context, b []byte) error { return l.take("adopted", cap(b)) }

// TestAnswersAreCounted from the connection to what the caller gets: a JSON answer and a text once, what is converted once more.
// The size of the body need not be known.
func TestAnswersAreCounted(t *testing.T) {
	const size = 300 << 10
	long := strings.Repeat("\x01", size)
	for _, c := range []struct {
		name, op, body string
		max            map[string]int
	}{
		{"json", `maps_to: GET /x`, `"` + strings.Repeat("a", size) + `"`, map[string]int{"body": size + 100}},
		{"text", `maps_to: GET /x, response: {as: text}`, long, map[string]int{"body": size + 100}},
		{"unknown size", `maps_to: GET /chunked, response: {as: text}`, long, map[string]int{"body": 1<<20 + 100}},
		{"base64", `maps_to: GET /x, response: {as: base64}`, long, map[string]int{"body": size + 100, "adopted": size*4/3 + 1000}},
		{"lines", `maps_to: GET /x, response: {as: ndjson}`, `"` + strings.Repeat("a", size) + `"`, map[string]int{"body": size + 100, "adopted": 2 * size}},
		{"cached", `maps_to: GET /x, response: {as: text}, cache: {ttl: 30s}`, long, map[string]int{"body": size + 100}},
	} {
		s := api(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/chunked" {
				w.Header().Set("Content-Length", strconv.Itoa(len(c.body)))
			}
			_, _ = w.Write([]byte(c.body))
		})
		memory := &ledger{most: 100 << 20}
		rt := one(t, Options{Memory: memory}, s.URL, `read: [{name: op, `+c.op+`}]`)
		r := rt.Dispatch(t.Context(), Endpoint{}, &Request{Body: []byte(`{"operation":"op"}`)})
		if r.Failure != nil {
			t.Errorf("%s: %v", c.name, r.Failure)
		}
		for what, n := range memory.log {
			if n > c.max[what] {
				t.Errorf("%s: %d bytes of %s", c.name, n, what)
			}
		}
		if len(memory.log) != len(c.max) {
			t.Errorf("%s: counted %v", c.name, memory.log)
		}
		memory.most = 100 << 10
		if r = rt.Dispatch(t.Context(), Endpoint{}, &Request{Body: []byte(`{"operation":"op"}`)}); r.Failure == nil || !r.Failure.Busy || r.Failure.Cause != errFull || r.HTTPStatus() != 503 || r.RetryAfter() != "1" {
			t.Errorf("%s without room: %v", c.name, r.Failure)
		}
	}
}
