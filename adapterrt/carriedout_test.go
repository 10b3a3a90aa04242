package adapterrt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/adapterrt/present"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// writes are an operation of each category, and a read by POST.
const writes = `create: [{name: make, maps_to: POST /x, description: M, params: {a: {type: string}}}]
read: [{name: look, maps_to: GET /x, description: L}, {name: search, maps_to: POST /x, description: S}]
update: [{name: change, maps_to: PUT /x, description: C}]
delete: [{name: remove, maps_to: DELETE /x, description: R}]
execute: [{name: run, maps_to: GET /x, description: R}]`

// rawAnswer returns a server that answers with bytes and closes the connection.
func rawAnswer(t *testing.T, text string) string {
	text = strings.Replace(text, "\r\n", "\r\nConnection: close\r\n", 1)
	return "http://" + raw(t, func(c net.Conn) { io.WriteString(c, text) })
}

// TestUnreadableAnswersOfWritesSayThatTheyWereCarriedOut shows that the failure of a write whose success cannot be read
// begins with what the API has done, so that no model repeats it, and that a read's failure is as it was.
func TestUnreadableAnswersOfWritesSayThatTheyWereCarriedOut(t *testing.T) {
	const done = "The request was carried out (HTTP 201): do not send it again. Its answer cannot be read: "
	for _, c := range []struct {
		name, base, status, why, details string
	}{
		{"HTML", api(t, say(201, "text/html; charset=utf-8", "<p>ok")).URL, "201", "Server returned HTML instead of JSON (HTTP 201)",
			`{"carried_out":true,"content_type":"text/html; charset=utf-8","body_preview":"<p>ok","http_status":201}`},
		{"text", api(t, say(201, "text/plain", "OK")).URL, "201", "Failed to parse response as JSON: unexpected character",
			`{"carried_out":true,"content_type":"text/plain","body_preview":"OK","offset":0,"http_status":201}`},
		{"JSON that is none", api(t, say(201, "application/json", `{"id":`)).URL, "201", "Failed to parse response as JSON: unexpected end of input",
			`{"carried_out":true,"content_type":"application/json","body_preview":"{\"id\":","offset":6,"http_status":201}`},
		{"binary", api(t, say(201, "image/png", png)).URL, "201", "Unexpected content type 'image/png'",
			`{"carried_out":true,"content_type":"image/png","http_status":201}`},
		{"cut", rawAnswer(t, "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"id\":"), "201", "Network error: response ended early",
			`{"carried_out":true,"http_status":201}`},
		{"cut between chunks", rawAnswer(t, "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{\"\r\n"), "201", "Network error: response ended early",
			`{"carried_out":true,"http_status":201}`},
		{"bad gzip", rawAnswer(t, "HTTP/1.1 201 Created\r\nContent-Encoding: gzip\r\nContent-Length: 12\r\n\r\nnot gzip at "), "201", "Network error: malformed response",
			`{"carried_out":true,"http_status":201}`},
		{"said to be too large", rawAnswer(t, "HTTP/1.1 201 Created\r\nContent-Length: 99999999\r\n\r\n"), "201", "Payload exceeds response_size limit of 1048576",
			`{"carried_out":true,"http_status":201,"limit_type":"response_size","limit_value":1048576,"actual_value":99999999,"unit":"bytes"}`},
		{"too large", api(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			w.(http.Flusher).Flush()
			io.WriteString(w, `"`+strings.Repeat("x", 1<<20)+`"`)
		}).URL, "201", "Payload exceeds response_size limit of 1048576",
			`{"carried_out":true,"http_status":201,"limit_type":"response_size","limit_value":1048576,"actual_value":1048577,"unit":"bytes"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := one(t, Options{MaxResponseBytes: 1 << 20}, c.base, writes)
			for _, op := range []string{"make", "change", "remove", "run"} {
				r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"` + op + `"}`)})
				if r.Failure == nil || r.Failure.Message != done+c.why || string(r.Failure.Details) != c.details || r.Call.Status != 201 {
					t.Errorf("%s:\n got %s (status %d)\nwant %s\n     %s", op, r.JSON(), r.Call.Status, done+c.why, c.details)
				}
			}
			for _, op := range []string{"look", "search"} {
				if got := ask(rt, Endpoint{}, `{"operation":"`+op+`"}`); !strings.Contains(got, `"message":"`+c.why) || strings.Contains(got, "carried") {
					t.Errorf("%s: %s", op, got)
				}
			}
		})
	}
}

