package legacyclient

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
	"github.com/dragoman-proxy/dragoman/translate"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// answering is a modern server that answers each request with these messages, in which ID is the id of the request.
type answering struct {
	progressing
	messages []string
	requests int
}

func (s *answering) Send(_ context.Context, m *upstream.Outgoing) (upstream.Stream, error) {
	if !m.Request {
		return nil, nil
	}
	s.requests++
	list := &events{}
	for _, text := range s.messages {
		list.list = append(list.list, strings.ReplaceAll(text, "ID", gjson.GetBytes(m.Body, "id").Raw))
	}
	return list, nil
}

// TestHostileAnswersOfAModernServer: what it may not send is an error for the client, or is dropped; the call ends in each case.
func TestHostileAnswersOfAModernServer(t *testing.T) {
	const good = `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}`
	const call, list = `"method":"tools/call","params":{"name":"n"}`, `"method":"tools/list"`
	const answered = `{"jsonrpc":"2.0","id":"c","result":{"content":[]}}`
	required := func(more string) string {
		return `{"jsonrpc":"2.0","id":ID,"result":{"resultType":"input_required"` + more + `}}`
	}
	failed := func(text string) string {
		return `{"jsonrpc":"2.0","id":"c","error":{"code":-32603,"message":"` + text + `"}}`
	}
	many := `,"inputRequests":{`
	for n := range crossing.MaxQuestions + 1 {
		many += fmt.Sprintf(`"q%d":{"method":"roots/list"},`, n)
	}
	many = strings.TrimSuffix(many, ",") + `}`
	repeated := `,"inputRequests":{` + strings.Repeat(`"q":{"method":"elicitation/create"},`, crossing.MaxQuestions) + `"q":{"method":"elicitation/create"}}`
	unable := func(what string) string {
		return `{"jsonrpc":"2.0","id":"c","result":{"content":[{"type":"text","text":"Client cannot answer ` + what + `"}],"isError":true}}`
	}
	for name, c := range map[string]struct {
		request  string
		messages []string
		want     string
		requests int
	}{
		"answered":                          {call, []string{good}, answered, 1},
		"too many questions":                {call, []string{required(many)}, failed("the server asks too many questions at once"), 1},
		"too many of one name":              {call, []string{required(repeated)}, failed("the server asks too many questions at once"), 1},
		"input, but none":                   {call, []string{required(`,"inputRequests":{}`)}, failed("the server asks for input and does not say which"), 1},
		"input for a list":                  {list, []string{required(`,"requestState":"s"`)}, failed("the server asks for input, which tools/list does not have"), 1},
		"later for ever":                    {call, []string{required(`,"requestState":"s"`)}, failed("upstream busy"), maxSheds + 1},
		"another response first":            {call, []string{`{"jsonrpc":"2.0","id":"x","result":{}}`, good}, answered, 1},
		"no message first":                  {call, []string{"Listening", `{"id":`, "", " ", good}, answered, 1},
		"a request first":                   {call, []string{`{"jsonrpc":"2.0","id":"s","method":"roots/list"}`, good}, answered, 1},
		"an unknown question":               {call, []string{required(`,"inputRequests":{"q":{"method":"files/delete"}}`)}, unable("files/delete"), 1},
		"a question without a method":       {call, []string{required(`,"inputRequests":{"q":7}`)}, unable("a question without a method"), 1},
		"one with and one without a method": {call, []string{required(`,"inputRequests":{"p":{"method":"elicitation/create"},"q":{}}`)}, unable("a question without a method"), 1},
		"questions in an array":             {call, []string{required(`,"inputRequests":[{"method":"roots/list"}]`)}, failed("the server asks for input and does not say which"), 1},
		"an error without an id":            {call, []string{`{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"}}`}, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"},"id":"c"}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBridge(t)
				s := &answering{messages: c.messages}
				conn := b.New(s, ByOwnProcess, translate.Latest(), wire.Facts(0))
				st, err := conn.Send(t.Context(), &upstream.Outgoing{Body: []byte(`{"jsonrpc":"2.0","id":"c",` + c.request + `}`), Request: true})
				if err != nil {
					t.Fatal(err)
				}
				last := ""
				for e, err := range st.Events {
					if err != nil {
						if err != io.EOF {
							last = "ends with " + err.Error()
						}
						break
					}
					last = string(e.Data)
				}
				st.Close()
				conn.end()
				b.host.Wait()
				if last != c.want || s.requests != c.requests {
					t.Errorf("%d requests, and\n%s, want\n%s", s.requests, last, c.want)
				}
			})
		})
	}
}
