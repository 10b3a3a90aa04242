package tests

import (
	"regexp"
	"strings"
	"sync"

	"github.com/dragoman-proxy/dragoman/proxy/pipes/failures"
)

// advised matches what the text of an error ends with about a failure of the server: the place of the server, if it is told, and the
// advice. TestEachCauseOfFailure checks both; other tests are about what stands before.
var advised = sync.OnceValue(func() *regexp.Regexp {
	var all []string
	for _, c := range failures.All() {
		if c.Explained() {
			all = append(all, regexp.QuoteMeta(c.Advice()))
		}
	}
	all = append(all, `the server, or a gateway before it, fails: its own log says more`, `dragoman's log says why`, `use http:// in the URL [^"]*`, `the server speaks TLS at this port[^"]*`, `it seems to listen for HTTP[^"]*`, `is it an MCP server on stdio[^"]*`, `dragoman follows no redirects: [^"]*`, `does this port speak TLS\? [^"]*`, `Node\.js v[^"]*`, `it needs Node\.js [^"]*`, `correct its path in the command [^"]*`, `no directory of PATH [^"]*`, `is there this directory[^"]*`, `the file is there: [^"]*`, `start the server, or correct the path[^"]*`, `there is an endpoint at [^"]*`)
	return regexp.MustCompile(`( \((at [^\s"]+(, which redirects to [^\s"]+)?|command: ([^"\\]|\\.)*?)\))?; (` + strings.Join(all, "|") + `)("|$)`)
})

// withoutAdvice returns a message, or a text, without the place and the advice.
func withoutAdvice(message string) string { return advised().ReplaceAllString(message, "$6") }
