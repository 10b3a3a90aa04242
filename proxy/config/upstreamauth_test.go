package config

import (
	"os"
	"strings"
	"testing"
	"time"
)

const notHere = "upstream.auth.redirect_uri: is not an http URL of this machine such as http://localhost:3334/oauth/callback"

// TestUpstreamAuth: what fits together, and the mistake otherwise.
func TestUpstreamAuth(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want string // the mistakes, one a line; "" for none
	}{
		"none":                 {`upstream: {url: https://s.example/mcp, auth: {type: none}}`, ""},
		"login":                {`upstream: {url: https://s.example/mcp, auth: {type: login, scopes: [a], resource: none, issuer: https://as.example}}`, ""},
		"secret of a variable": {`upstream: {url: https://s.example/mcp, auth: {type: client_credentials, client_id: a, client_secret: "${SECRET}"}}`, ""},
		"variable missing":     {`upstream: {url: https://s.example/mcp, auth: {type: client_credentials, client_id: a, client_secret: "${NONE}"}}`, "upstream.auth.client_secret: environment variable NONE is not set"},
		"unknown type":         {`upstream: {url: https://s.example/mcp, auth: {type: oauth}}`, `upstream.auth.type: "oauth" is not one of none, token_file, client_credentials, jwt_bearer, login`},
		"no file":              {`upstream: {url: https://s.example/mcp, auth: {type: token_file}}`, "upstream.auth.token_file: is missing"},
		"file of another type": {`upstream: {url: https://s.example/mcp, auth: {type: login, token_file: x}}`, "upstream.auth.token_file: applies only to type: token_file"},
		"no secret":            {`upstream: {url: https://s.example/mcp, auth: {type: client_credentials}}`, "upstream.auth.client_id: is missing\nupstream.auth.client_secret: is missing; set it, client_secret_file or key_file"},
		"assertion":            {`upstream: {url: https://s.example/mcp, auth: {type: jwt_bearer, assertion_file: a.jwt}}`, ""},
		"assertion and client": {`upstream: {url: https://s.example/mcp, auth: {type: jwt_bearer, assertion_file: a.jwt, client_id: a, key_file: k.pem}}`, ""},
		"no assertion":         {`upstream: {url: https://s.example/mcp, auth: {type: jwt_bearer, client_secret: b}}`, "upstream.auth.assertion_file: is missing\nupstream.auth.client_id: is missing; client_secret needs it"},
		"assertion of another": {`upstream: {url: https://s.example/mcp, auth: {type: login, assertion_file: a.jwt}}`, "upstream.auth.assertion_file: applies only to type: jwt_bearer"},
		"key":                  {`upstream: {url: https://s.example/mcp, auth: {type: client_credentials, client_id: a, key_file: k.pem, kid: b, key_audience: token_endpoint}}`, ""},
		"key of a document":    {`upstream: {url: https://s.example/mcp, auth: {type: login, client_metadata_url: https://c.example/m.json, key_file: k.pem}}`, ""},
		"key and secret":       {`upstream: {url: https://s.example/mcp, auth: {type: login, client_id: a, client_secret: b, key_file: k.pem}}`, "upstream.auth.key_file: cannot be set together with a client secret"},
		"key without id":       {`upstream: {url: https://s.example/mcp, auth: {type: login, key_file: k.pem}}`, "upstream.auth.client_id: is missing; key_file needs it"},
		"kid alone":            {`upstream: {url: https://s.example/mcp, auth: {type: login, kid: a}}`, "upstream.auth.kid: applies only with key_file"},
		"audience":             {`upstream: {url: https://s.example/mcp, auth: {type: login, client_id: a, key_file: k.pem, key_audience: me}}`, `upstream.auth.key_audience: "me" is neither issuer nor token_endpoint`},
		"two secrets":          {`upstream: {url: https://s.example/mcp, auth: {type: login, client_id: a, client_secret: b, client_secret_file: c}}`, "upstream.auth.client_secret: cannot be set together with client_secret_file"},
		"secret without id":    {`upstream: {url: https://s.example/mcp, auth: {type: login, client_secret: b}}`, "upstream.auth.client_id: is missing; client_secret needs it"},
		"command":              {`upstream: {command: [x], auth: {type: login}}`, "upstream.auth.type: login applies only to upstream.url"},
		"header as well":       {`upstream: {url: https://s.example/mcp, headers: {authorization: x}, auth: {type: login}}`, "upstream.auth.type: login cannot be set together with the Authorization in upstream.headers"},
		"protocol's param":     {`upstream: {url: https://s.example/mcp, auth: {type: login, params: {state: x}}}`, "upstream.auth.params: state is set by dragoman and cannot be configured"},
		"callback":             {`upstream: {url: https://s.example/mcp, auth: {type: login, redirect_uri: "http://localhost:3334/oauth/callback", client_name: Our Tool}}`, ""},
		"callback elsewhere":   {`upstream: {url: https://s.example/mcp, auth: {type: login, redirect_uri: "http://evil.example:3334/canary"}}`, notHere},
		"callback over TLS":    {`upstream: {url: https://s.example/mcp, auth: {type: login, redirect_uri: "https://localhost:3334/"}}`, notHere},
		"callback with query":  {`upstream: {url: https://s.example/mcp, auth: {type: login, redirect_uri: "http://localhost:3334/?canary=1"}}`, notHere},
		"callback with user":   {`upstream: {url: https://s.example/mcp, auth: {type: login, redirect_uri: "http://canary:b@localhost:3334/"}}`, notHere},
		"callback is a host":   {`upstream: {url: https://s.example/mcp, auth: {type: login, redirect_uri: "localhost:3334"}}`, notHere},
		"no port":              {`upstream: {url: https://s.example/mcp, auth: {type: login, redirect_uri: "http://localhost:70000/"}}`, notHere},
		"name in two lines":    {`upstream: {url: https://s.example/mcp, auth: {type: login, client_name: "a\nb"}}`, "upstream.auth.client_name: must have no line breaks"},
		"endpoints":            {`upstream: {url: https://s.example/mcp, auth: {type: login, client_id: a, token_endpoint: "https://as.example/t", authorization_endpoint: "https://as.example/a?b=c"}}`, ""},
		"token endpoint":       {`upstream: {url: https://s.example/mcp, auth: {type: client_credentials, client_id: a, client_secret: b, token_endpoint: "http://127.0.0.1:1/t"}}`, ""},
		"http endpoint":        {`upstream: {url: https://s.example/mcp, auth: {type: jwt_bearer, assertion_file: a, token_endpoint: "http://as.example/t?canary=1"}}`, `upstream.auth.token_endpoint: "http://as.example/t?…" is not an https URL; allow_http: true allows http`},
		"http is allowed":      {`upstream: {url: https://s.example/mcp, auth: {type: jwt_bearer, assertion_file: a, token_endpoint: "http://as.example/t", allow_http: true}}`, ""},
		"endpoint with user":   {`upstream: {url: https://s.example/mcp, auth: {type: jwt_bearer, assertion_file: a, token_endpoint: "https://canary:b@as.example/t"}}`, "upstream.auth.token_endpoint: is not an absolute URL without user and fragment"},
		"half of a login":      {`upstream: {url: https://s.example/mcp, auth: {type: login, client_id: a, token_endpoint: "https://as.example/t"}}`, "upstream.auth.authorization_endpoint: is missing; a login needs both endpoints, or the metadata of the authorization server"},
		"no client":            {`upstream: {url: https://s.example/mcp, auth: {type: login, token_endpoint: "https://as.example/t", authorization_endpoint: "https://as.example/a"}}`, "upstream.auth.client_id: is missing; token_endpoint needs it"},
		"no login":             {`upstream: {url: https://s.example/mcp, auth: {type: client_credentials, client_id: a, client_secret: b, authorization_endpoint: "https://as.example/a"}}`, "upstream.auth.authorization_endpoint: applies only to type: login"},
		"issuer":               {`upstream: {url: https://s.example/mcp, auth: {type: login, issuer: as.example}}`, `upstream.auth.issuer: "as.example" is not an https URL`},
		"resource":             {`upstream: {url: https://s.example/mcp, auth: {type: login, resource: nothing}}`, `upstream.auth.resource: "nothing" is neither a URI nor none`},
		"wait":                 {`upstream: {url: https://s.example/mcp, auth: {type: login, wait: 0s}}`, "upstream.auth.wait: must be greater than 0"},
		"old clients":          {`{upstream: {url: https://s.example/mcp}, oauth: {old_clients: true, relay: metadata}}`, ""},
		"old clients, none":    {`{upstream: {url: https://s.example/mcp}, oauth: {old_clients: true, relay: none}}`, "oauth.old_clients: applies only to upstream.url, with oauth.relay: metadata or oauth"},
		"old clients, command": {`{upstream: {command: [x]}, oauth: {old_clients: true}}`, "oauth.old_clients: applies only to upstream.url, with oauth.relay: metadata or oauth"},
		"rewriting":            {`{upstream: {url: https://s.example/mcp}, oauth: {rewrite: true, public_url: "https://us.example/mcp"}}`, ""},
		"rewriting nothing":    {`{upstream: {command: [x]}, oauth: {rewrite: true, public_url: "https://us.example/mcp"}}`, "oauth.rewrite: applies only to upstream.url, with oauth.relay: metadata or oauth"},
		"rewriting to what":    {`{upstream: {url: https://s.example/mcp}, oauth: {rewrite: true}}`, "oauth.public_url: is missing; oauth.rewrite needs it"},
		"rewrite with auth":    {`{upstream: {url: https://s.example/mcp, auth: {type: login}}, oauth: {rewrite: true, public_url: "https://us.example/mcp"}}`, "oauth.rewrite: cannot be set together with upstream.auth, with which clients do not log in"},
		"no public URL":        {`{upstream: {url: https://s.example/mcp}, oauth: {public_url: us.example}}`, `oauth.public_url: "us.example" is not an http or https URL without a query`},
		"every page":           {`{upstream: {url: https://s.example/mcp, auth: {type: login}}, cors: {origins: ["*"]}}`, "cors.origins: * lets every web page use the credentials in upstream; name the origins"},
		"claims":               {`{upstream: {url: https://s.example/mcp, auth: {type: login}}, bridge: {principal: "claim:sub"}}`, `bridge.principal: "claim:sub": the server cannot verify the claims, as it gets the credential of upstream.auth`},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir() + "/c.yaml"
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Sources{File: path, Environ: []string{"SECRET=canary-secret"}}.Read()
			got := ""
			if err != nil {
				got = err.Error()
			}
			if (c.want == "") != (got == "") {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for line := range strings.SplitSeq(c.want, "\n") {
				if !strings.Contains(got, line[strings.Index(line, ":")+1:]) || !strings.Contains(got, strings.SplitN(line, ":", 2)[0]) {
					t.Errorf("got  %s\nwant %s", got, line)
				}
			}
			if strings.Contains(got, "canary") {
				t.Error("a secret is told:", got)
			}
		})
	}
}

