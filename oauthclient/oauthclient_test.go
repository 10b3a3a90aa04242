package oauthclient

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
)

// TestReplies: what becomes of the responses of a token endpoint, and whether the endpoint may have processed the request.
func TestReplies(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		body, want string
		token      Token
		unanswered bool
	}{
		"token":                   {body: ` {"access_token":"a","refresh_token":"r","token_type":"Bearer","scope":"x y","id_token":"i","expires_in":3600} `, token: Token{"a", "r", "Bearer", "x y", "i", time.Hour}},
		"life in a string":        {body: `{"access_token":"a","expires_in":"90"}`, token: Token{Access: "a", Life: 90 * time.Second}},
		"life that is none":       {body: `{"access_token":"a","expires_in":-1,"scope":7}`, token: Token{Access: "a"}},
		"life that is no number":  {body: `{"access_token":"a","expires_in":"NaN"}`, token: Token{Access: "a"}},
		"life without end":        {body: `{"access_token":"a","expires_in":1e300}`, token: Token{Access: "a", Life: (1<<31 - 1) * time.Second}},
		"no token":                {body: `{"access_token":7}`, want: "the token endpoint answered without access_token", unanswered: true},
		"a page":                  {body: `<html>`, want: "HOST answered 200 without a JSON object", unanswered: true},
		"a list":                  {body: `[]`, want: "HOST answered 200 without a JSON object", unanswered: true},
		"deep":                    {body: strings.Repeat("[", 1<<19), want: "HOST answered 200 without a JSON object", unanswered: true},
		"large":                   {body: `{"a":"` + strings.Repeat("x", maxReply) + `"}`, want: "HOST answered 200 with more than 1048576 bytes", unanswered: true},
		"refused":                 {status: 400, body: `{"error":"invalid_grant"}`, want: "HOST refused: invalid_grant"},
		"refused, and why":        {status: 401, body: `{"error":"invalid_client","error_description":"no \"secret\""}`, want: `HOST refused: invalid_client "no \"secret\""`},
		"refused with status 200": {body: `{"error":"slow_down","access_token":"a"}`, want: "HOST refused: slow_down"},
		"token, and no error":     {body: `{"access_token":"a","error":"no error 0"}`, token: Token{Access: "a"}},
		"words instead of a code": {body: `{"error":"please try again"}`, want: "the token endpoint answered without access_token", unanswered: true},
		"no code":                 {status: 503, body: `{}`, want: "HOST answered 503 without an error code"},
		"a page of errors":        {status: 500, body: `<html>`, want: "HOST answered 500 without a JSON object"},
		"large page of errors":    {status: 500, body: strings.Repeat("x", maxReply+1), want: "HOST answered 500 with more than 1048576 bytes"},
		"redirect":                {status: 307, want: "HOST answered 307, a redirect, which is not followed"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if c.status != 0 {
					w.WriteHeader(c.status)
				}
				io.WriteString(w, c.body)
			}))
			defer s.Close()
			r, err := (&Client{ID: "c"}).Send(t.Context(), s.Client(), s.URL, "grant_type=g")
			if err != nil {
				t.Fatal(err)
			}
			token, err := r.Token()
			if got, want := fmt.Sprint(err), strings.ReplaceAll(c.want, "HOST", r.Host); c.want != "" && got != want || c.want == "" && err != nil || token != c.token {
				t.Errorf("%+v, %v; want %+v, %s", token, err, c.token, want)
			}
			if _, unanswered := errors.AsType[Unanswered](err); unanswered != c.unanswered {
				t.Errorf("unanswered is %v", unanswered)
			}
			if _, refused := errors.AsType[*Refusal](err); refused != (c.want != "" && !c.unanswered) {
				t.Errorf("a refusal: %v", refused)
			}
		})
	}
}

