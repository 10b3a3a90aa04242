package stateless

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/clienterror"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
)

// meta returns the member _meta of a request, with these capabilities and more members.
func meta(capabilities string, more ...string) string {
	return `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":` + capabilities +
		`,"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}` + strings.Join(append([]string{""}, more...), ",") + `}`
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
		if !gjson.Valid(params) {
			return // no error contains it
		}
		q, err := readMeta(params, "name", "")
		if err != nil {
			if b := clienterror.Of(err).Body(); !gjson.ValidBytes(b) {
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
