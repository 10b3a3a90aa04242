package tests

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// newLosing returns a server that knows its sessions. Its tool says in which session it is, by number. While it is never
// right, it knows no session but for initialize.
func newLosing(t *testing.T) (s *peertest.Server, never *atomic.Bool) {
	never = new(atomic.Bool)
	s = peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Open()
			u.Answer(200, result(u.ID, helloOf("2025-06-18", `{"tools":{}}`)))
		case "tools/call":
			if never.Load() {
				u.Refuse(http.StatusNotFound)
				return
			}
			nth := slices.Index(s.Opened(), u.Session) + 1
			u.Answer(200, result(u.ID, fmt.Sprintf(`"content":[{"type":"text","text":"in n%d"}]`, nth)))
		}
	})
	s.Sessions, s.NoGet = true, true
	s.Unknown = func(u *peertest.Turn) { u.Refuse(http.StatusNotFound) }
	return s, never
}

// TestAnswerToALostSession: the server refuses it with 404, which says that it has lost the session, and not that there is no endpoint.
func TestAnswerToALostSession(t *testing.T) {
	s, _ := newLosing(t)
	losing, answered := s.Script, make(chan struct{})
	s.Script = func(u *peertest.Turn) {
		if u.Method != "tools/call" {
			losing(u)
			return
		}
		u.Say(nameQuestion)
		u.Until(answered)
	}
	srv := frontOfWeb(t, s.At().URL)
	r := srv.modernly(modernCall("7", ""))
	s.Forget()
	again := srv.modernly(retryOf("9", ada, r))
	close(answered)
	sameJSON(t, again.body, `{"jsonrpc":"2.0","id":9,"error":{"code":-32603,"message":"upstream answered 404 Not Found"}}`)
	for _, cause := range []string{"session_lost", "not_found"} {
		if n := counted(t, srv.Metrics, "dragoman_upstream_failures_total", "cause="+cause); (n == 1) != (cause == "session_lost") {
			t.Errorf("%v failures with the cause %s", n, cause)
		}
	}
}

// TestTaskOfALostSession: what the server says of the session is nothing to a client that has none, and no sign of a missing endpoint.
func TestTaskOfALostSession(t *testing.T) {
	s, _ := newLosing(t)
	losing := s.Script
	s.Script = func(u *peertest.Turn) {
		switch u.Method {
		case "initialize":
			u.Open()
			u.Answer(200, result(u.ID, helloOf("2025-11-25", taskCapabilities)))
		case "tools/list":
			u.Answer(200, result(u.ID, `"tools":[{"name":"slow","inputSchema":{"type":"object"},"execution":{"taskSupport":"required"}}]`))
		case "tools/call":
			u.Answer(200, result(u.ID, `"task":{"taskId":"t1","status":"working",`+taskTimes+`,"ttl":60000,"pollInterval":20}`))
		default:
			losing(u)
		}
	}
	srv := frontOfWeb(t, s.At().URL, bridgingTasks)
	srv.modernly(callAsTask("4", "slow"))
	s.Forget()
	for _, id := range []string{"5", "6"} {
		sameJSON(t, srv.onTask(ofTaskModern(id, "tasks/get", "t1", "")).body, rpcError(id, `"code":-32602,"message":"Task not found"`))
	}
	for _, cause := range []string{"session_lost", "not_found"} {
		if n := counted(t, srv.Metrics, "dragoman_upstream_failures_total", "cause="+cause); (n == 1) != (cause == "session_lost") {
			t.Errorf("%v failures with the cause %s", n, cause)
		}
	}
}

// TestModernClientsDoNotNoticeALostSession: a handshake server's 404 means that the session is lost. A
// modern client still gets its response, from another session; this is tried once.
func TestModernClientsDoNotNoticeALostSession(t *testing.T) {
	for _, c := range []struct{ can, words string }{{`{}`, ""}, {`{"elicitation":{}}`, ""}, {`{}`, towerLost}, {`{"elicitation":{}}`, wikiLost}} {
		can := c.can
		t.Run(can+" "+c.words, func(t *testing.T) {
			s, never := newLosing(t)
			if c.words != "" {
				s.Unknown = func(u *peertest.Turn) {
					u.Answer(200, strings.NewReplacer("SESSION", u.Header.Get("Mcp-Session-Id"), `"ID"`, cmp.Or(u.ID, "null")).Replace(c.words))
				}
			}
			srv := frontOfWeb(t, s.At().URL)
			call := modernRequestOf("7", "tools/call", `"name":"x","arguments":{},`+meta(can))
			if r := srv.modernly(call); !strings.Contains(r.body, `"in n1"`) {
				t.Fatalf("%+v", r)
			}
			s.Forget()
			if r := srv.modernly(call); r.status != 200 || !strings.Contains(r.body, `"in n2"`) || gjson.Get(r.body, "id").Raw != "7" {
				t.Errorf("%+v", r)
			}
			if n := s.Count("tools/call"); n != 3 {
				t.Errorf("%d calls, want the first, the lost one and that once more", n)
			}
			never.Store(true)
			r := srv.modernly(call)
			sameJSON(t, r.body, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"upstream endpoint not found"}}`)
			if n := s.Count("tools/call"); r.status != 502 || n != 5 {
				t.Errorf("status %d, %d calls", r.status, n)
			}
		})
	}
}
