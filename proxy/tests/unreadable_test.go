package tests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// unreadable are answers that are not as JSON-RPC wants them; %s is the id of the request. Those with a quirk are read nevertheless;
// the call of the others fails at once.
var unreadable = []struct {
	name, text string
	quirk      mcp.Quirk
	lone       bool // it names no request: it ends a call only if no other is open
}{
	{name: "a null error beside the result", text: `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"yes"}]},"error":null}`, quirk: mcp.NullMember},
	{name: "a null error in front", text: `{"error":null,"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"yes"}]},"id":%s}`, quirk: mcp.NullMember},
	{name: "a null result beside the error", text: `{"jsonrpc":"2.0","id":%s,"result":null,"error":{"code":-32000,"message":"no"}}`, quirk: mcp.NullMember},
	{name: "a byte order mark", text: "\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"yes"}]}}`, quirk: mcp.ByteOrderMark},
	{name: "a mark and a null error", text: "\xef\xbb\xbf" + `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"yes"}]},"error":null}`, quirk: mcp.NullMember},
	{name: "the id as a text", text: `{"jsonrpc":"2.0","id":"%s","result":{"content":[{"type":"text","text":"yes"}]}}`, quirk: mcp.TextID},

	{name: "result and error", text: `{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":1,"message":"m"}}`},
	{name: "neither result nor error", text: `{"jsonrpc":"2.0","id":%s}`},
	{name: "no jsonrpc", text: `{"id":%s,"result":{}}`},
	{name: "another jsonrpc", text: `{"jsonrpc":2.0,"id":%s,"result":{}}`},
	{name: "a method", text: `{"jsonrpc":"2.0","id":%s,"method":"tools/call","result":{}}`},
	{name: "NaN", text: `{"jsonrpc":"2.0","id":%s,"result":{"structuredContent":{"a":NaN}}}`},
	{name: "a trailing comma", text: `{"jsonrpc":"2.0","id":%s,"result":{"content":[],}}`},
	{name: "Latin-1", text: `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"caf` + "\xe9" + `"}]}}`},
	{name: "a control character", text: `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"` + "\x01" + `"}]}}`},
	{name: "600 deep", text: `{"jsonrpc":"2.0","id":%s,"result":{"content":` + strings.Repeat("[", 600) + strings.Repeat("]", 600) + `}}`},
	{name: "a doubled id", text: `{"jsonrpc":"2.0","id":%[1]s,"id":%[1]s,"result":{"content":[]}}`, lone: true},
	{name: "no id", text: `{"jsonrpc":"2.0","result":{"content":[]}}%.0s`, lone: true},
	{name: "an id that is none", text: `{"jsonrpc":"2.0","id":[%s],"result":{"content":[]}}`, lone: true},
	{name: "no id and a syntax error", text: `{"jsonrpc":"2.0","error":{"code":-32603,"message":NaN}}%.0s`, lone: true},
}

// TestAnswersThatCannotBeRead: from servers of each kind, to clients of each kind.
func TestAnswersThatCannotBeRead(t *testing.T) {
	for _, server := range []string{"handshake pipe", "handshake http", "modern pipe", "modern http", "shared pipe"} {
		for _, client := range []string{"http", "stdio", "modern http", "modern stdio"} {
			t.Run(client+" before "+server, func(t *testing.T) { answersThatCannotBeRead(t, client, server) })
		}
	}
}

func answersThatCannotBeRead(t *testing.T, client, server string) {
	text := ""
	noTools := func(id, _, _ string) ([]string, error) {
		return one(result(id, `"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private"`))
	}
	answering := func(u *peertest.Turn) { u.Say(fmt.Sprintf(text, u.ID)) }
	var f *fakeServer
	if strings.HasPrefix(server, "modern") {
		f = modernServer(strings.HasSuffix(server, "pipe"), `"capabilities":{"tools":{}}`, noTools)
		f.asked = true
	} else {
		f = legacyServer(`{"tools":{}}`, noTools)
		f.piped = strings.HasSuffix(server, "pipe")
	}
	f.on("tools/call", answering)
	var srv testServer
	if server == "shared pipe" {
		srv = sharing(t, newFamily(func(int) *fakeServer { return f }))
	} else {
		srv = front(t, f)
	}
	call := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t"}}`, id)
	}
	modern := func(id int) string { return modernRequestOf(fmt.Sprint(id), "tools/call", `"name":"t",`+meta(`{}`)) }
	var ask func(id int) string
	switch client {
	case "http":
		s := srv.initialize("2025-06-18")
		ask = func(id int) string { return lastOf(srv.post(s, call(id))) }
	case "modern http":
		ask = func(id int) string { return lastOf(srv.modernly(modern(id))) }
	case "stdio":
		c := srv.pipe()
		c.say(introduction)
		c.hear()
		ask = func(id int) string { c.say(call(id)); return c.hear() }
	default:
		c := srv.pipe()
		ask = func(id int) string { c.say(modern(id)); return c.hear() }
	}
	for i, c := range unreadable {
		text = c.text
		got := ask(100 + i)
		read := gjson.Get(got, "result.content.0.text").String() == "yes" || gjson.Get(got, "error.message").String() == "no"
		if gjson.Get(got, "id").Int() != int64(100+i) || read != (c.quirk != "") || !read && !gjson.Get(got, "error").Exists() {
			t.Errorf("%s: the client got %.300s", c.name, got)
		}
		if null := gjson.Get(got, "error").Raw == "null" || gjson.Get(got, "result").Raw == "null"; null || !gjson.Valid(got) {
			t.Errorf("%s: the client got %.300s", c.name, got)
		}
		if c.quirk != "" && counted(t, srv.Metrics, "dragoman_quirks_total", "quirk="+string(c.quirk)) == 0 {
			t.Errorf("%s: not counted", c.name)
		}
	}
	text = unreadable[0].text
	if got := ask(99); gjson.Get(got, "result.content.0.text").String() != "yes" {
		t.Errorf("afterwards the client got %s", got)
	}
}

