package peers

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestReadMessages(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "request 1"},
		{`{"jsonrpc":"2.0","id":"1","method":"ping"}`, `request "1"`},
		{`{"jsonrpc":"2.0","method":"x"}`, "notification "},
		{`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`, "response 1"},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":""}}`, "response null"},
		{` [{"jsonrpc":"2.0","id":1,"method":"a"},{"jsonrpc":"2.0","id":2,"result":{}}] `, "batch request 1 response 2"},
		{`[]`, "fails"}, {`{}`, "fails"}, {``, "fails"}, {`{"jsonrpc":"2.0","id":1}`, "fails"}, {`{"jsonrpc":"2.0","method":"x"}x`, "fails"},
	} {
		var got []string
		all, batch, err := readMessages([]byte(c.in))
		if batch && err == nil {
			got = append(got, "batch")
		}
		for _, m := range all {
			kind := map[bool]string{m.request(): "request", m.notification(): "notification", m.response(): "response"}[true]
			got = append(got, kind+" "+m.id())
		}
		if err != nil {
			got = []string{"fails"}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%s: %q, want %q", c.in, text, c.want)
		}
	}
}

// TestAPlainMessageIsReadLikeAnyOther compares with encoding/json, also where what is plain ends.
func TestAPlainMessageIsReadLikeAnyOther(t *testing.T) {
	for _, c := range []struct {
		in    string
		plain bool
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"a/b","params":{"a":"\\"}}`, true},
		{` { "jsonrpc" : "2.0" , "id" : "\u0061" , "result" : null , "error":null } `, true},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"\u00e9","data":[1]}}`, true},
		{`{"jsonrpc":"2.0","method":"a\/b"}`, false},
		{`{"jsonrpc":"2.0","method":"é"}`, false},
		{`{"jsonrpc":"2.0","Method":"a"}`, false},
		{`{"jsonrpc":"2.0","meth\u006fd":"a"}`, false},
		{`{"jsonrpc":"2.0","method":"a","extra":1}`, false},
		{`{"jsonrpc":"2.0","id":1,"id":2,"method":"a","method":"b"}`, false},
		{`{"jsonrpc":"2.0","error":{"code":1},"error":{"message":"x"}}`, false},
		{`{"jsonrpc":2}`, false}, {`{"jsonrpc":"2.0","error":{"code":"x"}}`, false}, {`{"jsonrpc":"2.0"`, false}, {`[]`, false}, {`null`, false}, {``, false},
	} {
		got, want := &message{raw: []byte(c.in)}, &message{raw: []byte(c.in)}
		if plain := got.readPlain(); plain != c.plain {
			t.Errorf("%s: plain: %t", c.in, plain)
		}
		if err := json.Unmarshal(want.raw, want); c.plain && (err != nil || !reflect.DeepEqual(got, want)) {
			t.Errorf("%s: %+v, want %+v (%v)", c.in, got, want, err)
		}
	}
}

func TestEventsAreReadAsTheyAreWritten(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	var stream []byte
	stream = append(stream, ": hello\n\n"...)
	stream = appendEvent(stream, "1", "", nil)
	stream = appendEvent(stream, "", "message", []byte("a\nb"))
	stream = appendEvent(stream, "", "", []byte(long))
	stream = append(stream, "data: cut"...)
	r := bufio.NewReaderSize(strings.NewReader(string(stream)), 64)
	for _, want := range []event{{comment: "hello"}, {ID: "1", HasID: true}, {Name: "message", Data: "a\nb"}, {Data: long}} {
		if got, err := readEvent(r); err != nil || got != want {
			t.Fatalf("%+v, %v, want %+v", got, err, want)
		}
	}
	if _, err := readEvent(r); err != io.ErrUnexpectedEOF {
		t.Errorf("the end within an event: %v", err)
	}
	if _, err := readEvent(bufio.NewReader(strings.NewReader(""))); err != io.EOF {
		t.Errorf("the end between events: %v", err)
	}
}

func TestHTTPIsReadAsItIsWritten(t *testing.T) {
	data := appendBody(nil, "POST /mcp HTTP/1.1", []byte("{}"), "Host", "x", "Empty", "")
	q, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(data))))
	if err != nil || q.Host != "x" || q.ContentLength != 2 || len(q.Header) != 1 {
		t.Errorf("%+v %v", q, err)
	}
	data = appendHead(nil, statusLine(200), "Transfer-Encoding", "chunked")
	data = append(appendChunk(appendChunk(data, []byte("ab")), []byte("c")), lastChunk...)
	p, err := http.ReadResponse(bufio.NewReader(strings.NewReader(string(data))), nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := readBody(p.Body); err != nil || string(body) != "abc" {
		t.Errorf("%q %v", body, err)
	}
}

func TestTextsTellWhoseTheyAre(t *testing.T) {
	for _, c := range []struct {
		text, what, mark string
		n                int
	}{
		{numbered("c1.7", "question", 2), "question", "c1.7", 2},
		{"c1.7 done 1 xxxx", "done", "c1.7", 1},
		{"c1.7 done", "done", "", 0}, {"x c1.7 done 1", "done", "", 0}, {"", "done", "", 0},
	} {
		if mark, n := readNumbered(c.text, c.what); mark != c.mark || n != c.n {
			t.Errorf("%q: %q %d", c.text, mark, n)
		}
	}
	for _, c := range []struct{ method, result, want string }{
		{"elicitation/create", `{"action":"accept","content":{"answer":"c1.7 answer 1"}}`, "accept c1.7 answer 1"},
		{"elicitation/create", `{"action":"decline"}`, "decline"},
		{"sampling/createMessage", `{"content":{"type":"text","text":"a"}}`, "a"},
		{"roots/list", `{"roots":[{"uri":"file:///a","name":"a"}]}`, "a"},
	} {
		if got := replyText(c.method, json.RawMessage(c.result), nil); got != c.want {
			t.Errorf("%s: %q, want %q", c.result, got, c.want)
		}
	}
}

func TestOutboxWritesInOrderAndEnds(t *testing.T) {
	r, w := io.Pipe()
	o := newOutbox(w, func(error) { w.Close() })
	o.send([]byte("a"))
	o.send([]byte("b"))
	o.close()
	if o.send([]byte("c")) {
		t.Error("sent after close")
	}
	if all, err := io.ReadAll(r); string(all) != "ab" || err != nil {
		t.Errorf("%q %v", all, err)
	}
	<-o.ended
}