// TestWhatTheStatusOfAWriteSays shows what the failure says first, by the status and by what tells the API's failures apart.
func TestWhatTheStatusOfAWriteSays(t *testing.T) {
	const accepted = "The request was accepted, to be carried out (HTTP 202): do not send it again. Its answer cannot be read: "
	const unsure = "The API answered HTTP 200, so the request may have been carried out: check before you send it again. Its answer cannot be read: "
	const graphql = `create: [{name: make, maps_to: POST /x, description: M, query: "mutation { make { id } }"}]
read: [{name: look, maps_to: POST /x, description: L, query: "{ a }"}]`
	for _, c := range []struct {
		name          string
		handler       http.HandlerFunc
		ops, more     string
		message, look string
	}{
		{"accepted", say(202, "text/plain", "Accepted"), writes, "", accepted + "Failed to parse", "Failed to parse"},
		{"the body may say no", say(200, "text/html", "<p>"), writes, "error_mapping: [{when: {path: ok, is: false}, code: PERMISSION_DENIED}]", unsure + "Server returned HTML", "Server returned"},
		{"a rule about a status", say(200, "text/html", "<p>"), writes, "error_mapping: [{status: 404, code: PERMISSION_DENIED}]", "The request was carried out (HTTP 200): ", "Server returned"},
		{"GraphQL", say(200, "text/html", "<p>"), graphql, "graphql", unsure + "Server returned HTML", "Server returned"},
		{"an error of the API", say(500, "text/html", "<p>"), writes, "", "Server returned HTML instead of JSON (HTTP 500)", "Server returned"},
		{"what the API said", say(200, "application/json", `{"ok":false,"message":"no"}`), writes, "error_mapping: [{when: {path: ok, is: false}, code: PERMISSION_DENIED}]", "Invalid request: no", "Invalid request: no"},
		{"no answer", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, writes, "", "Network error: ", "Network error: "},
		{"text that cannot be read", say(200, "text/plain; charset=shift_jis", "x"), strings.ReplaceAll(writes, "description: M", "description: M, response: {as: text}"), "", "The request was carried out (HTTP 200): do not send it again. Its answer cannot be read: Failed to read the response: charset 'shift_jis' is not supported", "Unexpected content type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := front(api(t, c.handler).URL, c.ops, c.more)
			if c.more == "graphql" {
				text = strings.Replace(front(api(t, c.handler).URL, c.ops), "protocol: rest", "protocol: graphql", 1)
			}
			rt := start(t, Options{}, map[string]string{"test-api-adapter.md": text})
			for op, want := range map[string]string{"make": c.message, "look": c.look} {
				r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"` + op + `"}`)})
				if r.Failure == nil || !strings.HasPrefix(r.Failure.Message, want) {
					t.Errorf("%s: got %s, want %s", op, r.JSON(), want)
				}
			}
		})
	}
}

// TestCarriedOutInEveryMode shows the failure in the three modes, as a client sees it.
func TestCarriedOutInEveryMode(t *testing.T) {
	s := api(t, say(201, "text/plain", "OK"))
	for mode, c := range map[present.Mode]struct{ tool, arguments string }{
		present.Semantic: {"mcp_aql_create", `{"operation":"make","params":{}}`}, present.Single: {"mcp_aql", `{"operation":"make","params":{}}`}, present.Discrete: {"make", `{}`},
	} {
		rt := one(t, Options{Shown: Shown{Mode: mode}}, s.URL, writes)
		r, ok := rt.CallTool(context.Background(), c.tool, &Request{Body: []byte(c.arguments), Session: "s"})
		got := string(rt.AppendToolResult(nil, &r))
		if !ok || !strings.Contains(got, `\"message\":\"The request was carried out (HTTP 201): do not send it again.`) || !strings.HasSuffix(got, `"isError":true}`) {
			t.Errorf("%v: %s", mode, got)
		}
	}
}