// lastOf returns the response in a reply.
func lastOf(r reply) string {
	if len(r.events) > 0 {
		return r.events[len(r.events)-1]
	}
	return r.body
}

// TestLinesThatAnswerNothing: what a server prints while calls are in flight ends none of them, unless it is plainly the answer.
func TestLinesThatAnswerNothing(t *testing.T) {
	lines := []string{
		`{"level":"error","msg":"failed","error":"x"}`,
		`{"level":30,"time":NaN,"id":%s,"error":"x"}`,
		`{"jsonrpc":"2.0","id":%s,"method":"ping","params":[}`,
		`{"id":%s,"event":"started"}`,
		`{"progress": 50%}`,
		`{"jsonrpc":"2.0","id":99999,"result":NaN}`,
		`[{"result":1},`,
	}
	for _, piped := range []bool{false, true} {
		t.Run(fmt.Sprintf("stdio %t", piped), func(t *testing.T) {
			f := silentPipe()
			srv := front(t, f)
			var send func(id string)
			var hear func() string
			if piped {
				c := srv.pipe()
				c.say(introduction)
				c.hear()
				send, hear = func(id string) { c.say(callTool(id, id)) }, c.hear
			} else {
				s := srv.initialize("2025-06-18")
				replies := make(chan calling, 2)
				send = func(id string) { replies <- srv.call(f, s, callTool(id, id)) }
				hear = func() string { return lastOf(<-(<-replies).reply) }
			}
			says := func(line, id string) {
				f.Unasked(strings.NewReplacer("%[1]s", id, "%.0s", "", "%s", id).Replace(line))
			}
			send("1")
			eventually(t, "sent", func() bool { return len(f.said("tools/call")) == 1 })
			one := f.lastID()
			for _, line := range lines {
				says(line, one)
			}
			send("2")
			eventually(t, "sent", func() bool { return len(f.said("tools/call")) == 2 })
			for _, c := range unreadable { // of two calls, neither is meant
				if c.lone {
					says(c.text, one)
				}
			}
			f.Unasked(answer(one))
			if got := hear(); got != answer("1") {
				t.Errorf("the first call got %s", got)
			}
			f.Unasked(`{"result":"which?"}`) // the only one
			if got := hear(); gjson.Get(got, "id").Int() != 2 || !gjson.Get(got, "error").Exists() {
				t.Errorf("the second call got %s", got)
			}
		})
	}
}
