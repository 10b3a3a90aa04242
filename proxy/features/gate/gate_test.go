package gate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// records is a gate on the parameters of a tool, as in the example configuration.
func records(change func(*config.Gate)) *Gate {
	c := config.Gate{
		Tool: "get_records", Params: []string{"expand", "limit"}, Source: "get_schema",
		SourceParams: map[string]any{"view": "compact", "stream": "{stream}"},
		List:         "streams", Match: map[string]string{"name|stream": "{stream}"}, Capability: "expand.allowed",
		Subject: "stream", ErrorCode: "invalid_expand",
	}
	if change != nil {
		change(&c)
	}
	return &New([]config.Gate{c})[0]
}

// saying answers each call of the source with a text, and records the calls.
func saying(text string, asked *[]string) Ask {
	return func(_ context.Context, params string) ([]byte, error) {
		*asked = append(*asked, params)
		return []byte(`{"content":[{"type":"text","text":` + string(wire.AppendQuoted(nil, text)) + `}]}`), nil
	}
}

func TestCheck(t *testing.T) {
	const known = `{"streams":[{"stream":"a","expand":{"allowed":["x","y"]}},{"name":"b","expand":{"allowed":[]}},{"name":"c","expand":{"allowed":true}}]}`
	values := func(g *config.Gate) { g.MatchValues = true }
	deny := func(g *config.Gate) { g.OnUnavailable = "deny" }
	for _, c := range []struct {
		name, arguments, says string
		change                func(*config.Gate)
		want                  Verdict
		refusal               string // a part of its text
	}{
		{"nothing gated", `{"stream":"a"}`, known, nil, None, ""},
		{"an empty value asks for nothing", `{"stream":"a","expand":[]}`, known, nil, None, ""},
		{"supported", `{"stream":"a","expand":["z"]}`, known, nil, Passed, ""},
		{"supported by a flag", `{"stream":"c","limit":5}`, known, nil, Passed, ""},
		{"each value is there", `{"stream":"a","expand":["y","x"]}`, known, values, Passed, ""},
		{"a value is not there", `{"stream":"a","expand":["x","z"]}`, known, values, Refused, "stream"},
		{"not supported", `{"stream":"b","expand":["x"]}`, known, nil, Refused, "stream"},
		{"no such row, open", `{"stream":"d","expand":["x"]}`, known, nil, Open, ""},
		{"no such row, denied", `{"stream":"d","expand":["x"]}`, known, deny, Refused, "stream"},
		{"no JSON, open", `{"stream":"a","expand":["x"]}`, "sorry", nil, Open, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			got, refusal, err := records(c.change).Check(t.Context(), []byte(c.arguments), saying(c.says, &asked))
			if got != c.want || (refusal != nil) != (got == Refused) {
				t.Fatalf("%s %s, %v", got, refusal, err)
			}
			if (len(asked) > 0) != (got != None) {
				t.Errorf("asked %q", asked)
			}
			if got != Refused {
				return
			}
			text := gjson.Parse(gjson.GetBytes(refusal, "content.0.text").Str)
			if !gjson.GetBytes(refusal, "isError").Bool() || text.Get("code").Str != "invalid_expand" || !strings.Contains(text.Get("message").Str, c.refusal) {
				t.Errorf("%s", refusal)
			}
		})
	}
}

// TestWhatAGateReadsOccursOnce: other arguments may occur again, and so may the members of an argument.
func TestWhatAGateReadsOccursOnce(t *testing.T) {
	g := records(func(c *config.Gate) { c.SourceParams["connection"] = "{connection_id}" })
	for arguments, want := range map[string]string{
		``: "", `null`: "", `[]`: "", `{}`: "", `{"stream":"a","expand":["x"],"limit":1,"connection_id":"c"}`: "",
		`{"expand":[],"expand":["x"]}`: "expand", `{"expand":["x"],"other":1,"e\u0078pand":[]}`: "expand", `{"limit":null,"limit":1}`: "limit",
		`{"stream":"a","stream":"a"}`: "stream", `{"connection_id":"c","connection_id":"d"}`: "connection_id",
		`{"other":1,"other":2,"":1,"":2}`: "", `{"expand":{"a":1,"a":2}}`: "",
	} {
		if got := g.Twice([]byte(arguments)); got != want {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
}

// TestTheSourceGetsTheCallsParameters checks that the source gets those that the gate names,
// and none that the call lacks.
func TestTheSourceGetsTheCallsParameters(t *testing.T) {
	for arguments, want := range map[string]string{
		`{"stream":"a\"b","expand":["x"]}`: `"name":"get_schema","arguments":{"stream":"a\"b","view":"compact"}`,
		`{"expand":["x"]}`:                 `"name":"get_schema","arguments":{"view":"compact"}`,
		`{"stream":null,"expand":["x"]}`:   `"name":"get_schema","arguments":{"view":"compact"}`,
	} {
		var asked []string
		records(nil).Check(t.Context(), []byte(arguments), saying("{}", &asked))
		if len(asked) != 1 || asked[0] != want {
			t.Errorf("%s: asked %q, want %s", arguments, asked, want)
		}
	}
}

// TestAGateIsOpenIfItsSourceFails checks that the caller gets the reason as well.
func TestAGateIsOpenIfItsSourceFails(t *testing.T) {
	lost := errors.New("lost")
	for name, ask := range map[string]Ask{
		"an error":  func(context.Context, string) ([]byte, error) { return nil, lost },
		"isError":   func(context.Context, string) ([]byte, error) { return []byte(`{"content":[],"isError":true}`), nil },
		"no result": func(context.Context, string) ([]byte, error) { return []byte(`{}`), nil },
	} {
		if v, _, err := records(nil).Check(t.Context(), []byte(`{"stream":"a","expand":["x"]}`), ask); v != Open || err == nil {
			t.Errorf("%s: %s, %v", name, v, err)
		}
	}
}

func TestStructuredContentIsReadFirst(t *testing.T) {
	ask := func(context.Context, string) ([]byte, error) {
		return []byte(`{"content":[{"type":"text","text":"for people"}],"structuredContent":{"streams":{"name":"a","expand":{"allowed":["x"]}}}}`), nil
	}
	if v, _, err := records(nil).Check(t.Context(), []byte(`{"stream":"a","expand":["x"]}`), ask); v != Passed {
		t.Errorf("%s, %v", v, err)
	}
}

// TestAGateWaitsForItsSourceUpToATimeout checks that a gate waits for its source as long as its
// timeout_ms says, or 2 s.
func TestAGateWaitsForItsSourceUpToATimeout(t *testing.T) {
	for configured, want := range map[int]time.Duration{0: 2 * time.Second, 5000: 5 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			v, _, err := records(func(g *config.Gate) { g.TimeoutMS = configured }).Check(t.Context(), []byte(`{"stream":"a","expand":["x"]}`),
				func(ctx context.Context, _ string) ([]byte, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				})
			if v != Open || err == nil || time.Since(began) != want {
				t.Errorf("%s, %v after %v", v, err, time.Since(began))
			}
		})
	}
}
