package stateless

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/ops/metrics"
	"github.com/dragoman-proxy/dragoman/proxy/ops/report"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// meta returns the member _meta of a request, with these capabilities and more members.
func meta(capabilities string, more ...string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities +
		`,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}` + strings.Join(append([]string{""}, more...), ",") + `}`
}

// TestMemoryIsFreeAfterTheLastRelease, and not before: the tally's other users may still read the request.
func TestMemoryIsFreeAfterTheLastRelease(t *testing.T) {
	none := func() float64 { return 0 }
	var m wire.Message
	if err := m.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n",`+meta(`{}`)+`}}`), nil); err != nil {
		t.Fatal(err)
	}
	q, err := Read(&m, "")
	if err != nil {
		t.Fatal(err)
	}
	counts := q.Count(metrics.New("v0", none, none))
	if err := q.Own(t.Context(), large.NewMemory(64<<20)); err != nil {
		t.Fatal(err)
	}
	counts.Hold()
	q.Free()
	counts.Release()
	if string(q.Raw) != string(m.Raw) || string(q.Target) != `"n"` {
		t.Errorf("a user is left, and the request is %s about %s", q.Raw, q.Target)
	}
	room := q.room
	counts.Release()
	if q.Raw != nil || q.Target != nil || q.Counts != nil || cap(room.text) < len(m.Raw) {
		t.Errorf("no user is left, and the request is %s", q.Raw)
	}
}

// TestMemoryOfALargeMessageIsNotKept.
func TestMemoryOfALargeMessageIsNotKept(t *testing.T) {
	var m wire.Message
	if err := m.Scan([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+strings.Repeat("n", keepText)+`",`+meta(`{}`)+`}}`), nil); err != nil {
		t.Fatal(err)
	}
	q, err := Read(&m, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Own(t.Context(), large.NewMemory(64<<20)); err != nil {
		t.Fatal(err)
	}
	if string(q.Raw) != string(m.Raw) || cap(q.room.text) > keepText {
		t.Errorf("%d bytes are kept", cap(q.room.text))
	}
}

func FuzzReadMeta(f *testing.F) {
	for _, seed := range []string{
		"", "{}", "[]", "null", "{" + meta(`{}`) + "}", `{"_meta":null}`, `{"_meta":[]}`, `{"_meta":{"io.modelcontextprotocol/protocolVersion":7}}`,
		"{" + meta(`{"elicitation":{"url":{}}}`, `"progressToken":[]`) + `}`, "{" + meta(`{}`, `"io.modelcontextprotocol/logLevel":"loud"`) + "}",
		`{"name":"a","name":"b",` + meta(`{}`) + "}", "{" + meta(`{}`) + "," + meta(`[]`) + "}", `{"\u005fmeta":{}}`, "{" + meta(`{}`),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, params string) {
		in := wire.Trim([]byte(params))
		if wire.Check(in, wire.Limits{}) != nil {
			return // the scan refuses the message
		}
		q, err := readMeta(in, "name", "")
		if err != nil {
			if b := report.FailureOf(err).Body(); !gjson.ValidBytes(b) {
				t.Errorf("the refusal is %s", b)
			}
			return
		}
		for what, raw := range map[string][]byte{"clientInfo": q.ClientInfo, "capabilities": q.Capabilities, "name": q.Target, "token": q.ProgressToken, "state": q.State, "inputs": q.Inputs} {
			if raw != nil && !gjson.ValidBytes(raw) {
				t.Errorf("%s is %q", what, raw)
			}
		}
		if !gjson.ParseBytes(q.Capabilities).IsObject() || q.LogLevel < mcp.NoLogLevel || q.LogLevel.String() == "" && q.LogLevel != mcp.NoLogLevel {
			t.Errorf("%+v", q)
		}
	})
}

// TestHeadersOfAnEscapedMethod: the header has the method's name, however the body writes it.
func TestHeadersOfAnEscapedMethod(t *testing.T) {
	for _, c := range []struct {
		method, header string
		ok             bool
	}{
		{"tools/call", "tools/call", true},
		{`tools\/call`, "tools/call", true},
		{`\u0074ools\/cal\u006C`, "tools/call", true},
		{`tools\/call`, `tools\/call`, false},
		{`tools\/call`, "tools/list", false},
		{`a\/b`, "a/b", true},
		{`a\\b`, `a\b`, true},
		{`tools\u0000call`, "tools", false},
	} {
		raw := []byte(`{"jsonrpc":"2.0","id":1,"method":"` + c.method + `","params":{"name":"t",` + meta("{}") + `}}`)
		var m wire.Message
		if err := m.Scan(raw, nil); err != nil {
			t.Fatal(err)
		}
		q, err := Read(&m, "")
		if err != nil {
			t.Fatal(err)
		}
		header := func(name string) string { return map[string]string{"Mcp-Method": c.header, "Mcp-Name": "t"}[name] }
		if err := q.CheckHeaders(header); (err == nil) != c.ok {
			t.Errorf("%s with %s: %v", c.method, c.header, err)
		}
		if err := q.Own(t.Context(), large.NewMemory(1<<20)); err != nil || q.Name != q.WithoutMessage().Name || c.ok && q.Name != c.header {
			t.Errorf("%s: %v, its name is then %s", c.method, err, q.Name)
		}
	}
}
