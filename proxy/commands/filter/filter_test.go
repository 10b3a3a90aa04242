package filter

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
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

// TestFilterReportsWhatIsLostAndWhatIsChanged: in short with how many of the places are lost, if not all are.
func TestFilterReportsWhatIsLostAndWhatIsChanged(t *testing.T) {
	in := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","title":"A"},{"name":"b","title":"B","annotations":{"title":"Other"}},{"name":"c","outputSchema":{"type":"object"}}]}}` + "\n"
	for report, want := range map[Reporting]string{
		ReportShort: "C01 lost 2 1, C03 lost 1 0",
		ReportFull:  "C01 changed 0 0, C01 lost 0 0, C03 lost 0 0",
	} {
		_, notes, err := filterBy(AnySender, report, "2025-06-18", "2025-03-26", in)
		var said []string
		for _, n := range notes {
			m := gjson.Parse(n)
			said = append(said, fmt.Sprint(m.Get("rule"), " ", m.Get("is"), " ", m.Get("count").Int(), " ", m.Get("lost").Int()))
		}
		if got := strings.Join(said, ", "); err != nil || got != want {
			t.Errorf("%s: %v, %s, want %s", report, err, got, want)
		}
	}
}

// TestFilterReportsNothingThatIsAssumed: a receiver that assumes the value anyway misses nothing, and --explain says what went.
func TestFilterReportsNothingThatIsAssumed(t *testing.T) {
	in := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","execution":{"taskSupport":"forbidden"}},{"name":"b","execution":{"taskSupport":"optional"}}]}}` + "\n"
	for _, report := range []Reporting{ReportShort, ReportFull} {
		_, notes, err := filterBy(AnySender, report, "2025-11-25", "2025-06-18", in)
		if err != nil || len(notes) != 1 || gjson.Get(notes[0], "is").String() != "lost" || gjson.Get(notes[0], "count").Int() > 1 {
			t.Errorf("%s: %v %q", report, err, notes)
		}
		_, notes, err = filterBy(AnySender, report, "2025-11-25", "2025-06-18", strings.Replace(in, "optional", "forbidden", 1))
		if err != nil || strings.Join(notes, "") != "" {
			t.Errorf("%s: %v %q", report, err, notes)
		}
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

const explained = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}
{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","execution":{"taskSupport":"required"}},{"name":"b","title":"B","annotations":{}}]}}
[{"jsonrpc":"2.0","method":"notifications/tasks/status"},{"jsonrpc":"2.0","id":2,"method":"tasks/list"}]
{"jsonrpc":"2.0","id":2,"result":{}}
{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"mode":"form","message":"m","requestedSchema":{"properties":{}}}}
nonsense
`

func explain(how Explaining, from, to, in string) (out, notes string, err error) {
	var o, n bytes.Buffer
	err = Filter{
		From: translate.Lookup(from), To: translate.Lookup(to), Limits: config.Default().Limits,
		In: strings.NewReader(in), Out: &o, Notes: &n, Explain: how,
	}.Run()
	return o.String(), n.String(), err
}

// TestFilterExplainsInWords: with words, everything in the notes is text for people.
func TestFilterExplainsInWords(t *testing.T) {
	plain, _, _ := explain(ExplainNone, "2025-11-25", "2025-03-26", explained)
	out, notes, err := explain(ExplainWords, "2025-11-25", "2025-03-26", explained)
	if !errors.Is(err, errNotTranslated) || out != plain {
		t.Errorf("%v\n%s\nwithout an explanation\n%s", err, out, plain)
	}
	const want = "line 1: tools/list request: unchanged\n" +
		"line 2: tools/list result: 3 changes\n" +
		"  C07 task-only tool: removes tools that only run as tasks from the list, unless tasks are bridged\n" +
		"    removed   result.tools[0]\n" +
		"  C01 title: moves a tool's title to `annotations.title` for 2025-03-26, and removes it for 2024-11-05\n" +
		"    removed   result.tools[1].title\n" +
		"    added     result.tools[0].annotations.title\n" +
		"line 3, message 1: notifications/tasks/status notification: dropped, the receiver gets nothing\n" +
		"  C20 notifications/tasks/status: drops a notification that the receiver's revision does not have\n" +
		"line 3, message 2: tasks/list request: not sent; the sender gets the answer " +
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"Method not found: tasks/list"}}` + "\n" +
		"  C20 tasks: answers the request with error -32601, since the receiver's revision does not have the method\n" +
		"line 4: tasks/list result: answers a request that was not sent, but answered by the translation\n" +
		"line 4: tasks/list result: unchanged\n" +
		"line 5: elicitation/create request: not sent; the sender gets the answer " +
		`{"jsonrpc":"2.0","id":"e","error":{"code":-32601,"message":"Method not found: elicitation/create"}}` + "\n" +
		"  C17 elicitation/create: answers an elicitation with an error if the client supports no elicitation, or no forms\n" +
		"line 6: Parse error: invalid JSON at byte 1 (2025-11-25 to 2025-03-26)\n"
	if notes != want {
		t.Errorf("got\n%s\nwant\n%s", notes, want)
	}
}

