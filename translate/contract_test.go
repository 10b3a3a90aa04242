package translate_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func TestRevisions(t *testing.T) {
	want := []string{"2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"}
	all := translate.Handshake()
	if len(all) != len(want) {
		t.Fatalf("%d revisions", len(all))
	}
	for i, r := range all {
		if r.Name != want[i] || translate.Lookup(r.Name) != r {
			t.Errorf("revision %d is %q", i, r.Name)
		}
		if r.Batches != (r.Name == "2025-03-26") {
			t.Errorf("%s: Batches is %v", r.Name, r.Batches)
		}
		if r.VersionHeader != (r.Name >= "2025-06-18") {
			t.Errorf("%s: VersionHeader is %v", r.Name, r.VersionHeader)
		}
	}
	if translate.Latest() != all[0] {
		t.Errorf("latest is %v", translate.Latest())
	}
	for _, name := range []string{"", "2023-01-01", "2025-11-25 ", "DRAFT-2025-v2", "2026-07-28"} {
		if r := translate.Lookup(name); r != nil && !r.Modern {
			t.Errorf("Lookup(%q) is %v", name, r)
		}
	}
}

// TestEveryOrderedPair checks that there is a translator for all 25 pairs of revisions,
// and that 20 of them are between different revisions.
func TestEveryOrderedPair(t *testing.T) {
	table := newTable(t, translate.Options{})
	different := 0
	for _, from := range translate.All() {
		for _, to := range translate.All() {
			tr := table.Between(from, to)
			if tr == nil {
				t.Fatalf("no translator from %v to %v", from, to)
			}
			if tr.From() != from || tr.To() != to {
				t.Errorf("%v to %v: From and To are %v and %v", from, to, tr.From(), tr.To())
			}
			if tr.Identity() != (from == to) {
				t.Errorf("%v to %v: Identity is %v", from, to, tr.Identity())
			}
			if table.Between(from, to) != tr {
				t.Errorf("%v to %v: another translator each time", from, to)
			}
			if from != to {
				different++
			}
			const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":2}}`
			got := rewrite(t, table, from.Name, to.Name, []byte(progress), wire.Message{}, wire.Notification)
			if got.verdict != "want" || got.text != progress {
				t.Errorf("%v to %v: it became %s: %s", from, to, got.verdict, got.text)
			}
		}
	}
	if different != 20 {
		t.Errorf("%d pairs of different revisions", different)
	}
}

// TestEqualRevisionsReturnTheInput checks that the output is the input slice, not a copy, for every message.
func TestEqualRevisionsReturnTheInput(t *testing.T) {
	table := newTable(t, translate.Options{})
	for _, g := range goldens(t) {
		for _, r := range translate.Handshake() {
			tr := table.Between(r, r)
			raw := []byte(g.in)
			m := wire.Message{Facts: g.facts}
			if err := m.Scan(raw, tr.Shape()); err != nil {
				t.Fatalf("%s: %v", g.name, err)
			}
			if m.Method == wire.OtherMethod {
				m.Method = g.method
			}
			out, verdict, err := tr.Rewrite(nil, &m)
			if err != nil || verdict != wire.Forward || len(out) != len(raw) || &out[0] != &raw[0] || string(out) != g.in {
				t.Errorf("%s at %v: %v %v %s", g.name, r, verdict, err, out)
			}
			if len(m.Losses) != 0 {
				t.Errorf("%s at %v: losses %s", g.name, r, lossLines(m.Losses))
			}
		}
	}
}

// TestUnchangedMessagesAreNotCopied checks that a message that no rule changes is returned as the same
// slice, also between different revisions.
func TestUnchangedMessagesAreNotCopied(t *testing.T) {
	for _, g := range goldens(t) {
		if g.verdict != "want" || g.in != g.want {
			continue
		}
		o, _ := optionsOf(t, g.options)
		tr := newTable(t, o).Between(revision(t, g.from), revision(t, g.to))
		raw := []byte(g.in)
		m := wire.Message{Facts: g.facts}
		if err := m.Scan(raw, tr.Shape()); err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		if m.Kind == wire.Result || m.Kind == wire.Error {
			m.Method = g.method
		}
		out, _, err := tr.Rewrite(make([]byte, 0, 1<<10), &m)
		if err != nil || &out[0] != &raw[0] {
			t.Errorf("%s: a copy, or %v", g.name, err)
		}
	}
}

