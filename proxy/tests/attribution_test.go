package tests

import (
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/protocol/crossing"
	"github.com/dragoman-proxy/dragoman/proxy/transport/upstream"
)

// TestServerThatAsksTooMuchAtOnce: questions beyond the limit are refused; the client gets the
// others.
func TestServerThatAsksTooMuchAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const many = 5 * crossing.MaxQuestions
		f := legacyServer(`{"tools":{}}`, func(id, _, _ string) ([]string, error) {
			var questions []string
			for n := range many {
				questions = append(questions, fmt.Sprintf(`{"jsonrpc":"2.0","id":"q%d","method":"roots/list"}`, n))
			}
			return one(append(questions, hang)...)
		})
		f.NoGet = true
		srv := front(t, f)
		r := srv.modernly(modernRequestOf("7", "tools/call", `"name":"t",`+meta(`{"roots":{}}`)))
		if n := len(gjson.Get(r.body, "result.inputRequests").Map()); n != crossing.MaxQuestions {
			t.Errorf("%d questions: %.200s", n, r.body)
		}
		eventually(t, "the others are refused", func() bool { return len(f.sent()) == 3+many-crossing.MaxQuestions })
		sameJSON(t, f.sent()[3], rpcError(`"q64"`, `"code":-32603,"message":"the server asks too many questions at once"`))
	})
}

// TestListenThatEndsByItselfOnAPipe: the subscription is also cancelled, as the specification
// requires on a pipe, where no stream can be closed.
func TestListenThatEndsByItselfOnAPipe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := legacyServer(`{"tools":{"listChanged":true}}`, nil)
		f.piped = true
		c := front(t, f).pipe()
		c.say(modernRequestOf(`"L"`, "subscriptions/listen", `"notifications":{"toolsListChanged":true},`+meta(`{}`)))
		c.hears(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"L"},"notifications":{"toolsListChanged":true}}}`)
		f.lose(upstream.ErrLost)
		c.hears(`{"jsonrpc":"2.0","id":"L","result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":"L"}}}`,
			`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"L"}}`)
	})
}