// TestFilterWritesAMessageBehindItsExplanation: on a terminal, where both are seen, they must not be far apart.
func TestFilterWritesAMessageBehindItsExplanation(t *testing.T) {
	var both bytes.Buffer
	err := Filter{
		From: translate.Lookup("2025-06-18"), To: translate.Lookup("2024-11-05"), Limits: config.Default().Limits,
		In: strings.NewReader(explained[:strings.Index(explained, "\n[")+1]), Out: &both, Notes: &both, Explain: ExplainWords,
	}.Run()
	first, second := strings.Index(both.String(), `"id":1`), strings.Index(both.String(), "line 2:")
	if err != nil || !strings.HasPrefix(both.String(), "line 1:") || first < 0 || second < first {
		t.Errorf("%v\n%s", err, both.String())
	}
}

func TestFilterExplainsAcrossEras(t *testing.T) {
	_, notes, err := explain(ExplainWords, "2025-11-25", "2026-07-28", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`+"\n")
	want := `line 1: roots/list request: not sent as it is: a proxy needs the state of the session for it; translated so far: {"method":"roots/list","params":{}}
  C33 request: turns the server's request into a question`
	if err != nil || !strings.HasPrefix(notes, want) || !strings.HasSuffix(notes, "\n    removed   jsonrpc\n    removed   id\n    added     params\n") {
		t.Errorf("%v\n%s", err, notes)
	}
	_, notes, err = explain(ExplainWords, "2025-11-25", "2026-07-28", `{"jsonrpc":"2.0","id":1,"result":{"task":{},"contents":[],"taskId":"1","ttl":5}}`+"\n"+
		`{"jsonrpc":"2.0","method":"notifications/tasks/status","params":{"taskId":"1","ttl":5}}`+"\n")
	if err != nil || !strings.Contains(notes, "    renamed   params.ttl -> params.ttlMs\n") {
		t.Errorf("%v\n%s", err, notes)
	}
}

func TestFilterExplainsAsJSON(t *testing.T) {
	_, notes, err := explain(ExplainJSON, "2025-11-25", "2025-03-26", explained)
	lines := strings.Split(strings.TrimSpace(notes), "\n")
	if !errors.Is(err, errNotTranslated) || len(lines) != 11 {
		t.Fatalf("%v\n%s", err, notes)
	}
	want := `{"line":2,"kind":"result","method":"tools/list","rule":"C01","what":"title","change":"added","after":"result.tools[0].annotations.title",` +
		"\"does\":\"moves a tool's title to `annotations.title` for 2025-03-26, and removes it for 2024-11-05\"}"
	if lines[2] != want || gjson.Get(lines[1], "before").String() != "result.tools[1].title" || gjson.Get(lines[3], "verdict").String() != "drop" || gjson.Get(lines[4], "change").String() != "dropped" {
		t.Errorf("%s", notes)
	}
}

func TestFilterSaysHowManyChangesItDoesNotList(t *testing.T) {
	const tools = translate.MaxChanges + 7
	in := `{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"outputSchema":{}},`, tools), ",") + "]}}\n"
	_, notes, err := explain(ExplainWords, "2025-06-18", "2024-11-05", in)
	if err != nil || !strings.HasPrefix(notes, "line 1: tools/list result: 1007 changes\n") || !strings.HasSuffix(notes, "\n  and 7 more changes\n") {
		t.Errorf("%v %.100s … %s", err, notes, notes[max(0, len(notes)-100):])
	}
	_, notes, err = explain(ExplainJSON, "2025-06-18", "2024-11-05", in)
	if err != nil || !strings.HasSuffix(notes, `{"line":1,"kind":"result","method":"tools/list","more":7}`+"\n") {
		t.Errorf("%v %s", err, notes[max(0, len(notes)-100):])
	}
}

func TestWordsCannotControlATerminal(t *testing.T) {
	in := `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"inputSchema":{"properties":{"a` + "\u009b\u202e\U000E0001" + `":true}}}]}}` + "\n"
	_, notes, err := explain(ExplainWords, "2026-07-28", "2025-11-25", in)
	if err != nil || !strings.Contains(notes, `result.tools[0].inputSchema.properties["a\u009b\u202e\udb40\udc01"]`) {
		t.Errorf("%v %q", err, notes)
	}
}
