package wire

import (
	"fmt"
	"strings"
	"testing"
)

func TestRepeatedMembersOfParams(t *testing.T) {
	call := func(params string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + params + `}}`
	}
	shape := new(Shape)
	shape.At(ParsePath("params._meta.progressToken")...)
	shape.At(ParsePath("params.name")...)
	for _, c := range []struct{ name, text, why string }{
		{"name", call(`"name":"a","name":"b"`), "params.name occurs twice"},
		{"name, with something between", call(`"name":"a","arguments":{"name":"c"},"name":"a"`), "params.name occurs twice"},
		{"name with escapes", call(`"name":"a","n\u0061me":"b"`), "params.name occurs twice"},
		{"arguments", call(`"arguments":{},"arguments":{}`), "params.arguments occurs twice"},
		{"_meta", call(`"_meta":{},"_meta":{}`), "params._meta occurs twice"},
		{"uri", call(`"uri":"a:b","uri":"a:b"`), "params.uri occurs twice"},
		{"cursor", call(`"cursor":"a","cursor":"b"`), "params.cursor occurs twice"},
		{"level", call(`"level":"info","level":"debug"`), "params.level occurs twice"},
		{"task", call(`"task":{},"task":null`), "params.task occurs twice"},
		{"taskId", call(`"taskId":"a","taskId":"b"`), "params.taskId occurs twice"},
		{"ref", call(`"ref":{},"ref":{}`), "params.ref occurs twice"},
		{"requestState", call(`"requestState":"a","requestState":"b"`), "params.requestState occurs twice"},
		{"inputResponses", call(`"inputResponses":{},"inputResponses":{}`), "params.inputResponses occurs twice"},
		{"notifications", call(`"notifications":{},"notifications":{}`), "params.notifications occurs twice"},
		{"protocolVersion", call(`"protocolVersion":"a","protocolVersion":"b"`), "params.protocolVersion occurs twice"},
		{"capabilities", call(`"capabilities":{},"capabilities":{}`), "params.capabilities occurs twice"},
		{"clientInfo", call(`"clientInfo":{},"clientInfo":{}`), "params.clientInfo occurs twice"},
		{"requestId", call(`"requestId":1,"requestId":2`), "params.requestId occurs twice"},
		{"white space", " { \"jsonrpc\" : \"2.0\" , \"id\" : 1 , \"method\" : \"m\" , \"params\" : { \"uri\" : 1 , \"uri\" : 2 } } ", "params.uri occurs twice"},
		{"unknown names", call(`"x":1,"x":2,"":1,"":2`), ""},
		{"deeper down", call(`"name":"a","arguments":{"name":1,"name":2}`), ""},
		{"in the envelope", `{"jsonrpc":"2.0","id":1,"name":1,"name":2,"method":"m","params":{"name":1}}`, ""},
		{"notification", `{"jsonrpc":"2.0","method":"m","params":{"name":1,"name":2}}`, ""},
		{"notification of one request", `{"jsonrpc":"2.0","method":"m","params":{"requestId":1,"x":2,"x":3}}`, ""},
		{"result", `{"jsonrpc":"2.0","id":1,"result":{"name":1,"name":2}}`, ""},
		{"empty", call(` `), ""},
	} {
		for how, s := range map[string]*Shape{"": nil, " recorded": shape, " nothing recorded": new(Shape)} {
			t.Run(c.name+how, func(t *testing.T) {
				var m Message
				err := m.Scan([]byte(c.text), s)
				switch {
				case c.why == "" && err != nil:
					t.Error(err)
				case c.why == "":
					if got := string(m.AppendTo(nil)); got != c.text {
						t.Errorf("written as %s", got)
					}
				case err == nil || !strings.HasSuffix(err.Error(), c.why) || string(err.(*EnvelopeError).ID) != "1" || err.(*EnvelopeError).Code != InvalidRequest:
					t.Errorf("got %v, want %s", err, c.why)
				}
			})
		}
	}
}

// TestRepeatedMembersOfNotifications: of what a notification is about there is one. Other members may occur again, before it or after.
func TestRepeatedMembersOfNotifications(t *testing.T) {
	for _, name := range []string{"requestId", "progressToken", "taskId", "elicitationId", "uri"} {
		for _, params := range []string{`"NAME":1,"NAME":2`, `"NAME":1,"name":1,"NAME":1,"name":2`, `"name":1,"name":2,"NAME":1,"NAME":1`, `"NAME":1,"x":{},"ESCAPED":2`} {
			text := `{"jsonrpc":"2.0","method":"m","params":{` + spelled(params, name) + `}}`
			err := new(Message).Scan([]byte(text), nil)
			if fault, is := err.(*EnvelopeError); !is || fault.Code != InvalidRequest || fault.ID != nil || fault.Why != "Invalid Request: params."+name+" occurs twice" {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// spelled puts a name into a text: for NAME as it is, and for ESCAPED with an escape.
func spelled(text, name string) string {
	return strings.NewReplacer("NAME", name, "ESCAPED", fmt.Sprintf(`\u%04x`, name[0])+name[1:]).Replace(text)
}

func TestBrokenParams(t *testing.T) {
	for _, params := range []string{`{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{1:2}`, `{"a" 1}`, `{"a":1 "b":2}`, `{"a":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`} {
		text := `{"jsonrpc":"2.0","id":1,"method":"m","params":` + params + `}`
		for _, s := range []*Shape{nil, new(Shape)} {
			if err := new(Message).Scan([]byte(text), s); err == nil || err.(*EnvelopeError).Code != ParseError {
				t.Errorf("%.80s: %v", params, err)
			}
		}
	}
	fits := `{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":` + strings.Repeat("[", MaxDepth-2) + strings.Repeat("]", MaxDepth-2) + `}}`
	if err := new(Message).Scan([]byte(fits), nil); err != nil {
		t.Error(err)
	}
}

func TestScanOfARequestDoesNotAllocate(t *testing.T) {
	text := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{"q":1},"_meta":{"progressToken":1}}}`)
	var m Message
	if n := testing.AllocsPerRun(100, func() {
		if m.Scan(text, nil) != nil {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkScanRequest(b *testing.B) {
	for _, c := range []struct{ name, raw string }{
		{"call", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search_issues","arguments":{"query":"is:open label:bug","limit":20,"state":"open"},"_meta":{"progressToken":7}}}`},
		{"call100KB", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{"text":"` + strings.Repeat(`The quick brown fox jumps over the lazy dog.\n`, 2200) + `"}}}`},
		{"params20", `{"jsonrpc":"2.0","id":1,"method":"m","params":{` + strings.TrimSuffix(strings.Repeat(`"some_member":123,`, 20), ",") + `}}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			var m Message
			raw := []byte(c.raw)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if err := m.Scan(raw, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestNameOfWhatIsCalled(t *testing.T) {
	for params, want := range map[string]string{
		`{"name":"a","arguments":{"name":"b"}}`: `"a"`,
		`{"arguments":{"name":"b"},"name": 7 }`: `7`,
		`{"arguments":{"name":"b"}}`:            ``,
	} {
		for _, s := range []*Shape{nil, new(Shape)} {
			var m Message
			if err := m.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`), s); err != nil || string(m.Name()) != want {
				t.Errorf("%s: %s, %v", params, m.Name(), err)
			}
		}
	}
}
