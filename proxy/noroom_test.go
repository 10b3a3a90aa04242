package proxy

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/zap"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/large"
	"github.com/dragoman-proxy/dragoman/proxy/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/stateless"
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
	resp, err := http.DefaultClient.Do(r)
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
