package idmap

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/dragoman-proxy/dragoman/translate/wire"
)

func scan(t testing.TB, text string) *wire.Message {
	t.Helper()
	m := new(wire.Message)
	if err := m.Scan([]byte(text), Shape); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func written(m *wire.Message) string { return string(m.AppendTo(nil)) }

func TestIDsAndTokensAreRestoredByteForByte(t *testing.T) {
	for _, id := range []string{`1`, `1.0e0`, `"1"`, `"\u0031"`, `-0`, `9007199254740993`, `""`} {
		for _, token := range []string{`"t"`, `7e0`, `"\ud800"`} {
			var table Table[int]
			m := scan(t, `{"id": `+id+`,"jsonrpc":"2.0","method":"x","params":{"_meta":{"progressToken": `+token+`,"progress\u0054oken":0},"a":1.0}}`)
			e := table.Enter(m, 5)
			if got, want := written(m), `{"id": 1,"jsonrpc":"2.0","method":"x","params":{"_meta":{"progressToken": 1,"progress\u0054oken":1},"a":1.0}}`; got != want {
				t.Errorf("\n got  %s\n want %s", got, want)
			}
			about := scan(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1.0,"progress":1.0}}`)
			// If there are two tokens, the last one counts, as for most servers.
			if got, known := table.About(about); got != e || !known {
				t.Errorf("progress is about %v, %v", got, known)
			}
			if got, want := written(about), `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":1.0}}`; got != want {
				t.Errorf("\n got  %s\n want %s", got, want)
			}
			answer := scan(t, `{"jsonrpc":"2.0","id":1e0,"result":{"x":1,"x":2}}`)
			if got := table.Answered(answer); got != e || got.Of != 5 || got.ID != id {
				t.Errorf("%+v", got)
			}
			if got, want := written(answer), `{"jsonrpc":"2.0","id":`+id+`,"result":{"x":1,"x":2}}`; got != want {
				t.Errorf("\n got  %s\n want %s", got, want)
			}
			if table.Answered(scan(t, `{"jsonrpc":"2.0","id":1,"result":{}}`)) != nil || table.Len() != 0 {
				t.Error("answered twice")
			}
		}
	}
}

// TestAnswerWithTheTextOfAnID: some servers answer 1 with "1".
func TestAnswerWithTheTextOfAnID(t *testing.T) {
	for id, is := range map[string]bool{
		`"1"`: true, `"\u0031"`: false, `"01"`: false, `" 1"`: false, `"1 "`: false, `"1.0"`: false, `"1e0"`: false, `"+1"`: false, `"-1"`: false,
		`""`: false, `"-"`: false, `"2"`: false, `"one"`: false,
	} {
		var table Table[int]
		e := table.Enter(scan(t, `{"jsonrpc":"2.0","id":"x","method":"x"}`), 0)
		m := scan(t, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
		got := table.Answered(m)
		if (got == e) != is || !is && got != nil {
			t.Errorf("%s: %v", id, got)
		}
		if is && (!AsText(m) || string(m.AppendTo(nil)) != `{"jsonrpc":"2.0","id":"x","result":{}}`) {
			t.Errorf("%s became %s", id, m.AppendTo(nil))
		}
	}
	if AsText(scan(t, `{"jsonrpc":"2.0","id":1,"result":{}}`)) {
		t.Error("1 is no text")
	}
}

func TestSubscriptionIDIsTheRequestID(t *testing.T) {
	var table Table[int]
	m := scan(t, `{"jsonrpc":"2.0","id":"L","method":"subscriptions/listen"}`)
	e := table.Enter(m, 0)
	const mark = `"_meta":{"io.modelcontextprotocol/subscriptionId":%s}`
	news := func(id string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/x","params":{`+mark+`}}`, id)
	}
	for _, id := range []string{"1", `"1"`} { // some servers have the text of an integer
		n := scan(t, news(id))
		if got, known := table.About(n); got != e || !known || written(n) != news(`"L"`) {
			t.Errorf("%s: %v, %t, %s", id, got, known, written(n))
		}
	}
	if got, known := table.About(scan(t, news("2"))); got != nil || known {
		t.Errorf("of no subscription: %v, %t", got, known)
	}
	r := scan(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"result":{`+mark+`}}`, "1"))
	if got := table.Answered(r); got != e || written(r) != fmt.Sprintf(`{"jsonrpc":"2.0","id":"L","result":{`+mark+`}}`, `"L"`) {
		t.Errorf("%v, %s", got, written(r))
	}
	late := scan(t, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/x","params":{`+mark+`}}`, "1"))
	if got, known := table.About(late); got != nil || known {
		t.Errorf("the subscription is over, and what is about it is of %v, known %v", got, known)
	}
}

