package upstream

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestMessageOverSeveralLines: it is recognized at its last line, and what only looks like one is not.
func TestMessageOverSeveralLines(t *testing.T) {
	indented := func(message string) string {
		var v any
		if err := json.Unmarshal([]byte(message), &v); err != nil {
			t.Fatal(err)
		}
		b, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	const good = `{"jsonrpc":"2.0","id":1,"result":{}}`
	for name, c := range map[string]struct {
		text  string
		whole []SpreadError
		given int // lines that may be messages
	}{
		"a response":       {text: indented(`{"jsonrpc":"2.0","id":1,"result":{"a":[{"b":"} {\""},[]]}}`), whole: []SpreadError{{From: 1, To: 12, Answers: []byte("1")}}},
		"an error":         {text: indented(`{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}`), whole: []SpreadError{{From: 1, To: 8, Answers: []byte(`"x"`)}}},
		"a request":        {text: "{\n\"jsonrpc\": \"2.0\", \"id\": 1,\n\"method\": \"ping\"\n}", whole: []SpreadError{{From: 1, To: 4, Asks: true}}},
		"a notification":   {text: indented(`{"jsonrpc":"2.0","method":"a","params":{"id":1}}`), whole: []SpreadError{{From: 1, To: 7, Asks: true}}},
		"two":              {text: good + "\n{\n\"jsonrpc\":\"2.0\",\n\"id\":2,\"result\":{}}\n{\n\"jsonrpc\":\"2.0\",\"id\":3}", whole: []SpreadError{{From: 2, To: 4, Answers: []byte("2")}, {From: 5, To: 6, Answers: []byte("3")}}, given: 1},
		"in an array":      {text: "[\n  {\n    \"jsonrpc\":\"2.0\",\n    \"id\":1,\n    \"result\":{}\n  },\n  {\n    \"jsonrpc\":\"2.0\",\n    \"id\":2\n  }\n]", whole: []SpreadError{{From: 2, To: 6, Answers: []byte("1")}, {From: 7, To: 10, Answers: []byte("2")}}},
		"no message":       {text: indented(`{"id":1,"result":{"a":[{}]}}`)},
		"without an id":    {text: indented(`{"jsonrpc":"2.0","result":{}}`)},
		"no JSON":          {text: "{\n  jsonrpc: '2.0',\n  id: 1,\n  result: {}\n}"},
		"no end":           {text: "{\n  name: 'it\"s',\n" + good + "\n" + good, given: 2},
		"no end, a batch":  {text: "{\n[" + good + "]\n" + good, given: 2},
		"a large one":      {text: "{\n\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[\n" + strings.Repeat("\"x\",\n", 1000) + "0]}\n" + good, given: 1},
		"on one line":      {text: good, given: 1},
		"one that is cut":  {text: `{"jsonrpc":"2.0","id":1,"result":{`, given: 1},
		"behind what ends": {text: "}\n{\n}\n" + good, given: 1},
	} {
		var s spread
		var whole []SpreadError
		given := 0
		for i, line := range strings.Split(c.text, "\n") {
			line = strings.TrimSpace(line)
			within, message := s.line([]byte(line), i+1, 1000)
			if message != nil {
				if !strings.HasPrefix(message.Begins, "{ ") || len(message.Begins) > maxTailLine+1 || !strings.Contains(message.Begins, "jsonrpc") {
					t.Errorf("%s: it begins with %q", name, message.Begins)
				}
				whole = append(whole, *message)
			}
			if !within && isMessage([]byte(line)) {
				given++
			}
		}
		if given != c.given || len(whole) != len(c.whole) {
			t.Errorf("%s: %d messages, %d over several lines: %+v", name, given, len(whole), whole)
			continue
		}
		for i, want := range c.whole {
			if got := whole[i]; got.From != want.From || got.To != want.To || got.Asks != want.Asks || string(got.Answers) != string(want.Answers) {
				t.Errorf("%s: %+v, want %+v", name, got, want)
			}
		}
	}
}

// TestStreamGoesOnBehindAMessageOverSeveralLines: the error quotes the message's beginning, and later messages are given.
func TestStreamGoesOnBehindAMessageOverSeveralLines(t *testing.T) {
	var skipped []string
	spec := role("prints over lines")
	spec.Quote = func(line string) string { return strings.ReplaceAll(line, "secret", "***") }
	spec.Skipped = func(line []byte) { skipped = append(skipped, string(line)) }
	c := start(t, spec)
	stream := hear(t, c)
	_, err := First(stream)
	spread, ok := errors.AsType[*SpreadError](err)
	if !ok || spread.From != 2 || spread.To != 6 || string(spread.Answers) != "1" || spread.Begins != `{ "jsonrpc": "2.0", "id": 1, "result": {"***": {}} }` {
		t.Fatalf("%v", err)
	}
	if len(skipped) != 5 || skipped[0] != "starting" || skipped[1] != "{" {
		t.Errorf("skipped %q", skipped)
	}
	wantNext(t, stream, ping)
	if c.Mute() != nil {
		t.Error("it is said to be mute")
	}
}

// TestSecretsAreRemovedBeforeAQuoteIsCut: half of a secret is no text that is known to be one.
func TestSecretsAreRemovedBeforeAQuoteIsCut(t *testing.T) {
	spec := role("prints a secret over lines")
	spec.Quote = func(line string) string { return cut(strings.ReplaceAll(line, "secret", "***"), maxQuote) }
	_, err := First(hear(t, start(t, spec)))
	spread, ok := errors.AsType[*SpreadError](err)
	if !ok || !strings.Contains(spread.Begins, "xxx***") || strings.Contains(spread.Begins, "sec") || len(spread.Begins) > maxQuote+len("…") {
		t.Errorf("%v", err)
	}
}
