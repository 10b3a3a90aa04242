package tests

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/dragoman-proxy/dragoman/proxy/config"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// telling is a server that tells its clients something in the head of each response. status is that of all calls.
func telling(t *testing.T, modern bool, status *int) *peertest.Server {
	s := peertest.NewServer(t, peertest.HTTP, nil)
	plain := newSessionless(t, nil)
	s.Script = func(u *peertest.Turn) {
		h := u.Web.Header()
		h.Set("DPoP-Nonce", fmt.Sprint("nonce of ", u.Text[:min(3, len(u.Text))], u.Method, u.ID))
		h.Set("RateLimit", `"default";r=50;t=30`)
		h.Set("X-Other", "no")
		h.Set("Access-Control-Allow-Origin", "https://server.example")
		switch {
		case u.Method != "initialize" && u.ID != "" && *status >= 400:
			h.Set("WWW-Authenticate", `DPoP error="use_dpop_nonce"`)
			u.Refuse(*status)
		case modern:
			plain.Script(u)
		case u.Method == "initialize":
			u.Open()
			u.Answer(200, result(u.ID, helloOf("2025-06-18", `{"tools":{}}`)))
		case u.Text == http.MethodGet:
			u.Say(logLine)
		case u.ID == "":
		case gjson.Get(u.Text, "params.name").String() == "slow":
			u.Say(logLine)
			u.Say(result(u.ID, `"content":[]`))
		default:
			u.Answer(200, result(u.ID, `"content":[]`))
		}
	}
	s.Every = true
	return s
}

func has(r reply, what string) string {
	var missing []string
	if got := r.header["DPoP-Nonce"]; !strings.Contains(got, what) || what == "" && got != "" {
		missing = append(missing, fmt.Sprintf("DPoP-Nonce is %q", got))
	}
	if (r.header["RateLimit"] == "") != (what == "") {
		missing = append(missing, "RateLimit is "+r.header["RateLimit"])
	}
	for _, name := range []string{"X-Other", "Access-Control-Allow-Origin"} {
		if r.header[name] != "" {
			missing = append(missing, name)
		}
	}
	return strings.Join(missing, ", ")
}

// TestClientGetsTheHeadersOfTheServersResponse to its own request: of initialize, a call, a stream, a notification, the standing stream,
// and a refusal.
func TestClientGetsTheHeadersOfTheServersResponse(t *testing.T) {
	status := 200
	srv := severalOf(t, telling(t, false, &status), 1)[0]
	check := func(what string, r reply, status int, want string) {
		t.Helper()
		if missing := has(r, want); missing != "" || r.status != status {
			t.Errorf("%s: %s: %+v", what, missing, r)
		}
	}
	r := srv.post("", initialize("2025-06-18", "{}"))
	check("initialize", r, 200, "initialize0")
	session := r.header["Mcp-Session-Id"]
	check("a notification", srv.post(session, initializedNotice), 202, "notifications/initialized")
	check("a call", srv.post(session, echoCall), 200, "tools/call7")
	check("a call with a stream", srv.post(session, strings.Replace(echoCall, "echo", "slow", 1)), 200, "tools/call7")
	ctx, leave := context.WithCancel(t.Context())
	req, resp := srv.begin(ctx, "GET", session, "")
	leave() // the head has come
	check("a standing stream", srv.read(req, resp), 200, "GET")
	session = srv.initialize("2025-06-18")
	check("a call that dragoman answers", srv.post(session, `{"jsonrpc":"2.0","id":7,"method":"nope"`), 400, "")
	for _, status = range []int{401, 403, 429} {
		check("a refusal", srv.post(session, echoCall), status, "tools/call7")
	}
}

// TestHandshakeClientGetsTheHeadersOfAModernServer that come with the response to its request.
func TestHandshakeClientGetsTheHeadersOfAModernServer(t *testing.T) {
	status := 200
	srv := severalOf(t, telling(t, true, &status), 1)[0]
	session := srv.initialize("2025-06-18")
	get := `{"jsonrpc":"2.0","id":8,"method":"prompts/get","params":{"name":"p"}}`
	for range 2 {
		if r := srv.post(session, get); has(r, "prompts/get") != "" || r.status != 200 {
			t.Errorf("%s: %+v", has(r, "prompts/get"), r)
		}
	}
	status = 401
	if r := srv.post(session, get); has(r, "prompts/get") != "" || r.status != 401 {
		t.Errorf("%s: %+v", has(r, "prompts/get"), r)
	}
}

