package pipes

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-proxy/dragoman/proxy/bytes/sse"
	"github.com/dragoman-proxy/dragoman/proxy/protocol/mcp"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// reports is an Opener that records what it is told.
type reports struct{ all []string }

var errMalformed = errors.New("not a message")

func (*reports) MaxBatch() int { return 3 }
func (r *reports) Malformed(error, []byte, []mcp.Header) error {
	r.all = append(r.all, "malformed")
	return errMalformed
}
func (r *reports) UnknownResponse(m *wire.Message, _ []mcp.Header) {
	r.all = append(r.all, "unknown "+string(m.ID()))
}
func (r *reports) Quirk(q mcp.Quirk)               { r.all = append(r.all, string(q)) }
func (r *reports) Undelivered(error, []mcp.Header) { r.all = append(r.all, "undelivered") }

// TestWhatComesBeforeTheFirstResponse of a server, and how the wait for it ends.
func TestWhatComesBeforeTheFirstResponse(t *testing.T) {
	const good, notice = `{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","method":"notifications/message","params":{}}`
	asks := func(method string) string { return `{"jsonrpc":"2.0","id":"q","method":"` + method + `"}` }
	const refused = `{"jsonrpc":"2.0","id":"q","error":{"code":`
	for name, c := range map[string]struct {
		messages []string
		noRoots  bool
		broken   error    // of what is sent to the server
		want     string   // the response; "" for an error
		err      error    // nil for any
		sent     []string // beginnings of what the server gets
		told     []string
		early    int
	}{
		"the response":             {messages: []string{good}, want: good},
		"an error without an id":   {messages: []string{`{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`}, want: `{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}`},
		"an error with id null":    {messages: []string{`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`}, want: `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`},
		"a response to another":    {messages: []string{`{"jsonrpc":"2.0","id":9,"result":{}}`, good}, want: good, told: []string{"unknown 9"}},
		"questions":                {messages: []string{asks("ping"), asks("roots/list"), asks("sampling/createMessage"), good}, want: good, sent: []string{`{"jsonrpc":"2.0","id":"q","result":{}}`, refused, refused}},
		"without roots":            {messages: []string{asks("roots/list"), good}, noRoots: true, want: good, sent: []string{`{"jsonrpc":"2.0","id":"q","result":{"roots":[]}}`}},
		"a question to the deaf":   {messages: []string{asks("ping"), good}, broken: io.ErrClosedPipe, want: good, sent: []string{`{"jsonrpc":"2.0","id":"q","result":{}}`}, told: []string{"undelivered"}},
		"more than are kept":       {messages: append(slices.Repeat([]string{notice}, maxEarly+5), good), want: good, early: maxEarly},
		"an event without data":    {messages: []string{"", " ", good}, want: good},
		"in an array":              {messages: []string{"[" + notice + "," + good + "]"}, want: good, early: 1},
		"and more in its array":    {messages: []string{"[" + good + "," + asks("ping") + "," + notice + "]"}, want: good, sent: []string{`{"jsonrpc":"2.0","id":"q","result":{}}`}, early: 1},
		"twice in an array":        {messages: []string{"[" + good + `,{"jsonrpc":"2.0","id":1,"result":{"a":1}}]`}, want: good, told: []string{"unknown 1"}},
		"in too long an array":     {messages: []string{"[" + strings.Repeat(notice+",", 3) + good + "]", good}},
		"after what is no message": {messages: []string{"Listening on 3000", good}, want: good, told: []string{"malformed"}},
		"only what is no message":  {messages: []string{"Listening on 3000"}, err: errMalformed, told: []string{"malformed"}},
		"nothing":                  {err: io.EOF},
		"a broken response":        {messages: []string{`{"jsonrpc":"2.0","id":1,"result":{"a":"say "hi""}}`, good}, err: errMalformed, told: []string{"malformed"}},
		"a response that is cut":   {messages: []string{`{"jsonrpc":"2.0","id":1,"result":{"a":"b`, good}, err: errMalformed, told: []string{"malformed"}},
		"a broken error":           {messages: []string{notice, `{"jsonrpc":"2.0","id":1.0,"error":{"code":01,"message":"m"}}`, good}, err: errMalformed, early: 1, told: []string{"malformed"}},
		"a broken response to another, a broken request, and a log": {messages: []string{
			`{"jsonrpc":"2.0","id":2,"result":{"a":}}`, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"result":}}`, `{"jsonrpc":"2.0","id":1,"params":{"a":}}`,
			`{"level":"error","id":1,"error":"no answer"}`, `{"jsonrpc":"2.0","result":{"id":1}}`,
			`{"jsonrpc":"2.0","id":1-1e,"result":{}}`, `{"jsonrpc":"2.0","id":"\u","result":{}}`, `{"jsonrpc":"2.0","id`, "{", good,
		}, want: good, told: slices.Repeat([]string{"malformed"}, 9)},
	} {
		t.Run(name, func(t *testing.T) {
			told, conn := new(reports), &taking{err: c.broken}
			o := &Opening{ID: []byte("1"), Of: told, NoRoots: c.noRoots}
			o.Conn = conn
			m, err := o.Await(t.Context(), &texts{all: c.messages})
			switch {
			case c.want != "" && (err != nil || string(m.Raw) != c.want):
				t.Errorf("%v, want %s", err, c.want)
			case c.want == "" && (m != nil || err == nil || c.err != nil && !errors.Is(err, c.err)):
				t.Errorf("%v, want %v", err, c.err)
			}
			same := func(got, want string) bool { return strings.HasPrefix(got, want) }
			if !slices.EqualFunc(conn.sent, c.sent, same) || !slices.Equal(told.all, c.told) || len(o.Early) != c.early {
				t.Errorf("sent %q, told %q, %d notifications", conn.sent, told.all, len(o.Early))
			}
		})
	}
}