// TestRewriteWritesOnlyToItsBuffers checks that a rewrite writes only to the message's
// memory and to the scratch buffer, and not to the memory behind the message.
func TestRewriteWritesOnlyToItsBuffers(t *testing.T) {
	for _, g := range goldens(t) {
		if g.verdict == "error" || g.note != "" {
			continue
		}
		o, _ := optionsOf(t, g.options)
		tr := newTable(t, o).Between(revision(t, g.from), revision(t, g.to))
		room := append(append(make([]byte, 0, len(g.in)+8), g.in...), "UNTOUCHED"[:8]...)
		raw := room[:len(g.in)] // its capacity includes memory that does not belong to the message
		m := wire.Message{Facts: g.facts, Stamp: g.stamp}
		if err := m.Scan(raw, tr.Shape()); err != nil {
			t.Fatalf("%s: %v", g.name, err)
		}
		if m.Kind == wire.Result || m.Kind == wire.Error {
			m.Method = g.method
		}
		if _, _, err := tr.Rewrite(nil, &m); err != nil {
			t.Errorf("%s: %v", g.name, err)
		}
		if !bytes.HasSuffix(room, []byte("UNTOUCHED"[:8])) {
			t.Errorf("%s: wrote behind its message: %q", g.name, room[len(g.in):])
		}
	}
}

// TestConcurrentUse shares one table between goroutines. Each translates all golden
// cases, with a message and buffers of its own that it reuses, and must get the same
// as a single goroutine.
func TestConcurrentUse(t *testing.T) {
	table := newTable(t, translate.Options{})
	var cases []golden
	var alone []outcome
	for _, g := range goldens(t) {
		if len(g.options) == 0 && g.note == "" {
			cases = append(cases, g)
			alone = append(alone, g.byEngine(t, nil))
		}
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var m wire.Message
			var raw, buf []byte
			for range 3 {
				for i, g := range cases {
					tr := table.Between(translate.Lookup(g.from), translate.Lookup(g.to))
					raw = append(raw[:0], g.in...)
					m.Facts, m.Stamp = g.facts, g.stamp
					if err := m.Scan(raw, tr.Shape()); err != nil {
						t.Errorf("%s: %v", g.name, err)
						continue
					}
					if m.Kind == wire.Result || m.Kind == wire.Error {
						m.Method = g.method
					}
					out, verdict, err := tr.Rewrite(buf[:0], &m)
					got := outcome{verdict: verdictName(verdict), text: string(out)}
					if err != nil {
						got = outcome{verdict: "error", text: err.Error()}
					}
					if got.verdict != alone[i].verdict || got.text != alone[i].text {
						t.Errorf("%s: %s %s", g.name, got.verdict, got.text)
					}
					if len(out) > 0 && &out[0] != &raw[0] {
						buf = out
					}
				}
			}
		})
	}
	wg.Wait()
}