func TestModernClientGetsTheHeadersOfTheServersResponse(t *testing.T) {
	status := 200
	srv := severalOf(t, telling(t, true, &status), 1)[0]
	get := modernRequestOf("8", "prompts/get", `"name":"p",`+meta(`{}`))
	if missing := has(srv.modernly(get), "prompts/get8"); missing != "" {
		t.Error(missing)
	}
	status = 401
	if r := srv.modernly(get); has(r, "prompts/get8") != "" || r.status != 401 || r.header["WWW-Authenticate"] == "" {
		t.Errorf("%s: %+v", has(r, "prompts/get8"), r)
	}
}

// TestHeadersOfAPooledSessionAreNotPassed: the session is not the client's, and what the server says of it may be about others. A refusal
// is about the credential of the request, and keeps them.
func TestHeadersOfAPooledSessionAreNotPassed(t *testing.T) {
	status := 200
	srv := severalOf(t, telling(t, false, &status), 1)[0]
	if r := srv.modernly(modernCall("7", "")); has(r, "") != "" || r.status != 200 {
		t.Errorf("%s: %+v", has(r, ""), r)
	}
	status = 401
	if r := srv.modernly(modernCall("7", "")); r.status != 401 || r.header["DPoP-Nonce"] == "" {
		t.Errorf("%+v", r)
	}
}

// TestHeadersOfACachedAnswerAreNotPassed, nor those of the answer that is kept.
func TestHeadersOfACachedAnswerAreNotPassed(t *testing.T) {
	status := 200
	srv := severalOf(t, telling(t, true, &status), 1, func(c *config.Config) { c.Bridge.Cache.Bytes = 1 << 20 })[0]
	for range 2 {
		if r := srv.modernly(modernRequestOf("8", "prompts/list", meta(`{}`))); has(r, "") != "" {
			t.Errorf("%s: %+v", has(r, ""), r)
		}
	}
}

// TestWhichHeadersArePassed is what the setting says.
func TestWhichHeadersArePassed(t *testing.T) {
	status := 200
	for _, names := range [][]string{nil, {"x-other"}} {
		srv := severalOf(t, telling(t, false, &status), 1, func(c *config.Config) { c.Upstream.PassHeaders = names })[0]
		r := srv.post(srv.initialize("2025-06-18"), echoCall)
		if r.header["DPoP-Nonce"] != "" || (r.header["x-other"] == "no") != (len(names) > 0) {
			t.Errorf("%v: %+v", names, r.header)
		}
	}
}

// TestProofOfPossessionGoesOn with the Authorization that it belongs to.
func TestProofOfPossessionGoesOn(t *testing.T) {
	status := 200
	s := telling(t, false, &status)
	srv := severalOf(t, s, 1)[0]
	srv.post(srv.initialize("2025-06-18"), echoCall, "Authorization", "DPoP t", "DPoP", "proof")
	if h := s.Gets(1, "tools/call").Header; h.Get("DPoP") != "proof" || h.Get("Authorization") != "DPoP t" {
		t.Errorf("%v", h)
	}
}

// TestForwardedAnswerHasTheHeaders that the replica which has the session got of the server.
func TestForwardedAnswerHasTheHeaders(t *testing.T) {
	status := 200
	all := peersOf(t, 2, telling(t, false, &status)) // on this machine, so that the session has an owner
	session := all[0].initialize("2025-06-18")
	for _, status = range []int{200, 401} {
		r := all[1].post(session, echoCall)
		if missing := has(r, "tools/call7"); missing != "" || r.status != status {
			t.Errorf("%s: %+v", missing, r)
		}
	}
	if all[1].forwarded("served") != 2 {
		t.Error("not forwarded")
	}
}
