package transform

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// readOn calls the tool that reads on.
func readOn(t fatal, e *Engine, session, caller string, args map[string]any) (text, notice string, next, total int, failed bool) {
	ask, err := json.Marshal(args)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var r struct {
		Content []struct{ Text string }
		IsError bool
		Meta    map[string]struct{ Next, Total int } `json:"_meta"`
	}
	if out := e.More(context.Background(), session, caller, ask); json.Unmarshal(out, &r) != nil || len(r.Content) == 0 {
		t.Fatalf("%s became %s", ask, out)
	}
	if r.IsError {
		return r.Content[0].Text, "", 0, 0, true
	}
	return r.Content[0].Text, r.Content[1].Text, r.Meta[ownMeta].Next, r.Meta[ownMeta].Total, false
}

// readAll reads a whole from its beginning to its end.
func readAll(t fatal, e *Engine, cursor, path string, limit int) string {
	var whole strings.Builder
	for offset := 0; ; {
		text, notice, next, total, failed := readOn(t, e, "s", "c", map[string]any{"cursor": cursor, "path": path, "from": offset, "count": limit, "raw": true})
		if failed {
			t.Fatalf("%s", text)
		}
		whole.WriteString(text)
		if next == total {
			return whole.String()
		}
		if next <= offset || !strings.Contains(notice, fmt.Sprintf(`"from":%d,"raw":true`, next)) {
			t.Fatalf("from %d on to %d of %d: %s", offset, next, total, notice)
		}
		offset = next
	}
}

func TestReadingOnReturnsTheOriginal(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	e := engine(t, "transform: {}")
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Repeat(genText(60).Draw(t, "text"), 20)
		if rapid.Bool().Draw(t, "json") {
			doc := genDoc().Draw(t, "doc") + " , "
			text = "[" + strings.TrimSuffix(strings.Repeat(doc, min(20, 1+200_000/len(doc))), ", ") + "]" // each window is found from the beginning on
		}
		in := textResult(text)
		call := &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: 100}
		want := text
		if rapid.Bool().Draw(t, "two blocks") {
			in = textResult(text, text)
			want = string(in)
		}
		out, r := e.Apply(nil, in, call)
		if same(in, out) || !e.store.takes(len(in)) {
			return
		}
		if r.Cursor == "" || len(r.Cursor) > 120 || strings.ContainsAny(r.Cursor, "+/= %") {
			t.Fatalf("cursor %q", r.Cursor)
		}
		if got := readAll(t, e, r.Cursor, "", max(97, len(want)/rapid.IntRange(1, 20).Draw(t, "windows"))); got != want {
			t.Fatalf("%q\nbecame %q", want, got)
		}
	})
}

func TestAPathReadsOnePartOfAResult(t *testing.T) {
	e := engine(t, "transform: {}")
	body := strings.Repeat("Zeile mit Umläuten äöü \"zitiert\". ", 300)
	doc := `{"issues":[{"a.b":1.50},{"body":` + string(quoted(body)) + `}], "pad":"` + strings.Repeat("x y z ", 4000) + `"}`
	for _, in := range [][]byte{
		textResult(doc),
		[]byte(`{"content":[{"type":"text","text":"see there"}],"structuredContent":` + doc + `}`),
		[]byte(`{"content":[{"type":"text","text":` + string(quoted(doc)) + `}],"structuredContent":` + doc + `}`),
	} {
		_, r := e.Apply(nil, in, &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None, MaxTokens: 500})
		for path, want := range map[string]string{
			"issues.1.body":   body,
			`issues.0.a\.b`:   "1.50",
			"issues.0":        `{"a.b":1.50}`,
			"content.0.type":  "text",
			`issues.0.a\.b.c`: "INVALID_ARGUMENTS",
			"nothing":         "INVALID_ARGUMENTS",
			"issues.7":        "INVALID_ARGUMENTS",
			"a..b":            "INVALID_ARGUMENTS",
		} {
			if text, _, _, _, failed := readOn(t, e, "s", "c", map[string]any{"cursor": r.Cursor, "path": path, "raw": true}); failed != strings.HasPrefix(want, "INVALID") || !strings.HasPrefix(want, text[:min(len(text), len(want))]) {
				t.Errorf("%s is %.100q, want %.100q", path, text, want)
			}
		}
		if got := readAll(t, e, r.Cursor, "issues.1.body", 1000); got != body {
			t.Errorf("got %.100q", got)
		}
	}
}

