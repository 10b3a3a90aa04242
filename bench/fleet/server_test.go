package fleet

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate"
)

// TestAPINoticesALimitThatIsExceeded checks the judge of limits: it accepts what a bucket of the limit lets through, and
// nothing of what two such buckets do.
func TestAPINoticesALimitThatIsExceeded(t *testing.T) {
	for buckets, over := range map[int]bool{1: false, 2: true} {
		a := &api{room: limitBurst + limitSlack}
		now := time.Now()
		for range limitBurst * buckets {
			a.count(now)
		}
		for range 200 {
			now = now.Add(time.Minute / limitPerMinute)
			for range buckets {
				a.count(now)
			}
		}
		if (a.over > 0) != over {
			t.Errorf("%d buckets: %d requests are over the limit", buckets, a.over)
		}
	}
}

// TestServerClosesWhileACallWaits for an answer that never comes, and the deletion of its session for the call.
func TestServerClosesWhileACallWaits(t *testing.T) {
	s, err := startServer(translate.Latest().Name)
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	defer func() {
		if !closed {
			s.close()
		}
	}()
	session := ""
	send := func(method, message string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.url(), strings.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Session-Id": {session}}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	begin := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`, translate.Latest().Name)
	hello := send("POST", begin)
	hello.Body.Close()
	session = hello.Header.Get("Mcp-Session-Id")
	send("POST", `{"jsonrpc":"2.0","method":"notifications/initialized"}`).Body.Close()
	call := send("POST", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"text":"x"}}}`)
	asked := false
	for lines := bufio.NewScanner(call.Body); !asked && lines.Scan(); {
		asked = strings.Contains(lines.Text(), "elicitation/create")
	}
	call.Body.Close()
	if !asked {
		t.Fatal("no question came")
	}
	r, err := http.NewRequestWithContext(t.Context(), "DELETE", s.url(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Mcp-Session-Id", session)
	deleted := make(chan struct{})
	go func() {
		defer close(deleted)
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	session = ""
	for range 10 { // meanwhile the deletion has come
		send("POST", begin).Body.Close()
	}
	done := make(chan struct{})
	go func() { defer close(done); s.close() }()
	select {
	case <-done:
		closed = true
	case <-time.After(peertest.Patience):
		closed = true
		t.Fatal("the server does not close")
	}
	<-deleted
}
