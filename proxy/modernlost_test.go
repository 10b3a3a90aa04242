package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"
)

// forgetful is a server on HTTP that knows only its newest session, and answers 404 for all others.
type forgetful struct {
	opened    atomic.Int64
	forgotten atomic.Int64
	calls     atomic.Int64
	never     bool // it forgets each session at once
}

func (s *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	session := r.Header.Get("Mcp-Session-Id")
	switch method := gjson.GetBytes(body, "method").Str; {
	case r.Method == http.MethodPost && method == "initialize":
		w.Header().Set("Mcp-Session-Id", fmt.Sprint("n", s.opened.Add(1)))
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"2"}}}`)
	case r.Method == http.MethodPost && method == "tools/call":
		s.calls.Add(1)
		if s.never || session == fmt.Sprint("n", s.forgotten.Load()) {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"in %s"}]}}`, gjson.GetBytes(body, "id").Raw, session)
	case r.Method == http.MethodGet:
		w.WriteHeader(http.StatusMethodNotAllowed)
	default:
		w.WriteHeader(http.StatusAccepted)
	}
}

// TestModernClientsDoNotNoticeALostSession: a handshake server's 404 means that the session is lost. A
// modern client still gets its response, from another session; this is tried once.
func TestModernClientsDoNotNoticeALostSession(t *testing.T) {
	for _, can := range []string{`{}`, `{"elicitation":{}}`} {
		t.Run(can, func(t *testing.T) {
			s := &forgetful{}
			web := httptest.NewServer(s)
			t.Cleanup(web.Close)
			srv := frontOfWeb(t, web)
			call := modernRequestOf("7", "tools/call", `"name":"x","arguments":{},`+meta(can))
			if r := srv.modernly(call); !strings.Contains(r.body, `"in n1"`) {
				t.Fatalf("%+v", r)
			}
			s.forgotten.Store(1)
			if r := srv.modernly(call); r.status != 200 || !strings.Contains(r.body, `"in n2"`) || gjson.Get(r.body, "id").Raw != "7" {
				t.Errorf("%+v", r)
			}
			if n := s.calls.Load(); n != 3 {
				t.Errorf("%d calls, want the first, the lost one and that once more", n)
			}
			s.never = true
			r := srv.modernly(call)
			sameJSON(t, r.body, `{"jsonrpc":"2.0","id":7,"error":{"code":-32603,"message":"upstream endpoint not found"}}`)
			if n := s.calls.Load(); r.status != 502 || n != 5 {
				t.Errorf("status %d, %d calls", r.status, n)
			}
		})
	}
}
