package tests

import (
	"testing"
)

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
