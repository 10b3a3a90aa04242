package proxy

import (
	"errors"
	"testing"
)

// Requests are counted by what came of them: what looks like isError within the answer of a
// tool is the tool's affair.
func TestRequestsAreCountedByOutcome(t *testing.T) {
	for _, c := range []struct {
		answer string
		err    error
		want   outcome
	}{
		{`{"jsonrpc":"2.0","id":1,"result":{"content":[]}}`, nil, succeeded},
		{`{"jsonrpc":"2.0","id":1,"result":{"content":[],"isError":false,"structuredContent":{"isError":true}}}`, nil, succeeded},
		{`{"jsonrpc":"2.0","id":1,"result":{"isError" : true, "content":[]}}`, nil, toolError},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool"}}`, nil, errored},
		{"", errors.New("away"), failed},
	} {
		for _, client := range []string{"2024-11-05", "2025-06-18"} { // translated, and as it came
			f := newFake(initializing("2025-06-18", func(string) ([]string, error) {
				if c.err != nil {
					return nil, c.err
				}
				return one(c.answer)
			}))
			srv := front(t, f)
			srv.post(srv.initialize(client), callOne)
			eventually(t, "the count", func() bool { return srv.outcomes(c.want, "tools/call") == 1 })
			all := 0
			for _, how := range []outcome{succeeded, toolError, errored, local, refused, failed, cancelled, left} {
				all += srv.outcomes(how, "tools/call")
			}
			if all != 1 {
				t.Errorf("%s: counted %d times", c.answer, all)
			}
		}
	}
}
