package adapterrt

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dragoman-proxy/dragoman/adapterrt/failure"
	"github.com/dragoman-proxy/dragoman/adapterrt/file"
	"github.com/dragoman-proxy/dragoman/adapterrt/httpcall"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

const (
	png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89"
	wav = "RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00"
)

// others are answers that are not JSON, with the response block of their operation, over real sockets.
var others = []struct {
	name, response string
	handler        http.HandlerFunc
	want           string // the result after "success":
}{
	{"text", `as: text`, say(200, "text/plain", "a\r\nb\rc\n\"\u2028"), "true,\"data\":\"a\\nb\\nc\\n\\\"\u2028\"}"},
	{"text that is JSON", `as: text`, say(200, "application/json", `{"a": 1}`), `true,"data":"{\"a\": 1}"}`},
	{"empty text", `as: text`, say(200, "text/plain", ""), `true,"data":null}`},
	{"blank text", `as: text`, say(200, "text/plain", " \n"), `true,"data":" \n"}`},
	{"Latin-1", `as: text`, say(200, "text/plain; charset=ISO-8859-1", "caf\xe9"), `true,"data":"café"}`},
	{"UTF-16", `as: text`, say(200, "text/plain", "\xff\xfeh\x00\xe9\x00"), `true,"data":"hé"}`},
	{"UTF-16, big-endian", `as: text`, say(200, "text/plain", "\xfe\xff\x00h"), `true,"data":"h"}`},
	{"a BOM", `as: text`, say(200, "text/plain", "\ufeffx"), `true,"data":"x"}`},
	{"another charset", `as: text`, say(200, "text/plain; charset=shift_jis", "x"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to read the response: charset 'shift_jis' is not supported","details":{"content_type":"text/plain; charset=shift_jis","http_status":200}}}`},
	{"no UTF-8", `as: text`, say(200, "text/plain", "a\xff"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to read the response: invalid UTF-8","details":{"content_type":"text/plain","http_status":200}}}`},
	{"NUL", `as: text`, say(200, "", "a\x00b"), `true,"data":"a\u0000b"}`},

	{"CSV", `as: csv`, say(200, "text/csv", "id,name,id,\r\n1,\"a,\"\"b\n\",2,3\r\n4\n5,6,7,8,9\n"), `true,"data":{"items":[{"id":"1","name":"a,\"b\n","id_2":"2","column_4":"3"},{"id":"4"},{"id":"5","name":"6","id_2":"7","column_4":"8","column_5":"9"}]}}`},
	{"CSV with semicolons", `as: csv`, say(200, "text/csv", "\ufeffa;b\n1,5;2"), `true,"data":{"items":[{"a":"1,5","b":"2"}]}}`},
	{"tabs", `as: csv`, say(200, "text/tab-separated-values", "a\tb\n1\t2"), `true,"data":{"items":[{"a":"1","b":"2"}]}}`},
	{"only a header", `as: csv`, say(200, "text/csv", "a,b"), `true,"data":{"items":[]}}`},
	{"a quote inside a field", `as: csv`, say(200, "text/csv", "a\nx\"y\"\n"), `true,"data":{"items":[{"a":"x\"y\""}]}}`},
	{"long CSV", `as: csv`, say(200, "text/csv", "a\n"+strings.Repeat("x\n", 1001)), `true,"data":{"items":[` + strings.Repeat(`{"a":"x"},`, 999) + `{"a":"x"}]},"warnings":[{"code":"VALIDATION_TRUNCATED_WARNING","message":"Only the first 1000 items of the response are here","details":{"field":"data.items","truncated_count":1000,"limit":1000,"unit":"items"},"severity":"medium"}]}`},
	{"wide CSV", `as: csv`, say(200, "text/csv", strings.Repeat(",", 1001)+"\n"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to read the response: not CSV, or too many columns","details":{"content_type":"text/csv","http_status":200}}}`},

	{"XML", `as: xml`, say(200, "application/xml", `<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "y">]><a xmlns="u" id="1"><b>x &amp; y</b><c/><b k="v">z</b><d><e>1</e></d>tail</a>`),
		`true,"data":{"a":{"@id":"1","b":["x & y",{"@k":"v","#text":"z"}],"c":"","d":{"e":"1"},"#text":"tail"}}}`},
	{"XML in Latin-1", `as: xml`, say(200, "text/xml", "<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe9</a>"), `true,"data":{"a":"é"}}`},
	{"XML with prefixes", `as: xml`, say(200, "text/xml", `<s:a xmlns:s="u"><s:b/></s:a>`), `true,"data":{"a":{"b":""}}}`},
	{"an entity of its own", `as: xml`, say(200, "text/xml", "<!DOCTYPE a [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\n<a>&x;</a>"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to read the response: not XML: line 2","details":{"content_type":"text/xml","http_status":200}}}`},
	{"cut XML", `as: xml`, say(200, "text/xml", "<a><b>"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to read the response: not XML: line 1","details":{"content_type":"text/xml","http_status":200}}}`},
	{"deep XML", `as: xml`, say(200, "text/xml", strings.Repeat("<a>", 300)+strings.Repeat("</a>", 300)), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to read the response: too many elements, or too deep","details":{"content_type":"text/xml","http_status":200}}}`},
	{"large XML", `as: xml`, say(200, "text/xml", "<a>"+strings.Repeat(" ", 4<<20)+"</a>"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to read the response: XML beyond 4194304 bytes","details":{"content_type":"text/xml","http_status":200}}}`},
	{"no element", `as: xml`, say(200, "text/xml", "x"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to read the response: not XML: no document element","details":{"content_type":"text/xml","http_status":200}}}`},

	{"HTML", `as: html`, say(200, "text/html; charset=utf-8", `<!doctype html><html><head><title>T</title><style>p{}</style><script>if(a<b){}</script></head><body><h1>A &amp;  b</h1><p>x<b> y</b>, <a href="https://h/z">l<i>m</i></a>.<br>z <a href="javascript:x">js</a><ul><li>1<ol><li>one<li>two</ol><li>2</ul><table><tr><th>a<th>b</tr><tr><td>1</td><td>2</td></tr></table><pre>  p
 q</pre><img src=x alt="a  picture"><svg><text>no</text></svg>end`),
		`true,"data":"# A & b\n\nx y, [lm](https://h/z).\nz js\n- 1\n  1. one\n  2. two\n- 2\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n` + "```" + `\n  p\n q\n` + "```" + `\n\n[image: a picture]end"}`},
	{"HTML that is not closed", `as: html`, say(200, "text/html", `<p>a</b></p></ul><!-- <p>no --><td>x<script>y`), `true,"data":"a\n\n| x"}`},

	{"NDJSON", `as: ndjson`, say(200, "application/x-ndjson", "{\"a\": 1}\n\n[2]\r\nnull"), `true,"data":{"items":[{"a": 1},[2],null]}}`},
	{"NDJSON with an error", `as: ndjson`, say(200, "application/x-ndjson", "{}\n{\"a\":}"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to read the response: line 2 is not JSON: unexpected character","details":{"content_type":"application/x-ndjson","http_status":200}}}`},
	{"joined", `as: ndjson, join: message.content`, say(200, "", "{\"message\":{\"content\":\"a\\n\"}}\n{\"done\":true}\n{\"message\":{\"content\":\"b\"}}"), `true,"data":"a\nb"}`},
	{"events", `as: sse`, say(200, "text/event-stream", ": hi\nevent: x\ndata: {\"a\":\ndata: 1}\nid: 1\n\ndata\n\ndata: plain\n\ndata: [DONE]\n\ndata: cut"), `true,"data":{"items":[{"a":` + "\n" + `1},"","plain"]}}`},
	{"joined events", `as: sse, join: choices.0.delta.content`, say(200, "text/event-stream", "data: {\"choices\":[{\"delta\":{\"content\":\"He\"}}]}\n\ndata: {\"choices\":[]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"y\"}}]}\n\ndata: [DONE]\n\n"), `true,"data":"Hey"}`},

	{"base64", `as: base64`, say(200, "application/pdf", "%PDF-\x00"), `true,"data":{"content_type":"application/pdf","bytes":6,"base64":"JVBERi0A"}}`},
	{"base64 of an unknown type", `as: base64`, say(200, "", png), `true,"data":{"content_type":"image/png","bytes":33,"base64":"` + base64.StdEncoding.EncodeToString([]byte(png)) + `"}}`},
	{"media", `as: media`, say(200, "image/png", png), `true,"data":{"content_type":"image/png","bytes":33,"sha256":"c43f0a4a5b0dd5b1de8d6b5a9c0c9b4b53d0a2b8f87b1e8a"}}`},
	{"media that is too large", `as: media, max_bytes: 32`, say(200, "image/png", png), `…"bytes":33,…"warnings":[{"code":"MEDIA_TOO_LARGE","message":"The content is too large to be shown","details":{"bytes":33,"limit":32},"severity":"medium"}]}`},
	{"SVG is text", `as: media`, say(200, "image/svg+xml", "<svg/>"), `true,"data":"<svg/>"}`},

	{"auto: JSON", `as: auto`, say(200, "text/plain", ` {"a": 1}`), `true,"data": {"a": 1}}`},
	{"auto: text", `as: auto`, say(200, "text/markdown", "# a"), `true,"data":"# a"}`},
	{"auto: text of no type", `as: auto`, say(200, "", "# a"), `true,"data":"# a"}`},
	{"auto: a file", `as: auto`, say(200, "application/zip", "PK\x03\x04"), `…{"content_type":"application/zip","bytes":4,…`},

	{"auto: JSON behind a BOM", `as: auto`, say(200, "text/plain", "\ufeff[1]"), `true,"data":[1]}`},
	{"auto: blank", `as: auto`, say(200, "text/plain", "\ufeff \n"), `true,"data":null}`},
	{"auto: nothing", `as: auto`, say(200, "text/html", ""), `true,"data":null}`},
	{"auto: Latin-1", `as: auto`, say(200, "text/plain; charset=iso-8859-1", "caf\xe9"), `true,"data":"café"}`},
	{"auto: a page", `as: auto`, say(200, "text/html; charset=utf-8", "<p>a"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Server returned HTML instead of JSON (HTTP 200)","details":{"content_type":"text/html; charset=utf-8","body_preview":"<p>a","http_status":200}}}`},
	{"auto: a page that is JSON", `as: auto`, say(200, "text/html", `{}`), `true,"data":{}}`},
	{"auto: a page that accept names", `as: auto, accept: "text/html, text/plain"`, say(200, "text/html", "<p>a"), `true,"data":"<p>a"}`},
	{"auto: what calls itself JSON", `as: auto`, say(200, "application/json", `OK`), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Failed to parse response as JSON: unexpected character","details":{"content_type":"application/json","body_preview":"OK","offset":0,"http_status":200}}}`},
	{"auto: what calls itself some JSON", `as: auto`, say(200, "application/problem+json", `{"a`), `…SERIALIZATION_PARSE_ERROR…unexpected end of input…`},
	{"auto: a file that accept does not name", `as: auto, accept: "application/json, text/*;q=0.5"`, say(200, "application/pdf", "%PDF-"), `false,"error":{"code":"SERIALIZATION_PARSE_ERROR","message":"Unexpected content type 'application/pdf'","details":{"content_type":"application/pdf","http_status":200}}}`},
	{"auto: bytes of no type, not named", `as: auto, accept: "text/*"`, say(200, "", "\x00\xff"), `…Unexpected content type 'application/octet-stream'…`},
	{"auto: a file of a family that accept names", `as: auto, accept: "text/plain, image/*"`, say(200, "image/png", png), `…{"content_type":"image/png","bytes":33,…`},
	{"auto: text that accept does not name", `as: auto, accept: "application/json, text/*;q=0.5"`, say(200, "application/yaml", "a: b"), `true,"data":"a: b"}`},

	{"an error in text", `as: text`, say(404, "text/plain", "no such log, see /srv/api/logs.go\n"+strings.Repeat("x", 600)), `…"code":"NOT_FOUND_RESOURCE","message":"Not found: 404 Not Found","details":{"http_status":404,"upstream_error":"404 Not Found","operation":"op","upstream_body":"no such log, see [path]…`},
	{"an error in JSON", `as: csv`, say(422, "application/json", `{"message":"no"}`), `…"code":"VALIDATION_INVALID_TYPE","message":"Validation failed: no"…`},
	{"an error that is binary", `as: csv`, say(500, "image/png", png), `…"code":"INTERNAL_ERROR","message":"Server error: 500 Internal Server Error","details":{"http_status":500,"upstream_error":"500 Internal Server Error","operation":"op"}}}`},
	{"a status that is fine", `ok: [404]`, say(404, "application/json", `{"message":"no"}`), `true,"data":null,"warnings":[{"code":"UPSTREAM_STATUS","message":"The API answered 404 Not Found","details":{"http_status":404},"severity":"low"}]}`},
	{"a status that is not", `ok: [404]`, say(410, "application/json", `{"message":"no"}`), `…NOT_FOUND_RESOURCE…`},
	{"begun", `type: object`, say(202, "", "", "Location", "/jobs/7?x=1#f"), `true,"data":{"location":"/jobs/7?x=1"}}`},
	{"made elsewhere", `type: object`, say(201, "", "", "Location", "https://u:pw@h.example/x"), `true,"data":{"location":"https://h.example/x"}}`},

	{"decoded", `decode: {content: base64}`, say(200, "", `{"encoding":"base64","content":"aMOp\nCg==\n","size":4}`), `true,"data":{"encoding":"utf-8","content":"hé\n","size":4}}`},
	{"decoded in a list", `decode: {files.content: base64}`, say(200, "", `{"files":[{"content":"YQ=="},{"content":null},{}]}`), `true,"data":{"files":[{"content":"a"},{"content":null},{}]}}`},
	{"decoded binary", `decode: {content: base64}`, say(200, "", `{"content":"/wA=","encoding":"base64"}`), `true,"data":{"content":"/wA=","encoding":"base64"},"warnings":[{"code":"DECODE_BINARY","message":"The content is no text and stays base64","details":{"bytes":2},"severity":"low"}]}`},
	{"invalid base64", `decode: {content: base64}`, say(200, "", `{"content":"é","encoding":"base64"}`), `true,"data":{"content":"é","encoding":"base64"}}`},
	{"only fields that say base64", `decode: {content: base64}`, say(200, "", `{"content":"YQ==","encoding":"none"}`), `true,"data":{"content":"YQ==","encoding":"none"}}`},
	{"nothing to decode", `decode: {content: base64}`, say(200, "", `[{"a": 1}]`), `true,"data":[{"a": 1}]}`},
}

func TestAnswersThatAreNotJSON(t *testing.T) {
	for _, c := range others {
		t.Run(c.name, func(t *testing.T) {
			s := api(t, c.handler)
			rt := one(t, Options{}, s.URL, `read: [{name: op, maps_to: GET /x, response: {`+c.response+`}}]`)
			got := ask(rt, Endpoint{}, `{"operation":"op"}`)
			if !json.Valid([]byte(got)) || !utf8.ValidString(got) {
				t.Error("not JSON", got)
			}
			want := `{"success":` + c.want
			if parts := strings.Split(c.want, "…"); len(parts) > 1 {
				rest := got
				for _, p := range parts {
					_, after, found := strings.Cut(rest, p)
					if !found {
						t.Errorf("\n got %s\nwant %s", got, c.want)
					}
					rest = after
				}
			} else if c.name == "media" {
				if !strings.HasPrefix(got, `{"success":true,"data":{"content_type":"image/png","bytes":33,"sha256":"`) {
					t.Error(got)
				}
			} else if got != want {
				t.Errorf("\n got %s\nwant %s", got, want)
			}
		})
	}
}

// TestToolResultsShowMedia shows that images become image blocks, sounds audio blocks, and other files resources, and
// that JSON is compact.
func TestToolResultsShowMedia(t *testing.T) {
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/png":
			say(200, "image/png", png)(w, r)
		case "/lie":
			say(200, "image/png", "<script>")(w, r)
		case "/wav":
			say(200, "audio/wave", wav)(w, r)
		case "/pdf":
			say(200, "application/pdf", "%PDF-")(w, r)
		case "/contents":
			say(200, "application/json", `{ "content" : "`+base64.StdEncoding.EncodeToString([]byte(png))+`" , "encoding" : "base64" }`)(w, r)
		}
	})
	rt := one(t, Options{}, s.URL, `read:
- {name: png, maps_to: GET /png, response: {as: media}}
- {name: lie, maps_to: GET /lie, response: {as: media}}
- {name: wav, maps_to: GET /wav, response: {as: media}}
- {name: pdf, maps_to: GET /pdf, response: {as: media}}
- {name: contents, maps_to: GET /contents, response: {decode: {content: base64}}}`)
	for op, want := range map[string]string{
		"png": `{"type":"image","data":"` + base64.StdEncoding.EncodeToString([]byte(png)) + `","mimeType":"image/png"}]`,
		"lie": `{"type":"resource","resource":{"uri":"adapter://test-api/lie/`,
		"wav": `{"type":"audio","data":"` + base64.StdEncoding.EncodeToString([]byte(wav)) + `","mimeType":"audio/wave"}]`,
		"pdf": `"mimeType":"application/pdf","blob":"JVBERi0="}}]`, "contents": `{"type":"image","data":"`,
	} {
		r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"` + op + `"}`)})
		got := string(rt.AppendToolResult(nil, &r))
		if !json.Valid([]byte(got)) || !strings.Contains(got, want) || len(r.Media) != 1 {
			t.Errorf("%s: %s", op, got)
		}
		if op == "contents" && !strings.HasPrefix(got, `{"content":[{"type":"text","text":"{\"success\":true,\"data\":{\"content\":{\"content_type\":\"image/png\",\"bytes\":33,`) {
			t.Error(got)
		}
	}
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operations":[{"operation":"png"},{"operation":"wav"}]}`)})
	if len(r.Media) != 2 {
		t.Errorf("a batch shows %d", len(r.Media))
	}
}

// TestToolResultsHaveNoBlanks shows that tool results omit the white space between the values of an API's JSON, and
// keep it within strings. The plain endpoints return the API's bytes.
func TestToolResultsHaveNoBlanks(t *testing.T) {
	const body = "{\n  \"a b\" : [ 1.50 , \"x  y\\n\\\" \\u0041\" ],\n\t\"c\": null\n}"
	rt := one(t, Options{}, api(t, say(200, "application/json", body)).URL, status)
	r := rt.Dispatch(context.Background(), Endpoint{}, &Request{Body: []byte(`{"operation":"get_status"}`)})
	var result struct {
		Content []struct{ Text string }
	}
	if err := json.Unmarshal(rt.AppendToolResult(nil, &r), &result); err != nil {
		t.Fatal(err)
	}
	const want = `{"success":true,"data":{"a b":[1.50,"x  y\n\" \u0041"],"c":null}}`
	if result.Content[0].Text != want {
		t.Errorf("%s", result.Content[0].Text)
	}
	if got := string(r.JSON()); got != `{"success":true,"data":`+body+`}` {
		t.Error(got)
	}
}

func TestAcceptHeaderNamesTheResponseType(t *testing.T) {
	var accept []string
	s := api(t, func(w http.ResponseWriter, r *http.Request) {
		accept = append(accept, r.Header.Get("Accept"))
		say(200, "text/csv", "a")(w, r)
	})
	text := strings.Replace(front(s.URL, `read:
- {name: json, maps_to: GET /x}
- {name: csv, maps_to: GET /x, response: {as: csv}}
- {name: diff, maps_to: GET /x, response: {as: text, accept: application/vnd.github.diff}}`), "serialization: json", "serialization: json, headers: {Accept: application/vnd.github+json}", 1)
	rt := start(t, Options{}, map[string]string{"test-api-adapter.md": text})
	for _, op := range []string{"json", "csv", "diff"} {
		ask(rt, Endpoint{}, `{"operation":"`+op+`"}`)
	}
	if want := []string{"application/vnd.github+json", "text/csv, */*;q=0.5", "application/vnd.github.diff"}; fmt.Sprint(accept) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", accept, want)
	}
}

// TestCompressedTextIsBounded shows that a compressed page takes no more memory than the limit.
func TestCompressedTextIsBounded(t *testing.T) {
	var bomb bytes.Buffer
	w := gzip.NewWriter(&bomb)
	for range 11 { // MiB, one more than the limit
		w.Write(bytes.Repeat([]byte("a,"), 1<<19))
	}
	w.Close()
	s := api(t, say(200, "text/plain", bomb.String(), "Content-Encoding", "gzip"))
	for _, as := range []string{"text", "csv", "html", "base64", "media", "ndjson", "xml"} {
		rt := one(t, Options{}, s.URL, `read: [{name: op, maps_to: GET /x, response: {as: `+as+`}}]`)
		if got := ask(rt, Endpoint{}, `{"operation":"op"}`); !strings.Contains(got, "VALIDATION_PAYLOAD_TOO_LARGE") {
			t.Errorf("%s: %.200s", as, got)
		}
	}
}

// TestHostileTextIsReadInLinearTime reads, in each format, texts that are slow or large to read. A reader with quadratic time
// would take minutes.
func TestHostileTextIsReadInLinearTime(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	const size = 512 << 10 / effort
	fill := func(s string) string { return strings.Repeat(s, size/len(s)) }
	for as, bodies := range map[string][]string{
		"csv":    {strings.Repeat("n", 1<<18/effort) + "\n" + fill("a\n"), fill(","), fill("\""), strings.Repeat(strings.Repeat("x,", 999)+"\n", 1500/effort), fill("\n")},
		"xml":    {fill("<a>"), "<a>" + fill("<b/>") + "</a>", "<a " + fill("a='' ") + "/>", "<a>" + fill("&lt;") + "</a>", fill("<!-- "), fill("<!DOCTYPE [")},
		"html":   {fill("<div>"), fill("<ul><li>"), fill("*_`["), fill("<a href=/x>"), fill("<"), fill("<!--"), fill("&amp;"), "<pre>" + fill("`"), fill("<table><tr><td>"), "<p " + fill("a=b ") + ">"},
		"ndjson": {fill("1\n"), fill("\n"), fill("[")},
		"sse":    {fill("data: x\n\n"), fill("data\n"), fill("\n")},
		"text":   {fill("\r\n"), fill("\x01")},
	} {
		rt := one(t, Options{}, "https://api.example.com", `read: [{name: op, maps_to: GET /x, response: {as: `+as+`}}]`)
		op := rt.live.Load().adapters[0].Operations[0]
		for _, body := range bodies {
			var data []byte
			var f *failure.Failure
			took := peertest.ProcessorTime(func() {
				data, f = (&httpcall.Call{Op: op}).Read(&httpcall.Reply{Status: 200, Header: http.Header{}, Body: []byte(body)}, rt.reading)
			})
			if took > 10*time.Second || f == nil && !json.Valid(data) || len(data) > 20<<20 {
				t.Errorf("%s of %.20q takes %v for %d bytes", as, body, took, len(data))
			}
		}
	}
}

// redirecting starts an API and another host, both with TLS, and a runtime that trusts them.
func redirecting(t *testing.T, redirects string, here, there http.HandlerFunc) (rt *Runtime, api, other *httptest.Server) {
	other = httptest.NewTLSServer(there)
	api = httptest.NewTLSServer(here)
	t.Cleanup(func() { api.Close(); other.Close() })
	pool := x509.NewCertPool()
	pool.AddCert(api.Certificate())
	opt := fromEnv("TOKEN", "s3cret-token-value")
	opt.RootCAs = pool
	rt, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(front(api.URL+"/v1", `read: [{name: op, maps_to: GET /x, params: {v: {type: string, in: header, wire_name: X-V}}}]
create: [{name: make, maps_to: POST /x, params: {a: {type: string}}}]`, "auth: {type: bearer, token_env: TOKEN}"), "serialization: json", "serialization: json, headers: {X-Fixed: f}"+redirects, 1)
	_, paths := write(t, map[string]string{"test-api-adapter.md": text})
	if problems, err := rt.Load(paths); err != nil {
		t.Fatal(problems)
	}
	t.Cleanup(rt.Close)
	return rt, api, other
}

func TestRedirects(t *testing.T) {
	var seen []string
	note := func(r *http.Request) {
		seen = append(seen, fmt.Sprintf("%s %s auth=%v fixed=%v param=%v referer=%v", r.Method, r.URL, r.Header.Get("Authorization") != "", r.Header.Get("X-Fixed") != "", r.Header.Get("X-V") != "", r.Header.Get("Referer") != ""))
	}
	var to func(r *http.Request) string
	here := func(w http.ResponseWriter, r *http.Request) {
		note(r)
		if to := to(r); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(301)
			return
		}
		w.Write([]byte(`{"here":true}`))
	}
	once := func(target string) func(*http.Request) string {
		return func(r *http.Request) string {
			if r.URL.Path == "/v1/x" {
				return target
			}
			return ""
		}
	}
	const request = `{"operation":"op","params":{"v":"1"}}`
	for _, c := range []struct {
		name, redirects, target string
		want, seen              string
	}{
		{"not by default", "", "/v2/y", `"location":"/v2/y","permanent":true`, ""},
		{"within the API", ", redirects: same_origin", "/v2/y", `{"here":true}`, "GET /v2/y auth=true fixed=true param=true referer=false"},
		{"none, if the file says none", ", redirects: none", "/v2/y", "redirect not followed", ""},
		{"not to plain HTTP", ", redirects: same_origin", "http://127.0.0.1/x", "redirect not followed", ""},
		{"not with a password", ", redirects: same_origin", "https://u:p@127.0.0.1/x", "redirect not followed", ""},
		{"not to another host", ", redirects: same_origin", "https://localhost/x", `"location_host":"localhost"`, ""},
		{"not to a port that is not HTTPS's", ", redirects: [localhost]", "https://localhost:8443/x", "redirect not followed", ""},
		{"not to a place that is none", ", redirects: same_origin", "https://[::1", "TRANSPORT_NETWORK_ERROR", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			seen, to = nil, once(c.target)
			rt, _, _ := redirecting(t, c.redirects, here, nil)
			got := ask(rt, Endpoint{}, request)
			if !strings.Contains(got, c.want) || c.seen == "" && len(seen) != 1 || c.seen != "" && (len(seen) != 2 || seen[1] != c.seen) {
				t.Errorf("%s %q", got, seen)
			}
		})
	}

	t.Run("three at most", func(t *testing.T) {
		seen, to = nil, func(r *http.Request) string { return r.URL.Path + "x" }
		rt, _, _ := redirecting(t, ", redirects: same_origin", here, nil)
		if got := ask(rt, Endpoint{}, request); !strings.Contains(got, "redirect not followed") || len(seen) != 4 {
			t.Error(got, seen)
		}
	})
	t.Run("no request but GET", func(t *testing.T) {
		seen, to = nil, once("/v2/y")
		rt, _, _ := redirecting(t, ", redirects: same_origin", here, nil)
		if got := ask(rt, Endpoint{}, `{"operation":"make","params":{"a":"1"}}`); !strings.Contains(got, `"location":"/v2/y"`) || len(seen) != 1 {
			t.Error(got, seen)
		}
	})
}

// TestCredentialsStayWithTheAPI redirects a call to another host and back to the API. After the first redirect, no
// request carries the adapter's headers.
func TestCredentialsStayWithTheAPI(t *testing.T) {
	var at, home string
	var seen []http.Header
	there := func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header)
		w.Header().Set("Location", home+"/back")
		w.WriteHeader(302)
	}
	here := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			seen = append(seen, r.Header)
			w.Write([]byte(`{"ok":true}`))
			return
		}
		w.Header().Set("Location", at)
		w.WriteHeader(302)
	}
	rt, api, other := redirecting(t, ", redirects: [other.example]", here, there)
	// other.example is the other server, on the default port of HTTPS.
	rt.live.Load().adapters[0].client.Transport = reroute{rt.live.Load().adapters[0].client.Transport, map[string]string{"other.example": other.Listener.Addr().String()}}
	home, at = api.URL, "https://other.example/file?sig=1"
	got := ask(rt, Endpoint{}, `{"operation":"op","params":{"v":"1"}}`)
	if got != `{"success":true,"data":{"ok":true}}` || len(seen) != 2 {
		t.Fatal(got, len(seen))
	}
	for i, h := range seen {
		for name := range h {
			switch name {
			case "Accept", "User-Agent", "Accept-Encoding":
			default:
				t.Errorf("request %d has %s: %s", i, name, h.Get(name))
			}
		}
	}
}

// reroute sends requests for some hosts to other addresses.
type reroute struct {
	http.RoundTripper
	to map[string]string
}

func (r reroute) RoundTrip(req *http.Request) (*http.Response, error) {
	if address := r.to[req.URL.Host]; address != "" {
		req = req.Clone(req.Context())
		req.URL.Host = address
	}
	return r.RoundTripper.RoundTrip(req)
}

func TestMistakesInResponsesAreReported(t *testing.T) {
	for _, m := range []struct{ response, path, code, says string }{
		{`{as: yaml}`, "response.as", file.SchemaInvalidValue, "ndjson"},
		{`{az: text}`, "response.az", file.SchemaUnknownField, "did you mean as?"},
		{`{as: text, accpt: x/y}`, "response.accpt", file.SchemaUnknownField, "did you mean accept?"},
		{`{as: text, accept: "a\r\nb"}`, "response.accept", file.SchemaInvalidValue, ""},
		{`{max_bytes: 0}`, "response.max_bytes", file.SchemaInvalidValue, ""},
		{`{decode: {content: gzip}}`, "response.decode.content", file.SchemaInvalidValue, "base64"},
		{`{decode: {a..b: base64}}`, "response.decode.a..b", file.SchemaInvalidValue, ""},
		{`{as: text, decode: {a: base64}}`, "response.decode.a", file.SchemaInvalidValue, "as: json"},
		{`{ok: [200]}`, "response.ok[0]", file.SchemaInvalidValue, "400"},
		{`{ok: ["404"]}`, "response.ok[0]", file.SchemaInvalidType, ""},
		{`{ok: 404}`, "response.ok", file.SchemaInvalidType, ""},
		{`{join: a.b}`, "response.join", file.SchemaInvalidValue, "ndjson"},
	} {
		text := front("https://api.example.com", "read:\n- {name: op, description: Op, maps_to: GET /q, response: "+m.response+"}")
		a, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
		found := false
		for _, p := range problems {
			found = found || p.Path == "operations.read[0]."+m.path && p.Code == m.code && strings.Contains(p.Message+p.Expected, m.says) && p.Line > 0
		}
		if a != nil || !found {
			t.Errorf("%s: %v", m.response, problems)
		}
	}
	for _, m := range []struct{ redirects, path string }{
		{"same_orign", "target.redirects"}, {"[\"*\"]", "target.redirects[0]"}, {"[\"*.com\"]", "target.redirects[0]"}, {"[\"a*.example.com\"]", "target.redirects[0]"}, {"[\"https://h\"]", "target.redirects[0]"}, {"[5]", "target.redirects[0]"},
	} {
		text := strings.Replace(front("https://api.example.com", status), "serialization: json", "serialization: json, redirects: "+m.redirects, 1)
		a, problems := Parse("test-api-adapter.md", []byte(text), &Options{})
		if a != nil || len(problems) == 0 || problems[0].Path != m.path {
			t.Errorf("%s: %v", m.redirects, problems)
		}
	}
}

// FuzzAnswer shows that every answer of an API, in each format, becomes valid JSON.
func FuzzAnswer(f *testing.F) {
	testset.WithoutRace(f, "nothing runs beside it")
	for _, c := range others {
		w := httptest.NewRecorder()
		c.handler(w, nil)
		for as := range 10 {
			f.Add(as, w.Header().Get("Content-Type"), w.Body.Bytes())
		}
	}
	if page, err := os.ReadFile("../README.md"); err == nil {
		f.Add(2, "text/html", page[:4000])
	}
	formats := []string{"json", "text", "html", "csv", "xml", "ndjson", "sse", "base64", "media", "auto"}
	var ops strings.Builder
	for _, as := range formats {
		join := ""
		if as == "sse" {
			join = ", join: a.0.b"
		}
		ops.WriteString("- {name: as_" + as + ", maps_to: GET /x, response: {as: " + as + join + "}}\n")
	}
	ops.WriteString("- {name: decoded, maps_to: GET /x, response: {decode: {a.content: base64, content: base64}}}\n")
	rt := one(f, Options{}, "https://api.example.com", "read:\n"+ops.String())
	operations := rt.live.Load().adapters[0].Operations
	f.Fuzz(func(t *testing.T, as int, kind string, body []byte) {
		if as < 0 || as >= len(operations) {
			return
		}
		c := &httpcall.Call{Op: operations[as]}
		data, fail := c.Read(&httpcall.Reply{Status: 200, ContentType: kind, Header: http.Header{}, Body: bytes.Clone(body)}, rt.reading)
		if fail == nil {
			data = c.Decoded(data)
		}
		r := Result{Data: data, Failure: fail, Media: c.Media, Warnings: c.Warnings}
		if out := rt.AppendToolResult(nil, &r); !json.Valid(out) || !utf8.Valid(out) {
			t.Fatalf("%q as %s became %q", body, c.Op.Name, out)
		}
		if out := r.JSON(); !json.Valid(out) || !utf8.Valid(out) {
			t.Fatalf("%q as %s became %q", body, c.Op.Name, out)
		}
	})
}

// TestResponseLimitsAreExactToTheByte shows that the limits on what is read and on what is shown are exact to the byte.
func TestResponseLimitsAreExactToTheByte(t *testing.T) {
	const limit = 1 << 20
	body := func(n int) string { return "\x1f\x8b" + strings.Repeat("\x01", n-2) }
	for _, c := range []struct{ as, kind string }{{"text", "text/plain"}, {"base64", "application/gzip"}, {"media", "application/gzip"}, {"media", "application/pdf"}} {
		for n, want := range map[int]string{limit - 1: "", limit: "", limit + 1: "VALIDATION_PAYLOAD_TOO_LARGE"} {
			text := body(n)
			if c.as == "text" {
				text = strings.Repeat("x", n)
			}
			rt := one(t, Options{MaxResponseBytes: limit}, api(t, say(200, c.kind, text)).URL, "read:\n- {name: get_file, maps_to: GET /file, description: Get it, response: {as: "+c.as+"}}")
			if got := ask(rt, Endpoint{}, `{"operation":"get_file"}`); strings.Contains(got, `"success":true`) != (want == "") || !strings.Contains(got, want) {
				t.Errorf("%d bytes as %s: %.300s", n, c.as, got)
			}
		}
	}
	for n, want := range map[int]bool{limit - 1: true, limit: true, limit + 1: false} {
		rt := one(t, Options{}, api(t, say(200, "application/gzip", body(n))).URL, "read:\n- {name: get_file, maps_to: GET /file, description: Get it, response: {as: media}}")
		if got := ask(rt, Endpoint{}, `{"operation":"get_file"}`); strings.Contains(got, "MEDIA_TOO_LARGE") == want || !strings.Contains(got, fmt.Sprintf(`"bytes":%d,"sha256":"`, n)) {
			t.Errorf("%d bytes shown: %.300s", n, got)
		}
	}
}
