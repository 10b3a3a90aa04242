package tests

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
)

func TestConfirmationBelongsToTheSession(t *testing.T) {
	_, change := withAdapters(t)
	srv := front(t, listing("2025-06-18", nil, nil), change)
	mine, other := srv.initialize("2025-06-18"), srv.initialize("2025-06-18")
	asked := text(srv.post(mine, callOurs(1, "mcp_aql_delete", `{"operation":"drop_item","params":{"id":"7"}}`)).body)
	token := gjson.Get(asked, "confirmation.token").String()
	if token == "" {
		t.Fatalf("asked: %s", asked)
	}
	again := callOurs(2, "mcp_aql_delete", `{"operation":"drop_item","params":{"id":"7","_confirmation":"`+token+`"}}`)
	if got := text(srv.post(other, again).body); !strings.Contains(got, "TOKEN_SCOPE_MISMATCH") {
		t.Errorf("another session: %s", got)
	}
	if got := text(srv.post(mine, again).body); !strings.Contains(got, "DELETE /items/7") {
		t.Errorf("the session: %s", got)
	}
}

// TestConfirmationIsBoundToTheCredentials: without a session, a confirmation is valid only for the
// listener token and the Authorization header with which it was asked for.
func TestConfirmationIsBoundToTheCredentials(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	cfg.Auth.Tokens = []string{"ann", "bob"}
	_, base := serveAdapters(t, cfg, nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	drop := func(token string, header ...string) (int, string) {
		status, _, body := visit(t, client, "POST", base+"/adapters/items-api/delete",
			`{"operation":"drop_item","params":{"id":"7"`+token+`}}`, header...)
		return status, body
	}
	ann, bob := []string{"Authorization", "Bearer ann"}, []string{"Authorization", "Bearer bob"}
	status, body := drop("", ann...)
	token := gjson.Get(body, "confirmation.token").String()
	if status != 428 || token == "" || strings.Contains(body, "ann") {
		t.Fatalf("asked: %d %s", status, body)
	}
	again := `,"_confirmation":"` + token + `"`
	for name, header := range map[string][]string{
		"another's token":      bob,
		"her token, for a man": {"X-Dragoman-Token", "ann", "Authorization", "Bearer man"},
	} {
		if status, body := drop(again, header...); status != 403 || !strings.Contains(body, "TOKEN_SCOPE_MISMATCH") {
			t.Errorf("%s: %d %s", name, status, body)
		}
	}
	if status, body := drop(again, "X-Dragoman-Token", "ann"); status != 200 { // the same token in the other header
		t.Errorf("her own: %d %s", status, body)
	}
}

// TestOnlyTheUserConfirms: if adapters.confirm.via is elicitation, no client gets a confirmation
// token that the model could use itself, neither on the plain endpoints nor in a batch.
func TestOnlyTheUserConfirms(t *testing.T) {
	_, change := withAdapters(t)
	cfg := config.Default()
	change(&cfg)
	cfg.Adapters.Confirm.Via = "elicitation"
	_, base := serveAdapters(t, cfg, nil)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	const drop = `{"operation":"drop_item","params":{"id":"7"}}`
	for _, c := range []struct {
		path, body string
		status     int
	}{{"items-api/delete", drop, 403}, {"items-api", drop, 403}, {"items-api", `{"operations":[` + drop + `]}`, 200}} {
		status, _, body := visit(t, client, "POST", base+"/adapters/"+c.path, c.body)
		if status != c.status || !strings.Contains(body, `"code":"PERMISSION_DENIED"`) || strings.Contains(body, "conf_") {
			t.Errorf("%s: %d %s", c.path, status, body)
		}
	}
}
