package mcp

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// looked returns what ClientFacts should return, with one look for each fact.
func looked(c gjson.Result) (f wire.Facts) {
	for path, fact := range map[string]wire.Facts{
		"roots": wire.ClientRoots, "sampling": wire.ClientSampling, "sampling.tools": wire.ClientSamplingTools,
		"sampling.context": wire.ClientSamplingContext, "elicitation": wire.ClientElicitation,
		"elicitation.form": wire.ClientElicitationForm, "elicitation.url": wire.ClientElicitationURL, "tasks": wire.ClientTasks,
	} {
		v := c
		for name := range strings.SplitSeq(path, ".") {
			v = v.Get(name) // the first of equal names; a path may lead into a later one
		}
		if v.Exists() && v.Type != gjson.Null {
			f |= fact
		}
	}
	if f.Has(wire.ClientElicitation) && !f.Has(wire.ClientElicitationURL) {
		f |= wire.ClientElicitationForm
	}
	return f
}

func FuzzClientFacts(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `{ }`, `null`, `[]`, `"roots"`, `[{"roots":{}}]`, `{"roots":null}`, `{"roots":{"listChanged":true},"tasks":false}`,
		`{"sampling":{"tools":{},"context":null}}`, `{"sampling":[{"tools":{}}]}`, `{"elicitation":{}}`, `{"elicitation":{"url":{}}}`,
		`{"elicitation":{"form":{},"url":null}}`, `{"elicitation":"url"}`, `{"elicitation":null,"elicitation":{"url":{}}}`,
		`{"elicitation":{"url":{}},"elicitation":null}`, `{"\u0072oots":{}}`, `{"experimental":{"roots":{}},"sampling":7}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !gjson.Valid(text) {
			return // messages have been scanned before
		}
		if got, want := ClientFacts(gjson.Parse(text)), looked(gjson.Parse(text)); got != want {
			t.Errorf("%s: got %b, want %b", text, got, want)
		}
	})
}

func BenchmarkClientFacts(b *testing.B) {
	c := gjson.Parse(`{"elicitation":{},"sampling":{},"roots":{"listChanged":true}}`)
	b.ReportAllocs()
	for b.Loop() {
		ClientFacts(c)
	}
}