// TestBrokenResponseToOneOfTwo: the response to the other request is still waited for.
func TestBrokenResponseToOneOfTwo(t *testing.T) {
	const broken, good = `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no "server/discover""}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`
	o := &Opening{Of: new(reports)}
	m, err := o.AwaitAny(t.Context(), &texts{all: []string{broken, good}}, []byte("1"), []byte("2"))
	if err != nil || string(m.Raw) != good {
		t.Errorf("%v", err)
	}
}

// TestResponseOverSeveralLines: the request fails at once, unless the response to another one may still come, or the message was
// no response.
func TestResponseOverSeveralLines(t *testing.T) {
	const good = `{"jsonrpc":"2.0","id":2,"result":{}}`
	asks, one, two := &upstream.SpreadError{Asks: true}, &upstream.SpreadError{Answers: []byte("1")}, &upstream.SpreadError{Answers: []byte("2.0")}
	for name, c := range map[string]struct {
		lines []*upstream.SpreadError
		want  error // nil for the response behind them
	}{
		"one of two":     {[]*upstream.SpreadError{asks, one}, nil},
		"both":           {[]*upstream.SpreadError{one, asks, two}, two},
		"one of another": {[]*upstream.SpreadError{{Answers: []byte("7")}}, nil},
	} {
		told := new(reports)
		o := &Opening{Of: told}
		m, err := o.AwaitAny(t.Context(), &spreading{c.lines, &texts{all: []string{good}}}, []byte("1"), []byte("2"))
		if !errors.Is(err, c.want) || c.want == nil && string(m.Raw) != good || len(told.all) != len(c.lines) {
			t.Errorf("%s: %v, told %q", name, err, told.all)
		}
	}
}

// spreading is a stream that begins with messages over several lines.
type spreading struct {
	lines []*upstream.SpreadError
	*texts
}

func (s *spreading) Events(yield func(sse.Event, error) bool) {
	for _, err := range s.lines {
		if !yield(sse.Event{}, &upstream.Error{Op: "read", Addr: "s", Err: err}) {
			return
		}
	}
	s.texts.Events(yield)
}

// TestMessageOverSeveralLinesInASession: the call that it answers fails, and others go on.
func TestMessageOverSeveralLinesInASession(t *testing.T) {
	for name, c := range map[string]struct {
		of   upstream.SpreadError
		want string // the answer; "" for none
	}{
		"a response":     {upstream.SpreadError{From: 3, To: 5, Begins: "{", Answers: []byte(`"x"`)}, `"code":-32603,"message":"upstream sent something that is not JSON-RPC: it has printed a message over the lines 3 to 5`},
		"a notification": {upstream.SpreadError{Asks: true}, ""},
	} {
		o := &owner{TB: t}
		e, err, ok := Replaced(sse.Event{}, &upstream.Error{Op: "read", Addr: "s", Err: &c.of}, o)
		if err != nil || ok != (c.want != "") || !strings.Contains(string(e.Data), c.want) || ok && !strings.Contains(string(e.Data), `"id":"x"`) || !slices.Equal(o.dropped, []string{"malformed"}) {
			t.Errorf("%s: %s, %v, %v, dropped %q", name, e.Data, err, ok, o.dropped)
		}
	}
}
