package translate_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/bench/corpus"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/internal/explainedtest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// explain explains the translation of a message, and checks the explanation: it must agree with [translate.Translator.Rewrite],
// and its changes must explain all differences and no other. The text must be one that a scan accepts.
func explain(t rapid.TB, tr *translate.Translator, in []byte, known translate.Known) translate.Explanation {
	t.Helper()
	raw := bytes.Clone(in)
	got, err := tr.Explain(raw, known)
	if err != nil {
		t.Fatalf("scan: %v\n%s", err, in)
	}
	if !bytes.Equal(raw, in) {
		t.Errorf("explaining changed %s\ninto %s", in, raw)
	}
	m := wire.Message{Method: known.Method, Facts: known.Facts, Stamp: known.Stamp, Note: known.Note}
	want, err := rewriteWithin(tr, bytes.Clone(in), 0, &m)
	if err != nil {
		t.Fatalf("scan: %v\n%s", err, in)
	}
	said := outcome{verdict: verdictName(got.Verdict), text: string(got.Out)}
	if got.Err != nil {
		said = outcome{verdict: "error", text: got.Err.Error()}
	}
	if said.verdict != want.verdict || said.text != want.text {
		t.Errorf("%v to %v: the explanation disagrees\n in      %s\n explain %s: %s\n rewrite %s: %s", tr.From(), tr.To(), in, said.verdict, said.text, want.verdict, want.text)
	}
	if faults := faultsOf(string(in), got); len(faults) > 0 {
		t.Errorf("%v to %v, %s %s\n in      %s\n out     %s\n changes %+v\n%s", tr.From(), tr.To(), got.Verdict, known.Method, in, got.Out, got.Changes, strings.Join(faults, "\n"))
	}
	return got
}

// faultsOf returns what is wrong with an explanation of a message.
func faultsOf(in string, e translate.Explanation) (faults []string) {
	list := e.Changes
	for _, c := range list {
		if c.Rule == "" || c.What == "" || c.Does == "" {
			faults = append(faults, fmt.Sprintf("not explained: %+v", c))
		}
	}
	whole := map[wire.Verdict]wire.ChangeKind{wire.Drop: translate.Dropped, wire.Answer: translate.Answered, wire.Local: translate.HandedOver}[e.Verdict]
	if e.Err == nil && whole != "" {
		if len(list) == 0 || list[0].Kind != whole || list[0].Path() != "" {
			return append(faults, "the verdict has no change")
		}
		list = list[1:]
	}
	switch {
	case e.Err != nil || e.Verdict == wire.Drop || e.Verdict == wire.Answer:
		if len(list) > 0 {
			faults = append(faults, fmt.Sprintf("changes of a message that is not sent: %+v", list))
		}
		return faults
	case e.More > 0:
		return faults // not all changes are listed
	}
	changes := make([]explainedtest.Change, len(list))
	for i, c := range list {
		changes[i] = explainedtest.Change{Kind: string(c.Kind), Before: c.Before, After: c.After}
	}
	return append(faults, explainedtest.Faults(in, string(e.Out), changes)...)
}

// tally counts what explanations had, so that a test can see that they had something.
type tally struct{ messages, changes int }

func (n *tally) add(e translate.Explanation) {
	n.messages++
	n.changes += len(e.Changes)
}

func (n *tally) atLeast(t *testing.T, messages, changes int) {
	t.Helper()
	t.Logf("%d messages, %d changes", n.messages, n.changes)
	if n.messages < messages || n.changes < changes {
		t.Errorf("only %d messages with %d changes", n.messages, n.changes)
	}
}

