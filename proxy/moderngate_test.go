package proxy

import (
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// TestGateBeforeAClientWithoutASession: the gate's refusal is the call's result, whether the server
// may ask something in the call or not.
func TestGateBeforeAClientWithoutASession(t *testing.T) {
	for _, can := range []string{`{}`, `{"elicitation":{}}`} {
		for _, piped := range []bool{false, true} {
			f := gatedServer(func(gjson.Result) string { return asText(`{"streams":[{"name":"a","caps":{"expand":[]}}]}`) })
			f.piped = piped
			srv := front(t, f, func(cfg *config.Config) { cfg.Gates = []config.Gate{goodGate} })
			for arguments, refused := range map[string]bool{`{"stream":"a","expand":["x"]}`: true, `{"stream":"a"}`: false} {
				r := srv.modernly(modernRequestOf("5", "tools/call", `"name":"get_records","arguments":`+arguments+`,`+meta(can)))
				if r.status != 200 || refusedExpand(r.body) != refused || !refused && text(r.body) != "records" ||
					gjson.Get(r.body, "id").Raw != "5" || gjson.Get(r.body, "result.resultType").Str != "complete" {
					t.Errorf("%s, %s, piped %v: %d %s", can, arguments, piped, r.status, r.body)
				}
			}
		}
	}
}

// TestQuestionAsTheSessionBegins: over HTTP a server can ask for roots only on the standing stream,
// so that stream is open before the first request is sent.
func TestQuestionAsTheSessionBegins(t *testing.T) {
	f := legacyServer(`{"tools":{}}`, func(id, method, _ string) ([]string, error) {
		return one(`{"jsonrpc":"2.0","id":` + id + `,"result":{"tools":[],"content":[]}}`)
	})
	f.Unasked(`{"jsonrpc":"2.0","id":"r1","method":"roots/list"}`)
	srv := front(t, f)
	if r := srv.modernly(modernRequestOf("1", "tools/list", meta(`{"roots":{}}`))); r.status != 200 {
		t.Fatalf("%+v", r)
	}
	if n := len(f.listens()); n != 1 {
		t.Errorf("%d standing streams", n)
	}
}