// TestSuccessesWithoutAnAnswer shows statuses whose body says nothing: it is not read, even if it is too large or cut.
func TestSuccessesWithoutAnAnswer(t *testing.T) {
	const cut = "Content-Length: 100\r\n\r\n<html"
	const large = "Content-Length: 99999999\r\n\r\n<html"
	see := func(location string) string {
		return "HTTP/1.1 303 See Other\r\nLocation: " + location + "\r\n"
	}
	for _, c := range []struct{ name, answer, write, read string }{
		{"205 with a body", "HTTP/1.1 205 Reset Content\r\nContent-Length: 5\r\n\r\n<html", `true,"data":null}`, `true,"data":null}`},
		{"205 that is cut", "HTTP/1.1 205 Reset Content\r\n" + cut, `true,"data":null}`, `true,"data":null}`},
		{"204 with a body", "HTTP/1.1 204 No Content\r\n" + cut, `true,"data":null}`, `true,"data":null}`},
		{"303", see("/x/7?a=1#f") + "Content-Length: 5\r\n\r\n<html", `true,"data":{"location":"/x/7?a=1"}}`, "redirect not followed"},
		{"303 that is cut", see("/x/7") + cut, `true,"data":{"location":"/x/7"}}`, "response ended early"},
		{"303 that is too large", see("/x/7") + large, `true,"data":{"location":"/x/7"}}`, "exceeds response_size"},
		{"303 elsewhere", see("https://u:p@h.example/x") + "Content-Length: 0\r\n\r\n", `true,"data":{"location":"https://h.example/x"}}`, "redirect not followed"},
		{"303 to nowhere", see("javascript:x") + "Content-Length: 0\r\n\r\n", `true,"data":null}`, "redirect not followed"},
		{"303 without a Location", "HTTP/1.1 303 See Other\r\nContent-Length: 0\r\n\r\n", "HTTP 303: redirect not followed", "redirect not followed"},
		{"302", "HTTP/1.1 302 Found\r\nLocation: /x/7\r\nContent-Length: 0\r\n\r\n", "HTTP 302: redirect not followed", "redirect not followed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rt := one(t, Options{MaxResponseBytes: 1 << 20}, rawAnswer(t, c.answer), writes)
			for _, op := range []string{"make", "change", "remove", "run"} {
				if got := ask(rt, Endpoint{}, `{"operation":"`+op+`"}`); !strings.Contains(got, c.write) {
					t.Errorf("%s: got %s, want %s", op, got, c.write)
				}
			}
			for _, op := range []string{"look", "search"} {
				if got := ask(rt, Endpoint{}, `{"operation":"`+op+`"}`); !strings.Contains(got, c.read) {
					t.Errorf("%s: got %s, want %s", op, got, c.read)
				}
			}
		})
	}
}

// full is a memory that has no room for one kind of what is kept of an answer.
type full struct {
	httpcall.Uncounted
	body, rest bool
}

func (m *full) Body(_ context.Context, n int) ([]byte, error) {
	if m.body {
		return nil, errors.New("full")
	}
	return make([]byte, 0, n), nil
}

func (m *full) Copy(_ context.Context, n int) ([]byte, error) {
	if m.rest {
		return nil, errors.New("full")
	}
	return make([]byte, 0, n), nil
}

func (m *full) Adopt(context.Context, []byte) error {
	if m.rest {
		return errors.New("full")
	}
	return nil
}

