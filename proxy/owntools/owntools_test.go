package owntools

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/mcp"
	"github.com/dragoman-proxy/dragoman/translate"
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
			in += `,"nextCursor":` + string(mcp.AppendString(nil, next))
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
