package owntools

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// named are tools with these names.
type named []string

func (named) Grants() []string { return nil }

func (n named) Tools(string) (all []Tool) {
	for _, name := range n {
		all = append(all, Tool{name, fmt.Appendf(nil, `{"name":%q,"inputSchema":{"type":"object"}}`, name)})
	}
	return all
}

func (named) Call(ctx context.Context, c *Call) ([]byte, error) {
	return c.Answer(ctx, []byte(`{"content":[]}`))
}
func (named) Instructions(string) string { return "" }
func (named) EndSession(string)          {}

// TestLateAnswerIsNotTheNextOne: an answer to an earlier question, which has timed out, does not
// confirm the next question.
func TestLateAnswerIsNotTheNextOne(t *testing.T) {
	q := &question{answers: make(chan []byte, 1), forget: func([]byte) {}}
	q.answers <- []byte(`{"id":"dragoman-ask-0","result":{"action":"accept"}}`)
	q.yield = func(m []byte) bool {
		go func() {
			q.answers <- []byte(`{"id":` + gjson.GetBytes(m, "id").Raw + `,"result":{"action":"decline"}}`)
		}()
		return true
	}
	if agreed, err := q.ask(t.Context(), "Really?"); agreed || err != nil {
		t.Error(agreed, err)
	}
}

// FuzzExtend: whatever a server's page is, the result is JSON with the same tools, without those
// that have names of own tools, and with the own tools after them.
func FuzzExtend(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[{"name":"ours"}]`, `[ {"name":"ours"} , {"name":"a"} ]`, `[{"name":"a"},{"name":"ours"}]`,
		`[{"name":"ours"},{"name":"ours"},1,null,{"name":3}]`, `[{"n\u0061me":"o\u0075rs"},{"name":"b","name":"ours"}]`,
	} {
		f.Add(seed, "")
		f.Add(seed, "next")
	}
	table, _ := translate.NewTable(translate.Options{})
	own, err := New(table, []Source{named{"ours", "mine"}}, "append", nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tools, next string) {
		if !gjson.Valid(tools) || !gjson.Parse(tools).IsArray() {
			t.Skip()
		}
		in := `{"jsonrpc":"2.0","id":1,"result":{"tools":` + tools
		if next != "" {
			in += `,"nextCursor":` + string(wire.AppendQuoted(nil, next))
		}
		in += `}}`
		hidden := 0
		out := own.Extend([]byte(in), translate.Latest(), translate.Latest(), func(string) { hidden++ })
		if !gjson.ValidBytes(out) {
			t.Fatalf("%s became %s", in, out)
		}
		was, is := len(gjson.Parse(tools).Array()), len(gjson.GetBytes(out, "result.tools").Array())
		added := 2
		if next != "" {
			added = 0
		}
		if is != was-hidden+added && !bytes.Equal(out, []byte(in)) {
			t.Errorf("%s became %s: hidden %d", in, out, hidden)
		}
	})
}

// worded is named with instructions.
type worded struct{ named }

func (worded) Instructions(string) string { return "Ours first.\nOur rest." }

// TestPlaceOfInstructions: what all clients show begins with the server's words only if ours fit behind them.
func TestPlaceOfInstructions(t *testing.T) {
	table, _ := translate.NewTable(translate.Options{})
	fits := string(bytes.Repeat([]byte("s"), shownFirst-len("\n\nOurs first.")))
	for _, c := range []struct{ place, theirs, want string }{
		{"append", "", "Ours first.\nOur rest."},
		{"append", "Theirs.", "Theirs.\n\nOurs first.\nOur rest."},
		{"append", fits, fits + "\n\nOurs first.\nOur rest."},
		{"append", fits + "s", "Ours first.\n\n" + fits + "s\n\nOur rest."},
		{"prepend", fits + "s", "Ours first.\nOur rest.\n\n" + fits + "s"},
		{"replace", "Theirs.", "Ours first.\nOur rest."},
		{"off", fits + "s", fits + "s"},
	} {
		own, err := New(table, []Source{worded{named{"ours"}}}, c.place, nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := own.Introduce(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{"capabilities":{},"instructions":%q}}`, c.theirs))
		if got := gjson.GetBytes(out, "result.instructions").Str; got != c.want || err != nil {
			t.Errorf("%s behind %d bytes: %q, %v", c.place, len(c.theirs), got, err)
		}
	}
}