// TestWritesWithoutMemoryForTheirAnswer shows that a write is not to be tried again for want of memory.
func TestWritesWithoutMemoryForTheirAnswer(t *testing.T) {
	const done = "The request was carried out (HTTP 201): do not send it again. Its answer cannot be read: The memory for answers is full."
	for _, c := range []struct {
		memory   full
		kind, as string
	}{{full{body: true}, "application/json", "json"}, {full{rest: true}, "text/html", "html"}} {
		s := api(t, say(201, c.kind, `"x"`))
		rt := one(t, Options{Memory: &c.memory}, s.URL, strings.ReplaceAll(writes, "description:", "response: {as: "+c.as+"}, description:"))
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"make"}`)})
		if f := r.Failure; f == nil || f.Message != done || f.Busy || r.RetryAfter() != "" || r.HTTPStatus() != 502 {
			t.Errorf("%s: %s, status %d, again after %q", c.as, r.JSON(), r.HTTPStatus(), r.RetryAfter())
		}
		r = rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"look"}`)})
		if f := r.Failure; f == nil || !f.Busy || r.RetryAfter() != "1" || strings.Contains(f.Message, "carried") {
			t.Errorf("%s: %s", c.as, r.JSON())
		}
	}
}

// TestAWriteThatTimesOutInItsBody shows that a body that never ends does not hide that the request was carried out.
func TestAWriteThatTimesOutInItsBody(t *testing.T) {
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		io.WriteString(w, `{"id":`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	rt := one(t, Options{}, s.URL, "create: [{name: make, maps_to: POST /x, description: M, timeout_ms: 300}]")
	const want = `{"success":false,"error":{"code":"TRANSPORT_TIMEOUT","message":"The request was carried out (HTTP 201): do not send it again. Its answer cannot be read: Request timed out after 300ms","details":{"carried_out":true,"http_status":201}}}`
	if got := ask(rt, Endpoint{}, `{"operation":"make"}`); got != want {
		t.Error(got)
	}
}

// TestAWriteIsSentOnce shows that no write is sent again on a new connection if the old one dies before an answer, also if
// it is sent by GET.
func TestAWriteIsSentOnce(t *testing.T) {
	for _, op := range []string{"make", "change", "remove", "run"} {
		var requests atomic.Int32
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					in := bufio.NewReader(c)
					for range 2 {
						r, err := http.ReadRequest(in)
						if err != nil {
							return
						}
						io.Copy(io.Discard, r.Body)
						if requests.Add(1)%2 == 0 { // the second one of a connection gets no answer
							return
						}
						fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
					}
				}()
			}
		}()
		rt := one(t, Options{}, "http://"+l.Addr().String(), writes)
		first := ask(rt, Endpoint{}, `{"operation":"`+op+`"}`)
		second := ask(rt, Endpoint{}, `{"operation":"`+op+`"}`)
		if first != `{"success":true,"data":{}}` || !strings.Contains(second, "TRANSPORT_NETWORK_ERROR") || requests.Load() != 2 {
			t.Errorf("%s: %d requests, %s, %s", op, requests.Load(), first, second)
		}
		l.Close()
	}
}

// TestABodyAfter204IsNotTheNextAnswer shows that a body, which status 204 has not, is not read as the answer to the next request.
func TestABodyAfter204IsNotTheNextAnswer(t *testing.T) {
	s := "http://" + raw(t, func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n<html")
		io.Copy(io.Discard, c) // until the client closes the connection
	})
	rt := one(t, Options{}, s, writes)
	for range 4 {
		if got := ask(rt, Endpoint{}, `{"operation":"make"}`); got != `{"success":true,"data":null}` {
			t.Fatal(got)
		}
	}
}

// late is a memory that has room for so many copies, and then none.
type late struct {
	httpcall.Uncounted
	copies int
}

func (m *late) Copy(_ context.Context, n int) ([]byte, error) {
	if m.copies--; m.copies < 0 {
		return nil, errors.New("full")
	}
	return make([]byte, 0, n), nil
}

