package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"

	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest"
	"github.com/dragoman-proxy/dragoman/proxy/tests/peertest/testset"
)

// guardedServer starts a server that requires OAuth tokens on a port, until stop. Its clients know it by a URL. mode is
// as in peers/guarded.mjs.
func guardedServer(t *testing.T, m modules, port, known, mode string) (stop func()) {
	t.Helper()
	node := exec.Command("node", filepath.Join("peers", "guarded.mjs"), string(m), port, known, mode)
	said := new(output)
	node.Stderr = said
	stdout, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	stop = func() { _ = node.Process.Kill(); _ = node.Wait() }
	if !bufio.NewScanner(stdout).Scan() {
		stop()
		t.Fatalf("the server does not listen: %s", said)
	}
	return stop
}

// login is the transcript of a client's login.
type login struct {
	Asked  []string // method, path and status of each request; "elsewhere" where it was not for the URL's origin
	Client string   // the id that it was registered with
	Text   string   // of the tool's result
}

// oauth returns the requests before the MCP messages. The messages may differ through the proxy, because the client may
// be of the other era.
func (l login) oauth() []string {
	return l.Asked[:1+slices.IndexFunc(l.Asked, func(s string) bool { return strings.HasSuffix(s, "/token 200") })]
}

func logIn(ctx context.Context, m modules, sdk, at string) (l login, err error) {
	switch sdk {
	case "Go":
		return goLogIn(ctx, at)
	case "steps of the Python SDK":
		return pythonLogIn(ctx, at)
	}
	node := exec.CommandContext(ctx, "node", filepath.Join("peers", "login.mjs"), string(m), sdk, at)
	stderr := new(bytes.Buffer)
	node.Stderr = stderr
	out, err := node.Output()
	if err != nil {
		return l, fmt.Errorf("%w: %s", err, stderr)
	}
	return l, json.Unmarshal(out, &l)
}

// askedWeb records the requests that go through it.
type askedWeb struct {
	of    string // the URL's origin
	asked []string
}

func (a *askedWeb) RoundTrip(req *http.Request) (*http.Response, error) {
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil || req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/mcp") && !strings.Contains(req.URL.Path, "/.well-known/") || req.Method == http.MethodDelete {
		return res, err // the answer to the GET of the stream may come at any time
	}
	where := req.URL.Path
	if req.URL.Scheme+"://"+req.URL.Host != a.of {
		where = "elsewhere " + where
	}
	a.asked = append(a.asked, fmt.Sprintf("%s %s %d", req.Method, where, res.StatusCode))
	return res, nil
}

// goLogIn logs in as clients with the Go SDK do.
func goLogIn(ctx context.Context, at string) (l login, err error) {
	const back = "http://127.0.0.1:1/callback"
	seen := &askedWeb{of: strings.TrimSuffix(at, "/mcp")}
	web := &http.Client{Transport: seen, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	handler, err := auth.NewAuthorizationCodeHandler(&auth.AuthorizationCodeHandlerConfig{
		RedirectURL: back, Client: web,
		DynamicClientRegistrationConfig: &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
			ClientName: "e2e", RedirectURIs: []string{back}, GrantTypes: []string{"authorization_code"}, TokenEndpointAuthMethod: "none",
		}},
		AuthorizationCodeFetcher: func(ctx context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) { // instead of a user that agrees
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, args.URL, nil)
			if err != nil {
				return nil, err
			}
			res, err := web.Do(req)
			if err != nil {
				return nil, err
			}
			res.Body.Close()
			to, err := res.Location()
			if err != nil {
				return nil, err
			}
			l.Client = req.URL.Query().Get("client_id")
			return &auth.AuthorizationResult{Code: to.Query().Get("code"), State: to.Query().Get("state")}, nil
		},
	})
	if err != nil {
		return l, err
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "e2e", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: at, HTTPClient: &http.Client{Transport: seen}, OAuthHandler: handler}, nil)
	if err != nil {
		return l, err
	}
	defer session.Close()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "whoami"})
	if err != nil {
		return l, err
	}
	l.Asked, l.Text = seen.asked, result.Content[0].(*mcp.TextContent).Text
	return l, nil
}