// TestSettingsByName: --oauth sets each setting of upstream.auth.
func TestSettingsByName(t *testing.T) {
	var u UpstreamAuth
	for name, value := range map[string]string{
		"client_id": "a", "client_secret": "b", "client_secret_file": "c", "client_metadata_url": "d", "issuer": "e", "resource": "f",
		"redirect_uri": "g", "profile": "h", "assume_pkce": "true", "allow_http": "1", "scopes": "read write,more", "wait": "9s",
		"params.prompt": "consent", "key_file": "i", "kid": "j", "key_audience": "k", "assertion_file": "l",
		"type": "m", "token_file": "n", "client_name": "o", "token_endpoint": "p", "authorization_endpoint": "q",
	} {
		if err := u.Set(name, value); err != nil {
			t.Error(name, err)
		}
	}
	if u.ClientID+u.ClientSecret+u.ClientSecretFile+u.ClientMetadataURL+u.Issuer+u.Resource+u.RedirectURI+u.Profile+u.KeyFile+u.Kid+u.KeyAudience+u.AssertionFile+u.Type+u.TokenFile+u.ClientName+u.TokenEndpoint+u.AuthorizationEndpoint != "abcdefghijklmnopq" ||
		!u.AssumePKCE || !u.AllowHTTP || strings.Join(u.Scopes, "+") != "read+write+more" || u.Wait != 9*time.Second || u.Params["prompt"] != "consent" {
		t.Errorf("%+v", u)
	}
	for name, want := range map[string]string{"nonsense": "is not one of allow_http", "assume_pkce": "true or false", "wait": "a duration"} {
		if err := u.Set(name, "x"); err == nil || !strings.Contains(err.Error(), want) {
			t.Error(name, err)
		}
	}
}