// TestResultsForWhichThereIsNoMemory shows that what is lost on the way to the client is not to be tried again if it changed
// something.
func TestResultsForWhichThereIsNoMemory(t *testing.T) {
	s := api(t, say(201, "application/json", `{"id":"`+strings.Repeat("x", 2000)+`"}`))
	const done = "The request was carried out (HTTP 201): do not send it again. Its answer cannot be read: The memory for answers is full."
	for _, c := range []struct {
		body, message string
		copies, again int
	}{
		{`{"operation":"make"}`, done, 0, 502},
		{`{"operation":"look"}`, "The memory for answers is full. Try again later.", 0, 503},
		{`{"operations":[{"operation":"look"},{"operation":"make"}]}`, "The first 2 requests were carried out: do not send them again. Their results are lost: The memory for answers is full.", 1, 502},
		{`{"operations":[{"operation":"look"},{"operation":"look"}]}`, "The memory for answers is full. Try again later.", 1, 503},
	} {
		rt := one(t, Options{Memory: &late{copies: c.copies}, HTTPPrefix: "/adapters"}, s.URL, writes)
		res := rt.HTTP(context.Background(), &HTTPRequest{Method: "POST", Path: "/adapters/test-api", ContentType: "application/json", Request: Request{Body: []byte(c.body)}})
		if res.Status != c.again || !strings.Contains(string(res.Body), `"message":"`+c.message+`"`) {
			t.Errorf("%s: %d %s", c.body, res.Status, res.Body)
		}
	}
}

// TestErrorRulesOfAnyAnswer shows that error rules also hold for JSON of operations whose answers may be text.
func TestErrorRulesOfAnyAnswer(t *testing.T) {
	s := api(t, say(200, "application/json", "\ufeff {\"ok\":false,\"message\":\"no\"}"))
	rt := one(t, Options{}, s.URL, "create: [{name: make, maps_to: POST /x, description: M, response: {as: auto}}]", "error_mapping: [{when: {path: ok, is: false}, code: PERMISSION_DENIED}]")
	if got := ask(rt, Endpoint{}, `{"operation":"make"}`); !strings.HasPrefix(got, `{"success":false,"error":{"code":"PERMISSION_DENIED","message":"Invalid request: no"`) {
		t.Error(got)
	}
}

// TestWritesWithoutAnyAnswer shows that a write of which nothing is known says so, and one that was not sent does not.
func TestWritesWithoutAnyAnswer(t *testing.T) {
	const unknown = `"details":{"carried_out":"unknown"}`
	slow := api(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	for _, c := range []struct {
		name, base, code string
		unknown          bool
	}{
		{"closed", "http://" + raw(t, func(net.Conn) {}), "TRANSPORT_NETWORK_ERROR", true},
		{"no HTTP", "http://" + raw(t, func(c net.Conn) { io.WriteString(c, "hello there\r\n\r\n") }), "TRANSPORT_NETWORK_ERROR", true},
		{"slow", slow.URL, "TRANSPORT_TIMEOUT", true},
		{"refused", "http://" + peertest.NoListener, "TRANSPORT_CONNECTION_REFUSED", false},
		{"no such host", "https://no-such-host.invalid", "TRANSPORT_DNS_ERROR", false},
		{"denied", "https://169.254.169.254", "TRANSPORT_NETWORK_ERROR", false},
	} {
		rt := one(t, Options{}, c.base, "create: [{name: make, maps_to: POST /x, description: M, timeout_ms: 300}]\nread: [{name: look, maps_to: GET /x, description: L, timeout_ms: 300}]")
		if got := ask(rt, Endpoint{}, `{"operation":"make"}`); !strings.Contains(got, c.code) || strings.Contains(got, unknown) != c.unknown {
			t.Errorf("%s: %s", c.name, got)
		}
		if got := ask(rt, Endpoint{}, `{"operation":"look"}`); strings.Contains(got, "carried_out") {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
