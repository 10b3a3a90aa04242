package tests

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/bridge/stateless"
	"github.com/dragoman-proxy/dragoman/proxy/bytes/large"
	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/translate/wire"
)

// largeAnswers is a server whose responses to tools/call have size bytes; the response of the tool
// event is sent as an event.
func largeAnswers(t *testing.T, size int) *peertest.Server {
	long := `"content":[{"type":"text","text":"` + strings.Repeat("a", size) + `"}]`
	return peertest.NewServer(t, peertest.HTTP, func(u *peertest.Turn) {
		switch {
		case u.ID == "":
		case u.Method == "initialize":
			u.Answer(200, result(u.ID, helloOf("2025-06-18", `{}`)))
		case gjson.Get(u.Text, "params.name").Str == "event":
			u.Say(result(u.ID, long))
		case u.Method == "tools/call":
			u.Answer(200, result(u.ID, long))
		default:
			u.Answer(200, result(u.ID, ""))
		}
	})
}

// postTo posts one message.
func postTo(t *testing.T, url, session, message string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(message))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := peertest.WebClient(t).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

// TestAnswerWithoutRoomIsAnError: the error names the limit that is reached, and the session
// continues.
func TestAnswerWithoutRoomIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		upstream := largeAnswers(t, 200<<10)
		upstream.At()
		cfg := config.Default()
		cfg.Upstream.URL = upstream.URL
		cfg.Limits.InHand = 4 << 20
		cfg.Limits.Time = map[string]config.TimeLimit{"tools/call": {Silence: time.Second}} // for room too
		srv := newOf(t, cfg, zap.NewNop())
		base, _ := startServing(t, srv)
		url := base + "/mcp"
		resp, _ := postTo(t, url, "", initialize("2025-06-18", "{}"))
		session := resp.Header.Get("Mcp-Session-Id")
		call := func(id int, tool string) string {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q}}`, id, tool)
		}
		if err := srv.Host.Memory().Budget.Take(t.Context(), large.Copy, 4<<20); err != nil {
			t.Fatal(err)
		}
		resp, body := postTo(t, url, session, call(1, "json"))
		if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
			gjson.Get(body, "id").Int() != 1 || !strings.Contains(body, "limits.in_hand") {
			t.Errorf("%d %v %s", resp.StatusCode, resp.Header, body)
		}
		if _, body := postTo(t, url, session, call(2, "event")); gjson.Get(body, "id").Int() != 2 || !strings.Contains(body, "limits.in_hand") {
			t.Errorf("an event: %s", body)
		}
		srv.Host.Memory().Budget.Give(large.Copy, 4<<20)
		cfg.Limits.Time = nil
		if err := srv.Reload(cfg); err != nil {
			t.Fatal(err)
		}
		for id, tool := range []string{"json", "event"} {
			if resp, body := postTo(t, url, session, call(id, tool)); resp.StatusCode != http.StatusOK || len(body) < 200<<10 {
				t.Errorf("%d %.200s", resp.StatusCode, body)
			}
		}
		eventually(t, "nothing to be in hand", func() bool { return srv.Host.Memory().Budget.Taken() == 0 })
	})
}

// TestModernRequestOwnsItsMemory: the copy is in one buffer, which has room for a second copy if it is large.
func TestModernRequestOwnsItsMemory(t *testing.T) {
	for _, argument := range []string{"a", strings.Repeat("a", large.Size)} {
		requestOwnsItsMemory(t, argument)
	}
}

func requestOwnsItsMemory(t *testing.T, argument string) {
	raw := []byte(`{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"n","arguments":{"a":"` + argument + `"},"requestState":"s","inputResponses":{"k":{}},` +
		meta(`{}`) + `}}`)
	var m wire.Message
	if err := m.Scan(raw, nil); err != nil {
		t.Fatal(err)
	}
	q, err := stateless.Read(&m, "")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{string(q.Raw), string(q.ID), string(q.Target), string(q.Arguments), string(q.State), string(q.Inputs), string(q.Capabilities)}
	if err := q.Own(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if spare := q.Spare(); (cap(spare) >= len(raw)) != (len(raw) > large.Size) {
		t.Errorf("room for %d", cap(spare))
	} else {
		clear(spare[:cap(spare)])
	}
	clear(raw)
	got := []string{string(q.Raw), string(q.ID), string(q.Target), string(q.Arguments), string(q.State), string(q.Inputs), string(q.Capabilities)}
	if !slices.Equal(got, want) {
		t.Errorf("\ngot  %.500q\nwant %.500q", got, want)
	}
}

// TestAdaptersAnswerWithoutRoomIsAnError as a server's is, for tools and at the plain endpoints. What is counted for it is given
// back.
func TestAdaptersAnswerWithoutRoomIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const size = 200 << 10
		api := peertest.Web(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, strings.Repeat("\x01", size))
		}))
		t.Setenv("DRAGOMAN_TEST_API_TOKEN", "ghp_0123456789abcdefghijklmnopqrstuvwxyz")
		cfg := config.Default()
		cfg.Adapters.Sources = []string{adapterDir(t, map[string]string{"texts-adapter.md": adapterFile("texts", api.URL, "\n  read: [{name: get_text, maps_to: GET /, description: Get a text, response: {as: text}, timeout_ms: 1000}]\n")})}
		cfg.Limits.InHand = 8 << 20
		srv := newOf(t, cfg, zap.NewNop())
		base, _ := startServing(t, srv)
		resp, _ := postTo(t, base+"/mcp", "", initialize("2025-06-18", "{}"))
		session := resp.Header.Get("Mcp-Session-Id")
		call := callOurs(1, "mcp_aql_read", `{"operation":"get_text"}`)
		plain := base + "/adapters/texts/read"

		budget := srv.Host.Memory().Budget
		if err := budget.Take(t.Context(), large.Copy, 8<<20); err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		both.Go(func() {
			resp, body := postTo(t, base+"/mcp", session, call)
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || gjson.Get(body, "id").Int() != 1 || !strings.Contains(body, "limits.in_hand") {
				t.Errorf("%d %v %.500s", resp.StatusCode, resp.Header, body)
			}
		})
		both.Go(func() {
			resp, body := postTo(t, plain, "", `{"operation":"get_text"}`)
			if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" || gjson.Get(body, "error.code").String() != "INTERNAL_ERROR" {
				t.Errorf("%d %v %.500s", resp.StatusCode, resp.Header, body)
			}
		})
		both.Wait() // for as long as a large copy waits
		budget.Give(large.Copy, 8<<20)

		resp, body := postTo(t, base+"/mcp", session, call)
		if text := gjson.Get(gjson.Get(body, "result.content.0.text").String(), "data").String(); resp.StatusCode != 200 || text != strings.Repeat("\x01", size) {
			t.Errorf("%d %.300s", resp.StatusCode, body)
		}
		if resp, body := postTo(t, plain, "", `{"operation":"get_text"}`); resp.StatusCode != 200 || gjson.Get(body, "data").String() != strings.Repeat("\x01", size) {
			t.Errorf("%d %.300s", resp.StatusCode, body)
		}
		eventually(t, "nothing to be in hand", func() bool { return budget.Taken() == 0 })
	})
}