// TestAuthentication: where the client's credentials are in a request.
func TestAuthentication(t *testing.T) {
	for _, c := range []struct {
		Client
		form, want string
	}{
		{Client{ID: "c"}, "a=1", " a=1&client_id=c"},
		{Client{ID: "c"}, "", " client_id=c"},
		{Client{}, "a=1", " a=1"},
		{Client{ID: "c d", Secret: "s&"}, "a=1", " a=1&client_id=c+d&client_secret=s%26"},
		{Client{ID: "c d", Secret: "s&", Basic: true}, "a=1", "c+d:s%26 a=1"},
		{Client{ID: "c", Secret: "s", Assertion: "x.y"}, "a=1", " a=1&client_id=c&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=x.y"},
	} {
		got, connected := "", 0
		s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			user, secret, basic := r.BasicAuth()
			if basic {
				got = user + ":" + secret
			}
			got += " " + string(body)
		}))
		c.Connected = func() { connected++ }
		if _, err := c.Send(t.Context(), s.Client(), s.URL, c.form); err != nil || got != c.want || connected != 1 {
			t.Errorf("%q, want %q; %d connections, %v", got, c.want, connected, err)
		}
		s.Close()
	}
}

// TestLostRequests: only after a connection may the server have processed a request, and no error has the URL or the form.
func TestLostRequests(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		c.Close()
	}))
	defer s.Close()
	for at, lost := range map[string]bool{s.URL: true, "http://" + peertest.NoListener: false, "http://[": false} {
		_, err := (&Client{ID: "c", Secret: "canary"}).Send(t.Context(), s.Client(), at+"/?canary", "canary=canary")
		if _, unanswered := errors.AsType[Unanswered](err); err == nil || unanswered != lost || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v, unanswered is %v", at, err, unanswered)
		}
	}
}

func FuzzReply(f *testing.F) {
	for _, s := range []string{`{"access_token":"a","expires_in":"1e9"}`, `{"error":"x"}`, `{"error":null,"access_token":""}`, `{}`, `[`, `{"access_token":"a","access_token":7}`, "\xff", `{"expires_in":}`} {
		f.Add(200, []byte(s))
		f.Add(400, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		r := &Reply{Host: "host", Status: status, body: body}
		token, err := r.Token()
		if (err == nil) != (token.Access != "") || token.Life < 0 || err == nil && !r.Good() {
			t.Errorf("%d %q: %+v, %v", status, body, token, err)
		}
		if err != nil && err.Error() == "" {
			t.Errorf("%d %q: no words", status, body)
		}
	})
}

// TestAuthorizationURL: the verifier and its challenge are those of https://www.rfc-editor.org/rfc/rfc7636#appendix-B.
func TestAuthorizationURL(t *testing.T) {
	const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "&code_challenge_method=S256&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
	for endpoint, want := range map[string]string{
		"https://as.example/a":        "https://as.example/a?response_type=code&client_id=c",
		"https://as.example/a?tenant": "https://as.example/a?tenant&response_type=code&client_id=c",
	} {
		if got := AuthorizationURL(endpoint, "client_id=c", verifier); got != want+challenge {
			t.Errorf("got  %s\nwant %s", got, want+challenge)
		}
	}
	a, b := Verifier(), Verifier()
	if a == b || len(a) < 43 || len(a) > 128 {
		t.Error(a, b)
	}
}

// TestDeviceCode: the times of a code are bounded, also if the server says none or nonsense.
func TestDeviceCode(t *testing.T) {
	for answer, want := range map[string]DeviceCode{
		"": {Pause: 5 * time.Second, Life: 30 * time.Minute},
		`{"user_code":"u","device_code":"d","verification_uri":"p","verification_uri_complete":"l","interval":2,"expires_in":60}`: {"u", "p", "l", "d", 2 * time.Second, time.Minute},
		`{"user_code":7,"interval":0.1,"expires_in":-1}`:       {Pause: time.Second, Life: 30 * time.Minute},
		`{"interval":1e9,"expires_in":1e300,"device_code":[]}`: {Pause: time.Minute, Life: 30 * time.Minute},
	} {
		if got := Object(answer).DeviceCode(); got != want {
			t.Errorf("%s: %+v, want %+v", answer, got, want)
		}
	}
	d := DeviceCode{Pause: 5 * time.Second}
	d.Slower()
	d.Failed()
	if d.Pause != 20*time.Second {
		t.Error(d.Pause)
	}
	for range 5 {
		d.Slower()
		d.Failed()
	}
	if d.Pause != time.Minute {
		t.Error(d.Pause)
	}
}