// TestProgressTokenOfATaskOutlivesItsAnswer checks that the number of such tokens is bounded, and that
// no other token outlives its answer.
func TestProgressTokenOfATaskOutlivesItsAnswer(t *testing.T) {
	var table Table[int]
	ask := func(params string) string {
		e := table.Enter(scan(t, `{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"_meta":{"progressToken":"t"}`+params+`}}`), 0)
		table.Answered(scan(t, `{"jsonrpc":"2.0","id":`+e.Given+`,"result":{}}`))
		return e.Given
	}
	later := func(given string) bool {
		m := scan(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+given+`}}`)
		_, known := table.About(m)
		return known && written(m) == `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t"}}`
	}
	if later(ask("")) {
		t.Error("the token of a call that is over is known")
	}
	first := ask(`,"task":{}`)
	if !later(first) {
		t.Error("the token of a task is not known")
	}
	for range maxTokens {
		ask(`,"task":{}`)
	}
	if later(first) || len(table.tokens) != maxTokens || len(table.order) != maxTokens {
		t.Errorf("%d tokens, %d in order", len(table.tokens), len(table.order))
	}
}

// TestAnyOrderOfEvents plays requests that share few ids, answers that come late, twice or
// never, progress and cancellations in any order, and compares with an oracle that knows the
// call of each answer: no answer reaches another call, and no awaited answer is lost.
func TestAnyOrderOfEvents(t *testing.T) {
	for seed := range uint64(300) {
		play(t, seed, 400)
	}
}

func FuzzAnyOrderOfEvents(f *testing.F) {
	f.Add(uint64(1), uint16(100))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) { play(t, seed, int(steps%2000)) })
}

func play(t *testing.T, seed uint64, steps int) {
	rnd := rand.New(rand.NewPCG(seed, 0))
	ids := []string{`1`, `1.0`, `"1"`, `"\u0031"`, `2`, `3`, `"x"`}
	type call struct {
		id, given string
		entry     *Entry[int]
		open      bool
	}
	var table Table[int]
	var calls []*call
	seen := map[string]bool{}
	for range steps {
		var c *call
		if len(calls) > 0 {
			c = calls[rnd.IntN(len(calls))]
		}
		switch what := rnd.IntN(10); {
		case c == nil || what < 3:
			id := ids[rnd.IntN(len(ids))]
			n := len(calls)
			m := scan(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":"x","params":{"_meta":{"progressToken":%s}}}`, id, id))
			e := table.Enter(m, n)
			if seen[e.Given] {
				t.Fatalf("seed %d: id %s is given again", seed, e.Given)
			}
			seen[e.Given] = true
			calls = append(calls, &call{id: id, given: e.Given, entry: e, open: true})
		case what < 6: // an answer, perhaps late or once more
			m := scan(t, `{"jsonrpc":"2.0","id":`+c.given+`,"result":{}}`)
			e := table.Answered(m)
			if c.open != (e != nil) || e != nil && (calls[e.Of] != c || written(m) != `{"jsonrpc":"2.0","id":`+c.id+`,"result":{}}`) {
				t.Fatalf("seed %d: answer to %s: %+v, %s", seed, c.given, e, written(m))
			}
			c.open = false
		case what < 8:
			m := scan(t, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+c.given+`}}`)
			e, known := table.About(m)
			if known != c.open || e != nil && (calls[e.Of] != c || written(m) != `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":`+c.id+`}}`) {
				t.Fatalf("seed %d: progress of %s: %+v, %v, %s", seed, c.given, e, known, written(m))
			}
		case what < 9: // its client gives it up
			table.Leave(c.entry)
			c.open = false
		default: // its client cancels the newest of an id
			key := c.entry.Key
			var want *call
			for _, other := range calls {
				if other.open && other.entry.Key == key {
					want = other
				}
			}
			m := scan(t, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+c.id+`}}`)
			e := table.Newest(func(e *Entry[int]) bool { return e.Key == Cancelled(m) })
			if (want == nil) != (e == nil) || e != nil && calls[e.Of] != want {
				t.Fatalf("seed %d: cancelled %s: %+v, want %+v", seed, c.id, e, want)
			}
			if e != nil {
				e.Cancel(m)
				if written(m) != `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":`+e.Given+`}}` {
					t.Fatalf("seed %d: %s", seed, written(m))
				}
				table.Leave(e)
				want.open = false
			}
		}
	}
	open := 0
	for _, c := range calls {
		if c.open {
			open++
		}
	}
	if table.Len() != open {
		t.Fatalf("seed %d: %d entries, %d calls are open", seed, table.Len(), open)
	}
}

// TestTheIDOfInitializeIsNotGiven to a request: within a session an id names one request only.
func TestTheIDOfInitializeIsNotGiven(t *testing.T) {
	for _, c := range []struct {
		begun string
		want  []string
	}{
		{"", []string{"1", "2", "3"}},
		{"1", []string{"2", "3", "4"}},
		{"2", []string{"1", "3", "4"}},
		{"0", []string{"1", "2", "3"}},
		{`"1"`, []string{"1", "2", "3"}},
	} {
		var table Table[int]
		table.Taken([]byte(c.begun))
		for i, want := range c.want {
			if e := table.Enter(scan(t, `{"jsonrpc":"2.0","id":7,"method":"x"}`), i); e.Given != want {
				t.Errorf("after initialize with id %s, request %d has id %s, want %s", c.begun, i, e.Given, want)
			}
		}
	}
}
