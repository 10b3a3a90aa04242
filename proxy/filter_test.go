package proxy

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
)

func filter(from, to, in string) (out, notes string, err error) {
	var o, n bytes.Buffer
	err = Filter{
		From: translate.Lookup(from), To: translate.Lookup(to), Limits: DefaultConfig().Limits,
		In: strings.NewReader(in), Out: &o, Notes: &n, Report: true,
	}.Run()
	return o.String(), n.String(), err
}

func TestFilterLearnsMethodsFromRequests(t *testing.T) {
	out, notes, err := filter("2025-06-18", "2024-11-05", `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}
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
	out, notes, err := filter("2025-11-25", "2025-06-18", initialize("2025-11-25", `{"elicitation":{"form":{}}}`)+"\n"+ask+"\n")
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

func TestFilterGoesOnBehindABadLine(t *testing.T) {
	out, notes, err := filter("2025-06-18", "2024-11-05", "nonsense\n\n"+pingOne+"\n")
	if !errors.Is(err, errNotTranslated) {
		t.Error(err)
	}
	if out != pingOne+"\n" || !strings.Contains(notes, "Parse error") {
		t.Errorf("%s\n%s", out, notes)
	}
}
