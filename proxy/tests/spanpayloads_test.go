package tests

import (
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/observe"
)

// watching is a reader of what is observed that keeps nothing.
type watching struct{}

func (watching) Message(*observe.Message) {}
func (watching) Note(*observe.Note)       {}
func (watching) End(*observe.End)         {}
func (watching) Session(*observe.Session) {}
func (watching) Stderr(*observe.Stderr)   {}
func (watching) Gap(uint64)               {}

// TestSpansOfAShapedResult: the span has the tokens that shaping has counted, the number that the live page shows, and
// the payloads only if the configuration says so, without secrets.
func TestSpansOfAShapedResult(t *testing.T) {
	const secret = "planted-0123456789"
	for _, payloads := range []bool{false, true} {
		for _, large := range []bool{false, true} {
			to := traced(t)
			text := strings.Repeat("word ", 1000) + secret
			f := answering("2025-11-25", false, func(string) string {
				return `{"content":[{"type":"text","text":` + quote(text) + `}],"_meta":{"token":"` + secret + `"}}`
			}, `{"tools":[]}`)
			srv := front(t, f, shaped(t, "default_max_tokens: 300"), func(c *config.Config) {
				c.Telemetry.Payloads = payloads
				c.Auth.Tokens = []string{secret}
			})
			detach := srv.Observer.Attach("test", watching{})
			defer detach()
			session := srv.initialize("2025-11-25")
			more := ""
			if large {
				more = strings.Repeat("x", 20<<10)
			}
			r := srv.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"q":"plain","password":"hunter2-hunter2","more":"`+more+`","own":"`+secret+`"}}}`)
			if !gjson.Get(r.body, "result").Exists() {
				t.Fatal(r.body)
			}
			srv.Tracer.Close()
			all := to.Spans(t, 4)
			call := spansOf(all, "tools/call")[0].Attributes
			before, _ := strconv.Atoi(call["dragoman.tokens.before"])
			after, _ := strconv.Atoi(call["dragoman.tokens.after"])
			if before < 1000 || after < 100 || after > 300 {
				t.Errorf("tokens: %v", call)
			}
			if n, _ := strconv.Atoi(call["dragoman.call"]); n != int(srv.Observer.Calls()) || n == 0 {
				t.Errorf("the number is %d, not %d", n, srv.Observer.Calls())
			}
			for _, s := range all {
				for name, value := range s.Attributes {
					if strings.Contains(value, secret) || strings.Contains(value, "hunter2") {
						t.Errorf("a secret in %s: %s", name, value)
					}
				}
			}
			arguments, result := call["gen_ai.tool.call.arguments"], call["gen_ai.tool.call.result"]
			switch {
			case !payloads && arguments+result != "":
				t.Errorf("payloads without being asked for: %q, %q", arguments, result)
			case !payloads:
			case large && arguments != `"[20559 bytes]"`, !large && gjson.Get(arguments, "q").String() != "plain", !strings.Contains(result, "word word"):
				t.Errorf("%q, %q", arguments, result)
			}
		}
	}
}
