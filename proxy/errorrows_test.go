package proxy

import (
	"fmt"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/peertest"
)

// errorRow is an error of one era and its translation to the other: the server's HTTP status and
// error members, and those that the client receives. Errors that are only JSON are in testdata/scripts/errors-of-*.txt;
// those here have HTTP headers, no body, or are answers to more than one request.
type errorRow struct {
	what    string
	status  int
	said    string // the server's error, or text that is not JSON
	want    int    // the status that the client receives
	heard   string // the error that the client receives; for dragoman's own errors, the code and message
	headers string // headers that the client receives; "" for none
}

// TestErrorsOfServersWithSessions: errors of handshake servers as modern clients receive them.
func TestErrorsOfServersWithSessions(t *testing.T) {
	rows := []errorRow{
		{what: "who are you", status: 401, said: "", want: 401, heard: `{"code":-32603,"message":"upstream answered 401 Unauthorized"}`, headers: "WWW-Authenticate"},
		{what: "not you", status: 403, said: "", want: 403, heard: `{"code":-32603,"message":"upstream answered 403 Forbidden"}`, headers: "WWW-Authenticate"},
		{what: "too often", status: 429, said: "", want: 429, heard: `{"code":-32603,"message":"upstream answered 429 Too Many Requests"}`, headers: "Retry-After"},
		{what: "not now", status: 503, said: "", want: 503, heard: `{"code":-32603,"message":"upstream answered 503 Service Unavailable"}`, headers: "Retry-After"},
		{what: "broken", status: 500, said: "", want: 500, heard: `{"code":-32603,"message":"upstream answered 500 Internal Server Error"}`},
	}
	for _, r := range rows {
		r.play(t, func(c *staged) (*peertest.Client, string) {
			s := c.legacy(`{"tools":{},"resources":{}}`, r.answer)
			client, _ := c.stage(s)
			return client, modernRequestOf("5", "prompts/list", meta(`{}`))
		})
	}
}

// TestErrorsOfServersWithoutSessions: errors of modern servers as handshake clients receive them.
// For these, 404 means that the session is lost, and no other error may have that status.
func TestErrorsOfServersWithoutSessions(t *testing.T) {
	rows := []errorRow{
		{what: "a revision", status: 400, said: `{"code":-32022,"message":"m","data":{"k":[1.0]}}`, want: 200, heard: `{"code":-32603,"message":"m","data":{"k":[1.0]}}`},
		{what: "nothing there", status: 404, said: "", want: 200, heard: `{"code":-32603,"message":"upstream endpoint not found"}`},
		{what: "who are you", status: 401, said: "", want: 401, heard: `{"code":-32603,"message":"upstream answered 401 Unauthorized"}`, headers: "WWW-Authenticate"},
		{what: "who are you, in words", status: 401, said: `{"code":-32001,"message":"no token"}`, want: 401, heard: `{"code":-32001,"message":"no token"}`, headers: "WWW-Authenticate"},
		{what: "not you", status: 403, said: "", want: 403, heard: `{"code":-32603,"message":"upstream answered 403 Forbidden"}`, headers: "WWW-Authenticate"},
		{what: "too often", status: 429, said: "", want: 429, heard: `{"code":-32603,"message":"upstream answered 429 Too Many Requests"}`, headers: "Retry-After"},
		{what: "broken", status: 500, said: "", want: 200, heard: `{"code":-32603,"message":"upstream answered 500 Internal Server Error"}`},
	}
	for _, r := range rows {
		r.play(t, func(c *staged) (*peertest.Client, string) {
			s := c.modern(`"capabilities":{"tools":{},"resources":{}}`, r.answer)
			client, _ := c.stage(s)
			client.Initialize("2025-11-25", `{}`)
			return client, `{"jsonrpc":"2.0","id":5,"method":"prompts/list","params":{}}`
		})
	}
}

// answer makes the server's response.
func (r errorRow) answer(u *peertest.Turn) {
	if u.Method != "prompts/list" {
		u.Answer(200, result(u.ID, ""))
		return
	}
	if r.said != "" {
		if u.Web != nil {
			u.Web.Header().Set("WWW-Authenticate", "Bearer")
		}
		u.Answer(r.status, `{"jsonrpc":"2.0","id":`+u.ID+`,"error":`+r.said+`}`)
		return
	}
	u.Begun = true
	u.Web.Header().Set("WWW-Authenticate", "Bearer")
	u.Web.Header().Set("Retry-After", "7")
	u.Web.WriteHeader(r.status)
}

// play sends the request and checks the error over both transports on both sides, where they have
// what the error is about.
func (r errorRow) play(t *testing.T, stage func(*staged) (*peertest.Client, string)) {
	for _, client := range []bool{false, true} {
		for _, server := range []bool{false, true} {
			if server && r.said == "" || server && r.status == 401 || testing.Short() && (client || server) {
				continue
			}
			t.Run(fmt.Sprintf("%s %s to %s", r.what, transportName(client), transportName(server)), func(t *testing.T) {
				c := &staged{T: t, client: client, server: server}
				from, request := stage(c)
				for range 2 { // twice, since the session continues
					told := from.Say(request)
					answer := told.Next()
					sameJSON(t, gjson.Get(answer, "error").Raw, r.heard)
					if gjson.Get(answer, "id").Raw != "5" {
						t.Error(answer)
					}
					told.HasStatus(r.want)
					if r.headers != "" && !client && told.Header.Get(r.headers) == "" {
						t.Errorf("%s is gone: %v", r.headers, told.Header)
					}
				}
			})
		}
	}
}