// TestGoldenCasesAreExplained explains every golden case. A change must be by a rule that the case's title names, or that
// reports a loss, unless the rule reports none; a rule that reports a loss must have a change.
func TestGoldenCasesAreExplained(t *testing.T) {
	cases := goldens(t)
	all := byName(cases)
	var n tally
	for _, g := range cases {
		t.Run(g.name, func(t *testing.T) {
			o, _ := optionsOf(t, g.options)
			known := translate.Known{Method: g.method, Facts: g.facts, Stamp: g.stamp, Note: []byte(g.noteOf(t, all))}
			got := explain(t, newTable(t, o).Between(revision(t, g.from), revision(t, g.to)), []byte(g.in), known)
			n.add(got)
			if changed := g.acts() && g.verdict != "error"; changed != (len(got.Changes) > 0) {
				t.Errorf("%d changes", len(got.Changes))
			}
			g.checkRules(t, got, g.byEngine(t, all).losses)
		})
	}
	n.atLeast(t, 400, 400)
}

// checkRules checks which rules have changes.
func (g *golden) checkRules(t *testing.T, got translate.Explanation, losses []wire.Loss) {
	t.Helper()
	for _, c := range got.Changes {
		reports := slices.ContainsFunc(losses, func(l wire.Loss) bool { return l.Rule == c.Rule })
		if !reports && !g.names(c.Rule) && silent[c.Rule+" "+c.What] == "" {
			t.Errorf("the rule is not of this case: %+v", c)
		}
	}
	for _, l := range losses {
		acts := slices.ContainsFunc(got.Changes, func(c translate.Change) bool { return c.Rule == l.Rule })
		switch {
		case acts || g.verdict == "error" || g.verdict == "answer":
		case l.Rule == "C41" && l.What == "no name": // none can be derived
		case l.Rule == "C43" && l.Level == wire.Warn: // the cursor stays
		case l.Rule == "C32" && g.want == g.in: // the message has one already
		default:
			t.Errorf("no change for %s", lossLine(l))
		}
	}
}

// noteOf returns the note that the case is translated with.
func (g *golden) noteOf(t testing.TB, all map[string]golden) string {
	name, ok := strings.CutPrefix(g.note, "from ")
	if !ok {
		return g.note
	}
	asked := all[name]
	return asked.byEngine(t, all).note
}

// TestRecordedTrafficIsExplained explains the translation of all recorded messages to every other revision.
func TestRecordedTrafficIsExplained(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	table := newTable(t, translate.Options{})
	var n tally
	for _, r := range recordings(t) {
		for _, to := range translate.All() {
			for i, stamp := range stamps {
				if i == 0 || i%effort == 0 && revision(t, r.revision).Modern != to.Modern { // the other rules use no stamp
					n.add(explain(t, table.Between(revision(t, r.revision), to), []byte(r.text), translate.Known{Method: r.method, Facts: r.facts, Stamp: stamp}))
				}
			}
		}
	}
	n.atLeast(t, 5000, 5000)
}

// TestCorpusIsExplained explains the translation of the messages that benchmarks run on.
func TestCorpusIsExplained(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	c, err := corpus.New(corpus.Small)
	if err != nil {
		t.Fatal(err)
	}
	table := newTable(t, translate.Options{})
	var n tally
	for _, from := range translate.Handshake() {
		for _, to := range translate.All() {
			for _, m := range c.Between(from, to) {
				n.add(explain(t, table.Between(from, to), m.Raw, translate.Known{Method: m.Method, Facts: m.Facts, Note: m.Note}))
			}
		}
	}
	n.atLeast(t, 500, 1000)
}

// TestUglyMessagesAreExplained explains every ugly message between every pair of revisions.
func TestUglyMessagesAreExplained(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	table := newTable(t, translate.Options{})
	var n tally
	for _, text := range ugly {
		asked := gjson.Get(text, "method").Exists()
		for pair := 0; pair < pairs*len(stamps); pair += effort {
			from, to := pairOf(uint8(pair))
			tr := table.Between(revision(t, from), revision(t, to))
			for method := wire.OtherMethod; method <= wire.ElicitationCreate && (!asked || method == wire.OtherMethod); method++ {
				for _, facts := range []wire.Facts{allFacts, wire.ClientElicitation | wire.ClientElicitationForm, 0} {
					if facts != allFacts && !asked {
						break
					}
					n.add(explain(t, tr, []byte(text), translate.Known{Method: method, Facts: facts, Stamp: stamps[pair/pairs]}))
				}
			}
		}
	}
	n.atLeast(t, 1000, 1000)
}

