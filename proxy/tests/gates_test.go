package tests

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

var goodGate = config.Gate{
	Tool: "get_records", Params: []string{"expand", "expand_limit"},
	Source: "get_schema", SourceParams: map[string]any{"view": "compact", "stream": "{stream}", "connection_id": "{connection_id}"},
	List: "streams", Match: map[string]string{"name|stream": "{stream}"}, Capability: "caps.expand", Subject: "stream", ErrorCode: "invalid_expand",
	TimeoutMS: int(patience.Milliseconds()),
}

func asText(json string) string {
	return `{"content":[{"type":"text","text":` + string(wire.AppendQuoted(nil, json)) + `}]}`
}

func getRecords(arguments string) string { return callOurs(5, "get_records", arguments) }

// TestRefusalsOfGatesAreCounted. What client and server exchange is in testdata/scripts/gates*.txt.
func TestRefusalsOfGatesAreCounted(t *testing.T) {
	caps := `[]`
	srv := front(t, newFake(initializing("2025-06-18", func(m string) ([]string, error) {
		return one(result(gjson.Get(m, "id").Raw, strings.Trim(asText(`{"streams":[{"name":"a","caps":{"expand":`+caps+`}}]}`), "{}")))
	})), func(c *config.Config) { c.Gates = []config.Gate{goodGate} })
	session := srv.initialize("2025-06-18")
	for _, now := range []string{`[]`, `["x"]`} {
		caps = now
		srv.answer(session, getRecords(`{"stream":"a","expand":["x"]}`))
		if n := counted(t, srv.Metrics, "dragoman_gates_total", "tool=get_records", "verdict=refused"); n != 1 {
			t.Errorf("%s: counted %d", caps, n)
		}
	}
}
