package filter

import (
	"bytes"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe/recording"
	"github.com/dragoman-proxy/dragoman/translate"
)

func runRecorded(edge, from, to, in string) (out, notes string, err error) {
	var o, n bytes.Buffer
	err = Filter{
		From: translate.Lookup(from), To: translate.Lookup(to), Limits: config.Default().Limits, Edge: edge,
		In: strings.NewReader(in), Out: &o, Notes: &n, Report: ReportShort,
	}.Run()
	return o.String(), n.String(), err
}

// recorded is the beginning of a session of a client of 2024-11-05 with a server of 2025-11-25 that has other ids, a list of
// prompts, and a question.
const recorded = `{"kind":"header","format":1}
{"seq":1,"kind":"message","edge":"client","direction":"client-to-server","session":"s","call":1,"method":"initialize","payload":{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}}
{"seq":2,"kind":"open","session":"s","peers":{"client_rev":"2024-11-05","server_rev":"2025-11-25"}}
{"seq":3,"kind":"stderr","text":"listening"}
{"seq":4,"kind":"message","edge":"client","direction":"client-to-server","session":"s","rev":"2024-11-05","call":2,"method":"prompts/list","payload":{"jsonrpc":"2.0","id":1,"method":"prompts/list"}}
{"seq":5,"kind":"message","edge":"server","direction":"client-to-server","session":"s","rev":"2025-11-25","call":2,"method":"prompts/list","payload":{"jsonrpc":"2.0","id":71,"method":"prompts/list"}}
{"seq":6,"kind":"message","edge":"server","direction":"server-to-client","session":"s","rev":"2025-11-25","call":2,"method":"prompts/list","payload":{"jsonrpc":"2.0","id":71,"result":{"prompts":[{"name":"p","title":"P"}],"tools":[]}}}
{"seq":7,"kind":"message","edge":"client","direction":"server-to-client","session":"s","rev":"2024-11-05","call":2,"method":"prompts/list","payload":{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"p"}],"tools":[]}}}
{"seq":8,"kind":"gap","dropped":3}
{"seq":9,"kind":"message","edge":"server","direction":"server-to-client","session":"s","rev":"2025-11-25","call":3,"method":"roots/list","payload":{"jsonrpc":"2.0","id":5,"method":"roots/list"}}
{"seq":10,"kind":"message","edge":"client","direction":"server-to-client","session":"s","rev":"2024-11-05","call":3,"method":"roots/list","payload":{"jsonrpc":"2.0","id":6,"method":"roots/list"}}
{"seq":11,"kind":"message","edge":"client","direction":"client-to-server","session":"s","rev":"2024-11-05","call":3,"method":"roots/list","payload":{"jsonrpc":"2.0","id":6,"result":{"roots":[]}}}
{"seq":12,"kind":"close","session":"s"}
`

func TestTheServersSideOfARecordingIsTranslated(t *testing.T) {
	out, notes, err := runRecorded(recording.ServerEdge, "", "", recorded)
	if err != nil {
		t.Fatal(err, notes)
	}
	const want = `{"jsonrpc":"2.0","id":71,"result":{"prompts":[{"name":"p"}],"tools":[]}}
{"jsonrpc":"2.0","id":5,"method":"roots/list"}
`
	if out != want {
		t.Errorf("got %s", out)
	}
	if !strings.Contains(notes, `"line":7,"kind":"result","method":"prompts/list","rule":"C01","what":"title"`) || !strings.Contains(notes, "3 events are not in the recording") {
		t.Errorf("notes %s", notes)
	}
}

func TestTheClientsSideOfARecordingIsTranslated(t *testing.T) {
	out, notes, err := runRecorded(recording.ClientEdge, "", "", recorded)
	if err != nil {
		t.Fatal(err, notes)
	}
	const want = `{"jsonrpc":"2.0","id":1,"method":"prompts/list"}
{"jsonrpc":"2.0","id":6,"result":{"roots":[]}}
`
	if out != want {
		t.Errorf("got %s", out)
	}
}

func TestTheFlagsReplaceTheRevisionsOfARecording(t *testing.T) {
	if out, notes, err := runRecorded(recording.ServerEdge, "2025-11-25", "2025-06-18", recorded); err != nil || !strings.Contains(out, `"title":"P"`) {
		t.Errorf("%v\n%s%s", err, out, notes)
	}
}

// TestLinesThatCannotBeTranslatedAreNoted: the other lines are.
func TestLinesThatCannotBeTranslatedAreNoted(t *testing.T) {
	const message = `{"kind":"message","seq":1,"edge":"server","direction":"server-to-client","session":"t","rev":"2025-11-25","method":"m"`
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","method":"a"}`:                       "not a line of a recording",
		message + `,"payload":{"jsonrpc":"2.0","method":"a"}}`: "does not say both revisions",
		message + `,"text":"{","size":2000000}`:                "only the beginning of its 2000000 bytes",
	} {
		out, notes, err := runRecorded(recording.ServerEdge, "", "", in+"\n"+recorded)
		if err == nil || !strings.Contains(notes, want) || strings.Count(out, "\n") != 2 {
			t.Errorf("%s: %v\n%s%s", in, err, out, notes)
		}
	}
	if _, notes, err := run("2025-11-25", "2024-11-05", recorded); err == nil || !strings.Contains(notes, "choose one with --edge") {
		t.Errorf("without an edge: %v, %s", err, notes)
	}
}