// TestDrawnMessagesAreExplained explains messages that look like the protocol's, with any switches, and the answers to
// questions among them.
func TestDrawnMessagesAreExplained(t *testing.T) {
	var cache tables
	var n tally
	rapid.Check(t, func(t *rapid.T) {
		a := drawnMessage.Draw(t, "message")
		table := cache.table(t, rapid.Uint16Range(0, 1).Draw(t, "defaults")*rapid.Uint16().Draw(t, "switches"))
		n.add(explainWithAnswers(t, table, a))
	})
	n.atLeast(t, 50, 5)
}

// explainWithAnswers explains a message and, if it left a note, some answers to it.
func explainWithAnswers(t rapid.TB, table *translate.Table, a against) translate.Explanation {
	t.Helper()
	tr := table.Between(revision(t, a.from), revision(t, a.to))
	known := translate.Known{Method: a.method, Facts: a.facts, Stamp: a.stamp}
	got := explain(t, tr, []byte(a.text), known)
	m := wire.Message{Method: a.method, Facts: a.facts, Stamp: a.stamp}
	form, err := rewriteWithin(tr, []byte(a.text), 0, &m)
	if err != nil {
		t.Fatal(err)
	}
	if form.note == "" {
		return got
	}
	known.Note, known.Method = []byte(form.note), m.Method
	back := table.Between(tr.To(), tr.From())
	explain(t, back, []byte(`{"jsonrpc":"2.0","id":1,"error":{"code":-32002,"message":"m","data":{}}}`), known)
	for _, chosen := range []string{"false", "true"} {
		var content []string
		gjson.Get(form.text, "params.requestedSchema.properties").ForEach(func(key, _ gjson.Result) bool {
			content = append(content, key.Raw+":"+chosen)
			return true
		})
		explain(t, back, []byte(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{`+strings.Join(content, ",")+`}}}`), known)
	}
	return got
}

// FuzzExplain explains the translation of every message that a scan accepts.
func FuzzExplain(f *testing.F) {
	for _, g := range goldens(f) {
		o, _ := optionsOf(f, g.options)
		f.Add([]byte(g.in), numberOfPair(g.from, g.to), uint8(g.method), uint16(g.facts), numberOf(o))
	}
	for i, text := range ugly {
		f.Add([]byte(text), uint8(i), uint8(i)%uint8(wire.NumMethods), ^uint16(0), uint16(0))
	}
	var cache tables
	f.Fuzz(func(t *testing.T, in []byte, pair, method uint8, facts, options uint16) {
		a := against{
			text: string(in), method: wire.Method(method) % wire.NumMethods, facts: wire.Facts(facts), stamp: stamps[int(pair)/pairs%len(stamps)],
		}
		a.from, a.to = pairOf(pair)
		table := cache.table(t, options)
		if new(wire.Message).Scan(in, table.Between(revision(t, a.from), revision(t, a.to)).Shape()) != nil {
			if _, err := table.Between(revision(t, a.from), revision(t, a.to)).Explain(in, translate.Known{}); err == nil {
				t.Errorf("%q is explained, but is no message", in)
			}
			return
		}
		explainWithAnswers(t, table, a)
	})
}

// TestExplanationsAreBounded explains messages with more changes than are listed, and with very long paths.
func TestExplanationsAreBounded(t *testing.T) {
	table := newTable(t, translate.Options{})
	const tools = 20_000
	list := `{"jsonrpc":"2.0","id":1,"result":{"tools":[` + strings.TrimSuffix(strings.Repeat(`{"title":"t"},`, tools), ",") + `]}}`
	got := explain(t, table.Between(revision(t, "2025-06-18"), revision(t, "2024-11-05")), []byte(list), translate.Known{Method: wire.ToolsList})
	if len(got.Changes) != translate.MaxChanges || len(got.Changes)+got.More != tools {
		t.Errorf("%d changes and %d more of %d", len(got.Changes), got.More, tools)
	}
	const defaults = 500
	form := `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"requestedSchema":{"properties":{"` + strings.Repeat("k", 10_000) + `":{` +
		strings.TrimSuffix(strings.Repeat(`"default":1,`, defaults), ",") + `}}}}}`
	got = explain(t, table.Between(revision(t, "2025-11-25"), revision(t, "2025-06-18")), []byte(form), translate.Known{Facts: allFacts})
	size := 0
	for _, c := range got.Changes {
		size += len(c.Before) + len(c.After)
	}
	if size < 1<<19 || size > 1<<20 || len(got.Changes)+got.More != defaults {
		t.Errorf("%d changes with paths of %d bytes, and %d more", len(got.Changes), size, got.More)
	}
}

// TestChangesNameTheRuleAndTheValue shows some explanations as a whole.
func TestChangesNameTheRuleAndTheValue(t *testing.T) {
	table := newTable(t, translate.Options{})
	for _, c := range []struct {
		from, to, in string
		method       wire.Method
		want         string
	}{
		{"2025-11-25", "2025-03-26", `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","title":"A","outputSchema":{}},{"name":"b","execution":{"taskSupport":"required"}},{"name":"c","title":"C","annotations":{"x":1}}]}}`, wire.ToolsList, `
