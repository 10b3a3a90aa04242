package tests

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/adapterrt/credential/oauthtest"
	"github.com/dragoman-proxy/dragoman/proxy/config"
)

// needsLogin returns an adapter file for an API that requires an OAuth login of a person.
func needsLogin(t *testing.T) (change func(*config.Config)) {
	t.Helper()
	s := oauthtest.New()
	t.Cleanup(s.Close)
	t.Setenv("DRAGOMAN_TEST_ID", oauthtest.ClientID)
	t.Setenv("DRAGOMAN_TEST_SECRET", oauthtest.ClientSecret)
	text := adapterFile("items-api", s.URL+"/api", `
  read:
    - {name: get_status, maps_to: "GET /status", description: Get the status}
`)
	text = strings.Replace(text, "auth: {type: bearer, token_env: DRAGOMAN_TEST_API_TOKEN}", fmt.Sprintf(
		"auth: {type: oauth, grant: authorization_code, token_url: '%[1]s/token', authorization_url: '%[1]s/authorize', client_id_env: DRAGOMAN_TEST_ID, client_secret_env: DRAGOMAN_TEST_SECRET}", s.URL), 1)
	dir := adapterDir(t, map[string]string{"items-adapter.md": text})
	return func(c *config.Config) { c.Adapters.Sources, c.CredentialStore = []string{dir}, "memory" }
}

// visits opens the page that a URL elicitation names, as a browser does, and follows the redirect
// back to the login's callback.
func visits(t *testing.T, params gjson.Result) {
	t.Helper()
	if params.Get("mode").String() != "url" || params.Get("message").String() != "Adapter items-api needs you to log in to its API" {
		t.Fatal(params)
	}
	go func() {
		browser := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := browser.Get(params.Get("url").String())
		if err != nil {
			t.Error(err)
			return
		}
		defer res.Body.Close()
		if page, _ := io.ReadAll(res.Body); res.StatusCode != 200 || !strings.Contains(string(page), "can be closed") {
			t.Errorf("%d %s", res.StatusCode, page)
		}
	}()
}

// TestUsersAreSentToLogIn: on stdio, where the client serves one person, a client that can show a
// page is asked to open the login page.
//
// https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation#url-mode-elicitation-requests
func TestUsersAreSentToLogIn(t *testing.T) {
	change := needsLogin(t)
	const capable = `{"elicitation":{"form":{},"url":{}}}`
	const ask = `"name":"mcp_aql_read","arguments":{"operation":"get_status"}`
	const fine = `{"success":true,"data":"fine"}`

	pipe, _ := pipeClient(t, listing("2025-11-25", nil, nil), change)
	pipe.initialize("2025-11-25", capable)
	pipe.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + ask + `}}`)
	question := pipe.hear()
	visits(t, gjson.Get(question, "params"))
	if !gjson.Get(question, "params.elicitationId").Exists() {
		t.Error(question)
	}
	pipe.say(`{"jsonrpc":"2.0","id":` + gjson.Get(question, "id").Raw + `,"result":{"action":"accept"}}`)
	if got := pipe.hear(); text(got) != fine {
		t.Error(got)
	}

	modern, _ := pipeClient(t, listing("2025-11-25", nil, nil), change)
	modern.say(modernRequestOf("1", "tools/call", ask+","+meta(capable)))
	first := modern.hear()
	var key string
	gjson.Get(first, "result.inputRequests").ForEach(func(k, request gjson.Result) bool {
		key = k.String()
		visits(t, request.Get("params"))
		return false
	})
	if key == "" {
		t.Fatal(first)
	}
	modern.say(modernRequestOf("2", "tools/call", ask+`,"requestState":`+gjson.Get(first, "result.requestState").Raw+`,"inputResponses":{"`+key+`":{"action":"accept"}},`+meta(capable)))
	if got := modern.hear(); text(got) != fine {
		t.Error(got)
	}

	for version, capabilities := range map[string]string{"2025-06-18": capable, "2025-11-25": `{"elicitation":{}}`} {
		pipe, _ := pipeClient(t, listing(version, nil, nil), change)
		pipe.initialize(version, capabilities)
		pipe.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{` + ask + `}}`)
		if got := pipe.hear(); !strings.Contains(text(got), "AUTH_LOGIN_REQUIRED") {
			t.Errorf("%s %s: %s", version, capabilities, got)
		}
	}
	srv := front(t, listing("2025-11-25", nil, nil), change) // over HTTP, where there may be many clients
	session := srv.initializeWith("2025-11-25", capable)
	if r := srv.post(session, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+ask+`}}`); !strings.Contains(text(r.body), "AUTH_LOGIN_REQUIRED") {
		t.Errorf("%+v", r)
	}
}