// TestErrorsSayWhatAndWhere checks that an error names source and target revision, kind,
// method, rule, path and cause in its fields, and the most important ones in its text.
func TestErrorsSayWhatAndWhere(t *testing.T) {
	tr := newTable(t, translate.Options{ResourceContentsName: "strict"}).Between(revision(t, "2024-11-05"), revision(t, "2025-06-18"))
	var m wire.Message
	if err := m.Scan([]byte(`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"u:x"},{"uri":""}]}}`), tr.Shape()); err != nil {
		t.Fatal(err)
	}
	m.Method = wire.ResourcesRead
	_, _, err := tr.Rewrite(nil, &m)
	var e *translate.Error
	if !errors.As(err, &e) {
		t.Fatalf("error is %v", err)
	}
	if e.From != tr.From() || e.To != tr.To() || e.Kind != wire.Result || e.Method != wire.ResourcesRead || e.Rule != "C41" || e.Path != "result.contents[1]" {
		t.Errorf("error is %+v", e)
	}
	const want = "translation 2024-11-05->2025-06-18 failed for resources/read: result.contents[1]: MissingRequiredField{name, ResourceContents}"
	if err.Error() != want {
		t.Errorf("error reads %q, not %q", err, want)
	}
	var missing *translate.MissingRequiredField
	if !errors.As(err, &missing) || missing.Field != "name" {
		t.Errorf("its cause is %v", e.Cause)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []translate.Options{
		{ResourceContentsName: "yes"}, {ElicitationFallback: "accept"}, {Tasks: "on"},
	} {
		if _, err := translate.NewTable(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestMethodsOfTheContract checks the three methods of the contract: requests go from source to
// target, responses and notifications come back, what is lost is told, and inputs are not changed.
func TestMethodsOfTheContract(t *testing.T) {
	table := newTable(t, translate.Options{})
	client, server := revision(t, "2024-11-05"), revision(t, "2025-06-18")
	var a translate.ProtocolAdapter = table.NewAdapter(client, server, 0)
	if a.SourceVersion() != client || a.TargetVersion() != server {
		t.Errorf("from %v to %v", a.SourceVersion(), a.TargetVersion())
	}
	asResponseTo := func(method wire.Method) func([]byte) (translate.Translated, error) {
		return func(m []byte) (translate.Translated, error) { return a.TranslateResponse(m, method) }
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	for _, c := range []struct {
		name, in, want string
		by             func([]byte) (translate.Translated, error)
		lost           []string
	}{
		{"request", initialize, strings.Replace(initialize, "2024-11-05", "2025-06-18", 1), a.TranslateRequest, []string{"D.3 protocolVersion params.protocolVersion DEBUG 1"}},
		{
			"response", `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"title":"T","name":"t"},{"name":"u","title":"U"}]}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t"},{"name":"u"}]}}`, asResponseTo(wire.ToolsList),
			[]string{"C01 title result.tools[0].title WARN 2"},
		},
		{
			"notification", `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"m"}}`,
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}`, a.TranslateNotification,
			[]string{"C14 message params.message WARN 1"},
		},
	} {
		in := []byte(c.in)
		got, err := c.by(in)
		if err != nil || string(got.Message) != c.want || got.Reply != nil {
			t.Errorf("%s: %v %s, reply %s", c.name, err, got.Message, got.Reply)
		}
		var lost []string
		for _, l := range got.Losses {
			lost = append(lost, fmt.Sprintf("%s %s %v %v %d", l.Rule, l.What, l.Path, l.Level, l.Count))
		}
		if !slices.Equal(lost, c.lost) {
			t.Errorf("%s: lost %q, want %q", c.name, lost, c.lost)
		}
		if string(in) != c.in {
			t.Errorf("%s: the caller's message became %s", c.name, in)
		}
	}
}

// TestMessagesOfOneRevisionOnly: what the other revision does not have is answered or dropped, and it is no error.
func TestMessagesOfOneRevisionOnly(t *testing.T) {
	table := newTable(t, translate.Options{})
	a := table.NewAdapter(revision(t, "2024-11-05"), revision(t, "2026-07-28"), 0)
	for _, c := range []struct{ in, message, reply string }{
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}`, "", `{"jsonrpc":"2.0","id":1,"result":{}}`},
	} {
		got, err := a.TranslateRequest([]byte(c.in))
		if err != nil || string(got.Message) != c.message || string(got.Reply) != c.reply {
			t.Errorf("%s: %v, message %s, reply %s", c.in, err, got.Message, got.Reply)
		}
	}
	down := table.NewAdapter(revision(t, "2025-06-18"), revision(t, "2025-11-25"), 0)
	got, err := down.TranslateNotification([]byte(`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":"1"}}`))
	if err != nil || got.Message != nil || got.Reply != nil || len(got.Losses) != 1 {
		t.Errorf("%v, %+v", err, got)
	}
}

// TestErrorsOfTheContract: each names its kind, the revisions, the method and the place.
func TestErrorsOfTheContract(t *testing.T) {
	table := newTable(t, translate.Options{ResourceContentsName: "strict"})
	client, server := revision(t, "2024-11-05"), revision(t, "2025-06-18")
	a := table.NewAdapter(client, server, 0)
	for _, c := range []struct {
		name string
		err  error
		kind error
		want string
	}{
		{
			"broken JSON", second(a.TranslateRequest([]byte(`{"jsonrpc":"2.0","method":"tools/list","id":1,`))), translate.ErrJSON,
			"JsonError (2024-11-05 to 2025-06-18, tools/list): ",
		},
		{
			"broken response", second(a.TranslateResponse([]byte(`{"jsonrpc":`), wire.ToolsCall)), translate.ErrJSON,
			"JsonError (2025-06-18 to 2024-11-05, tools/call): ",
		},
		{
			"a response as a request", second(a.TranslateRequest([]byte(`{"jsonrpc":"2.0","id":1,"result":{}}`))), translate.ErrTranslation,
			"TranslationError (2024-11-05 to 2025-06-18): a result is not expected here",
		},
		{
			"a result that is no object", second(a.TranslateResponse([]byte(`{"jsonrpc":"2.0","id":1,"result":null}`), wire.ToolsList)), translate.ErrTranslation,
			"TranslationError (2025-06-18 to 2024-11-05, tools/list, result): not an object",
		},
		{
			"no name to be had", second(table.NewAdapter(server, client, 0).TranslateResponse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":""}]}}`), wire.ResourcesRead)),
			translate.ErrMissingRequiredField,
			"MissingRequiredField (2024-11-05 to 2025-06-18, resources/read, result.contents[0]): MissingRequiredField{name, ResourceContents}",
		},
		{
			"a handshake with a server that has none", second(table.NewAdapter(client, revision(t, "2026-07-28"), 0).TranslateRequest([]byte(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:b"}}`))),
			translate.ErrTranslation,
			"TranslationError (2024-11-05 to 2026-07-28, resources/subscribe): its translation needs the state of the session",
		},
	} {
		var fault *translate.ProtocolError
		if !errors.Is(c.err, c.kind) || !errors.As(c.err, &fault) || !strings.HasPrefix(c.err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, c.err)
		}
	}
}

// TestEqualRevisionsPassThrough: the very message is returned, whatever is in it.
func TestEqualRevisionsPassThrough(t *testing.T) {
	same := newTable(t, translate.Options{}).NewAdapter(revision(t, "2025-06-18"), revision(t, "2025-06-18"), 0)
	for name, translated := range map[string]func([]byte) (translate.Translated, error){
		"request":      same.TranslateRequest,
		"response":     func(m []byte) (translate.Translated, error) { return same.TranslateResponse(m, wire.ToolsList) },
		"notification": same.TranslateNotification,
	} {
		in := []byte(`no message at all`)
		if out, err := translated(in); err != nil || len(out.Message) != len(in) || &out.Message[0] != &in[0] {
			t.Errorf("%s: %v %s", name, err, out.Message)
		}
	}
}

func second(_ translate.Translated, err error) error { return err }

// TestEnvelopeErrorsNameRevisionsAndMethod checks that an error of the scan names the revisions, and the method if the scan
// found it.
func TestEnvelopeErrorsNameRevisionsAndMethod(t *testing.T) {
	between := newTable(t, translate.Options{}).Between(revision(t, "2025-11-25"), revision(t, "2024-11-05"))
	for in, want := range map[string]string{
		`{"jsonrpc":`: "at byte 11 (2025-11-25 to 2024-11-05)",
		`{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":[]}`: "params must be an object (2025-11-25 to 2024-11-05, tools/call)",
		`{"jsonrpc":"2.0","method":"tools/list","id":1,`:              "(2025-11-25 to 2024-11-05, tools/list)",
		`{"jsonrpc":"1.0","method":7,"id":1}`:                         "(2025-11-25 to 2024-11-05)",
	} {
		var m wire.Message
		err := between.ScanError(&m, m.Scan([]byte(in), between.Shape()))
		var fault *wire.EnvelopeError
		if !errors.As(err, &fault) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", in, err)
		}
	}
}