C01|title|removed|result.tools[0].title|
C01|title|added||result.tools[0].annotations
C03|outputSchema|removed|result.tools[0].outputSchema|
C07|task-only tool|removed|result.tools[1]|
C01|title|removed|result.tools[2].title|
C01|title|added||result.tools[1].annotations.title`},
		// One rule lets others translate the blocks that it moves.
		{"2025-11-25", "2024-11-05", `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[{"role":"user","content":[{"type":"resource_link","uri":"u:x","annotations":{"lastModified":"1"}},{"type":"text","text":"a","_meta":{}}]}]}}`, 0, `
C12|content|removed|params.messages[0]|
C12|content|added||params.messages[0]
C12|content|added||params.messages[1]
C11|resource_link|replaced|params.messages[0].content[0]|
C09|lastModified|removed|params.messages[0].content[0].annotations|
C08|_meta|removed|params.messages[0].content[1]._meta|`},
		{"2026-07-28", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, 0, `
C31|_meta|removed|params._meta|`},
		{"2026-07-28", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 0, `
F.3|method|answered||`},
		{"2025-11-25", "2025-06-18", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}`, 0, `
C23|notifications/cancelled|dropped||`},
		{"2025-11-25", "2026-07-28", `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`, 0, `
C33|request|handed over||
C33|request|removed|jsonrpc|
C33|request|removed|id|
C33|request|added||params`},
		{"2025-11-25", "2025-11-25", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, 0, ``},
	} {
		got := explain(t, table.Between(revision(t, c.from), revision(t, c.to)), []byte(c.in), translate.Known{Method: c.method, Facts: allFacts})
		var list strings.Builder
		for _, c := range got.Changes {
			fmt.Fprintf(&list, "\n%s|%s|%s|%s|%s", c.Rule, c.What, c.Kind, c.Before, c.After)
			if !slices.ContainsFunc(translate.Rules(), func(r translate.RuleInfo) bool { return r.ID == c.Rule && r.What == c.What && r.Does == c.Does }) {
				t.Errorf("no rule %+v", c)
			}
		}
		if list.String() != c.want {
			t.Errorf("%s to %s\n in   %s\n out  %s\n got  %s\n want %s", c.from, c.to, c.in, got.Out, list.String(), c.want)
		}
	}
}