// pythonLogIn logs in by the steps of the Python SDK, in their order: https://github.com/modelcontextprotocol/python-sdk.
func pythonLogIn(ctx context.Context, at string) (l login, err error) {
	const back, verifier = "http://127.0.0.1:1/callback", "a-verifier-of-more-than-forty-three-characters-in-all"
	origin := strings.TrimSuffix(at, "/mcp")
	seen := &askedWeb{of: origin}
	web := &http.Client{Transport: seen, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(method, at, contentType, body, token string, into any) *http.Response {
		if err != nil {
			return nil
		}
		req, e := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
		if e != nil {
			err = e
			return nil
		}
		req.Header.Set("MCP-Protocol-Version", "2025-06-18")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if contentType != "" {
			req.Header.Set("Content-Type", contentType)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, e := web.Do(req)
		if e != nil {
			err = e
			return nil
		}
		defer res.Body.Close()
		if text, e := io.ReadAll(res.Body); e != nil {
			err = e
		} else if into != nil && res.StatusCode < 300 {
			err = json.Unmarshal(text, into)
		}
		return res
	}
	const begin = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"e2e","version":"1"}}}`
	res := ask("POST", at, "application/json", begin, "", nil)
	if err != nil {
		return l, err
	}
	_, named, _ := strings.Cut(res.Header.Get("WWW-Authenticate"), `resource_metadata="`)
	named, _, _ = strings.Cut(named, `"`)
	var resource struct {
		Servers []string `json:"authorization_servers"`
	}
	for _, place := range []string{named, origin + "/.well-known/oauth-protected-resource/mcp", origin + "/.well-known/oauth-protected-resource"} {
		if place != "" && resource.Servers == nil {
			ask("GET", place, "", "", "", &resource)
		}
	}
	if err != nil || len(resource.Servers) == 0 {
		return l, fmt.Errorf("no authorization server: %w", err)
	}
	var server struct {
		Authorize string `json:"authorization_endpoint"`
		Token     string `json:"token_endpoint"`
		Register  string `json:"registration_endpoint"`
	}
	issuer := strings.TrimSuffix(resource.Servers[0], "/")
	for _, place := range []string{"/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"} {
		if server.Token == "" {
			ask("GET", issuer+place, "", "", "", &server)
		}
	}
	var client struct {
		ID string `json:"client_id"`
	}
	ask("POST", server.Register, "application/json", `{"redirect_uris":["`+back+`"],"token_endpoint_auth_method":"none","grant_types":["authorization_code"],"response_types":["code"],"client_name":"e2e"}`, "", &client)
	sum := sha256.Sum256([]byte(verifier))
	res = ask("GET", server.Authorize+"?"+url.Values{"response_type": {"code"}, "client_id": {client.ID}, "redirect_uri": {back}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "resource": {at}}.Encode(), "", "", "", nil)
	if err != nil {
		return l, err
	}
	to, err := res.Location()
	if err != nil {
		return l, err
	}
	var tokens struct {
		Access string `json:"access_token"`
	}
	ask("POST", server.Token, "application/x-www-form-urlencoded", url.Values{"grant_type": {"authorization_code"}, "code": {to.Query().Get("code")}, "redirect_uri": {back},
		"client_id": {client.ID}, "code_verifier": {verifier}, "resource": {at}}.Encode(), "", &tokens)
	if res = ask("POST", at, "application/json", begin, tokens.Access, nil); err == nil && res.StatusCode != 200 {
		err = fmt.Errorf("status %d with a token", res.StatusCode)
	}
	l.Asked, l.Client, l.Text = seen.asked, client.ID, client.ID
	return l, err
}

// TestPublishedClientsLogInThroughServe checks that published clients log in through the proxy as they do at the server
// itself: with no setting but the server's own public URL, and with the same requests in the same order.
func TestPublishedClientsLogInThroughServe(t *testing.T) {
	testset.Need(t, testset.Peers)
	m := nodePeers(t)
	proxy := build(t)
	for _, c := range []struct{ mode, sdk string }{{"own", "1.32.2"}, {"own", "1.10.2"}, {"apart", "1.32.2"}, {"own", "Go"}, {"apart", "Go"}, {"own", "steps of the Python SDK"}, {"apart", "steps of the Python SDK"}} {
		t.Run(c.mode+" authorization server, "+c.sdk, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			port := freePort(t)
			at := "http://127.0.0.1:" + port + "/mcp"
			stop := guardedServer(t, m, port, at, c.mode)
			alone, err := logIn(ctx, m, c.sdk, at)
			stop()
			if err != nil {
				t.Fatalf("at the server itself: %v", err)
			}
			to := endpoint{over: streamable, url: at, stderr: &output{}}
			err = proxy.serve(ctx, streamable, to, nil, func(served endpoint) error {
				defer guardedServer(t, m, port, served.url, c.mode)()
				through, err := logIn(ctx, m, c.sdk, served.url)
				if err != nil {
					return err
				}
				if through.Text != through.Client || !slices.Equal(through.oauth(), alone.oauth()) {
					t.Errorf("%s for client %s; the requests were\n%s\nand at the server itself\n%s", through.Text, through.Client,
						strings.Join(through.Asked, "\n"), strings.Join(alone.Asked, "\n"))
				}
				return nil
			})
			if err != nil {
				t.Errorf("%v\n%s", err, to.stderr)
			}
		})
	}
}

// TestOldClientsLogInThroughServe checks that a client of 2025-03-26, which cannot log in at a server with another authorization
// server, does so through the proxy with oauth.old_clients.
func TestOldClientsLogInThroughServe(t *testing.T) {
	testset.Need(t, testset.Peers)
	m := nodePeers(t)
	proxy := build(t)
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	port := freePort(t)
	at := "http://127.0.0.1:" + port + "/mcp"
	stop := guardedServer(t, m, port, at, "lenient")
	_, err := logIn(ctx, m, "1.10.2", at)
	stop()
	if err == nil {
		t.Error("it logs in at the server itself: the setting is not needed")
	}
	to := endpoint{over: streamable, url: at, stderr: &output{}}
	err = proxy.serve(ctx, streamable, to, []string{"--config", config(t, "oauth: {old_clients: true}")}, func(served endpoint) error {
		defer guardedServer(t, m, port, served.url, "lenient")()
		through, err := logIn(ctx, m, "1.10.2", served.url)
		if err == nil && (through.Text == "" || through.Text != through.Client) {
			t.Errorf("%s for client %s", through.Text, through.Client)
		}
		return err
	})
	if err != nil {
		t.Errorf("%v\n%s", err, to.stderr)
	}
}

// freePort returns a port of 127.0.0.1 that the system gives to no other process until the test ends.
func freePort(t *testing.T) string {
	t.Helper()
	_, port, err := net.SplitHostPort(peertest.Port(t))
	if err != nil {
		t.Fatal(err)
	}
	return port
}
