package filter

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
)

func run(from, to, in string) (out, notes string, err error) {
	var o, n bytes.Buffer
	err = Filter{
		From: translate.Lookup(from), To: translate.Lookup(to), Limits: config.Default().Limits,
		In: strings.NewReader(in), Out: &o, Notes: &n, Report: ReportShort,
	}.Run()
	return o.String(), n.String(), err
}

func TestFilterLearnsMethodsFromRequests(t *testing.T) {
	out, notes, err := run("2025-06-18", "2024-11-05", `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}
{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"p","title":"P"}]}}
{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t","title":"T","inputSchema":{"type":"object"}}]}}
`)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}
{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"p"}]}}
{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}
`
	if out != want {
		t.Errorf("got %s", out)
	}
	lines := strings.Split(strings.TrimSpace(notes), "\n")
	if len(lines) != 2 || gjson.Get(lines[0], "rule").String() != "C01" || gjson.Get(lines[0], "method").String() != "prompts/list" ||
		gjson.Get(lines[1], "line").Int() != 3 || gjson.Get(lines[1], "path").String() != "result.tools[0].title" {
		t.Errorf("%s", notes)
	}
}

func TestFilterKnowsTheClientFromInitialize(t *testing.T) {
	ask := `{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"mode":"url","message":"?","url":"https://x.example","elicitationId":"1"}}`
	out, notes, err := run("2025-11-25", "2025-06-18", string(mcp.Initialize("0", "2025-11-25", `{"elicitation":{"form":{}}}`, `{"name":"c","version":"1"}`))+"\n"+ask+"\n")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out, "elicitation/create") {
		t.Errorf("forwarded: %s", out)
	}
	last := strings.Split(strings.TrimSpace(notes), "\n")
	answer := gjson.Get(last[len(last)-1], "answer")
	if gjson.Get(last[len(last)-1], "verdict").String() != "answer" || answer.Get("error.code").Int() != -32602 {
		t.Errorf("%s", notes)
	}
}

func TestFilterGoesOnAfterAnInvalidLine(t *testing.T) {
	out, notes, err := run("2025-06-18", "2024-11-05", "nonsense\n\n"+`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n")
	if !errors.Is(err, errNotTranslated) {
		t.Error(err)
	}
	if out != `{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n" || !strings.Contains(notes, "Parse error") {
		t.Errorf("%s\n%s", out, notes)
	}
}

func filterBy(by Sender, report Reporting, from, to, in string) (out, notes []string, err error) {
	var o, n bytes.Buffer
	err = Filter{
		From: translate.Lookup(from), To: translate.Lookup(to), Limits: config.Default().Limits,
		In: strings.NewReader(in), Out: &o, Notes: &n, Report: report, By: by, Options: translate.Options{Tasks: "strip"},
	}.Run()
	return strings.Split(strings.TrimSpace(o.String()), "\n"), strings.Split(strings.TrimSpace(n.String()), "\n"), err
}

// TestFilterGetsTheSenderOfAMessage: the ids of both sides count from one: only the sender of a
// message says whose request it answers.
func TestFilterGetsTheSenderOfAMessage(t *testing.T) {
	in := `{"dir":"c2s","message":{"jsonrpc":"2.0","id":1,"method":"tools/list"}}
{"dir":"s2c","message":{"jsonrpc":"2.0","id":1,"method":"roots/list"}}
{"dir":"c2s","message":{"jsonrpc":"2.0","id":1,"result":{"roots":[],"tools":[{"title":"kept"}]}}}
{"dir":"s2c","message":{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","title":"T","inputSchema":{"type":"object"}}]}}}
{"dir":"up","message":{"jsonrpc":"2.0","id":1,"method":"ping"}}
`
	out, notes, err := filterBy(AnySender, ReportNone, "2025-06-18", "2024-11-05", in)
	if !errors.Is(err, errNotTranslated) || len(notes) != 1 || gjson.Get(notes[0], "line").Int() != 5 {
		t.Errorf("%v %q", err, notes)
	}
	if len(out) != 4 || !strings.Contains(out[2], "kept") || strings.Contains(out[3], "title") {
		t.Errorf("%q", out)
	}
	// A response of the client answers none of its own requests.
	_, notes, _ = filterBy(FromClient, ReportShort, "2025-06-18", "2024-11-05", `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}
{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","title":"T"}]}}
`)
	if gjson.Get(notes[0], "method").String() != "tools/list" {
		t.Errorf("%q", notes)
	}
}

func TestFilterTranslatesEachMessageOfAnArray(t *testing.T) {
	out, notes, err := filterBy(AnySender, ReportNone, "2025-03-26", "2025-06-18", `[{"jsonrpc":"2.0","id":1,"method":"ping"},7, {"jsonrpc":"2.0","id":2,"method":"tools/list"}]`+"\n")
	if !errors.Is(err, errNotTranslated) || len(out) != 2 || gjson.Get(out[1], "id").Int() != 2 {
		t.Errorf("%v %q", err, out)
	}
	if len(notes) != 1 || gjson.Get(notes[0], "line").Int() != 1 || gjson.Get(notes[0], "index").Int() != 1 {
		t.Errorf("%q", notes)
	}
}

// TestFilterMarksAnswersToRequestsAnsweredByTranslation: a response is marked if the translation
// itself has answered its request.
func TestFilterMarksAnswersToRequestsAnsweredByTranslation(t *testing.T) {
	out, notes, err := filterBy(AnySender, ReportNone, "2025-11-25", "2025-03-26", `{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"m","requestedSchema":{"type":"object","properties":{}}}}
{"jsonrpc":"2.0","id":"e","result":{"action":"accept","content":{}}}
`)
	if err != nil || len(out) != 1 || len(notes) != 2 || gjson.Get(notes[1], "verdict").String() != "answered before" || gjson.Get(notes[1], "line").Int() != 2 {
		t.Errorf("%v %q %q", err, out, notes)
	}
}

func TestFilterReportsEveryPlace(t *testing.T) {
	in := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","properties":{"x y":true}}},{"name":"b","inputSchema":{"type":"object","properties":{"z":false}}}]}}` + "\n"
	_, notes, err := filterBy(AnySender, ReportFull, "2026-07-28", "2025-11-25", in)
	if err != nil || len(notes) != 2 || gjson.Get(notes[0], "path").String() != `result.tools[0].inputSchema.properties["x y"]` ||
		gjson.Get(notes[1], "path").String() != "result.tools[1].inputSchema.properties.z" || gjson.Get(notes[0], "count").Exists() {
		t.Errorf("%v %q", err, notes)
	}
	_, notes, err = filterBy(AnySender, ReportShort, "2026-07-28", "2025-11-25", in)
	if err != nil || len(notes) != 1 || gjson.Get(notes[0], "count").Int() != 2 || gjson.Get(notes[0], "path").String() != `result.tools[0].inputSchema.properties["x y"]` {
		t.Errorf("%v %q", err, notes)
	}
}