func TestACursorIsValidForItsSessionUntilItExpires(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	key := bytes.Repeat([]byte{7}, 32)
	make := func() *Engine {
		e, err := New(DefaultConfig(), Options{Now: func() time.Time { return now }, Keys: [][]byte{key}})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e, other := make(), make()
	_, r := e.Apply(nil, textResult(issues(500)), &Call{Tool: "x", Session: "s", Caller: "c", Schemas: None})
	open := func(e *Engine, session, caller, cursor string) string {
		text, _, _, _, failed := readOn(t, e, session, caller, map[string]any{"cursor": cursor})
		if !failed {
			return ""
		}
		return text
	}
	if why := open(e, "s", "c", r.Cursor); why != "" {
		t.Fatal(why)
	}
	forged := []byte(r.Cursor)
	forged[5] ^= 1
	gone := open(e, "s", "c", "c1_nonsense")
	if !strings.HasPrefix(gone, "CURSOR_EXPIRED") || !strings.Contains(gone, "narrower") {
		t.Errorf("the answer is %q", gone)
	}
	for name, c := range map[string][3]string{
		"another session": {"s2", "c", r.Cursor}, "another caller": {"s", "c2", r.Cursor}, "no session": {"", "c", r.Cursor}, "shifted": {"sc", "", r.Cursor},
		"forged": {"s", "c", string(forged)}, "cut": {"s", "c", r.Cursor[:6]}, "longer": {"s", "c", r.Cursor + "A"}, "with a line break": {"s", "c", r.Cursor[:6] + "\n" + r.Cursor[6:]},
	} {
		if why := open(e, c[0], c[1], c[2]); why != gone {
			t.Errorf("%s: %q, and not %q", name, why, gone)
		}
	}
	if why := open(other, "s", "c", r.Cursor); why != gone || !strings.Contains(why, "another replica") {
		t.Errorf("another replica: %q", why)
	}
	if why := open(other, "s2", "c", r.Cursor); why != gone {
		t.Errorf("another replica, another session: %q", why)
	}
	now = now.Add(10 * time.Minute)
	if why := open(e, "s", "c", r.Cursor); why != gone {
		t.Errorf("expired: %q", why)
	}
	if size, entries := e.Store().Size(); size != 0 || entries != 0 {
		t.Errorf("%d bytes in %d entries are left", size, entries)
	}
}

func TestTheStoreIsBounded(t *testing.T) {
	testset.WithoutRace(t, "nothing runs beside it")
	cfg := DefaultConfig()
	cfg.Store.MaxBytes, cfg.Store.EntryMaxBytes = 300_000, 100_000
	e, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	cut := func(caller string, i int) string {
		out, r := e.Apply(nil, textResult(fmt.Sprint(i)+issues(200)), &Call{Tool: "x", Session: "s", Caller: caller, Schemas: None, MaxTokens: 500})
		if again, _ := e.Apply(nil, textResult(fmt.Sprint(i)+issues(200)), &Call{Tool: "x", Session: "s", Caller: caller, Schemas: None, MaxTokens: 500}); !bytes.Equal(out, again) {
			t.Fatalf("the same answer to the same caller:\n%s\n%s", out, again)
		}
		return r.Cursor
	}
	first := cut("quiet", 0)
	var cursors []string
	for i := range 20 {
		cursors = append(cursors, cut("busy", i))
		if size, _ := e.Store().Size(); size > cfg.Store.MaxBytes {
			t.Fatalf("%d bytes", size)
		}
	}
	if _, err := e.Store().Open(context.Background(), "s", "quiet", first); err != nil {
		t.Errorf("one caller expires what another has: %v", err)
	}
	if _, err := e.Store().Open(context.Background(), "s", "busy", cursors[1]); !errors.Is(err, ErrGone) {
		t.Errorf("the oldest is there: %v", err)
	}
	if _, err := e.Store().Open(context.Background(), "s", "busy", cursors[19]); err != nil {
		t.Error(err)
	}
	out, r := e.Apply(nil, textResult(issues(3000)), &Call{Tool: "x", Schemas: None, MaxTokens: 500})
	if r.Cursor != "" || !bytes.Contains(out, []byte("too large to keep the rest")) {
		t.Errorf("kept what is too large: %s", r.Cursor)
	}
}

func TestErrorsNameTheInvalidArgument(t *testing.T) {
	e := engine(t, "transform: {}")
	for args, why := range map[string]string{
		``: "must be a JSON object", `[]`: "cursor is missing", `{}`: "cursor is missing", `{"cursor":7}`: "cursor must be a string", `{"cursor":`: "must be a JSON object",
		`{"cursor":"c1_","path":7}`: "path", `{"cursor":"c1_","from":-1}`: "from", `{"cursor":"c1_","from":1.5}`: "from",
		`{"cursor":"c1_","count":0}`: "count", `{"cursor":"c1_","count":"x"}`: "count", `{"cursor":"c1_","max_tokens":1e999}`: "max_tokens",
	} {
		if out := string(e.More(context.Background(), "", "", []byte(args))); !json.Valid([]byte(out)) || !strings.Contains(out, `"isError":true`) || !strings.Contains(out, why) {
			t.Errorf("%s: %s", args, out)
		}
	}
}

func TestMaxTokensBoundsAWindow(t *testing.T) {
	e := engine(t, "transform: {}")
	_, r := e.Apply(nil, textResult(issues(500)), &Call{Tool: "x", Schemas: None, MaxTokens: 500})
	for _, limit := range []int{1, 50, 100, 1000, 100_000} {
		out := e.More(context.Background(), "", "", fmt.Appendf(nil, `{"cursor":%q,"max_tokens":%d,"count":16384}`, r.Cursor, limit))
		p := parse(t, out)
		if n := p.count(e.encoding); n > min(4000, max(limit, 100)) {
			t.Errorf("%d tokens for %d", n, limit)
		}
		if *p.Content[0].Text == "" {
			t.Errorf("nothing for %d", limit)
		}
	}
}

func TestTheMoreToolIsListedOnlyIfResultsCanBeCut(t *testing.T) {
	for text, there := range map[string]bool{
		"{}": true, "{enabled: false}": false, "{more_tool: {enabled: off}}": false, "{default_max_tokens: 0}": false,
		"{default_max_tokens: 0, more_tool: {enabled: on, name: read_on}}": true, "{default_max_tokens: 0, rules: [{page_size: 5}]}": true,
		"{default_max_tokens: 0, rules: [{match: {tool: x}, max_tokens: 500}]}": true,
	} {
		e := engine(t, "transform: "+text)
		tool := e.MoreTool()
		if (tool != nil) != there || len(tool) > 700 || there && (!json.Valid(tool) || !bytes.Contains(tool, []byte(e.MoreName()))) {
			t.Errorf("%s: %d bytes: %s", text, len(tool), tool)
		}
	}
}
