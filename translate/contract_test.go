package translate_test

import (
	"bytes"
	"errors"
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
// target, responses and notifications come back, and inputs are not changed.
func TestMethodsOfTheContract(t *testing.T) {
	table := newTable(t, translate.Options{ResourceContentsName: "strict"})
	client, server := revision(t, "2024-11-05"), revision(t, "2025-06-18")
	a := table.NewAdapter(client, server)
	if a.SourceVersion() != client || a.TargetVersion() != server {
		t.Errorf("from %v to %v", a.SourceVersion(), a.TargetVersion())
	}
	const request = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`
	in := []byte(request)
	out, err := a.TranslateRequest(in, 0)
	if want := strings.Replace(request, "2024-11-05", "2025-06-18", 1); err != nil || string(out) != want {
		t.Errorf("request: %v %s", err, out)
	}
	if string(in) != request {
		t.Errorf("the caller's request became %s", in)
	}
	const response = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"title":"T","name":"t"}]}}`
	in = []byte(response)
	out, err = a.TranslateResponse(in, wire.ToolsList, 0)
	if err != nil || string(out) != `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t"}]}}` {
		t.Errorf("response: %v %s", err, out)
	}
	if string(in) != response {
		t.Errorf("the caller's response became %s", in)
	}
	out, err = a.TranslateNotification([]byte(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"message":"m"}}`), 0)
	if err != nil || string(out) != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}` {
		t.Errorf("notification: %v %s", err, out)
	}

	for _, c := range []struct {
		name string
		err  error
		want error
	}{
		{"broken JSON", second(a.TranslateRequest([]byte(`{"jsonrpc":`), 0)), translate.ErrJSON},
		{"a response as a request", second(a.TranslateRequest([]byte(response), 0)), translate.ErrTranslation},
		{"a result that is no object", second(a.TranslateResponse([]byte(`{"jsonrpc":"2.0","id":1,"result":null}`), wire.ToolsList, 0)), translate.ErrTranslation},
		{"no name to be had", second(table.NewAdapter(server, client).TranslateResponse([]byte(`{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":""}]}}`), wire.ResourcesRead, 0)), translate.ErrMissingRequiredField},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", c.name, c.err)
		}
	}

	same := table.NewAdapter(client, client)
	for name, translated := range map[string]func([]byte) ([]byte, error){
		"request":      func(m []byte) ([]byte, error) { return same.TranslateRequest(m, 0) },
		"response":     func(m []byte) ([]byte, error) { return same.TranslateResponse(m, wire.ToolsList, 0) },
		"notification": func(m []byte) ([]byte, error) { return same.TranslateNotification(m, 0) },
	} {
		in := []byte(request)
		if out, err := translated(in); err != nil || len(out) != len(in) || &out[0] != &in[0] {
			t.Errorf("%s through the pass-through adapter: %v %s", name, err, out)
		}
	}
}

func second(_ []byte, err error) error { return err }

// TestEnvelopeErrorsNameRevisionsAndMethod checks that an error of the scan names the revisions, and the method if the scan
// found it.
func TestEnvelopeErrorsNameRevisionsAndMethod(t *testing.T) {
	a := newTable(t, translate.Options{}).NewAdapter(revision(t, "2025-11-25"), revision(t, "2024-11-05"))
	for in, want := range map[string]string{
		`{"jsonrpc":`: "at byte 11 (2025-11-25 to 2024-11-05)",
		`{"jsonrpc":"2.0","id":1,"method":"tools\/call","params":[]}`: "params must be an object (2025-11-25 to 2024-11-05, tools/call)",
		`{"jsonrpc":"2.0","method":"tools/list","id":1,`:              "(2025-11-25 to 2024-11-05, tools/list)",
		`{"jsonrpc":"1.0","method":7,"id":1}`:                         "(2025-11-25 to 2024-11-05)",
	} {
		_, err := a.TranslateRequest([]byte(in), 0)
		var fault *wire.EnvelopeError
		if err == nil || !errors.Is(err, translate.ErrJSON) || !errors.As(err, &fault) || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", in, err)
		}
	}
}
